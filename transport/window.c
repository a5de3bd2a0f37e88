/* The window by sequence number: acquire and send at the producer, grant and arrival at the
 * consumer. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "transport/transport_internal.h"

uint64_t cv_window_lowest(const cv_channel *channel) {
  uint32_t slots = channel->params.slots;
  return channel->limit > slots ? channel->limit - slots : 0;
}

cv_entry *cv_window_entry(cv_channel *channel, uint64_t seq) {
  return &channel->entries[seq % channel->params.slots];
}

uint8_t *cv_entry_header(const cv_channel *channel, const cv_entry *entry) {
  size_t index = (size_t)(entry - channel->entries);
  return entry->slots->headers + index * channel->header_area;
}

/* With slots of 0 bytes: some valid address, never read. */
uint8_t *cv_entry_data(const cv_channel *channel, const cv_entry *entry) {
  size_t index = (size_t)(entry - channel->entries);
  if (entry->slots->data == NULL) return entry->slots->headers;
  return entry->slots->data + index * entry->slots->stride;
}

static cv_status failed(const cv_channel *channel) {
  return cv_error(channel->failed, "%s", channel->text);
}

static cv_status wrong_role(const cv_channel *channel, const char *verb) {
  return cv_error(CV_INVALID, "edge %u: %s is a verb of the other end", channel->params.id.edge,
                  verb);
}

static uint64_t payload_checksum(const cv_header *header, const uint8_t *data) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < header->tensor_count; i++) {
    const cv_tensor_header *tensor = &header->tensors[i];
    if (tensor->bytes > 0) sum = XXH3_64bits_withSeed(data + tensor->offset, tensor->bytes, sum);
  }
  return sum;
}

/* ---- producer ---- */

/* Asks the consumer for larger slots, once per size. */
static void ask(cv_channel *channel, uint64_t bytes) {
  if (bytes <= channel->grow_asked) return;
  channel->grow_asked = bytes;
  channel->ask_due = true;
  cv_channel_wake(channel);
}

static void enter(cv_entry *entry, uint64_t seq, cv_slots *slots) {
  entry->seq = seq;
  entry->slots = slots;
  slots->users++;
}

cv_status cv_channel_acquire(cv_channel *channel, uint64_t seq, uint64_t bytes, cv_slot *out_slot) {
  *out_slot = (cv_slot){0};
  uint32_t edge = channel->params.id.edge;
  if (channel->params.role != CV_PRODUCER) return wrong_role(channel, "acquire");
  if (channel->failed != CV_OK) return failed(channel);
  if (channel->closing) return cv_error(CV_CANCELED, "edge %u: it is being closed", edge);
  if (bytes > channel->params.max_slot_bytes)
    return cv_error(CV_INVALID,
                    "edge %u: micro-batch %" PRIu64 " needs %" PRIu64
                    " bytes, the plan allows %" PRIu64 " a slot",
                    edge, seq, bytes, channel->params.max_slot_bytes);
  if (seq < cv_window_lowest(channel))
    return cv_error(CV_INVALID,
                    "edge %u: micro-batch %" PRIu64 " is behind the window, limit %" PRIu64, edge,
                    seq, channel->limit);
  if (seq >= channel->limit || channel->slots == NULL) return CV_AGAIN;
  cv_entry *entry = cv_window_entry(channel, seq);
  if (entry->state == CV_ENTRY_SENDING && entry->seq != seq) return CV_AGAIN;
  if (entry->state == CV_ENTRY_SENDING || (entry->ever && entry->seq == seq))
    return cv_error(CV_INVALID, "edge %u: micro-batch %" PRIu64 " was sent already", edge, seq);
  if (entry->state == CV_ENTRY_ACQUIRED && entry->seq != seq)
    return cv_error(CV_INVALID,
                    "edge %u: micro-batch %" PRIu64 " acquired its slot and was never sent", edge,
                    entry->seq);
  if (entry->state == CV_ENTRY_ACQUIRED && entry->slots->slot_bytes < bytes) {
    entry->state = CV_ENTRY_FREE;
    cv_slots *left = entry->slots;
    entry->slots = NULL;
    cv_slots_leave(channel, left);
  }
  if (entry->state == CV_ENTRY_FREE) {
    if (channel->slots->slot_bytes < bytes) {
      ask(channel, bytes);
      return CV_AGAIN;
    }
    enter(entry, seq, channel->slots);
    entry->ever = false;
    entry->state = CV_ENTRY_ACQUIRED;
  }
  *out_slot = (cv_slot){cv_entry_data(channel, entry), entry->slots->slot_bytes};
  return CV_OK;
}

