#include "coordinator/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECOND ((int64_t)1000000000)

/* How long members may take in a phase; running takes as long as it takes. */
static const struct {
  const char *text;
  int64_t limit_ns;
} phases[] = {
    [CV_PHASE_GATHER] = {"waiting for the members of the job", 60 * SECOND},
    [CV_PHASE_PLAN] = {"making the plan", INT64_MAX},
    [CV_PHASE_PREPARE] = {"waiting for the stages to be loaded", 600 * SECOND},
    [CV_PHASE_RUN] = {"running the requests", INT64_MAX},
    [CV_PHASE_UNLOAD] = {"waiting for the stages to be unloaded", 60 * SECOND},
    [CV_PHASE_STOP] = {"waiting for the members to end", 3 * SECOND},
    [CV_PHASE_END] = {"ended", INT64_MAX},
};
#define SILENT_NS (20 * SECOND) /* without an answer to a ping a member is lost */
#define PING_NS SECOND
/* Neighbours may see a lost member before its own link says so: a member that only lost another one
 * waits so long for the cause to be named. Less than such a member waits for STOP (link.c). */
#define SUSPECT_NS (SECOND / 2)

/* One step: what it works on. */
typedef struct {
  cv_state *state;
  const cv_event *event;
  cv_actions *actions;
  bool nomem;
} step;

cv_status cv_state_init(cv_state *state, const cv_job *job, int64_t now_ns) {
  *state = (cv_state){.job = *job, .since_ns = now_ns};
  if (job->workers < 1 || job->workers > CV_JOB_WORKERS || job->plans < 1)
    return cv_error(CV_INVALID, "a job of %u workers and %u plans: give 1 to %d workers, a plan",
                    job->workers, job->plans, CV_JOB_WORKERS);
  state->members = cv_alloc(job->workers + 1, sizeof *state->members);
  if (!state->members) return cv_error_nomem((job->workers + 1) * sizeof *state->members);
  for (uint32_t i = 0; i <= job->workers; i++) {
    cv_member *member = &state->members[i];
    member->conn = -1;
    if (i < job->workers)
      snprintf(member->name, sizeof member->name, "rank %u", i);
    else
      snprintf(member->name, sizeof member->name, "the gateway");
  }
  return CV_OK;
}

void cv_state_deinit(cv_state *state) {
  cv_free(state->members);
  *state = (cv_state){0};
}

static cv_member *gateway(const cv_state *state) { return &state->members[state->job.workers]; }

static void act(step *s, const cv_action *action) {
  if (!cv_vec_push(s->actions, *action)) s->nomem = true;
}

static void send_msg(step *s, int conn, const cv_msg *msg) {
  if (conn >= 0) act(s, &(cv_action){.kind = CV_ACTION_SEND, .conn = conn, .msg = *msg});
}

static void send_all(step *s, const cv_msg *msg) {
  for (uint32_t i = 0; i <= s->state->job.workers; i++) {
    cv_member *member = &s->state->members[i];
    if (member->joined && !member->gone) send_msg(s, member->conn, msg);
  }
}

static void enter(step *s, cv_phase phase) {
  s->state->phase = phase;
  s->state->since_ns = s->event->now_ns;
  for (uint32_t i = 0; i <= s->state->job.workers; i++) s->state->members[i].ready = false;
  if (phase == CV_PHASE_END) act(s, &(cv_action){.kind = CV_ACTION_END});
}

/* Who has not joined yet is waited for too: it comes to hear how the job ended. */
static void end_when_alone(step *s) {
  for (uint32_t i = 0; i <= s->state->job.workers; i++)
    if (!s->state->members[i].gone) return;
  enter(s, CV_PHASE_END);
}

static void stop(step *s) {
  cv_state *state = s->state;
  send_all(s, &(cv_msg){.kind = CV_MSG_STOP,
                        .stop = {.code = (uint32_t)state->verdict, .text = state->text}});
  enter(s, CV_PHASE_STOP);
  end_when_alone(s);
}

/* The job ends with this status, for the reason that is in `text`. */
static void judge(step *s, cv_status status) {
  bool stops = s->state->phase >= CV_PHASE_STOP;
  s->state->verdict = status;
  if (!stops) stop(s);
}

/* The job ends with this; the first failure is the verdict. While members end well already only the
 * shell can fail (results that cannot be written). */
