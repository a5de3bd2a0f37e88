/* The reader: wire form, pruned copy, tensors, external data. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/onnx/file.h"
#include "compiler/onnx/onnx.h"
#include "compiler/onnx/prune.h"
#include "compiler/onnx/tensor.h"
#include "compiler/onnx/wire.h"
#include "onnx.pb-c.h"
#include "tests/compiler/onnx_bytes.h"

static void wire_reads_fields_and_stops_at_the_end(void **state) {
  (void)state;
  static pb b;
  b.len = 0;
  pb_int(&b, 1, -1);
  pb_float(&b, 2, 1.5f);
  pb_text(&b, 300, "abc");
  cv_wire wire = {b.data, b.data + b.len};
  cv_wire_field field;
  assert_int_equal(cv_wire_next(&wire, &field), 1);
  assert_true(field.number == 1 && field.value == UINT64_MAX);
  assert_int_equal(cv_wire_next(&wire, &field), 1);
  assert_true(field.number == 2 && field.value == 0x3fc00000u);
  assert_int_equal(cv_wire_next(&wire, &field), 1);
  assert_true(field.number == 300 && field.size == 3);
  assert_int_equal(cv_wire_next(&wire, &field), 0);
}

static void wire_refuses_what_is_malformed(void **state) {
  (void)state;
  static const struct {
    uint8_t bytes[12];
    size_t size;
  } bad[] = {{{0x08}, 1},         /* no value */
             {{0x08, 0x80}, 2},   /* a varint that does not end */
             {{0x0a, 5, 'a'}, 3}, /* longer than the rest */
             {{0x0d, 1, 2}, 3},   /* half a fixed32 */
             {{0x00, 1}, 2},      /* field 0 */
             {{0x0b}, 1},         /* a group */
             {{0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2}, 11}}; /* over 64 bits */
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cv_wire wire = {bad[i].bytes, bad[i].bytes + bad[i].size};
    cv_wire_field field;
    assert_int_equal(cv_wire_next(&wire, &field), -1);
  }
}

static void pruned_copy_has_places_for_weights(void **state) {
  (void)state;
  static float weights[1000];
  pb tensor = pb_tensor("w", 1, 1, &(int64_t){1000}, weights, sizeof weights);
  static pb graph;
  graph.len = 0;
  pb_message(&graph, 5, &tensor);
  pb_text(&graph, 10, "a doc string that is left out");
  pb model = pb_model(&graph, 17);
  cv_str out = {0};
  assert_int_equal(cv_onnx_prune(model.data, model.len, &out), CV_OK);
  assert_true(out.len < 100);
  cv_onnx_file *file;
  assert_int_equal(cv_onnx_file_from_memory("m", model.data, model.len, &file), CV_OK);
  assert_int_equal(file->model->graph->n_initializer, 1);
  cv_onnx_tensor read;
  assert_int_equal(cv_onnx_tensor_at(file, &file->model->graph->initializer[0], "t", &read), CV_OK);
  assert_true(read.bytes > model.data && read.bytes < model.data + model.len);
  assert_int_equal(read.count, 1000);
  cv_onnx_file_close(file);
  cv_str_deinit(&out);
}

/* Graph in attribute in node in graph, `depth` times. */
static pb nested(int depth) {
  pb graph = {.len = 0};
  for (int i = 0; i < depth; i++) {
    pb node = pb_node("If", "n", "", ""), outer = {.len = 0};
    pb_attr_message(&node, "then_branch", 6, 5, &graph);
    pb_message(&outer, 1, &node);
    graph = outer;
  }
  return pb_model(&graph, 17);
}

static void nesting_is_bounded_before_parsing(void **state) {
  (void)state;
  cv_str out = {0};
  pb fine = nested(20), deep = nested(22), deeper = nested(600);
  assert_int_equal(cv_onnx_prune(fine.data, fine.len, &out), CV_OK);
  assert_int_equal(cv_onnx_prune(deep.data, deep.len, &out), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "nested more than 64 deep"));
  assert_int_equal(cv_onnx_prune(deeper.data, deeper.len, &out), CV_INVALID);
  cv_str_deinit(&out);
}

static void every_truncation_is_refused_or_read(void **state) {
  (void)state;
  pb whole = nested(3);
  for (size_t size = 0; size < whole.len; size++) {
    uint8_t *copy = malloc(size + 1);
    cv_onnx_file *file;
    assert_non_null(copy);
    memcpy(copy, whole.data, size);
    if (cv_onnx_file_from_memory("cut", copy, size, &file) == CV_OK) {
      cv_onnx_file_close(file);
    } else {
      assert_true(cv_starts_with(cv_error_text(), "cut: "));
    }
    free(copy);
  }
}

/* Reads a tensor and copies its elements: the status of whichever fails. */
static cv_status elements(const pb *message, cv_onnx_tensor *out, void *data) {
  cv_onnx_file file = {.path = (char *)(uintptr_t) "m"};
  cv_status status = cv_onnx_tensor_read(&file, message->data, message->len, "t", out);
  return status == CV_OK ? cv_onnx_tensor_copy(out, data) : status;
}

