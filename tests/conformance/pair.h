/* Two ends of an edge over any row, and a record of what their callbacks said. */
#ifndef CV_TESTS_CONFORMANCE_PAIR_H
#define CV_TESTS_CONFORMANCE_PAIR_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/transport.h"

enum { SEQS = 64, PATIENCE_S = 20 };

/* What one channel's callbacks said. */
typedef struct {
  cv_channel *channel;
  bool calling;   /* a verb of the library is running: no callback may come */
  bool automatic; /* consumer: each completed message is freed at once */
  int opened, resized, errors, closed;
  uint64_t limit, slots, slot_bytes;
  cv_status error;
  char text[256];
  int sent[SEQS], headers[SEQS], completed[SEQS];
  cv_status sent_status[SEQS], status[SEQS];
  const cv_header *header[SEQS];
  cv_slot slot[SEQS];
  uint64_t received;
} end;

typedef struct {
  const cv_transport_row *row;
  cv_hub *hub;
  cv_transport *transports[2]; /* producer's, consumer's */
  end producer, consumer;
} pair;

static inline void on_open(void *arg, cv_channel *channel) {
  end *self = arg;
  (void)channel;
  assert_false(self->calling);
  self->opened++;
}

static inline void on_grant(void *arg, cv_channel *channel, uint64_t limit) {
  end *self = arg;
  (void)channel;
  assert_false(self->calling);
  assert_int_equal(self->errors, 0);
  assert_true(limit >= self->limit);
  self->limit = limit;
}

static inline void on_sent(void *arg, cv_channel *channel, uint64_t seq, cv_status status) {
  end *self = arg;
  (void)channel;
  assert_false(self->calling);
  assert_int_equal(self->closed, 0);
  self->sent[seq % SEQS]++;
  self->sent_status[seq % SEQS] = status;
}

static inline void on_header(void *arg, cv_channel *channel, const cv_header *header,
                             cv_slot slot) {
  end *self = arg;
  (void)channel;
  assert_false(self->calling);
  assert_int_equal(self->errors, 0);
  self->headers[header->seq % SEQS]++;
  self->header[header->seq % SEQS] = header;
  self->slot[header->seq % SEQS] = slot;
}

static inline void on_complete(void *arg, cv_channel *channel, uint64_t seq, cv_status status) {
  end *self = arg;
  assert_false(self->calling);
  assert_int_equal(self->closed, 0);
  self->completed[seq % SEQS]++;
  assert_int_equal(self->headers[seq % SEQS], self->completed[seq % SEQS]);
  self->status[seq % SEQS] = status;
  self->received++;
  if (self->automatic && status == CV_OK) (void)!cv_channel_grant(channel, seq + 1 + self->slots);
}

static inline void on_resize(void *arg, cv_channel *channel, uint64_t bytes) {
  end *self = arg;
  assert_false(self->calling);
  assert_int_equal(bytes, cv_channel_slot_bytes(channel));
  self->resized++;
  self->slot_bytes = bytes;
}

static inline void on_error(void *arg, cv_channel *channel, cv_status status, const char *text) {
  end *self = arg;
  (void)channel;
  assert_false(self->calling);
  self->errors++;
  self->error = status;
  strncpy(self->text, text, sizeof self->text - 1);
}

static inline void on_closed(void *arg, cv_channel *channel) {
  end *self = arg;
  assert_false(self->calling);
  assert_ptr_equal(self->channel, channel);
  self->closed++;
  self->channel = NULL;
}

static inline cv_channel_events events_of(end *self) {
  return (cv_channel_events){.arg = self,
                             .on_open = on_open,
                             .on_grant = on_grant,
                             .on_sent = on_sent,
                             .on_header = on_header,
                             .on_complete = on_complete,
                             .on_resize = on_resize,
                             .on_error = on_error,
                             .on_closed = on_closed};
}

