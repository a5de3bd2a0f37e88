/* A stage's state machine: what its channels, its compute thread and its owner say goes into the
 * pure schedule, and what that says is done. Communication thread. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "runtime/executor_internal.h"

/* ---- lanes ---- */

static cv_compute_time compute_state(const cv_stage *stage) {
  if (stage->running) return CV_TIME_COMPUTE;
  for (int i = 0; i < CV_STAGE_JOBS; i++)
    if (stage->jobs[i].phase == CV_JOB_WAITS) return CV_TIME_BLOCKED_SEND;
  switch (cv_schedule_lane(stage->schedule)) {
    case CV_LANE_BLOCKED_RECEIVE: /* one input has come; is another under way, or not yet sent? */
      return stage->receiving ? CV_TIME_BLOCKED_RECEIVE : CV_TIME_STARVED;
    case CV_LANE_BLOCKED_SEND: return CV_TIME_BLOCKED_SEND;
    case CV_LANE_STARVED: return CV_TIME_STARVED;
    default: return CV_TIME_OTHER;
  }
}

/* Something happened: the lanes show what holds from now on. */
static void note(cv_stage *stage) {
  int64_t now = cv_clock_ns();
  stage->moved_ns = now;
  cv_executor_moved(stage->executor);
  cv_comm_time comm = stage->sending     ? CV_TIME_SEND
                      : stage->receiving ? CV_TIME_RECEIVE
                                         : CV_TIME_IDLE;
  pthread_mutex_lock(&stage->lock);
  if (!cv_schedule_idle(stage->schedule))
    cv_lanes_set(&stage->lanes, now, compute_state(stage), comm);
  else if (stage->lanes.inside)
    cv_lanes_settle(&stage->lanes, now);
  pthread_mutex_unlock(&stage->lock);
}

static void trace_message(cv_stage *stage, const cv_link *link, cv_trace_kind kind, uint64_t seq,
                          int64_t begin_ns) {
  cv_trace_put(stage->executor->trace, &(cv_trace_event){.begin_ns = begin_ns,
                                                         .end_ns = cv_clock_ns(),
                                                         .seq = seq,
                                                         .epoch_number = stage->epoch.number,
                                                         .stage = stage->index,
                                                         .detail = link->id,
                                                         .kind = (uint32_t)kind});
}

/* ---- failure ---- */

static int link_count(const cv_stage *stage) { return stage->n_in + stage->n_out; }

static cv_link *link_at(const cv_stage *stage, int i) {
  return i < stage->n_in ? &stage->in[i] : &stage->out[i - stage->n_in];
}

/* Calls on_loaded, once. */
static void tell_loaded(cv_stage *stage, cv_status status, const char *text) {
  if (stage->is_told) return;
  stage->is_told = true;
  if (stage->events.on_loaded) stage->events.on_loaded(stage->events.arg, stage, status, text);
}

void cv_stage_fail(cv_stage *stage, cv_status status, const char *text) {
  if (stage->phase >= CV_STAGE_FAILED) return;
  char sentence[CV_SENTENCE + 128];
  snprintf(sentence, sizeof sentence, "%s: %s", stage->name, text);
  bool was_running = stage->phase == CV_STAGE_RUNNING;
  stage->phase = CV_STAGE_FAILED;
  for (int i = 0; i < link_count(stage); i++)
    if (link_at(stage, i)->channel) cv_channel_abort(link_at(stage, i)->channel);
  if (!was_running)
    tell_loaded(stage, status, sentence);
  else if (stage->events.on_failed)
    stage->events.on_failed(stage->events.arg, stage, status, sentence);
}

/* The schedule refused an event, or a channel a verb: the stage cannot go on. */
static bool check(cv_stage *stage, cv_status status) {
  if (status != CV_OK) cv_stage_fail(stage, status, cv_error_text());
  return status == CV_OK;
}

/* ---- doing what the schedule says ---- */

static void send(cv_stage *stage, cv_link *link, cv_batch *batch) {
  uint32_t b = (uint32_t)(batch->seq % stage->out_buffers);
  link->sent_ns[b] = cv_clock_ns();
  stage->sending++;
  note(stage);
  cv_status status = cv_batch_send(stage, link, batch);
  link->pending[b] = status == CV_AGAIN;
  if (status == CV_OK) return;
  stage->sending--;
  if (status != CV_AGAIN) check(stage, status);
}

