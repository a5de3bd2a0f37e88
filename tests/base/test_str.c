#include "base/str.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "tests/each_fault.h"

static void builds_text(void **state) {
  (void)state;
  cv_str str = {0};
  assert_string_equal(cv_str_text(&str), "");
  cv_str_add(&str, "%d-%s", 12, "ab");
  cv_str_puts(&str, "|");
  cv_str_append(&str, "xyz123", 3);
  assert_string_equal(cv_str_text(&str), "12-ab|xyz");
  assert_int_equal(str.len, 9);
  assert_false(str.failed);
  cv_str_deinit(&str);
  assert_string_equal(cv_str_text(&str), "");
}

static void grows_piece_by_piece(void **state) {
  (void)state;
  cv_str str = {0};
  for (int i = 0; i < 2000; i++) cv_str_add(&str, "%04d,", i);
  assert_int_equal(str.len, 10000);
  assert_memory_equal(str.data, "0000,0001,", 10);
  assert_string_equal(str.data + 9995, "1999,");
  cv_str_deinit(&str);
}

static void prefix_and_suffix(void **state) {
  (void)state;
  assert_true(cv_starts_with("model.onnx", "model"));
  assert_true(cv_starts_with("model", ""));
  assert_false(cv_starts_with("mod", "model"));
  assert_true(cv_ends_with("model.onnx", ".onnx"));
  assert_true(cv_ends_with("x", ""));
  assert_false(cv_ends_with("nnx", ".onnx"));
}

static void integers(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool good;
    int64_t value;
  } cases[] = {
      {"0", true, 0},
      {"-17", true, -17},
      {"+5", true, 5},
      {"9223372036854775807", true, INT64_MAX},
      {"-9223372036854775808", true, INT64_MIN},
      {"9223372036854775808", false, 0},
      {"", false, 0},
      {"-", false, 0},
      {"12x", false, 0},
      {"1.5", false, 0},
      {"0x10", false, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t value = 99;
    assert_int_equal(cv_parse_i64(cases[i].text, &value), cases[i].good);
    assert_int_equal(value, cases[i].value);
  }
}

static void byte_counts(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool good;
    uint64_t value;
  } cases[] = {
      {"100", true, 100},
      {"100B", true, 100},
      {"2KB", true, 2000},
      {"1.5MB", true, 1500000},
      {"3 GB", true, 3000000000u},
      {"1KiB", true, 1024},
      {"512MiB", true, 512ull << 20},
      {"2GiB", true, 2ull << 30},
      {"1TiB", true, 1ull << 40},
      {"", false, 0},
      {"MiB", false, 0},
      {"-1", false, 0},
      {"5 parsecs", false, 0},
      {"1e30", false, 0},
      {"nan", false, 0},
      {"inf", false, 0},
      {"9999999999TiB", false, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t value = 99;
    assert_int_equal(cv_parse_bytes(cases[i].text, &value), cases[i].good);
    assert_int_equal(value, cases[i].value);
  }
}

static cv_status build(void *arg) {
  (void)arg;
  cv_str str = {0};
  for (int i = 0; i < 500; i++) {
    size_t before = str.len;
    bool had_failed = str.failed;
    cv_str_add(&str, "line %d\n", i);
    cv_str_append(&str, "0123456789", 10);
    if (had_failed) assert_int_equal(str.len, before); /* sticky: no text with a hole in it */
  }
  cv_status status = str.failed ? cv_error_nomem(str.cap) : CV_OK;
  assert_int_equal(strlen(cv_str_text(&str)), str.len);
  cv_str_deinit(&str);
  assert_false(str.failed);
  return status;
}

static void nth_growth_fails_for_good(void **state) {
  (void)state;
  assert_in_range(each_fault(build, NULL), 5, 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(builds_text),       cmocka_unit_test(grows_piece_by_piece),
      cmocka_unit_test(prefix_and_suffix), cmocka_unit_test(integers),
      cmocka_unit_test(byte_counts),       cmocka_unit_test(nth_growth_fails_for_good),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