__attribute__((format(printf, 3, 4))) static void fail(step *s, cv_status status,
                                                       const char *format, ...) {
  cv_state *state = s->state;
  bool stops = state->phase >= CV_PHASE_STOP;
  if (stops && (state->verdict != CV_OK || s->event->kind != CV_EVENT_FAILED)) return;
  va_list args;
  va_start(args, format);
  vsnprintf(state->text, sizeof state->text, format, args);
  va_end(args);
  judge(s, status);
}

/* A status that came as a number: never CV_OK, never unknown. */
static cv_status status_of(uint32_t code) {
  return code > CV_OK && code <= CV_TIMEOUT ? (cv_status)code : CV_FAILED;
}

/* ---- time ---- */

static void ask_time(step *s, cv_member *member) {
  member->ping_open = true;
  member->asked_ns = s->event->now_ns;
  send_msg(
      s, member->conn,
      &(cv_msg){.kind = CV_MSG_PING, .ping = {.id = ++member->ping_id, .sent = s->event->now_ns}});
}

static void watch(step *s, cv_member *member) {
  int64_t passed = s->event->now_ns - member->asked_ns;
  if (!member->joined || member->gone) return;
  if (member->ping_open && passed > SILENT_NS)
    fail(s, CV_PEER_LOST,
         "%s (process %u) has not answered for %d s: it hangs, or its host is gone", member->name,
         member->pid, (int)(SILENT_NS / SECOND));
  else if (!member->ping_open && passed >= PING_NS)
    ask_time(s, member);
}

/* Names of those who are waited for, as far as there is room. */
static void waited_for(const cv_state *state, cv_str *out) {
  const char *before = "";
  for (uint32_t i = 0; i <= state->job.workers; i++) {
    const cv_member *member = &state->members[i];
    bool waits = state->phase == CV_PHASE_GATHER
                     ? !member->joined || member->pings < CV_JOB_FIRST_PINGS
                 : state->phase == CV_PHASE_STOP ? !member->gone
                 : state->phase == CV_PHASE_RUN  ? member == gateway(state)
                                                 : !member->ready;
    if (!waits || state->phase == CV_PHASE_END || state->phase == CV_PHASE_PLAN) continue;
    cv_str_add(out, "%s%s", before, member->name);
    before = ", ";
  }
}

void cv_state_describe(const cv_state *state, cv_str *out) {
  cv_str_add(out, "%s; waits for: ", phases[state->phase].text);
  waited_for(state, out);
}

static void tick(step *s) {
  cv_state *state = s->state;
  for (uint32_t i = 0; i <= state->job.workers; i++) watch(s, &state->members[i]);
  if (state->suspects && state->phase < CV_PHASE_STOP &&
      s->event->now_ns - state->suspected_ns >= SUSPECT_NS)
    judge(s, CV_PEER_LOST);
  int64_t limit = phases[state->phase].limit_ns;
  if (s->event->now_ns - state->since_ns <= limit) return;
  if (state->phase == CV_PHASE_STOP) {
    enter(s, CV_PHASE_END);
    return;
  }
  cv_str who = {0};
  waited_for(state, &who);
  fail(s, CV_TIMEOUT, "%s: after %d s %.3000s is not there", phases[state->phase].text,
       (int)(limit / SECOND), cv_str_text(&who));
  cv_str_deinit(&who);
}

/* ---- the course of a job ---- */

static void begin_plan(step *s) {
  enter(s, CV_PHASE_PLAN);
  act(s, &(cv_action){.kind = CV_ACTION_PLAN, .number = s->state->plan});
}

static void planned(step *s) {
  cv_state *state = s->state;
  if (state->phase != CV_PHASE_PLAN) return;
  if (s->event->status != CV_OK) {
    fail(s, s->event->status, "%s", s->event->text);
    return;
  }
  enter(s, CV_PHASE_PREPARE);
  for (uint32_t i = 0; i <= state->job.workers; i++)
    act(s, &(cv_action){.kind = CV_ACTION_SEND_PREPARE, .conn = state->members[i].conn});
}

static bool all_ready(const cv_state *state) {
  for (uint32_t i = 0; i <= state->job.workers; i++)
    if (!state->members[i].ready) return false;
  return true;
}

static void run(step *s) {
  cv_state *state = s->state;
  enter(s, CV_PHASE_RUN);
  state->folder[0] = 0;
  if (state->job.folders) snprintf(state->folder, sizeof state->folder, "plan_%u", state->plan);
  send_msg(
      s, gateway(state)->conn,
      &(cv_msg){.kind = CV_MSG_RUN, .run = {.number = state->plan + 1, .folder = state->folder}});
}

static void unload(step *s) {
  enter(s, CV_PHASE_UNLOAD);
  send_all(s, &(cv_msg){.kind = CV_MSG_UNLOAD, .unload = {.number = s->state->plan + 1}});
}

