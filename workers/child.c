#include "workers/child.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/queue.h"
#include "coordinator/link.h"
#include "runtime/artifact.h"
#include "runtime/executor.h"

#define CONNECT_NS ((int64_t)20000000000)
enum {
  STAGES = 256,         /* most of one worker in one plan */
  TURN_MS = 100,        /* most time between two looks at the trace */
  TRACE_EVENTS = 65536, /* a thread keeps between those */
  TEXT = 1024,
};

typedef struct child child;

/* A stage of the current plan. Below the line: written by the executor's thread, under the lock. */
typedef struct {
  child *child;
  cv_stage *stage;
  uint32_t index; /* in the plan */
  bool told_loaded, told_stalled;
  /* -- */
  bool loaded, unloaded, stalled;
  cv_stage_report report;
  cv_status status; /* of loading, or why it stands still */
  cv_status error;  /* of a micro-batch */
  char text[TEXT], error_text[TEXT], stalled_text[TEXT];
} slot;

struct child {
  const cv_worker_options *options;
  cv_msg_hello hello;
  char host[256];
  cv_artifact *artifact;
  cv_executor *executor;
  cv_link *link;
  cv_queue *news; /* wakes the main thread */
  pthread_mutex_t lock;
  slot slots[STAGES];
  uint32_t n_slots, number; /* of the plan; 0: none */
  bool prepared, unloading;
  uint64_t dropped; /* trace events that were told to be lost */
  bool stopped;
  cv_status stop;
};

/* ---- callbacks: the executor's thread ---- */

static slot *enter(void *arg) {
  slot *at = arg;
  pthread_mutex_lock(&at->child->lock);
  return at;
}

static void leave(slot *at) {
  pthread_mutex_unlock(&at->child->lock);
  /* full: the main thread is awake anyway, and looks at all slots */
  cv_status status = cv_queue_push(at->child->news, at);
  (void)status;
}

static void on_loaded(void *arg, cv_stage *stage, cv_status status, const char *text) {
  slot *at = enter(arg);
  (void)stage;
  at->loaded = true;
  at->status = status;
  snprintf(at->text, sizeof at->text, "%s", text);
  leave(at);
}

static void on_failed(void *arg, cv_stage *stage, cv_status status, const char *text) {
  slot *at = enter(arg);
  (void)stage;
  at->status = status;
  snprintf(at->text, sizeof at->text, "%s", text);
  leave(at);
}

static void on_error(void *arg, cv_stage *stage, uint64_t seq, cv_status status, const char *text) {
  slot *at = enter(arg);
  (void)stage;
  if (at->error == CV_OK) {
    at->error = status;
    snprintf(at->error_text, sizeof at->error_text, "stage %u, micro-batch %" PRIu64 ": %s",
             at->index, seq, text);
  }
  leave(at);
}

static void on_stalled(void *arg, cv_stage *stage, const char *text) {
  slot *at = enter(arg);
  (void)stage;
  at->stalled = true;
  snprintf(at->stalled_text, sizeof at->stalled_text, "%s", text);
  leave(at);
}

static void on_unloaded(void *arg, cv_stage *stage) {
  slot *at = enter(arg);
  cv_stage_read(stage, &at->report); /* complete only now: its last send has ended */
  at->unloaded = true;
  leave(at);
}

/* ---- what the coordinator asks for ---- */

static cv_status say_status(child *c, bool refused, cv_status status, const char *text) {
  char shortened[4096];
  snprintf(shortened, sizeof shortened, "%s", text);
  cv_msg msg = {.kind = CV_MSG_FAILED, .failed = {.code = (uint32_t)status, .text = shortened}};
  if (refused)
    msg = (cv_msg){.kind = CV_MSG_REFUSED,
                   .refused = {.number = c->number, .code = (uint32_t)status, .text = shortened}};
  return cv_link_send(c->link, &msg);
}

