/* Writes small ONNX models byte by byte, so that tests say just what is in a file. Field numbers
 * are those of the format. */
#ifndef CV_TESTS_ONNX_BYTES_H
#define CV_TESTS_ONNX_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint8_t data[1 << 16];
  size_t len;
} pb;

static inline void pb_raw(pb *b, const void *data, size_t size) {
  if (b->len + size > sizeof b->data) abort();
  if (size) memcpy(b->data + b->len, data, size);
  b->len += size;
}

static inline void pb_varint(pb *b, uint64_t value) {
  do {
    uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    pb_raw(b, &byte, 1);
    value >>= 7;
  } while (value);
}

static inline void pb_int(pb *b, uint32_t field, int64_t value) {
  pb_varint(b, (uint64_t)field << 3);
  pb_varint(b, (uint64_t)value);
}

static inline void pb_float(pb *b, uint32_t field, float value) {
  pb_varint(b, (uint64_t)field << 3 | 5);
  pb_raw(b, &value, 4);
}

static inline void pb_bytes(pb *b, uint32_t field, const void *data, size_t size) {
  pb_varint(b, (uint64_t)field << 3 | 2);
  pb_varint(b, size);
  pb_raw(b, data, size);
}

static inline void pb_text(pb *b, uint32_t field, const char *text) {
  pb_bytes(b, field, text, strlen(text));
}

static inline void pb_message(pb *b, uint32_t field, const pb *message) {
  pb_bytes(b, field, message->data, message->len);
}

/* A comma separated list, one field an entry ("" gives none). */
static inline void pb_list(pb *b, uint32_t field, const char *list) {
  while (*list) {
    size_t length = strcspn(list, ",");
    pb_bytes(b, field, list, length);
    list += length + (list[length] == ',');
  }
}

/* TensorProto with raw data. */
static inline pb pb_tensor(const char *name, int type, int rank, const int64_t *dims,
                           const void *data, size_t size) {
  pb t = {.len = 0};
  for (int i = 0; i < rank; i++) pb_int(&t, 1, dims[i]);
  pb_int(&t, 2, type);
  pb_text(&t, 8, name);
  pb_bytes(&t, 9, data, size);
  return t;
}

/* ValueInfoProto; dims like "batch,3", NULL for none declared, "" for a scalar. */
static inline pb pb_value(const char *name, int type, const char *dims) {
  pb v = {.len = 0}, proto = {.len = 0}, tensor = {.len = 0}, shape = {.len = 0};
  pb_int(&tensor, 1, type);
  while (dims && *dims) {
    pb dim = {.len = 0};
    char text[64];
    size_t length = strcspn(dims, ",");
    snprintf(text, sizeof text, "%.*s", (int)length, dims);
    if (text[0] == '-' || (text[0] >= '0' && text[0] <= '9')) {
      pb_int(&dim, 1, atoll(text));
    } else if (strcmp(text, "?") != 0) {
      pb_text(&dim, 2, text);
    }
    pb_message(&shape, 1, &dim);
    dims += length + (dims[length] == ',');
  }
  if (dims) pb_message(&tensor, 2, &shape);
  pb_message(&proto, 1, &tensor);
  pb_text(&v, 1, name);
  pb_message(&v, 2, &proto);
  return v;
}

/* NodeProto; attributes are added by the caller (field 5). Its name is NAME. */
static inline pb pb_node(const char *op, const char *name, const char *ins, const char *outs) {
  pb n = {.len = 0};
  pb_list(&n, 1, ins);
  pb_list(&n, 2, outs);
  pb_text(&n, 3, name);
  pb_text(&n, 4, op);
  return n;
}

static inline void pb_attr_int(pb *node, const char *name, int64_t value) {
  pb a = {.len = 0};
  pb_text(&a, 1, name);
  pb_int(&a, 3, value);
  pb_int(&a, 20, 2);
  pb_message(node, 5, &a);
}

static inline void pb_attr_message(pb *node, const char *name, uint32_t field, int type,
                                   const pb *message) {
  pb a = {.len = 0};
  pb_text(&a, 1, name);
  pb_message(&a, field, message);
  pb_int(&a, 20, type);
  pb_message(node, 5, &a);
}

/* ModelProto over a GraphProto, at an opset of the default domain. */
static inline pb pb_model(const pb *graph, int64_t opset) {
  pb m = {.len = 0}, set = {.len = 0};
  pb_int(&m, 1, 8);
  pb_text(&m, 2, "tests");
  pb_message(&m, 7, graph);
  pb_text(&set, 1, "");
  pb_int(&set, 2, opset);
  pb_message(&m, 8, &set);
  return m;
}

#endif
