#include "gateway/pipeline.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/queue.h"
#include "base/vec.h"

#define POLL_NS ((int64_t)1000000000)

/* What a stage's callbacks, on its executor's thread, leave for the calling thread. */
typedef struct {
  cv_pipeline *pipeline;
  cv_stage *stage; /* calling thread */
  bool is_asked;   /* to unload; calling thread */
  /* under the pipeline's lock */
  bool is_loaded, is_unloaded;
  cv_status status; /* of loading, or of a failure later */
  char text[512];
  char error[512]; /* of the last micro-batch that failed here */
} slot;

typedef struct {
  bool in_use, has_route, route_told;
  cv_status route_status; /* of opening the route, or of its failure later */
  char route_text[512];
  cv_epoch epoch;
  int n;
  cv_edges edges;
  slot slots[CV_PIPELINE_STAGES];
} plan_set;

struct cv_pipeline {
  cv_artifact *artifact;
  uint32_t trace_events;
  int64_t watchdog_ns;
  const cv_device_ops *(*find_device)(const char *kind);
  cv_hub *hub;
  cv_gateway *gateway;
  int n_executors;
  cv_executor *executors[CV_PIPELINE_STAGES];
  pthread_mutex_t lock;
  cv_queue *news; /* wakes the calling thread */
  plan_set sets[2];
  plan_set *current;
  uint32_t epochs;
  /* of cv_pipeline_run */
  cv_pipeline_answer on_answer;
  void *answer_arg;
};

static const char *const rows[] = {"inproc"};

/* ---- callbacks of stages: their executors' threads ---- */

static void wake(slot *at) {
  /* full: the calling thread is awake anyway, and reads the flags */
  cv_status status = cv_queue_push(at->pipeline->news, at);
  (void)status;
}

static void on_loaded(void *arg, cv_stage *stage, cv_status status, const char *text) {
  slot *at = arg;
  (void)stage;
  pthread_mutex_lock(&at->pipeline->lock);
  at->is_loaded = true;
  at->status = status;
  snprintf(at->text, sizeof at->text, "%s", text);
  pthread_mutex_unlock(&at->pipeline->lock);
  wake(at);
}

static void on_stage_failed(void *arg, cv_stage *stage, cv_status status, const char *text) {
  slot *at = arg;
  (void)stage;
  pthread_mutex_lock(&at->pipeline->lock);
  at->status = status;
  snprintf(at->text, sizeof at->text, "%s", text);
  pthread_mutex_unlock(&at->pipeline->lock);
  wake(at);
}

static void on_stage_error(void *arg, cv_stage *stage, uint64_t seq, cv_status status,
                           const char *text) {
  slot *at = arg;
  (void)stage;
  (void)seq;
  (void)status;
  pthread_mutex_lock(&at->pipeline->lock);
  snprintf(at->error, sizeof at->error, "%s", text);
  pthread_mutex_unlock(&at->pipeline->lock);
}

static void on_stage_stalled(void *arg, cv_stage *stage, const char *text) {
  (void)arg;
  (void)stage;
  cv_log_warn("%s", text);
}

static void on_unloaded(void *arg, cv_stage *stage) {
  slot *at = arg;
  (void)stage;
  pthread_mutex_lock(&at->pipeline->lock);
  at->is_unloaded = true;
  pthread_mutex_unlock(&at->pipeline->lock);
  wake(at);
}

/* ---- callbacks of the gateway: the calling thread ---- */

static void on_route(void *arg, cv_epoch epoch, cv_status status, const char *text) {
  cv_pipeline *pipeline = arg;
  for (int k = 0; k < 2; k++) {
    plan_set *set = &pipeline->sets[k];
    if (set->epoch.number != epoch.number) continue;
    set->route_told = true;
    set->route_status = status;
    snprintf(set->route_text, sizeof set->route_text, "%s", text);
  }
}

static void on_route_failed(void *arg, cv_epoch epoch, cv_status status, const char *text) {
  on_route(arg, epoch, status, text);
}

static void on_gateway_stalled(void *arg, const char *text) {
  (void)arg;
  cv_log_warn("%s", text);
}

static void on_route_closed(void *arg, cv_epoch epoch) {
  cv_pipeline *pipeline = arg;
  for (int k = 0; k < 2; k++)
    if (pipeline->sets[k].epoch.number == epoch.number) pipeline->sets[k].has_route = false;
}

