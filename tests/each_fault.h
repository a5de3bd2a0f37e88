/* Runs a test's body again and again, so that each fault point in it fails once. */
#ifndef CV_TESTS_EACH_FAULT_H
#define CV_TESTS_EACH_FAULT_H

#include "base/alloc.h"
#include "base/status.h"

/* Calls `run(arg)` with the 1st, 2nd, ... fault point failing, until a run meets no more points.
 * `run` must clean up after itself each time. Returns how many points there were, or -n if the run
 * with the n-th failing said CV_OK all the same, or the last, without a failure, did not. */
static inline long each_fault(cv_status (*run)(void *), void *arg) {
  for (long n = 1;; n++) {
    cv_fault_arm(n);
    cv_status status = run(arg);
    bool fired = cv_fault_fired();
    cv_fault_arm(0);
    if (fired == (status == CV_OK)) return -n;
    if (!fired) return n - 1;
  }
}

#endif
