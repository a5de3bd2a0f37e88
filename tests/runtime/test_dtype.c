#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/dtype.h"

static void test_every_row_is_found_by_each_key(void **state) {
  (void)state;
  for (int i = 0; i < CV_DTYPE_COUNT; i++) {
    cv_dtype dtype = (cv_dtype)i, found;
    assert_true(cv_dtype_from_name(cv_dtype_name(dtype), &found) && found == dtype);
    assert_true(cv_dtype_from_onnx(cv_dtype_onnx(dtype), &found) && found == dtype);
    assert_true(cv_dtype_from_numpy(cv_dtype_numpy(dtype), &found) && found == dtype);
    assert_true(cv_dtype_size(dtype) >= 1 && cv_dtype_size(dtype) <= 8);
  }
  assert_int_equal(cv_dtype_size(CV_BF16), 2);
  assert_int_equal(cv_dtype_kind(CV_U8), 'u');
  assert_int_equal(cv_dtype_kind(CV_BOOL), 'b');
  assert_int_equal(cv_dtype_kind(CV_F16), 'f');
}

static void test_unknown(void **state) {
  (void)state;
  cv_dtype found;
  assert_false(cv_dtype_from_name("f8", &found));
  assert_false(cv_dtype_from_onnx(8, &found));
  assert_false(cv_dtype_from_numpy(">f4", &found));
  assert_string_equal(cv_dtype_name((cv_dtype)99), "?");
  assert_int_equal(cv_dtype_size((cv_dtype)99), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_row_is_found_by_each_key),
      cmocka_unit_test(test_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
