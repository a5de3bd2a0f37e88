/* Trace: what happened when. Each thread writes its own bounded ring; one file in Chrome's trace
 * form shows all processes on one clock. */
#ifndef CV_RUNTIME_TRACE_H
#define CV_RUNTIME_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum {
  CV_TRACE_COMPUTE, /* a micro-batch is computed */
  CV_TRACE_STEP,    /* one step of it; `detail` is the step */
  CV_TRACE_SEND,    /* from the call until its memory may be reused; `detail` is the edge */
  CV_TRACE_RECEIVE, /* from header to the last byte; `detail` is the edge */
  CV_TRACE_LOAD,    /* a slice is loaded */
  CV_TRACE_KINDS
} cv_trace_kind;

const char *cv_trace_kind_name(cv_trace_kind kind);

/* One event; times are CLOCK_MONOTONIC of the process where it happened. */
typedef struct {
  int64_t begin_ns, end_ns;
  uint64_t seq;
  uint32_t epoch_number;
  int32_t stage; /* or CV_EDGE_GATEWAY */
  uint32_t detail;
  uint32_t kind; /* cv_trace_kind */
} cv_trace_event;

/* A bounded ring: one thread puts, one other takes. A full ring drops what comes and counts it. */
typedef struct cv_trace cv_trace;
CV_NODISCARD cv_status cv_trace_create(uint32_t events, cv_trace **out_trace);
void cv_trace_destroy(cv_trace *trace); /* accepts NULL */
/* Never blocks, never allocates; a NULL trace is none. */
void cv_trace_put(cv_trace *trace, const cv_trace_event *event);
/* Takes at most `cap` events, oldest first; returns how many. */
size_t cv_trace_take(cv_trace *trace, cv_trace_event *out_events, size_t cap);
uint64_t cv_trace_dropped(const cv_trace *trace);

/* ---- clocks of several processes ---- */

/* One ping: asked at `sent` and answered at `received` by our clock; the peer took it in at
 * `peer_received` and answered at `peer_sent` by its own. All CLOCK_MONOTONIC. */
typedef struct {
  int64_t sent, peer_received, peer_sent, received;
} cv_clock_ping;

/* peer's time = our time + offset_ns, within +- bound_ns. */
typedef struct {
  int64_t offset_ns, bound_ns;
} cv_clock_offset;

/* From the ping with the shortest round trip: midpoint, and half the round trip as bound. Pings
 * that cannot be (an answer before its question) are passed over. CV_INVALID: none is left. */
CV_NODISCARD cv_status cv_clock_estimate(const cv_clock_ping *pings, size_t count,
                                         cv_clock_offset *out_offset);

/* ---- the merged file ---- */

/* What one process gives to it. */
typedef struct {
  const char *name;      /* "worker 1 on h2" */
  int pid;               /* distinguishes processes in the file */
  cv_clock_offset clock; /* of this process against the one that writes */
  const cv_trace_event *events;
  size_t n_events;
  uint64_t dropped;
} cv_trace_process;

/* Writes all events on the writer's clock, sends joined to their receives by arrows, sorted by
 * time; `bound_ns` of each process is in the file's metadata. CV_IO names the file; CV_NOMEM. */
CV_NODISCARD cv_status cv_trace_write(const char *path, const cv_trace_process *processes,
                                      size_t count);

#endif
