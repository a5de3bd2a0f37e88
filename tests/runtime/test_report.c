#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "runtime/report.h"

static void test_lanes_add_up(void **state) {
  (void)state;
  cv_lanes lanes = {0};
  cv_stage_times times;
  cv_lanes_read(&lanes, 5, &times);
  assert_int_equal(times.wall_ns, 0);
  cv_lanes_set(&lanes, 100, CV_TIME_BLOCKED_RECEIVE, CV_TIME_RECEIVE);
  cv_lanes_set(&lanes, 130, CV_TIME_COMPUTE, CV_TIME_IDLE);
  cv_lanes_set(&lanes, 150, CV_TIME_COMPUTE, CV_TIME_SEND);
  cv_lanes_set(&lanes, 200, CV_TIME_STARVED, CV_TIME_IDLE);
  cv_lanes_not_computed(&lanes, 15);
  cv_lanes_settle(&lanes, 210);
  cv_lanes_read(&lanes, 1000, &times); /* empty: what follows does not count */
  assert_int_equal(times.wall_ns, 110);
  assert_int_equal(times.compute_ns[CV_TIME_BLOCKED_RECEIVE], 30);
  assert_int_equal(times.compute_ns[CV_TIME_COMPUTE], 55);
  assert_int_equal(times.compute_ns[CV_TIME_OTHER], 15);
  assert_int_equal(times.compute_ns[CV_TIME_STARVED], 10);
  assert_int_equal(times.comm_ns[CV_TIME_RECEIVE], 30);
  assert_int_equal(times.comm_ns[CV_TIME_SEND], 50);
  assert_int_equal(times.comm_ns[CV_TIME_IDLE], 30);
  cv_lanes_set(&lanes, 310, CV_TIME_COMPUTE, CV_TIME_IDLE); /* more comes: the gap was starving */
  cv_lanes_read(&lanes, 320, &times);
  assert_int_equal(times.wall_ns, 220);
  assert_int_equal(times.compute_ns[CV_TIME_STARVED], 110);
  assert_int_equal(times.compute_ns[CV_TIME_COMPUTE], 65);
  int64_t sum = 0;
  for (int i = 0; i < CV_COMPUTE_LANE; i++) sum += times.compute_ns[i];
  assert_int_equal(sum, times.wall_ns);
}

static void test_percentiles(void **state) {
  (void)state;
  double values[] = {5, 1, 4, 2, 3};
  assert_true(cv_report_percentile(values, 5, 0.5) == 3);
  assert_true(cv_report_percentile(values, 5, 0.99) == 5);
  assert_true(cv_report_percentile(values, 5, 0) == 1);
  assert_true(cv_report_percentile(values, 0, 0.5) == 0);
}

static void test_json(void **state) {
  (void)state;
  cv_report_stage stage = {.device = "edge \"a\"", .first = 2, .last = 9, .predicted_us = 12.5};
  stage.times = (cv_stage_times){.micro_batches = 4,
                                 .wall_ns = 100000,
                                 .compute_ns = {60000, 10000, 20000, 5000, 5000},
                                 .comm_ns = {30000, 20000, 50000}};
  cv_report report = {.stages = &stage,
                      .n_stages = 1,
                      .requests = 7,
                      .rate = 3.5,
                      .latency_p50 = 1,
                      .latency_p99 = 2};
  char *text;
  assert_int_equal(cv_report_json(&report, &text), CV_OK);
  json_t *root = json_loads(text, 0, NULL), *lane;
  assert_non_null(root);
  json_t *first = json_array_get(json_object_get(root, "stages"), 0);
  assert_string_equal(json_string_value(json_object_get(first, "device")), "edge \"a\"");
  assert_true(json_number_value(json_object_get(first, "measured_us")) == 15);
  assert_true(json_number_value(json_object_get(first, "predicted_us")) == 12.5);
  double idle = json_number_value(json_object_get(first, "idle_ratio"));
  assert_true(idle > 0.399 && idle < 0.401);
  lane = json_object_get(first, "compute_lane");
  assert_true(json_number_value(json_object_get(lane, "blocked_send")) == 20);
  assert_true(json_number_value(json_object_get(lane, "wall")) == 100);
  lane = json_object_get(first, "comm_lane");
  assert_true(json_number_value(json_object_get(lane, "idle")) == 50);
  assert_int_equal(json_integer_value(json_object_get(root, "requests")), 7);
  assert_true(json_number_value(json_object_get(json_object_get(root, "latency_us"), "p99")) == 2);
  json_decref(root);
  cv_free(text);
  cv_fault_arm(1);
  assert_int_equal(cv_report_json(&report, &text), CV_NOMEM);
  cv_fault_arm(0);
  assert_true(cv_report_idle(&(cv_stage_times){0}) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lanes_add_up),
                                     cmocka_unit_test(test_percentiles),
                                     cmocka_unit_test(test_json)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