static void typed_fields_hold_elements(void **state) {
  (void)state;
  cv_onnx_tensor t;
  pb half = {.len = 0}, ints = {.len = 0}, truth = {.len = 0}, big = {.len = 0};
  pb_int(&half, 1, 2);
  pb_int(&half, 2, 10);                      /* float16: bits in int32_data, packed */
  pb_bytes(&half, 5, "\x80\x78\x80\x7c", 4); /* 0x3c00, 0x3e00 */
  uint16_t halves[2];
  assert_int_equal(elements(&half, &t, halves), CV_OK);
  assert_true(halves[0] == 0x3c00 && halves[1] == 0x3e00);
  pb_int(&ints, 1, 2);
  pb_int(&ints, 2, 3); /* int8 in int32_data, not packed */
  pb_int(&ints, 5, -3);
  pb_int(&ints, 5, 7);
  int8_t bytes[2];
  assert_int_equal(elements(&ints, &t, bytes), CV_OK);
  assert_true(bytes[0] == -3 && bytes[1] == 7);
  pb_int(&truth, 2, 9);
  pb_int(&truth, 5, 4); /* any number but 0 is true */
  uint8_t one;
  assert_int_equal(elements(&truth, &t, &one), CV_OK);
  assert_int_equal(one, 1);
  double values[2] = {0.25, -1e300}, read[2];
  pb_int(&big, 1, 2);
  pb_int(&big, 2, 11);
  pb_bytes(&big, 10, values, sizeof values);
  assert_int_equal(elements(&big, &t, read), CV_OK);
  assert_memory_equal(read, values, sizeof values);
}

static void wrong_tensors_are_refused_with_a_sentence(void **state) {
  (void)state;
  cv_onnx_tensor t;
  float data[4] = {0};
  struct {
    pb message;
    const char *text;
  } cases[] = {
      {pb_tensor("w", 1, 1, &(int64_t){3}, data, 8), "has 8 bytes, its dims and type need 12"},
      {pb_tensor("w", 1, 1, &(int64_t){-3}, data, 8), "negative"},
      {pb_tensor("w", 8, 1, &(int64_t){1}, data, 4), "text (string)"},
      {pb_tensor("w", 17, 1, &(int64_t){1}, data, 1), "element type"},
      {pb_tensor("w", 0, 1, &(int64_t){1}, data, 1), "no element type"},
      {pb_tensor("w", 1, 2, (int64_t[]){INT64_MAX, 8}, data, 8), "too large"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_not_equal(elements(&cases[i].message, &t, data), CV_OK);
    assert_non_null(strstr(cv_error_text(), cases[i].text));
    assert_non_null(strstr(cv_error_text(), "\"w\""));
  }
  pb few = {.len = 0};
  pb_int(&few, 1, 3);
  pb_int(&few, 2, 1);
  pb_float(&few, 4, 1);
  assert_int_equal(elements(&few, &t, data), CV_INVALID);
}

/* A model with one external tensor of two floats, in a folder of its own. */
static cv_status import_external(const char *folder, const char *location, const char *offset) {
  static const char *const keys[] = {"location", "offset"};
  const char *values[] = {location, offset};
  pb tensor = {.len = 0}, graph = {.len = 0}, in = pb_value("x", 1, "2"),
     out = pb_value("y", 1, "2");
  pb node = pb_node("Add", "add", "x,w", "y");
  pb_int(&tensor, 1, 2);
  pb_int(&tensor, 2, 1);
  pb_text(&tensor, 8, "w");
  pb_int(&tensor, 14, 1);
  for (int i = 0; i < 2; i++) {
    pb entry = {.len = 0};
    pb_text(&entry, 1, keys[i]);
    pb_text(&entry, 2, values[i]);
    pb_message(&tensor, 13, &entry);
  }
  pb_message(&graph, 1, &node);
  pb_message(&graph, 5, &tensor);
  pb_message(&graph, 11, &in);
  pb_message(&graph, 12, &out);
  pb model = pb_model(&graph, 17);
  char path[256];
  snprintf(path, sizeof path, "%s/m.onnx", folder);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(model.data, 1, model.len, file), model.len);
  fclose(file);
  cv_graph *imported;
  cv_status status = cv_onnx_import(path, NULL, &imported);
  cv_graph_destroy(imported);
  return status;
}

static void external_data_stays_below_the_folder(void **state) {
  (void)state;
  char root[] = "/tmp/cv_onnx_XXXXXX", folder[128], path[256];
  float data[3] = {1, 2, 3};
  assert_non_null(mkdtemp(root));
  snprintf(folder, sizeof folder, "%s/model", root);
  assert_int_equal(mkdir(folder, 0700), 0);
  const char *files[] = {"model/w.bin", "secret.bin"};
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", root, files[i]);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(data, 4, 3, file);
    fclose(file);
  }
  char link[256], secret[256];
  snprintf(link, sizeof link, "%s/link.bin", folder);
  snprintf(secret, sizeof secret, "%s/secret.bin", root);
  assert_int_equal(symlink(secret, link), 0);
  assert_int_equal(import_external(folder, "w.bin", "4"), CV_OK);
  assert_int_equal(import_external(folder, "w.bin", "8"), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "truncated"));
  assert_int_equal(import_external(folder, "../secret.bin", "0"), CV_INVALID);
  assert_int_equal(import_external(folder, secret, "0"), CV_INVALID);
  assert_int_equal(import_external(folder, "link.bin", "0"), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "leads out"));
  assert_int_equal(import_external(folder, "", "0"), CV_INVALID);
  assert_int_equal(import_external(folder, "none.bin", "0"), CV_IO);
  const char *all[] = {"model/w.bin", "model/link.bin", "model/m.onnx", "model", "secret.bin", ""};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    snprintf(path, sizeof path, "%s/%s", root, all[i]);
    assert_int_equal(remove(path), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wire_reads_fields_and_stops_at_the_end),
      cmocka_unit_test(wire_refuses_what_is_malformed),
      cmocka_unit_test(pruned_copy_has_places_for_weights),
      cmocka_unit_test(nesting_is_bounded_before_parsing),
      cmocka_unit_test(every_truncation_is_refused_or_read),
      cmocka_unit_test(typed_fields_hold_elements),
      cmocka_unit_test(wrong_tensors_are_refused_with_a_sentence),
      cmocka_unit_test(external_data_stays_below_the_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
