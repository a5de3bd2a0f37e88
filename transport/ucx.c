/* Between hosts of a trusted fabric: UCP active messages over worker addresses. Endpoints are in
 * peer error mode (which UCX has for tcp alone among its own transports), one per peer, kept until
 * it fails or the transport closes, so that an epoch's end never cuts the next epoch's channels. A
 * message is two active messages, header and payload, each with a record in front. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/transport_internal.h"

enum {
  MESSAGE_ID = 1,
  PARKED = 4096,          /* most hellos whose edge is not open here yet */
  PROGRESS = 64,          /* calls of ucp_worker_progress by one progress */
  SPARE_TX = 16,          /* records under way besides messages */
  UNLINK_NS = 1000000000, /* after that an endpoint with operations under way is cut */
  FLUSH_NS = 250000000,   /* patience when the transport closes and a peer is busy */
  TEXT = 64,
};

/* An address as published: this, the version, the host name, the worker's address. */
typedef struct {
  char row[4]; /* "ucx1": changes with the record's form */
  uint8_t version_bytes, host_bytes;
  uint16_t worker_bytes;
  uint64_t checksum; /* of what follows */
} blob_head;

typedef struct peer {
  struct peer *next;
  ucp_ep_h ep;   /* NULL once closed */
  void *closing; /* request of the close, or NULL */
  bool failed;
  char how[TEXT]; /* it failed */
  uint32_t links;
  uint64_t key; /* hash of its address */
} peer;

/* A record under way; memory that UCX reads until it says so. */
typedef struct tx {
  struct tx *next_free;
  cv_channel *channel;
  cv_entry *entry; /* whose `pending` it counts in, or NULL */
  cv_record record;
} tx;

typedef struct {
  cv_channel *channel;
  cv_entry *entry;
  bool payload;
} rx;

typedef struct {
  peer *peer;
  tx *txs, *free_tx;
  rx *rxs;            /* [slots][2]: header, payload */
  uint32_t under_way; /* operations of UCX that touch memory of this channel */
  bool unlinking;
  int64_t unlink_ns;
} ucx_link;

typedef struct parked {
  struct parked *next;
  cv_record hello;
} parked;

typedef struct {
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_address_t *address;
  size_t address_bytes;
  int fd;
  char host[TEXT];
  peer *peers;
  parked *parked;
  uint32_t parked_count;
  uint32_t unlinking;
} ucx;

static cv_status ucx_error(cv_status code, const char *what, ucs_status_t status) {
  return cv_error(code, "transport ucx: %s: %s", what, ucs_status_string(status));
}

/* ---- addresses ---- */

static cv_status parse(const void *data, size_t size, blob_head *head, const uint8_t **out_worker) {
  const uint8_t *body = (const uint8_t *)data + sizeof *head;
  if (size < sizeof *head || memcmp(data, "ucx1", 4) != 0)
    return cv_error(CV_UNSUPPORTED, "transport ucx: not an address of this transport's version");
  memcpy(head, data, sizeof *head);
  size_t rest = (size_t)head->version_bytes + head->host_bytes + head->worker_bytes;
  if (size - sizeof *head != rest || XXH3_64bits(body, rest) != head->checksum)
    return cv_error(CV_UNSUPPORTED, "transport ucx: a damaged address");
  const char *own = ucp_get_version_string();
  if (head->version_bytes != strlen(own) || memcmp(body, own, head->version_bytes) != 0)
    return cv_error(CV_VERSION, "UCX %s here, %.*s at %.*s: use one version on all hosts", own,
                    head->version_bytes, (const char *)body, head->host_bytes,
                    (const char *)body + head->version_bytes);
  *out_worker = body + head->version_bytes + head->host_bytes;
  return CV_OK;
}

static cv_status ucx_address(const cv_transport *transport, void *buffer, size_t cap,
                             size_t *out_size) {
  const ucx *row = transport->row_state;
  const char *version = ucp_get_version_string();
  blob_head head = {.row = {'u', 'c', 'x', '1'},
                    .version_bytes = (uint8_t)strlen(version),
                    .host_bytes = (uint8_t)strlen(row->host),
                    .worker_bytes = (uint16_t)row->address_bytes};
  size_t rest = (size_t)head.version_bytes + head.host_bytes + head.worker_bytes;
  if (row->address_bytes > CV_ADDRESS_MAX || cap < sizeof head + rest)
    return cv_error(CV_INVALID, "transport ucx: %zu bytes, room for %zu", sizeof head + rest, cap);
  uint8_t *body = (uint8_t *)buffer + sizeof head;
  memcpy(body, version, head.version_bytes);
  memcpy(body + head.version_bytes, row->host, head.host_bytes);
  memcpy(body + head.version_bytes + head.host_bytes, row->address, row->address_bytes);
  head.checksum = XXH3_64bits(body, rest);
  memcpy(buffer, &head, sizeof head);
  *out_size = sizeof head + rest;
  return CV_OK;
}

