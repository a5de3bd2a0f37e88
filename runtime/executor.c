#include "runtime/executor.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/executor_internal.h"

#define WATCHDOG_NS ((int64_t)5000000000)
#define TICK_NS ((int64_t)100000000) /* most time between two looks at the watchdogs */

void cv_executor_moved(cv_executor *executor) {
  atomic_fetch_add_explicit(&executor->progress, 1, memory_order_relaxed);
}

void cv_executor_tell(cv_executor *executor, cv_task *task) {
  cv_status status = cv_queue_push(executor->inbox, task);
  if (status != CV_OK) cv_log_error("%s: a task was lost: the inbox is full", executor->name);
}

/* ---- communication thread ---- */

static void link_stage(cv_executor *executor, cv_stage *stage) {
  stage->next = executor->stages;
  stage->previous = &executor->stages;
  if (stage->next) stage->next->previous = &stage->next;
  executor->stages = stage;
}

static void unlink_stage(cv_stage *stage) {
  *stage->previous = stage->next;
  if (stage->next) stage->next->previous = stage->previous;
}

static void answer_reach(cv_executor *executor, cv_reach *reach) {
  cv_status status = cv_transport_reach(executor->rows[reach->row], reach->address, reach->size);
  atomic_fetch_sub(&executor->n_reaches, 1);
  reach->done(reach->arg, status, status == CV_OK ? "" : cv_error_text());
  cv_free(reach);
}

static void stop(cv_executor *executor) {
  executor->stopping = true;
  for (cv_stage *stage = executor->stages, *next; stage; stage = next) {
    next = stage->next;
    atomic_store(&stage->wanted, CV_WANT_FORCE);
    cv_stage_leave(stage);
  }
}

static void handle(cv_executor *executor, cv_task *task) {
  cv_stage *stage = task->subject;
  switch (task->kind) {
    case CV_TASK_LOAD:
      link_stage(executor, stage);
      cv_stage_enter(stage);
      break;
    case CV_TASK_LOADED: cv_stage_loaded(stage); break;
    case CV_TASK_COMPUTED: cv_stage_computed(task->subject); break;
    case CV_TASK_UNLOAD: cv_stage_leave(stage); break;
    case CV_TASK_UNLOADED:
      unlink_stage(stage);
      if (stage->events.on_unloaded) stage->events.on_unloaded(stage->events.arg, stage);
      cv_stage_free(stage);
      atomic_fetch_sub(&executor->n_stages, 1);
      break;
    case CV_TASK_REACH: answer_reach(executor, task->subject); break;
    case CV_TASK_STOP: stop(executor); break;
    case CV_TASK_COMPUTE: break; /* a device's */
  }
  cv_executor_moved(executor);
}

static void *communicate(void *arg) {
  cv_executor *executor = arg;
  int64_t tick = executor->watchdog_ns / 4 < TICK_NS ? executor->watchdog_ns / 4 : TICK_NS;
  int64_t next_watch = cv_clock_ns() + tick;
  bool told = false;
  while (!executor->stopping || executor->stages) {
    cv_status status =
        cv_transport_wait(executor->rows, executor->n_rows, cv_queue_fd(executor->inbox),
                          next_watch, executor->spin_ns);
    if (status != CV_OK && status != CV_TIMEOUT) {
      if (!told) cv_log_warn("%s: cannot wait for messages: %s", executor->name, cv_error_text());
      told = true;
      cv_clock_sleep_until(cv_clock_ns() + 1000000); /* goes on without its signals */
    }
    void *item;
    while (cv_queue_pop(executor->inbox, 0, &item) == CV_OK) handle(executor, item);
    int64_t now = cv_clock_ns();
    if (now < next_watch) continue;
    next_watch = now + tick;
    for (cv_stage *stage = executor->stages; stage; stage = stage->next) cv_stage_watch(stage, now);
  }
  return NULL;
}

/* ---- create and destroy ---- */

