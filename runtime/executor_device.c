/* The loader thread, the devices in use, and their compute threads. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/executor_internal.h"

/* ---- a device and its compute thread ---- */

static void *compute(void *arg) {
  cv_worker *worker = arg;
  void *item;
  while (cv_queue_pop(worker->jobs, INT64_MAX, &item) == CV_OK) {
    cv_task *task = item;
    cv_job_run(task->subject, worker->trace);
    task->kind = CV_TASK_COMPUTED;
    cv_executor_tell(worker->executor, task);
  }
  return NULL;
}

/* A ring that no device uses, or a new one. */
static cv_status trace_acquire(cv_executor *executor, cv_trace **out_trace) {
  cv_status status = CV_OK;
  *out_trace = NULL;
  if (!executor->trace_events) return CV_OK;
  pthread_mutex_lock(&executor->traces_lock);
  for (size_t i = 0; i < executor->device_traces.len && !*out_trace; i++) {
    cv_device_trace *old = &executor->device_traces.data[i];
    if (old->in_use) continue;
    old->in_use = true;
    *out_trace = old->trace;
  }
  if (!*out_trace) {
    status = cv_trace_create(executor->trace_events, out_trace);
    if (status == CV_OK &&
        !cv_vec_push(&executor->device_traces, (cv_device_trace){*out_trace, true})) {
      cv_trace_destroy(*out_trace);
      *out_trace = NULL;
      status = cv_error_nomem(sizeof(cv_device_trace));
    }
  }
  pthread_mutex_unlock(&executor->traces_lock);
  return status;
}

static void trace_release(cv_executor *executor, const cv_trace *trace) {
  pthread_mutex_lock(&executor->traces_lock);
  for (size_t i = 0; i < executor->device_traces.len; i++)
    if (executor->device_traces.data[i].trace == trace)
      executor->device_traces.data[i].in_use = false;
  pthread_mutex_unlock(&executor->traces_lock);
}

static void worker_close(cv_worker *worker) {
  if (!worker) return;
  if (worker->jobs) cv_queue_close(worker->jobs);
  if (worker->started) pthread_join(worker->thread, NULL);
  if (worker->device) worker->device->ops->close(worker->device);
  cv_queue_destroy(worker->jobs);
  if (worker->trace) trace_release(worker->executor, worker->trace);
  cv_free((void *)(uintptr_t)worker->spec.name);
  cv_free((void *)(uintptr_t)worker->spec.kind);
  cv_free((void *)(uintptr_t)worker->spec.target);
  cv_free(worker);
}

static cv_status copy_spec(const cv_device_spec *spec, cv_device_spec *to) {
  *to = *spec;
  to->name = cv_strdup(spec->name ? spec->name : "");
  to->kind = cv_strdup(spec->kind ? spec->kind : "");
  to->target = spec->target ? cv_strdup(spec->target) : NULL;
  if (to->name && to->kind && (to->target || !spec->target)) return CV_OK;
  return cv_error_nomem(sizeof *spec);
}

static cv_status worker_open(cv_executor *executor, const cv_device_spec *spec,
                             cv_worker **out_worker) {
  *out_worker = NULL;
  cv_worker *worker = cv_alloc(1, sizeof *worker);
  if (!worker) return cv_error_nomem(sizeof *worker);
  cv_status status = CV_OK;
  worker->executor = executor;
  CV_TRY(copy_spec(spec, &worker->spec));
  const cv_device_ops *ops = executor->find_device(worker->spec.kind);
  if (!ops)
    CV_TRY(cv_error(CV_INVALID, "device %s: there is no kind '%s'", worker->spec.name,
                    worker->spec.kind));
  if (spec->threads < 1)
    CV_TRY(cv_error(CV_INVALID, "device %s: %d threads, at least 1 is needed", worker->spec.name,
                    spec->threads));
  CV_TRY(ops->open(&worker->spec, &worker->device));
  CV_TRY(cv_queue_create(CV_STAGE_JOBS * CV_EXECUTOR_STAGES, false, &worker->jobs));
  CV_TRY(trace_acquire(executor, &worker->trace));
  CV_TRY(cv_thread_start("cv-device", compute, worker, &worker->thread));
  worker->started = true;
  *out_worker = worker;
out:
  if (status != CV_OK) worker_close(worker);
  return status;
}

static bool same_text(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static bool same_spec(const cv_device_spec *a, const cv_device_spec *b) {
  return same_text(a->name, b->name) && same_text(a->kind, b->kind) &&
         same_text(a->target, b->target) && a->threads == b->threads && a->memory == b->memory &&
         !(a->pace_us < b->pace_us) && !(a->pace_us > b->pace_us) &&
         !(a->pace_us_per_step < b->pace_us_per_step) &&
         !(a->pace_us_per_step > b->pace_us_per_step);
}

static cv_status worker_acquire(cv_executor *executor, const cv_device_spec *spec,
                                cv_worker **out_worker) {
  cv_status status = CV_OK;
  *out_worker = executor->workers;
  while (*out_worker && !same_spec(&(*out_worker)->spec, spec)) *out_worker = (*out_worker)->next;
  if (!*out_worker) {
    status = worker_open(executor, spec, out_worker);
    if (status != CV_OK) return status;
    (*out_worker)->next = executor->workers;
    executor->workers = *out_worker;
  }
  (*out_worker)->refs++;
  return CV_OK;
}

static void worker_release(cv_worker *worker) {
  if (!worker || --worker->refs > 0) return;
  cv_worker **at = &worker->executor->workers;
  while (*at != worker) at = &(*at)->next;
  *at = worker->next;
  worker_close(worker);
}

/* ---- the loader ---- */

static cv_status load(cv_stage *stage) {
  cv_status status = worker_acquire(stage->executor, &stage->spec, &stage->worker);
  if (status != CV_OK) return status;
  cv_device *device = stage->worker->device;
  status = device->ops->load(device, stage->artifact, stage->span.first, stage->span.last,
                             &stage->slice);
  if (status != CV_OK) return cv_error_context(status, "device %s", stage->worker->spec.name);
  cv_slice_memory_used(stage->slice, &stage->jobs[0].memory);
  return CV_OK;
}

static void unload(cv_stage *stage) {
  cv_slice_unload(stage->slice);
  stage->slice = NULL;
  worker_release(stage->worker);
  stage->worker = NULL;
}

static void handle(cv_executor *executor, cv_task *task) {
  cv_stage *stage = task->subject;
  if (task->kind == CV_TASK_LOAD) {
    int64_t begin = cv_clock_ns();
    stage->load_status = load(stage);
    snprintf(stage->load_text, sizeof stage->load_text, "%s", cv_error_text());
    cv_trace_put(executor->loader_trace, &(cv_trace_event){.begin_ns = begin,
                                                           .end_ns = cv_clock_ns(),
                                                           .epoch_number = stage->epoch.number,
                                                           .stage = stage->index,
                                                           .kind = CV_TRACE_LOAD});
    task->kind = CV_TASK_LOADED;
  } else {
    unload(stage);
    task->kind = CV_TASK_UNLOADED;
  }
  cv_executor_tell(executor, task);
}

void *cv_executor_loader(void *arg) {
  cv_executor *executor = arg;
  void *item;
  while (cv_queue_pop(executor->loader_inbox, INT64_MAX, &item) == CV_OK) handle(executor, item);
  return NULL;
}