static cv_status load_stage(child *c, const cv_msg_prepare *p, uint32_t index,
                            const cv_edges *edges, cv_edge_peer *peers) {
  const cv_msg_stage *stage = &p->stages[index];
  char name[64];
  if (c->n_slots == STAGES)
    return cv_error(CV_INFEASIBLE, "more than %d stages on one worker", STAGES);
  slot *at = &c->slots[c->n_slots];
  *at = (slot){.child = c, .index = index};
  snprintf(name, sizeof name, "stage %u of %u", index, p->n_stages);
  cv_status status = cv_prepare_peers(p, (int)index, peers);
  if (status != CV_OK) return status;
  cv_stage_spec spec = {.name = name,
                        .deployment = p->deployment,
                        .epoch = {p->term, p->number},
                        .index = (int)index,
                        .artifact = c->artifact,
                        .edges = edges,
                        .peers = peers,
                        .span = {stage->first, stage->last},
                        .device = {.name = stage->device,
                                   .kind = stage->kind,
                                   .threads = stage->threads > 0 ? (int)stage->threads : 1,
                                   .memory = stage->memory,
                                   .pace_us = stage->pace_us,
                                   .pace_us_per_step = stage->pace_us_per_step}};
  cv_stage_events events = {.arg = at,
                            .on_loaded = on_loaded,
                            .on_failed = on_failed,
                            .on_error = on_error,
                            .on_stalled = on_stalled,
                            .on_unloaded = on_unloaded};
  status = cv_executor_load(c->executor, &spec, &events, &at->stage);
  if (status == CV_OK) c->n_slots++;
  return status;
}

static cv_status prepare(child *c, const cv_msg_prepare *p) {
  cv_edges edges = {0};
  cv_edge_peer *peers = NULL;
  if (c->number) return cv_error(CV_CORRUPT, "PREPARE came while plan %u is loaded", c->number);
  c->number = p->number;
  c->n_slots = 0;
  c->prepared = c->unloading = false;
  cv_status status = cv_prepare_edges(p, cv_artifact_program(c->artifact), &edges);
  if (status == CV_OK) peers = cv_alloc(edges.n_edges + 1, sizeof *peers);
  if (status == CV_OK && !peers) status = cv_error_nomem(edges.n_edges * sizeof *peers);
  for (uint32_t i = 0; i < p->n_stages && status == CV_OK; i++)
    if (p->stages[i].member == (uint32_t)c->options->rank)
      status = load_stage(c, p, i, &edges, peers);
  cv_free(peers);
  cv_edges_deinit(&edges);
  return status == CV_OK ? CV_OK : say_status(c, true, status, cv_error_text());
}

static cv_status send_times(child *c) {
  cv_msg_stage_times *times = cv_alloc(c->n_slots + 1, sizeof *times);
  if (!times) return cv_error_nomem(c->n_slots * sizeof *times);
  for (uint32_t i = 0; i < c->n_slots; i++) {
    const cv_stage_report *r = &c->slots[i].report; /* written no more */
    const cv_stage_times *t = &r->times;
    times[i] = (cv_msg_stage_times){.stage = c->slots[i].index,
                                    .micro_batches = t->micro_batches,
                                    .wall = t->wall_ns,
                                    .compute = t->compute_ns[CV_TIME_COMPUTE],
                                    .blocked_receive = t->compute_ns[CV_TIME_BLOCKED_RECEIVE],
                                    .blocked_send = t->compute_ns[CV_TIME_BLOCKED_SEND],
                                    .starved = t->compute_ns[CV_TIME_STARVED],
                                    .other = t->compute_ns[CV_TIME_OTHER],
                                    .send = t->comm_ns[CV_TIME_SEND],
                                    .receive = t->comm_ns[CV_TIME_RECEIVE],
                                    .idle = t->comm_ns[CV_TIME_IDLE],
                                    .weight_bytes = r->memory.weights,
                                    .arena_bytes = r->memory.arena,
                                    .slot_bytes = r->slot_bytes};
  }
  cv_msg msg = {.kind = CV_MSG_TIMES,
                .times = {.number = c->number, .stages = times, .n_stages = c->n_slots}};
  cv_status status = cv_link_send(c->link, &msg);
  cv_free(times);
  return status;
}