static void vacate(cv_channel *channel, cv_entry *entry) {
  cv_slots *left = entry->slots;
  entry->state = CV_ENTRY_FREE;
  entry->slots = NULL;
  cv_slots_leave(channel, left);
}

void cv_channel_release(cv_channel *channel, uint64_t seq) {
  cv_entry *entry = cv_window_entry(channel, seq);
  if (channel->params.role == CV_PRODUCER && entry->state == CV_ENTRY_ACQUIRED && entry->seq == seq)
    vacate(channel, entry);
}

static cv_status check_send(cv_channel *channel, const cv_header *header,
                            const cv_segment *segments) {
  uint32_t edge = channel->params.id.edge;
  if (channel->params.role != CV_PRODUCER) return wrong_role(channel, "send");
  if (channel->failed != CV_OK) return failed(channel);
  if (channel->closing) return cv_error(CV_CANCELED, "edge %u: it is being closed", edge);
  cv_entry *entry = cv_window_entry(channel, header->seq);
  if (entry->state != CV_ENTRY_ACQUIRED || entry->seq != header->seq)
    return cv_error(CV_INVALID, "edge %u: micro-batch %" PRIu64 " has not acquired its slot", edge,
                    header->seq);
  if (header->symbol_count > channel->params.max_symbols ||
      header->tensor_count > channel->params.max_tensors)
    return cv_error(CV_INVALID, "edge %u: %u symbols and %u tensors, the plan allows %u and %u",
                    edge, header->symbol_count, header->tensor_count, channel->params.max_symbols,
                    channel->params.max_tensors);
  uint64_t payload = cv_header_payload(header);
  if (payload > entry->slots->slot_bytes)
    return cv_error(CV_INVALID,
                    "edge %u: micro-batch %" PRIu64 " has %" PRIu64 " bytes, its slot %" PRIu64,
                    edge, header->seq, payload, entry->slots->slot_bytes);
  if (cv_channel_memory(channel) != CV_MEMORY_DEVICE) return CV_OK;
  if (header->flags & CV_HEADER_CHECKSUM)
    return cv_error(CV_UNSUPPORTED, "edge %u: no checksum over device memory", edge);
  for (uint32_t i = 0; segments != NULL && i < header->tensor_count; i++)
    if (segments[i].data != NULL && header->tensors[i].bytes > 0)
      return cv_error(CV_UNSUPPORTED, "edge %u: tensor %u must be in its slot of device memory",
                      edge, i);
  return CV_OK;
}

static void copy_segments(const cv_header *header, const cv_segment *segments, uint8_t *data) {
  for (uint32_t i = 0; i < header->tensor_count; i++) {
    const cv_tensor_header *tensor = &header->tensors[i];
    uint8_t *at = data + tensor->offset;
    if (tensor->bytes > 0 && segments[i].data != NULL && segments[i].data != at)
      memcpy(at, segments[i].data, tensor->bytes);
  }
}

