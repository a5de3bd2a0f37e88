#include "base/config.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/str.h"

static cv_config *parse(const char *text) {
  cv_config *config;
  if (cv_config_parse("f.yaml", text, strlen(text), &config) != CV_OK)
    fail_msg("%s", cv_error_text());
  return config;
}

static void refuse(const char *text, const char *sentence) {
  cv_config *config;
  assert_int_equal(cv_config_parse("f.yaml", text, strlen(text), &config), CV_INVALID);
  assert_null(config);
  if (!strstr(cv_error_text(), sentence)) fail_msg("%s | %s", cv_error_text(), sentence);
}

static const char good[] =
    "name: edge   # a comment\n"
    "on: true\n"
    "cores: 4\n"
    "speed: 0.5\n"
    "memory: 512MiB\n"
    "kind: paced\n"
    "list:\n"
    "  - {a: 1}\n"
    "  - [x, y]\n"
    "  - plain\n"
    "quoted: \"7\"\n"
    "nothing:\n"
    "empty: []\n";

static void test_typed_values(void **state) {
  (void)state;
  cv_config *config = parse(good);
  const cv_config_node *root = cv_config_root(config), *list = NULL;
  const char *text = NULL;
  bool on = false;
  int64_t cores = 0;
  double speed = 0;
  uint64_t memory = 0;
  int kind = -1;
  assert_int_equal(cv_config_read_string(root, "name", true, &text), CV_OK);
  assert_string_equal(text, "edge");
  assert_int_equal(cv_config_read_string(root, "quoted", true, &text), CV_OK);
  assert_string_equal(text, "7");
  assert_int_equal(cv_config_read_bool(root, "on", true, &on), CV_OK);
  assert_true(on);
  assert_int_equal(cv_config_read_i64(root, "cores", true, (cv_config_range){1, 8}, &cores), CV_OK);
  assert_int_equal(cores, 4);
  assert_int_equal(cv_config_read_double(root, "speed", true, 0, &speed), CV_OK);
  assert_true(speed == 0.5);
  assert_int_equal(cv_config_read_bytes(root, "memory", true, &memory), CV_OK);
  assert_int_equal(memory, 512u << 20);
  const char *const kinds[] = {"cpu", "paced", NULL};
  assert_int_equal(cv_config_read_choice(root, "kind", true, kinds, &kind), CV_OK);
  assert_int_equal(kind, 1);
  assert_int_equal(cv_config_read_list(root, "list", true, &list), CV_OK);
  assert_int_equal(cv_config_count(list), 3);
  assert_int_equal(cv_config_line(cv_config_item(list, 1)), 9);
  assert_int_equal(cv_config_node_kind(cv_config_item(list, 0)), CV_CONFIG_MAP);
  assert_string_equal(cv_config_key(cv_config_item(list, 0), 0), "a");
  assert_int_equal(cv_config_node_kind(cv_config_item(list, 1)), CV_CONFIG_LIST);
  assert_null(cv_config_item(list, 3));
  assert_null(cv_config_key(root, 99));
  assert_null(cv_config_get(list, "a"));
  cv_config_destroy(config);
}

static void test_absent_keys_keep_the_default(void **state) {
  (void)state;
  cv_config *config = parse("");
  const cv_config_node *root = cv_config_root(config);
  int64_t value = 7;
  const char *text = "default";
  assert_int_equal(cv_config_read_i64(root, "x", false, (cv_config_range){0, 9}, &value), CV_OK);
  assert_int_equal(value, 7);
  assert_int_equal(cv_config_read_string(root, "x", false, &text), CV_OK);
  assert_string_equal(text, "default");
  cv_config_destroy(config);
}

static void says(cv_status status, const char *sentence) {
  assert_int_equal(status, CV_INVALID);
  assert_string_equal(cv_error_text(), sentence);
}

