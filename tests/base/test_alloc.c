#include "base/alloc.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/each_fault.h"

/* Sizes that no machine has are asked for below: sanitizers must give NULL for them as well. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static void memory_is_zeroed_and_aligned(void **state) {
  (void)state;
  unsigned char *memory = cv_alloc(100, 3);
  for (size_t i = 0; i < 300; i++) assert_int_equal(memory[i], 0);
  cv_free(memory);
  for (size_t align = sizeof(void *); align <= 4096; align *= 2) {
    memory = cv_alloc_aligned(align, align + 5);
    assert_int_equal((uintptr_t)memory % align, 0);
    for (size_t i = 0; i < align + 5; i++) assert_int_equal(memory[i], 0);
    cv_free(memory);
  }
}

static void nothing_is_still_something(void **state) {
  (void)state;
  void *memory[] = {cv_alloc(0, 8), cv_alloc(8, 0), cv_alloc_aligned(64, 0),
                    cv_realloc(NULL, 0, 4)};
  for (size_t i = 0; i < 4; i++) {
    assert_non_null(memory[i]);
    cv_free(memory[i]);
  }
  cv_free(NULL);
}

static void sizes_that_overflow_are_refused(void **state) {
  (void)state;
  volatile size_t huge = SIZE_MAX / 2 + 1; /* hidden from the compiler's own check */
  assert_null(cv_alloc(huge, 2));
  assert_null(cv_alloc_aligned(64, SIZE_MAX - 3));
  char *kept = cv_strdup("kept");
  assert_null(cv_realloc(kept, huge, 2));
  assert_string_equal(kept, "kept");
  cv_free(kept);
}

static void strings(void **state) {
  (void)state;
  char *texts[] = {cv_strdup("abc"), cv_strndup("abcdef", 3), cv_strndup("abc", 30),
                   cv_format("%s%d", "ab", 12)};
  const char *expected[] = {"abc", "abc", "abc", "ab12"};
  for (size_t i = 0; i < 4; i++) {
    assert_string_equal(texts[i], expected[i]);
    cv_free(texts[i]);
  }
}

static void the_nth_point_fails_once(void **state) {
  (void)state;
  cv_fault_arm(3);
  assert_false(cv_fault());
  assert_false(cv_fault_fired());
  assert_false(cv_fault());
  assert_true(cv_fault());
  assert_true(cv_fault_fired());
  for (int i = 0; i < 10; i++) assert_false(cv_fault());
  cv_fault_arm(2);
  cv_fault_arm(0);
  for (int i = 0; i < 10; i++) assert_false(cv_fault());
  assert_false(cv_fault_fired());
}

static cv_status allocate_in_every_way(void *arg) {
  (void)arg;
  void *memory[6] = {0};
  cv_status status = CV_OK;
  memory[0] = cv_alloc(1, 1);
  memory[1] = cv_alloc_aligned(64, 1);
  memory[2] = cv_strdup("a");
  memory[3] = cv_strndup("a", 1);
  memory[4] = cv_format("%d", 1);
  memory[5] = cv_realloc(NULL, 1, 1);
  for (size_t i = 0; i < 6; i++) {
    if (!memory[i]) status = cv_error_nomem(1);
    cv_free(memory[i]);
  }
  return status;
}

static void every_allocation_is_a_fault_point(void **state) {
  (void)state;
  assert_int_equal(each_fault(allocate_in_every_way, NULL), 6);
  assert_string_equal(cv_error_text(), "out of memory: 1 bytes needed");
}

/* In a child: its exit code, and what it said on stderr. */
static int die_in_child(void *(*die)(void), char *said, size_t room) {
  int pipes[2], code;
  assert_int_equal(pipe(pipes), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(pipes[1], STDERR_FILENO);
    cv_fault_arm(1);
    die();
    _exit(0);
  }
  close(pipes[1]);
  ssize_t got = read(pipes[0], said, room - 1);
  said[got > 0 ? got : 0] = 0;
  close(pipes[0]);
  assert_int_equal(waitpid(child, &code, 0), child);
  return WEXITSTATUS(code);
}

static void *alloc_or_die(void) { return cv_alloc_or_die(7, 11); }
static void *realloc_or_die(void) { return cv_realloc_or_die(NULL, 7, 11); }

static void or_die_ends_with_a_sentence(void **state) {
  (void)state;
  char said[512];
  assert_int_equal(die_in_child(alloc_or_die, said, sizeof said), 1);
  assert_non_null(strstr(said, "out of memory: 7 x 11 bytes needed"));
  assert_int_equal(die_in_child(realloc_or_die, said, sizeof said), 1);
  assert_non_null(strstr(said, "out of memory: 7 x 11 bytes needed"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_zeroed_and_aligned),
      cmocka_unit_test(nothing_is_still_something),
      cmocka_unit_test(sizes_that_overflow_are_refused),
      cmocka_unit_test(strings),
      cmocka_unit_test(the_nth_point_fails_once),
      cmocka_unit_test(every_allocation_is_a_fault_point),
      cmocka_unit_test(or_die_ends_with_a_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