cv_status cv_channel_send(cv_channel *channel, cv_header *header, const cv_segment *segments) {
  const cv_edge_id *id = &channel->params.id;
  header->deployment = id->deployment;
  header->epoch_term = id->epoch_term;
  header->epoch_number = id->epoch_number;
  header->edge = id->edge;
  header->checksum = 0;
  cv_status status = check_send(channel, header, segments);
  if (status != CV_OK) return status;
  cv_entry *entry = cv_window_entry(channel, header->seq);
  size_t size;
  uint8_t *area = cv_entry_header(channel, entry);
  status = cv_header_encode(header, area, channel->header_area, &size);
  if (status != CV_OK) return cv_error_context(status, "edge %u", id->edge);
  uint8_t *data = cv_entry_data(channel, entry);
  if (segments != NULL) copy_segments(header, segments, data);
  if (header->flags & CV_HEADER_CHECKSUM) {
    header->checksum = payload_checksum(header, data);
    status = cv_header_encode(header, area, channel->header_area, &size);
    if (status != CV_OK) return status;
  }
  entry->state = CV_ENTRY_SENDING;
  entry->ever = entry->queued = true;
  entry->status = CV_OK;
  entry->bytes = cv_header_payload(header);
  entry->header_bytes = (uint32_t)size;
  uint32_t tail = (channel->fifo_head + channel->fifo_len++) % channel->params.slots;
  channel->fifo[tail] = (uint32_t)(entry - channel->entries);
  cv_channel_wake(channel);
  return CV_OK;
}

void cv_window_sent(cv_channel *channel, cv_entry *entry, cv_status status) {
  if (entry->put) channel->under_way--;
  entry->queued = entry->put = false;
  cv_channel_event(channel, CV_EVENT_SENT, entry->seq, status);
}

/* ---- consumer ---- */

cv_status cv_channel_grant(cv_channel *channel, uint64_t limit) {
  uint32_t edge = channel->params.id.edge, slots = channel->params.slots;
  if (channel->params.role != CV_CONSUMER) return wrong_role(channel, "grant");
  if (channel->failed != CV_OK) return failed(channel);
  if (limit < channel->limit)
    return cv_error(CV_INVALID, "edge %u: the limit falls from %" PRIu64 " to %" PRIu64, edge,
                    channel->limit, limit);
  uint64_t lowest = limit > slots ? limit - slots : 0;
  for (uint32_t i = 0; i < slots; i++) {
    const cv_entry *entry = &channel->entries[i];
    if (entry->state == CV_ENTRY_FREE || entry->seq >= lowest) continue;
    if (entry->state != CV_ENTRY_READY)
      return cv_error(CV_INVALID,
                      "edge %u: limit %" PRIu64 " frees micro-batch %" PRIu64
                      ", which is still arriving",
                      edge, limit, entry->seq);
  }
  for (uint32_t i = 0; i < slots; i++) {
    cv_entry *entry = &channel->entries[i];
    if (entry->state != CV_ENTRY_FREE && entry->seq < lowest) vacate(channel, entry);
  }
  channel->limit = limit;
  cv_channel_wake(channel);
  return CV_OK;
}

static cv_entry *damaged(cv_channel *channel, const cv_record *record, const char *what) {
  char text[CV_FAIL_TEXT];
  snprintf(text, sizeof text, "edge %u: a message for micro-batch %" PRIu64 " came with %s",
           channel->params.id.edge, record->seq, what);
  cv_channel_fail(channel, CV_CORRUPT, text);
  return NULL;
}