static void finish_plan(step *s) {
  act(s, &(cv_action){.kind = CV_ACTION_RESULTS, .number = s->state->plan});
  if (++s->state->plan < s->state->job.plans)
    begin_plan(s);
  else
    stop(s);
}

/* ---- messages ---- */

/* Takes as long whatever the difference is. */
static bool same_token(const char *a, const char *b) {
  size_t n = strlen(a), different = n ^ strlen(b);
  for (size_t i = 0; i < n && i < strlen(b); i++) different |= (size_t)(a[i] ^ b[i]);
  return different == 0;
}

static void hello(step *s) {
  cv_state *state = s->state;
  const cv_msg_hello *h = &s->event->msg->hello;
  if (!same_token(state->job.token, h->token) || state->phase != CV_PHASE_GATHER ||
      h->member > state->job.workers || state->members[h->member].joined) {
    act(s, &(cv_action){.kind = CV_ACTION_DROP, .conn = s->event->conn});
    return;
  }
  cv_member *member = &state->members[h->member];
  bool is_gateway = member == gateway(state);
  member->joined = true;
  member->conn = s->event->conn;
  member->pid = h->pid;
  snprintf(member->host, sizeof member->host, "%s", h->host);
  if (is_gateway)
    snprintf(member->name, sizeof member->name, "the gateway on %s", h->host);
  else
    snprintf(member->name, sizeof member->name, "rank %u on %s", h->member, h->host);
  if (strcmp(h->version, CUVIL_VERSION) != 0)
    fail(s, CV_VERSION, "%s runs cuvil %s, the coordinator " CUVIL_VERSION ": use one version",
         member->name, h->version);
  else if (h->size != state->job.workers)
    fail(s, CV_INVALID, "%s was started for a job of %u workers, this one has %u", member->name,
         h->size, state->job.workers);
  else if (strcmp(h->artifact, state->job.artifact) != 0)
    fail(s, CV_INVALID,
         "%s has another artifact (program %s) than the coordinator (program %s): give all hosts "
         "the same file",
         member->name, h->artifact, state->job.artifact);
  if (state->phase != CV_PHASE_GATHER) return;
  act(s, &(cv_action){.kind = CV_ACTION_KEEP, .member = h->member});
  ask_time(s, member);
}

/* A member that cannot take part: it ends, and the job with it. */
static void absent(step *s) {
  cv_state *state = s->state;
  const cv_msg_absent *a = &s->event->msg->absent;
  bool ours = same_token(state->job.token, a->token) && a->member <= state->job.workers;
  if (ours)
    send_msg(s, s->event->conn,
             &(cv_msg){.kind = CV_MSG_STOP, .stop = {.code = status_of(a->code), .text = ""}});
  act(s, &(cv_action){.kind = CV_ACTION_DROP, .conn = s->event->conn});
  if (!ours) return;
  if (!state->members[a->member].joined) state->members[a->member].gone = true;
  if (state->phase >= CV_PHASE_STOP)
    end_when_alone(s);
  else if (a->member == state->job.workers)
    fail(s, status_of(a->code), "the gateway on %s: %s", a->host, a->text);
  else
    fail(s, status_of(a->code), "rank %u on %s: %s", a->member, a->host, a->text);
}

static void pong(step *s, cv_member *member) {
  const cv_msg_pong *p = &s->event->msg->pong;
  if (!member->ping_open || p->id != member->ping_id) return;
  member->ping_open = false;
  member->ring[member->pings++ % CV_JOB_PINGS] =
      (cv_clock_ping){p->sent, p->received, p->answered, s->event->now_ns};
  if (member->pings < CV_JOB_FIRST_PINGS) {
    ask_time(s, member);
    return;
  }
  if (s->state->phase != CV_PHASE_GATHER) return;
  for (uint32_t i = 0; i <= s->state->job.workers; i++)
    if (s->state->members[i].pings < CV_JOB_FIRST_PINGS) return;
  begin_plan(s);
}

static void unexpected(step *s, const cv_member *member) {
  fail(s, CV_CORRUPT, "%s sent %s while the job is %s", member->name,
       cv_msg_name(s->event->msg->kind), phases[s->state->phase].text);
}

/* PREPARED, UNLOADED: the member has done its part of this phase. */
static void ready(step *s, cv_member *member, cv_phase phase, uint32_t number) {
  if (s->state->phase != phase || number != s->state->plan + 1) {
    unexpected(s, member);
    return;
  }
  member->ready = true;
  if (!all_ready(s->state)) return;
  if (phase == CV_PHASE_PREPARE)
    run(s);
  else
    finish_plan(s);
}

