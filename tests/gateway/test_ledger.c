#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "gateway/ledger.h"
#include "tests/each_fault.h"

static const cv_epoch first = {5, 1}, second = {5, 2};

static bool same_parity(void *arg, const cv_ledger_request *a, const cv_ledger_request *b) {
  (void)arg;
  return a->items % 2 == b->items % 2;
}

static cv_ledger *make(uint32_t requests, uint32_t batches, cv_ledger_rule rule) {
  cv_ledger *ledger;
  assert_int_equal(cv_ledger_create(requests, batches, &rule, &ledger), CV_OK);
  return ledger;
}

static cv_ledger_request *add(cv_ledger *ledger, uint64_t stream, int64_t items) {
  cv_ledger_request *request;
  assert_int_equal(cv_ledger_add(ledger, stream, items, NULL, &request), CV_OK);
  return request;
}

static void test_splits_with_an_uneven_last(void **state) {
  (void)state;
  cv_ledger *ledger = make(4, 8, (cv_ledger_rule){.split = true, .max_items = 3});
  cv_ledger_request *request = add(ledger, 0, 7);
  static const int64_t counts[] = {3, 3, 1};
  for (uint64_t seq = 0; seq < 3; seq++) {
    cv_ledger_batch *batch = cv_ledger_stamp(ledger, first, seq);
    assert_int_equal(batch->n_parts, 1);
    assert_int_equal(batch->parts[0].first, 3 * seq);
    assert_int_equal(batch->parts[0].count, counts[seq]);
  }
  assert_null(cv_ledger_stamp(ledger, first, 3));
  assert_null(cv_ledger_next_answer(ledger));
  for (uint64_t seq = 3; seq-- > 0;) /* results may come in any order */
    cv_ledger_take(ledger, cv_ledger_find(ledger, first, seq), CV_OK);
  assert_ptr_equal(cv_ledger_next_answer(ledger), request);
  cv_ledger_destroy(ledger);
}

static void test_only_the_first_result_counts(void **state) {
  (void)state;
  cv_ledger *ledger = make(4, 8, (cv_ledger_rule){0});
  add(ledger, 0, 1);
  assert_non_null(cv_ledger_stamp(ledger, first, 9));
  assert_null(cv_ledger_find(ledger, second, 9));
  assert_null(cv_ledger_find(ledger, first, 8));
  cv_ledger_batch *batch = cv_ledger_find(ledger, first, 9);
  assert_int_equal(cv_ledger_in_flight(ledger, first), 1);
  cv_ledger_take(ledger, batch, CV_OK);
  assert_null(cv_ledger_find(ledger, first, 9)); /* a later one is dropped */
  assert_int_equal(cv_ledger_in_flight(ledger, first), 0);
  cv_ledger_destroy(ledger);
}

static void test_answers_in_order_per_stream(void **state) {
  (void)state;
  cv_ledger *ledger = make(3, 8, (cv_ledger_rule){0});
  cv_ledger_request *a = add(ledger, 1, 1), *b = add(ledger, 1, 1), *c = add(ledger, 2, 1), *none;
  assert_int_equal(cv_ledger_add(ledger, 1, 1, NULL, &none), CV_AGAIN);
  for (uint64_t seq = 0; seq < 3; seq++) assert_non_null(cv_ledger_stamp(ledger, first, seq));
  cv_ledger_take(ledger, cv_ledger_find(ledger, first, 1), CV_OK);
  assert_null(cv_ledger_next_answer(ledger)); /* b is done, a is not */
  cv_ledger_take(ledger, cv_ledger_find(ledger, first, 2), CV_OK);
  assert_ptr_equal(cv_ledger_next_answer(ledger), c);
  cv_ledger_answered(ledger, c);
  assert_int_equal(cv_ledger_add(ledger, 1, 1, NULL, &none), CV_AGAIN); /* a holds the place */
  cv_ledger_take(ledger, cv_ledger_find(ledger, first, 0), CV_OK);
  assert_ptr_equal(cv_ledger_next_answer(ledger), a);
  cv_ledger_answered(ledger, a);
  assert_ptr_equal(cv_ledger_next_answer(ledger), b);
  cv_ledger_answered(ledger, b);
  assert_int_equal(cv_ledger_waiting(ledger), 0);
  for (int i = 0; i < 3; i++) add(ledger, 7, 1);
  cv_ledger_destroy(ledger);
}

static void test_merges_what_may_be_merged(void **state) {
  (void)state;
  cv_ledger_rule rule = {.split = true, .max_items = 5, .mergeable = same_parity};
  cv_ledger *ledger = make(8, 8, rule);
  cv_ledger_request *a = add(ledger, 0, 3), *b = add(ledger, 0, 7), *c = add(ledger, 0, 2);
  cv_ledger_batch *batch = cv_ledger_stamp(ledger, first, 0);
  assert_int_equal(batch->items, 5);
  assert_int_equal(batch->n_parts, 2);
  assert_ptr_equal(batch->parts[0].request, a);
  assert_ptr_equal(batch->parts[1].request, b);
  assert_int_equal(batch->parts[1].count, 2);
  batch = cv_ledger_stamp(ledger, first, 1);
  assert_int_equal(batch->items, 5); /* the rest of b fills it */
  assert_int_equal(batch->n_parts, 1);
  batch = cv_ledger_stamp(ledger, first, 2);
  assert_ptr_equal(batch->parts[0].request, c); /* not with b: it may not */
  assert_int_equal(batch->n_parts, 1);
  cv_ledger_set_max_items(ledger, 0);
  add(ledger, 0, 4);
  add(ledger, 0, 4);
  assert_int_equal(cv_ledger_stamp(ledger, first, 3)->items, 4); /* whole, each its own */
  cv_ledger_destroy(ledger);
}