cv_entry *cv_window_expect(cv_channel *channel, const cv_record *record) {
  if (channel->failed != CV_OK) return NULL;
  if (record->seq < cv_window_lowest(channel) || record->seq >= channel->limit)
    return damaged(channel, record, "a sequence number outside the window");
  cv_entry *entry = cv_window_entry(channel, record->seq);
  if (entry->state == CV_ENTRY_FREE) {
    cv_slots *slots = cv_slots_find(channel, record->generation);
    if (slots == NULL) return damaged(channel, record, "slots that do not exist");
    if (record->bytes > slots->slot_bytes) return damaged(channel, record, "more than its slot");
    if (record->header_bytes == 0 || record->header_bytes > channel->header_area)
      return damaged(channel, record, "a header out of bounds");
    enter(entry, record->seq, slots);
    entry->state = CV_ENTRY_EXPECTED;
    entry->seen = 0;
    entry->pending = 0;
    entry->got_payload = entry->told = false;
    entry->status = CV_OK;
    entry->bytes = record->bytes;
    entry->header_bytes = record->header_bytes;
  }
  uint8_t bit = record->type == CV_RECORD_PAYLOAD ? CV_SEEN_PAYLOAD : CV_SEEN_MESSAGE;
  if (entry->seq != record->seq || (entry->seen & bit) || entry->bytes != record->bytes ||
      entry->header_bytes != record->header_bytes || entry->slots->generation != record->generation)
    return damaged(channel, record, "a slot that is in use");
  entry->seen |= bit;
  return entry;
}

static void complete(cv_channel *channel, cv_entry *entry) {
  if (entry->status == CV_OK && (entry->header.flags & CV_HEADER_CHECKSUM) &&
      cv_channel_memory(channel) != CV_MEMORY_DEVICE &&
      payload_checksum(&entry->header, cv_entry_data(channel, entry)) != entry->header.checksum)
    entry->status = CV_CORRUPT;
  entry->state = CV_ENTRY_ARRIVED;
  cv_channel_event(channel, CV_EVENT_COMPLETE, entry->seq, entry->status);
}

static cv_status read_header(cv_channel *channel, cv_entry *entry) {
  const cv_edge_id *id = &channel->params.id;
  /* a copy first: the producer may still write where the header lies */
  memcpy(channel->scratch, cv_entry_header(channel, entry), entry->header_bytes);
  cv_header *header = &entry->header;
  cv_status status =
      cv_header_decode(channel->scratch, entry->header_bytes, channel->params.max_symbols,
                       channel->params.max_tensors, header);
  if (status != CV_OK) return cv_error_context(status, "edge %u", id->edge);
  if (header->deployment != id->deployment || header->epoch_term != id->epoch_term ||
      header->epoch_number != id->epoch_number || header->edge != id->edge ||
      header->seq != entry->seq)
    return cv_error(CV_CORRUPT, "edge %u: a message for edge %u, micro-batch %" PRIu64 " came",
                    id->edge, header->edge, header->seq);
  if (cv_header_payload(header) != entry->bytes)
    return cv_error(CV_CORRUPT,
                    "edge %u: micro-batch %" PRIu64 ": %" PRIu64 " bytes by its header, %" PRIu64
                    " sent",
                    id->edge, header->seq, cv_header_payload(header), entry->bytes);
  return CV_OK;
}

void cv_window_header_arrived(cv_channel *channel, cv_entry *entry) {
  if (channel->failed != CV_OK) return;
  cv_status status = read_header(channel, entry);
  if (status != CV_OK) {
    cv_channel_fail(channel, status, cv_error_text());
    return;
  }
  entry->state = CV_ENTRY_ARRIVING;
  cv_channel_event(channel, CV_EVENT_HEADER, entry->seq, CV_OK);
  if (entry->got_payload || entry->bytes == 0) complete(channel, entry);
}

void cv_window_payload_arrived(cv_channel *channel, cv_entry *entry, cv_status status) {
  entry->got_payload = true;
  if (status != CV_OK) entry->status = status;
  if (entry->state == CV_ENTRY_ARRIVING) complete(channel, entry);
}

/* ---- both ---- */

void cv_window_fail(cv_channel *channel) {
  for (uint32_t i = 0; i < channel->params.slots; i++) {
    cv_entry *entry = &channel->entries[i];
    if (entry->state == CV_ENTRY_SENDING && entry->queued)
      cv_window_sent(channel, entry, channel->failed);
    if (entry->state == CV_ENTRY_ARRIVING && entry->pending == 0) {
      entry->status = channel->failed;
      complete(channel, entry);
    }
  }
  channel->fifo_len = 0;
}
