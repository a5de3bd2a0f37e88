/* The value of --bind INPUT=VALUE: a number, a comma separated list, a .npy or a .pb file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/tensor.h"

enum { MAX_BIND_FILE = 1 << 28 };

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

static cv_status read_file(const target *t, uint8_t **out_data, size_t *out_size) {
  cv_status status = CV_OK;
  *out_data = NULL;
  *out_size = 0;
  FILE *file = fopen(t->bind->value, "rbe");
  if (!file) return cv_error(CV_IO, "%s: cannot be opened: %s", t->bind->value, strerror(errno));
  if (fseek(file, 0, SEEK_END) < 0) {
    status = cv_error(CV_IO, "%s: cannot be read", t->bind->value);
    goto out;
  }
  long size = ftell(file);
  rewind(file);
  if (size < 0 || size > MAX_BIND_FILE) {
    status = cv_error(CV_IO, "%s: is no file, or larger than 256 MiB", t->bind->value);
    goto out;
  }
  *out_data = cv_arena_alloc(&t->graph->arena, (size_t)size + 1, 1);
  *out_size = (size_t)size;
  if (fread(*out_data, 1, (size_t)size, file) != (size_t)size) {
    status = cv_error(CV_IO, "%s: cannot be read", t->bind->value);
  }
out:
  (void)fclose(file);
  return status;
}

/* A .npy file: the header is a Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (2,
 * 3), } (format 1.0 to 3.0 of numpy's documentation). */
static cv_status from_npy(const target *t, const uint8_t *data, size_t size, cv_val *out_value) {
  if (size < 12 || memcmp(data, "\x93NUMPY", 6) != 0) return wrong(t, "the file is no .npy file");
  size_t from = data[6] >= 2 ? 12 : 10;
  size_t length = data[8] | (size_t)data[9] << 8;
  if (data[6] >= 2) length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
  if (length > size - from) return wrong(t, "the .npy file is truncated");
  char *header = cv_arena_strndup(&t->graph->arena, (const char *)data + from, length);
  const char *descr = strstr(header, "'descr': '"), *shape = strstr(header, "'shape': (");
  if (!descr || !shape || !strstr(header, "'fortran_order': False")) {
    return wrong(t, "the .npy file has an unusual header or column order");
  }
  cv_dtype dtype;
  char *name = cv_arena_strndup(&t->graph->arena, descr + 10, strcspn(descr + 10, "'"));
  if (!cv_dtype_from_numpy(name, &dtype) || dtype != t->dtype) {
    return wrong(t, "the .npy file has another element type than the input");
  }
  int64_t dims[CV_MAX_RANK], count;
  int rank = 0;
  for (const char *at = shape + 10; *at && *at != ')';) {
    char *end;
    long long dim = strtoll(at, &end, 10);
    if (end == at || rank == CV_MAX_RANK) return wrong(t, "the .npy file's shape is malformed");
    dims[rank++] = dim;
    at = end + strspn(end, ", ");
  }
  cv_status status = match(t, rank, dims);
  if (status != CV_OK) return status;
  if (!cv_dims_count(rank, dims, &count) || count > MAX_BIND_FILE ||
      (uint64_t)count * cv_dtype_size(dtype) != size - from - length) {
    return wrong(t, "the .npy file's size does not fit its shape");
  }
  *out_value = cv_graph_const(t->graph, dtype, rank, dims, data + from + length);
  return CV_OK;
}

static cv_status from_pb(const target *t, const uint8_t *data, size_t size, cv_val *out_value) {
  cv_onnx_file file = {.path = (char *)(uintptr_t)t->bind->value};
  cv_onnx_tensor tensor;
  cv_status status = cv_onnx_tensor_read(&file, data, size, "the tensor", &tensor);
  if (status != CV_OK) return status;
  if (tensor.dtype != t->dtype) return wrong(t, "the file has another element type than the input");
  status = match(t, tensor.rank, tensor.dims);
  if (status != CV_OK) return status;
  return cv_onnx_tensor_const(&file, t->graph, &tensor, out_value);
}

cv_status cv_onnx_bind_value(cv_graph *graph, const cv_fix_input *bind, cv_dtype dtype, int rank,
                             int64_t *dims, cv_val *out_value) {
  target t = {graph, bind, dtype, rank, dims};
  bool npy = cv_ends_with(bind->value, ".npy"), pb = cv_ends_with(bind->value, ".pb");
  uint8_t *data;
  size_t size;
  *out_value = CV_POISON;
  if (!npy && !pb) return from_text(&t, out_value);
  cv_status status = read_file(&t, &data, &size);
  if (status != CV_OK) return status;
  return npy ? from_npy(&t, data, size, out_value) : from_pb(&t, data, size, out_value);
}
