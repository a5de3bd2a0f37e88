#include "runtime/msgpack.h"

#include <string.h>

/* First bytes of the forms. */
enum {
  MAP4 = 0x80,
  ARRAY4 = 0x90,
  TEXT5 = 0xa0,
  NIL = 0xc0,
  FALSE = 0xc2,
  TRUE = 0xc3,
  BYTES8 = 0xc4,
  BYTES16 = 0xc5,
  BYTES32 = 0xc6,
  FLOAT64 = 0xcb,
  UINT8 = 0xcc,
  UINT16 = 0xcd,
  UINT32 = 0xce,
  UINT64 = 0xcf,
  INT8 = 0xd0,
  INT16 = 0xd1,
  INT32 = 0xd2,
  INT64 = 0xd3,
  TEXT8 = 0xd9,
  TEXT16 = 0xda,
  TEXT32 = 0xdb,
  ARRAY16 = 0xdc,
  ARRAY32 = 0xdd,
  MAP16 = 0xde,
  MAP32 = 0xdf,
  NEGATIVE5 = 0xe0
};

/* The first byte, then `bytes` bytes of the value, big end first. */
static void put(cv_str *out, int first, uint64_t value, int bytes) {
  char text[9] = {(char)first};
  for (int i = 0; i < bytes; i++) text[1 + i] = (char)(value >> (8 * (bytes - 1 - i)));
  cv_str_append(out, text, 1 + (size_t)bytes);
}

void cv_mp_put_uint(cv_str *out, uint64_t value) {
  if (value < 0x80)
    put(out, (int)value, 0, 0);
  else if (value <= UINT8_MAX)
    put(out, UINT8, value, 1);
  else if (value <= UINT16_MAX)
    put(out, UINT16, value, 2);
  else if (value <= UINT32_MAX)
    put(out, UINT32, value, 4);
  else
    put(out, UINT64, value, 8);
}

void cv_mp_put_int(cv_str *out, int64_t value) {
  if (value >= 0)
    cv_mp_put_uint(out, (uint64_t)value);
  else if (value >= -32)
    put(out, (int)(value & 0xff), 0, 0);
  else if (value >= INT8_MIN)
    put(out, INT8, (uint64_t)value, 1);
  else if (value >= INT16_MIN)
    put(out, INT16, (uint64_t)value, 2);
  else if (value >= INT32_MIN)
    put(out, INT32, (uint64_t)value, 4);
  else
    put(out, INT64, (uint64_t)value, 8);
}

void cv_mp_put_double(cv_str *out, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  put(out, FLOAT64, bits, 8);
}

void cv_mp_put_bool(cv_str *out, bool value) { put(out, value ? TRUE : FALSE, 0, 0); }

void cv_mp_put_nil(cv_str *out) { put(out, NIL, 0, 0); }

void cv_mp_put_text(cv_str *out, const char *text) {
  size_t length = strlen(text);
  if (length < 32)
    put(out, TEXT5 | (int)length, 0, 0);
  else if (length <= UINT8_MAX)
    put(out, TEXT8, length, 1);
  else if (length <= UINT16_MAX)
    put(out, TEXT16, length, 2);
  else
    put(out, TEXT32, length, 4);
  cv_str_append(out, text, length);
}

void cv_mp_put_bytes(cv_str *out, const void *data, uint32_t length) {
  if (length <= UINT8_MAX)
    put(out, BYTES8, length, 1);
  else if (length <= UINT16_MAX)
    put(out, BYTES16, length, 2);
  else
    put(out, BYTES32, length, 4);
  cv_str_append(out, data, length);
}

static void put_count(cv_str *out, uint32_t count, int small, int large16, int large32) {
  if (count < 16)
    put(out, small | (int)count, 0, 0);
  else if (count <= UINT16_MAX)
    put(out, large16, count, 2);
  else
    put(out, large32, count, 4);
}

void cv_mp_put_array(cv_str *out, uint32_t count) {
  put_count(out, count, ARRAY4, ARRAY16, ARRAY32);
}

void cv_mp_put_map(cv_str *out, uint32_t count) { put_count(out, count, MAP4, MAP16, MAP32); }

/* ---- reading ---- */

void cv_mp_fail(cv_mp_reader *reader, const char *what) {
  if (!reader->failed) reader->what = what;
  reader->failed = true;
}

static size_t left(const cv_mp_reader *reader) {
  return reader->failed ? 0 : (size_t)(reader->end - reader->at);
}

/* The next byte without moving: -1 at the end. */
static int peek(const cv_mp_reader *reader) { return left(reader) ? *reader->at : -1; }

