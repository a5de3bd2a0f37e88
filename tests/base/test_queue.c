#include "base/queue.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>

#include "base/clock.h"
#include "base/thread.h"
#include "tests/each_fault.h"

enum { MS = 1000000, ITEMS = 2000, PRODUCERS = 3 };

static void *item(intptr_t value) { return (void *)value; }

static void first_in_first_out_within_its_bound(void **state) {
  (void)state;
  cv_queue *queue;
  void *got;
  assert_int_equal(cv_queue_create(3, false, &queue), CV_OK);
  assert_int_equal(cv_queue_fd(queue), -1);
  for (intptr_t round = 0; round < 10; round++) {
    assert_int_equal(cv_queue_push(queue, item(round * 3 + 1)), CV_OK);
    assert_int_equal(cv_queue_push(queue, item(round * 3 + 2)), CV_OK);
    assert_int_equal(cv_queue_pop(queue, 0, &got), CV_OK);
    assert_ptr_equal(got, item(round * 3 + 1));
    assert_int_equal(cv_queue_push(queue, item(round * 3 + 3)), CV_OK);
    assert_int_equal(cv_queue_push(queue, item(99)), CV_OK);
    assert_int_equal(cv_queue_push(queue, item(100)), CV_AGAIN);
    for (intptr_t k = 2; k <= 3; k++) {
      assert_int_equal(cv_queue_pop(queue, INT64_MAX, &got), CV_OK);
      assert_ptr_equal(got, item(round * 3 + k));
    }
    assert_int_equal(cv_queue_pop(queue, INT64_MAX, &got), CV_OK);
    assert_int_equal(cv_queue_pop(queue, 0, &got), CV_TIMEOUT);
    assert_null(got);
  }
  cv_queue_destroy(queue);
  cv_queue_destroy(NULL);
}

static void waits_until_its_deadline(void **state) {
  (void)state;
  cv_queue *queue;
  void *got;
  assert_int_equal(cv_queue_create(1, false, &queue), CV_OK);
  int64_t deadline = cv_clock_ns() + 20 * MS;
  assert_int_equal(cv_queue_pop(queue, deadline, &got), CV_TIMEOUT);
  assert_true(cv_clock_ns() >= deadline);
  assert_int_equal(cv_queue_push(queue, item(5)), CV_OK);
  assert_int_equal(cv_queue_pop(queue, deadline, &got),
                   CV_OK); /* an item wins over a past deadline */
  cv_queue_destroy(queue);
}

static void closed_gives_what_is_left_then_ends(void **state) {
  (void)state;
  cv_queue *queue;
  void *got;
  assert_int_equal(cv_queue_create(4, true, &queue), CV_OK);
  assert_int_equal(cv_queue_push(queue, item(1)), CV_OK);
  cv_queue_close(queue);
  assert_int_equal(cv_queue_push(queue, item(2)), CV_CANCELED);
  assert_int_equal(cv_queue_pop(queue, INT64_MAX, &got), CV_OK);
  assert_ptr_equal(got, item(1));
  assert_int_equal(cv_queue_pop(queue, INT64_MAX, &got), CV_CANCELED);
  assert_null(got);
  cv_queue_destroy(queue);
}

static bool readable(const cv_queue *queue) {
  struct pollfd wait = {.fd = cv_queue_fd(queue), .events = POLLIN};
  return poll(&wait, 1, 0) == 1;
}

static void its_fd_tells_when_there_is_work(void **state) {
  (void)state;
  cv_queue *queue;
  void *got;
  assert_int_equal(cv_queue_create(4, true, &queue), CV_OK);
  assert_false(readable(queue));
  for (int round = 0; round < 3; round++) {
    assert_int_equal(cv_queue_push(queue, item(1)), CV_OK);
    assert_int_equal(cv_queue_push(queue, item(2)), CV_OK);
    assert_true(readable(queue));
    assert_int_equal(cv_queue_pop(queue, 0, &got), CV_OK);
    assert_true(readable(queue)); /* one is left */
    assert_int_equal(cv_queue_pop(queue, 0, &got), CV_OK);
    assert_false(readable(queue));
  }
  cv_queue_close(queue);
  assert_true(readable(queue));
  assert_int_equal(cv_queue_pop(queue, 0, &got), CV_CANCELED);
  assert_true(readable(queue)); /* closed stays visible */
  cv_queue_destroy(queue);
}

typedef struct {
  cv_queue *queue;
  int producer;
} producing;

static void *produce(void *arg) {
  const producing *self = arg;
  for (intptr_t i = 0; i < ITEMS; i++)
    while (cv_queue_push(self->queue, item(i * PRODUCERS + self->producer + 1)) == CV_AGAIN)
      cv_clock_sleep_until(cv_clock_ns() + 10000);
  return NULL;
}

static void many_producers_keep_their_order(void **state) {
  (void)state;
  cv_queue *queue;
  assert_int_equal(cv_queue_create(16, true, &queue), CV_OK);
  pthread_t threads[PRODUCERS];
  producing args[PRODUCERS];
  for (int i = 0; i < PRODUCERS; i++) {
    args[i] = (producing){queue, i};
    assert_int_equal(cv_thread_start("producer", produce, &args[i], &threads[i]), CV_OK);
  }
  intptr_t next[PRODUCERS] = {0};
  for (int i = 0; i < ITEMS * PRODUCERS; i++) {
    void *got;
    assert_int_equal(cv_queue_pop(queue, INT64_MAX, &got), CV_OK);
    intptr_t value = (intptr_t)got - 1;
    assert_int_equal(value / PRODUCERS, next[value % PRODUCERS]++);
  }
  for (int i = 0; i < PRODUCERS; i++) pthread_join(threads[i], NULL);
  assert_false(readable(queue));
  cv_queue_destroy(queue);
}

static void *wait_for_end(void *arg) {
  void *got;
  return cv_queue_pop(arg, INT64_MAX, &got) == CV_CANCELED ? arg : NULL;
}

static void close_wakes_all_who_wait(void **state) {
  (void)state;
  cv_queue *queue;
  assert_int_equal(cv_queue_create(1, false, &queue), CV_OK);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    assert_int_equal(cv_thread_start("waiter", wait_for_end, queue, &threads[i]), CV_OK);
  cv_clock_sleep_until(cv_clock_ns() + 10 * MS);
  cv_queue_close(queue);
  for (int i = 0; i < 3; i++) {
    void *result;
    pthread_join(threads[i], &result);
    assert_ptr_equal(result, queue);
  }
  cv_queue_destroy(queue);
}

static cv_status make_and_use(void *arg) {
  (void)arg;
  cv_queue *queue;
  void *got;
  cv_status status = cv_queue_create(2, true, &queue);
  if (status != CV_OK) {
    assert_null(queue);
    return status;
  }
  assert_int_equal(cv_queue_push(queue, item(1)), CV_OK);
  assert_int_equal(cv_queue_pop(queue, 0, &got), CV_OK);
  cv_queue_destroy(queue);
  return CV_OK;
}

static void nth_call_fails(void **state) {
  (void)state;
  assert_int_equal(each_fault(make_and_use, NULL), 2); /* memory, eventfd */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_in_first_out_within_its_bound),
      cmocka_unit_test(waits_until_its_deadline),
      cmocka_unit_test(closed_gives_what_is_left_then_ends),
      cmocka_unit_test(its_fd_tells_when_there_is_work),
      cmocka_unit_test(many_producers_keep_their_order),
      cmocka_unit_test(close_wakes_all_who_wait),
      cmocka_unit_test(nth_call_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
