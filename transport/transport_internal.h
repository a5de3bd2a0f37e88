/* What transport.c, channel.c, window.c and the rows share. Owner thread throughout. */
#ifndef CV_TRANSPORT_INTERNAL_H
#define CV_TRANSPORT_INTERNAL_H

#include "base/alloc.h"
#include "transport/transport.h"

enum {
  CV_RECORD_MAGIC = 0x31525643, /* "CVR1": changes with the record's form */
  CV_EDGE_SLOTS_MAX = 65536,
  CV_FAIL_TEXT = 256,
};

typedef enum {
  CV_RECORD_HELLO = 1, /* producer: which edge this is */
  CV_RECORD_SLOTS,     /* consumer: slots of this generation are ready */
  CV_RECORD_GRANT,     /* consumer: seq is the new limit */
  CV_RECORD_RESIZE,    /* producer: slots of at least `bytes`, please */
  CV_RECORD_RETIRE,    /* producer: generations below this one are used no more */
  CV_RECORD_MESSAGE,   /* producer: seq is in its slot (ucx: its encoded header follows) */
  CV_RECORD_PAYLOAD,   /* ucx: seq's payload follows */
  CV_RECORD_ABORT,     /* both: the channel failed with `status` */
  CV_RECORD_BYE,       /* both: the channel was closed; nothing follows */
} cv_record_type;

/* One control record; on the wire as it is here (both supported machines are little endian). */
struct cv_record {
  uint32_t magic;
  uint32_t type;
  uint64_t to;           /* ucx: receiver's channel, 0 in a HELLO */
  uint64_t from;         /* ucx: sender's channel */
  uint64_t seq;          /* MESSAGE, PAYLOAD; GRANT: the limit */
  uint64_t bytes;        /* MESSAGE, PAYLOAD: payload; SLOTS, RESIZE: of a slot */
  uint64_t block;        /* inproc SLOTS: the shared block */
  uint32_t generation;   /* SLOTS, RETIRE, MESSAGE, PAYLOAD */
  uint32_t header_bytes; /* MESSAGE: encoded header; SLOTS: its area in a slot */
  uint32_t slots;        /* SLOTS */
  uint32_t status;       /* ABORT */
  cv_edge_id id;         /* HELLO */
  uint8_t token[16];     /* shm HELLO: proves that the sender was told the address */
};

/* Slots of one size: a generation. Each has a header area (host memory) and payload memory. */
struct cv_slots {
  cv_slots *older;
  uint32_t generation;
  uint32_t users; /* window entries that live here */
  bool announced; /* consumer: its SLOTS record was sent */
  uint64_t slot_bytes;
  size_t stride;           /* of `data`, bytes */
  uint8_t *headers, *data; /* slot i: headers + i x header_area, data + i x stride */
  void *memory;            /* the row's: mapping or block */
  size_t memory_bytes;
  int fd; /* shm: memfd until announced, else -1 */
};

typedef enum {
  CV_ENTRY_FREE,
  CV_ENTRY_ACQUIRED, /* producer: being written */
  CV_ENTRY_SENDING,  /* producer: sent, on_sent not yet made */
  CV_ENTRY_EXPECTED, /* consumer: known, header not yet read */
  CV_ENTRY_ARRIVING, /* consumer: on_header made or due, payload under way */
  CV_ENTRY_ARRIVED,  /* consumer: on_complete due */
  CV_ENTRY_READY,    /* consumer: on_complete made */
} cv_entry_state;

/* The window entry of slot seq mod S. */
typedef struct {
  cv_entry_state state;
  bool ever;        /* `seq` has a meaning */
  bool queued;      /* producer: in the channel's fifo, not yet put */
  bool put;         /* producer: put, counted in the channel's under_way */
  bool got_payload; /* consumer */
  bool told;        /* consumer: on_header was made */
  uint8_t seen;     /* consumer: CV_SEEN_* */
  uint32_t pending; /* operations the row has under way in this slot */
  cv_status status; /* worst of them */
  uint64_t seq, bytes;
  uint32_t header_bytes;
  cv_slots *slots;
  cv_header header; /* consumer; arrays owned here */
} cv_entry;

enum { CV_SEEN_MESSAGE = 1, CV_SEEN_PAYLOAD = 2 };

typedef enum { CV_EVENT_SENT, CV_EVENT_HEADER, CV_EVENT_COMPLETE } cv_event_kind;

typedef struct {
  cv_event_kind kind;
  cv_status status;
  uint64_t seq;
} cv_event;

struct cv_channel {
  cv_transport *transport;
  const cv_transport_row *row;
  cv_channel *prev, *next; /* in the transport's list */
  cv_channel *next_active; /* in the transport's list of channels with something due */
  bool active;
  uint64_t handle, peer_handle;
  cv_channel_params params;
  cv_channel_events events;
  void *row_state;

  cv_entry *entries;         /* [slots] */
  int64_t *symbols;          /* consumer: [slots][max_symbols] */
  cv_tensor_header *tensors; /* consumer: [slots][max_tensors] */
  uint8_t *scratch;          /* consumer: one header area, private */
  size_t header_area;        /* bytes */
  cv_slots *slots;           /* newest first */
  uint64_t limit, limit_sent;
  uint32_t retired;    /* consumer: the producer uses no generation below */
  uint64_t grow_asked; /* producer: largest RESIZE asked for */
  uint32_t *fifo;      /* producer: entries to be put, [slots] */
  uint32_t fifo_head, fifo_len;
  uint32_t under_way; /* producer: messages put and not yet sent */

