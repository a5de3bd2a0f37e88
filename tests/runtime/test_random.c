#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/random.h"

/* The known answers published with the generator. */
static void test_known_answers(void **state) {
  (void)state;
  uint32_t words[4];
  cv_philox(0, 0, 0, words);
  assert_int_equal(words[0], 0x6627e8d5);
  assert_int_equal(words[1], 0xe169c58d);
  assert_int_equal(words[2], 0xbc57ac4c);
  assert_int_equal(words[3], 0x9b00dbd8);
  cv_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, words);
  assert_int_equal(words[0], 0x408f276d);
  assert_int_equal(words[1], 0x41c83b0e);
  assert_int_equal(words[2], 0xa20bc7c6);
  assert_int_equal(words[3], 0x6d5451fd);
}

static void test_ranges(void **state) {
  (void)state;
  const uint32_t least[4] = {0, 0, 0, 0}, most[4] = {UINT32_MAX, UINT32_MAX, 0, 0};
  float u, v;
  assert_true(cv_random_uniform(least) == 0 && cv_random_uniform(most) < 1);
  cv_random_pair(least, &u, &v);
  assert_true(u > 0 && v == 0);
  cv_random_pair(most, &u, &v);
  assert_true(u == 1 && v < 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known_answers),
      cmocka_unit_test(test_ranges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