static cv_status unload(child *c, const cv_msg_unload *msg) {
  if (msg->number != c->number || c->unloading)
    return cv_error(CV_CORRUPT, "UNLOAD of plan %u came, but plan %u is loaded", msg->number,
                    c->number);
  c->unloading = true;
  for (uint32_t i = 0; i < c->n_slots; i++) cv_stage_unload(c->slots[i].stage, false);
  return CV_OK;
}

static cv_status take(child *c, const cv_msg *msg) {
  switch (msg->kind) {
    case CV_MSG_PREPARE: return prepare(c, &msg->prepare);
    case CV_MSG_UNLOAD: return unload(c, &msg->unload);
    case CV_MSG_STOP:
      c->stopped = true;
      c->stop = msg->stop.code <= CV_TIMEOUT ? (cv_status)msg->stop.code : CV_FAILED;
      return CV_OK;
    default:
      return cv_error(CV_CORRUPT, "the coordinator sent %s, which is not for workers",
                      cv_msg_name(msg->kind));
  }
}

/* ---- what it is told ---- */

static cv_status send_trace(child *c) {
  cv_trace_event events[CV_LINK_TRACE_CHUNK];
  if (!c->options->trace) return CV_OK;
  for (;;) {
    size_t count = cv_executor_trace(c->executor, events, CV_LINK_TRACE_CHUNK);
    uint64_t lost = cv_executor_trace_dropped(c->executor) - c->dropped;
    if (count == 0 && lost == 0) return CV_OK;
    c->dropped += lost;
    cv_status status = cv_link_send_trace(c->link, events, count, lost);
    if (status != CV_OK) return status;
  }
}

/* News of one stage; how far it is. */
static cv_status tell_stage(child *c, slot *at, bool *out_loaded, bool *out_unloaded) {
  pthread_mutex_lock(&c->lock);
  slot now = *at;
  at->stalled = false;
  pthread_mutex_unlock(&c->lock);
  *out_loaded = now.loaded;
  *out_unloaded = now.unloaded;
  if (now.stalled) {
    cv_msg msg = {.kind = CV_MSG_STALLED, .stalled = {.text = now.stalled_text}};
    cv_status status = cv_link_send(c->link, &msg);
    if (status != CV_OK) return status;
  }
  if (at->told_loaded || c->unloading) return CV_OK;
  /* what comes from an end that was closed says less than who closed it */
  bool failed = now.status != CV_OK && now.status != CV_CANCELED;
  if (!failed && now.error == CV_OK) return CV_OK;
  at->told_loaded = true; /* once */
  if (!failed) return say_status(c, false, now.error, now.error_text);
  return say_status(c, !c->prepared, now.status, now.text);
}

static cv_status tell(child *c) {
  uint32_t loaded = 0, unloaded = 0;
  cv_status status = CV_OK;
  if (!c->number) return CV_OK;
  for (uint32_t i = 0; i < c->n_slots && status == CV_OK; i++) {
    bool is_loaded, is_unloaded;
    status = tell_stage(c, &c->slots[i], &is_loaded, &is_unloaded);
    loaded += is_loaded && c->slots[i].status == CV_OK;
    unloaded += is_unloaded;
  }
  if (status == CV_OK && !c->prepared && loaded == c->n_slots) {
    c->prepared = true;
    status = cv_link_send(c->link,
                          &(cv_msg){.kind = CV_MSG_PREPARED, .prepared = {.number = c->number}});
  }
  if (status == CV_OK && c->unloading && unloaded == c->n_slots) {
    status = send_trace(c);
    if (status == CV_OK) status = send_times(c);
    cv_msg msg = {.kind = CV_MSG_UNLOADED, .unloaded = {.number = c->number}};
    c->number = 0;
    if (status == CV_OK) status = cv_link_send(c->link, &msg);
  }
  return status;
}

