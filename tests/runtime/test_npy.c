#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/npy.h"
#include "tests/each_fault.h"

/* A .npy of version 1 with this dictionary and these elements. */
static cv_status parse(const char *dictionary, const void *data, size_t bytes, cv_tensor *tensor) {
  cv_str text = {0};
  size_t length = strlen(dictionary);
  const char start[10] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)length, 0};
  cv_str_append(&text, start, 10);
  cv_str_puts(&text, dictionary);
  cv_str_append(&text, data, bytes);
  cv_status status = cv_npy_parse("a.npy", text.data, text.len, tensor);
  cv_str_deinit(&text);
  return status;
}

static void test_round_trip(void **state) {
  (void)state;
  const int64_t dims[3] = {2, 3, 4};
  for (int dtype = 0; dtype < CV_DTYPE_COUNT; dtype++)
    for (int rank = 0; rank <= 3; rank++) {
      cv_tensor a, b;
      cv_str text = {0};
      assert_int_equal(cv_tensor_create((cv_dtype)dtype, rank, dims, &a), CV_OK);
      for (uint64_t i = 0; i < a.bytes; i++) ((unsigned char *)a.data)[i] = (unsigned char)(i * 7);
      cv_npy_print(&a, &text);
      assert_int_equal((text.len - a.bytes) % 64, 0);
      assert_int_equal(cv_npy_parse("a.npy", text.data, text.len, &b), CV_OK);
      assert_int_equal(b.dtype, dtype);
      assert_int_equal(b.rank, rank);
      assert_memory_equal(a.dims, b.dims, sizeof a.dims);
      assert_memory_equal(a.data, b.data, a.bytes);
      for (size_t n = 0; n < text.len; n++) {
        cv_tensor c;
        assert_int_equal(cv_npy_parse("a.npy", text.data, n, &c), CV_INVALID);
      }
      cv_str_deinit(&text);
      cv_tensor_deinit(&a);
      cv_tensor_deinit(&b);
    }
}

static void test_other_forms(void **state) {
  (void)state;
  cv_tensor t;
  const int16_t big[2] = {(int16_t)0x0100, (int16_t)0x0200};
  assert_int_equal(parse("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }\n", big, 4, &t),
                   CV_OK);
  assert_int_equal(((int16_t *)t.data)[0], 1);
  assert_int_equal(((int16_t *)t.data)[1], 2);
  cv_tensor_deinit(&t);
  const unsigned char columns[6] = {0, 3, 1, 4, 2, 5};
  assert_int_equal(
      parse("{'descr': '<u1', 'fortran_order': True, 'shape': (2, 3), }\n", columns, 6, &t), CV_OK);
  for (int i = 0; i < 6; i++) assert_int_equal(((unsigned char *)t.data)[i], i);
  cv_tensor_deinit(&t);
  assert_int_equal(parse("{'shape': (0, 3), 'fortran_order': False, 'descr': '<f4'}", "", 0, &t),
                   CV_OK);
  assert_int_equal(t.bytes, 0);
  cv_tensor_deinit(&t);
}

static void test_bad(void **state) {
  (void)state;
  cv_tensor t;
  static const struct {
    const char *dictionary;
    cv_status status;
  } cases[] = {
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", CV_UNSUPPORTED},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", CV_UNSUPPORTED},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", CV_UNSUPPORTED},
      {"{'fortran_order': False, 'shape': (1,), }", CV_UNSUPPORTED},
      {"{'descr': '<f4', 'shape': (1,), }", CV_INVALID},
      {"{'descr': '<f4', 'fortran_order': False}", CV_INVALID},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1", CV_INVALID},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)", CV_INVALID},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", CV_INVALID},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 8)}", CV_INVALID},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387903, 16)}", CV_INVALID},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", CV_INVALID},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(parse(cases[i].dictionary, "12345678", 8, &t), cases[i].status);
    assert_non_null(strstr(cv_error_text(), "a.npy"));
  }
  assert_int_equal(cv_npy_parse("a.npy", "\x93NUMPY\4\0\0\0\0\0", 12, &t), CV_UNSUPPORTED);
  assert_int_equal(cv_npy_parse("a.npy", "nothing of the kind", 19, &t), CV_INVALID);
}

