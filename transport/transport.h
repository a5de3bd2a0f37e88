/* Transports: one vtable, rows inproc, shm, ucx. A transport is one process's (or, for inproc,
 * one thread's) end of a row; a channel is one end of an edge: the directed link from a producer
 * stage to a consumer stage (the gateway is an end too) in one deployment and epoch, between two
 * incarnations.
 *
 * Threads: a transport and its channels belong to one thread, the communication thread; every call
 * here is made by it. Slot memory alone may be touched by others: the pointers of
 * cv_channel_acquire until cv_channel_send, those of on_header from on_complete until the grant
 * that frees the slot.
 *
 * Callbacks: made by cv_transport_progress only, never inside another call, each exactly once. They
 * may call everything but cv_transport_progress, _wait and _close.
 *
 * Window: seq owns slot seq mod S, S = `slots`. The consumer grants "below limit"; a producer may
 * send seq while limit - S <= seq < limit, in any order, and may leave seqs out. Raising the limit
 * frees the slots of all seq < limit - S: the consumer no longer reads them.
 *
 * Failure: on_error comes at most once, after it neither on_open, on_grant, on_header nor
 * on_resize; on_sent and on_complete still come, with a status, for all that was under way. Then
 * the owner closes the channel. After cv_channel_close only on_sent, on_complete, on_closed come.
 */
#ifndef CV_TRANSPORT_TRANSPORT_H
#define CV_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/header.h"

typedef struct cv_transport cv_transport;
typedef struct cv_channel cv_channel;
typedef struct cv_hub cv_hub;
typedef struct cv_transport_row cv_transport_row;

enum { CV_ADDRESS_MAX = 1024 }; /* most bytes of a published address */

/* ---- transports ---- */

/* The row of this name ("inproc", "shm", "ucx"), or NULL: unknown, or its SDK was absent at build.
 */
const cv_transport_row *cv_transport_find(const char *name);
/* Row `index` from 0 in order of preference on one host, NULL behind the last. */
const cv_transport_row *cv_transport_at(size_t index);
const char *cv_transport_row_name(const cv_transport_row *row);

/* Where the inproc transports of one process meet. Destroyed after them; accepts NULL. */
CV_NODISCARD cv_status cv_hub_create(cv_hub **out_hub);
void cv_hub_destroy(cv_hub *hub);

/* Opens this process's end of a row. `hub` is for inproc (NULL else). Does not block. CV_IO,
 * CV_NOMEM, CV_UNSUPPORTED. */
CV_NODISCARD cv_status cv_transport_open(const cv_transport_row *row, cv_hub *hub,
                                         cv_transport **out_transport);
/* Closes; accepts NULL. Channels still open are aborted first and their outstanding callbacks made
 * here. May take up to a second to flush. */
void cv_transport_close(cv_transport *transport);

/* This end's address as bytes for the control link, at most CV_ADDRESS_MAX. CV_INVALID if `cap` is
 * too small. */
CV_NODISCARD cv_status cv_transport_address(const cv_transport *transport, void *buffer, size_t cap,
                                            size_t *out_size);
/* Whether this row can reach the published address: CV_OK; CV_UNSUPPORTED (another row, damaged);
 * CV_VERSION (names both versions); CV_PEER_LOST (nobody is there: for shm a dead peer or another
 * host). Does not block; ucx looks at the address alone. */
CV_NODISCARD cv_status cv_transport_reach(cv_transport *transport, const void *address,
                                          size_t size);

/* Moves what can be moved, then makes the callbacks that are due. Never blocks. Returns how much it
 * did: 0 means idle. */
size_t cv_transport_progress(cv_transport *transport);
/* A descriptor that polls readable when there is something to progress, once armed. */
int cv_transport_fd(const cv_transport *transport);
/* Prepares the descriptor for poll(2): CV_OK, or CV_AGAIN: progress first, then arm again. */
CV_NODISCARD cv_status cv_transport_arm(cv_transport *transport);
/* The wait of a communication thread: progresses all `count` transports until something was done,
 * `extra_fd` (-1: none) is readable, or `deadline_ns` (monotonic) has passed: CV_TIMEOUT. Spins at
 * most `spin_ns` (20 to 50 us where a core is free, else 0), then arms and polls. */
CV_NODISCARD cv_status cv_transport_wait(cv_transport *const *transports, size_t count,
                                         int extra_fd, int64_t deadline_ns, int64_t spin_ns);
