/* The table of rows, and the wait of a communication thread. */
#include "tests/conformance/pair.h"

#include <sys/eventfd.h>

static void rows_are_found_by_name(void **state) {
  (void)state;
  assert_null(cv_transport_find("carrier-pigeon"));
  for (size_t i = 0; cv_transport_at(i) != NULL; i++)
    assert_ptr_equal(cv_transport_find(cv_transport_row_name(cv_transport_at(i))),
                     cv_transport_at(i));
  assert_non_null(cv_transport_find("inproc"));
  assert_non_null(cv_transport_find("shm"));
}

static void wait_ends_at_its_deadline_or_by_the_extra_fd(void **state) {
  (void)state;
  cv_transport *transports[2];
  cv_hub *hub;
  assert_int_equal(cv_hub_create(&hub), CV_OK);
  assert_int_equal(cv_transport_open(cv_transport_find("inproc"), hub, &transports[0]), CV_OK);
  assert_int_equal(cv_transport_open(cv_transport_find("shm"), NULL, &transports[1]), CV_OK);
  int64_t start = cv_clock_ns();
  assert_int_equal(cv_transport_wait(transports, 2, -1, start + 20000000, 50000), CV_TIMEOUT);
  assert_true(cv_clock_ns() - start >= 20000000);
  int fd = eventfd(1, 0);
  assert_int_equal(cv_transport_wait(transports, 2, fd, INT64_MAX, 0), CV_OK);
  assert_int_equal(cv_transport_wait(transports, 17, fd, INT64_MAX, 0), CV_INVALID);
  close(fd);
  for (int i = 0; i < 2; i++) cv_transport_close(transports[i]);
  cv_transport_close(NULL);
  cv_hub_destroy(hub);
  cv_hub_destroy(NULL);
}

/* Waiting must sleep, not spin: little CPU time passes. */
static void wait_does_not_spin(void **state) {
  (void)state;
  for (size_t i = 0; cv_transport_at(i) != NULL; i++) {
    pair both = {.row = cv_transport_at(i)};
    cv_channel_params params = usual_params();
    assert_int_equal(open_transports(&both), CV_OK);
    open_pair(&both, &params);
    settle(&both);
    int64_t cpu = cv_clock_thread_cpu_ns(), deadline = cv_clock_ns() + 200000000;
    while (cv_transport_wait(both.transports, 2, -1, deadline, 20000) == CV_OK) {
    }
    cpu = cv_clock_thread_cpu_ns() - cpu;
    print_message("  %s: %.2f ms CPU in 200 ms\n", cv_transport_row_name(both.row),
                  (double)cpu / 1e6);
    assert_true(cpu < 100000000);
    close_pair(&both);
    close_transports(&both);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_found_by_name),
      cmocka_unit_test(wait_ends_at_its_deadline_or_by_the_extra_fd),
      cmocka_unit_test(wait_does_not_spin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
