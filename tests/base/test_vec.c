#include "base/vec.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/each_fault.h"

typedef struct {
  int64_t a;
  char b;
} pair;

static void push_keeps_everything(void **state) {
  (void)state;
  cv_vec(pair) pairs = {0};
  for (int i = 0; i < 5000; i++) assert_true(cv_vec_push(&pairs, (pair){i, (char)(i % 100)}));
  assert_int_equal(pairs.len, 5000);
  for (size_t i = 0; i < pairs.len; i++) {
    assert_int_equal(pairs.data[i].a, i);
    assert_int_equal(pairs.data[i].b, i % 100);
  }
  cv_vec_deinit(&pairs);
  assert_null(pairs.data);
  assert_int_equal(pairs.len + pairs.cap, 0);
}

static void reserve_is_enough_for_what_it_says(void **state) {
  (void)state;
  cv_vec(int) numbers = {0};
  assert_true(cv_vec_reserve(&numbers, 100));
  size_t cap = numbers.cap;
  assert_true(cap >= 100);
  int *data = numbers.data;
  for (int i = 0; i < 100; i++) assert_true(cv_vec_push(&numbers, i));
  assert_ptr_equal(numbers.data, data);
  assert_true(cv_vec_reserve(&numbers, 1000));
  assert_true(numbers.cap >= 1100);
  assert_int_equal(numbers.data[99], 99);
  cv_vec_deinit(&numbers);
}

static cv_status push_many(void *arg) {
  (void)arg;
  cv_vec(int) numbers = {0};
  cv_status status = CV_OK;
  for (int i = 0; i < 1000 && status == CV_OK; i++)
    if (!cv_vec_push(&numbers, i)) status = cv_error_nomem(sizeof(int));
  for (size_t i = 0; i < numbers.len; i++) assert_int_equal(numbers.data[i], i);
  cv_vec_deinit(&numbers);
  return status;
}

static void nth_growth_fails_and_keeps_the_rest(void **state) {
  (void)state;
  assert_int_equal(each_fault(push_many, NULL), 8); /* 8, 16, ... 1024 */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(push_keeps_everything),
      cmocka_unit_test(reserve_is_enough_for_what_it_says),
      cmocka_unit_test(nth_growth_fails_and_keeps_the_rest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