static cv_status ucx_reach(cv_transport *transport, const void *address, size_t size) {
  (void)transport;
  blob_head head;
  const uint8_t *worker;
  return parse(address, size, &head, &worker);
}

/* ---- peers ---- */

/* Called by UCX inside progress: only notes it. */
static void on_peer_error(void *arg, ucp_ep_h ep, ucs_status_t status) {
  (void)ep;
  peer *failed = arg;
  failed->failed = true;
  strncpy(failed->how, ucs_status_string(status), sizeof failed->how - 1);
}

static void *close_ep(ucp_ep_h ep, bool force) {
  ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                               .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0};
  void *request = ucp_ep_close_nbx(ep, &param);
  if (UCS_PTR_IS_ERR(request)) request = NULL;
  return request;
}

static bool request_done(void **request) {
  if (*request == NULL) return true;
  if (ucp_request_check_status(*request) == UCS_INPROGRESS) return false;
  ucp_request_free(*request);
  *request = NULL;
  return true;
}

static cv_status find_peer(ucx *row, const void *data, size_t size, peer **out_peer) {
  blob_head head;
  const uint8_t *worker;
  *out_peer = NULL;
  cv_status status = parse(data, size, &head, &worker);
  if (status != CV_OK) return status;
  for (peer *known = row->peers; known != NULL; known = known->next)
    if (known->key == head.checksum && !known->failed) {
      *out_peer = known;
      return CV_OK;
    }
  peer *fresh = cv_alloc(1, sizeof *fresh);
  if (fresh == NULL) return cv_error_nomem(sizeof *fresh);
  fresh->key = head.checksum;
  ucp_ep_params_t params = {
      .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                    UCP_EP_PARAM_FIELD_ERR_HANDLER,
      .address = (const ucp_address_t *)worker,
      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
      .err_handler = {.cb = on_peer_error, .arg = fresh},
  };
  ucs_status_t made =
      cv_fault() ? UCS_ERR_NO_MEMORY : ucp_ep_create(row->worker, &params, &fresh->ep);
  if (made != UCS_OK) {
    cv_free(fresh);
    if (made == UCS_ERR_UNREACHABLE)
      return cv_error(CV_PEER_LOST,
                      "transport ucx: no way to the peer: it is gone, or UCX_TLS has no transport "
                      "that leads to it");
    return ucx_error(made == UCS_ERR_NO_MEMORY ? CV_NOMEM : CV_IO, "endpoint", made);
  }
  fresh->next = row->peers;
  row->peers = fresh;
  *out_peer = fresh;
  return CV_OK;
}

/* Tells the channels of failed peers, cuts their endpoints, frees those that nobody uses. */
static size_t reap_peers(cv_transport *transport) {
  ucx *row = transport->row_state;
  size_t work = 0;
  for (peer **at = &row->peers; *at != NULL;) {
    peer *each = *at;
    if (each->failed && each->ep != NULL) {
      each->closing = close_ep(each->ep, true);
      each->ep = NULL;
      work++;
      for (cv_channel *channel = transport->channels; channel != NULL; channel = channel->next) {
        const ucx_link *link = channel->row_state;
        if (link != NULL && link->peer == each) cv_channel_peer_gone(channel, each->how);
      }
    }
    if (each->ep != NULL || each->links > 0 || !request_done(&each->closing)) {
      at = &each->next;
      continue;
    }
    *at = each->next;
    cv_free(each);
  }
  return work;
}

/* ---- sending ---- */

static cv_status failed_as(const cv_channel *channel) {
  return channel->failed != CV_OK ? channel->failed : CV_PEER_LOST;
}