/* The sentence of the stage where it failed is here, not in a log. */
static void on_gateway_answer(void *arg, const cv_answer *answer) {
  cv_pipeline *pipeline = arg;
  cv_answer own = *answer;
  char text[600];
  if (answer->status != CV_OK && pipeline->current) {
    pthread_mutex_lock(&pipeline->lock);
    for (int i = pipeline->current->n - 1; i >= 0; i--) {
      const slot *at = &pipeline->current->slots[i];
      if (!at->error[0]) continue;
      snprintf(text, sizeof text, "stage %d: %s", i, at->error);
      own.text = text;
    }
    pthread_mutex_unlock(&pipeline->lock);
  }
  if (pipeline->on_answer) pipeline->on_answer(pipeline->answer_arg, &own);
}

/* ---- create and destroy ---- */

cv_status cv_pipeline_create(const cv_pipeline_options *options, cv_pipeline **out_pipeline) {
  *out_pipeline = NULL;
  cv_pipeline *pipeline = cv_alloc(1, sizeof *pipeline);
  if (!pipeline) return cv_error_nomem(sizeof *pipeline);
  cv_status status = CV_OK;
  pthread_mutex_init(&pipeline->lock, NULL);
  pipeline->artifact = options->artifact;
  pipeline->trace_events = options->trace_events;
  pipeline->watchdog_ns = options->watchdog_ns;
  pipeline->find_device = options->find_device;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < CV_PIPELINE_STAGES; i++) pipeline->sets[k].slots[i].pipeline = pipeline;
  CV_TRY(cv_queue_create(4 * CV_PIPELINE_STAGES, true, &pipeline->news));
  CV_TRY(cv_hub_create(&pipeline->hub));
  cv_gateway_options gateway = {.incarnation = 1,
                                .program = cv_artifact_program(options->artifact),
                                .rows = rows,
                                .n_rows = 1,
                                .hub = pipeline->hub,
                                .max_requests = options->max_requests,
                                .trace_events = options->trace_events,
                                .watchdog_ns = options->watchdog_ns,
                                .events = {.arg = pipeline,
                                           .on_answer = on_gateway_answer,
                                           .on_route = on_route,
                                           .on_failed = on_route_failed,
                                           .on_stalled = on_gateway_stalled,
                                           .on_closed = on_route_closed}};
  CV_TRY(cv_gateway_create(&gateway, &pipeline->gateway));
  *out_pipeline = pipeline;
out:
  if (status != CV_OK) cv_pipeline_destroy(pipeline);
  return status;
}

void cv_pipeline_destroy(cv_pipeline *pipeline) {
  if (!pipeline) return;
  for (int i = 0; i < pipeline->n_executors; i++) cv_executor_destroy(pipeline->executors[i]);
  cv_gateway_destroy(pipeline->gateway);
  cv_hub_destroy(pipeline->hub);
  for (int k = 0; k < 2; k++) cv_edges_deinit(&pipeline->sets[k].edges);
  cv_queue_destroy(pipeline->news);
  pthread_mutex_destroy(&pipeline->lock);
  cv_free(pipeline);
}

/* ---- plans ---- */

static cv_status need_executors(cv_pipeline *pipeline, int count) {
  while (pipeline->n_executors < count) {
    char name[32];
    int i = pipeline->n_executors;
    snprintf(name, sizeof name, "executor %d", i);
    cv_executor_options options = {.name = name,
                                   .incarnation = 2 + (uint64_t)i,
                                   .rows = rows,
                                   .n_rows = 1,
                                   .hub = pipeline->hub,
                                   .trace_events = pipeline->trace_events,
                                   .watchdog_ns = pipeline->watchdog_ns,
                                   .find_device = pipeline->find_device};
    cv_status status = cv_executor_create(&options, &pipeline->executors[i]);
    if (status != CV_OK) return status;
    pipeline->n_executors++;
  }
  return CV_OK;
}

/* Turns the gateway once, awake for the stages' news too. */
static cv_status turn(cv_pipeline *pipeline) {
  void *item;
  cv_status status =
      cv_gateway_wait(pipeline->gateway, cv_queue_fd(pipeline->news), cv_clock_ns() + POLL_NS);
  while (cv_queue_pop(pipeline->news, 0, &item) == CV_OK) {
  }
  return status == CV_TIMEOUT ? CV_OK : status;
}

/* What the stages of a set say: how many are loaded and unloaded, and the first failure. */
typedef struct {
  int loaded, unloaded;
  cv_status status;
  char text[512];
} set_state;

