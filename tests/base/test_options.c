#include "base/options.h"

#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

typedef struct {
  bool flag;
  const char *text;
  int64_t number;
  cv_texts list, words;
} values;

enum { ROWS = 6 };

static cv_command command_of(values *v, cv_option rows[ROWS]) {
  const cv_option all[ROWS] = {{"--flag", CV_OPTION_FLAG, &v->flag, NULL, "", 0, 0},
                               {"-o", CV_OPTION_TEXT, &v->text, "FILE", "", 0, 0},
                               {"--number", CV_OPTION_INT, &v->number, "N", "", 1, 9},
                               {"--list", CV_OPTION_LIST, &v->list, "X", "", 0, 0},
                               {"--words", CV_OPTION_WORDS, &v->words, "X...", "", 0, 0},
                               {0}};
  memcpy(rows, all, sizeof all);
  return (cv_command){"test WORD", "", rows, 1, 2};
}

static cv_status parse(values *v, cv_texts *words, int argc, const char *const *argv) {
  cv_option rows[ROWS];
  const cv_command command = command_of(v, rows);
  *v = (values){0};
  return cv_options_parse(&command, argc, (char **)(uintptr_t)argv, words);
}

static void release(values *v, cv_texts *words) {
  cv_option rows[ROWS];
  const cv_command command = command_of(v, rows);
  cv_options_release(&command, words);
  assert_null(v->list.data);
  assert_null(v->words.data);
  assert_null(words->data);
}

#define PARSE(...)                                                                         \
  parse(&v, &words, (int)(sizeof((const char *[]){"test", __VA_ARGS__}) / sizeof(char *)), \
        (const char *[]){"test", __VA_ARGS__})

static void test_all_kinds(void **state) {
  (void)state;
  values v;
  cv_texts words;
  assert_int_equal(PARSE("a", "--flag", "-o", "f", "--number=7", "--list", "x", "--list=y",
                         "--words", "p", "q", "--flag", "b"),
                   CV_OK);
  assert_true(v.flag);
  assert_string_equal(v.text, "f");
  assert_int_equal(v.number, 7);
  assert_int_equal(v.list.len, 2);
  assert_string_equal(v.list.data[1], "y");
  assert_int_equal(v.words.len, 2);
  assert_int_equal(words.len, 2);
  assert_string_equal(words.data[1], "b");
  release(&v, &words);
}

static void test_negative_numbers_are_words(void **state) {
  (void)state;
  values v;
  cv_texts words;
  assert_int_equal(PARSE("-3", "--", "--flag"), CV_OK);
  assert_false(v.flag);
  assert_string_equal(words.data[0], "-3");
  assert_string_equal(words.data[1], "--flag");
  release(&v, &words);
}

static void refused(const char *part, int argc, const char *const *argv) {
  values v;
  cv_texts words;
  assert_int_equal(parse(&v, &words, argc, argv), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), part));
  release(&v, &words);
}

static void test_what_is_refused(void **state) {
  (void)state;
  refused("unknown option --nope", 3, (const char *[]){"test", "a", "--nope"});
  refused("needs a value", 3, (const char *[]){"test", "a", "-o"});
  refused("whole number", 4, (const char *[]){"test", "a", "--number", "x"});
  refused("from 1 to 9", 4, (const char *[]){"test", "a", "--number", "10"});
  refused("takes no value", 3, (const char *[]){"test", "a", "--flag=1"});
  refused("is missing", 1, (const char *[]){"test"});
  refused("one word too many", 4, (const char *[]){"test", "a", "b", "c"});
}

static void test_assignments(void **state) {
  (void)state;
  const char *name, *value;
  cv_arena arena = {.may_die = true};
  assert_true(cv_split_assignment(&arena, "a=b=c", &name, &value));
  assert_string_equal(name, "a");
  assert_string_equal(value, "b=c");
  assert_false(cv_split_assignment(&arena, "=b", &name, &value));
  assert_false(cv_split_assignment(&arena, "a=", &name, &value));
  assert_false(cv_split_assignment(&arena, "a", &name, &value));
  cv_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_kinds),
      cmocka_unit_test(test_negative_numbers_are_words),
      cmocka_unit_test(test_what_is_refused),
      cmocka_unit_test(test_assignments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
