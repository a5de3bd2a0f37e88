#include "compiler/onnx/tensor.h"

#include <stdio.h>
#include <string.h>

#include "compiler/onnx/prune.h"
#include "onnx.pb-c.h"
#include "runtime/tensor_pb.h"

typedef struct {
  cv_onnx_tensor tensor;
  const char *what;
  uint64_t data_type;
  bool has_raw, segment, external;
  size_t raw_size;
  uint64_t offset, length;
  char location[1024];
} reader;

static const char *label(const reader *r, char *buffer, size_t size) {
  if (!r->tensor.name || r->tensor.name_size == 0) return r->what;
  int length = r->tensor.name_size > 200 ? 200 : (int)r->tensor.name_size;
  snprintf(buffer, size, "tensor \"%.*s\"", length, (const char *)r->tensor.name);
  return buffer;
}

static cv_status fail(const reader *r, const cv_onnx_file *file, cv_status code, const char *text) {
  char buffer[256];
  return cv_error(code, "%s: %s: %s", file->path, label(r, buffer, sizeof buffer), text);
}

/* Adds one dim, or a packed run of them: false if there are too many. */
static bool add_dims(reader *r, const cv_wire_field *field) {
  cv_wire packed = {0};
  uint64_t value = field->value;
  if (field->type == CV_WIRE_BYTES) packed = (cv_wire){field->data, field->data + field->size};
  for (bool more = true; more;) {
    if (field->type == CV_WIRE_BYTES) {
      if (packed.at == packed.end) break;
      if (!cv_wire_varint(&packed, &value)) return false;
    } else {
      more = false;
    }
    if (r->tensor.rank == CV_MAX_RANK) return false;
    r->tensor.dims[r->tensor.rank++] = (int64_t)value;
  }
  return true;
}

static bool same(const cv_wire_field *field, const char *text) {
  return field->size == strlen(text) && memcmp(field->data, text, field->size) == 0;
}

static bool number(const cv_wire_field *field, uint64_t *out_value) {
  char text[24];
  int64_t value;
  if (field->size >= sizeof text) return false;
  memcpy(text, field->data, field->size);
  text[field->size] = '\0';
  if (!cv_parse_i64(text, &value) || value < 0) return false;
  *out_value = (uint64_t)value;
  return true;
}

/* One StringStringEntryProto of external_data. */
static bool add_external(reader *r, const cv_wire_field *entry) {
  cv_wire wire = {entry->data, entry->data + entry->size};
  cv_wire_field field, key = {0}, value = {0};
  int more;
  while ((more = cv_wire_next(&wire, &field)) > 0) {
    if (field.type != CV_WIRE_BYTES) return false;
    if (field.number == 1) key = field;
    if (field.number == 2) value = field;
  }
  if (more < 0 || !key.data) return false;
  if (!value.data) value.data = key.data;
  if (same(&key, "location")) {
    if (value.size >= sizeof r->location || memchr(value.data, 0, value.size)) return false;
    memcpy(r->location, value.data, value.size);
    r->location[value.size] = '\0';
    return true;
  }
  if (same(&key, "offset")) return number(&value, &r->offset);
  if (same(&key, "length")) return number(&value, &r->length);
  return true; /* a checksum, a base path: not needed */
}

static bool read_field(reader *r, const cv_wire_field *field) {
  bool bytes = field->type == CV_WIRE_BYTES, varint = field->type == CV_WIRE_VARINT;
  switch (field->number) {
    case CV_PB_DIMS: return (bytes || varint) && add_dims(r, field);
    case CV_PB_DATA_TYPE: r->data_type = field->value; return varint;
    case CV_PB_SEGMENT: r->segment = true; return true;
    case CV_PB_NAME:
      r->tensor.name = field->data;
      r->tensor.name_size = field->size;
      return bytes;
    case CV_PB_RAW_DATA:
      r->has_raw = true;
      r->tensor.bytes = field->data;
      r->raw_size = field->size;
      return bytes;
    case CV_PB_EXTERNAL_DATA: return bytes && add_external(r, field);
    case CV_PB_DATA_LOCATION: r->external = field->value == 1; return varint;
    default: return true;
  }
}

