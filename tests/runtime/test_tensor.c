#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/tensor.h"

static void test_count(void **state) {
  (void)state;
  int64_t count;
  assert_true(cv_dims_count(0, NULL, &count) && count == 1);
  assert_true(cv_dims_count(2, (int64_t[]){3, 4}, &count) && count == 12);
  assert_true(cv_dims_count(3, (int64_t[]){3, 0, 5}, &count) && count == 0);
  assert_false(cv_dims_count(2, (int64_t[]){3, -1}, &count));
  assert_false(cv_dims_count(2, (int64_t[]){INT64_MAX, 2}, &count));
}

static void test_create_and_copy(void **state) {
  (void)state;
  cv_tensor a, b;
  assert_int_equal(cv_tensor_create(CV_F32, 2, (int64_t[]){2, 3}, &a), CV_OK);
  assert_int_equal(a.bytes, 24);
  assert_int_equal((uintptr_t)a.data % 64, 0);
  assert_string_equal(cv_tensor_shape_text(&a).text, "f32[2,3]");
  memset(a.data, 7, a.bytes);
  assert_int_equal(cv_tensor_copy(&a, &b), CV_OK);
  assert_true(b.data != a.data);
  assert_memory_equal(a.data, b.data, 24);
  cv_tensor_deinit(&a);
  cv_tensor_deinit(&b);
  cv_tensor_deinit(&b);
  assert_int_equal(cv_tensor_create(CV_I64, 1, (int64_t[]){0}, &a), CV_OK);
  assert_non_null(a.data);
  assert_int_equal(a.bytes, 0);
  cv_tensor_deinit(&a);
  cv_tensor absent = {.dtype = CV_F16, .absent = true};
  assert_int_equal(cv_tensor_copy(&absent, &b), CV_OK);
  assert_true(b.absent);
}

static void test_refused(void **state) {
  (void)state;
  cv_tensor t;
  assert_int_equal(cv_tensor_create(CV_F32, 1, (int64_t[]){-1}, &t), CV_INVALID);
  assert_int_equal(cv_tensor_create(CV_F64, 1, (int64_t[]){INT64_MAX / 4}, &t), CV_INVALID);
  assert_int_equal(cv_tensor_create(CV_F64, CV_MAX_RANK + 1, NULL, &t), CV_INVALID);
  assert_int_equal(cv_tensor_create((cv_dtype)77, 0, NULL, &t), CV_INVALID);
  cv_fault_arm(1);
  assert_int_equal(cv_tensor_create(CV_F32, 0, NULL, &t), CV_NOMEM);
  cv_fault_arm(0);
  assert_null(t.data);
}

static void test_long_shape_text(void **state) {
  (void)state;
  cv_tensor t = {.dtype = CV_F32, .rank = 8};
  for (int i = 0; i < 8; i++) t.dims[i] = INT64_MIN;
  assert_true(strlen(cv_tensor_shape_text(&t).text) < sizeof(cv_shape_text));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_count),
      cmocka_unit_test(test_create_and_copy),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_long_shape_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
