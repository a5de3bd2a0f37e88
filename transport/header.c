#include "transport/header.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

/* Wire form, little endian:
 *   0 magic u32, 4 version u16, 6 zero u16, 8 incarnation u64, 16 deployment u64, 24 term u64,
 *  32 number u32, 36 edge u32, 40 seq u64, 48 session u64, 56 position u64, 64 flags u32,
 *  68 symbols u32, 72 tensors u32, 76 zero u32, 80 checksum u64, 88 symbols i64 each,
 *  then a tensor: dtype u8, rank u8, absent u8, zero u8, zero u32, bytes u64, offset u64,
 *  dims i64 each. Nothing follows the last tensor. */
enum { MAGIC = 0x484d5643, FIXED_BYTES = 88, TENSOR_BYTES = 24, KNOWN_FLAGS = 7 };

static void put16(uint8_t *at, uint16_t value) {
  value = htole16(value);
  memcpy(at, &value, sizeof value);
}

static void put32(uint8_t *at, uint32_t value) {
  value = htole32(value);
  memcpy(at, &value, sizeof value);
}

static void put64(uint8_t *at, uint64_t value) {
  value = htole64(value);
  memcpy(at, &value, sizeof value);
}

static uint16_t get16(const uint8_t *at) {
  uint16_t value;
  memcpy(&value, at, sizeof value);
  return le16toh(value);
}

static uint32_t get32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return le32toh(value);
}

static uint64_t get64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return le64toh(value);
}

/* The rules of a tensor, for both directions; `end` is where the tensor before it ended. */
static cv_status check_tensor(cv_status code, const cv_tensor_header *tensor, uint32_t index,
                              uint64_t *end) {
  if (tensor->rank > CV_HEADER_RANK)
    return cv_error(code, "message header: tensor %u has rank %u, at most %d", index, tensor->rank,
                    CV_HEADER_RANK);
  bool empty = false;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] < 0)
      return cv_error(code, "message header: tensor %u: dim %d is %" PRId64, index, i,
                      tensor->dims[i]);
    empty |= tensor->dims[i] == 0;
  }
  int64_t elements = 1;
  for (int i = 0; i < tensor->rank && !empty; i++)
    if (__builtin_mul_overflow(elements, tensor->dims[i], &elements))
      return cv_error(code, "message header: tensor %u: its dims overflow", index);
  if (empty || tensor->absent) {
    if (tensor->bytes != 0 || tensor->offset != 0)
      return cv_error(code, "message header: tensor %u is %s but has %" PRIu64 " bytes", index,
                      tensor->absent ? "absent" : "empty", tensor->bytes);
    return CV_OK;
  }
  if (tensor->bytes == 0 || tensor->bytes > CV_PAYLOAD_MAX)
    return cv_error(code, "message header: tensor %u has %" PRIu64 " bytes", index, tensor->bytes);
  if (tensor->offset % CV_SLOT_ALIGN != 0 || tensor->offset < *end ||
      tensor->offset > CV_PAYLOAD_MAX - tensor->bytes)
    return cv_error(code, "message header: tensor %u: offset %" PRIu64 " is out of place", index,
                    tensor->offset);
  *end = tensor->offset + tensor->bytes;
  return CV_OK;
}

static cv_status check_counts(cv_status code, uint64_t symbols, uint64_t tensors) {
  if (symbols > CV_HEADER_SYMBOLS || tensors > CV_HEADER_TENSORS)
    return cv_error(
        code, "message header: %" PRIu64 " symbols and %" PRIu64 " tensors, at most %d and %d",
        symbols, tensors, CV_HEADER_SYMBOLS, CV_HEADER_TENSORS);
  return CV_OK;
}

static cv_status check_flags(cv_status code, uint32_t flags) {
  if (flags & ~(CV_HEADER_USER | (uint32_t)KNOWN_FLAGS))
    return cv_error(code, "message header: unknown flags in 0x%08x", flags);
  return CV_OK;
}

