/* The life of a channel: open, the records it sends and takes, its callbacks, failure, close. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "transport/transport_internal.h"

bool cv_edge_same(const cv_edge_id *a, const cv_edge_id *b) {
  return a->deployment == b->deployment && a->epoch_term == b->epoch_term &&
         a->epoch_number == b->epoch_number && a->edge == b->edge && a->producer == b->producer &&
         a->consumer == b->consumer;
}

const cv_edge_id *cv_channel_id(const cv_channel *channel) { return &channel->params.id; }

cv_memory_kind cv_channel_memory(const cv_channel *channel) {
  const cv_slot_memory *memory = channel->params.memory;
  return memory != NULL ? memory->kind : channel->row->own_memory;
}

uint64_t cv_channel_slot_bytes(const cv_channel *channel) {
  return channel->slots == NULL ? 0 : channel->slots->slot_bytes;
}

/* ---- open ---- */

static cv_status check_params(const cv_transport *transport, const cv_channel_params *params) {
  uint32_t edge = params->id.edge;
  if (params->role != CV_PRODUCER && params->role != CV_CONSUMER)
    return cv_error(CV_INVALID, "edge %u: role %d", edge, (int)params->role);
  if (params->slots < 1 || params->slots > CV_EDGE_SLOTS_MAX)
    return cv_error(CV_INVALID, "edge %u: %u slots, 1 to %d are possible", edge, params->slots,
                    CV_EDGE_SLOTS_MAX);
  if (params->max_slot_bytes > CV_PAYLOAD_MAX / params->slots ||
      params->slot_bytes > params->max_slot_bytes)
    return cv_error(CV_INVALID, "edge %u: slots of %" PRIu64 " to %" PRIu64 " bytes", edge,
                    params->slot_bytes, params->max_slot_bytes);
  if (params->max_symbols > CV_HEADER_SYMBOLS || params->max_tensors > CV_HEADER_TENSORS)
    return cv_error(CV_INVALID, "edge %u: %u symbols and %u tensors, at most %d and %d", edge,
                    params->max_symbols, params->max_tensors, CV_HEADER_SYMBOLS, CV_HEADER_TENSORS);
  if (params->memory != NULL && !(transport->row->kinds >> params->memory->kind & 1))
    return cv_error(CV_UNSUPPORTED, "edge %u: transport %s cannot use slots of memory kind %d",
                    edge, transport->row->name, (int)params->memory->kind);
  return CV_OK;
}

static cv_status allocate(cv_channel *channel) {
  size_t slots = channel->params.slots;
  size_t symbols = channel->params.max_symbols, tensors = channel->params.max_tensors;
  bool consumer = channel->params.role == CV_CONSUMER;
  channel->ring_cap = 2 * (uint32_t)slots + 2;
  channel->entries = cv_alloc(slots, sizeof *channel->entries);
  channel->ring = cv_alloc(channel->ring_cap, sizeof *channel->ring);
  channel->fifo = cv_alloc(slots, sizeof *channel->fifo);
  if (channel->entries == NULL || channel->ring == NULL || channel->fifo == NULL)
    return cv_error_nomem(slots * sizeof *channel->entries);
  if (!consumer) return CV_OK;
  channel->symbols = cv_alloc(slots * symbols + 1, sizeof *channel->symbols);
  channel->tensors = cv_alloc(slots * tensors + 1, sizeof *channel->tensors);
  channel->scratch = cv_alloc(1, channel->header_area);
  if (channel->symbols == NULL || channel->tensors == NULL || channel->scratch == NULL)
    return cv_error_nomem(slots * tensors * sizeof *channel->tensors);
  for (size_t i = 0; i < slots; i++) {
    channel->entries[i].header.symbols = channel->symbols + i * symbols;
    channel->entries[i].header.tensors = channel->tensors + i * tensors;
  }
  return CV_OK;
}

static void destroy(cv_channel *channel) {
  cv_slots_free_all(channel);
  cv_free(channel->entries);
  cv_free(channel->ring);
  cv_free(channel->fifo);
  cv_free(channel->symbols);
  cv_free(channel->tensors);
  cv_free(channel->scratch);
  cv_free(channel);
}