static cv_status open_rows(cv_executor *executor, const cv_executor_options *options) {
  if (options->n_rows < 1 || options->n_rows > CV_EXECUTOR_ROWS)
    return cv_error(CV_INVALID, "an executor of %u transports: give 1 to %d", options->n_rows,
                    CV_EXECUTOR_ROWS);
  for (uint32_t i = 0; i < options->n_rows; i++) {
    const cv_transport_row *row = cv_transport_find(options->rows[i]);
    if (!row)
      return cv_error(CV_INVALID, "there is no transport '%s' in this build", options->rows[i]);
    executor->row_names[i] = cv_strdup(options->rows[i]);
    if (!executor->row_names[i]) return cv_error_nomem(strlen(options->rows[i]) + 1);
    bool inproc = strcmp(options->rows[i], "inproc") == 0;
    cv_status status = cv_transport_open(row, inproc ? options->hub : NULL, &executor->rows[i]);
    if (status != CV_OK) return status;
    executor->n_rows++;
    status = cv_transport_address(executor->rows[i], executor->addresses[i], CV_ADDRESS_MAX,
                                  &executor->address_bytes[i]);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

static cv_status make_traces(cv_executor *executor) {
  if (!executor->trace_events) return CV_OK;
  cv_status status = cv_trace_create(executor->trace_events, &executor->trace);
  if (status == CV_OK) status = cv_trace_create(executor->trace_events, &executor->loader_trace);
  return status;
}

cv_status cv_executor_create(const cv_executor_options *options, cv_executor **out_executor) {
  *out_executor = NULL;
  cv_executor *executor = cv_alloc(1, sizeof *executor);
  if (!executor) return cv_error_nomem(sizeof *executor);
  cv_status status = CV_OK;
  pthread_mutex_init(&executor->traces_lock, NULL);
  executor->incarnation = options->incarnation;
  executor->spin_ns = options->spin_ns;
  executor->watchdog_ns = options->watchdog_ns > 0 ? options->watchdog_ns : WATCHDOG_NS;
  executor->trace_events = options->trace_events;
  executor->find_device = options->find_device ? options->find_device : cv_device_find;
  executor->stop_task = (cv_task){CV_TASK_STOP, NULL};
  executor->name = cv_strdup(options->name ? options->name : "executor");
  if (!executor->name) CV_TRY(cv_error_nomem(1));
  CV_TRY(open_rows(executor, options));
  CV_TRY(make_traces(executor));
  CV_TRY(cv_queue_create(CV_EXECUTOR_INBOX, true, &executor->inbox));
  CV_TRY(cv_queue_create(2 * CV_EXECUTOR_STAGES, false, &executor->loader_inbox));
  CV_TRY(cv_thread_start("cv-loader", cv_executor_loader, executor, &executor->loader));
  executor->loader_started = true;
  CV_TRY(cv_thread_start("cv-comm", communicate, executor, &executor->comm));
  executor->comm_started = true;
  *out_executor = executor;
out:
  if (status != CV_OK) cv_executor_destroy(executor);
  return status;
}

void cv_executor_destroy(cv_executor *executor) {
  if (!executor) return;
  if (executor->comm_started) {
    cv_executor_tell(executor, &executor->stop_task);
    pthread_join(executor->comm, NULL);
  }
  if (executor->loader_inbox) cv_queue_close(executor->loader_inbox);
  if (executor->loader_started) pthread_join(executor->loader, NULL);
  for (uint32_t i = 0; i < CV_EXECUTOR_ROWS; i++) {
    cv_transport_close(executor->rows[i]);
    cv_free(executor->row_names[i]);
  }
  cv_queue_destroy(executor->inbox);
  cv_queue_destroy(executor->loader_inbox);
  cv_trace_destroy(executor->trace);
  cv_trace_destroy(executor->loader_trace);
  for (size_t i = 0; i < executor->device_traces.len; i++)
    cv_trace_destroy(executor->device_traces.data[i].trace);
  cv_vec_deinit(&executor->device_traces);
  pthread_mutex_destroy(&executor->traces_lock);
  cv_free(executor->name);
  cv_free(executor);
}

/* ---- the face, any thread ---- */

cv_status cv_executor_address(const cv_executor *executor, uint32_t row, void *buffer, size_t cap,
                              size_t *out_size) {
  *out_size = 0;
  if (row >= executor->n_rows)
    return cv_error(CV_INVALID, "%s has no transport number %u", executor->name, row);
  if (cap < executor->address_bytes[row])
    return cv_error(CV_INVALID, "an address of %zu bytes, room for %zu",
                    executor->address_bytes[row], cap);
  *out_size = executor->address_bytes[row];
  memcpy(buffer, executor->addresses[row], *out_size);
  return CV_OK;
}

/* Counts one more of what there may be `most` of. */
static bool take_place(_Atomic(int) *count, int most) {
  if (atomic_fetch_add(count, 1) < most) return true;
  atomic_fetch_sub(count, 1);
  return false;
}

cv_status cv_executor_reach(cv_executor *executor, uint32_t row, const void *address, size_t size,
                            cv_reach_done done, void *arg) {
  if (row >= executor->n_rows || size > CV_ADDRESS_MAX)
    return cv_error(CV_INVALID, "%s: transport number %u, an address of %zu bytes: out of range",
                    executor->name, row, size);
  if (!take_place(&executor->n_reaches, CV_EXECUTOR_REACHES))
    return cv_error(CV_AGAIN, "%s: too many peers are being asked at once", executor->name);
  cv_reach *reach = cv_alloc(1, sizeof *reach);
  if (!reach) {
    atomic_fetch_sub(&executor->n_reaches, 1);
    return cv_error_nomem(sizeof *reach);
  }
  reach->task = (cv_task){CV_TASK_REACH, reach};
  reach->row = row;
  reach->done = done;
  reach->arg = arg;
  reach->size = size;
  memcpy(reach->address, address, size);
  cv_executor_tell(executor, &reach->task);
  return CV_OK;
}

uint64_t cv_executor_progress(const cv_executor *executor) {
  return atomic_load_explicit(&executor->progress, memory_order_relaxed);
}

size_t cv_executor_trace(cv_executor *executor, cv_trace_event *out_events, size_t cap) {
  size_t count = cv_trace_take(executor->trace, out_events, cap);
  count += cv_trace_take(executor->loader_trace, out_events + count, cap - count);
  pthread_mutex_lock(&executor->traces_lock);
  for (size_t i = 0; i < executor->device_traces.len; i++)
    count += cv_trace_take(executor->device_traces.data[i].trace, out_events + count, cap - count);
  pthread_mutex_unlock(&executor->traces_lock);
  return count;
}

uint64_t cv_executor_trace_dropped(cv_executor *executor) {
  uint64_t dropped = cv_trace_dropped(executor->trace) + cv_trace_dropped(executor->loader_trace);
  pthread_mutex_lock(&executor->traces_lock);
  for (size_t i = 0; i < executor->device_traces.len; i++)
    dropped += cv_trace_dropped(executor->device_traces.data[i].trace);
  pthread_mutex_unlock(&executor->traces_lock);
  return dropped;
}

cv_status cv_executor_load(cv_executor *executor, const cv_stage_spec *spec,
                           const cv_stage_events *events, cv_stage **out_stage) {
  *out_stage = NULL;
  if (!take_place(&executor->n_stages, CV_EXECUTOR_STAGES))
    return cv_error(CV_INVALID, "%s: more than %d stages at once", executor->name,
                    CV_EXECUTOR_STAGES);
  cv_status status = cv_stage_build(executor, spec, events, out_stage);
  if (status == CV_OK)
    cv_executor_tell(executor, &(*out_stage)->load_task);
  else
    atomic_fetch_sub(&executor->n_stages, 1);
  return status;
}

void cv_stage_unload(cv_stage *stage, bool force) {
  int want = force ? CV_WANT_FORCE : CV_WANT_UNLOAD;
  int was = atomic_load(&stage->wanted);
  while (want > was && !atomic_compare_exchange_weak(&stage->wanted, &was, want)) {
  }
  if (want > was) cv_executor_tell(stage->executor, &stage->unload_task);
}

void cv_stage_read(cv_stage *stage, cv_stage_report *out_report) {
  int64_t now = cv_clock_ns();
  *out_report = (cv_stage_report){0};
  pthread_mutex_lock(&stage->lock);
  cv_lanes_read(&stage->lanes, now, &out_report->times);
  out_report->memory = stage->memory;
  out_report->slot_bytes = stage->slot_bytes;
  if (stage->computing_since_ns) out_report->computing_ns = now - stage->computing_since_ns;
  pthread_mutex_unlock(&stage->lock);
}
