#include "base/clock.h"

#include <errno.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };

static int64_t read_clock(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t cv_clock_ns(void) { return read_clock(CLOCK_MONOTONIC); }
int64_t cv_clock_wall_ns(void) { return read_clock(CLOCK_REALTIME); }
int64_t cv_clock_thread_cpu_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

void cv_clock_sleep_until(int64_t ns) {
  struct timespec t = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
  }
}