/* Skips the first byte and reads `bytes` more, big end first. */
static uint64_t take(cv_mp_reader *reader, int bytes) {
  if (left(reader) < 1 + (size_t)bytes) {
    cv_mp_fail(reader, "more bytes");
    return 0;
  }
  uint64_t value = 0;
  reader->at++;
  for (int i = 0; i < bytes; i++) value = value << 8 | *reader->at++;
  return value;
}

uint64_t cv_mp_uint(cv_mp_reader *reader) {
  int first = peek(reader);
  if (first >= 0 && first < MAP4) {
    take(reader, 0);
    return (uint64_t)first;
  }
  if (first >= UINT8 && first <= UINT64) return take(reader, 1 << (first - UINT8));
  cv_mp_fail(reader, "an unsigned number");
  return 0;
}

int64_t cv_mp_int(cv_mp_reader *reader) {
  int first = peek(reader);
  if (first >= NEGATIVE5) {
    take(reader, 0);
    return (int8_t)first;
  }
  switch (first) {
    case INT8: return (int8_t)take(reader, 1);
    case INT16: return (int16_t)take(reader, 2);
    case INT32: return (int32_t)take(reader, 4);
    case INT64: return (int64_t)take(reader, 8);
    default: break;
  }
  uint64_t value = cv_mp_uint(reader);
  if (value > INT64_MAX) cv_mp_fail(reader, "a number below 2^63");
  return reader->failed ? 0 : (int64_t)value;
}

double cv_mp_double(cv_mp_reader *reader) {
  if (peek(reader) != FLOAT64) {
    cv_mp_fail(reader, "a floating-point number");
    return 0;
  }
  uint64_t bits = take(reader, 8);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

bool cv_mp_bool(cv_mp_reader *reader) {
  int first = peek(reader);
  if (first != TRUE && first != FALSE) {
    cv_mp_fail(reader, "true or false");
    return false;
  }
  take(reader, 0);
  return first == TRUE;
}

bool cv_mp_nil(cv_mp_reader *reader) {
  if (peek(reader) != NIL) return false;
  take(reader, 0);
  return true;
}

const char *cv_mp_text(cv_mp_reader *reader, uint32_t *out_length) {
  *out_length = 0;
  int first = peek(reader);
  uint64_t length;
  if (first >= TEXT5 && first < NIL) {
    take(reader, 0);
    length = (uint64_t)(first & 31);
  } else if (first >= TEXT8 && first <= TEXT32) {
    length = take(reader, 1 << (first - TEXT8));
  } else {
    cv_mp_fail(reader, "a text");
    return "";
  }
  if (reader->failed || length > left(reader) || memchr(reader->at, 0, length)) {
    cv_mp_fail(reader, "a text that ends inside the manifest and holds no NUL");
    return "";
  }
  const char *text = (const char *)reader->at;
  reader->at += length;
  *out_length = (uint32_t)length;
  return text;
}

const void *cv_mp_bytes(cv_mp_reader *reader, uint32_t *out_length) {
  *out_length = 0;
  int first = peek(reader);
  if (first < BYTES8 || first > BYTES32) {
    cv_mp_fail(reader, "bytes");
    return "";
  }
  uint64_t length = take(reader, 1 << (first - BYTES8));
  if (length > left(reader)) cv_mp_fail(reader, "as many bytes as are announced");
  if (reader->failed) return "";
  const void *data = reader->at;
  reader->at += length;
  *out_length = (uint32_t)length;
  return data;
}

static uint32_t count_of(cv_mp_reader *reader, int small, int large16, const char *what) {
  int first = peek(reader);
  uint64_t count = 0;
  if (first >= small && first < small + 16) {
    take(reader, 0);
    count = (uint64_t)(first & 15);
  } else if (first == large16 || first == large16 + 1) {
    count = take(reader, 2 << (first - large16));
  } else {
    cv_mp_fail(reader, what);
  }
  if (count > left(reader)) cv_mp_fail(reader, "as many elements as are announced");
  return reader->failed ? 0 : (uint32_t)count;
}

uint32_t cv_mp_array(cv_mp_reader *reader) { return count_of(reader, ARRAY4, ARRAY16, "an array"); }

uint32_t cv_mp_map(cv_mp_reader *reader) { return count_of(reader, MAP4, MAP16, "a map"); }

void cv_mp_expect_array(cv_mp_reader *reader, uint32_t count) {
  if (cv_mp_array(reader) != count) cv_mp_fail(reader, "a record of another length");
}

void cv_mp_expect_text(cv_mp_reader *reader, const char *key) {
  uint32_t length;
  const char *text = cv_mp_text(reader, &length);
  if (length != strlen(key) || memcmp(text, key, length) != 0) cv_mp_fail(reader, key);
}
