/* The pure pipeline schedule of one stage in one epoch: which micro-batch may be received, computed
 * and sent next. Events go in, actions come out; it knows no clock, no bytes and no threads, so the
 * executor and the simulator run the same code. Nothing allocates after cv_schedule_create. One
 * thread at a time.
 *
 * A micro-batch passes free -> receiving -> ready -> computing -> sending -> free. It is known by
 * its sequence number, which owns slot seq mod S of each in-edge (S slots there) and output buffer
 * seq mod B (B = out_buffers). Credit is a window: a consumer grants an edge up to a limit, and
 * every seq below the limit may be sent. The oldest micro-batch owns its slot and its buffer, so
 * it can always move. Among those that may start, the oldest starts first. */
#ifndef CV_BASE_SCHEDULE_H
#define CV_BASE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum {
  CV_SLOT_FREE,      /* nothing has arrived (or all is done) */
  CV_SLOT_RECEIVING, /* at least one header came, not every payload */
  CV_SLOT_READY,     /* every input is complete */
  CV_SLOT_COMPUTING,
  CV_SLOT_SENDING /* computed; at least one out-edge has not been sent completely */
} cv_slot_state;

typedef struct {
  int slots; /* S >= 1, in the consumer */
  const char
      *name; /* who is at the other end, for cv_schedule_explain_text; may be NULL; borrowed */
} cv_schedule_in;

typedef struct {
  bool direct;      /* the kernel writes into the peer's slot: computing waits for the grant */
  const char *name; /* as above */
} cv_schedule_out;

typedef struct {
  int n_in, n_out; /* 0 in-edges: a source, fed by cv_schedule_offer; 0 out-edges: a sink */
  const cv_schedule_in *in;   /* [n_in], copied */
  const cv_schedule_out *out; /* [n_out], copied */
  int out_buffers;            /* B >= 1: micro-batches that are computing or sending at once */
  int64_t first_seq;          /* the epoch's first sequence number, >= 0 */
  int compute_ahead; /* micro-batches given out to compute at once, so that the next waits beside
                        the kernel and not behind a message; 0: 1. They compute in the order given
                        out */
} cv_schedule_config;

typedef enum {
  CV_SCHEDULE_GRANT,   /* tell the producer of in-edge `edge`: every seq < `seq` may be sent */
  CV_SCHEDULE_COMPUTE, /* compute `seq` now */
  CV_SCHEDULE_SEND     /* send `seq` on out-edge `edge` now */
} cv_schedule_kind;

typedef struct {
  cv_schedule_kind kind;
  int edge;
  int64_t seq;
} cv_schedule_action;

typedef struct cv_schedule cv_schedule;

/* CV_INVALID for a count or slot number below what the fields above allow. Owned by the caller. */
CV_NODISCARD cv_status cv_schedule_create(const cv_schedule_config *config,
                                          cv_schedule **out_schedule);
/* Accepts NULL. */
void cv_schedule_destroy(cv_schedule *schedule);

/* Events. Each is CV_CORRUPT, and changes nothing, when it cannot be: an edge that is not there, a
 * seq outside the window, the same thing twice, a completion of what was not begun. */

/* A header came on in-edge `edge`; gives the slot its payload goes to. */
CV_NODISCARD cv_status cv_schedule_on_header(cv_schedule *schedule, int edge, int64_t seq,
                                             int *out_slot);
/* The payload of that header is complete (also for a header without bytes). */
CV_NODISCARD cv_status cv_schedule_on_complete(cv_schedule *schedule, int edge, int64_t seq);
/* The consumer of out-edge `edge` takes every seq < limit; a limit below the known one is stale and
 * ignored. */
CV_NODISCARD cv_status cv_schedule_on_grant(cv_schedule *schedule, int edge, int64_t limit);
/* A micro-batch that was started is computed: its input slots are free. */
CV_NODISCARD cv_status cv_schedule_on_computed(cv_schedule *schedule, int64_t seq);
/* The send that was started is complete: its output buffer is no longer read for this edge. */
CV_NODISCARD cv_status cv_schedule_on_sent(cv_schedule *schedule, int edge, int64_t seq);
/* A source has every seq < limit ready to go. Only for n_in = 0. */
CV_NODISCARD cv_status cv_schedule_offer(cv_schedule *schedule, int64_t limit);

/* The next thing to do: true and the action, which the schedule then takes as begun; false when
 * there is none before the next event. Order: grants, sends (oldest first), computing. */
bool cv_schedule_next(cv_schedule *schedule, cv_schedule_action *out_action);

/* State of a micro-batch; CV_SLOT_FREE for those done and those not yet begun. */
cv_slot_state cv_schedule_state(const cv_schedule *schedule, int64_t seq);
/* Every seq below this one has left the stage. */
int64_t cv_schedule_done(const cv_schedule *schedule);
/* True when no micro-batch is between its first header and its last send. */
bool cv_schedule_idle(const cv_schedule *schedule);

typedef enum {
  CV_WAIT_INPUT,   /* no header on in-edge `edge` yet */
  CV_WAIT_PAYLOAD, /* header there, payload under way on in-edge `edge` */
  CV_WAIT_OFFER,   /* a source has nothing to send */
  CV_WAIT_TURN,    /* ready; another micro-batch computes */
  CV_WAIT_COMPUTE, /* it computes */
  CV_WAIT_GRANT,   /* no slot yet at the consumer of out-edge `edge` */
  CV_WAIT_SENT     /* it is being sent on out-edge `edge` */
} cv_schedule_wait_kind;

typedef struct {
  cv_schedule_wait_kind kind;
  int64_t seq; /* the oldest unfinished micro-batch */
  int edge;    /* -1 where no edge is meant */
} cv_schedule_wait;

/* What the oldest unfinished micro-batch waits for. */
void cv_schedule_explain(const cv_schedule *schedule, cv_schedule_wait *out_wait);
/* The same as a sentence, for a watchdog: "micro-batch 17 waits for a slot at stage 3". */
void cv_schedule_explain_text(const cv_schedule *schedule, char *text, size_t size);

/* What the compute lane does now, for the lanes of the report. */
typedef enum {
  CV_LANE_COMPUTE,
  CV_LANE_BLOCKED_RECEIVE, /* bytes are under way */
  CV_LANE_BLOCKED_SEND,    /* a micro-batch is ready, but has no output buffer or no slot */
  CV_LANE_STARVED          /* nothing has come */
} cv_schedule_lane_cause;

/* Call it when cv_schedule_next has no more actions. */
cv_schedule_lane_cause cv_schedule_lane(const cv_schedule *schedule);

#endif
