#include "runtime/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"

const char *cv_trace_kind_name(cv_trace_kind kind) {
  static const char *const names[CV_TRACE_KINDS] = {"compute", "step", "send", "receive", "load"};
  return kind < CV_TRACE_KINDS ? names[kind] : "unknown";
}

/* ---- the ring ---- */

struct cv_trace {
  _Atomic uint64_t put, taken, dropped; /* counts; the slot is count mod cap */
  uint32_t cap;
  cv_trace_event events[];
};

cv_status cv_trace_create(uint32_t events, cv_trace **out_trace) {
  *out_trace = NULL;
  if (events < 1) return cv_error(CV_INVALID, "a trace of %u events: give at least 1", events);
  size_t bytes = sizeof(cv_trace) + events * sizeof(cv_trace_event);
  cv_trace *trace = cv_alloc(1, bytes);
  if (!trace) return cv_error_nomem(bytes);
  trace->cap = events;
  *out_trace = trace;
  return CV_OK;
}

void cv_trace_destroy(cv_trace *trace) { cv_free(trace); }

void cv_trace_put(cv_trace *trace, const cv_trace_event *event) {
  if (!trace) return;
  uint64_t put = atomic_load_explicit(&trace->put, memory_order_relaxed);
  if (put - atomic_load_explicit(&trace->taken, memory_order_acquire) >= trace->cap) {
    atomic_fetch_add_explicit(&trace->dropped, 1, memory_order_relaxed);
    return;
  }
  trace->events[put % trace->cap] = *event;
  atomic_store_explicit(&trace->put, put + 1, memory_order_release);
}

size_t cv_trace_take(cv_trace *trace, cv_trace_event *out_events, size_t cap) {
  if (!trace) return 0;
  uint64_t taken = atomic_load_explicit(&trace->taken, memory_order_relaxed);
  uint64_t there = atomic_load_explicit(&trace->put, memory_order_acquire) - taken;
  size_t count = there < cap ? (size_t)there : cap;
  for (size_t i = 0; i < count; i++) out_events[i] = trace->events[(taken + i) % trace->cap];
  atomic_store_explicit(&trace->taken, taken + count, memory_order_release);
  return count;
}

uint64_t cv_trace_dropped(const cv_trace *trace) {
  return trace ? atomic_load_explicit(&trace->dropped, memory_order_relaxed) : 0;
}

/* ---- clocks ---- */

cv_status cv_clock_estimate(const cv_clock_ping *pings, size_t count, cv_clock_offset *out_offset) {
  *out_offset = (cv_clock_offset){0};
  int64_t best = INT64_MAX;
  for (size_t i = 0; i < count; i++) {
    const cv_clock_ping *p = &pings[i];
    int64_t there = p->peer_sent - p->peer_received, trip = p->received - p->sent - there;
    if (there < 0 || p->received < p->sent || trip < 0 || trip >= best) continue;
    best = trip;
    out_offset->offset_ns = (p->peer_received - p->sent) / 2 + (p->peer_sent - p->received) / 2;
    out_offset->bound_ns = trip / 2 + 1;
  }
  if (best != INT64_MAX) return CV_OK;
  return cv_error(CV_INVALID, "clocks: none of %zu pings was answered after it was asked", count);
}

/* ---- the file ---- */

/* One line of the file, and where it stands in time. */
typedef struct {
  int64_t ns;
  const cv_trace_event *event;
  const cv_trace_process *process;
} line;