cv_status cv_channel_open(cv_transport *transport, const cv_channel_params *params,
                          const void *peer, size_t peer_size, cv_channel **out_channel) {
  *out_channel = NULL;
  cv_status status = check_params(transport, params);
  if (status != CV_OK) return status;
  cv_channel *channel = cv_alloc(1, sizeof *channel);
  if (channel == NULL) return cv_error_nomem(sizeof *channel);
  bool entered = false;
  channel->transport = transport;
  channel->row = transport->row;
  channel->params = *params;
  if (params->events != NULL) channel->events = *params->events;
  size_t bound = cv_header_bound(params->max_symbols, params->max_tensors);
  channel->header_area = (bound + CV_SLOT_ALIGN - 1) / CV_SLOT_ALIGN * CV_SLOT_ALIGN;
  CV_TRY(allocate(channel));
  if (params->role == CV_CONSUMER)
    CV_TRY(cv_slots_grow(channel, params->slot_bytes));
  else
    channel->hello_due = true;
  CV_TRY(cv_transport_enter(transport, channel));
  entered = true;
  CV_TRY(channel->row->link(channel, peer, peer_size));
  cv_channel_wake(channel);
  *out_channel = channel;
out:
  if (status != CV_OK) {
    if (entered) cv_transport_leave(transport, channel);
    destroy(channel);
    status = cv_error_context(status, "edge %u", params->id.edge);
  }
  return status;
}

/* ---- failure and close ---- */

void cv_channel_fail(cv_channel *channel, cv_status status, const char *text) {
  if (channel->failed != CV_OK || channel->unlinking) return;
  channel->failed = status;
  snprintf(channel->text, sizeof channel->text, "%s", text);
  channel->error_due = true;
  channel->open_due = channel->grant_due = channel->resize_due = false;
  channel->abort_due = !channel->peer_ended;
  cv_window_fail(channel);
  cv_channel_wake(channel);
}

void cv_channel_peer_gone(cv_channel *channel, const char *how) {
  if (channel->peer_ended) return;
  channel->peer_ended = true;
  const cv_edge_id *id = &channel->params.id;
  bool producer = channel->params.role == CV_PRODUCER;
  char text[CV_FAIL_TEXT];
  snprintf(text, sizeof text, "edge %u: the %s (incarnation %016" PRIx64 ") was lost: %s", id->edge,
           producer ? "consumer" : "producer", producer ? id->consumer : id->producer, how);
  cv_channel_fail(channel, CV_PEER_LOST, text);
  cv_channel_wake(channel);
}

void cv_channel_abort(cv_channel *channel) {
  char text[CV_FAIL_TEXT];
  snprintf(text, sizeof text, "edge %u: aborted here", channel->params.id.edge);
  cv_channel_fail(channel, CV_CANCELED, text);
}

void cv_channel_close(cv_channel *channel) {
  if (channel->closing) return;
  channel->closing = true;
  channel->transport->closing++;
  channel->open_due = channel->grant_due = channel->resize_due = channel->error_due = false;
  cv_channel_wake(channel);
}

void cv_channel_unlinked(cv_channel *channel) {
  channel->unlinked = channel->closed_due = true;
  cv_channel_wake(channel);
}

cv_status cv_channel_resize(cv_channel *channel, uint64_t bytes) {
  if (channel->failed != CV_OK) return cv_error(channel->failed, "%s", channel->text);
  if (bytes > channel->params.max_slot_bytes)
    return cv_error(CV_INVALID, "edge %u: slots of %" PRIu64 " bytes, the plan allows %" PRIu64,
                    channel->params.id.edge, bytes, channel->params.max_slot_bytes);
  if (bytes <= cv_channel_slot_bytes(channel)) return CV_OK;
  if (channel->params.role == CV_PRODUCER) {
    channel->ask_due |= bytes > channel->grow_asked;
    if (channel->ask_due) channel->grow_asked = bytes;
  } else {
    cv_status status = cv_slots_grow(channel, bytes);
    if (status != CV_OK) return status;
    channel->resize_due = true;
  }
  cv_channel_wake(channel);
  return CV_OK;
}