cv_status cv_header_layout(cv_header *header, uint64_t *out_payload_bytes) {
  *out_payload_bytes = 0;
  uint64_t end = 0;
  for (uint32_t i = 0; i < header->tensor_count; i++) {
    cv_tensor_header *tensor = &header->tensors[i];
    if (tensor->bytes > CV_PAYLOAD_MAX)
      return cv_error(CV_INVALID, "message header: tensor %u has %" PRIu64 " bytes", i,
                      tensor->bytes);
    uint64_t offset = (end + CV_SLOT_ALIGN - 1) / CV_SLOT_ALIGN * CV_SLOT_ALIGN;
    tensor->offset = tensor->bytes == 0 ? 0 : offset;
    cv_status status = check_tensor(CV_INVALID, tensor, i, &end);
    if (status != CV_OK) return status;
  }
  *out_payload_bytes = end;
  return CV_OK;
}

uint64_t cv_header_payload(const cv_header *header) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < header->tensor_count; i++)
    if (header->tensors[i].bytes > 0) end = header->tensors[i].offset + header->tensors[i].bytes;
  return end;
}

size_t cv_header_bound(uint32_t symbols, uint32_t tensors) {
  return FIXED_BYTES + (size_t)symbols * 8 + (size_t)tensors * (TENSOR_BYTES + 8 * CV_HEADER_RANK);
}

static size_t encoded_size(const cv_header *header) {
  size_t size = FIXED_BYTES + (size_t)header->symbol_count * 8;
  for (uint32_t i = 0; i < header->tensor_count; i++)
    size += TENSOR_BYTES + 8u * header->tensors[i].rank;
  return size;
}

static void encode_fixed(const cv_header *header, uint8_t *at) {
  put32(at, MAGIC);
  put16(at + 4, CV_HEADER_VERSION);
  put16(at + 6, 0);
  put64(at + 8, header->incarnation);
  put64(at + 16, header->deployment);
  put64(at + 24, header->epoch_term);
  put32(at + 32, header->epoch_number);
  put32(at + 36, header->edge);
  put64(at + 40, header->seq);
  put64(at + 48, header->session);
  put64(at + 56, header->position);
  put32(at + 64, header->flags);
  put32(at + 68, header->symbol_count);
  put32(at + 72, header->tensor_count);
  put32(at + 76, 0);
  put64(at + 80, header->checksum);
}

cv_status cv_header_encode(const cv_header *header, void *data, size_t cap, size_t *out_size) {
  *out_size = 0;
  cv_status status = check_counts(CV_INVALID, header->symbol_count, header->tensor_count);
  if (status == CV_OK) status = check_flags(CV_INVALID, header->flags);
  uint64_t end = 0;
  for (uint32_t i = 0; status == CV_OK && i < header->tensor_count; i++)
    status = check_tensor(CV_INVALID, &header->tensors[i], i, &end);
  if (status != CV_OK) return status;
  size_t size = encoded_size(header);
  if (size > cap) return cv_error(CV_INVALID, "message header: %zu bytes, room for %zu", size, cap);
  encode_fixed(header, data);
  uint8_t *at = (uint8_t *)data + FIXED_BYTES;
  for (uint32_t i = 0; i < header->symbol_count; i++, at += 8)
    put64(at, (uint64_t)header->symbols[i]);
  for (uint32_t i = 0; i < header->tensor_count; i++) {
    const cv_tensor_header *tensor = &header->tensors[i];
    put64(at, 0);
    at[0] = tensor->dtype;
    at[1] = tensor->rank;
    at[2] = tensor->absent;
    put64(at + 8, tensor->bytes);
    put64(at + 16, tensor->offset);
    at += TENSOR_BYTES;
    for (int d = 0; d < tensor->rank; d++, at += 8) put64(at, (uint64_t)tensor->dims[d]);
  }
  *out_size = size;
  return CV_OK;
}