static cv_status check_type(reader *r, const cv_onnx_file *file) {
  static const struct {
    uint64_t number;
    const char *text;
  } refused[] = {{8, "text (string) tensors are not supported"},
                 {14, "complex tensors are not supported"},
                 {15, "complex tensors are not supported"},
                 {0, "has no element type"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    if (refused[i].number == r->data_type) return fail(r, file, CV_UNSUPPORTED, refused[i].text);
  }
  if (r->data_type > 1000 || !cv_dtype_from_onnx((int)r->data_type, &r->tensor.dtype)) {
    return fail(r, file, CV_UNSUPPORTED,
                "its element type (TensorProto.DataType) is not supported; supported are bool, "
                "8 to 64 bit integers, float16, bfloat16, float and double");
  }
  if (r->segment) return fail(r, file, CV_UNSUPPORTED, "segmented tensors are not supported");
  if (!cv_dims_count(r->tensor.rank, r->tensor.dims, &r->tensor.count) ||
      r->tensor.count > INT64_MAX / 8) {
    return fail(r, file, CV_INVALID, "its dims are negative or too large");
  }
  return CV_OK;
}

static cv_status find_bytes(reader *r, cv_onnx_file *file) {
  size_t want = (size_t)r->tensor.count * cv_dtype_size(r->tensor.dtype);
  if (r->external) {
    uint64_t length = r->length == UINT64_MAX ? want : r->length;
    cv_status status =
        cv_onnx_file_external(file, r->location, r->offset, length, &r->tensor.bytes, &r->raw_size);
    if (status != CV_OK) return status;
  } else if (!r->has_raw) {
    r->tensor.bytes = NULL;
    return CV_OK;
  }
  if (r->raw_size != want) {
    char buffer[256];
    return cv_error(CV_INVALID, "%s: %s: has %zu bytes, its dims and type need %zu", file->path,
                    label(r, buffer, sizeof buffer), r->raw_size, want);
  }
  return CV_OK;
}

cv_status cv_onnx_tensor_read(cv_onnx_file *file, const uint8_t *data, size_t size,
                              const char *what, cv_onnx_tensor *out_tensor) {
  reader r = {.what = what, .length = UINT64_MAX, .tensor.typed = {data, data + size}};
  cv_wire wire = {data, data + size};
  cv_wire_field field;
  int more;
  *out_tensor = (cv_onnx_tensor){0};
  while ((more = cv_wire_next(&wire, &field)) > 0) {
    if (!read_field(&r, &field)) {
      return fail(&r, file, CV_INVALID, "malformed, or of more than 8 dims");
    }
  }
  if (more < 0) return fail(&r, file, CV_INVALID, "malformed or truncated");
  cv_status status = check_type(&r, file);
  if (status == CV_OK) status = find_bytes(&r, file);
  if (status != CV_OK) return status;
  *out_tensor = r.tensor;
  if (r.tensor.bytes) return CV_OK;
  /* Typed fields are counted now, so that a constant is never half there. */
  size_t bytes = (size_t)r.tensor.count * cv_dtype_size(r.tensor.dtype);
  if (bytes > size * 8) {
    return fail(&r, file, CV_INVALID, "has fewer elements than its dims say");
  }
  return CV_OK;
}

cv_status cv_onnx_tensor_at(cv_onnx_file *file, const ProtobufCBinaryData *place, const char *what,
                            cv_onnx_tensor *out_tensor) {
  size_t offset, length;
  *out_tensor = (cv_onnx_tensor){0};
  if (!cv_onnx_place(place->data, place->len, file->size, &offset, &length)) {
    return cv_error(CV_INTERNAL, "%s: %s: a tensor's place is wrong", file->path, what);
  }
  return cv_onnx_tensor_read(file, file->data + offset, length, what, out_tensor);
}

/* Stores the low bytes of `value` as element i: little-endian, as all hosts we run on. */
static void store(void *out, size_t i, size_t size, uint64_t value) {
  memcpy((uint8_t *)out + i * size, &value, size);
}

/* The field that holds elements of a dtype, and how they are packed. */
static uint32_t field_of(cv_dtype dtype, cv_wire_type *out_type) {
  *out_type = CV_WIRE_VARINT;
  switch (dtype) {
    case CV_F32: *out_type = CV_WIRE_I32; return CV_PB_FLOAT_DATA;
    case CV_F64: *out_type = CV_WIRE_I64; return CV_PB_DOUBLE_DATA;
    case CV_I64: return CV_PB_INT64_DATA;
    case CV_U32:
    case CV_U64: return CV_PB_UINT64_DATA;
    default: return CV_PB_INT32_DATA;
  }
}

/* Takes the elements of one occurrence of the field: false if malformed or too many. */
static bool take(const cv_onnx_tensor *t, const cv_wire_field *field, cv_wire_type type, void *out,
                 int64_t *at) {
  size_t size = cv_dtype_size(t->dtype);
  if (field->type != CV_WIRE_BYTES) {
    if (field->type != type || *at == t->count) return false;
    store(out, (size_t)(*at)++, size, field->value);
    return true;
  }
  if (type != CV_WIRE_VARINT) {
    size_t n = field->size / size;
    if (field->size % size != 0 || n > (size_t)(t->count - *at)) return false;
    if (n) memcpy((uint8_t *)out + (size_t)*at * size, field->data, field->size);
    *at += (int64_t)n;
    return true;
  }
  cv_wire packed = {field->data, field->data + field->size};
  while (packed.at < packed.end) {
    uint64_t value;
    if (*at == t->count || !cv_wire_varint(&packed, &value)) return false;
    store(out, (size_t)(*at)++, size, value);
  }
  return true;
}

cv_status cv_onnx_tensor_copy(const cv_onnx_tensor *tensor, void *out) {
  size_t size = cv_dtype_size(tensor->dtype);
  if (tensor->bytes) {
    if (tensor->count) memcpy(out, tensor->bytes, (size_t)tensor->count * size);
  } else {
    cv_wire wire = tensor->typed;
    cv_wire_type type;
    uint32_t number_ = field_of(tensor->dtype, &type);
    cv_wire_field field;
    int64_t at = 0;
    while (cv_wire_next(&wire, &field) > 0) {
      if (field.number != number_) continue;
      if (!take(tensor, &field, type, out, &at)) {
        return cv_error(CV_INVALID, "its typed data is malformed or longer than its dims say");
      }
    }
    if (at != tensor->count) {
      return cv_error(CV_INVALID, "it has %lld elements, its dims need %lld", (long long)at,
                      (long long)tensor->count);
    }
  }
  if (tensor->dtype == CV_BOOL) {
    uint8_t *bytes = out;
    for (int64_t i = 0; i < tensor->count; i++) bytes[i] = bytes[i] != 0;
  }
  return CV_OK;
}

cv_status cv_onnx_tensor_const(cv_onnx_file *file, cv_graph *graph, const cv_onnx_tensor *tensor,
                               cv_val *out_value) {
  size_t size = cv_dtype_size(tensor->dtype);
  *out_value = CV_POISON;
  if (tensor->bytes && tensor->dtype != CV_BOOL && (uintptr_t)tensor->bytes % size == 0) {
    *out_value =
        cv_graph_const_borrowed(graph, tensor->dtype, tensor->rank, tensor->dims, tensor->bytes);
    return cv_graph_status(graph);
  }
  void *data = cv_arena_alloc(&graph->arena, (size_t)tensor->count + 1, size);
  cv_status status = cv_onnx_tensor_copy(tensor, data);
  if (status != CV_OK) {
    return cv_error_context(status, "%s: tensor \"%.*s\"", file->path, (int)tensor->name_size,
                            (const char *)tensor->name);
  }
  if (tensor->bytes) {
    cv_onnx_file_release(file, tensor->bytes, (size_t)tensor->count * size);
  } else {
    cv_onnx_file_release(file, tensor->typed.at, (size_t)(tensor->typed.end - tensor->typed.at));
  }
  *out_value = cv_graph_const_borrowed(graph, tensor->dtype, tensor->rank, tensor->dims, data);
  return cv_graph_status(graph);
}