static void test_one_by_one(void **state) {
  (void)state;
  cv_ledger *ledger = make(4, 8, (cv_ledger_rule){.one_by_one = true});
  cv_ledger_request *a = add(ledger, 1, 1), *b = add(ledger, 1, 1), *c = add(ledger, 2, 1);
  assert_ptr_equal(cv_ledger_stamp(ledger, first, 0)->parts[0].request, a);
  assert_ptr_equal(cv_ledger_stamp(ledger, first, 1)->parts[0].request, c);
  assert_null(cv_ledger_stamp(ledger, first, 2)); /* b waits for the state of a */
  cv_ledger_take(ledger, cv_ledger_find(ledger, first, 0), CV_OK);
  assert_null(cv_ledger_stamp(ledger, first, 2));
  cv_ledger_answered(ledger, cv_ledger_next_answer(ledger));
  assert_ptr_equal(cv_ledger_stamp(ledger, first, 2)->parts[0].request, b);
  cv_ledger_destroy(ledger);
}

static void test_failures(void **state) {
  (void)state;
  cv_ledger *ledger = make(4, 4, (cv_ledger_rule){.split = true, .max_items = 1});
  cv_ledger_request *a = add(ledger, 0, 9), *b = add(ledger, 1, 2);
  for (uint64_t seq = 0; seq < 4; seq++) assert_non_null(cv_ledger_stamp(ledger, first, seq));
  assert_null(cv_ledger_stamp(ledger, first, 4)); /* no room for one more */
  cv_ledger_take(ledger, cv_ledger_find(ledger, first, 0), CV_INVALID);
  assert_int_equal(a->status, CV_INVALID);
  assert_null(cv_ledger_next_answer(ledger)); /* its parts under way are awaited */
  cv_ledger_drop(ledger, first, CV_PEER_LOST);
  assert_int_equal(a->status, CV_INVALID); /* the first reason stays */
  assert_ptr_equal(cv_ledger_next_answer(ledger), a);
  cv_ledger_answered(ledger, a);
  assert_ptr_equal(cv_ledger_stamp(ledger, second, 0)->parts[0].request, b);
  cv_ledger_fail(b, CV_CANCELED);
  assert_null(cv_ledger_stamp(ledger, second, 1));
  cv_ledger_drop(ledger, second, CV_PEER_LOST);
  assert_int_equal(b->status, CV_CANCELED);
  assert_ptr_equal(cv_ledger_at(ledger, 0), b);
  assert_null(cv_ledger_at(ledger, 1));
  cv_ledger_destroy(ledger);
}

static void test_empty_request(void **state) {
  (void)state;
  cv_ledger *ledger = make(4, 4, (cv_ledger_rule){.split = true, .max_items = 2});
  cv_ledger_request *a = add(ledger, 0, 0);
  cv_ledger_batch *batch = cv_ledger_stamp(ledger, first, 0);
  assert_int_equal(batch->items, 0); /* it still passes through the pipeline */
  cv_ledger_take(ledger, batch, CV_OK);
  assert_ptr_equal(cv_ledger_next_answer(ledger), a);
  cv_ledger_destroy(ledger);
}

static cv_status create(void *arg) {
  (void)arg;
  cv_ledger *ledger;
  cv_status status = cv_ledger_create(4, 4, &(cv_ledger_rule){0}, &ledger);
  cv_ledger_destroy(ledger);
  return status;
}

static void test_bounds_and_faults(void **state) {
  (void)state;
  cv_ledger *ledger;
  assert_int_equal(cv_ledger_create(0, 4, &(cv_ledger_rule){0}, &ledger), CV_INVALID);
  assert_int_equal(cv_ledger_create(4, 0, &(cv_ledger_rule){0}, &ledger), CV_INVALID);
  assert_int_equal(cv_ledger_create(4, 4, &(cv_ledger_rule){.max_items = -1}, &ledger), CV_INVALID);
  assert_int_equal(each_fault(create, NULL), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_splits_with_an_uneven_last),
                                     cmocka_unit_test(test_only_the_first_result_counts),
                                     cmocka_unit_test(test_answers_in_order_per_stream),
                                     cmocka_unit_test(test_merges_what_may_be_merged),
                                     cmocka_unit_test(test_one_by_one),
                                     cmocka_unit_test(test_failures),
                                     cmocka_unit_test(test_empty_request),
                                     cmocka_unit_test(test_bounds_and_faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
