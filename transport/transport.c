/* A transport: its list of channels, progress, arm and wait. */
#include "transport/transport.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/transport_internal.h"

enum {
  TURNS = 1024,                /* most channels served by one progress */
  WAIT_MAX = 16,               /* most transports of one wait */
  CLOSE_NS = 3000000000,       /* patience of cv_transport_close */
  CLOSING_POLL_NS = 100000000, /* longest sleep while channels close: rows count time */
};

cv_status cv_transport_open(const cv_transport_row *row, cv_hub *hub,
                            cv_transport **out_transport) {
  *out_transport = NULL;
  cv_transport *transport = cv_alloc(1, sizeof *transport);
  if (transport == NULL) return cv_error_nomem(sizeof *transport);
  transport->row = row;
  transport->active_tail = &transport->active;
  cv_status status = row->open(transport, hub);
  if (status != CV_OK) {
    cv_free(transport);
    return cv_error_context(status, "transport %s", row->name);
  }
  *out_transport = transport;
  return CV_OK;
}

void cv_transport_close(cv_transport *transport) {
  if (transport == NULL) return;
  for (cv_channel *channel = transport->channels; channel != NULL; channel = channel->next) {
    cv_channel_abort(channel);
    cv_channel_close(channel);
  }
  int64_t deadline = cv_clock_ns() + CLOSE_NS;
  while (transport->channels != NULL && cv_clock_ns() < deadline)
    if (cv_transport_progress(transport) == 0) cv_clock_sleep_until(cv_clock_ns() + 200000);
  if (transport->channels != NULL) {
    cv_log_error("transport %s: operations never ended; their memory stays", transport->row->name);
    return;
  }
  transport->row->close(transport);
  cv_free(transport->table);
  cv_free(transport);
}

cv_status cv_transport_address(const cv_transport *transport, void *buffer, size_t cap,
                               size_t *out_size) {
  *out_size = 0;
  return transport->row->address(transport, buffer, cap, out_size);
}

cv_status cv_transport_reach(cv_transport *transport, const void *address, size_t size) {
  return transport->row->reach(transport, address, size);
}

int cv_transport_fd(const cv_transport *transport) { return transport->row->fd(transport); }

void cv_transport_abort(cv_transport *transport, uint64_t deployment, uint64_t epoch_term,
                        uint32_t epoch_number) {
  for (cv_channel *channel = transport->channels; channel != NULL; channel = channel->next) {
    const cv_edge_id *id = &channel->params.id;
    if (id->deployment == deployment && id->epoch_term == epoch_term &&
        id->epoch_number == epoch_number)
      cv_channel_abort(channel);
  }
}

/* ---- the channels of a transport ---- */

static cv_status free_index(cv_transport *transport, uint32_t *out_index) {
  uint32_t cap = transport->table_cap;
  for (*out_index = 0; *out_index < cap; ++*out_index)
    if (transport->table[*out_index] == NULL) return CV_OK;
  uint32_t grown = cap == 0 ? 16 : cap * 2;
  cv_channel **table = cv_realloc(transport->table, grown, sizeof(cv_channel *));
  if (table == NULL) return cv_error_nomem(grown * sizeof(cv_channel *));
  memset(table + cap, 0, (grown - cap) * sizeof(cv_channel *));
  transport->table = table;
  transport->table_cap = grown;
  return CV_OK;
}

cv_status cv_transport_enter(cv_transport *transport, cv_channel *channel) {
  uint32_t index;
  cv_status status = free_index(transport, &index);
  if (status != CV_OK) return status;
  transport->table[index] = channel;
  channel->handle = (uint64_t)++transport->serial << 32 | index;
  channel->next = transport->channels;
  if (channel->next != NULL) channel->next->prev = channel;
  transport->channels = channel;
  return CV_OK;
}

void cv_transport_leave(cv_transport *transport, cv_channel *channel) {
  transport->table[(uint32_t)channel->handle] = NULL;
  if (channel->next != NULL) channel->next->prev = channel->prev;
  if (channel->prev != NULL)
    channel->prev->next = channel->next;
  else
    transport->channels = channel->next;
  if (!channel->active) return;
  cv_channel **link = &transport->active;
  while (*link != channel) link = &(*link)->next_active;
  *link = channel->next_active;
  if (transport->active_tail == &channel->next_active) transport->active_tail = link;
}