static void send_pending(cv_stage *stage) {
  for (int e = 0; e < stage->n_out; e++)
    for (uint32_t b = 0; b < stage->out_buffers; b++)
      if (stage->out[e].pending[b] && stage->phase == CV_STAGE_RUNNING)
        send(stage, &stage->out[e], &stage->batches[b]);
}

/* Once its slots are there the micro-batch goes to the compute thread; one that failed is done. */
static void dispatch(cv_job *job) {
  cv_stage *stage = job->stage;
  cv_status status = cv_job_acquire(job);
  job->phase = status == CV_AGAIN ? CV_JOB_WAITS : CV_JOB_FREE;
  if (status == CV_AGAIN || !check(stage, status)) return;
  if (cv_message_status(job->batch->flags) != CV_OK) {
    check(stage, cv_schedule_on_computed(stage->schedule, (int64_t)job->batch->seq));
    return;
  }
  job->task.kind = CV_TASK_COMPUTE;
  job->phase = CV_JOB_RUNS;
  job->dispatched_ns = 0;
  if (stage->running++ == 0) {
    note(stage); /* from here on it counts as computing */
    job->dispatched_ns = stage->moved_ns;
    pthread_mutex_lock(&stage->lock);
    stage->computing_since_ns = job->dispatched_ns;
    pthread_mutex_unlock(&stage->lock);
  }
  if (cv_queue_push(stage->worker->jobs, &job->task) == CV_OK) return;
  job->phase = CV_JOB_FREE;
  stage->running--;
  check(stage, cv_error(CV_INTERNAL, "the queue of device %s is full", stage->spec.name));
}

static void begin(cv_stage *stage, uint64_t seq) {
  cv_job *job = &stage->jobs[0];
  while (job->phase != CV_JOB_FREE) job++; /* the schedule gives out no more than there are */
  cv_job_begin(job, seq);
  dispatch(job);
}

static void act(cv_stage *stage, const cv_schedule_action *action) {
  switch (action->kind) {
    case CV_SCHEDULE_GRANT:
      check(stage, cv_channel_grant(stage->in[action->edge].channel, (uint64_t)action->seq));
      break;
    case CV_SCHEDULE_SEND:
      send(stage, &stage->out[action->edge],
           &stage->batches[(uint64_t)action->seq % stage->out_buffers]);
      break;
    case CV_SCHEDULE_COMPUTE: begin(stage, (uint64_t)action->seq); break;
  }
}

static void advance(cv_stage *stage) {
  cv_schedule_action action;
  for (int i = 0; i < CV_STAGE_JOBS; i++)
    if (stage->phase == CV_STAGE_RUNNING && stage->jobs[i].phase == CV_JOB_WAITS)
      dispatch(&stage->jobs[i]);
  send_pending(stage);
  while (stage->phase == CV_STAGE_RUNNING && cv_schedule_next(stage->schedule, &action))
    act(stage, &action);
  note(stage);
}

/* ---- channels ---- */

static void on_grant(void *arg, cv_channel *channel, uint64_t limit) {
  cv_link *link = arg;
  cv_stage *stage = link->stage;
  (void)channel;
  if (stage->phase > CV_STAGE_RUNNING) return;
  if (limit > INT64_MAX) limit = INT64_MAX;
  if (check(stage, cv_schedule_on_grant(stage->schedule, link->index, (int64_t)limit)))
    advance(stage);
}

static void count_done(cv_stage *stage) {
  pthread_mutex_lock(&stage->lock);
  stage->lanes.times.micro_batches = (uint64_t)cv_schedule_done(stage->schedule);
  pthread_mutex_unlock(&stage->lock);
}

static void on_sent(void *arg, cv_channel *channel, uint64_t seq, cv_status status) {
  cv_link *link = arg;
  cv_stage *stage = link->stage;
  (void)channel;
  stage->sending--;
  if (stage->phase != CV_STAGE_RUNNING || status != CV_OK) return; /* on_error tells the reason */
  trace_message(stage, link, CV_TRACE_SEND, seq, link->sent_ns[seq % stage->out_buffers]);
  if (check(stage, cv_schedule_on_sent(stage->schedule, link->index, (int64_t)seq))) {
    count_done(stage);
    advance(stage);
  }
}

static void on_header(void *arg, cv_channel *channel, const cv_header *header, cv_slot slot) {
  cv_link *link = arg;
  cv_stage *stage = link->stage;
  int index;
  (void)channel;
  if (stage->phase != CV_STAGE_RUNNING) return;
  if (!check(stage, cv_message_check(stage->program, link->edge, header, slot)) ||
      !check(stage,
             cv_schedule_on_header(stage->schedule, link->index, (int64_t)header->seq, &index)))
    return;
  link->headers[index] = header;
  link->slots[index] = slot;
  link->began_ns[index] = cv_clock_ns();
  stage->receiving++;
  note(stage);
}

