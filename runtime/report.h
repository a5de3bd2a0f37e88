/* What a stage did with its time: two lanes, each adding up to wall time, and the report's JSON. */
#ifndef CV_RUNTIME_REPORT_H
#define CV_RUNTIME_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Compute lane: what the compute thread did, or what it waited for. */
typedef enum {
  CV_TIME_COMPUTE,
  CV_TIME_BLOCKED_RECEIVE, /* bytes are under way */
  CV_TIME_BLOCKED_SEND,    /* a micro-batch is ready, but there is no slot for its results */
  CV_TIME_STARVED,         /* nothing has come */
  CV_TIME_OTHER,           /* the way to the compute thread and back */
  CV_COMPUTE_LANE
} cv_compute_time;

/* Communication lane of a stage. Where both go on at once, it counts as sending. */
typedef enum { CV_TIME_SEND, CV_TIME_RECEIVE, CV_TIME_IDLE, CV_COMM_LANE } cv_comm_time;

/* Nanoseconds. Time runs from the first header that came to the last send that ended (or until
 * now, while a micro-batch is inside). */
typedef struct {
  uint64_t micro_batches; /* that have left the stage */
  int64_t wall_ns;
  int64_t compute_ns[CV_COMPUTE_LANE];
  int64_t comm_ns[CV_COMM_LANE];
} cv_stage_times;

/* A clock with one hand per lane: at each change the time since the last goes to what was. One
 * thread at a time. Zero-initialise. */
typedef struct {
  cv_stage_times times;   /* up to last_ns */
  cv_stage_times settled; /* when the stage was last empty */
  int64_t last_ns;
  bool begun, inside; /* inside: a micro-batch is in the stage */
  cv_compute_time compute;
  cv_comm_time comm;
} cv_lanes;

/* From now on the lanes are in this state; `now_ns` never falls. The first call begins them. */
void cv_lanes_set(cv_lanes *lanes, int64_t now_ns, cv_compute_time compute, cv_comm_time comm);
/* So much of what was counted as computing was the way to the compute thread and back. */
void cv_lanes_not_computed(cv_lanes *lanes, int64_t ns);
/* The stage is empty: what follows counts only if more comes. */
void cv_lanes_settle(cv_lanes *lanes, int64_t now_ns);
/* As of now. */
void cv_lanes_read(const cv_lanes *lanes, int64_t now_ns, cv_stage_times *out_times);

/* One stage of the report. */
typedef struct {
  const char *device;
  uint32_t first, last;
  double predicted_us; /* of the plan; 0: none */
  cv_stage_times times;
} cv_report_stage;

typedef struct {
  const cv_report_stage *stages;
  uint32_t n_stages;
  uint64_t requests;
  double rate;                     /* requests per second */
  double latency_p50, latency_p99; /* microseconds */
} cv_report;

/* 1 - computing / wall; 0 where nothing ran. */
double cv_report_idle(const cv_stage_times *times);
/* The report of docs/commands.md as JSON text, freed with cv_free. CV_NOMEM. */
CV_NODISCARD cv_status cv_report_json(const cv_report *report, char **out_text);
/* The value below which a share of the values lies (0.5: median); sorts them. 0 for none. */
double cv_report_percentile(double *values, size_t count, double share);

#endif