static void test_messages_name_file_line_key(void **state) {
  (void)state;
  cv_config *config = parse(good);
  const cv_config_node *root = cv_config_root(config), *list = NULL;
  const char *text;
  bool on;
  int64_t number;
  double real;
  uint64_t bytes;
  int choice;
  const char *const kinds[] = {"cpu", "cuda", NULL}, *const names[] = {"name", "on", NULL};
  cv_config_range range = {1, 3};
  says(cv_config_read_string(root, "host", true, &text), "f.yaml:1: host is missing; add it");
  says(cv_config_read_string(root, "list", true, &text),
       "f.yaml:7: key list: must be a single value, not a list or map");
  says(cv_config_read_string(root, "nothing", true, &text),
       "f.yaml:12: key nothing: has no value; give it a text");
  says(cv_config_read_bool(root, "cores", true, &on),
       "f.yaml:3: key cores: \"4\" is neither true nor false");
  says(cv_config_read_i64(root, "cores", true, range, &number),
       "f.yaml:3: key cores: \"4\" is not a whole number from 1 to 3");
  says(cv_config_read_i64(root, "quoted", true, range, &number),
       "f.yaml:11: key quoted: \"7\" is not a whole number from 1 to 3");
  says(cv_config_read_double(root, "name", true, 0, &real),
       "f.yaml:1: key name: \"edge\" is not a number of at least 0");
  says(cv_config_read_double(root, "speed", true, 1, &real),
       "f.yaml:4: key speed: \"0.5\" is not a number of at least 1");
  says(cv_config_read_bytes(root, "name", true, &bytes),
       "f.yaml:1: key name: \"edge\" is not a size; write for example 512MiB, 2GB or 4096");
  says(cv_config_read_choice(root, "kind", true, kinds, &choice),
       "f.yaml:6: key kind: \"paced\" is not known; choose one of: cpu, cuda");
  says(cv_config_read_list(root, "name", true, &list),
       "f.yaml:1: key name: must be a list (lines that begin with \"- \")");
  says(cv_config_read_list(root, "empty", true, &list), "f.yaml:13: key empty: the list is empty");
  says(cv_config_read_list(root, "absent", true, &list),
       "f.yaml:1: absent is missing; add the list");
  says(cv_config_only(root, names), "f.yaml:3: key cores: is not known here; known are: name, on");
  cv_config_destroy(config);
  config = parse("- a\n");
  root = cv_config_root(config);
  says(cv_config_read_string(root, "x", true, &text),
       "f.yaml:1: must be a map (key: value) that holds x");
  says(cv_config_only(root, names), "f.yaml:1: must be a map (key: value)");
  cv_config_destroy(config);
}

static void test_bad_files(void **state) {
  (void)state;
  refuse("a: 1\nb: [1, 2\nc: 3\n", "f.yaml:3: not YAML");
  refuse("a: 1\na: 2\n", "f.yaml:2: key a: given twice, first in line 1");
  refuse("a: &x 1\nb: *x\n", "f.yaml:1: anchors");
  refuse("b: *x\n", "f.yaml:1: an alias");
  refuse("a: !!python/object x\n", "f.yaml:1: anchors (&name) and tags");
  refuse("a: 1\n---\nb: 2\n", "a second document");
  refuse("? [1, 2]\n: 3\n", "a key must be a plain word");
  refuse("\x01", "not YAML");
  refuse("a: \"x\\0y\"\n", "a zero byte");
  cv_str deep = {0};
  for (int i = 0; i < 40; i++) cv_str_puts(&deep, "[");
  for (int i = 0; i < 40; i++) cv_str_puts(&deep, "]");
  refuse(cv_str_text(&deep), "nested deeper than 32");
  cv_str_deinit(&deep);
  cv_config *config;
  assert_int_equal(cv_config_load("/nonexistent/f.yaml", &config), CV_IO);
  assert_non_null(strstr(cv_error_text(), "/nonexistent/f.yaml: cannot be opened"));
  assert_int_equal(cv_config_load("/", &config), CV_IO);
}

static void test_load_and_every_failure(void **state) {
  (void)state;
  char path[] = "/tmp/cv-test-config-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, good, sizeof good - 1), (ssize_t)sizeof good - 1);
  close(fd);
  for (long n = 1;; n++) {
    cv_config *config;
    cv_fault_arm(n);
    cv_status status = cv_config_load(path, &config);
    bool fired = cv_fault_fired();
    cv_fault_arm(0);
    if (fired) assert_true(status == CV_NOMEM || status == CV_IO);
    if (!fired) assert_int_equal(status, CV_OK);
    cv_config_destroy(config);
    if (!fired) break;
  }
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_typed_values),
      cmocka_unit_test(test_absent_keys_keep_the_default),
      cmocka_unit_test(test_messages_name_file_line_key),
      cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_load_and_every_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
