#include "runtime/tensor_pb.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/half.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

typedef struct {
  const uint8_t *at, *end;
  bool failed;
} cursor;

/* One field: number and kind; a value, or its bytes. */
typedef struct {
  uint32_t number;
  int kind;
  uint64_t value;
  cursor bytes;
} field;

static uint64_t read_varint(cursor *c) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (c->at == c->end) break;
    uint8_t byte = *c->at++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return value;
  }
  c->failed = true;
  return 0;
}

static uint64_t read_fixed(cursor *c, size_t bytes) {
  uint64_t value = 0;
  if ((size_t)(c->end - c->at) < bytes) {
    c->failed = true;
    return 0;
  }
  memcpy(&value, c->at, bytes);
  c->at += bytes;
  return value;
}

/* The next field; false at the end or when the bytes are no fields. */
static bool next_field(cursor *c, field *out) {
  if (c->failed || c->at == c->end) return false;
  uint64_t key = read_varint(c);
  *out = (field){.number = (uint32_t)(key >> 3), .kind = (int)(key & 7)};
  switch (out->kind) {
    case VARINT: out->value = read_varint(c); break;
    case FIXED64: out->value = read_fixed(c, 8); break;
    case FIXED32: out->value = read_fixed(c, 4); break;
    case BYTES: {
      uint64_t length = read_varint(c);
      if (c->failed || length > (uint64_t)(c->end - c->at)) {
        c->failed = true;
        break;
      }
      out->bytes = (cursor){.at = c->at, .end = c->at + length};
      c->at += length;
      break;
    }
    default: c->failed = true; break;
  }
  return !c->failed;
}

/* What the first walk over the fields finds. */
typedef struct {
  int rank;
  int64_t dims[CV_MAX_RANK];
  uint64_t data_type;
  bool has_raw, too_many, strings, external;
  cursor raw, name;
} head;

static void add_dim(head *h, uint64_t dim) {
  if (h->rank == CV_MAX_RANK)
    h->too_many = true;
  else
    h->dims[h->rank++] = (int64_t)dim;
}

static bool read_head(cursor c, head *out) {
  field f;
  while (next_field(&c, &f)) {
    switch (f.number) {
      case CV_PB_DIMS:
        if (f.kind == VARINT) add_dim(out, f.value);
        while (f.kind == BYTES && f.bytes.at < f.bytes.end && !f.bytes.failed && !out->too_many)
          add_dim(out, read_varint(&f.bytes));
        c.failed = c.failed || f.bytes.failed;
        break;
      case CV_PB_DATA_TYPE: out->data_type = f.value; break;
      case CV_PB_NAME: out->name = f.bytes; break;
      case CV_PB_RAW_DATA:
        out->has_raw = true;
        out->raw = f.bytes;
        break;
      case CV_PB_STRING_DATA: out->strings = true; break;
      case CV_PB_SEGMENT:
      case CV_PB_EXTERNAL_DATA: out->external = true; break;
      case CV_PB_DATA_LOCATION: out->external = out->external || f.value != 0; break;
      default: break;
    }
  }
  return !c.failed;
}

/* The typed field that holds elements of a dtype (onnx.proto says which). */
static uint32_t field_of(cv_dtype dtype) {
  switch (dtype) {
    case CV_F32: return CV_PB_FLOAT_DATA;
    case CV_F64: return CV_PB_DOUBLE_DATA;
    case CV_I64: return CV_PB_INT64_DATA;
    case CV_U32:
    case CV_U64: return CV_PB_UINT64_DATA;
    default: return CV_PB_INT32_DATA;
  }
}

static uint64_t read_element(cursor *c, cv_dtype dtype) {
  if (dtype == CV_F32) return read_fixed(c, 4);
  if (dtype == CV_F64) return read_fixed(c, 8);
  return read_varint(c);
}

/* Typed elements in order; halves are bit patterns in integers, so the low bytes are the element.
 */