static void on_complete(void *arg, cv_channel *channel, uint64_t seq, cv_status status) {
  cv_link *link = arg;
  cv_stage *stage = link->stage;
  (void)channel;
  if (stage->phase != CV_STAGE_RUNNING) return;
  stage->receiving--;
  if (status == CV_CORRUPT)
    status = cv_error(status, "edge %" PRIu32 ": micro-batch %" PRIu64 " arrived damaged", link->id,
                      seq);
  else if (status != CV_OK)
    return; /* on_error tells the reason */
  trace_message(stage, link, CV_TRACE_RECEIVE, seq, link->began_ns[seq % link->edge->slots]);
  if (check(stage, status) &&
      check(stage, cv_schedule_on_complete(stage->schedule, link->index, (int64_t)seq)))
    advance(stage);
}

static void measure_slots(cv_stage *stage) {
  uint64_t bytes = 0;
  for (int e = 0; e < stage->n_in; e++)
    if (stage->in[e].channel)
      bytes += stage->in[e].edge->slots * cv_channel_slot_bytes(stage->in[e].channel);
  pthread_mutex_lock(&stage->lock);
  stage->slot_bytes = bytes;
  pthread_mutex_unlock(&stage->lock);
}

static void on_resize(void *arg, cv_channel *channel, uint64_t slot_bytes) {
  cv_link *link = arg;
  (void)channel;
  (void)slot_bytes;
  measure_slots(link->stage);
  if (link->stage->phase == CV_STAGE_RUNNING) advance(link->stage);
}

static void on_error(void *arg, cv_channel *channel, cv_status status, const char *text) {
  cv_link *link = arg;
  char sentence[CV_SENTENCE];
  (void)channel;
  snprintf(sentence, sizeof sentence, "%s: %s", link->peer, text);
  cv_stage_fail(link->stage, status, sentence);
}

/* ---- loading ---- */

static void check_prepared(cv_stage *stage) {
  if (stage->phase != CV_STAGE_LOADING || !stage->is_loaded || stage->n_open < link_count(stage))
    return;
  stage->phase = CV_STAGE_RUNNING;
  measure_slots(stage);
  tell_loaded(stage, CV_OK, "");
  advance(stage);
}

static void on_open(void *arg, cv_channel *channel) {
  cv_link *link = arg;
  (void)channel;
  link->open = true;
  link->stage->n_open++;
  link->stage->moved_ns = cv_clock_ns();
  check_prepared(link->stage);
}

void cv_stage_loaded(cv_stage *stage) {
  stage->is_loaded = true;
  stage->moved_ns = cv_clock_ns();
  pthread_mutex_lock(&stage->lock);
  stage->memory = stage->jobs[0].memory;
  pthread_mutex_unlock(&stage->lock);
  if (stage->load_status != CV_OK) cv_stage_fail(stage, stage->load_status, stage->load_text);
  if (stage->phase == CV_STAGE_CLOSING)
    cv_stage_leave(stage);
  else
    check_prepared(stage);
}

/* Of the time counted as computing, what the job spent on its way to the compute thread and back.
 * One that was dispatched while another ran began its way when that one ended. */
static void settle_time(cv_stage *stage, const cv_job *job) {
  int64_t ready = job->dispatched_ns > stage->computed_ns ? job->dispatched_ns : stage->computed_ns;
  int64_t way = job->begin_ns > ready ? job->begin_ns - ready : 0;
  if (stage->running == 0) way += stage->lanes.last_ns - job->end_ns;
  cv_lanes_not_computed(&stage->lanes, way);
  stage->computed_ns = job->end_ns;
  stage->computing_since_ns = stage->running ? job->end_ns : 0;
  stage->memory = job->memory;
}

void cv_stage_computed(cv_job *job) {
  cv_stage *stage = job->stage;
  int64_t seq = (int64_t)job->batch->seq;
  if (stage->phase == CV_STAGE_RUNNING) cv_job_finish(job);
  note(stage);
  job->phase = CV_JOB_FREE;
  pthread_mutex_lock(&stage->lock);
  stage->running--;
  settle_time(stage, job);
  pthread_mutex_unlock(&stage->lock);
  if (stage->phase == CV_STAGE_CLOSING) {
    cv_stage_leave(stage);
  } else if (stage->phase == CV_STAGE_RUNNING &&
             check(stage, cv_schedule_on_computed(stage->schedule, seq))) {
    if (stage->n_out == 0) count_done(stage);
    advance(stage);
  }
}

