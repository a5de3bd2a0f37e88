#include "compiler/onnx/wire.h"

#include <string.h>

bool cv_wire_varint(cv_wire *wire, uint64_t *out_value) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (wire->at == wire->end) return false;
    uint8_t byte = *wire->at++;
    if (shift == 63 && byte > 1) return false;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *out_value = value;
      return true;
    }
  }
  return false;
}

static bool fixed(cv_wire *wire, size_t size, uint64_t *out_value) {
  if ((size_t)(wire->end - wire->at) < size) return false;
  uint64_t value = 0;
  memcpy(&value, wire->at, size);
  wire->at += size;
  *out_value = value;
  return true;
}

int cv_wire_next(cv_wire *wire, cv_wire_field *out_field) {
  *out_field = (cv_wire_field){.start = wire->at};
  if (wire->at == wire->end) return 0;
  uint64_t tag;
  if (!cv_wire_varint(wire, &tag) || tag >> 3 == 0 || tag >> 3 > (1u << 29) - 1) return -1;
  out_field->number = (uint32_t)(tag >> 3);
  out_field->type = (cv_wire_type)(tag & 7);
  switch (tag & 7) {
    case CV_WIRE_VARINT: return cv_wire_varint(wire, &out_field->value) ? 1 : -1;
    case CV_WIRE_I64: return fixed(wire, 8, &out_field->value) ? 1 : -1;
    case CV_WIRE_I32: return fixed(wire, 4, &out_field->value) ? 1 : -1;
    case CV_WIRE_BYTES: {
      uint64_t size;
      if (!cv_wire_varint(wire, &size) || size > (uint64_t)(wire->end - wire->at)) return -1;
      out_field->data = wire->at;
      out_field->size = (size_t)size;
      wire->at += size;
      return 1;
    }
    default: return -1;
  }
}
