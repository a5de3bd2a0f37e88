/* Messages of one tensor with a pattern in it. */
#ifndef CV_TESTS_CONFORMANCE_MESSAGES_H
#define CV_TESTS_CONFORMANCE_MESSAGES_H

#include "tests/conformance/pair.h"

static inline uint8_t pattern(uint64_t seq, uint64_t i) {
  return (uint8_t)(seq * 131 + i * 7 + (i >> 8));
}

/* Sends seq as one uint8 tensor of `bytes`, whatever lies in the slot. CV_AGAIN as acquire says. */
static inline cv_status send_unwritten(end *self, uint64_t seq, uint64_t bytes) {
  cv_slot slot;
  cv_status status = acquire(self, seq, bytes, &slot);
  if (status != CV_OK) return status;
  int64_t symbol = (int64_t)bytes;
  cv_tensor_header tensor = {.dtype = 2, .rank = 1, .dims = {(int64_t)bytes}, .bytes = bytes};
  cv_header header = {.incarnation = 99,
                      .seq = seq,
                      .session = 5,
                      .position = seq + 1,
                      .symbol_count = 1,
                      .symbols = &symbol,
                      .tensor_count = 1,
                      .tensors = &tensor};
  self->calling = true;
  status = cv_channel_send(self->channel, &header, NULL);
  self->calling = false;
  return status;
}

/* The same with a pattern, written in place. */
static inline cv_status send_bytes(end *self, uint64_t seq, uint64_t bytes) {
  cv_slot slot;
  cv_status status = acquire(self, seq, bytes, &slot);
  if (status != CV_OK) return status;
  for (uint64_t i = 0; i < bytes; i++) slot.data[i] = pattern(seq, i);
  return send_unwritten(self, seq, bytes);
}

static inline bool holds_pattern(const end *self, uint64_t seq, uint64_t bytes) {
  const cv_header *header = self->header[seq % SEQS];
  if (header->seq != seq || header->tensor_count != 1 || header->tensors[0].bytes != bytes)
    return false;
  for (uint64_t i = 0; i < bytes; i++)
    if (self->slot[seq % SEQS].data[i] != pattern(seq, i)) return false;
  return true;
}

#endif