static void tx_done(tx *done, ucs_status_t status) {
  cv_channel *channel = done->channel;
  ucx_link *link = channel->row_state;
  cv_entry *entry = done->entry;
  done->next_free = link->free_tx;
  link->free_tx = done;
  link->under_way--;
  if (entry != NULL) {
    if (status != UCS_OK) entry->status = failed_as(channel);
    if (--entry->pending == 0) cv_window_sent(channel, entry, entry->status);
  }
  cv_channel_wake(channel);
}

static void on_tx(void *request, ucs_status_t status, void *user) {
  ucp_request_free(request);
  tx_done(user, status);
}

static cv_status post(cv_channel *channel, const cv_record *record, cv_entry *entry,
                      const void *data, size_t bytes) {
  ucx_link *link = channel->row_state;
  tx *out = link->free_tx;
  out->record = *record;
  out->entry = entry;
  ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
      .cb = {.send = on_tx},
      .user_data = out};
  void *request = UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
  if (!cv_fault())
    request = ucp_am_send_nbx(link->peer->ep, MESSAGE_ID, &out->record, sizeof out->record, data,
                              bytes, &param);
  if (request == NULL) return CV_OK; /* done already */
  if (UCS_PTR_IS_ERR(request)) {
    ucs_status_t status = UCS_PTR_STATUS(request);
    return ucx_error(status == UCS_ERR_NO_MEMORY ? CV_NOMEM : CV_PEER_LOST, "send", status);
  }
  link->free_tx = out->next_free;
  link->under_way++;
  if (entry != NULL) entry->pending++;
  return CV_OK;
}

static cv_status post_message(cv_channel *channel, cv_record *record) {
  cv_entry *entry = cv_window_entry(channel, record->seq);
  entry->pending = 0;
  entry->status = CV_OK;
  const uint8_t *header = cv_entry_header(channel, entry);
  cv_status status = post(channel, record, entry, header, record->header_bytes);
  if (status != CV_OK || record->bytes == 0) return status;
  record->type = CV_RECORD_PAYLOAD;
  status = post(channel, record, entry, cv_entry_data(channel, entry), record->bytes);
  record->type = CV_RECORD_MESSAGE;
  if (status == CV_OK) return CV_OK;
  /* the header may be under way, but the message has failed: its end is not waited for */
  ucx_link *link = channel->row_state;
  for (uint32_t i = 0; i < 2 * channel->params.slots + SPARE_TX; i++)
    if (link->txs[i].entry == entry) link->txs[i].entry = NULL;
  entry->pending = 0;
  return status;
}

static cv_status ucx_put(cv_channel *channel, cv_record *record) {
  ucx_link *link = channel->row_state;
  if (link->peer->ep == NULL || link->peer->failed)
    return cv_error(CV_PEER_LOST, "%s", link->peer->how);
  if (link->free_tx == NULL || link->free_tx->next_free == NULL) return CV_AGAIN;
  if (record->type == CV_RECORD_MESSAGE) return post_message(channel, record);
  return post(channel, record, NULL, NULL, 0);
}

/* ---- receiving ---- */

static void arrived(cv_channel *channel, cv_entry *entry, bool payload, ucs_status_t status) {
  if (payload)
    cv_window_payload_arrived(channel, entry, status == UCS_OK ? CV_OK : failed_as(channel));
  else if (status == UCS_OK)
    cv_window_header_arrived(channel, entry);
  else
    cv_channel_fail(channel, CV_PEER_LOST, ucs_status_string(status));
}

static void on_rx(void *request, ucs_status_t status, size_t length, void *user) {
  (void)length;
  const rx *in = user;
  ucx_link *link = in->channel->row_state;
  ucp_request_free(request);
  in->entry->pending--;
  link->under_way--;
  arrived(in->channel, in->entry, in->payload, status);
  cv_channel_wake(in->channel);
}