cv_channel *cv_transport_channel(const cv_transport *transport, uint64_t handle) {
  uint32_t index = (uint32_t)handle;
  if (index >= transport->table_cap) return NULL;
  cv_channel *channel = transport->table[index];
  return channel != NULL && channel->handle == handle ? channel : NULL;
}

cv_channel *cv_transport_awaiting(const cv_transport *transport, const cv_edge_id *id) {
  for (cv_channel *channel = transport->channels; channel != NULL; channel = channel->next)
    if (channel->params.role == CV_CONSUMER && !channel->peer_here && !channel->unlinking &&
        channel->failed == CV_OK && cv_edge_same(&channel->params.id, id))
      return channel;
  return NULL;
}

void cv_channel_wake(cv_channel *channel) {
  if (channel->active) return;
  cv_transport *transport = channel->transport;
  channel->active = true;
  channel->next_active = NULL;
  *transport->active_tail = channel;
  transport->active_tail = &channel->next_active;
}

/* ---- progress ---- */

static size_t run_active(cv_transport *transport) {
  size_t work = 0;
  for (int turn = 0; turn < TURNS && transport->active != NULL; turn++) {
    cv_channel *channel = transport->active;
    transport->active = channel->next_active;
    if (transport->active == NULL) transport->active_tail = &transport->active;
    channel->active = false;
    work += cv_channel_turn(channel);
  }
  return work;
}

size_t cv_transport_progress(cv_transport *transport) {
  if (transport->in_progress) return 0;
  transport->in_progress = true;
  size_t work = transport->row->progress(transport);
  work += run_active(transport);
  transport->in_progress = false;
  return work;
}

cv_status cv_transport_arm(cv_transport *transport) {
  if (transport->active != NULL) return CV_AGAIN;
  return transport->row->arm(transport);
}

static size_t progress_all(cv_transport *const *transports, size_t count) {
  size_t work = 0;
  for (size_t i = 0; i < count; i++) work += cv_transport_progress(transports[i]);
  return work;
}

static bool readable(int fd) {
  struct pollfd item = {.fd = fd, .events = POLLIN};
  return fd >= 0 && poll(&item, 1, 0) > 0;
}

/* Arms all and sleeps on all; CV_AGAIN: do not sleep, progress. */
static cv_status sleep_on(cv_transport *const *transports, size_t count, int extra_fd,
                          int64_t deadline_ns) {
  struct pollfd items[WAIT_MAX + 1];
  bool closing = false;
  for (size_t i = 0; i < count; i++) {
    cv_status status = cv_transport_arm(transports[i]);
    if (status != CV_OK) return status;
    items[i] = (struct pollfd){.fd = cv_transport_fd(transports[i]), .events = POLLIN};
    closing |= transports[i]->closing > 0;
  }
  items[count] = (struct pollfd){.fd = extra_fd, .events = POLLIN};
  int64_t left = deadline_ns - cv_clock_ns();
  if (closing && left > CLOSING_POLL_NS) left = CLOSING_POLL_NS;
  if (left < 0) left = 0;
  struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
  if (cv_fault() || (ppoll(items, count + 1, &limit, NULL) < 0 && errno != EINTR))
    return cv_error(CV_IO, "waiting for transports: %s", strerror(errno));
  return CV_OK;
}

cv_status cv_transport_wait(cv_transport *const *transports, size_t count, int extra_fd,
                            int64_t deadline_ns, int64_t spin_ns) {
  if (count > WAIT_MAX)
    return cv_error(CV_INVALID, "waiting for %zu transports, at most %d", count, WAIT_MAX);
  int64_t spin_end = spin_ns > 0 ? cv_clock_ns() + spin_ns : 0;
  for (;;) {
    if (progress_all(transports, count) > 0 || readable(extra_fd)) return CV_OK;
    int64_t now = cv_clock_ns();
    if (now >= deadline_ns) return CV_TIMEOUT;
    if (now < spin_end) continue;
    cv_status status = sleep_on(transports, count, extra_fd, deadline_ns);
    if (status != CV_OK && status != CV_AGAIN) return status;
  }
}
