#include "base/arena.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "tests/each_fault.h"

/* Sizes that no machine has are asked for below: sanitizers must give NULL for them as well. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static void pieces_are_zeroed_aligned_and_apart(void **state) {
  (void)state;
  enum { COUNT = 3000 };
  static unsigned char *pieces[COUNT];
  static size_t sizes[COUNT];
  cv_arena arena = {0};
  for (size_t i = 0; i < COUNT; i++) {
    sizes[i] = i % 97 == 0 ? 100000 : i % 201; /* small ones with large ones between */
    pieces[i] = cv_arena_alloc(&arena, sizes[i], 1);
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % 16, 0);
    for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(pieces[i][k], 0);
    memset(pieces[i], (int)(i % 251) + 1, sizes[i]);
  }
  for (size_t i = 0; i < COUNT; i++)
    for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(pieces[i][k], i % 251 + 1);
  cv_arena_deinit(&arena);
}

static void copies(void **state) {
  (void)state;
  cv_arena arena = {0};
  char text[] = "abcdef";
  char *copy = cv_arena_strdup(&arena, text);
  char *part = cv_arena_strndup(&arena, text, 3);
  char *whole = cv_arena_strndup(&arena, text, 300);
  char *bytes = cv_arena_copy(&arena, text, sizeof text);
  char *printed = cv_arena_format(&arena, "%s-%04d", text, 42);
  memset(text, 'x', sizeof text);
  assert_string_equal(copy, "abcdef");
  assert_string_equal(part, "abc");
  assert_string_equal(whole, "abcdef");
  assert_string_equal(bytes, "abcdef");
  assert_string_equal(printed, "abcdef-0042");
  assert_non_null(cv_arena_copy(&arena, NULL, 0));
  cv_arena_deinit(&arena);
}

static void can_be_used_again_after_deinit(void **state) {
  (void)state;
  cv_arena arena = {0};
  cv_arena_deinit(&arena);
  for (int i = 0; i < 3; i++) {
    int *numbers = cv_arena_array(&arena, int, 10);
    numbers[9] = i;
    cv_arena_deinit(&arena);
    assert_null(arena.head);
  }
}

static void impossible_sizes_give_null(void **state) {
  (void)state;
  cv_arena arena = {0};
  volatile size_t huge = SIZE_MAX / 4;
  assert_null(cv_arena_alloc(&arena, huge, 8));
  assert_null(cv_arena_alloc(&arena, SIZE_MAX, 1));
  assert_null(cv_arena_alloc(&arena, huge, 1));
  assert_non_null(cv_arena_new(&arena, int));
  cv_arena_deinit(&arena);
}

static cv_status fill(void *arg) {
  cv_arena *arena = arg;
  cv_status status = CV_OK;
  for (int i = 0; i < 200; i++)
    if (!cv_arena_alloc(arena, 1000, 1)) status = cv_error_nomem(1000);
  if (!cv_arena_alloc(arena, 1 << 20, 1)) status = cv_error_nomem(1 << 20);
  if (!cv_arena_format(arena, "%d", 1)) status = cv_error_nomem(2);
  cv_arena_deinit(arena);
  return status;
}

static void nth_block_fails(void **state) {
  (void)state;
  cv_arena arena = {0};
  assert_in_range(each_fault(fill, &arena), 4, 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
      cmocka_unit_test(copies),
      cmocka_unit_test(can_be_used_again_after_deinit),
      cmocka_unit_test(impossible_sizes_give_null),
      cmocka_unit_test(nth_block_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