/* ---- records out ---- */

static cv_slots *unannounced(const cv_channel *channel) {
  cv_slots *oldest = NULL;
  for (cv_slots *slots = channel->slots; slots != NULL; slots = slots->older)
    if (!slots->announced) oldest = slots;
  return oldest;
}

static bool next_of_consumer(const cv_channel *channel, cv_record *record) {
  if (!channel->peer_here) return false;
  const cv_slots *slots = unannounced(channel);
  if (slots != NULL) {
    record->type = CV_RECORD_SLOTS;
    record->generation = slots->generation;
    record->bytes = slots->slot_bytes;
    record->slots = channel->params.slots;
    record->header_bytes = (uint32_t)channel->header_area;
    return true;
  }
  record->type = CV_RECORD_GRANT;
  record->seq = channel->limit;
  return channel->limit != channel->limit_sent;
}

static bool next_of_producer(const cv_channel *channel, cv_record *record) {
  if (channel->retire_due) {
    record->type = CV_RECORD_RETIRE;
    record->generation = channel->slots->generation;
    return true;
  }
  if (channel->ask_due) {
    record->type = CV_RECORD_RESIZE;
    record->bytes = channel->grow_asked;
    return true;
  }
  if (channel->fifo_len == 0) return false;
  const cv_entry *entry = &channel->entries[channel->fifo[channel->fifo_head]];
  record->type = CV_RECORD_MESSAGE;
  record->seq = entry->seq;
  record->bytes = entry->bytes;
  record->generation = entry->slots->generation;
  record->header_bytes = entry->header_bytes;
  return true;
}

/* The record to send now; false when there is none. */
static bool next_record(const cv_channel *channel, cv_record *record) {
  *record = (cv_record){.magic = CV_RECORD_MAGIC,
                        .from = channel->handle,
                        .to = channel->peer_handle,
                        .id = channel->params.id};
  if (channel->peer_ended || channel->unlinking) return false;
  if (channel->hello_due) {
    record->type = CV_RECORD_HELLO;
    return true;
  }
  if (channel->abort_due) {
    record->type = CV_RECORD_ABORT;
    record->status = (uint32_t)channel->failed;
    return true;
  }
  if (channel->failed != CV_OK) return false;
  bool producer = channel->params.role == CV_PRODUCER;
  if (producer ? next_of_producer(channel, record) : next_of_consumer(channel, record)) return true;
  record->type = CV_RECORD_BYE; /* behind the last message */
  return channel->closing && channel->under_way == 0 && !channel->bye_sent &&
         (producer || channel->peer_here);
}

/* A record was put: what follows from that here. */
static void record_sent(cv_channel *channel, const cv_record *record) {
  cv_entry *entry;
  switch (record->type) {
    case CV_RECORD_HELLO: channel->hello_due = false; break;
    case CV_RECORD_ABORT: channel->abort_due = false; break;
    case CV_RECORD_SLOTS: unannounced(channel)->announced = true; break;
    case CV_RECORD_GRANT: channel->limit_sent = record->seq; break;
    case CV_RECORD_RETIRE: channel->retire_due = false; break;
    case CV_RECORD_RESIZE: channel->ask_due = false; break;
    case CV_RECORD_BYE: channel->bye_sent = true; break;
    case CV_RECORD_MESSAGE:
      entry = &channel->entries[channel->fifo[channel->fifo_head]];
      channel->fifo_head = (channel->fifo_head + 1) % channel->params.slots;
      channel->fifo_len--;
      entry->queued = false;
      entry->put = true;
      channel->under_way++;
      if (channel->row->shares || entry->pending == 0)
        cv_window_sent(channel, entry, entry->status);
      break;
    default: break;
  }
}

static size_t put_records(cv_channel *channel) {
  size_t work = 0;
  cv_record record;
  while (next_record(channel, &record)) {
    cv_status status = channel->row->put(channel, &record);
    if (status == CV_AGAIN) break;
    if (status == CV_PEER_LOST) {
      cv_channel_peer_gone(channel, cv_error_text());
    } else if (status != CV_OK && channel->failed != CV_OK) {
      channel->hello_due = channel->abort_due = false; /* the end of the link will tell the peer */
    } else if (status != CV_OK) {
      cv_channel_fail(channel, status, cv_error_text());
    } else {
      record_sent(channel, &record);
    }
    work++;
  }
  return work;
}