/* Aborts every channel of this deployment and epoch (cv_channel_abort). */
void cv_transport_abort(cv_transport *transport, uint64_t deployment, uint64_t epoch_term,
                        uint32_t epoch_number);

/* ---- channels ---- */

/* Identity of an edge; both ends give the same. */
typedef struct {
  uint64_t deployment;
  uint64_t epoch_term;
  uint32_t epoch_number;
  uint32_t edge;
  uint64_t producer, consumer; /* incarnations of the two processes */
} cv_edge_id;

typedef enum { CV_PRODUCER, CV_CONSUMER } cv_role;

/* Slot memory, agreed between device and transport. */
typedef enum {
  CV_MEMORY_HOST,   /* private to the process */
  CV_MEMORY_SHARED, /* host memory mapped by both ends: what shm gives */
  CV_MEMORY_PINNED, /* host memory that a device can reach: from an allocator */
  CV_MEMORY_DEVICE, /* device memory: from an allocator, tensors always in place */
} cv_memory_kind;

/* A device's memory for slots. `alloc` gives memory aligned to CV_SLOT_ALIGN or NULL. For inproc
 * `free` may be called by the peer's thread, until both ends are closed. */
typedef struct {
  cv_memory_kind kind;
  void *(*alloc)(void *arg, size_t bytes);
  void (*free)(void *arg, void *memory);
  void *arg;
} cv_slot_memory;

/* A slot's payload memory, aligned to CV_SLOT_ALIGN. */
typedef struct {
  uint8_t *data;
  uint64_t bytes;
} cv_slot;

/* The callbacks of a channel; NULL ones are skipped. `arg` is the first argument of all. */
typedef struct {
  void *arg;
  /* Both ends: they have found each other. */
  void (*on_open)(void *arg, cv_channel *channel);
  /* Producer: seq < limit may be sent. Comes again with the same limit when slots have grown. */
  void (*on_grant)(void *arg, cv_channel *channel, uint64_t limit);
  /* Producer: the message is under way or failed; its segments may be reused. */
  void (*on_sent)(void *arg, cv_channel *channel, uint64_t seq, cv_status status);
  /* Consumer: a message is on its way into `slot`. The header, and the slot, stay valid until the
   * grant that frees the slot, or close. */
  void (*on_header)(void *arg, cv_channel *channel, const cv_header *header, cv_slot slot);
  /* Consumer: its payload has arrived (CV_OK), or never will. */
  void (*on_complete)(void *arg, cv_channel *channel, uint64_t seq, cv_status status);
  /* Both ends: new slots have so many bytes. */
  void (*on_resize)(void *arg, cv_channel *channel, uint64_t slot_bytes);
  /* Both ends: the channel failed. CV_PEER_LOST: the peer died; CV_CANCELED: it closed the channel,
   * or one end aborted; else what went wrong. `text` is valid during the call. */
  void (*on_error)(void *arg, cv_channel *channel, cv_status status, const char *text);
  /* Both ends, the last one: nothing is in flight, memory may go; the handle dies on return. */
  void (*on_closed)(void *arg, cv_channel *channel);
} cv_channel_events;

typedef struct {
  cv_edge_id id;
  cv_role role;
  uint32_t slots;          /* S >= 1, at most 65536; equal at both ends */
  uint64_t slot_bytes;     /* payload bytes a slot starts with (0 allowed) */
  uint64_t max_slot_bytes; /* the planner's bound; slots grow up to it */
  uint32_t max_symbols;    /* bounds of the headers; equal at both ends */
  uint32_t max_tensors;
  const cv_slot_memory *memory;    /* NULL: the row's own; outlives the channel */
  const cv_channel_events *events; /* copied */
} cv_channel_params;

/* Opens one end of an edge to the peer with this address. Either end may come first. Does not
 * block: on_open follows, or on_error. CV_UNSUPPORTED, CV_VERSION, CV_PEER_LOST, CV_NOMEM, CV_IO,
 * CV_INVALID. The handle is valid until on_closed. */
CV_NODISCARD cv_status cv_channel_open(cv_transport *transport, const cv_channel_params *params,
                                       const void *peer, size_t peer_size,
                                       cv_channel **out_channel);

/* Consumer: all seq < limit may be sent (see Window). May be called before on_open. CV_INVALID if
 * the limit falls, or frees a slot whose message is still arriving; the failed channel's status if
 * it failed. */
CV_NODISCARD cv_status cv_channel_grant(cv_channel *channel, uint64_t limit);

