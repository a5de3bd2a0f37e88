/* The coordinator of a job as one function (state, event) -> (state, actions): no clock, no files,
 * no sockets. Members are the workers by rank and, as the last, the gateway. A job gathers its
 * members, then for each plan: plan, prepare, run, unload; then it stops them.
 *
 * Whatever fails ends the job with one status and sentence (the verdict), which members get with
 * STOP. One thread. */
#ifndef CV_COORDINATOR_STATE_H
#define CV_COORDINATOR_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/vec.h"
#include "coordinator/messages.h"
#include "runtime/trace.h"

enum {
  CV_JOB_WORKERS = 1024, /* most */
  CV_JOB_PINGS = 64,     /* kept of a member, the newest */
  CV_JOB_FIRST_PINGS = 16,
};

typedef enum {
  CV_PHASE_GATHER,  /* members join and their clocks are read */
  CV_PHASE_PLAN,    /* the plan is being made (cv_action PLAN) */
  CV_PHASE_PREPARE, /* members load it */
  CV_PHASE_RUN,
  CV_PHASE_UNLOAD,
  CV_PHASE_STOP, /* members end */
  CV_PHASE_END,
} cv_phase;

typedef struct {
  bool joined, gone; /* gone: its link has closed, or it said that it will not join */
  bool ready;        /* has done what this phase asks of it */
  int conn;          /* its connection, -1 without one */
  char name[300];    /* "rank 1 on h2", "the gateway on h1" */
  char host[256];
  uint32_t pid, pings; /* pings: answered ones, of all */
  uint64_t ping_id;    /* the last one asked */
  bool ping_open;      /* and not answered yet */
  int64_t asked_ns;
  cv_clock_ping ring[CV_JOB_PINGS];
} cv_member;

/* What a job is; texts outlive the state. */
typedef struct {
  uint32_t workers, plans;
  const char *token;    /* that members must give */
  const char *artifact; /* hash, as theirs must be */
  bool folders;         /* answers of plan K go to the folder plan_K */
} cv_job;

typedef struct {
  cv_job job;
  cv_phase phase;
  uint32_t plan;      /* the current one, from 0; its epoch number is one more */
  int64_t since_ns;   /* begin of the phase */
  cv_member *members; /* [workers + 1] */
  cv_status verdict;  /* CV_OK while all is well */
  char text[4400];    /* and its sentence, or the suspicion's */
  bool suspects;      /* a member says that it lost another one; is it the cause? */
  int64_t suspected_ns;
  char folder[24];
} cv_state;

typedef enum {
  CV_EVENT_MESSAGE, /* conn, msg */
  CV_EVENT_LEFT,    /* conn: its link has closed; text says why */
  CV_EVENT_TICK,    /* time has passed */
  CV_EVENT_PLANNED, /* answer to PLAN: status and text */
  CV_EVENT_FAILED,  /* the shell cannot go on (results not written, a signal): status and text */
} cv_event_kind;

typedef struct {
  cv_event_kind kind;
  int64_t now_ns;
  int conn;
  const cv_msg *msg;
  cv_status status;
  const char *text;
} cv_event;

typedef enum {
  CV_ACTION_SEND,         /* msg to conn */
  CV_ACTION_SEND_PREPARE, /* the plan made last, to conn */
  CV_ACTION_DROP,         /* close conn when all is sent */
  CV_ACTION_KEEP,         /* this event's message belongs to the results: from `member` */
  CV_ACTION_PLAN,         /* make plan number `number`, then give PLANNED */
  CV_ACTION_RESULTS,      /* all results of plan `number` are there: write and show them */
  CV_ACTION_END,          /* the job has ended with the verdict */
} cv_action_kind;

typedef struct {
  cv_action_kind kind;
  int conn;
  uint32_t member, number;
  cv_msg msg; /* texts are the state's or literals */
} cv_action;

typedef cv_vec(cv_action) cv_actions;

/* CV_INVALID: no workers, too many, no plans. CV_NOMEM. */
CV_NODISCARD cv_status cv_state_init(cv_state *state, const cv_job *job, int64_t now_ns);
void cv_state_deinit(cv_state *state); /* accepts zeroed */
/* Takes an event; appends what is to be done, in order. CV_NOMEM: the state is lost. */
CV_NODISCARD cv_status cv_state_step(cv_state *state, const cv_event *event, cv_actions *actions);
/* "phase; who is waited for", for sentences and tests. */
void cv_state_describe(const cv_state *state, cv_str *out);

#endif