static void make_list(cv_tensor_list *list) {
  static const int64_t dims[2] = {40, 50};
  for (int i = 0; i < 3; i++) {
    cv_named_tensor item = {.name = cv_format("array %d", i)};
    assert_int_equal(cv_tensor_create(CV_I32, i, dims, &item.tensor), CV_OK);
    for (uint64_t k = 0; k < item.tensor.bytes / 4; k++)
      ((int32_t *)item.tensor.data)[k] = (int32_t)(k / 3);
    assert_true(cv_vec_push(list, item));
  }
}

static void test_npz(void **state) {
  (void)state;
  for (int deflated = 0; deflated < 2; deflated++) {
    cv_tensor_list a = {0}, b = {0};
    cv_str text = {0};
    make_list(&a);
    assert_int_equal(cv_npz_print(&a, deflated != 0, &text), CV_OK);
    assert_true(deflated ? text.len < 6000 : text.len > 8000);
    assert_int_equal(cv_npz_parse("a.npz", text.data, text.len, &b), CV_OK);
    assert_int_equal(b.len, 3);
    for (size_t i = 0; i < 3; i++) {
      assert_string_equal(a.data[i].name, b.data[i].name);
      assert_int_equal(b.data[i].tensor.rank, i);
      assert_memory_equal(a.data[i].tensor.data, b.data[i].tensor.data, a.data[i].tensor.bytes);
    }
    cv_tensor_list_deinit(&a);
    cv_tensor_list_deinit(&b);
    cv_str_deinit(&text);
  }
}

/* Any byte changed and any end cut off: a status, never a crash. */
static void test_damaged_npz(void **state) {
  (void)state;
  for (int deflated = 0; deflated < 2; deflated++) {
    cv_tensor_list a = {0};
    cv_str text = {0};
    make_list(&a);
    assert_int_equal(cv_npz_print(&a, deflated != 0, &text), CV_OK);
    for (size_t n = 0; n < text.len; n += 13) {
      cv_tensor_list b = {0};
      assert_int_not_equal(cv_npz_parse("a.npz", text.data, n, &b), CV_OK);
      cv_tensor_list_deinit(&b);
    }
    for (size_t at = 0; at < text.len; at += at < 100 || at + 400 > text.len ? 1 : 37)
      for (int bit = 0; bit < 8; bit++) {
        cv_tensor_list b = {0};
        text.data[at] = (char)(text.data[at] ^ (1 << bit));
        cv_status status = cv_npz_parse("a.npz", text.data, text.len, &b);
        assert_true(status == CV_OK || status == CV_INVALID || status == CV_UNSUPPORTED);
        text.data[at] = (char)(text.data[at] ^ (1 << bit));
        cv_tensor_list_deinit(&b);
      }
    cv_tensor_list_deinit(&a);
    cv_str_deinit(&text);
  }
}

static cv_status there_and_back(void *arg) {
  cv_tensor_list b = {0};
  cv_str text = {0};
  cv_status status = cv_npz_print(arg, true, &text);
  if (status == CV_OK) status = cv_npz_parse("a.npz", text.data, text.len, &b);
  cv_tensor_list_deinit(&b);
  cv_str_deinit(&text);
  return status;
}

static void test_each_fault(void **state) {
  (void)state;
  cv_tensor_list a = {0};
  make_list(&a);
  assert_true(each_fault(there_and_back, &a) > 10);
  cv_tensor_list_deinit(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_other_forms),
      cmocka_unit_test(test_bad),         cmocka_unit_test(test_npz),
      cmocka_unit_test(test_damaged_npz), cmocka_unit_test(test_each_fault),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
