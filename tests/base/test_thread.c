#include "base/thread.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "tests/each_fault.h"

enum { MOST = 1000 };

typedef struct {
  atomic_int times[MOST]; /* each task ran this often */
  atomic_int threads_seen;
  int64_t fails_at; /* -1: none */
} pool_job;

static int run_tasks(void *arg, int64_t begin, int64_t end, int thread) {
  pool_job *job = arg;
  atomic_fetch_or(&job->threads_seen, 1 << thread);
  for (int64_t i = begin; i < end; i++) {
    atomic_fetch_add(&job->times[i], 1);
    if (i == job->fails_at) return 7;
  }
  return 0;
}

static void every_task_runs_once(void **state) {
  (void)state;
  static const int64_t counts[] = {0, 1, 2, 3, 7, 64, MOST};
  for (int threads = 1; threads <= 5; threads++) {
    cv_pool *pool;
    assert_int_equal(cv_pool_create(threads, &pool), CV_OK);
    assert_int_equal(cv_pool_threads(pool), threads);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
      pool_job job = {.fails_at = -1};
      assert_int_equal(cv_pool_run(pool, counts[k], run_tasks, &job), 0);
      for (int64_t i = 0; i < MOST; i++) assert_int_equal(job.times[i], i < counts[k]);
      if (counts[k] >= threads) assert_int_equal(job.threads_seen, (1 << threads) - 1);
    }
    cv_pool_destroy(pool);
  }
}

static void a_failed_task_is_reported_and_the_next_job_runs(void **state) {
  (void)state;
  cv_pool *pool;
  assert_int_equal(cv_pool_create(3, &pool), CV_OK);
  for (int64_t at = 0; at < 90; at += 11) {
    pool_job job = {.fails_at = at};
    assert_int_equal(cv_pool_run(pool, 90, run_tasks, &job), 7);
    job.fails_at = -1;
    assert_int_equal(cv_pool_run(pool, 90, run_tasks, &job), 0);
  }
  cv_pool_destroy(pool);
}

static int add_without_lock(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  int *numbers = arg;
  for (int64_t i = begin; i < end; i++) numbers[i]++;
  return 0;
}

/* Plain stores of one job are seen by whoever runs the next: the thread sanitizer checks the
 * barrier. */
static void run_is_a_barrier(void **state) {
  (void)state;
  int numbers[50] = {0};
  cv_pool *pool;
  assert_int_equal(cv_pool_create(4, &pool), CV_OK);
  for (int round = 1; round <= 300; round++) {
    int64_t count = 50 - round % 3; /* so that tasks change hands */
    assert_int_equal(cv_pool_run(pool, count, add_without_lock, numbers), 0);
    for (int64_t i = count; i < 50; i++) numbers[i]++;
    for (int i = 0; i < 50; i++) assert_int_equal(numbers[i], round);
  }
  cv_pool_destroy(pool);
}

static void idle_threads_sleep(void **state) {
  (void)state;
  cv_pool *pool;
  assert_int_equal(cv_pool_create(4, &pool), CV_OK);
  struct timespec before, after;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  cv_clock_sleep_until(cv_clock_ns() + 100000000);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  int64_t used = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
  assert_true(used < 50000000); /* a spinning helper would have used 100 ms */
  cv_pool_destroy(pool);
}

static void impossible_pools_are_refused(void **state) {
  (void)state;
  cv_pool *pool = (cv_pool *)&pool;
  assert_int_equal(cv_pool_create(0, &pool), CV_INVALID);
  assert_null(pool);
  assert_non_null(strstr(cv_error_text(), "0 threads asked for"));
  assert_int_equal(cv_pool_create(100000, &pool), CV_INVALID);
  cv_pool_destroy(NULL);
}

static cv_status make_and_use(void *arg) {
  (void)arg;
  cv_pool *pool;
  cv_status status = cv_pool_create(4, &pool);
  if (status != CV_OK) {
    assert_null(pool);
    return status;
  }
  pool_job job = {.fails_at = -1};
  assert_int_equal(cv_pool_run(pool, 10, run_tasks, &job), 0);
  cv_pool_destroy(pool);
  return status;
}

static void nth_call_fails(void **state) {
  (void)state;
  assert_int_equal(each_fault(make_and_use, NULL), 4); /* the pool, and three threads */
}

static void *tell_name(void *arg) {
  char *name = arg;
  for (int i = 0; i < 1000 && strncmp(name, "cv-", 3) != 0; i++) {
    pthread_getname_np(pthread_self(), name, 16);
    cv_clock_sleep_until(cv_clock_ns() + 1000000);
  }
  return NULL;
}

static void threads_have_names(void **state) {
  (void)state;
  char name[16] = "";
  pthread_t thread;
  assert_int_equal(cv_thread_start("cv-communication-of-stage-3", tell_name, name, &thread), CV_OK);
  pthread_join(thread, NULL);
  assert_string_equal(name, "cv-communicatio");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_task_runs_once),
      cmocka_unit_test(a_failed_task_is_reported_and_the_next_job_runs),
      cmocka_unit_test(run_is_a_barrier),
      cmocka_unit_test(idle_threads_sleep),
      cmocka_unit_test(impossible_pools_are_refused),
      cmocka_unit_test(nth_call_fails),
      cmocka_unit_test(threads_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
