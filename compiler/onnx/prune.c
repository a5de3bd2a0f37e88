#include "compiler/onnx/prune.h"

#include <string.h>

#include "compiler/onnx/wire.h"

typedef enum {
  NONE,
  MODEL,
  OPSET,
  GRAPH,
  NODE,
  ATTRIBUTE,
  FUNCTION,
  VALUE_INFO,
  TYPE,
  TENSOR_TYPE,
  SHAPE,
  DIMENSION,
  PLAIN, /* a field that is copied as it is */
  PLACE  /* a TensorProto: its place is written */
} message;

/* What a message's fields are; fields that are not listed are left out. */
static const struct {
  message in;
  uint32_t number;
  message is;
} fields[] = {
    {MODEL, 1, PLAIN},       {MODEL, 2, PLAIN},         {MODEL, 3, PLAIN},
    {MODEL, 7, GRAPH},       {MODEL, 8, OPSET},         {MODEL, 25, FUNCTION},
    {OPSET, 1, PLAIN},       {OPSET, 2, PLAIN},         {GRAPH, 1, NODE},
    {GRAPH, 2, PLAIN},       {GRAPH, 5, PLACE},         {GRAPH, 11, VALUE_INFO},
    {GRAPH, 12, VALUE_INFO}, {GRAPH, 15, PLACE},        {NODE, 1, PLAIN},
    {NODE, 2, PLAIN},        {NODE, 3, PLAIN},          {NODE, 4, PLAIN},
    {NODE, 5, ATTRIBUTE},    {NODE, 7, PLAIN},          {NODE, 8, PLAIN},
    {ATTRIBUTE, 1, PLAIN},   {ATTRIBUTE, 2, PLAIN},     {ATTRIBUTE, 3, PLAIN},
    {ATTRIBUTE, 4, PLAIN},   {ATTRIBUTE, 5, PLACE},     {ATTRIBUTE, 6, GRAPH},
    {ATTRIBUTE, 7, PLAIN},   {ATTRIBUTE, 8, PLAIN},     {ATTRIBUTE, 9, PLAIN},
    {ATTRIBUTE, 20, PLAIN},  {ATTRIBUTE, 21, PLAIN},    {ATTRIBUTE, 22, PLACE},
    {FUNCTION, 1, PLAIN},    {FUNCTION, 4, PLAIN},      {FUNCTION, 5, PLAIN},
    {FUNCTION, 6, PLAIN},    {FUNCTION, 7, NODE},       {FUNCTION, 9, OPSET},
    {FUNCTION, 10, PLAIN},   {FUNCTION, 11, ATTRIBUTE}, {FUNCTION, 13, PLAIN},
    {VALUE_INFO, 1, PLAIN},  {VALUE_INFO, 2, TYPE},     {TYPE, 1, TENSOR_TYPE},
    {TYPE, 4, PLACE},        {TYPE, 5, PLACE},          {TYPE, 8, PLACE},
    {TYPE, 9, PLACE},        {TENSOR_TYPE, 1, PLAIN},   {TENSOR_TYPE, 2, SHAPE},
    {SHAPE, 1, DIMENSION},   {DIMENSION, 1, PLAIN},     {DIMENSION, 2, PLAIN},
};

typedef struct {
  const uint8_t *base; /* of the file */
  cv_str *out;
} pruner;

static message kind_of(message in, uint32_t number) {
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (fields[i].in == in && fields[i].number == number) return fields[i].is;
  }
  return NONE;
}

static void put_varint(cv_str *out, uint64_t value) {
  char bytes[10];
  size_t n = 0;
  do {
    bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    value >>= 7;
  } while (value);
  cv_str_append(out, bytes, n);
}

/* A length in five bytes, whatever its value: it is written once the content is there. */
static void patch_length(cv_str *out, size_t at) {
  size_t length = out->len - at - 5;
  for (size_t i = 0; i < 5; i++) {
    out->data[at + i] = (char)(((length >> (7 * i)) & 0x7f) | (i < 4 ? 0x80 : 0));
  }
}

static void put_place(const pruner *p, const cv_wire_field *field) {
  uint64_t place[2] = {(uint64_t)(field->data - p->base), field->size};
  put_varint(p->out, (uint64_t)field->number << 3 | CV_WIRE_BYTES);
  put_varint(p->out, CV_ONNX_PLACE_SIZE);
  cv_str_append(p->out, (const char *)place, sizeof place);
}

static cv_status prune(const pruner *p, message in, const uint8_t *data, size_t size, int depth) {
  if (depth > CV_ONNX_MAX_DEPTH) {
    return cv_error(CV_INVALID, "messages are nested more than %d deep (at byte %td)",
                    CV_ONNX_MAX_DEPTH, data - p->base);
  }
  cv_wire wire = {data, data + size};
  cv_wire_field field;
  int more;
  while ((more = cv_wire_next(&wire, &field)) > 0) {
    message is = kind_of(in, field.number);
    if (is == NONE) continue;
    if (p->out->len > CV_ONNX_MAX_STRUCTURE) {
      return cv_error(CV_INVALID, "the graph without its weights is larger than %d MiB",
                      CV_ONNX_MAX_STRUCTURE >> 20);
    }
    if (is == PLAIN) {
      cv_str_append(p->out, (const char *)field.start, (size_t)(wire.at - field.start));
      continue;
    }
    if (field.type != CV_WIRE_BYTES) {
      return cv_error(CV_INVALID, "field %u at byte %td is no message: this is no ONNX model",
                      field.number, field.start - p->base);
    }
    if (is == PLACE) {
      put_place(p, &field);
      continue;
    }
    put_varint(p->out, (uint64_t)field.number << 3 | CV_WIRE_BYTES);
    size_t at = p->out->len;
    cv_str_append(p->out, "\0\0\0\0\0", 5);
    cv_status status = prune(p, is, field.data, field.size, depth + 1);
    if (status != CV_OK) return status;
    patch_length(p->out, at);
  }
  if (more < 0) {
    return cv_error(CV_INVALID, "malformed or truncated at byte %td", wire.at - p->base);
  }
  return CV_OK;
}

cv_status cv_onnx_prune(const void *data, size_t size, cv_str *out) {
  pruner p = {data, out};
  return prune(&p, MODEL, data, size, 1);
}

bool cv_onnx_place(const void *bytes, size_t size, size_t file_size, size_t *out_offset,
                   size_t *out_length) {
  uint64_t place[2];
  *out_offset = *out_length = 0;
  if (size != sizeof place) return false;
  memcpy(place, bytes, sizeof place);
  if (place[0] > file_size || place[1] > file_size - place[0]) return false;
  *out_offset = (size_t)place[0];
  *out_length = (size_t)place[1];
  return true;
}