static void look(cv_pipeline *pipeline, const plan_set *set, set_state *out_state) {
  *out_state = (set_state){0};
  pthread_mutex_lock(&pipeline->lock);
  for (int i = 0; i < set->n; i++) {
    const slot *at = &set->slots[i];
    out_state->loaded += at->is_loaded;
    out_state->unloaded += at->is_unloaded || !at->stage;
    /* what comes from a closed end says less than why it was closed */
    if (at->status == CV_OK || (out_state->status != CV_OK && at->status == CV_CANCELED)) continue;
    if (out_state->status != CV_OK && out_state->status != CV_CANCELED) continue;
    out_state->status = at->status;
    snprintf(out_state->text, sizeof out_state->text, "%s", at->text);
  }
  pthread_mutex_unlock(&pipeline->lock);
}

static void unload(cv_pipeline *pipeline, plan_set *set, bool force) {
  if (!set || !set->in_use) return;
  set_state state;
  cv_gateway_close(pipeline->gateway, set->epoch, force ? CV_CLOSE_FORCE : CV_CLOSE_DRAIN);
  for (;;) { /* the gateway's end first: its last answers are in when it closes */
    if (!set->has_route || force)
      for (int i = 0; i < set->n; i++)
        if (set->slots[i].stage && !set->slots[i].is_asked) {
          set->slots[i].is_asked = true; /* once: the handle may die at any moment behind it */
          cv_stage_unload(set->slots[i].stage, force);
        }
    look(pipeline, set, &state);
    if (state.unloaded == set->n && !set->has_route) break;
    if (set->route_status != CV_OK) /* it failed while it drained */
      cv_gateway_close(pipeline->gateway, set->epoch, CV_CLOSE_FORCE);
    if (turn(pipeline) != CV_OK) cv_clock_sleep_until(cv_clock_ns() + 1000000);
  }
  cv_edges_deinit(&set->edges);
  set->in_use = false;
  if (pipeline->current == set) pipeline->current = NULL;
}

static cv_status load_stage(cv_pipeline *pipeline, plan_set *set, const cv_pipeline_plan *plan,
                            int index, const cv_edge_peer *peers) {
  slot *at = &set->slots[index];
  char name[64];
  snprintf(name, sizeof name, "stage %d of %d", index, plan->n_stages);
  cv_stage_spec spec = {.name = name,
                        .epoch = set->epoch,
                        .index = index,
                        .artifact = pipeline->artifact,
                        .edges = &set->edges,
                        .peers = peers,
                        .span = plan->spans[index],
                        .device = plan->devices[index],
                        .out_buffers = plan->out_buffers};
  cv_stage_events events = {.arg = at,
                            .on_loaded = on_loaded,
                            .on_failed = on_stage_failed,
                            .on_error = on_stage_error,
                            .on_stalled = on_stage_stalled,
                            .on_unloaded = on_unloaded};
  return cv_executor_load(pipeline->executors[index], &spec, &events, &at->stage);
}

/* One address for each party: the stages, and the gateway behind them. */
typedef struct {
  uint8_t bytes[CV_PIPELINE_STAGES + 1][CV_ADDRESS_MAX];
  size_t sizes[CV_PIPELINE_STAGES + 1];
  char names[CV_PIPELINE_STAGES + 1][32];
} addresses;

static cv_status get_addresses(cv_pipeline *pipeline, int n, addresses *all) {
  for (int i = 0; i < n; i++) {
    cv_status status = cv_executor_address(pipeline->executors[i], 0, all->bytes[i], CV_ADDRESS_MAX,
                                           &all->sizes[i]);
    if (status != CV_OK) return status;
    snprintf(all->names[i], sizeof all->names[i], "stage %d", i);
  }
  snprintf(all->names[n], sizeof all->names[n], "the gateway");
  return cv_gateway_address(pipeline->gateway, 0, all->bytes[n], CV_ADDRESS_MAX, &all->sizes[n]);
}

static cv_edge_peer peer_of(const addresses *all, int n, int stage) {
  int i = stage == CV_EDGE_GATEWAY ? n : stage;
  return (cv_edge_peer){.name = all->names[i],
                        .incarnation = stage == CV_EDGE_GATEWAY ? 1 : 2 + (uint64_t)stage,
                        .row = rows[0],
                        .address = all->bytes[i],
                        .address_bytes = all->sizes[i]};
}