static inline cv_channel_params usual_params(void) {
  return (cv_channel_params){.id = {.deployment = 7,
                                    .epoch_term = 1234567890123,
                                    .epoch_number = 2,
                                    .edge = 3,
                                    .producer = 11,
                                    .consumer = 12},
                             .slots = 4,
                             .slot_bytes = 4096,
                             .max_slot_bytes = 32u << 20,
                             .max_symbols = 8,
                             .max_tensors = 8};
}

static inline cv_status open_transports(pair *both) {
  cv_status status = CV_OK;
  if (strcmp(cv_transport_row_name(both->row), "inproc") == 0) status = cv_hub_create(&both->hub);
  for (int i = 0; i < 2 && status == CV_OK; i++)
    status = cv_transport_open(both->row, both->hub, &both->transports[i]);
  return status;
}

static inline void close_transports(pair *both) {
  for (int i = 0; i < 2; i++) cv_transport_close(both->transports[i]);
  cv_hub_destroy(both->hub);
}

/* Opens one end; `role` in params decides which. */
static inline cv_status open_end(pair *both, const cv_channel_params *params, end *self) {
  uint8_t address[CV_ADDRESS_MAX];
  size_t size;
  cv_channel_params own = *params;
  cv_channel_events events = events_of(self);
  own.events = &events;
  self->slots = params->slots;
  self->calling = true;
  int mine = params->role == CV_PRODUCER ? 0 : 1;
  cv_status status = cv_transport_address(both->transports[!mine], address, sizeof address, &size);
  if (status == CV_OK)
    status = cv_channel_open(both->transports[mine], &own, address, size, &self->channel);
  self->calling = false;
  return status;
}

static inline size_t turn(pair *both) {
  return cv_transport_progress(both->transports[0]) + cv_transport_progress(both->transports[1]);
}

static inline int64_t patience(void) { return cv_clock_ns() + PATIENCE_S * (int64_t)1000000000; }

static inline void turn_or_fail(pair *both, int64_t end_ns, const char *condition) {
  if (turn(both) == 0 && cv_clock_ns() > end_ns)
    fail_msg("never: %s (%s; %s)", condition, both->producer.text, both->consumer.text);
}

/* Progresses both ends until the condition holds; fails the test when it never does. */
#define pump_until(both, condition) \
  for (int64_t end_ns_ = patience(); !(condition);) turn_or_fail(both, end_ns_, #condition)

/* Progresses until nothing moves any more for 20 ms. */
static inline void settle(pair *both) {
  int64_t quiet = cv_clock_ns();
  while (cv_clock_ns() - quiet < 20000000)
    if (turn(both) > 0) quiet = cv_clock_ns();
}

static inline void open_pair(pair *both, const cv_channel_params *params) {
  cv_channel_params own = *params;
  own.role = CV_CONSUMER;
  assert_int_equal(open_end(both, &own, &both->consumer), CV_OK);
  own.role = CV_PRODUCER;
  assert_int_equal(open_end(both, &own, &both->producer), CV_OK);
  pump_until(both, both->producer.opened == 1 && both->consumer.opened == 1);
}

static inline void close_pair(pair *both) {
  end *ends[2] = {&both->producer, &both->consumer};
  for (int i = 0; i < 2; i++)
    if (ends[i]->channel != NULL) {
      ends[i]->calling = true;
      cv_channel_close(ends[i]->channel);
      cv_channel_close(ends[i]->channel);
      ends[i]->calling = false;
    }
  pump_until(both, both->producer.channel == NULL && both->consumer.channel == NULL);
  assert_int_equal(both->producer.closed, 1);
  assert_int_equal(both->consumer.closed, 1);
}

static inline cv_status grant(end *self, uint64_t limit) {
  self->calling = true;
  cv_status status = cv_channel_grant(self->channel, limit);
  self->calling = false;
  return status;
}

static inline cv_status acquire(end *self, uint64_t seq, uint64_t bytes, cv_slot *slot) {
  self->calling = true;
  cv_status status = cv_channel_acquire(self->channel, seq, bytes, slot);
  self->calling = false;
  return status;
}

#endif
