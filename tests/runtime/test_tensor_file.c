#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

#include "runtime/half.h"
#include "runtime/tensor_file.h"
#include "runtime/tensor_pb.h"
#include "tests/runtime/sample.h"

static char folder[] = "/tmp/cuvil-tensor-file-XXXXXX";
static cv_program *program; /* inputs k i64, c f32[m], d f32[m] */

static int setup(void **state) {
  (void)state;
  program = sample_sum(NULL);
  return mkdtemp(folder) ? 0 : 1;
}

static int teardown(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  cv_program_destroy(program);
  return system(command);
}

static const char *in_folder(const char *name) {
  static char paths[8][128];
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static float values[3] = {1, 2.5f, -3};
static int64_t trips = 4;
static cv_tensor floats = {
    .dtype = CV_F32, .rank = 1, .dims = {3}, .data = values, .bytes = sizeof values};
static cv_tensor count = {.dtype = CV_I64, .data = &trips, .bytes = 8};

static void put(const char *name, cv_tensor_format format, const cv_tensor *tensor) {
  assert_int_equal(cv_tensor_file_write(in_folder(name), format, "n", tensor), CV_OK);
}

static void free_inputs(cv_tensor *inputs) {
  for (int i = 0; i < 3; i++) cv_tensor_deinit(&inputs[i]);
}

static void test_formats(void **state) {
  (void)state;
  cv_tensor_format format;
  assert_true(cv_tensor_format_find("json", &format) && format == CV_FORMAT_JSON);
  assert_false(cv_tensor_format_find("txt", &format));
  for (int f = 0; f < 2; f++) {
    cv_tensor_list list = {0};
    put("t", (cv_tensor_format)f, &floats);
    assert_int_equal(cv_tensor_file_read(in_folder("t"), &list), CV_OK);
    assert_int_equal(list.len, 1);
    assert_memory_equal(list.data[0].tensor.data, values, sizeof values);
    cv_tensor_list_deinit(&list);
  }
  cv_tensor_list list = {0};
  assert_int_equal(cv_tensor_file_read(in_folder("none"), &list), CV_IO);
  assert_non_null(strstr(cv_error_text(), "none"));
}

static void test_json(void **state) {
  (void)state;
  double odd[4] = {0.1, NAN, INFINITY, -INFINITY};
  uint64_t large[1] = {UINT64_MAX};
  uint8_t flags[2] = {0, 1};
  cv_tensor t = {.dtype = CV_F64, .rank = 2, .dims = {2, 2}, .data = odd, .bytes = sizeof odd};
  put("t", CV_FORMAT_JSON, &t);
  json_t *root = json_load_file(in_folder("t"), 0, NULL);
  assert_string_equal(json_string_value(json_object_get(root, "name")), "n");
  assert_string_equal(json_string_value(json_object_get(root, "dtype")), "f64");
  assert_int_equal(json_integer_value(json_array_get(json_object_get(root, "dims"), 1)), 2);
  json_t *data = json_object_get(root, "data");
  assert_true(json_real_value(json_array_get(data, 0)) == 0.1);
  assert_string_equal(json_string_value(json_array_get(data, 1)), "nan");
  assert_string_equal(json_string_value(json_array_get(data, 3)), "-inf");
  json_decref(root);
  t = (cv_tensor){.dtype = CV_U64, .data = large, .bytes = 8};
  put("t", CV_FORMAT_JSON, &t);
  root = json_load_file(in_folder("t"), 0, NULL);
  assert_string_equal(json_string_value(json_array_get(json_object_get(root, "data"), 0)),
                      "18446744073709551615");
  json_decref(root);
  t = (cv_tensor){.dtype = CV_BOOL, .rank = 1, .dims = {2}, .data = flags, .bytes = 2};
  put("t", CV_FORMAT_JSON, &t);
  root = json_load_file(in_folder("t"), 0, NULL);
  assert_true(json_is_true(json_array_get(json_object_get(root, "data"), 1)));
  json_decref(root);
}

static void test_request(void **state) {
  (void)state;
  cv_tensor inputs[3];
  put("k.npy", CV_FORMAT_NPY, &count);
  put("v.pb", CV_FORMAT_PB, &floats);
  const char *k = in_folder("k.npy"), *v = in_folder("v.pb");
  const char *plain[] = {k, v, v};
  assert_int_equal(cv_request_read(program, plain, 3, inputs), CV_OK);
  assert_int_equal(*(int64_t *)inputs[0].data, 4);
  assert_memory_equal(inputs[2].data, values, sizeof values);
  free_inputs(inputs);
  char named[160];
  snprintf(named, sizeof named, "c=%s", v);
  const char *mixed[] = {named, k, v};
  assert_int_equal(cv_request_read(program, mixed, 3, inputs), CV_OK);
  assert_int_equal(inputs[0].dtype, CV_I64);
  free_inputs(inputs);
  assert_int_equal(cv_request_read(program, mixed, 2, inputs), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "input 'd'"));
  assert_null(inputs[0].data);
  const char *twice[] = {named, named};
  assert_int_equal(cv_request_read(program, twice, 2, inputs), CV_INVALID);
  const char *many[] = {k, v, v, v};
  assert_int_equal(cv_request_read(program, many, 4, inputs), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "3 inputs"));
}