/* Loads the stages and opens the gateway's route. */
static cv_status begin(cv_pipeline *pipeline, plan_set *set, const cv_pipeline_plan *plan) {
  cv_status status = CV_OK;
  uint32_t n_edges = set->edges.n_edges;
  int n = plan->n_stages;
  cv_edge_peer *peers = cv_alloc(2 * (size_t)n_edges, sizeof *peers);
  addresses *all = cv_alloc(1, sizeof *all);
  if (!peers || !all) CV_TRY(cv_error_nomem(sizeof *all));
  CV_TRY(get_addresses(pipeline, n, all));
  /* a stage reads the other end of each of its edges; that differs between the two ends, so each
     stage gets its own view */
  cv_edge_peer *own = peers + n_edges;
  for (uint32_t e = 0; e < n_edges; e++) {
    const cv_edge *edge = &set->edges.edges[e];
    peers[e] = peer_of(all, n, edge->from == CV_EDGE_GATEWAY ? edge->to : edge->from);
  }
  cv_route_spec route = {.epoch = set->epoch,
                         .edges = &set->edges,
                         .peers = peers,
                         .micro_batch = plan->micro_batch,
                         .window = plan->window};
  CV_TRY(cv_gateway_open(pipeline->gateway, &route));
  set->has_route = true;
  for (int i = 0; i < n; i++) {
    for (uint32_t e = 0; e < n_edges; e++) {
      const cv_edge *edge = &set->edges.edges[e];
      own[e] = peer_of(all, n, edge->to == i ? edge->from : edge->to);
    }
    CV_TRY(load_stage(pipeline, set, plan, i, own));
  }
out:
  cv_free(peers);
  cv_free(all);
  return status;
}

/* Waits until all stages are prepared and the gateway has met them, or one of them has failed. */
static cv_status await_prepared(cv_pipeline *pipeline, const plan_set *set) {
  for (;;) {
    set_state state;
    look(pipeline, set, &state);
    if (state.status != CV_OK && state.status != CV_CANCELED)
      return cv_error(state.status, "%s", state.text);
    if (set->route_told && set->route_status != CV_OK)
      return cv_error(set->route_status, "%s", set->route_text);
    if (state.status != CV_OK) return cv_error(state.status, "%s", state.text);
    if (state.loaded == set->n && set->route_told) return CV_OK;
    cv_status status = turn(pipeline);
    if (status != CV_OK) return status;
  }
}

cv_status cv_pipeline_use(cv_pipeline *pipeline, const cv_pipeline_plan *plan) {
  if (plan->n_stages < 1 || plan->n_stages > CV_PIPELINE_STAGES)
    return cv_error(CV_INVALID, "a pipeline of %d stages: 1 to %d are possible", plan->n_stages,
                    CV_PIPELINE_STAGES);
  plan_set *old = pipeline->current;
  plan_set *set = old == &pipeline->sets[0] ? &pipeline->sets[1] : &pipeline->sets[0];
  set->n = plan->n_stages;
  set->epoch = (cv_epoch){.term = 1, .number = ++pipeline->epochs};
  set->in_use = true;
  set->has_route = set->route_told = false;
  set->route_status = CV_OK;
  for (int i = 0; i < set->n; i++) set->slots[i] = (slot){.pipeline = pipeline};
  cv_status status = cv_edges_derive(cv_artifact_program(pipeline->artifact), plan->spans,
                                     plan->n_stages, plan->symbols, &set->edges);
  if (status == CV_OK) status = need_executors(pipeline, plan->n_stages);
  if (status == CV_OK) status = begin(pipeline, set, plan);
  if (status == CV_OK) status = await_prepared(pipeline, set);
  if (status == CV_OK) status = cv_gateway_use(pipeline->gateway, set->epoch);
  if (status == CV_OK) {
    pipeline->current = set;
    unload(pipeline, old, false);
  } else {
    char text[1024];
    snprintf(text, sizeof text, "%s", cv_error_text());
    unload(pipeline, set, true);
    status = cv_error(status, "%s", text);
  }
  return status;
}

/* ---- requests ---- */

/* A stage or the route has failed: what is under way is answered so, and the sentence kept. */
static cv_status check_alive(cv_pipeline *pipeline, char *text, size_t size) {
  set_state state;
  const plan_set *set = pipeline->current;
  look(pipeline, set, &state);
  cv_status status = state.status;
  const char *why = state.text;
  if (set->route_status != CV_OK && (status == CV_OK || status == CV_CANCELED)) {
    status = set->route_status;
    why = set->route_text;
  }
  if (status == CV_OK) return CV_OK;
  snprintf(text, size, "%s", why);
  cv_gateway_close(pipeline->gateway, set->epoch, CV_CLOSE_FORCE);
  cv_gateway_refuse(pipeline->gateway, status, text);
  return status;
}