/* ---- leaving ---- */

static void on_closed(void *arg, cv_channel *channel) {
  cv_link *link = arg;
  cv_stage *stage = link->stage;
  (void)channel;
  link->channel = NULL;
  stage->n_channels--;
  if (stage->phase == CV_STAGE_CLOSING) cv_stage_leave(stage);
}

void cv_stage_leave(cv_stage *stage) {
  if (stage->phase == CV_STAGE_LEAVING) return;
  stage->phase = CV_STAGE_CLOSING;
  tell_loaded(stage, CV_CANCELED, "unloaded before it was prepared");
  bool force = atomic_load(&stage->wanted) == CV_WANT_FORCE;
  for (int i = 0; i < link_count(stage); i++) {
    cv_channel *channel = link_at(stage, i)->channel;
    if (channel && force) cv_channel_abort(channel);
    /* a kernel may still read and write slots */
    if (channel && !stage->running) cv_channel_close(channel);
  }
  if (stage->n_channels > 0 || stage->running || !stage->is_loaded) return;
  stage->phase = CV_STAGE_LEAVING;
  stage->loader_task.kind = CV_TASK_UNLOADED;
  if (cv_queue_push(stage->executor->loader_inbox, &stage->loader_task) != CV_OK)
    cv_executor_tell(stage->executor, &stage->loader_task);
}

static cv_status open_link(cv_stage *stage, cv_link *link, cv_role role) {
  uint64_t mine = stage->executor->incarnation;
  cv_channel_events events = {.arg = link,
                              .on_open = on_open,
                              .on_grant = on_grant,
                              .on_sent = on_sent,
                              .on_header = on_header,
                              .on_complete = on_complete,
                              .on_resize = on_resize,
                              .on_error = on_error,
                              .on_closed = on_closed};
  cv_channel_params params = {
      .id = {.deployment = stage->deployment,
             .epoch_term = stage->epoch.term,
             .epoch_number = stage->epoch.number,
             .edge = link->id,
             .producer = role == CV_PRODUCER ? mine : link->peer_incarnation,
             .consumer = role == CV_PRODUCER ? link->peer_incarnation : mine},
      .role = role,
      .slots = link->edge->slots,
      .slot_bytes = link->edge->slot_bytes,
      .max_slot_bytes = link->edge->max_slot_bytes,
      .max_symbols = link->edge->n_symbols,
      .max_tensors = link->edge->n_values,
      .events = &events};
  cv_status status = cv_channel_open(stage->executor->rows[link->row], &params, link->address,
                                     link->address_bytes, &link->channel);
  if (status == CV_OK) stage->n_channels++;
  return status == CV_OK ? CV_OK : cv_error_context(status, "%s", link->peer);
}

void cv_stage_enter(cv_stage *stage) {
  stage->moved_ns = cv_clock_ns();
  if (cv_queue_push(stage->executor->loader_inbox, &stage->loader_task) != CV_OK) {
    stage->is_loaded = true;
    cv_stage_fail(stage, CV_CANCELED, "the executor ends");
  }
  for (int i = 0; i < link_count(stage) && stage->phase == CV_STAGE_LOADING; i++)
    check(stage, open_link(stage, link_at(stage, i), i < stage->n_in ? CV_CONSUMER : CV_PRODUCER));
}

/* ---- the watchdog ---- */

void cv_stage_watch(cv_stage *stage, int64_t now_ns) {
  bool waits = stage->phase == CV_STAGE_LOADING ||
               (stage->phase == CV_STAGE_RUNNING && !cv_schedule_idle(stage->schedule));
  if (!waits || now_ns - stage->moved_ns < stage->executor->watchdog_ns) return;
  stage->moved_ns = now_ns;
  char what[CV_SENTENCE], sentence[CV_SENTENCE + 128];
  if (stage->phase == CV_STAGE_RUNNING) {
    cv_schedule_explain_text(stage->schedule, what, sizeof what);
  } else if (!stage->is_loaded) {
    snprintf(what, sizeof what, "its weights are still being loaded");
  } else {
    int i = 0;
    while (i + 1 < link_count(stage) && link_at(stage, i)->open) i++;
    snprintf(what, sizeof what, "it has not met %s", link_at(stage, i)->peer);
  }
  snprintf(sentence, sizeof sentence, "%s: %s", stage->name, what);
  if (stage->events.on_stalled) stage->events.on_stalled(stage->events.arg, stage, sentence);
}
