#include "base/clock.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { MS = 1000000 };

static void runs_forward_in_nanoseconds(void **state) {
  (void)state;
  int64_t last = cv_clock_ns();
  for (int i = 0; i < 10000; i++) {
    int64_t now = cv_clock_ns();
    assert_true(now >= last);
    last = now;
  }
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  int64_t wall = cv_clock_wall_ns();
  assert_true(wall / 1000000000 - t.tv_sec <= 60);
  assert_true(wall / 1000000000 >= t.tv_sec);
}

static void sleeps_until_not_less(void **state) {
  (void)state;
  int64_t until = cv_clock_ns() + 20 * MS;
  cv_clock_sleep_until(until);
  assert_true(cv_clock_ns() >= until);
  cv_clock_sleep_until(cv_clock_ns() - 1000 * MS); /* the past: returns at once */
}

static void ignore_signal(int number) { (void)number; }

static void signals_do_not_shorten_a_sleep(void **state) {
  (void)state;
  struct sigaction action = {.sa_handler = ignore_signal}, old;
  sigaction(SIGALRM, &action, &old);
  struct itimerval timer = {.it_value.tv_usec = 5000, .it_interval.tv_usec = 5000}, off;
  memset(&off, 0, sizeof off);
  int64_t until = cv_clock_ns() + 40 * MS;
  setitimer(ITIMER_REAL, &timer, NULL);
  cv_clock_sleep_until(until);
  int64_t woke = cv_clock_ns();
  setitimer(ITIMER_REAL, &off, NULL);
  sigaction(SIGALRM, &old, NULL);
  assert_true(woke >= until);
}

static void cpu_time_counts_work_not_sleep(void **state) {
  (void)state;
  int64_t before = cv_clock_thread_cpu_ns();
  cv_clock_sleep_until(cv_clock_ns() + 50 * MS);
  int64_t slept = cv_clock_thread_cpu_ns() - before;
  assert_true(slept < 45 * MS);
  volatile uint64_t work = 0;
  int64_t start = cv_clock_thread_cpu_ns();
  while (cv_clock_thread_cpu_ns() - start < 5 * MS) work += 1;
  assert_true(work > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_forward_in_nanoseconds),
      cmocka_unit_test(sleeps_until_not_less),
      cmocka_unit_test(signals_do_not_shorten_a_sleep),
      cmocka_unit_test(cpu_time_counts_work_not_sleep),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
