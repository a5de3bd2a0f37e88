/* A bounded reader of the protobuf wire form: never reads past the end, never recurses, never
 * allocates. Field numbers and wire types are facts of the protobuf encoding. */
#ifndef CV_COMPILER_ONNX_WIRE_H
#define CV_COMPILER_ONNX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const uint8_t *at, *end;
} cv_wire;

typedef enum {
  CV_WIRE_VARINT = 0,
  CV_WIRE_I64 = 1,
  CV_WIRE_BYTES = 2,
  CV_WIRE_I32 = 5
} cv_wire_type;

typedef struct {
  uint32_t number;
  cv_wire_type type;
  uint64_t value;      /* VARINT, I32, I64: the value's bits */
  const uint8_t *data; /* BYTES: borrowed from the input */
  size_t size;
  const uint8_t *start; /* of the whole field, its tag included */
} cv_wire_field;

/* Reads the next field: 1, 0 at the end, -1 if the bytes are malformed (truncated, a group, field
 * number 0, a varint over 64 bits). */
int cv_wire_next(cv_wire *wire, cv_wire_field *out_field);
/* Reads one varint: false if malformed. */
bool cv_wire_varint(cv_wire *wire, uint64_t *out_value);

#endif
