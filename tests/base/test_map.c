#include "base/map.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "tests/each_fault.h"

static const char *name_of(int i) {
  static char name[32];
  snprintf(name, sizeof name, "value_%d", i);
  return name;
}

static void finds_what_was_put(void **state) {
  (void)state;
  cv_map map = {0};
  uint64_t value = 1;
  assert_false(cv_map_get_str(&map, "none", &value));
  assert_int_equal(value, 0);
  for (int i = 0; i < 5000; i++) assert_true(cv_map_put_str(&map, name_of(i), (uint64_t)i * 7));
  assert_int_equal(map.len, 5000);
  for (int i = 0; i < 5000; i++) {
    assert_true(cv_map_get_str(&map, name_of(i), &value));
    assert_int_equal(value, i * 7);
  }
  assert_false(cv_map_get_str(&map, name_of(5000), &value));
  cv_map_deinit(&map);
  assert_false(cv_map_get_str(&map, name_of(1), &value));
}

static void putting_again_replaces(void **state) {
  (void)state;
  cv_map map = {0};
  for (uint64_t i = 1; i < 100; i++) assert_true(cv_map_put_str(&map, "same", i));
  uint64_t value;
  assert_true(cv_map_get_str(&map, "same", &value));
  assert_int_equal(value, 99);
  assert_int_equal(map.len, 1);
  cv_map_deinit(&map);
}

static void keys_are_bytes_and_are_copied(void **state) {
  (void)state;
  cv_map map = {0};
  char key[4] = {'a', 0, 'b', 0};
  assert_true(cv_map_put(&map, key, 3, 1));
  assert_true(cv_map_put(&map, key, 2, 2));
  assert_true(cv_map_put(&map, "", 0, 3));
  key[0] = 'z';
  uint64_t value;
  assert_true(cv_map_get(&map, "a\0b", 3, &value));
  assert_int_equal(value, 1);
  assert_true(cv_map_get(&map, "a\0", 2, &value));
  assert_int_equal(value, 2);
  assert_true(cv_map_get(&map, "", 0, &value));
  assert_int_equal(value, 3);
  assert_false(cv_map_get(&map, "a", 1, &value));
  cv_map_deinit(&map);
}

static cv_status put_many(void *arg) {
  (void)arg;
  cv_map map = {0};
  cv_status status = CV_OK;
  int put = 0;
  for (; put < 100 && status == CV_OK; put++)
    if (!cv_map_put_str(&map, name_of(put), (uint64_t)put)) status = cv_error_nomem(64);
  size_t good = status == CV_OK ? 100 : (size_t)put - 1;
  assert_int_equal(map.len, good); /* unchanged by the failed put */
  for (int i = 0; i < (int)good; i++) {
    uint64_t value;
    assert_true(cv_map_get_str(&map, name_of(i), &value));
    assert_int_equal(value, i);
  }
  cv_map_deinit(&map);
  return status;
}

static void nth_allocation_fails_and_keeps_the_rest(void **state) {
  (void)state;
  assert_int_equal(each_fault(put_many, NULL),
                   105); /* a key each, and tables of 16, ... 256 slots */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_what_was_put),
      cmocka_unit_test(putting_again_replaces),
      cmocka_unit_test(keys_are_bytes_and_are_copied),
      cmocka_unit_test(nth_allocation_fails_and_keeps_the_rest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
