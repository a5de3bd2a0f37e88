/* .npz: a zip archive of .npy. */
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "runtime/npy.h"

enum {
  END_BYTES = 22,
  CENTRAL_BYTES = 46,
  LOCAL_BYTES = 30,
  STORED = 0,
  DEFLATED = 8,
  ENCRYPTED = 1 /* flag */
};
#define END_MAGIC 0x06054b50u
#define CENTRAL_MAGIC 0x02014b50u
#define LOCAL_MAGIC 0x04034b50u

static uint64_t get(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

typedef struct {
  const char *where;
  const unsigned char *data;
  size_t bytes;
} archive;

typedef struct {
  const char *name;
  size_t name_length;
  int flags, method;
  uint32_t crc;
  uint64_t packed, bytes, local; /* sizes; offset of the local header */
} entry;

static cv_status damaged(const archive *a) {
  return cv_error(CV_INVALID, "%s: the .npz is damaged or truncated", a->where);
}

/* The end record, searched from the end (a comment may follow it): false if there is none. */
static bool find_end(const archive *a, size_t *out_at) {
  size_t most = 65535 + END_BYTES;
  for (size_t back = END_BYTES; back <= a->bytes && back <= most; back++) {
    *out_at = a->bytes - back;
    if (get(a->data + *out_at, 4) == END_MAGIC) return true;
  }
  return false;
}

/* Sizes of more than 32 bits stand in an extra field, those that are 0xffffffff, in order. */
static void read_zip64(const unsigned char *extra, size_t length, entry *e) {
  while (length >= 4) {
    size_t size = (size_t)get(extra + 2, 2);
    if (size > length - 4) return;
    if (get(extra, 2) == 1) {
      uint64_t *fields[] = {&e->bytes, &e->packed, &e->local};
      size_t at = 4;
      for (int i = 0; i < 3; i++) {
        if (*fields[i] != UINT32_MAX || at + 8 > 4 + size) continue;
        *fields[i] = get(extra + at, 8);
        at += 8;
      }
      return;
    }
    extra += 4 + size;
    length -= 4 + size;
  }
}

/* Reads a directory entry and moves `*at` behind it. */
static cv_status read_entry(const archive *a, size_t *at, entry *out) {
  if (a->bytes - *at < CENTRAL_BYTES) return damaged(a);
  const unsigned char *p = a->data + *at;
  size_t name = (size_t)get(p + 28, 2), extra = (size_t)get(p + 30, 2),
         comment = (size_t)get(p + 32, 2);
  if (get(p, 4) != CENTRAL_MAGIC || name + extra + comment > a->bytes - *at - CENTRAL_BYTES)
    return damaged(a);
  *out = (entry){.name = (const char *)p + CENTRAL_BYTES,
                 .name_length = name,
                 .flags = (int)get(p + 8, 2),
                 .method = (int)get(p + 10, 2),
                 .crc = (uint32_t)get(p + 16, 4),
                 .packed = get(p + 20, 4),
                 .bytes = get(p + 24, 4),
                 .local = get(p + 42, 4)};
  read_zip64(p + CENTRAL_BYTES + name, extra, out);
  *at += CENTRAL_BYTES + name + extra + comment;
  return CV_OK;
}

/* The packed bytes of an entry. */
static cv_status find_packed(const archive *a, const entry *e, const unsigned char **out_data) {
  if (e->local > a->bytes || a->bytes - e->local < LOCAL_BYTES) return damaged(a);
  const unsigned char *p = a->data + e->local;
  size_t skip = LOCAL_BYTES + (size_t)get(p + 26, 2) + (size_t)get(p + 28, 2);
  size_t left = a->bytes - (size_t)e->local;
  if (get(p, 4) != LOCAL_MAGIC || skip > left || e->packed > left - skip) return damaged(a);
  *out_data = p + skip;
  return CV_OK;
}

static void *zlib_alloc(void *opaque, unsigned count, unsigned size) {
  (void)opaque;
  return cv_alloc(count, size);
}

static void zlib_free(void *opaque, void *memory) {
  (void)opaque;
  cv_free(memory);
}

static cv_status inflate_entry(const archive *a, const entry *e, const unsigned char *packed,
                               unsigned char *out) {
  if (e->packed > UINT32_MAX || e->bytes > UINT32_MAX)
    return cv_error(CV_UNSUPPORTED, "%s: a compressed array of more than 4 GiB", a->where);
  z_stream z = {.zalloc = zlib_alloc,
                .zfree = zlib_free,
                .next_in = (z_const Bytef *)(uintptr_t)packed,
                .avail_in = (uInt)e->packed,
                .next_out = out,
                .avail_out = (uInt)e->bytes};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return cv_error_nomem(40000);
  int code = inflate(&z, Z_FINISH);
  inflateEnd(&z);
  if (code == Z_MEM_ERROR) return cv_error_nomem(40000);
  return code == Z_STREAM_END && z.avail_out == 0 ? CV_OK : damaged(a);
}

/* The bytes of an entry: in the archive, or unpacked into `*out_owned`. */
static cv_status unpack(const archive *a, const entry *e, const unsigned char **out_data,
                        unsigned char **out_owned) {
  *out_owned = NULL;
  cv_status status = find_packed(a, e, out_data);
  if (status != CV_OK) return status;
  if ((e->flags & ENCRYPTED) || (e->method != STORED && e->method != DEFLATED))
    return cv_error(CV_UNSUPPORTED, "%s: %.*s is packed in a way we do not read", a->where,
                    (int)e->name_length, e->name);
  if (e->bytes / 1100 > e->packed || (e->method == STORED && e->bytes != e->packed))
    return damaged(a); /* deflate shrinks 1032 times at most */
  if (e->method == DEFLATED) {
    *out_owned = cv_alloc((size_t)e->bytes + 1, 1);
    if (!*out_owned) return cv_error_nomem(e->bytes);
    status = inflate_entry(a, e, *out_data, *out_owned);
    *out_data = *out_owned;
  }
  if (status == CV_OK && crc32_z(0, *out_data, (size_t)e->bytes) != e->crc) status = damaged(a);
  return status;
}

static cv_status add_array(const archive *a, const entry *e, const unsigned char *data,
                           cv_tensor_list *list) {
  size_t length = e->name_length;
  if (length > 4 && memcmp(e->name + length - 4, ".npy", 4) == 0) length -= 4;
  cv_named_tensor item = {.name = cv_strndup(e->name, length)};
  cv_status status = item.name ? cv_npy_parse(a->where, data, (size_t)e->bytes, &item.tensor)
                               : cv_error_nomem(length);
  if (status == CV_OK && !cv_vec_push(list, item)) status = cv_error_nomem(sizeof item);
  if (status == CV_OK) return CV_OK;
  cv_free(item.name);
  cv_tensor_deinit(&item.tensor);
  return status;
}

static cv_status read_array(const archive *a, const entry *e, cv_tensor_list *list) {
  const unsigned char *data;
  unsigned char *owned;
  cv_status status = unpack(a, e, &data, &owned);
  if (status == CV_OK) status = add_array(a, e, data, list);
  cv_free(owned);
  return status;
}

cv_status cv_npz_parse(const char *where, const void *data, size_t bytes, cv_tensor_list *list) {
  archive a = {.where = where, .data = data, .bytes = bytes};
  size_t end;
  if (!find_end(&a, &end)) return damaged(&a);
  uint64_t count = get(a.data + end + 10, 2), at64 = get(a.data + end + 16, 4);
  if (count == 65535 || at64 == UINT32_MAX)
    return cv_error(CV_UNSUPPORTED, "%s: a .npz of 4 GiB or of 65535 arrays", where);
  if (at64 > bytes) return damaged(&a);
  size_t at = (size_t)at64;
  for (uint64_t i = 0; i < count; i++) {
    entry e;
    cv_status status = read_entry(&a, &at, &e);
    if (status == CV_OK) status = read_array(&a, &e, list);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

/* ---- writing ---- */

static void put(cv_str *out, uint64_t value, int bytes) {
  char text[8];
  for (int i = 0; i < bytes; i++) text[i] = (char)(value >> (8 * i));
  cv_str_append(out, text, (size_t)bytes);
}

static cv_status deflate_text(const cv_str *text, cv_str *out) {
  z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free};
  if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    return cv_error_nomem(300000);
  cv_status status = CV_OK;
  uLong most = deflateBound(&z, text->len);
  unsigned char *packed = cv_alloc(most, 1);
  if (packed) {
    z.next_in = (z_const Bytef *)(uintptr_t)text->data;
    z.avail_in = (uInt)text->len;
    z.next_out = packed;
    z.avail_out = (uInt)most;
    if (deflate(&z, Z_FINISH) == Z_STREAM_END)
      cv_str_append(out, (const char *)packed, z.total_out);
    else
      status = cv_error(CV_INTERNAL, "zlib cannot deflate %zu bytes", text->len);
  } else {
    status = cv_error_nomem(most);
  }
  deflateEnd(&z);
  cv_free(packed);
  return status;
}

/* The fields that local and central headers share: versions to extra's length. */
static void put_common(cv_str *out, const entry *e) {
  put(out, 20, 2); /* version 2.0 extracts it */
  put(out, 0, 2);
  put(out, (uint64_t)e->method, 2);
  put(out, 0x00210000, 4); /* 1980-01-01: the same input gives the same bytes */
  put(out, e->crc, 4);
  put(out, e->packed, 4);
  put(out, e->bytes, 4);
  put(out, e->name_length + 4, 2);
  put(out, 0, 2);
}

static void put_name(cv_str *out, const entry *e) {
  cv_str_append(out, e->name, e->name_length);
  cv_str_puts(out, ".npy");
}

static cv_status put_array(const cv_named_tensor *item, bool deflated, cv_str *out,
                           cv_str *directory, size_t base) {
  cv_str plain = {0}, packed = {0};
  cv_status status = CV_OK;
  cv_npy_print(&item->tensor, &plain);
  if (plain.failed) CV_TRY(cv_error_nomem(item->tensor.bytes));
  if (plain.len > UINT32_MAX / 2)
    CV_TRY(cv_error(CV_INVALID, "%s has %zu bytes: too many for a .npz", item->name, plain.len));
  if (deflated) CV_TRY(deflate_text(&plain, &packed));
  const cv_str *body = deflated ? &packed : &plain;
  entry e = {.name = item->name,
             .name_length = strlen(item->name),
             .method = deflated ? DEFLATED : STORED,
             .crc = (uint32_t)crc32_z(0, (const Bytef *)plain.data, plain.len),
             .packed = body->len,
             .bytes = plain.len,
             .local = out->len - base};
  if (e.local > UINT32_MAX / 2 || e.name_length > 60000)
    CV_TRY(cv_error(CV_INVALID, "too many bytes for a .npz"));
  put(out, LOCAL_MAGIC, 4);
  put_common(out, &e);
  put_name(out, &e);
  cv_str_append(out, cv_str_text(body), body->len);
  put(directory, CENTRAL_MAGIC, 4);
  put(directory, 20, 2); /* made by version 2.0 */
  put_common(directory, &e);
  put(directory, 0, 2 + 2 + 2); /* comment, disk, internal attributes */
  put(directory, 0, 4);
  put(directory, e.local, 4);
  put_name(directory, &e);
out:
  cv_str_deinit(&plain);
  cv_str_deinit(&packed);
  return status;
}

cv_status cv_npz_print(const cv_tensor_list *list, bool deflated, cv_str *out) {
  cv_str directory = {0};
  cv_status status = CV_OK;
  size_t base = out->len;
  if (list->len >= 65535) CV_TRY(cv_error(CV_INVALID, "too many arrays for a .npz"));
  for (size_t i = 0; i < list->len; i++)
    CV_TRY(put_array(&list->data[i], deflated, out, &directory, base));
  size_t start = out->len - base;
  cv_str_append(out, cv_str_text(&directory), directory.len);
  put(out, END_MAGIC, 4);
  put(out, 0, 4); /* disks */
  put(out, list->len, 2);
  put(out, list->len, 2);
  put(out, directory.len, 4);
  put(out, start, 4);
  put(out, 0, 2);
  if (out->failed || directory.failed) CV_TRY(cv_error_nomem(out->len + directory.len));
out:
  cv_str_deinit(&directory);
  return status;
}