/* ---- records in ---- */

static cv_status take_slots(cv_channel *channel, const cv_record *record) {
  cv_status status = cv_slots_join(channel, record);
  if (status != CV_OK) return status;
  channel->peer_handle = record->from;
  if (!channel->peer_here)
    channel->open_due = true;
  else
    channel->resize_due = true;
  channel->peer_here = true;
  channel->grant_due = channel->limit > 0;
  return CV_OK;
}

static cv_status take_by_producer(cv_channel *channel, const cv_record *record) {
  uint32_t edge = channel->params.id.edge;
  if (record->type == CV_RECORD_SLOTS) return take_slots(channel, record);
  if (record->type != CV_RECORD_GRANT)
    return cv_error(CV_CORRUPT, "edge %u: a record of type %u came", edge, record->type);
  if (record->seq < channel->limit)
    return cv_error(CV_CORRUPT, "edge %u: the granted limit falls from %" PRIu64 " to %" PRIu64,
                    edge, channel->limit, record->seq);
  channel->limit = record->seq;
  channel->grant_due = channel->slots != NULL;
  return CV_OK;
}

static cv_status take_by_consumer(cv_channel *channel, const cv_record *record) {
  uint32_t edge = channel->params.id.edge;
  cv_entry *entry;
  switch (record->type) {
    case CV_RECORD_HELLO:
      if (channel->peer_here) return cv_error(CV_CORRUPT, "edge %u: a second hello", edge);
      channel->peer_here = channel->open_due = true;
      channel->peer_handle = record->from;
      return CV_OK;
    case CV_RECORD_RESIZE:
      if (record->bytes <= cv_channel_slot_bytes(channel)) return CV_OK;
      if (record->bytes > channel->params.max_slot_bytes)
        return cv_error(CV_CORRUPT,
                        "edge %u: the producer asks for slots of %" PRIu64
                        " bytes, the plan allows %" PRIu64,
                        edge, record->bytes, channel->params.max_slot_bytes);
      return cv_channel_resize(channel, record->bytes);
    case CV_RECORD_RETIRE:
      if (record->generation > channel->slots->generation)
        return cv_error(CV_CORRUPT, "edge %u: slots that do not exist were retired", edge);
      if (record->generation > channel->retired) channel->retired = record->generation;
      cv_slots_leave(channel, NULL);
      return CV_OK;
    case CV_RECORD_MESSAGE:
      entry = channel->row->shares ? cv_window_expect(channel, record) : NULL;
      if (entry == NULL) return CV_OK; /* failed by expect, or the row's own affair */
      cv_window_payload_arrived(channel, entry, CV_OK);
      cv_window_header_arrived(channel, entry);
      return CV_OK;
    default: return cv_error(CV_CORRUPT, "edge %u: a record of type %u came", edge, record->type);
  }
}

/* ABORT and BYE: the peer sends nothing more. */
static void take_end(cv_channel *channel, const cv_record *record) {
  uint32_t edge = channel->params.id.edge;
  const char *who = channel->params.role == CV_PRODUCER ? "consumer" : "producer";
  channel->peer_ended = true;
  char text[CV_FAIL_TEXT];
  cv_status status = CV_CANCELED;
  if (record->type == CV_RECORD_BYE) {
    snprintf(text, sizeof text, "edge %u: the %s closed it", edge, who);
  } else {
    if (record->status > CV_OK && record->status <= CV_TIMEOUT) status = record->status;
    snprintf(text, sizeof text, "edge %u: the %s ended it: %s", edge, who, cv_status_text(status));
  }
  cv_channel_fail(channel, status, text);
  cv_channel_wake(channel);
}

