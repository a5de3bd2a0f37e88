/* The header of a message between stages: what the payload is and where it belongs. Messages are
 * addressed, not ordered. Wire form: little endian, fixed fields, then symbols, then tensors; see
 * header.c. Any thread. */
#ifndef CV_TRANSPORT_HEADER_H
#define CV_TRANSPORT_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
  CV_HEADER_VERSION = 1,
  CV_HEADER_RANK = 8,       /* most dims of a tensor */
  CV_HEADER_TENSORS = 4096, /* most tensors of a message */
  CV_HEADER_SYMBOLS = 4096, /* most symbol values of a message */
  CV_SLOT_ALIGN = 64,       /* alignment of each tensor in a slot, bytes */
};

/* Most payload bytes of a message: offsets and sums stay far from overflow. */
#define CV_PAYLOAD_MAX ((uint64_t)1 << 48)

/* Bits of cv_header.flags. Bits 16 to 31 belong to the executor and are carried unread; bits not
 * named here are refused. */
enum {
  CV_HEADER_LAST = 1u << 0,     /* the last micro-batch of its request */
  CV_HEADER_CHECKSUM = 1u << 1, /* the payload is summed by the sender and checked on arrival */
  CV_HEADER_REPLAY = 1u << 2,   /* stamped again after a death */
  CV_HEADER_USER = 0xffff0000u,
};

/* One boundary tensor. An absent one (the value of a branch not taken) has a type and dims but no
 * bytes in the payload. */
typedef struct {
  uint8_t dtype; /* the runtime's code of a fixed-width type; carried unread */
  uint8_t rank;  /* 0: a scalar */
  bool absent;
  int64_t dims[CV_HEADER_RANK]; /* [rank] >= 0; a 0 among them: no bytes */
  uint64_t bytes;               /* in the payload; 0 if absent */
  uint64_t offset;              /* from the slot's start, multiple of CV_SLOT_ALIGN; ascending */
} cv_tensor_header;

typedef struct {
  uint64_t incarnation; /* of the gateway that stamped the micro-batch */
  uint64_t deployment;  /* hash of model and artifact */
  uint64_t epoch_term;  /* epoch id (term, number) */
  uint32_t epoch_number;
  uint32_t edge;
  uint64_t seq; /* micro-batch; owns slot seq mod S */
  uint64_t session;
  uint64_t position; /* version of the session's state */
  uint32_t flags;    /* CV_HEADER_* */
  uint32_t symbol_count, tensor_count;
  uint64_t checksum;         /* XXH3 of the tensors' bytes, each seeded by the one before; or 0 */
  int64_t *symbols;          /* [symbol_count], order of the plan's list for this edge */
  cv_tensor_header *tensors; /* [tensor_count], order of the plan's list for this edge */
} cv_header;

/* Sets the offsets of all tensors (one behind the other, aligned) and gives the payload's bytes.
 * CV_INVALID if a size is out of range. */
CV_NODISCARD cv_status cv_header_layout(cv_header *header, uint64_t *out_payload_bytes);
/* Payload bytes of a header that was laid out or decoded: the end of its last tensor. */
uint64_t cv_header_payload(const cv_header *header);

/* Most encoded bytes of a header with so many symbols and tensors. */
size_t cv_header_bound(uint32_t symbols, uint32_t tensors);
/* Writes the wire form into `data` (`cap` bytes). CV_INVALID names the field out of range or the
 * bytes needed. */
CV_NODISCARD cv_status cv_header_encode(const cv_header *header, void *data, size_t cap,
                                        size_t *out_size);
/* Reads a wire form that may hold anything. The caller has set header->symbols and
 * header->tensors to arrays of symbol_cap and tensor_cap; all other fields are overwritten.
 * CV_VERSION or CV_CORRUPT with the field's name; on error the counts are 0. */
CV_NODISCARD cv_status cv_header_decode(const void *data, size_t size, uint32_t symbol_cap,
                                        uint32_t tensor_cap, cv_header *header);

#endif