static cv_status decode_fixed(const uint8_t *at, size_t size, cv_header *header) {
  if (size < FIXED_BYTES)
    return cv_error(CV_CORRUPT, "message header: %zu bytes, at least %d", size, FIXED_BYTES);
  if (get32(at) != MAGIC) return cv_error(CV_CORRUPT, "message header: it does not start as one");
  if (get16(at + 4) != CV_HEADER_VERSION)
    return cv_error(CV_VERSION, "message header: version %u there, %d here: use one version",
                    get16(at + 4), CV_HEADER_VERSION);
  header->incarnation = get64(at + 8);
  header->deployment = get64(at + 16);
  header->epoch_term = get64(at + 24);
  header->epoch_number = get32(at + 32);
  header->edge = get32(at + 36);
  header->seq = get64(at + 40);
  header->session = get64(at + 48);
  header->position = get64(at + 56);
  header->flags = get32(at + 64);
  header->checksum = get64(at + 80);
  if (get16(at + 6) != 0 || get32(at + 76) != 0)
    return cv_error(CV_CORRUPT, "message header: a zero field is not zero");
  return check_flags(CV_CORRUPT, header->flags);
}

/* Reads one tensor at *position; the caller checks its values. */
static cv_status decode_tensor(const uint8_t *data, size_t size, size_t *position,
                               cv_tensor_header *tensor) {
  if (size - *position < TENSOR_BYTES)
    return cv_error(CV_CORRUPT, "message header: it ends inside a tensor");
  const uint8_t *at = data + *position;
  if (at[2] > 1 || at[3] != 0 || get32(at + 4) != 0)
    return cv_error(CV_CORRUPT, "message header: a tensor's flags are damaged");
  *tensor = (cv_tensor_header){.dtype = at[0], .rank = at[1], .absent = at[2] == 1};
  tensor->bytes = get64(at + 8);
  tensor->offset = get64(at + 16);
  *position += TENSOR_BYTES;
  if (tensor->rank > CV_HEADER_RANK)
    return cv_error(CV_CORRUPT, "message header: rank %u, at most %d", tensor->rank,
                    CV_HEADER_RANK);
  if (size - *position < 8u * tensor->rank)
    return cv_error(CV_CORRUPT, "message header: it ends inside a tensor's dims");
  for (int d = 0; d < tensor->rank; d++, *position += 8)
    tensor->dims[d] = (int64_t)get64(data + *position);
  return CV_OK;
}

cv_status cv_header_decode(const void *data, size_t size, uint32_t symbol_cap, uint32_t tensor_cap,
                           cv_header *header) {
  const uint8_t *bytes = data;
  header->symbol_count = header->tensor_count = 0;
  cv_status status = decode_fixed(bytes, size, header);
  if (status != CV_OK) return status;
  uint32_t symbols = get32(bytes + 68), tensors = get32(bytes + 72);
  status = check_counts(CV_CORRUPT, symbols, tensors);
  if (status != CV_OK) return status;
  if (symbols > symbol_cap || tensors > tensor_cap)
    return cv_error(CV_CORRUPT, "message header: %u symbols and %u tensors, agreed were %u and %u",
                    symbols, tensors, symbol_cap, tensor_cap);
  size_t position = FIXED_BYTES;
  if (size - position < (size_t)symbols * 8)
    return cv_error(CV_CORRUPT, "message header: it ends inside its symbols");
  for (uint32_t i = 0; i < symbols; i++, position += 8)
    header->symbols[i] = (int64_t)get64(bytes + position);
  uint64_t end = 0;
  for (uint32_t i = 0; i < tensors; i++) {
    status = decode_tensor(bytes, size, &position, &header->tensors[i]);
    if (status == CV_OK) status = check_tensor(CV_CORRUPT, &header->tensors[i], i, &end);
    if (status != CV_OK) return status;
  }
  if (position != size)
    return cv_error(CV_CORRUPT, "message header: %zu bytes follow its end", size - position);
  header->symbol_count = symbols;
  header->tensor_count = tensors;
  return CV_OK;
}