void cv_channel_take(cv_channel *channel, const cv_record *record) {
  if (channel->failed != CV_OK || channel->unlinking) {
    channel->peer_ended |= record->type == CV_RECORD_ABORT || record->type == CV_RECORD_BYE;
    cv_channel_wake(channel);
    return;
  }
  cv_status status;
  if (record->magic != CV_RECORD_MAGIC)
    status = cv_error(CV_CORRUPT, "edge %u: a damaged record came", channel->params.id.edge);
  else if (record->type == CV_RECORD_ABORT || record->type == CV_RECORD_BYE)
    return take_end(channel, record);
  else if (channel->params.role == CV_PRODUCER)
    status = take_by_producer(channel, record);
  else
    status = take_by_consumer(channel, record);
  if (status != CV_OK) cv_channel_fail(channel, status, cv_error_text());
  cv_channel_wake(channel);
}

/* ---- callbacks ---- */

void cv_channel_event(cv_channel *channel, cv_event_kind kind, uint64_t seq, cv_status status) {
  uint32_t tail = (channel->ring_head + channel->ring_len++) % channel->ring_cap;
  channel->ring[tail] = (cv_event){kind, status, seq};
  cv_channel_wake(channel);
}

static void make_sent(cv_channel *channel, cv_entry *entry, const cv_event *event) {
  cv_slots *left = entry->slots;
  entry->state = CV_ENTRY_FREE;
  entry->slots = NULL;
  cv_slots_leave(channel, left);
  if (channel->events.on_sent != NULL)
    channel->events.on_sent(channel->events.arg, channel, event->seq, event->status);
}

static void make_arrival(cv_channel *channel, cv_entry *entry, const cv_event *event) {
  const cv_channel_events *events = &channel->events;
  if (event->kind == CV_EVENT_HEADER) {
    entry->told = !channel->closing;
    cv_slot slot = {cv_entry_data(channel, entry), entry->slots->slot_bytes};
    if (entry->told && events->on_header != NULL)
      events->on_header(events->arg, channel, &entry->header, slot);
    return;
  }
  entry->state = CV_ENTRY_READY;
  if (entry->told && events->on_complete != NULL)
    events->on_complete(events->arg, channel, event->seq, event->status);
}

/* Makes the callback that is first in order; false when none is due. */
static bool make_callback(cv_channel *channel) {
  const cv_channel_events *events = &channel->events;
  if (channel->open_due) {
    channel->open_due = false;
    if (events->on_open != NULL) events->on_open(events->arg, channel);
  } else if (channel->resize_due) {
    channel->resize_due = false;
    if (events->on_resize != NULL)
      events->on_resize(events->arg, channel, cv_channel_slot_bytes(channel));
  } else if (channel->grant_due) {
    channel->grant_due = false;
    if (events->on_grant != NULL) events->on_grant(events->arg, channel, channel->limit);
  } else if (channel->ring_len > 0) {
    cv_event event = channel->ring[channel->ring_head];
    channel->ring_head = (channel->ring_head + 1) % channel->ring_cap;
    channel->ring_len--;
    cv_entry *entry = cv_window_entry(channel, event.seq);
    if (event.kind == CV_EVENT_SENT)
      make_sent(channel, entry, &event);
    else
      make_arrival(channel, entry, &event);
  } else if (channel->error_due) {
    channel->error_due = false;
    if (events->on_error != NULL)
      events->on_error(events->arg, channel, channel->failed, channel->text);
  } else {
    return false;
  }
  return true;
}

/* Nothing more to say to the peer, or nobody to say it to. */
static bool may_unlink(const cv_channel *channel) {
  if (!channel->closing || channel->unlinking) return false;
  if (channel->failed != CV_OK || channel->peer_ended || channel->bye_sent) return true;
  return channel->params.role == CV_CONSUMER && !channel->peer_here;
}

size_t cv_channel_turn(cv_channel *channel) {
  size_t work = put_records(channel);
  if (may_unlink(channel)) {
    channel->unlinking = true;
    channel->row->unlink(channel);
    work++;
  }
  while (make_callback(channel)) work++;
  if (!channel->closed_due) return work;
  channel->transport->closing--;
  cv_transport_leave(channel->transport, channel);
  if (channel->events.on_closed != NULL) channel->events.on_closed(channel->events.arg, channel);
  destroy(channel);
  return work + 1;
}