static bool read_typed(cursor c, const cv_tensor *tensor) {
  size_t size = cv_dtype_size(tensor->dtype);
  uint64_t done = 0;
  field f;
  while (next_field(&c, &f)) {
    if (f.number != field_of(tensor->dtype)) continue;
    bool packed = f.kind == BYTES;
    while (packed ? f.bytes.at < f.bytes.end : f.kind >= 0) {
      uint64_t element = packed ? read_element(&f.bytes, tensor->dtype) : f.value;
      if (f.bytes.failed || done + size > tensor->bytes) return false;
      if (tensor->dtype == CV_BOOL) element = element != 0;
      memcpy((char *)tensor->data + done, &element, size);
      done += size;
      if (!packed) break;
    }
  }
  return !c.failed && done == tensor->bytes;
}

static cv_status check_head(const char *where, const head *h, cv_dtype *out_dtype) {
  if (h->too_many)
    return cv_error(CV_UNSUPPORTED, "%s: a tensor of more than %d dims", where, CV_MAX_RANK);
  if (h->strings) return cv_error(CV_UNSUPPORTED, "%s: a tensor of strings", where);
  if (h->external)
    return cv_error(CV_UNSUPPORTED, "%s: a tensor whose data lies elsewhere: store it inside",
                    where);
  if (h->data_type > INT32_MAX || !cv_dtype_from_onnx((int)h->data_type, out_dtype))
    return cv_error(CV_UNSUPPORTED, "%s: ONNX data type %" PRIu64 " is not supported", where,
                    h->data_type);
  return CV_OK;
}

cv_status cv_tensor_pb_parse(const char *where, const void *data, size_t bytes,
                             cv_named_tensor *out_tensor) {
  *out_tensor = (cv_named_tensor){0};
  cursor all = {.at = data, .end = (const uint8_t *)data + bytes};
  head h = {0};
  cv_dtype dtype;
  if (!read_head(all, &h)) return cv_error(CV_INVALID, "%s: this is no ONNX tensor", where);
  cv_status status = check_head(where, &h, &dtype);
  if (status != CV_OK) return status;
  int64_t count;
  /* An element takes at least a byte of the file, so a small file makes no large tensor. */
  if (!cv_dims_count(h.rank, h.dims, &count) || (uint64_t)count > bytes)
    return cv_error(CV_INVALID, "%s: the tensor has dims that its data cannot fill", where);
  cv_tensor tensor;
  status = cv_tensor_create(dtype, h.rank, h.dims, &tensor);
  if (status != CV_OK) return cv_error_context(status, "%s", where);
  bool filled =
      h.has_raw ? (uint64_t)(h.raw.end - h.raw.at) == tensor.bytes : read_typed(all, &tensor);
  if (h.has_raw && filled && tensor.bytes) memcpy(tensor.data, h.raw.at, tensor.bytes);
  char *name = NULL;
  if (h.name.at < h.name.end) {
    name = cv_strndup((const char *)h.name.at, (size_t)(h.name.end - h.name.at));
    if (!name) status = cv_error_nomem((size_t)(h.name.end - h.name.at));
  }
  if (!filled)
    status = cv_error(CV_INVALID, "%s: %s, but its data has another number of elements", where,
                      cv_tensor_shape_text(&tensor).text);
  if (status != CV_OK) {
    cv_tensor_deinit(&tensor);
    cv_free(name);
    return status;
  }
  *out_tensor = (cv_named_tensor){.name = name, .tensor = tensor};
  return CV_OK;
}

static void put_varint(cv_str *out, uint64_t value) {
  char text[10];
  size_t n = 0;
  do {
    text[n++] = (char)((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value);
  cv_str_append(out, text, n);
}

static void put_bytes(cv_str *out, uint32_t number, const void *data, size_t bytes) {
  put_varint(out, number << 3 | BYTES);
  put_varint(out, bytes);
  if (bytes) cv_str_append(out, data, bytes);
}

void cv_tensor_pb_print(const char *name, const cv_tensor *tensor, cv_str *out) {
  for (int d = 0; d < tensor->rank; d++) {
    put_varint(out, CV_PB_DIMS << 3 | VARINT);
    put_varint(out, (uint64_t)tensor->dims[d]);
  }
  put_varint(out, CV_PB_DATA_TYPE << 3 | VARINT);
  put_varint(out, (uint64_t)cv_dtype_onnx(tensor->dtype));
  if (name && *name) put_bytes(out, CV_PB_NAME, name, strlen(name));
  put_bytes(out, CV_PB_RAW_DATA, tensor->data, tensor->bytes);
}
