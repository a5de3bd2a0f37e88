/* Clocks. All times are int64 nanoseconds unless a name says otherwise. Any thread. */
#ifndef CV_BASE_CLOCK_H
#define CV_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC. */
int64_t cv_clock_ns(void);
/* CLOCK_REALTIME. */
int64_t cv_clock_wall_ns(void);
/* CPU time of the calling thread. */
int64_t cv_clock_thread_cpu_ns(void);
/* Sleeps until the given CLOCK_MONOTONIC time. */
void cv_clock_sleep_until(int64_t ns);

#endif