static int by_time(const void *a, const void *b) {
  const line *x = a, *y = b;
  return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Writes an object and consumes it; false on failure. */
static bool put_object(FILE *file, json_t *object, bool *first) {
  if (!object) return false;
  bool ok = fputs(*first ? "\n" : ",\n", file) >= 0 &&
            json_dumpf(object, file, JSON_COMPACT | JSON_REAL_PRECISION(16)) == 0;
  *first = false;
  json_decref(object);
  return ok;
}

static bool put_process(FILE *file, const cv_trace_process *process, bool *first) {
  return put_object(file,
                    json_pack("{s:s, s:s, s:i, s:{s:s, s:I, s:I, s:I}}", "ph", "M", "name",
                              "process_name", "pid", process->pid, "args", "name", process->name,
                              "clock_offset_ns", (json_int_t)process->clock.offset_ns,
                              "clock_bound_ns", (json_int_t)process->clock.bound_ns,
                              "dropped_events", (json_int_t)process->dropped),
                    first);
}

static bool is_message(const cv_trace_event *event) {
  return event->kind == CV_TRACE_SEND || event->kind == CV_TRACE_RECEIVE;
}

/* Rows of a stage: computing, and each edge its own. */
static int row_of(const cv_trace_event *event) {
  int stage = (event->stage + 1) * 1000;
  return is_message(event) ? stage + 1 + (int)(event->detail % 998) : stage;
}

/* The arrow from a send to its receive: both ends give the same id. */
static bool put_arrow(FILE *file, const line *at, bool *first) {
  const cv_trace_event *event = at->event;
  bool send = event->kind == CV_TRACE_SEND;
  char id[64];
  snprintf(id, sizeof id, "%u.%u.%" PRIu64, event->epoch_number, event->detail, event->seq);
  return put_object(file,
                    json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:s}", "ph", send ? "s" : "f",
                              "name", "message", "cat", "edge", "id", id, "pid", at->process->pid,
                              "tid", row_of(event), "ts", (double)at->ns / 1000, "bp", "e"),
                    first);
}

static bool put_event(FILE *file, const line *at, bool *first) {
  const cv_trace_event *event = at->event;
  char name[64];
  const char *kind = cv_trace_kind_name((cv_trace_kind)event->kind);
  if (event->kind == CV_TRACE_STEP)
    snprintf(name, sizeof name, "step %u", event->detail);
  else if (is_message(event))
    snprintf(name, sizeof name, "%s %" PRIu64 " edge %u", kind, event->seq, event->detail);
  else
    snprintf(name, sizeof name, "%s %" PRIu64, kind, event->seq);
  bool ok = put_object(
      file,
      json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:I, s:i, s:i, s:i}}", "ph", "X", "name",
                name, "cat", kind, "pid", at->process->pid, "tid", row_of(event), "ts",
                (double)at->ns / 1000, "dur", (double)(event->end_ns - event->begin_ns) / 1000,
                "args", "seq", (json_int_t)event->seq, "stage", event->stage, "detail",
                (int)event->detail, "epoch", (int)event->epoch_number),
      first);
  return ok && (!is_message(event) || put_arrow(file, at, first));
}

static cv_status write_lines(const char *path, const cv_trace_process *processes, size_t count,
                             const line *lines, size_t n_lines) {
  FILE *file = cv_fault() ? NULL : fopen(path, "w");
  if (!file) return cv_error(CV_IO, "%s: cannot write the trace: %s", path, strerror(errno));
  bool first = true;
  bool ok = fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", file) >= 0;
  for (size_t i = 0; ok && i < count; i++) ok = put_process(file, &processes[i], &first);
  for (size_t i = 0; ok && i < n_lines; i++) ok = put_event(file, &lines[i], &first);
  ok = ok && fputs("\n]}\n", file) >= 0;
  ok = fclose(file) == 0 && ok;
  return ok ? CV_OK : cv_error(CV_IO, "%s: cannot write the trace: %s", path, strerror(errno));
}

cv_status cv_trace_write(const char *path, const cv_trace_process *processes, size_t count) {
  size_t total = 0, k = 0;
  for (size_t i = 0; i < count; i++) total += processes[i].n_events;
  line *lines = cv_alloc(total + 1, sizeof *lines);
  if (!lines) return cv_error_nomem(total * sizeof *lines);
  for (size_t i = 0; i < count; i++)
    for (size_t e = 0; e < processes[i].n_events; e++) {
      const cv_trace_event *event = &processes[i].events[e];
      lines[k++] = (line){event->begin_ns - processes[i].clock.offset_ns, event, &processes[i]};
    }
  qsort(lines, total, sizeof *lines, by_time);
  cv_status status = write_lines(path, processes, count, lines, total);
  cv_free(lines);
  return status;
}
