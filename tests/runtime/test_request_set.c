#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/request_set.h"

static char folder[] = "/tmp/cuvil-request-set-XXXXXX";

static int setup(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : 1;
}

static int teardown(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

/* Writes one number to a file of the folder; its path. */
static char *written(const char *name, cv_tensor_format format, int64_t number) {
  char *path = cv_format("%s/%s", folder, name);
  cv_tensor tensor = {.dtype = CV_I64, .data = &number, .bytes = 8};
  assert_int_equal(cv_tensor_file_write(path, format, NULL, &tensor), CV_OK);
  return path;
}

/* The number that the options give an input; -1: none. */
static int64_t found(const cv_request_options *options, uint32_t index, const char *name) {
  cv_tensor_list list = {0};
  int64_t number = -1;
  assert_int_equal(cv_request_find_input(options, index, name, &list), CV_OK);
  assert_true(list.len <= 1);
  if (list.len) memcpy(&number, list.data[0].tensor.data, 8);
  cv_tensor_list_deinit(&list);
  return number;
}

static void files_are_found_by_order_or_name(void **state) {
  (void)state;
  char *three = written("three.npy", CV_FORMAT_NPY, 3), *four = written("four.pb", CV_FORMAT_PB, 4);
  const char *both[] = {three, four};
  cv_request_options plain = {.inputs = {both, 2}};
  assert_int_equal(found(&plain, 0, "x"), 3);
  assert_int_equal(found(&plain, 1, "axes"), 4);
  assert_int_equal(found(&plain, 2, "more"), -1);
  char *by_name = cv_format("axes=%s", four);
  const char *mixed[] = {three, by_name};
  cv_request_options named = {.inputs = {mixed, 2}};
  assert_int_equal(found(&named, 0, "axes"), 4);
  assert_int_equal(found(&named, 0, "axe"), -1);
  const char *rows[] = {by_name};
  cv_request_options each = {.inputs = {both, 2}, .each = {rows, 1}};
  assert_int_equal(found(&each, 0, "axes"), -1);
  cv_free(by_name);
  cv_free(three);
  cv_free(four);
}

static void folders_and_archives_are_looked_into(void **state) {
  (void)state;
  cv_free(written("input_0.pb", CV_FORMAT_PB, 5));
  cv_free(written("input_1.npy", CV_FORMAT_NPY, 6));
  cv_request_options dir = {.input_dir = folder};
  assert_int_equal(found(&dir, 0, "x"), 5);
  assert_int_equal(found(&dir, 1, "y"), 6);
  assert_int_equal(found(&dir, 2, "z"), -1);
  int64_t numbers[2] = {7, 8};
  cv_named_tensor items[2] = {{(char[]){"a"}, {.dtype = CV_I64, .data = &numbers[0], .bytes = 8}},
                              {(char[]){"b"}, {.dtype = CV_I64, .data = &numbers[1], .bytes = 8}}};
  cv_str bytes = {0};
  assert_int_equal(cv_npz_print(&(cv_tensor_list){items, 2, 2}, false, &bytes), CV_OK);
  char *path = cv_format("%s/all.npz", folder);
  FILE *file = fopen(path, "we");
  assert_int_equal(fwrite(bytes.data, 1, bytes.len, file), bytes.len);
  assert_int_equal(fclose(file), 0);
  cv_request_options archive = {.inputs = {(const char *[]){path}, 1}};
  assert_int_equal(found(&archive, 0, "b"), 8);
  assert_int_equal(found(&archive, 1, "a"), 7);
  assert_int_equal(found(&archive, 0, "c"), -1);
  cv_str_deinit(&bytes);
  cv_free(path);
}

static void files_that_cannot_be_read_are_told(void **state) {
  (void)state;
  cv_tensor_list list = {0};
  cv_request_options missing = {.inputs = {(const char *[]){"/nowhere/x.npy"}, 1}};
  assert_int_equal(cv_request_find_input(&missing, 0, "x", &list), CV_IO);
  assert_non_null(strstr(cv_error_text(), "/nowhere/x.npy"));
  assert_int_equal(list.len, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_are_found_by_order_or_name),
      cmocka_unit_test(folders_and_archives_are_looked_into),
      cmocka_unit_test(files_that_cannot_be_read_are_told),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
