/* Messages of the control link as C types, made from messages.def, and their bytes: a frame is its
 * length (32 bits, little endian) and msgpack [kind, fields...]. Any thread. */
#ifndef CV_COORDINATOR_MESSAGES_H
#define CV_COORDINATOR_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

enum {
  CV_MSG_PROTOCOL = 1,
  CV_MSG_PREFIX = 4,           /* bytes of a frame's length */
  CV_MSG_MAX = 16 << 20,       /* most bytes of a message */
  CV_MSG_HELLO_MAX = 64 << 10, /* of the first one, before its sender has proved anything */
};

/* NOLINTBEGIN(bugprone-macro-parentheses): types and fields cannot stand in parentheses */
#define U32(field) uint32_t field;
#define U64(field) uint64_t field;
#define I64(field) int64_t field;
#define F64(field) double field;
#define TEXT(field, most) const char *field; /* NULL is sent as "" */
#define BYTES(field, most) \
  const void *field;       \
  uint32_t field##_bytes;
#define LIST(type, field, most) \
  type *field;                  \
  uint32_t n_##field;

#define RECORD(type, fields) \
  typedef struct {           \
    fields                   \
  } type;
#define MESSAGE(NAME, name, fields) \
  typedef struct {                  \
    fields                          \
  } cv_msg_##name;
/* NOLINTEND(bugprone-macro-parentheses) */
#include "coordinator/messages.def"
#undef RECORD
#undef MESSAGE

typedef enum {
#define RECORD(type, fields)
#define MESSAGE(NAME, name, fields) CV_MSG_##NAME,
#include "coordinator/messages.def"
#undef MESSAGE
  CV_MSG_KINDS
} cv_msg_kind;

/* Borrows what its pointers lead to. */
typedef struct {
  cv_msg_kind kind;
  union {
#define MESSAGE(NAME, name, fields) cv_msg_##name name;
#include "coordinator/messages.def"
#undef MESSAGE
#undef RECORD
  };
} cv_msg;

#undef U32
#undef U64
#undef I64
#undef F64
#undef TEXT
#undef BYTES
#undef LIST

/* "HELLO", ...; "?" for another number. */
const char *cv_msg_name(cv_msg_kind kind);

/* Appends the message's frame. CV_INVALID: a field is beyond its bound (names it); CV_NOMEM. Then
 * nothing was appended. */
CV_NODISCARD cv_status cv_msg_encode(const cv_msg *msg, cv_str *out);

/* The bytes of the message that begins at `data` (prefix left out), once `size` >= CV_MSG_PREFIX.
 * CV_CORRUPT: more than `most`. */
CV_NODISCARD cv_status cv_msg_length(const void *data, size_t size, size_t most,
                                     size_t *out_length);
/* Reads a message of exactly `size` bytes (prefix left out) that may hold anything; texts and lists
 * are copied to the arena. CV_VERSION: a HELLO of another protocol, names both; CV_CORRUPT names
 * message and field; CV_NOMEM. */
CV_NODISCARD cv_status cv_msg_decode(const void *data, size_t size, cv_arena *arena,
                                     cv_msg *out_msg);

#endif