/* The data of a MESSAGE or PAYLOAD goes to its place in the slot. */
static void take_data(cv_channel *channel, const cv_record *record, void *data, size_t length,
                      bool rendezvous) {
  ucx *row = channel->transport->row_state;
  ucx_link *link = channel->row_state;
  bool payload = record->type == CV_RECORD_PAYLOAD;
  if (channel->params.role != CV_CONSUMER ||
      length != (payload ? record->bytes : record->header_bytes)) {
    cv_channel_fail(channel, CV_CORRUPT, "transport ucx: a damaged message came");
    return;
  }
  cv_entry *entry = cv_window_expect(channel, record);
  if (entry == NULL) return;
  void *place = payload ? cv_entry_data(channel, entry) : cv_entry_header(channel, entry);
  if (!rendezvous) {
    memcpy(place, data, length);
    arrived(channel, entry, payload, UCS_OK);
    return;
  }
  rx *in = &link->rxs[2 * (entry - channel->entries) + payload];
  *in = (rx){channel, entry, payload};
  ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
      .cb = {.recv_am = on_rx},
      .user_data = in};
  void *request = UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
  if (!cv_fault()) request = ucp_am_recv_data_nbx(row->worker, data, place, length, &param);
  if (UCS_PTR_IS_ERR(request)) {
    cv_channel_fail(channel, CV_NOMEM, "transport ucx: a message could not be received");
  } else if (request == NULL) {
    arrived(channel, entry, payload, UCS_OK);
  } else {
    entry->pending++;
    link->under_way++;
  }
}

/* A record without a receiver's handle: its channel, found by what the sender knows. */
static cv_channel *by_sender(const cv_transport *transport, const cv_record *record) {
  for (cv_channel *channel = transport->channels; channel != NULL; channel = channel->next)
    if (channel->peer_handle == record->from && channel->params.role == CV_CONSUMER &&
        cv_edge_same(&channel->params.id, &record->id))
      return channel;
  return NULL;
}

static void unpark(ucx *row, const cv_record *record) {
  for (parked **at = &row->parked; *at != NULL; at = &(*at)->next) {
    parked *guest = *at;
    if (guest->hello.from != record->from || !cv_edge_same(&guest->hello.id, &record->id)) continue;
    *at = guest->next;
    row->parked_count--;
    cv_free(guest);
    return;
  }
}

static void take_hello(cv_transport *transport, const cv_record *record) {
  ucx *row = transport->row_state;
  cv_channel *channel = cv_transport_awaiting(transport, &record->id);
  if (channel != NULL) {
    cv_channel_take(channel, record);
    return;
  }
  parked *guest = row->parked_count < PARKED ? cv_alloc(1, sizeof *guest) : NULL;
  if (guest == NULL) {
    cv_log_warn("transport ucx: a hello for edge %u was refused: %u wait already", record->id.edge,
                row->parked_count);
    return;
  }
  guest->hello = *record;
  guest->next = row->parked;
  row->parked = guest;
  row->parked_count++;
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data,
                               size_t length, const ucp_am_recv_param_t *param) {
  cv_transport *transport = arg;
  cv_record record;
  if (header_length != sizeof record) return UCS_OK;
  memcpy(&record, header, sizeof record);
  if (record.magic != CV_RECORD_MAGIC) return UCS_OK;
  if (record.type == CV_RECORD_HELLO) {
    take_hello(transport, &record);
    return UCS_OK;
  }
  cv_channel *channel =
      record.to != 0 ? cv_transport_channel(transport, record.to) : by_sender(transport, &record);
  if (channel == NULL) {
    unpark(transport->row_state, &record);
    return UCS_OK; /* late: the channel is gone, its sender is told by BYE or ABORT */
  }
  if (!cv_edge_same(&channel->params.id, &record.id)) return UCS_OK;
  bool rendezvous = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
  if (record.type == CV_RECORD_MESSAGE || record.type == CV_RECORD_PAYLOAD)
    take_data(channel, &record, data, length, rendezvous);
  else
    cv_channel_take(channel, &record);
  return UCS_OK;
}

/* ---- links ---- */

/* The producer's staging: as many slots, of the same size, of its own. */
static cv_status ucx_slots_view(cv_channel *channel, const cv_record *record, cv_slots *slots) {
  (void)record;
  return cv_slots_alloc(channel, slots);
}

static void free_link(ucx_link *link) {
  cv_free(link->txs);
  cv_free(link->rxs);
  cv_free(link);
}