/* Producer: the memory of seq's slot, to be written by any thread until cv_channel_send: shared
 * with the consumer (inproc, shm), or staging owned by the channel (ucx). CV_AGAIN: seq is not in
 * the window, its slot's last message is not sent yet, or slots must grow to `bytes` first (asked
 * for by this call): on_grant will follow. CV_INVALID: more than max_slot_bytes, or behind the
 * window. The failed channel's status if it failed. Again with the same seq: the same slot. */
CV_NODISCARD cv_status cv_channel_acquire(cv_channel *channel, uint64_t seq, uint64_t bytes,
                                          cv_slot *out_slot);
/* Producer: gives an acquired slot back unsent (the micro-batch ended otherwise). */
void cv_channel_release(cv_channel *channel, uint64_t seq);

/* Where a tensor's bytes lie now; data NULL: already in the slot at the tensor's offset. */
typedef struct {
  const void *data;
} cv_segment;

/* Producer: sends header->seq, whose slot was acquired. `segments` ([tensor_count] in the header's
 * order, NULL: all in place) are copied into the slot by this call where not in place. The caller
 * fills incarnation, seq, session, position, flags, symbols, tensors (laid out); the channel fills
 * deployment, epoch, edge, checksum. on_sent follows if CV_OK was returned, only then. */
CV_NODISCARD cv_status cv_channel_send(cv_channel *channel, cv_header *header,
                                       const cv_segment *segments);

/* Either end, between micro-batches: slots used from now on have at least `bytes` (at most
 * max_slot_bytes); messages in flight keep theirs. For shm this is a new memfd; the old one goes
 * when its last message is freed. on_resize follows if the slots grew. */
CV_NODISCARD cv_status cv_channel_resize(cv_channel *channel, uint64_t bytes);
/* Bytes of a slot acquired now; 0 before on_open at the producer. */
uint64_t cv_channel_slot_bytes(const cv_channel *channel);
cv_memory_kind cv_channel_memory(const cv_channel *channel);
const cv_edge_id *cv_channel_id(const cv_channel *channel);

/* Fails the channel now, at both ends, with CV_CANCELED; what is in flight completes with it. */
void cv_channel_abort(cv_channel *channel);
/* Closes: messages sent are flushed (not on a failed channel), then on_closed. The peer, if not
 * closing too, gets on_error(CV_CANCELED) behind the last message. Slots must no longer be touched
 * by other threads. A second call does nothing. To close past a hung peer, abort first. */
void cv_channel_close(cv_channel *channel);

/* ---- rows ---- */

typedef struct cv_record cv_record;
typedef struct cv_slots cv_slots;

/* What a row implements; transport_internal.h has the types, channel.c all that rows share (window,
 * slots, callbacks, growth). All calls by the owner thread, none blocks, every system call a fault
 * point. */
struct cv_transport_row {
  const char *name;
  unsigned kinds;            /* 1 << cv_memory_kind for each kind that slots may be made of */
  cv_memory_kind own_memory; /* kind of slots made without an allocator */
  bool shares;               /* the producer writes straight into the consumer's slot */
  /* Makes and frees transport->row_state. close: all channels are gone. */
  cv_status (*open)(cv_transport *transport, cv_hub *hub);
  void (*close)(cv_transport *transport);
  cv_status (*address)(const cv_transport *transport, void *buffer, size_t cap, size_t *out_size);
  cv_status (*reach)(cv_transport *transport, const void *address, size_t size);
  int (*fd)(const cv_transport *transport);
  cv_status (*arm)(cv_transport *transport);
  /* Takes what has arrived and hands it to channel.c; returns how much. */
  size_t (*progress)(cv_transport *transport);
  /* Starts the channel's link to the peer. */
  cv_status (*link)(cv_channel *channel, const void *peer, size_t size);
  /* Ends it; calls cv_channel_unlinked once the row holds nothing of the channel any more. */
  void (*unlink)(cv_channel *channel);
  /* Sends one record, in order. CV_AGAIN: the link is full, or not there yet; tried again later. */
  cv_status (*put)(cv_channel *channel, cv_record *record);
  /* Consumer: memory for all slots of one size. Producer: its view of those that a record tells of.
   */
  cv_status (*slots_make)(cv_channel *channel, cv_slots *slots);
  cv_status (*slots_view)(cv_channel *channel, const cv_record *record, cv_slots *slots);
  void (*slots_free)(cv_channel *channel, cv_slots *slots);
};

#endif
