/* Messages of an edge: tensors and symbols in a transport's header. Executor and gateway share it.
 * One thread at a time. */
#ifndef CV_RUNTIME_MESSAGE_H
#define CV_RUNTIME_MESSAGE_H

#include "base/status.h"
#include "runtime/edges.h"
#include "runtime/tensor.h"
#include "transport/transport.h"

/* A micro-batch that failed travels on without bytes, so that each stage and the gateway hear of
 * it: bits 16 to 23 of the header's flags hold the status (0: well), bits 24 to 31 the stage. */
static inline uint32_t cv_message_failure(cv_status status, int stage) {
  return ((uint32_t)status & 0xff) << 16 | ((uint32_t)stage & 0xff) << 24;
}
static inline cv_status cv_message_status(uint32_t flags) {
  return (cv_status)(flags >> 16 & 0xff);
}
static inline int cv_message_stage(uint32_t flags) { return (int)(flags >> 24); }

/* A message being made: arrays sized once for the edge. */
typedef struct {
  cv_header header;
  cv_segment *segments; /* [tensor_count] */
  uint64_t bytes;       /* of its payload, once laid out */
} cv_message;

/* CV_NOMEM. */
CV_NODISCARD cv_status cv_message_init(cv_message *message, const cv_edge *edge);
void cv_message_deinit(cv_message *message); /* accepts zeroed */
/* Tensor number `i` is this one; its data, if any, is the segment. */
void cv_message_set(cv_message *message, uint32_t i, const cv_tensor *tensor);
/* All tensors absent, all symbols unbound: what a failed micro-batch sends. */
void cv_message_clear(cv_message *message, const cv_program *program, const cv_edge *edge);
/* Gives each tensor its place in the slot, sets `bytes`. CV_INVALID: too large. */
CV_NODISCARD cv_status cv_message_layout(cv_message *message);

/* Checks what came on an edge, which may be anything: counts, types and ranks are the program's,
 * each tensor has the bytes of its dims and lies in the slot. CV_CORRUPT names the value. */
CV_NODISCARD cv_status cv_message_check(const cv_program *program, const cv_edge *edge,
                                        const cv_header *header, cv_slot slot);
/* Tensor number `i` of a checked message, in place. */
cv_tensor cv_message_tensor(const cv_header *header, cv_slot slot, uint32_t i);
/* The type, dims and presence of a value for these symbols, without data. CV_INVALID names it. */
CV_NODISCARD cv_status cv_message_describe(const cv_program *program, uint32_t value,
                                           const int64_t *symbols, cv_tensor *out_tensor);

#endif
