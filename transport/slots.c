/* Generations of slots: made by the consumer, viewed by the producer, grown between micro-batches,
 * freed when neither end uses them. */
#include <inttypes.h>

#include "transport/transport_internal.h"

size_t cv_slots_data_bytes(const cv_channel *channel, const cv_slots *slots) {
  return slots->stride * channel->params.slots;
}

cv_status cv_slots_alloc(cv_channel *channel, cv_slots *slots) {
  const cv_slot_memory *memory = channel->params.memory;
  size_t header_bytes = channel->header_area * channel->params.slots;
  size_t data_bytes = cv_slots_data_bytes(channel, slots);
  slots->headers = cv_alloc_aligned(CV_SLOT_ALIGN, header_bytes);
  if (slots->headers == NULL) return cv_error_nomem(header_bytes);
  if (data_bytes == 0) return CV_OK;
  if (memory == NULL)
    slots->data = cv_alloc_aligned(CV_SLOT_ALIGN, data_bytes);
  else if (!cv_fault())
    slots->data = memory->alloc(memory->arg, data_bytes);
  return slots->data != NULL ? CV_OK : cv_error_nomem(data_bytes);
}

void cv_slots_release(cv_channel *channel, cv_slots *slots) {
  const cv_slot_memory *memory = channel->params.memory;
  cv_free(slots->headers);
  if (memory == NULL)
    cv_free(slots->data);
  else if (slots->data != NULL)
    memory->free(memory->arg, slots->data);
  slots->headers = slots->data = NULL;
}

static cv_status create(cv_channel *channel, uint32_t generation, uint64_t bytes,
                        cv_slots **out_slots) {
  *out_slots = NULL;
  if (bytes > channel->params.max_slot_bytes)
    return cv_error(CV_INVALID, "edge %u: a slot of %" PRIu64 " bytes, the plan allows %" PRIu64,
                    channel->params.id.edge, bytes, channel->params.max_slot_bytes);
  cv_slots *slots = cv_alloc(1, sizeof *slots);
  if (slots == NULL) return cv_error_nomem(sizeof *slots);
  slots->generation = generation;
  slots->slot_bytes = bytes;
  slots->stride = (size_t)((bytes + CV_SLOT_ALIGN - 1) / CV_SLOT_ALIGN * CV_SLOT_ALIGN);
  slots->fd = -1;
  *out_slots = slots;
  return CV_OK;
}

static void add(cv_channel *channel, cv_slots *slots) {
  slots->older = channel->slots;
  channel->slots = slots;
}

cv_status cv_slots_grow(cv_channel *channel, uint64_t bytes) {
  cv_slots *slots;
  uint32_t generation = channel->slots == NULL ? 1 : channel->slots->generation + 1;
  cv_status status = create(channel, generation, bytes, &slots);
  if (status != CV_OK) return status;
  status = channel->row->slots_make(channel, slots);
  if (status != CV_OK) {
    channel->row->slots_free(channel, slots);
    cv_free(slots);
    return cv_error_context(status, "edge %u: %u slots of %" PRIu64 " bytes",
                            channel->params.id.edge, channel->params.slots, bytes);
  }
  add(channel, slots);
  return CV_OK;
}

cv_status cv_slots_join(cv_channel *channel, const cv_record *record) {
  uint32_t edge = channel->params.id.edge;
  if (record->slots != channel->params.slots || record->header_bytes != channel->header_area)
    return cv_error(CV_INVALID,
                    "edge %u: the producer was told %u slots with %zu header bytes, the consumer "
                    "%u with %u: give both ends one plan",
                    edge, channel->params.slots, channel->header_area, record->slots,
                    record->header_bytes);
  if (channel->slots != NULL && record->generation <= channel->slots->generation)
    return cv_error(CV_CORRUPT, "edge %u: slot generation %u came after %u", edge,
                    record->generation, channel->slots->generation);
  cv_slots *slots;
  cv_status status = create(channel, record->generation, record->bytes, &slots);
  if (status != CV_OK) return status;
  status = channel->row->slots_view(channel, record, slots);
  if (status != CV_OK) {
    channel->row->slots_free(channel, slots);
    cv_free(slots);
    return cv_error_context(status, "edge %u: slots of the consumer", edge);
  }
  add(channel, slots);
  cv_slots_leave(channel, NULL);
  return CV_OK;
}

cv_slots *cv_slots_find(cv_channel *channel, uint32_t generation) {
  cv_slots *slots = channel->slots;
  while (slots != NULL && slots->generation != generation) slots = slots->older;
  return slots;
}

void cv_slots_leave(cv_channel *channel, cv_slots *left) {
  if (left != NULL) left->users--;
  if (channel->slots == NULL) return;
  bool producer = channel->params.role == CV_PRODUCER;
  uint32_t below = producer ? channel->slots->generation : channel->retired;
  bool had_older = channel->slots->older != NULL;
  for (cv_slots **link = &channel->slots->older; *link != NULL;) {
    cv_slots *slots = *link;
    if (slots->users > 0 || slots->generation >= below) {
      link = &slots->older;
      continue;
    }
    *link = slots->older;
    channel->row->slots_free(channel, slots);
    cv_free(slots);
  }
  if (producer && had_older && channel->slots->older == NULL) {
    channel->retire_due = true;
    cv_channel_wake(channel);
  }
}

void cv_slots_free_all(cv_channel *channel) {
  while (channel->slots != NULL) {
    cv_slots *slots = channel->slots;
    channel->slots = slots->older;
    channel->row->slots_free(channel, slots);
    cv_free(slots);
  }
}
