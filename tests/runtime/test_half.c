#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "runtime/half.h"

/* Every value goes to f32 and back; between two neighbours the middle goes to the even one, and
 * what lies next to the middle to the nearer one. That fixes the rounding everywhere. */
static void check_format(float (*widen)(uint16_t), uint16_t (*narrow)(double),
                         uint16_t (*narrow_f32)(float), uint16_t infinity) {
  for (uint32_t bits = 0; bits < infinity; bits++) {
    double low = (double)widen((uint16_t)bits), high = (double)widen((uint16_t)(bits + 1));
    if (bits + 1 == infinity) high = low + (low - (double)widen((uint16_t)(bits - 1)));
    double middle = (low + high) / 2;
    uint16_t even = (uint16_t)(bits % 2 == 0 ? bits : bits + 1);
    assert_int_equal(narrow(low), bits);
    assert_int_equal(narrow(-low), bits | 0x8000);
    assert_int_equal(narrow(middle), even);
    assert_int_equal(narrow(-middle), even | 0x8000);
    assert_int_equal(narrow(nextafter(middle, 0)), bits);
    assert_int_equal(narrow(nextafter(middle, INFINITY)), bits + 1);
    assert_int_equal(narrow_f32((float)low), bits);
    if ((double)(float)middle == middle) assert_int_equal(narrow_f32((float)middle), even);
  }
  assert_int_equal(narrow(INFINITY), infinity);
  assert_int_equal(narrow(1e300), infinity);
  assert_int_equal(narrow(1e-300), 0);
  assert_int_equal(narrow_f32(-INFINITY), infinity | 0x8000);
  for (uint32_t bits = infinity + 1U; bits < 0x8000; bits++) {
    assert_true(isnan(widen((uint16_t)bits)));
    uint16_t back = narrow_f32(widen((uint16_t)bits));
    assert_true(back > infinity && back < 0x8000);
  }
  assert_true((narrow((double)NAN) & 0x7fff) > infinity);
}

static void test_f16(void **state) {
  (void)state;
  check_format(cv_f16_to_f32, cv_f64_to_f16, cv_f32_to_f16, 0x7c00);
  assert_true(cv_f16_to_f32(0x3c00) == 1 && cv_f16_to_f32(0x7bff) == 65504);
  assert_true(cv_f16_to_f32(1) == 0x1p-24f && signbit(cv_f16_to_f32(0x8000)));
}

static void test_bf16(void **state) {
  (void)state;
  check_format(cv_bf16_to_f32, cv_f64_to_bf16, cv_f32_to_bf16, 0x7f80);
  assert_true(cv_bf16_to_f32(0x3f80) == 1);
}

/* A double goes to f16 in one rounding: through f32 the first two would round twice. */
static void test_one_rounding(void **state) {
  (void)state;
  double x = 1 + 0x1p-11 + 0x1p-40;
  assert_int_equal(cv_f64_to_f16(x), 0x3c01);
  assert_int_equal(cv_f32_to_f16((float)x), 0x3c00);
}

static void test_elements(void **state) {
  (void)state;
  for (int d = 0; d < CV_DTYPE_COUNT; d++) {
    unsigned char element[8];
    cv_element_from_int((cv_dtype)d, 1, element);
    assert_int_equal(cv_element_to_int((cv_dtype)d, element), 1);
    assert_true(cv_element_to_double((cv_dtype)d, element) == 1);
    cv_element_from_double((cv_dtype)d, 0, element);
    assert_int_equal(cv_element_to_int((cv_dtype)d, element), 0);
  }
  static const struct {
    cv_dtype dtype;
    int64_t low, high;
  } ends[] = {{CV_I8, -128, 127},
              {CV_U8, 0, 255},
              {CV_I16, -32768, 32767},
              {CV_U16, 0, 65535},
              {CV_I32, INT32_MIN, INT32_MAX},
              {CV_U32, 0, UINT32_MAX},
              {CV_I64, INT64_MIN, INT64_MAX},
              {CV_U64, 0, -1}};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    unsigned char element[8];
    cv_element_from_double(ends[i].dtype, -1e300, element);
    assert_int_equal(cv_element_to_int(ends[i].dtype, element), ends[i].low);
    cv_element_from_double(ends[i].dtype, INFINITY, element);
    assert_int_equal(cv_element_to_int(ends[i].dtype, element), ends[i].high);
    cv_element_from_double(ends[i].dtype, (double)NAN, element);
    assert_int_equal(cv_element_to_int(ends[i].dtype, element), 0);
    cv_element_from_double(ends[i].dtype, 2.9, element);
    assert_int_equal(cv_element_to_int(ends[i].dtype, element), 2);
  }
  double nan = (double)NAN, large = -1e19;
  assert_int_equal(cv_element_to_int(CV_F64, &nan), 0);
  assert_int_equal(cv_element_to_int(CV_F64, &large), INT64_MIN);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_f16),
      cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_one_rounding),
      cmocka_unit_test(test_elements),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
