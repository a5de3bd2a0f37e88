#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the function says on stderr. */
static const char *heard(void (*speak)(void)) {
  static char text[8192];
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  int saved = dup(STDERR_FILENO);
  dup2(pipes[1], STDERR_FILENO);
  speak();
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(pipes[1]);
  ssize_t got = read(pipes[0], text, sizeof text - 1);
  text[got > 0 ? got : 0] = 0;
  close(pipes[0]);
  return text;
}

static void say_at_every_level(void) {
  cv_log_error("e %d", 1);
  cv_log_warn("w %d", 2);
  cv_log_info("i %d", 3);
  cv_log_debug("d %d", 4);
}

static void level_decides(void **state) {
  (void)state;
  cv_log_init("worker 3");
  cv_log_set_level(CV_LOG_ERROR);
  assert_string_equal(heard(say_at_every_level), "worker 3: error: e 1\n");
  cv_log_set_level(CV_LOG_INFO);
  assert_string_equal(heard(say_at_every_level),
                      "worker 3: error: e 1\nworker 3: warning: w 2\nworker 3: info: i 3\n");
}

static void level_comes_from_the_environment(void **state) {
  (void)state;
  cv_log_set_level(CV_LOG_WARN);
  setenv("CUVIL_LOG", "debug", 1);
  cv_log_init("w");
  assert_non_null(strstr(heard(say_at_every_level), "w: debug: d 4\n"));
  cv_log_set_level(CV_LOG_WARN);
  setenv("CUVIL_LOG", "nonsense", 1);
  cv_log_init("w");
  assert_string_equal(heard(say_at_every_level), "w: error: e 1\nw: warning: w 2\n");
  unsetenv("CUVIL_LOG");
}

static char long_text[6000];

static void say_long(void) { cv_log_error("%s", long_text); }

static void long_lines_are_cut_and_end(void **state) {
  (void)state;
  memset(long_text, 'x', sizeof long_text - 1);
  const char *text = heard(say_long);
  size_t length = strlen(text);
  assert_in_range(length, 1000, 3000);
  assert_int_equal(text[length - 1], '\n');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(level_decides),
      cmocka_unit_test(level_comes_from_the_environment),
      cmocka_unit_test(long_lines_are_cut_and_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