static void free_inputs(const cv_pipeline *pipeline, const cv_request *request) {
  const cv_program *p = cv_artifact_program(pipeline->artifact);
  for (uint32_t i = 0; i < p->n_inputs; i++) cv_tensor_deinit(&request->inputs[i]);
}

cv_status cv_pipeline_run(cv_pipeline *pipeline, const cv_request *requests, size_t count,
                          cv_pipeline_answer on_answer, void *arg) {
  cv_status status = CV_OK;
  char text[1024] = "";
  size_t next = 0;
  uint64_t id;
  if (!pipeline->current) status = CV_INVALID;
  if (status != CV_OK) snprintf(text, sizeof text, "the pipeline has no plan");
  pipeline->on_answer = on_answer;
  pipeline->answer_arg = arg;
  while (status == CV_OK && (next < count || cv_gateway_waiting(pipeline->gateway) > 0)) {
    cv_status taken =
        next < count ? cv_gateway_submit(pipeline->gateway, &requests[next], &id) : CV_AGAIN;
    if (taken == CV_OK) {
      next++;
      continue;
    }
    status = taken == CV_AGAIN ? turn(pipeline) : taken;
    if (status != CV_OK) snprintf(text, sizeof text, "%s", cv_error_text());
    if (status == CV_OK) status = check_alive(pipeline, text, sizeof text);
  }
  while (pipeline->current && cv_gateway_waiting(pipeline->gateway) > 0) {
    char ignored[1024];
    if (turn(pipeline) != CV_OK) cv_clock_sleep_until(cv_clock_ns() + 1000000);
    cv_status other = check_alive(pipeline, ignored, sizeof ignored);
    (void)other; /* the first failure is told */
  }
  for (; next < count; next++) free_inputs(pipeline, &requests[next]);
  pipeline->on_answer = NULL;
  return status == CV_OK ? CV_OK : cv_error(status, "%s", text);
}

/* ---- reports ---- */

cv_status cv_pipeline_read(cv_pipeline *pipeline, int stage, cv_stage_report *out_report) {
  *out_report = (cv_stage_report){0};
  if (!pipeline->current || stage < 0 || stage >= pipeline->current->n)
    return cv_error(CV_INVALID, "the pipeline has no stage %d", stage);
  cv_stage_read(pipeline->current->slots[stage].stage, out_report);
  return CV_OK;
}

typedef cv_vec(cv_trace_event) event_list;

/* All events of one process; who: the gateway (-1) or an executor. */
static cv_status take_events(cv_pipeline *pipeline, int who, event_list *events) {
  enum { CHUNK = 4096 };
  for (;;) {
    if (!cv_vec_reserve(events, CHUNK)) return cv_error_nomem(CHUNK * sizeof(cv_trace_event));
    cv_trace_event *at = events->data + events->len;
    size_t got = who < 0 ? cv_gateway_trace(pipeline->gateway, at, CHUNK)
                         : cv_executor_trace(pipeline->executors[who], at, CHUNK);
    if (got == 0) return CV_OK;
    events->len += got;
  }
}

cv_status cv_pipeline_write_trace(cv_pipeline *pipeline, const char *path) {
  cv_status status = CV_OK;
  size_t count = (size_t)pipeline->n_executors + 1;
  event_list *lists = cv_alloc(count, sizeof *lists);
  cv_trace_process *processes = cv_alloc(count, sizeof *processes);
  char(*names)[32] = cv_alloc(count, sizeof *names);
  if (!lists || !processes || !names) CV_TRY(cv_error_nomem(count * sizeof *processes));
  for (size_t i = 0; i < count; i++) {
    int who = (int)i - 1;
    CV_TRY(take_events(pipeline, who, &lists[i]));
    if (who < 0)
      snprintf(names[i], sizeof names[i], "gateway");
    else
      snprintf(names[i], sizeof names[i], "executor %d", who);
    processes[i] = (cv_trace_process){
        .name = names[i],
        .pid = (int)i,
        .events = lists[i].data,
        .n_events = lists[i].len,
        .dropped = who < 0 ? cv_gateway_trace_dropped(pipeline->gateway)
                           : cv_executor_trace_dropped(pipeline->executors[who])};
  }
  CV_TRY(cv_trace_write(path, processes, count));
out:
  for (size_t i = 0; lists && i < count; i++) cv_vec_deinit(&lists[i]);
  cv_free(lists);
  cv_free(processes);
  cv_free(names);
  return status;
}
