#include "coordinator/messages.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/msgpack.h"

typedef enum {
  U32_FIELD,
  U64_FIELD,
  I64_FIELD,
  F64_FIELD,
  TEXT_FIELD,
  BYTES_FIELD,
  LIST_FIELD
} form;

/* A field of a record: where it lies, where its count lies (bytes, lists), and the record that a
 * list is of. */
typedef struct field {
  const char *name; /* NULL ends the table */
  form form;
  size_t at, count_at;
  uint32_t most;
  size_t item_size;
  const struct field *(*item)(void);
} field;

#define U32(f) {#f, U32_FIELD, offsetof(self, f), 0, 0, 0, NULL},
#define U64(f) {#f, U64_FIELD, offsetof(self, f), 0, 0, 0, NULL},
#define I64(f) {#f, I64_FIELD, offsetof(self, f), 0, 0, 0, NULL},
#define F64(f) {#f, F64_FIELD, offsetof(self, f), 0, 0, 0, NULL},
#define TEXT(f, most) {#f, TEXT_FIELD, offsetof(self, f), 0, most, 0, NULL},
#define BYTES(f, most) \
  {#f, BYTES_FIELD, offsetof(self, f), offsetof(self, f##_bytes), most, 0, NULL},
#define LIST(type, f, most) \
  {#f, LIST_FIELD, offsetof(self, f), offsetof(self, n_##f), most, sizeof(type), fields_of_##type},

/* One function a record that gives its table. */
#define RECORD(type, ...)                                  \
  static const field *fields_of_##type(void) {             \
    typedef type self;                                     \
    static const field table[] = {__VA_ARGS__{.name = 0}}; \
    return table;                                          \
  }
#define MESSAGE(NAME, name, ...) RECORD(cv_msg_##name, __VA_ARGS__)
#include "coordinator/messages.def"
#undef MESSAGE
#undef RECORD

static const struct {
  const char *name;
  const field *(*fields)(void);
} kinds[CV_MSG_KINDS] = {
#define RECORD(type, fields)
#define MESSAGE(NAME, name, fields) {#NAME, fields_of_cv_msg_##name},
#include "coordinator/messages.def"
};

const char *cv_msg_name(cv_msg_kind kind) {
  return (unsigned)kind < CV_MSG_KINDS ? kinds[kind].name : "?";
}

static uint32_t count_fields(const field *table) {
  uint32_t count = 0;
  while (table[count].name) count++;
  return count;
}

/* ---- encoding ---- */

static cv_status put_record(cv_str *out, const field *table, const char *record);

static cv_status too_much(const field *f, size_t there) {
  return cv_error(CV_INVALID, "control message: field %s has %zu, at most %u are sent", f->name,
                  there, f->most);
}

static cv_status put_field(cv_str *out, const field *f, const char *record) {
  const void *at = record + f->at;
  uint32_t count = 0;
  if (f->count_at) memcpy(&count, record + f->count_at, sizeof count);
  if (count > f->most) return too_much(f, count);
  switch (f->form) {
    case U32_FIELD: cv_mp_put_uint(out, *(const uint32_t *)at); break;
    case U64_FIELD: cv_mp_put_uint(out, *(const uint64_t *)at); break;
    case I64_FIELD: cv_mp_put_int(out, *(const int64_t *)at); break;
    case F64_FIELD: cv_mp_put_double(out, *(const double *)at); break;
    case TEXT_FIELD: {
      const char *text = *(const char *const *)at;
      if (text && strlen(text) > f->most) return too_much(f, strlen(text));
      cv_mp_put_text(out, text ? text : "");
      break;
    }
    case BYTES_FIELD: cv_mp_put_bytes(out, count ? *(const void *const *)at : "", count); break;
    case LIST_FIELD: {
      const char *items = *(const char *const *)at;
      cv_mp_put_array(out, count);
      for (uint32_t i = 0; i < count; i++) {
        cv_mp_put_array(out, count_fields(f->item()));
        cv_status status = put_record(out, f->item(), items + i * f->item_size);
        if (status != CV_OK) return status;
      }
      break;
    }
  }
  return CV_OK;
}

static cv_status put_record(cv_str *out, const field *table, const char *record) {
  for (const field *f = table; f->name; f++) {
    cv_status status = put_field(out, f, record);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

cv_status cv_msg_encode(const cv_msg *msg, cv_str *out) {
  size_t start = out->len;
  const field *table = kinds[msg->kind].fields();
  cv_str_append(out, (const char[CV_MSG_PREFIX]){0}, CV_MSG_PREFIX);
  cv_mp_put_array(out, 1 + count_fields(table));
  cv_mp_put_uint(out, msg->kind);
  cv_status status = put_record(out, table, (const char *)&msg->hello);
  size_t length = out->len - start - CV_MSG_PREFIX;
  if (out->failed)
    status = cv_error_nomem(length);
  else if (status == CV_OK && length > CV_MSG_MAX)
    status = cv_error(CV_INVALID, "control message %s of %zu bytes: at most %d are sent",
                      cv_msg_name(msg->kind), length, CV_MSG_MAX);
  if (status != CV_OK) {
    out->len = start;
    return status;
  }
  for (int i = 0; i < CV_MSG_PREFIX; i++) out->data[start + (size_t)i] = (char)(length >> (8 * i));
  return CV_OK;
}

/* ---- decoding ---- */

cv_status cv_msg_length(const void *data, size_t size, size_t most, size_t *out_length) {
  const uint8_t *bytes = data;
  *out_length = 0;
  if (size < CV_MSG_PREFIX) return cv_error(CV_AGAIN, "a frame's length has not come yet");
  size_t length = 0;
  for (int i = 0; i < CV_MSG_PREFIX; i++) length |= (size_t)bytes[i] << (8 * i);
  if (length > most)
    return cv_error(CV_CORRUPT, "control link: a message of %zu bytes is announced, at most %zu",
                    length, most);
  *out_length = length;
  return CV_OK;
}

/* What is being read, and where it may be put. */
typedef struct {
  cv_mp_reader in;
  cv_arena *arena;
  const char *field; /* the first one that failed */
  bool nomem;
} decoder;

static void get_record(decoder *d, const field *table, char *record);

static void *room(decoder *d, size_t count, size_t size) {
  void *memory = cv_arena_alloc(d->arena, count, size);
  if (!memory) {
    d->nomem = true;
    cv_mp_fail(&d->in, "memory");
  }
  return memory;
}

static void get_text(decoder *d, const field *f, void *at) {
  uint32_t length;
  const char *text = cv_mp_text(&d->in, &length);
  if (length > f->most) cv_mp_fail(&d->in, "a shorter text");
  if (d->in.failed) return;
  char *copy = room(d, length + 1, 1);
  if (copy) memcpy(copy, text, length);
  *(const char **)at = copy;
}

static void get_bytes(decoder *d, const field *f, void *at, char *record) {
  uint32_t length;
  const void *data = cv_mp_bytes(&d->in, &length);
  if (length > f->most) cv_mp_fail(&d->in, "fewer bytes");
  if (d->in.failed) return;
  void *copy = room(d, length ? length : 1, 1);
  if (!copy) return;
  memcpy(copy, data, length);
  *(const void **)at = copy;
  memcpy(record + f->count_at, &length, sizeof length);
}

static void get_list(decoder *d, const field *f, void *at, char *record) {
  uint32_t count = cv_mp_array(&d->in);
  if (count > f->most) cv_mp_fail(&d->in, "a shorter list");
  if (d->in.failed) return;
  char *items = room(d, count ? count : 1, f->item_size);
  if (!items) return;
  uint32_t per_item = count_fields(f->item());
  for (uint32_t i = 0; i < count && !d->in.failed; i++) {
    cv_mp_expect_array(&d->in, per_item);
    get_record(d, f->item(), items + i * f->item_size);
  }
  *(void **)at = items;
  memcpy(record + f->count_at, &count, sizeof count);
}

static void get_field(decoder *d, const field *f, char *record) {
  void *at = record + f->at;
  switch (f->form) {
    case U32_FIELD: {
      uint64_t value = cv_mp_uint(&d->in);
      if (value > UINT32_MAX) cv_mp_fail(&d->in, "a number below 2^32");
      *(uint32_t *)at = (uint32_t)value;
      break;
    }
    case U64_FIELD: *(uint64_t *)at = cv_mp_uint(&d->in); break;
    case I64_FIELD: *(int64_t *)at = cv_mp_int(&d->in); break;
    case F64_FIELD: *(double *)at = cv_mp_double(&d->in); break;
    case TEXT_FIELD: get_text(d, f, at); break;
    case BYTES_FIELD: get_bytes(d, f, at, record); break;
    case LIST_FIELD: get_list(d, f, at, record); break;
  }
  if (d->in.failed && !d->field) d->field = f->name;
}

static void get_record(decoder *d, const field *table, char *record) {
  for (const field *f = table; f->name && !d->in.failed; f++) get_field(d, f, record);
}

/* A HELLO may come from another version, whose fields we do not know. */
static cv_status check_protocol(cv_mp_reader in) {
  uint64_t theirs = cv_mp_uint(&in);
  if (in.failed || theirs == CV_MSG_PROTOCOL) return CV_OK;
  return cv_error(CV_VERSION,
                  "control link: the peer speaks protocol %" PRIu64 ", cuvil " CUVIL_VERSION
                  " speaks %d: run one version on all hosts",
                  theirs, CV_MSG_PROTOCOL);
}

cv_status cv_msg_decode(const void *data, size_t size, cv_arena *arena, cv_msg *out_msg) {
  const uint8_t *bytes = data;
  *out_msg = (cv_msg){.kind = CV_MSG_KINDS};
  decoder d = {.in = {.at = bytes, .end = bytes + size}, .arena = arena};
  uint32_t count = cv_mp_array(&d.in);
  uint64_t kind = cv_mp_uint(&d.in);
  if (d.in.failed || kind >= CV_MSG_KINDS)
    return cv_error(CV_CORRUPT, "control link: %zu bytes that are no message", size);
  cv_status status = kind == CV_MSG_HELLO ? check_protocol(d.in) : CV_OK;
  if (status != CV_OK) return status;
  const field *table = kinds[kind].fields();
  if (count != 1 + count_fields(table)) cv_mp_fail(&d.in, "as many fields as it has");
  get_record(&d, table, (char *)&out_msg->hello);
  if (!d.in.failed && d.in.at != d.in.end) cv_mp_fail(&d.in, "its end");
  if (d.nomem) return cv_error_nomem(size);
  if (d.in.failed)
    return cv_error(CV_CORRUPT, "control message %s: %s%s%s expected", kinds[kind].name,
                    d.field ? d.field : "", d.field ? ": " : "", d.in.what);
  out_msg->kind = (cv_msg_kind)kind;
  return CV_OK;
}
