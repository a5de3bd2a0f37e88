#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/tensor_pb.h"

static void free_named(cv_named_tensor *t) {
  cv_free(t->name);
  cv_tensor_deinit(&t->tensor);
}

static void test_round_trip(void **state) {
  (void)state;
  const int64_t dims[2] = {3, 200};
  for (int dtype = 0; dtype < CV_DTYPE_COUNT; dtype++)
    for (int rank = 0; rank <= 2; rank++) {
      cv_tensor a;
      cv_named_tensor b;
      cv_str text = {0};
      assert_int_equal(cv_tensor_create((cv_dtype)dtype, rank, dims, &a), CV_OK);
      for (uint64_t i = 0; i < a.bytes; i++) ((unsigned char *)a.data)[i] = (unsigned char)(i * 5);
      cv_tensor_pb_print(rank ? "the name" : NULL, &a, &text);
      assert_int_equal(cv_tensor_pb_parse("t.pb", text.data, text.len, &b), CV_OK);
      if (rank)
        assert_string_equal(b.name, "the name");
      else
        assert_null(b.name);
      assert_int_equal(b.tensor.dtype, dtype);
      assert_memory_equal(a.dims, b.tensor.dims, sizeof a.dims);
      assert_memory_equal(a.data, b.tensor.data, a.bytes);
      free_named(&b);
      for (size_t n = 0; n < text.len; n++)
        assert_int_not_equal(cv_tensor_pb_parse("t.pb", text.data, n, &b), CV_OK);
      cv_str_deinit(&text);
      cv_tensor_deinit(&a);
    }
}

#define PARSE(bytes, t) cv_tensor_pb_parse("t.pb", bytes, sizeof(bytes) - 1, t)

static void test_typed_fields(void **state) {
  (void)state;
  cv_named_tensor t;
  /* dims 2 (packed), float_data packed {1, -2} */
  assert_int_equal(PARSE("\x0a\x01\x02\x10\x01\x22\x08\0\0\x80\x3f\0\0\0\xc0", &t), CV_OK);
  assert_true(((float *)t.tensor.data)[0] == 1 && ((float *)t.tensor.data)[1] == -2);
  free_named(&t);
  /* i8 in int32_data, not packed: {-1, 5} */
  assert_int_equal(
      PARSE("\x08\x02\x10\x03\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x05", &t), CV_OK);
  assert_int_equal(((int8_t *)t.tensor.data)[0], -1);
  assert_int_equal(((int8_t *)t.tensor.data)[1], 5);
  free_named(&t);
  /* f16 as bit pattern 0x3c00 in int32_data; bool; u64; i64; f64 */
  assert_int_equal(PARSE("\x10\x0a\x2a\x02\x80\x78", &t), CV_OK);
  assert_int_equal(*(uint16_t *)t.tensor.data, 0x3c00);
  free_named(&t);
  assert_int_equal(PARSE("\x10\x09\x2a\x01\x07", &t), CV_OK);
  assert_int_equal(*(uint8_t *)t.tensor.data, 1);
  free_named(&t);
  assert_int_equal(PARSE("\x10\x0d\x5a\x01\x07", &t), CV_OK);
  assert_int_equal(*(uint64_t *)t.tensor.data, 7);
  free_named(&t);
  assert_int_equal(PARSE("\x10\x07\x38\x07", &t), CV_OK);
  assert_int_equal(*(int64_t *)t.tensor.data, 7);
  free_named(&t);
  assert_int_equal(PARSE("\x10\x0b\x52\x08\0\0\0\0\0\0\xf0\x3f", &t), CV_OK);
  assert_true(*(double *)t.tensor.data == 1);
  free_named(&t);
}

static void test_bad(void **state) {
  (void)state;
  cv_named_tensor t;
  assert_int_equal(PARSE("", &t), CV_UNSUPPORTED);                         /* no type */
  assert_int_equal(PARSE("\x10\x08\x32\x01x", &t), CV_UNSUPPORTED);        /* strings */
  assert_int_equal(PARSE("\x10\x01\x70\x01", &t), CV_UNSUPPORTED);         /* external */
  assert_int_equal(PARSE("\x10\x0e", &t), CV_UNSUPPORTED);                 /* complex */
  assert_int_equal(PARSE("\x08\x02\x10\x01\x4a\x04zzzz", &t), CV_INVALID); /* too few bytes */
  assert_int_equal(PARSE("\x08\x01\x10\x01\x4a\x05zzzzz", &t), CV_INVALID);
  assert_int_equal(PARSE("\x08\x02\x10\x07\x38\x01", &t), CV_INVALID);
  assert_int_equal(PARSE("\x10\x07\x38\x01\x38\x01", &t), CV_INVALID); /* too many */
  assert_int_equal(PARSE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01", &t), CV_INVALID);
  assert_int_equal(PARSE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01", &t), CV_INVALID);
  assert_int_equal(PARSE("\x4a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", &t), CV_INVALID);
  assert_int_equal(PARSE("\x0b", &t), CV_INVALID); /* a group */
  assert_int_equal(PARSE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", &t), CV_INVALID);
  assert_int_equal(PARSE("\x0a\x09\1\1\1\1\1\1\1\1\1\x10\x01", &t), CV_UNSUPPORTED); /* rank 9 */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_typed_fields),
      cmocka_unit_test(test_bad),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