static cv_status ucx_link_open(cv_channel *channel, const void *address, size_t size) {
  ucx *row = channel->transport->row_state;
  size_t slots = channel->params.slots, count = 2 * slots + SPARE_TX;
  cv_status status = CV_OK;
  ucx_link *link = cv_alloc(1, sizeof *link);
  if (link == NULL) return cv_error_nomem(sizeof *link);
  link->txs = cv_alloc(count, sizeof *link->txs);
  link->rxs = cv_alloc(2 * slots, sizeof *link->rxs);
  if (link->txs == NULL || link->rxs == NULL) {
    status = cv_error_nomem(count * sizeof *link->txs);
    goto out;
  }
  for (size_t i = 0; i < count; i++) {
    link->txs[i].channel = channel;
    link->txs[i].next_free = link->free_tx;
    link->free_tx = &link->txs[i];
  }
  CV_TRY(find_peer(row, address, size, &link->peer));
  link->peer->links++;
  channel->row_state = link;
  for (parked *guest = row->parked; channel->params.role == CV_CONSUMER && guest != NULL;
       guest = guest->next) {
    if (!cv_edge_same(&guest->hello.id, &channel->params.id)) continue;
    cv_record hello = guest->hello;
    unpark(row, &hello);
    cv_channel_take(channel, &hello);
    break;
  }
out:
  if (status != CV_OK) free_link(link);
  return status;
}

static void finish_unlink(cv_channel *channel) {
  ucx *row = channel->transport->row_state;
  ucx_link *link = channel->row_state;
  link->peer->links--;
  row->unlinking--;
  free_link(link);
  channel->row_state = NULL;
  cv_channel_unlinked(channel);
}

static void ucx_unlink(cv_channel *channel) {
  ucx *row = channel->transport->row_state;
  ucx_link *link = channel->row_state;
  link->unlinking = true;
  link->unlink_ns = cv_clock_ns();
  row->unlinking++;
  if (link->under_way == 0) finish_unlink(channel);
}

/* Ends the links whose operations are done; cuts the endpoint of those that wait too long. */
static size_t end_links(cv_transport *transport) {
  const ucx *row = transport->row_state;
  size_t work = 0;
  if (row->unlinking == 0) return 0;
  int64_t now = cv_clock_ns();
  for (cv_channel *channel = transport->channels; channel != NULL; channel = channel->next) {
    const ucx_link *link = channel->row_state;
    if (link == NULL || !link->unlinking) continue;
    if (link->under_way == 0) {
      finish_unlink(channel);
      work++;
    } else if (now - link->unlink_ns > UNLINK_NS && !link->peer->failed) {
      link->peer->failed = true;
      strncpy(link->peer->how, "it did not answer while a channel closed", TEXT - 1);
    }
  }
  return work;
}

/* ---- transport ---- */

static size_t ucx_progress(cv_transport *transport) {
  ucx *row = transport->row_state;
  size_t work = 0;
  while (work < PROGRESS && ucp_worker_progress(row->worker) > 0) work++;
  work += end_links(transport);
  return work + reap_peers(transport);
}

static cv_status ucx_arm(cv_transport *transport) {
  const ucx *row = transport->row_state;
  ucs_status_t status = cv_fault() ? UCS_ERR_IO_ERROR : ucp_worker_arm(row->worker);
  if (status == UCS_ERR_BUSY) return CV_AGAIN;
  return status == UCS_OK ? CV_OK : ucx_error(CV_IO, "arm", status);
}

static int ucx_fd(const cv_transport *transport) { return ((const ucx *)transport->row_state)->fd; }

static void close_peers(ucx *row) {
  for (peer *each = row->peers; each != NULL; each = each->next)
    if (each->ep != NULL) {
      each->closing = close_ep(each->ep, each->failed);
      each->ep = NULL;
    }
  int64_t deadline = cv_clock_ns() + FLUSH_NS;
  while (row->peers != NULL) {
    peer *first = row->peers;
    while (!request_done(&first->closing) && cv_clock_ns() < deadline)
      ucp_worker_progress(row->worker);
    if (first->closing != NULL) ucp_request_free(first->closing);
    row->peers = first->next;
    cv_free(first);
  }
}

static void ucx_close(cv_transport *transport) {
  ucx *row = transport->row_state;
  close_peers(row);
  if (row->address != NULL) ucp_worker_release_address(row->worker, row->address);
  if (row->worker != NULL) ucp_worker_destroy(row->worker);
  if (row->context != NULL) ucp_cleanup(row->context);
  ucs_log_pop_handler();
  while (row->parked != NULL) {
    parked *guest = row->parked;
    row->parked = guest->next;
    cv_free(guest);
  }
  cv_free(row);
}

/* What the user has not set in the environment: tcp, the one with peer error mode; its larger
 * segments and threshold, measured faster; a cut link noticed in seconds. */