  cv_event *ring; /* [ring_cap] */
  uint32_t ring_head, ring_len, ring_cap;
  bool open_due, resize_due, grant_due, error_due, closed_due; /* callbacks */

  bool peer_here; /* HELLO (consumer) or SLOTS (producer) was seen */
  bool hello_due, ask_due, retire_due, abort_due; /* records */
  bool peer_ended; /* ABORT, BYE or death was seen: send nothing more */
  bool bye_sent;
  bool closing, unlinking, unlinked;
  cv_status failed;
  char text[CV_FAIL_TEXT];
};

struct cv_transport {
  const cv_transport_row *row;
  void *row_state;
  cv_channel *channels;
  cv_channel *active, **active_tail;
  bool in_progress;
  uint32_t closing;   /* channels being closed: waits are kept short */
  cv_channel **table; /* by index of a handle */
  uint32_t table_cap;
  uint32_t serial;
};

/* ---- transport.c ---- */

/* Enters and removes a channel, giving it its handle. */
CV_NODISCARD cv_status cv_transport_enter(cv_transport *transport, cv_channel *channel);
void cv_transport_leave(cv_transport *transport, cv_channel *channel);

/* ---- for rows: what has happened to a channel ---- */

/* The channel with this handle, NULL if it is gone. */
cv_channel *cv_transport_channel(const cv_transport *transport, uint64_t handle);
/* The consumer end that waits for this edge's HELLO, or NULL. */
cv_channel *cv_transport_awaiting(const cv_transport *transport, const cv_edge_id *id);
bool cv_edge_same(const cv_edge_id *a, const cv_edge_id *b);
/* A record arrived; anything may be in it. */
void cv_channel_take(cv_channel *channel, const cv_record *record);
/* The link to the peer ended: PEER_LOST unless it had said so before. */
void cv_channel_peer_gone(cv_channel *channel, const char *how);
/* Fails the channel (first failure counts) with this text. */
void cv_channel_fail(cv_channel *channel, cv_status status, const char *text);
/* Gives the channel a turn soon: something is due, or the link can take more. */
void cv_channel_wake(cv_channel *channel);
/* The row holds nothing of the channel any more. */
void cv_channel_unlinked(cv_channel *channel);

/* ---- window.c ---- */

uint64_t cv_window_lowest(const cv_channel *channel);
cv_entry *cv_window_entry(cv_channel *channel, uint64_t seq);
uint8_t *cv_entry_header(const cv_channel *channel, const cv_entry *entry);
uint8_t *cv_entry_data(const cv_channel *channel, const cv_entry *entry);
/* Consumer: the entry that a MESSAGE or PAYLOAD record is for, or NULL: the channel was failed. */
cv_entry *cv_window_expect(cv_channel *channel, const cv_record *record);
/* Consumer: the encoded header lies in the entry's header area. */
void cv_window_header_arrived(cv_channel *channel, cv_entry *entry);
/* Consumer: the payload lies in the slot, or failed. */
void cv_window_payload_arrived(cv_channel *channel, cv_entry *entry, cv_status status);
/* Producer: the message was put (or failed) and the row has no operation left on it. */
void cv_window_sent(cv_channel *channel, cv_entry *entry, cv_status status);
/* Ends what the row has not under way; called once by cv_channel_fail. */
void cv_window_fail(cv_channel *channel);

/* ---- channel.c ---- */

void cv_channel_event(cv_channel *channel, cv_event_kind kind, uint64_t seq, cv_status status);
/* One turn of a channel: puts records, makes callbacks; the channel may be gone afterwards. Returns
 * how much was done. */
size_t cv_channel_turn(cv_channel *channel);

/* ---- slots.c ---- */

/* Consumer: a new generation with slots of `bytes`. */
CV_NODISCARD cv_status cv_slots_grow(cv_channel *channel, uint64_t bytes);
/* Producer: the generation a SLOTS record tells of. */
CV_NODISCARD cv_status cv_slots_join(cv_channel *channel, const cv_record *record);
/* One window entry less lives in the generation; frees generations that nobody can use any more.
 * NULL: only the latter. */
void cv_slots_leave(cv_channel *channel, cv_slots *slots);
/* The generation with this number, or NULL. */
cv_slots *cv_slots_find(cv_channel *channel, uint32_t generation);
/* Private memory for all slots, from the channel's allocator if it has one; for rows. */
CV_NODISCARD cv_status cv_slots_alloc(cv_channel *channel, cv_slots *slots);
void cv_slots_release(cv_channel *channel, cv_slots *slots);
void cv_slots_free_all(cv_channel *channel);
/* Bytes of payload memory for all slots of a generation. */
size_t cv_slots_data_bytes(const cv_channel *channel, const cv_slots *slots);

/* ---- table.c, rows ---- */

extern const cv_transport_row cv_row_inproc, cv_row_shm, cv_row_ucx;

#endif
