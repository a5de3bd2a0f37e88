/* The value of --bind INPUT=VALUE: a number, a comma separated list, a .npy or a .pb file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/onnx/import_internal.h"
#include "runtime/tensor_file.h"

typedef struct {
  cv_graph *graph;
  const cv_fix_input *bind;
  cv_dtype dtype;
  int rank;
  int64_t *dims; /* -1 where free; set from the value */
} target;

static cv_status wrong(const target *t, const char *text) {
  return cv_error(CV_INVALID, "--bind %s=%s: %s", t->bind->name, t->bind->value, text);
}

/* Matches the value's dims to the declared ones. */
static cv_status match(const target *t, int rank, const int64_t *dims) {
  if (rank != t->rank) return wrong(t, "the value has another number of dims than the input");
  for (int i = 0; i < rank; i++) {
    if (t->dims[i] >= 0 && t->dims[i] != dims[i]) {
      return wrong(t, "the value has other dims than the input");
    }
    t->dims[i] = dims[i];
  }
  return CV_OK;
}

/* Elements from text, converted through the graph's scalar constants. */
static cv_status from_text(const target *t, cv_val *out_value) {
  cv_status status = CV_OK;
  const char *at = t->bind->value;
  size_t size = cv_dtype_size(t->dtype);
  int64_t count = 1;
  for (const char *c = at; *c; c++) count += *c == ',';
  int64_t dims[CV_MAX_RANK] = {count};
  int rank = t->rank;
  if (rank > 1 || (rank == 0 && count != 1)) {
    return wrong(t, "a list of numbers is for an input of one dim; give a .npy file");
  }
  CV_TRY(match(t, rank, dims));
  uint8_t *data = cv_arena_alloc(&t->graph->arena, (size_t)count, size);
  for (int64_t i = 0; i < count; i++) {
    char *end;
    errno = 0;
    double number = strtod(at, &end);
    long long integer = strtoll(at, NULL, 10);
    if (end == at || (*end != ',' && *end != '\0')) {
      return wrong(t, "is neither a number, a list of numbers, nor a .npy or .pb file");
    }
    cv_val scalar = cv_dtype_kind(t->dtype) == 'f' ? cv_graph_scalar(t->graph, t->dtype, number)
                                                   : cv_graph_i64(t->graph, integer);
    if (t->graph->status != CV_OK) return cv_graph_status(t->graph);
    const void *element = cv_value_of(t->graph, scalar)->data.data;
    if (t->dtype == CV_BOOL) {
      data[i] = integer != 0;
    } else {
      memcpy(data + (size_t)i * size, element, size);
    }
    at = end + 1;
  }
  *out_value = cv_graph_const_borrowed(t->graph, t->dtype, rank, dims, data);
out:
  return status;
}

static cv_status from_file(const target *t, cv_val *out_value) {
  cv_tensor_list list = {0};
  cv_status status = CV_OK;
  CV_TRY(cv_tensor_file_read(t->bind->value, &list));
  if (list.len != 1) {
    status = wrong(t, "the file must hold one tensor");
    goto out;
  }
  const cv_tensor *tensor = &list.data[0].tensor;
  if (tensor->dtype != t->dtype) {
    status = wrong(t, "the file has another element type than the input");
    goto out;
  }
  CV_TRY(match(t, tensor->rank, tensor->dims));
  *out_value = cv_graph_const(t->graph, t->dtype, tensor->rank, tensor->dims, tensor->data);
out:
  cv_tensor_list_deinit(&list);
  return status;
}

cv_status cv_onnx_bind_value(cv_graph *graph, const cv_fix_input *bind, cv_dtype dtype, int rank,
                             int64_t *dims, cv_val *out_value) {
  target t = {graph, bind, dtype, rank, dims};
  bool file = cv_ends_with(bind->value, ".npy") || cv_ends_with(bind->value, ".pb");
  *out_value = CV_POISON;
  return file ? from_file(&t, out_value) : from_text(&t, out_value);
}