/* FAILED, REFUSED: a loss may be the echo of another member's end. */
static void failed(step *s, const cv_member *member, uint32_t code, const char *text) {
  cv_state *state = s->state;
  if (code != CV_PEER_LOST) {
    fail(s, status_of(code), "%s: %s", member->name, text);
  } else if (!state->suspects) {
    state->suspects = true;
    state->suspected_ns = s->event->now_ns;
    snprintf(state->text, sizeof state->text, "%s: %s", member->name, text);
  }
}

static void keep(step *s, const cv_member *member, bool expected) {
  if (expected)
    act(s, &(cv_action){.kind = CV_ACTION_KEEP, .member = (uint32_t)(member - s->state->members)});
  else
    unexpected(s, member);
}

static void from_member(step *s, cv_member *member) {
  cv_state *state = s->state;
  const cv_msg *msg = s->event->msg;
  switch (msg->kind) {
    case CV_MSG_PONG: pong(s, member); break;
    case CV_MSG_PREPARED: ready(s, member, CV_PHASE_PREPARE, msg->prepared.number); break;
    case CV_MSG_UNLOADED: ready(s, member, CV_PHASE_UNLOAD, msg->unloaded.number); break;
    case CV_MSG_REFUSED: failed(s, member, msg->refused.code, msg->refused.text); break;
    case CV_MSG_FAILED: failed(s, member, msg->failed.code, msg->failed.text); break;
    case CV_MSG_DONE:
      keep(s, member, state->phase == CV_PHASE_RUN && member == gateway(state));
      if (state->phase == CV_PHASE_RUN) unload(s);
      break;
    case CV_MSG_TIMES: keep(s, member, state->phase == CV_PHASE_UNLOAD); break;
    case CV_MSG_TRACE:
    case CV_MSG_STALLED: keep(s, member, true); break;
    default: unexpected(s, member); break;
  }
}

static cv_member *member_of(const cv_state *state, int conn) {
  for (uint32_t i = 0; i <= state->job.workers; i++)
    if (state->members[i].conn == conn) return &state->members[i];
  return NULL;
}

/* While members end: one that comes only now hears so; what else comes is no longer needed. */
static void late(step *s) {
  cv_state *state = s->state;
  const cv_msg *msg = s->event->msg;
  if (msg->kind == CV_MSG_ABSENT) absent(s);
  if (msg->kind != CV_MSG_HELLO || !same_token(state->job.token, msg->hello.token)) return;
  if (msg->hello.member <= state->job.workers && !state->members[msg->hello.member].joined) {
    state->members[msg->hello.member].joined = true;
    state->members[msg->hello.member].conn = s->event->conn;
  }
  send_msg(s, s->event->conn,
           &(cv_msg){.kind = CV_MSG_STOP, .stop = {.code = state->verdict, .text = ""}});
}

static void message(step *s) {
  cv_member *member = member_of(s->state, s->event->conn);
  if (s->state->phase >= CV_PHASE_STOP)
    late(s);
  else if (member)
    from_member(s, member);
  else if (s->event->msg->kind == CV_MSG_HELLO)
    hello(s);
  else if (s->event->msg->kind == CV_MSG_ABSENT)
    absent(s);
  else
    act(s, &(cv_action){.kind = CV_ACTION_DROP, .conn = s->event->conn});
}

static void left(step *s) {
  cv_member *member = member_of(s->state, s->event->conn);
  if (!member) return;
  member->gone = true;
  member->conn = -1;
  if (s->state->phase < CV_PHASE_STOP)
    fail(s, CV_PEER_LOST, "%s (process %u) is gone: %s", member->name, member->pid,
         s->event->text ? s->event->text : "it closed its control link");
  else if (s->state->phase == CV_PHASE_STOP)
    end_when_alone(s);
}

cv_status cv_state_step(cv_state *state, const cv_event *event, cv_actions *actions) {
  step s = {.state = state, .event = event, .actions = actions};
  switch (event->kind) {
    case CV_EVENT_MESSAGE: message(&s); break;
    case CV_EVENT_LEFT: left(&s); break;
    case CV_EVENT_TICK: tick(&s); break;
    case CV_EVENT_PLANNED: planned(&s); break;
    case CV_EVENT_FAILED: fail(&s, event->status, "%s", event->text); break;
  }
  return s.nomem ? cv_error_nomem(sizeof(cv_action)) : CV_OK;
}