static void test_archive(void **state) {
  (void)state;
  cv_named_tensor items[3] = {{(char *)(uintptr_t) "d", floats},
                              {(char *)(uintptr_t) "k", count},
                              {(char *)(uintptr_t) "c", floats}};
  cv_tensor_list list = {.data = items, .len = 3};
  cv_str text = {0};
  cv_tensor inputs[3];
  assert_int_equal(cv_npz_print(&list, true, &text), CV_OK);
  assert_int_equal(cv_file_write(in_folder("all.npz"), text.data, text.len), CV_OK);
  const char *file[] = {in_folder("all.npz")};
  assert_int_equal(cv_request_read(program, file, 1, inputs), CV_OK);
  assert_int_equal(inputs[0].dtype, CV_I64);
  free_inputs(inputs);
  cv_str_deinit(&text);
  items[0].name = (char *)(uintptr_t) "other";
  assert_int_equal(cv_npz_print(&list, false, &text), CV_OK);
  assert_int_equal(cv_file_write(in_folder("all.npz"), text.data, text.len), CV_OK);
  assert_int_equal(cv_request_read(program, file, 1, inputs), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "'other' is no input of the model (there are k, c, d)"));
  cv_str_deinit(&text);
}

static void test_dirs(void **state) {
  (void)state;
  cv_tensor inputs[3];
  cv_tensor_format format;
  assert_int_equal(mkdir(in_folder("in"), 0777), 0);
  put("in/input_0.pb", CV_FORMAT_PB, &count);
  put("in/input_1.npy", CV_FORMAT_NPY, &floats);
  put("in/output_0.pb", CV_FORMAT_PB, &floats);
  assert_int_equal(cv_request_read_dir(program, in_folder("in"), inputs, &format), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "input 'd'"));
  put("in/input_2.pb", CV_FORMAT_PB, &floats);
  assert_int_equal(cv_request_read_dir(program, in_folder("in"), inputs, &format), CV_OK);
  assert_int_equal(format, CV_FORMAT_PB);
  cv_tensor outputs[3] = {inputs[1], inputs[2], inputs[0]};
  outputs[1].absent = true;
  assert_int_equal(cv_results_write_dir(program, in_folder("out/deep"), format, outputs), CV_OK);
  cv_tensor_list list = {0};
  assert_int_equal(cv_tensor_file_read(in_folder("out/deep/output_0.pb"), &list), CV_OK);
  assert_string_equal(list.data[0].name, "final");
  cv_tensor_list_deinit(&list);
  assert_int_not_equal(access(in_folder("out/deep/output_1.pb"), F_OK), 0);
  free_inputs(inputs);
  put("in/input_3.pb", CV_FORMAT_PB, &floats);
  assert_int_equal(cv_request_read_dir(program, in_folder("in"), inputs, &format), CV_INVALID);
  assert_int_equal(cv_request_read_dir(program, in_folder("nowhere"), inputs, &format), CV_IO);
  assert_int_equal(cv_results_write_dir(program, "/proc/none/x", format, outputs), CV_IO);
}

/* A folder without inputs is one of ONNX's test data too. */
static void test_dir_without_inputs(void **state) {
  (void)state;
  cv_tensor none[1];
  cv_tensor_format format;
  const cv_program without = {.n_inputs = 0};
  assert_int_equal(mkdir(in_folder("in0"), 0777), 0);
  assert_int_equal(cv_request_read_dir(&without, in_folder("in0"), none, &format), CV_OK);
  assert_int_equal(format, CV_FORMAT_PB);
  put("in0/input_0.npy", CV_FORMAT_NPY, &count);
  assert_int_equal(cv_request_read_dir(&without, in_folder("in0"), none, &format), CV_INVALID);
}

static cv_status through_dir(void *arg) {
  (void)arg;
  cv_tensor inputs[3];
  cv_tensor_format format;
  cv_status status = cv_request_read_dir(program, in_folder("in2"), inputs, &format);
  if (status == CV_OK) status = cv_results_write_dir(program, in_folder("out2"), format, inputs);
  free_inputs(inputs);
  return status;
}

static void test_each_fault(void **state) {
  (void)state;
  assert_int_equal(mkdir(in_folder("in2"), 0777), 0);
  put("in2/input_0.npy", CV_FORMAT_NPY, &count);
  put("in2/input_1.pb", CV_FORMAT_PB, &floats);
  put("in2/input_2.pb", CV_FORMAT_PB, &floats);
  assert_true(sample_each_fault(through_dir, NULL) > 30);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formats),    cmocka_unit_test(test_json),
      cmocka_unit_test(test_request),    cmocka_unit_test(test_archive),
      cmocka_unit_test(test_dirs),       cmocka_unit_test(test_dir_without_inputs),
      cmocka_unit_test(test_each_fault),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
