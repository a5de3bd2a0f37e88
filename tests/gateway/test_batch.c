#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gateway/batch.h"

static cv_tensor tensor(int64_t a, int64_t b, int64_t c, void *data) {
  return (cv_tensor){.dtype = CV_I32,
                     .rank = 3,
                     .dims = {a, b, c},
                     .data = data,
                     .bytes = (uint64_t)(a * b * c) * 4};
}

/* Items of a batch in the middle axis, two elements each, apart and together again. */
static void test_axis_in_the_middle(void **state) {
  (void)state;
  enum { ITEMS = 5 };
  const cv_port port = {.batch_axis = 1, .batch_factor = 2};
  int32_t whole[2 * 2 * ITEMS * 3], again[2 * 2 * ITEMS * 3] = {0}, part[2 * 2 * ITEMS * 3];
  for (int i = 0; i < 2 * 2 * ITEMS * 3; i++) whole[i] = i;
  cv_tensor from = tensor(2, 2 * ITEMS, 3, whole), to = tensor(2, 2 * ITEMS, 3, again), piece;
  for (int64_t first = 0; first < ITEMS; first += 2) {
    int64_t count = first + 2 < ITEMS ? 2 : ITEMS - first;
    assert_int_equal(cv_batch_resize(&port, &from, count, &piece), CV_OK);
    assert_int_equal(piece.dims[1], 2 * count);
    assert_int_equal(piece.bytes, 2 * 2 * count * 3 * 4);
    piece.data = part;
    cv_batch_copy(&port, &from, first, &piece, 0, count);
    assert_int_equal(part[0], first * 2 * 3);
    assert_int_equal(part[2 * count * 3], 2 * ITEMS * 3 + first * 2 * 3); /* the second row */
    cv_batch_copy(&port, &piece, 0, &to, first, count);
  }
  assert_memory_equal(whole, again, sizeof whole);
}

static void test_without_batch_axis(void **state) {
  (void)state;
  const cv_port port = {.batch_axis = -1};
  int32_t data[2] = {7, 8}, copy[2] = {0};
  cv_tensor a = tensor(1, 2, 1, data), b;
  assert_int_equal(cv_batch_resize(&port, &a, 100, &b), CV_OK);
  assert_int_equal(b.dims[1], 2);
  b.data = copy;
  cv_batch_copy(&port, &a, 3, &b, 4, 5);
  assert_memory_equal(data, copy, sizeof data);
  assert_true(cv_batch_mergeable(&port, &a, &b));
  copy[1] = 9;
  assert_false(cv_batch_mergeable(&port, &a, &b)); /* shared inputs must be equal */
}

static void test_mergeable(void **state) {
  (void)state;
  const cv_port port = {.batch_axis = 0, .batch_factor = 1};
  cv_tensor a = tensor(3, 4, 5, NULL), b = tensor(1, 4, 5, NULL), c = tensor(3, 4, 6, NULL);
  assert_true(cv_batch_mergeable(&port, &a, &b));
  assert_false(cv_batch_mergeable(&port, &a, &c));
  c = a;
  c.dtype = CV_F32;
  assert_false(cv_batch_mergeable(&port, &a, &c));
}

static void test_bounds(void **state) {
  (void)state;
  const cv_port port = {.batch_axis = 0, .batch_factor = INT64_MAX};
  cv_tensor a = tensor(1, 1, 1, NULL), out;
  assert_int_equal(cv_batch_resize(&port, &a, 5, &out), CV_INVALID);
  assert_int_equal(cv_batch_resize(&port, &a, 1, &out), CV_INVALID); /* bytes overflow */
  int32_t none;
  a = tensor(0, 4, 4, &none);
  out = tensor(0, 4, 4, &none);
  cv_batch_copy(&(cv_port){.batch_axis = 0, .batch_factor = 1}, &a, 0, &out, 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_axis_in_the_middle), cmocka_unit_test(test_without_batch_axis),
      cmocka_unit_test(test_mergeable), cmocka_unit_test(test_bounds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
