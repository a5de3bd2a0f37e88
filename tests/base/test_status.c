#include "base/status.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void error_keeps_sentence_and_place(void **state) {
  (void)state;
  assert_int_equal(cv_error(CV_INVALID, "node %s: dim %d is %d", "conv1", 2, -7), CV_INVALID);
  int line = __LINE__ - 1;
  assert_string_equal(cv_error_text(), "node conv1: dim 2 is -7");
  char place[64];
  snprintf(place, sizeof place, "test_status.c:%d", line);
  assert_non_null(strstr(cv_error_place(), place));
}

static void arguments_may_be_the_sentence_itself(void **state) {
  (void)state;
  (void)!cv_error(CV_IO, "inner");
  (void)!cv_error(CV_IO, "outer: %s", cv_error_text());
  assert_string_equal(cv_error_text(), "outer: inner");
}

static void context_goes_in_front(void **state) {
  (void)state;
  (void)!cv_error(CV_CORRUPT, "bad magic");
  assert_int_equal(cv_error_context(CV_CORRUPT, "file %s", "m.cuv"), CV_CORRUPT);
  assert_int_equal(cv_error_context(CV_CORRUPT, "stage %d", 3), CV_CORRUPT);
  assert_string_equal(cv_error_text(), "stage 3: file m.cuv: bad magic");
  assert_int_equal(cv_error_context(CV_OK, "not added"), CV_OK);
  assert_string_equal(cv_error_text(), "stage 3: file m.cuv: bad magic");
}

static void long_sentences_are_cut_not_overrun(void **state) {
  (void)state;
  char text[5000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  (void)!cv_error(CV_FAILED, "%s", text);
  size_t kept = strlen(cv_error_text());
  assert_in_range(kept, 100, 4999);
  for (int i = 0; i < 10; i++) (void)!cv_error_context(CV_FAILED, "%s", text);
  assert_int_equal(strlen(cv_error_text()), kept);
}

static void *other_thread(void *arg) {
  bool *was_empty = arg;
  *was_empty = cv_error_text()[0] == 0;
  (void)!cv_error(CV_FAILED, "of the other thread");
  return NULL;
}

static void each_thread_has_its_own_sentence(void **state) {
  (void)state;
  (void)!cv_error(CV_FAILED, "of this thread");
  bool was_empty = false;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, other_thread, &was_empty), 0);
  pthread_join(thread, NULL);
  assert_true(was_empty);
  assert_string_equal(cv_error_text(), "of this thread");
}

static void codes_have_texts_and_exit_codes(void **state) {
  (void)state;
  assert_string_equal(cv_status_text(CV_INFEASIBLE), "no feasible plan");
  assert_string_equal(cv_status_text((cv_status)99), "unknown status");
  assert_int_equal(cv_status_exit_code(CV_OK), 0);
  assert_int_equal(cv_status_exit_code(CV_NOMEM), 1);
  assert_int_equal(cv_status_exit_code(CV_INVALID), 2);
  assert_int_equal(cv_status_exit_code(CV_INFEASIBLE), 3);
  assert_int_equal(cv_status_exit_code(CV_PEER_LOST), 4);
  assert_int_equal(cv_status_exit_code((cv_status)99), 1);
}

static cv_status second_step_fails(int *cleaned) {
  cv_status status = CV_OK;
  CV_TRY(CV_OK);
  CV_TRY(cv_error(CV_TIMEOUT, "late"));
  *cleaned = -1;
out:
  ++*cleaned;
  return status;
}

static void try_goes_to_out(void **state) {
  (void)state;
  int cleaned = 0;
  assert_int_equal(second_step_fails(&cleaned), CV_TIMEOUT);
  assert_int_equal(cleaned, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(error_keeps_sentence_and_place),
      cmocka_unit_test(arguments_may_be_the_sentence_itself),
      cmocka_unit_test(context_goes_in_front),
      cmocka_unit_test(long_sentences_are_cut_not_overrun),
      cmocka_unit_test(each_thread_has_its_own_sentence),
      cmocka_unit_test(codes_have_texts_and_exit_codes),
      cmocka_unit_test(try_goes_to_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
