#include "runtime/tensor_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/file.h"
#include "runtime/half.h"
#include "runtime/tensor_pb.h"

static const char *const format_names[] = {
    [CV_FORMAT_NPY] = "npy", [CV_FORMAT_PB] = "pb", [CV_FORMAT_JSON] = "json"};

bool cv_tensor_format_find(const char *name, cv_tensor_format *out_format) {
  *out_format = CV_FORMAT_NPY;
  for (size_t i = 0; i < sizeof format_names / sizeof *format_names; i++) {
    if (strcmp(name, format_names[i]) != 0) continue;
    *out_format = (cv_tensor_format)i;
    return true;
  }
  return false;
}

const char *cv_tensor_format_name(cv_tensor_format format) { return format_names[format]; }

static cv_status parse_one(const char *path, const void *data, size_t bytes, cv_tensor_list *list) {
  cv_named_tensor item = {0};
  cv_status status = bytes >= 6 && memcmp(data, "\x93NUMPY", 6) == 0
                         ? cv_npy_parse(path, data, bytes, &item.tensor)
                         : cv_tensor_pb_parse(path, data, bytes, &item);
  if (status == CV_OK && !cv_vec_push(list, item)) {
    cv_free(item.name);
    cv_tensor_deinit(&item.tensor);
    status = cv_error_nomem(sizeof item);
  }
  return status;
}

cv_status cv_tensor_file_read(const char *path, cv_tensor_list *list) {
  void *data;
  size_t bytes;
  cv_status status = cv_file_read(path, &data, &bytes);
  if (status != CV_OK) return status;
  if (bytes >= 4 && (memcmp(data, "PK\3\4", 4) == 0 || memcmp(data, "PK\5\6", 4) == 0))
    status = cv_npz_parse(path, data, bytes, list);
  else
    status = parse_one(path, data, bytes, list);
  cv_free(data);
  return status;
}

/* ---- JSON ---- */

static json_t *element_json(cv_dtype dtype, const void *element) {
  if (dtype == CV_BOOL) return json_boolean(cv_element_to_int(dtype, element) != 0);
  if (cv_dtype_kind(dtype) == 'f') {
    double number = cv_element_to_double(dtype, element);
    if (isnan(number)) return json_string("nan");
    if (isinf(number)) return json_string(number > 0 ? "inf" : "-inf");
    return json_real(number);
  }
  int64_t number = cv_element_to_int(dtype, element);
  if (dtype != CV_U64 || number >= 0) return json_integer(number);
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, (uint64_t)number);
  return json_string(text);
}

static json_t *tensor_json(const char *name, const cv_tensor *tensor) {
  size_t size = cv_dtype_size(tensor->dtype);
  json_t *dims = json_array(), *data = json_array();
  int failed = !dims || !data;
  for (int d = 0; d < tensor->rank; d++)
    failed |= json_array_append_new(dims, json_integer(tensor->dims[d]));
  for (uint64_t at = 0; at < tensor->bytes && !failed; at += size)
    failed |=
        json_array_append_new(data, element_json(tensor->dtype, (const char *)tensor->data + at));
  json_t *object = json_pack("{s:s*, s:s, s:o, s:o}", "name", name, "dtype",
                             cv_dtype_name(tensor->dtype), "dims", dims, "data", data);
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

static cv_status print_json(const char *name, const cv_tensor *tensor, cv_str *out) {
  json_t *object = tensor_json(name, tensor);
  char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
  json_decref(object);
  if (!text) return cv_error_nomem(tensor->bytes);
  cv_str_puts(out, text);
  cv_str_puts(out, "\n");
  free(text);
  return CV_OK;
}

cv_status cv_tensor_file_write(const char *path, cv_tensor_format format, const char *name,
                               const cv_tensor *tensor) {
  cv_str text = {0};
  cv_status status = CV_OK;
  switch (format) {
    case CV_FORMAT_NPY: cv_npy_print(tensor, &text); break;
    case CV_FORMAT_PB: cv_tensor_pb_print(name, tensor, &text); break;
    case CV_FORMAT_JSON: status = print_json(name, tensor, &text); break;
  }
  if (status == CV_OK && text.failed) status = cv_error_nomem(tensor->bytes);
  if (status == CV_OK) status = cv_file_write(path, cv_str_text(&text), text.len);
  cv_str_deinit(&text);
  return status;
}
