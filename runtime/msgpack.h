/* msgpack, the part that manifests and control messages need: numbers, text, bytes, bool, nil,
 * arrays, maps. The
 * writer appends to a cv_str; the reader walks bytes from outside: total, bounded, without
 * allocation. Source of the byte forms: the msgpack specification. */
#ifndef CV_RUNTIME_MSGPACK_H
#define CV_RUNTIME_MSGPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Writers: the shortest form always, so that equal data gives equal bytes. */
void cv_mp_put_uint(cv_str *out, uint64_t value);
void cv_mp_put_int(cv_str *out, int64_t value);
void cv_mp_put_double(cv_str *out, double value);
void cv_mp_put_bool(cv_str *out, bool value);
void cv_mp_put_nil(cv_str *out);
void cv_mp_put_text(cv_str *out, const char *text);
void cv_mp_put_bytes(cv_str *out, const void *data, uint32_t length);
void cv_mp_put_array(cv_str *out, uint32_t count);
void cv_mp_put_map(cv_str *out, uint32_t count);

/* A cursor. `failed` is sticky: after it every read gives 0, false or an empty text, and counts are
 * 0, so loops end; whoever reads looks at it once. `what` says what was wanted. */
typedef struct {
  const uint8_t *at, *end;
  bool failed;
  const char *what;
} cv_mp_reader;

uint64_t cv_mp_uint(cv_mp_reader *reader);
int64_t cv_mp_int(cv_mp_reader *reader);
double cv_mp_double(cv_mp_reader *reader);
bool cv_mp_bool(cv_mp_reader *reader);
/* True and past it if the next is nil; else nothing moves. */
bool cv_mp_nil(cv_mp_reader *reader);
/* The bytes of a text (not NUL-terminated; no NUL inside) in the input. */
const char *cv_mp_text(cv_mp_reader *reader, uint32_t *out_length);
/* Bytes, any, in the input. */
const void *cv_mp_bytes(cv_mp_reader *reader, uint32_t *out_length);
/* Elements of an array, pairs of a map: never more than the bytes that are left can hold. */
uint32_t cv_mp_array(cv_mp_reader *reader);
uint32_t cv_mp_map(cv_mp_reader *reader);
/* An array of exactly `count`; a text that is exactly `key`. */
void cv_mp_expect_array(cv_mp_reader *reader, uint32_t count);
void cv_mp_expect_text(cv_mp_reader *reader, const char *key);
/* Fails with `what`. */
void cv_mp_fail(cv_mp_reader *reader, const char *what);

#endif