static void prefer(ucp_config_t *config) {
  static const struct {
    const char *variable, *key, *value;
  } choices[] = {{"UCX_TLS", "TLS", "tcp"},
                 {"UCX_RNDV_THRESH", "RNDV_THRESH", "256K"},
                 {"UCX_TCP_TX_SEG_SIZE", "TX_SEG_SIZE", "256K"},
                 {"UCX_TCP_RX_SEG_SIZE", "RX_SEG_SIZE", "256K"},
                 {"UCX_TCP_KEEPIDLE", "KEEPIDLE", "1s"},
                 {"UCX_TCP_KEEPINTVL", "KEEPINTVL", "1s"},
                 {"UCX_TCP_KEEPCNT", "KEEPCNT", "3"}};
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    if (getenv(choices[i].variable) != NULL) continue;
    ucs_status_t status = ucp_config_modify(config, choices[i].key, choices[i].value);
    if (status != UCS_OK)
      cv_log_debug("transport ucx: %s: %s", choices[i].variable, ucs_status_string(status));
  }
}

/* UCX prints on stdout, which belongs to the commands: its errors and warnings go to our log, at a
 * low level, since the channel that they end says so itself. */
__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t on_log(
    const char *file, unsigned line, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *message, va_list args) {
  (void)function;
  (void)component;
  if (level != UCS_LOG_LEVEL_ERROR && level != UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;
  char text[512];
  vsnprintf(text, sizeof text, message, args);
  cv_log_info("UCX, %s:%u: %s", file, line, text);
  return UCS_LOG_FUNC_RC_STOP;
}

static ucs_status_t make_context(ucx *row) {
  ucp_config_t *config;
  ucs_status_t status = cv_fault() ? UCS_ERR_NO_MEMORY : ucp_config_read(NULL, NULL, &config);
  if (status != UCS_OK) return status;
  prefer(config);
  ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                         .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
  status = cv_fault() ? UCS_ERR_NO_MEMORY : ucp_init(&params, config, &row->context);
  ucp_config_release(config);
  return status;
}

static ucs_status_t make_worker(cv_transport *transport) {
  ucx *row = transport->row_state;
  ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                .thread_mode = UCS_THREAD_MODE_SERIALIZED};
  ucs_status_t status =
      cv_fault() ? UCS_ERR_NO_MEMORY : ucp_worker_create(row->context, &params, &row->worker);
  if (status == UCS_OK)
    status = cv_fault() ? UCS_ERR_NO_MEMORY : ucp_worker_get_efd(row->worker, &row->fd);
  if (status == UCS_OK)
    status = cv_fault() ? UCS_ERR_NO_MEMORY
                        : ucp_worker_get_address(row->worker, &row->address, &row->address_bytes);
  ucp_am_handler_param_t handler = {
      .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
      .id = MESSAGE_ID,
      .cb = on_message,
      .arg = transport,
  };
  if (status == UCS_OK)
    status = cv_fault() ? UCS_ERR_NO_MEMORY : ucp_worker_set_am_recv_handler(row->worker, &handler);
  return status;
}

static cv_status ucx_open(cv_transport *transport, cv_hub *hub) {
  (void)hub;
  ucx *row = cv_alloc(1, sizeof *row);
  if (row == NULL) return cv_error_nomem(sizeof *row);
  transport->row_state = row;
  ucs_log_push_handler(on_log);
  if (gethostname(row->host, sizeof row->host - 1) < 0) strcpy(row->host, "unknown host");
  ucs_status_t status = make_context(row);
  if (status == UCS_OK) status = make_worker(transport);
  if (status == UCS_OK) return CV_OK;
  ucx_close(transport);
  return ucx_error(status == UCS_ERR_NO_MEMORY ? CV_NOMEM : CV_IO, "start", status);
}

const cv_transport_row cv_row_ucx = {
    .name = "ucx",
    .kinds = 1 << CV_MEMORY_HOST | 1 << CV_MEMORY_PINNED,
    .own_memory = CV_MEMORY_HOST,
    .shares = false,
    .open = ucx_open,
    .close = ucx_close,
    .address = ucx_address,
    .reach = ucx_reach,
    .fd = ucx_fd,
    .arm = ucx_arm,
    .progress = ucx_progress,
    .link = ucx_link_open,
    .unlink = ucx_unlink,
    .put = ucx_put,
    .slots_make = cv_slots_alloc,
    .slots_view = ucx_slots_view,
    .slots_free = cv_slots_release,
};
