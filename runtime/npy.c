#include "runtime/npy.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void cv_tensor_list_deinit(cv_tensor_list *list) {
  for (size_t i = 0; i < list->len; i++) {
    cv_free(list->data[i].name);
    cv_tensor_deinit(&list->data[i].tensor);
  }
  cv_vec_deinit(list);
}

/* The dictionary of a header. */
typedef struct {
  char descr[16];
  bool fortran;
  int rank;
  int64_t dims[CV_MAX_RANK];
} npy_header;

/* The text behind `'key':` in the header, or NULL. */
static const char *find_key(const char *header, const char *key) {
  const char *at = strstr(header, key);
  if (!at || at == header) return NULL;
  char quote = at[-1];
  at += strlen(key);
  if ((quote != '\'' && quote != '"') || *at++ != quote) return NULL;
  while (*at == ' ') at++;
  if (*at++ != ':') return NULL;
  while (*at == ' ') at++;
  return at;
}

static bool parse_descr(const char *at, npy_header *out) {
  char quote = at ? *at : 0;
  if (quote != '\'' && quote != '"') return false;
  const char *end = strchr(++at, quote);
  if (!end || (size_t)(end - at) >= sizeof out->descr) return false;
  memcpy(out->descr, at, (size_t)(end - at));
  out->descr[end - at] = 0;
  return true;
}

static bool parse_shape(const char *at, npy_header *out) {
  if (!at || *at++ != '(') return false;
  for (;;) {
    while (*at == ' ' || *at == ',') at++;
    if (*at == ')') return true;
    if (!isdigit((unsigned char)*at) || out->rank == CV_MAX_RANK) return false;
    char *end;
    unsigned long long dim = strtoull(at, &end, 10);
    if (dim > INT64_MAX / 2) return false;
    out->dims[out->rank++] = (int64_t)dim;
    at = *end == 'L' ? end + 1 : end;
  }
}

static cv_status parse_header(const char *where, const char *header, npy_header *out) {
  if (!parse_descr(find_key(header, "descr"), out))
    return cv_error(CV_UNSUPPORTED, "%s: the .npy has no simple element type (records?)", where);
  const char *order = find_key(header, "fortran_order");
  if (!order || (!cv_starts_with(order, "True") && !cv_starts_with(order, "False")))
    return cv_error(CV_INVALID, "%s: the .npy does not state its order", where);
  out->fortran = *order == 'T';
  if (!parse_shape(find_key(header, "shape"), out))
    return cv_error(CV_INVALID, "%s: the .npy has no shape of at most %d dims", where, CV_MAX_RANK);
  return CV_OK;
}

/* numpy's descr in the forms people meet -> our dtype. */
static bool find_dtype(const char *descr, cv_dtype *out_dtype, bool *out_swap) {
  char plain[16];
  size_t length = strlen(descr);
  if (length < 3 || length >= sizeof plain) return false;
  memcpy(plain, descr, length + 1);
  bool one_byte = strcmp(plain + 2, "1") == 0;
  *out_swap = *plain == '>' && !one_byte;
  if (!strchr("<>|=", *plain)) return false;
  *plain = one_byte ? '|' : '<';
  return cv_dtype_from_numpy(plain, out_dtype);
}

static void swap_bytes(void *data, uint64_t bytes, size_t size) {
  unsigned char *at = data;
  for (uint64_t i = 0; i + size <= bytes; i += size)
    for (size_t k = 0; k < size / 2; k++) {
      unsigned char byte = at[i + k];
      at[i + k] = at[i + size - 1 - k];
      at[i + size - 1 - k] = byte;
    }
}

/* Column-major `from` into the row-major tensor. */
static void reorder(const cv_tensor *tensor, const char *from) {
  size_t size = cv_dtype_size(tensor->dtype);
  uint64_t count = tensor->bytes / size;
  int64_t index[CV_MAX_RANK] = {0};
  for (uint64_t i = 0; i < count; i++) {
    uint64_t offset = 0;
    for (int d = tensor->rank - 1; d >= 0; d--)
      offset = offset * (uint64_t)tensor->dims[d] + (uint64_t)index[d];
    memcpy((char *)tensor->data + i * size, from + offset * size, size);
    for (int d = tensor->rank - 1; d >= 0 && ++index[d] == tensor->dims[d]; d--) index[d] = 0;
  }
}

cv_status cv_npy_parse(const char *where, const void *data, size_t bytes, cv_tensor *out_tensor) {
  const unsigned char *at = data;
  *out_tensor = (cv_tensor){0};
  if (bytes < 12 || memcmp(at, "\x93NUMPY", 6) != 0)
    return cv_error(CV_INVALID, "%s: this is no .npy", where);
  if (at[6] < 1 || at[6] > 3)
    return cv_error(CV_UNSUPPORTED, "%s: .npy version %d.%d; 1 to 3 are known", where, at[6],
                    at[7]);
  size_t start = at[6] == 1 ? 10 : 12, length = at[8] | (size_t)at[9] << 8;
  if (at[6] > 1) length |= (size_t)at[10] << 16 | (size_t)at[11] << 24;
  if (length > bytes - start || length > 1 << 20)
    return cv_error(CV_INVALID, "%s: the .npy ends in its header", where);
  char *text = cv_strndup((const char *)at + start, length);
  if (!text) return cv_error_nomem(length);
  npy_header header = {0};
  cv_status status = parse_header(where, text, &header);
  cv_free(text);
  if (status != CV_OK) return status;
  cv_dtype dtype;
  bool swap;
  if (!find_dtype(header.descr, &dtype, &swap))
    return cv_error(CV_UNSUPPORTED, "%s: the .npy holds elements '%s', which have no tensor type",
                    where, header.descr);
  const char *elements = (const char *)at + start + length;
  size_t have = bytes - start - length;
  int64_t count;
  if (!cv_dims_count(header.rank, header.dims, &count) ||
      (uint64_t)count > have / cv_dtype_size(dtype))
    return cv_error(CV_INVALID, "%s: the .npy ends in its elements", where);
  status = cv_tensor_create(dtype, header.rank, header.dims, out_tensor);
  if (status != CV_OK) return cv_error_context(status, "%s", where);
  if (header.fortran && header.rank > 1)
    reorder(out_tensor, elements);
  else if (out_tensor->bytes)
    memcpy(out_tensor->data, elements, out_tensor->bytes);
  if (swap) swap_bytes(out_tensor->data, out_tensor->bytes, cv_dtype_size(dtype));
  return CV_OK;
}

void cv_npy_print(const cv_tensor *tensor, cv_str *out) {
  cv_str header = {0};
  cv_str_add(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
             cv_dtype_numpy(tensor->dtype));
  for (int d = 0; d < tensor->rank; d++)
    cv_str_add(&header, "%s%" PRId64, d ? ", " : "", tensor->dims[d]);
  cv_str_puts(&header, tensor->rank == 1 ? ",), }" : "), }");
  while ((10 + header.len + 1) % 64 && !header.failed) cv_str_puts(&header, " ");
  cv_str_puts(&header, "\n");
  const char start[10] = {
      (char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)(header.len & 255), (char)(header.len >> 8)};
  cv_str_append(out, start, sizeof start);
  cv_str_append(out, cv_str_text(&header), header.len);
  if (tensor->bytes) cv_str_append(out, tensor->data, tensor->bytes);
  if (header.failed) out->failed = true;
  cv_str_deinit(&header);
}
