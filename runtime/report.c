#include "runtime/report.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/alloc.h"

/* ---- lanes ---- */

static void advance(const cv_lanes *lanes, int64_t now_ns, cv_stage_times *times) {
  int64_t passed = now_ns - lanes->last_ns;
  times->wall_ns += passed;
  times->compute_ns[lanes->compute] += passed;
  times->comm_ns[lanes->comm] += passed;
}

void cv_lanes_set(cv_lanes *lanes, int64_t now_ns, cv_compute_time compute, cv_comm_time comm) {
  if (lanes->begun) advance(lanes, now_ns, &lanes->times);
  lanes->begun = lanes->inside = true;
  lanes->last_ns = now_ns;
  lanes->compute = compute;
  lanes->comm = comm;
}

void cv_lanes_not_computed(cv_lanes *lanes, int64_t ns) {
  lanes->times.compute_ns[CV_TIME_COMPUTE] -= ns;
  lanes->times.compute_ns[CV_TIME_OTHER] += ns;
}

void cv_lanes_settle(cv_lanes *lanes, int64_t now_ns) {
  cv_lanes_set(lanes, now_ns, CV_TIME_STARVED, CV_TIME_IDLE);
  lanes->settled = lanes->times;
  lanes->inside = false;
}

void cv_lanes_read(const cv_lanes *lanes, int64_t now_ns, cv_stage_times *out_times) {
  *out_times = lanes->inside ? lanes->times : lanes->settled;
  if (lanes->inside) advance(lanes, now_ns, out_times);
  out_times->micro_batches = lanes->times.micro_batches;
}

/* ---- the report ---- */

double cv_report_idle(const cv_stage_times *times) {
  if (times->wall_ns <= 0) return 0;
  return 1 - (double)times->compute_ns[CV_TIME_COMPUTE] / (double)times->wall_ns;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double cv_report_percentile(double *values, size_t count, double share) {
  if (count == 0) return 0;
  qsort(values, count, sizeof *values, compare);
  size_t at = (size_t)(share * (double)(count - 1) + 0.5);
  return values[at < count ? at : count - 1];
}

static double us(int64_t ns) { return (double)ns / 1000; }

static json_t *lane_json(const char *const *names, const int64_t *ns, int count, int64_t wall) {
  json_t *lane = json_object();
  for (int i = 0; i < count; i++) json_object_set_new(lane, names[i], json_real(us(ns[i])));
  json_object_set_new(lane, "wall", json_real(us(wall)));
  return lane;
}

static json_t *stage_json(const cv_report_stage *stage) {
  static const char *const compute[] = {"compute", "blocked_receive", "blocked_send", "starved",
                                        "other"};
  static const char *const comm[] = {"send", "receive", "idle"};
  const cv_stage_times *t = &stage->times;
  double each =
      t->micro_batches ? us(t->compute_ns[CV_TIME_COMPUTE]) / (double)t->micro_batches : 0;
  return json_pack(
      "{s:s, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:f}", "device", stage->device, "first",
      (json_int_t)stage->first, "last", (json_int_t)stage->last, "micro_batches",
      (json_int_t)t->micro_batches, "predicted_us", stage->predicted_us, "measured_us", each,
      "compute_lane", lane_json(compute, t->compute_ns, CV_COMPUTE_LANE, t->wall_ns), "comm_lane",
      lane_json(comm, t->comm_ns, CV_COMM_LANE, t->wall_ns), "idle_ratio", cv_report_idle(t));
}

cv_status cv_report_json(const cv_report *report, char **out_text) {
  *out_text = NULL;
  cv_status status = CV_OK;
  char *text = NULL;
  json_t *stages = json_array(), *root = NULL;
  for (uint32_t i = 0; i < report->n_stages; i++)
    if (json_array_append_new(stages, stage_json(&report->stages[i])) != 0)
      CV_TRY(cv_error(CV_NOMEM, "report: no memory for stage %u", i));
  root = json_pack("{s:O, s:I, s:f, s:{s:f, s:f}}", "stages", stages, "requests",
                   (json_int_t)report->requests, "rate", report->rate, "latency_us", "p50",
                   report->latency_p50, "p99", report->latency_p99);
  text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
  if (text) *out_text = cv_strdup(text);
  if (!*out_text) CV_TRY(cv_error(CV_NOMEM, "report: no memory for its text"));
out:
  free(text);
  json_decref(root);
  json_decref(stages);
  return status;
}