static cv_status turn(child *c) {
  struct pollfd fds[2] = {{.fd = cv_link_fd(c->link), .events = POLLIN},
                          {.fd = cv_queue_fd(c->news), .events = POLLIN}};
  if (poll(fds, 2, TURN_MS) < 0 && errno != EINTR)
    return cv_error(CV_IO, "poll: %s", strerror(errno));
  void *item;
  while (cv_queue_pop(c->news, 0, &item) == CV_OK) {
  }
  cv_msg msg;
  cv_status status;
  while (!c->stopped && (status = cv_link_receive(c->link, 0, &msg)) != CV_TIMEOUT) {
    if (status == CV_OK) status = take(c, &msg);
    if (status != CV_OK) return status;
  }
  if (c->stopped) return CV_OK;
  status = tell(c);
  return status == CV_OK ? send_trace(c) : status;
}

/* ---- begin and end ---- */

static cv_status open_executor(child *c) {
  static const char *const all[] = {"shm", "ucx"};
  const char *rows[CV_EXECUTOR_ROWS] = {0};
  char name[300];
  uint32_t count = 0;
  snprintf(name, sizeof name, "rank %u on %s", c->hello.member, c->host);
  if (c->options->transport) rows[count++] = c->options->transport;
  for (size_t i = 0; i < 2 && !c->options->transport; i++)
    if (cv_transport_find(all[i])) rows[count++] = all[i];
  cv_executor_options options = {.name = name,
                                 .incarnation = c->hello.incarnation,
                                 .rows = rows,
                                 .n_rows = count,
                                 .trace_events = c->options->trace ? TRACE_EVENTS : 0};
  cv_status status = cv_executor_create(&options, &c->executor);
  if (status != CV_OK) return status;
  static cv_msg_address addresses[CV_EXECUTOR_ROWS];
  static uint8_t bytes[CV_EXECUTOR_ROWS][CV_ADDRESS_MAX];
  for (uint32_t i = 0; i < count && status == CV_OK; i++) {
    size_t size = 0;
    status = cv_executor_address(c->executor, i, bytes[i], CV_ADDRESS_MAX, &size);
    addresses[i] = (cv_msg_address){rows[i], bytes[i], (uint32_t)size};
  }
  c->hello.addresses = addresses;
  c->hello.n_addresses = count;
  return status;
}

static cv_status run(child *c) {
  const cv_worker_options *o = c->options;
  cv_status status = CV_OK;
  c->hello.token = getenv("CUVIL_TOKEN");
  c->hello.member = (uint32_t)o->rank;
  c->hello.size = (uint32_t)o->workers;
  CV_TRY(cv_artifact_open(o->artifact, &c->artifact));
  c->hello.artifact = cv_artifact_program(c->artifact)->hash;
  CV_TRY(cv_queue_create(STAGES, true, &c->news));
  CV_TRY(open_executor(c));
  CV_TRY(cv_link_connect(o->control, cv_clock_ns() + CONNECT_NS, &c->link));
  CV_TRY(cv_link_send(c->link, &(cv_msg){.kind = CV_MSG_HELLO, .hello = c->hello}));
  while (!c->stopped) CV_TRY(turn(c));
out:
  return status;
}

int cv_child_run(const cv_worker_options *options) {
  static child c; /* zeroed; its slots are too large for a stack */
  c.options = options;
  pthread_mutex_init(&c.lock, NULL);
  cv_hello_fill(&c.hello, c.host);
  cv_status status = run(&c);
  /* the coordinator says it; without one it is said here */
  if (status != CV_OK && !cv_link_give_up(c.link, options->control, &c.hello, status))
    fprintf(stderr, "cuvil-worker rank %u on %s: %s\n", c.hello.member, c.host, cv_error_text());
  cv_executor_destroy(c.executor);
  cv_link_close(c.link);
  cv_queue_destroy(c.news);
  cv_artifact_close(c.artifact);
  pthread_mutex_destroy(&c.lock);
  return cv_status_exit_code(status != CV_OK ? status : c.stop);
}
