#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/trace.h"

static void test_ring_keeps_the_oldest(void **state) {
  (void)state;
  cv_trace *trace;
  cv_trace_event out[8];
  assert_int_equal(cv_trace_create(0, &trace), CV_INVALID);
  assert_int_equal(cv_trace_create(4, &trace), CV_OK);
  for (uint64_t seq = 0; seq < 6; seq++) cv_trace_put(trace, &(cv_trace_event){.seq = seq});
  assert_int_equal(cv_trace_dropped(trace), 2);
  assert_int_equal(cv_trace_take(trace, out, 3), 3);
  assert_int_equal(out[2].seq, 2);
  cv_trace_put(trace, &(cv_trace_event){.seq = 9});
  assert_int_equal(cv_trace_take(trace, out, 8), 2);
  assert_int_equal(out[0].seq, 3);
  assert_int_equal(out[1].seq, 9);
  assert_int_equal(cv_trace_take(trace, out, 8), 0);
  cv_trace_destroy(trace);
  cv_trace_put(NULL, &out[0]);
  assert_int_equal(cv_trace_take(NULL, out, 8), 0);
}

static void *put_many(void *arg) {
  for (uint64_t seq = 0; seq < 20000; seq++) cv_trace_put(arg, &(cv_trace_event){.seq = seq});
  return NULL;
}

static void test_two_threads(void **state) {
  (void)state;
  cv_trace *trace;
  pthread_t thread;
  cv_trace_event out[16];
  assert_int_equal(cv_trace_create(64, &trace), CV_OK);
  assert_int_equal(pthread_create(&thread, NULL, put_many, trace), 0);
  uint64_t got = 0, next = 0;
  while (got + cv_trace_dropped(trace) < 20000) {
    size_t count = cv_trace_take(trace, out, 16);
    for (size_t i = 0; i < count; i++) {
      assert_true(out[i].seq >= next);
      next = out[i].seq + 1;
    }
    got += count;
  }
  pthread_join(thread, NULL);
  cv_trace_destroy(trace);
}

static void test_clock_offset(void **state) {
  (void)state;
  /* the peer is 3600 s ahead; the second trip is the shortest, and lopsided */
  const int64_t ahead = 3600000000000;
  const cv_clock_ping pings[] = {{1000, ahead + 51000, ahead + 52000, 102000},
                                 {200000, ahead + 201000, ahead + 202000, 206000},
                                 {300000, ahead + 290000, ahead + 280000, 300500}, /* cannot be */
                                 {400000, ahead + 450000, ahead + 450000, 500000}};
  cv_clock_offset offset;
  assert_int_equal(cv_clock_estimate(pings, 4, &offset), CV_OK);
  assert_int_equal(offset.bound_ns, 2501);
  assert_true(offset.offset_ns - ahead <= offset.bound_ns &&
              ahead - offset.offset_ns <= offset.bound_ns);
  assert_int_equal(cv_clock_estimate(&pings[2], 1, &offset), CV_INVALID);
  assert_int_equal(cv_clock_estimate(NULL, 0, &offset), CV_INVALID);
}

/* A worker whose clock is an hour ahead receives what the gateway sends, on one axis. */
static void test_merged_file(void **state) {
  (void)state;
  static const char path[] = "/tmp/cuvil-test-trace.json";
  const int64_t ahead = 3600000000000;
  cv_trace_event sends[] = {{.begin_ns = 10000,
                             .end_ns = 12000,
                             .seq = 4,
                             .stage = -1,
                             .detail = 2,
                             .kind = CV_TRACE_SEND}};
  cv_trace_event receives[] = {
      {.begin_ns = ahead + 13000,
       .end_ns = ahead + 14000,
       .seq = 4,
       .detail = 2,
       .kind = CV_TRACE_RECEIVE},
      {.begin_ns = ahead + 15000, .end_ns = ahead + 25000, .seq = 4, .kind = CV_TRACE_COMPUTE}};
  cv_trace_process both[] = {
      {.name = "gateway", .pid = 0, .events = sends, .n_events = 1},
      {.name = "worker \"1\"", .pid = 1, .clock = {ahead, 500}, .events = receives, .n_events = 2}};
  assert_int_equal(cv_trace_write(path, both, 2), CV_OK);
  json_error_t error;
  json_t *root = json_load_file(path, 0, &error);
  assert_non_null(root);
  json_t *events = json_object_get(root, "traceEvents"), *event;
  size_t i;
  double sent = -1, received = -1;
  int arrows = 0, bounds = 0;
  json_array_foreach(events, i, event) {
    const char *phase = json_string_value(json_object_get(event, "ph"));
    const char *kind = json_string_value(json_object_get(event, "cat"));
    double ts = json_number_value(json_object_get(event, "ts"));
    arrows += phase[0] == 's' || phase[0] == 'f';
    json_t *bound = json_object_get(json_object_get(event, "args"), "clock_bound_ns");
    bounds += bound && json_integer_value(bound) == 500;
    if (phase[0] == 'X' && strcmp(kind, "send") == 0) sent = ts;
    if (phase[0] == 'X' && strcmp(kind, "receive") == 0) received = ts;
  }
  assert_true(sent > 9.99 && sent < 10.01 && received > 12.99 && received < 13.01);
  assert_int_equal(arrows, 2);
  assert_int_equal(bounds, 1);
  json_decref(root);
  unlink(path);
  assert_int_equal(cv_trace_write("/nowhere/at/all.json", both, 2), CV_IO);
  assert_non_null(strstr(cv_error_text(), "/nowhere/at/all.json"));
  cv_fault_arm(1);
  assert_int_equal(cv_trace_write(path, both, 2), CV_NOMEM);
  cv_fault_arm(2);
  assert_int_equal(cv_trace_write(path, both, 2), CV_IO);
  cv_fault_arm(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ring_keeps_the_oldest), cmocka_unit_test(test_two_threads),
      cmocka_unit_test(test_clock_offset), cmocka_unit_test(test_merged_file)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
