/* A route: the gateway's channels of one epoch; the source's and the sink's pure schedules say what
 * to send and what to take. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/gateway_internal.h"

bool cv_route_is(const cv_route *route, cv_epoch epoch) {
  return route->phase != CV_ROUTE_FREE && route->epoch.term == epoch.term &&
         route->epoch.number == epoch.number;
}

static void trace(const cv_route_link *link, cv_trace_kind kind, uint64_t seq, int64_t begin_ns) {
  cv_trace_put(link->route->gateway->trace,
               &(cv_trace_event){.begin_ns = begin_ns,
                                 .end_ns = cv_clock_ns(),
                                 .seq = seq,
                                 .epoch_number = link->route->epoch.number,
                                 .stage = CV_EDGE_GATEWAY,
                                 .detail = link->id,
                                 .kind = (uint32_t)kind});
}

/* ---- failure ---- */

static int link_count(const cv_route *route) { return route->n_in + route->n_out; }

static cv_route_link *link_at(const cv_route *route, int i) {
  return i < route->n_in ? &route->in[i] : &route->out[i - route->n_in];
}

static void tell(cv_route *route, cv_status status, const char *text) {
  const cv_gateway_events *events = &route->gateway->events;
  if (!route->is_told) {
    route->is_told = true;
    if (events->on_route) events->on_route(events->arg, route->epoch, status, text);
  } else if (status != CV_OK && events->on_failed) {
    events->on_failed(events->arg, route->epoch, status, text);
  }
}

static void abort_links(cv_route *route) {
  for (int i = 0; i < link_count(route); i++)
    if (link_at(route, i)->channel) cv_channel_abort(link_at(route, i)->channel);
}

static void fail(cv_route *route, cv_status status, const char *text) {
  if (route->phase != CV_ROUTE_OPENING && route->phase != CV_ROUTE_OPEN) return;
  snprintf(route->text, sizeof route->text, "%s: %s", route->gateway->name, text);
  route->status = status;
  route->phase = CV_ROUTE_FAILED;
  abort_links(route);
  tell(route, status, route->text);
}

static bool check(cv_route *route, cv_status status) {
  if (status != CV_OK) fail(route, status, cv_error_text());
  return status == CV_OK;
}

/* ---- the source ---- */

/* Types and symbols of a micro-batch. */
static cv_status prepare(cv_route *route, cv_route_batch *batch) {
  cv_gateway *gateway = route->gateway;
  const cv_program *p = gateway->program;
  const cv_ledger_batch *entry = batch->entry;
  const cv_gateway_request *first = entry->parts[0].request->subject;
  cv_answer_carry(gateway, entry->parts[0].request);
  for (uint32_t i = 0; i < p->n_inputs; i++) {
    const cv_tensor *whole = &first->inputs[i];
    cv_tensor *type = &batch->inputs[i];
    if (!whole->absent && whole->bytes > 0 && !whole->data)
      return cv_error(CV_INVALID,
                      "input %s has no data, and stream %" PRIu64 " has no state yet: give it",
                      p->values[p->inputs[i].value].name, entry->parts[0].request->stream);
    *type = *whole;
    if (!gateway->split) continue;
    cv_status status = cv_batch_resize(&p->inputs[i], whole, entry->items, type);
    if (status != CV_OK) return status;
    type->data = whole->data; /* for symbols that are read from values */
  }
  return cv_program_bind_inputs(p, batch->inputs, batch->symbols);
}

/* Stamps the next micro-batch; false: there is none, or no room. */
static bool stamp(cv_route *route) {
  cv_gateway *gateway = route->gateway;
  uint64_t seq = route->next_seq;
  if (seq - (uint64_t)cv_schedule_done(route->sink) >= route->window ||
      seq - (uint64_t)cv_schedule_done(route->source) >= route->window)
    return false;
  cv_route_batch *batch = &route->batches[seq % route->window];
  batch->entry = cv_ledger_stamp(gateway->ledger, route->epoch, seq);
  if (!batch->entry) return false;
  batch->flags = 0;
  cv_status status = prepare(route, batch);
  if (status != CV_OK) { /* it never leaves: its number serves again */
    cv_answer_explain(batch->entry, cv_error_text());
    cv_ledger_take(gateway->ledger, batch->entry, status);
    return true;
  }
  route->next_seq++;
  return check(route, cv_schedule_offer(route->source, (int64_t)route->next_seq));
}

static void fill(const cv_route_link *link, cv_message *message, const cv_route_batch *batch,
                 uint64_t seq) {
  const cv_gateway *gateway = link->route->gateway;
  const cv_ledger_part *part = &batch->entry->parts[0];
  cv_header *header = &message->header;
  header->incarnation = gateway->incarnation;
  header->seq = seq;
  header->session = part->request->stream;
  header->position = part->request->id;
  header->flags = batch->flags;
  if (part->request->is_stamped) header->flags |= CV_HEADER_LAST;
  if (cv_message_status(batch->flags) != CV_OK) {
    cv_message_clear(message, gateway->program, link->edge);
    return;
  }
  for (uint32_t i = 0; i < link->edge->n_values; i++) {
    cv_tensor type = batch->inputs[gateway->program->values[link->edge->values[i]].source];
    type.data = NULL;
    cv_message_set(message, i, &type);
  }
  for (uint32_t i = 0; i < link->edge->n_symbols; i++)
    header->symbols[i] = batch->symbols[link->edge->symbols[i]];
}

/* Writes the requests' items straight into the slot. */
static void gather(const cv_route_link *link, const cv_route_batch *batch, cv_slot slot) {
  const cv_program *p = link->route->gateway->program;
  for (uint32_t i = 0; i < link->edge->n_values; i++) {
    uint32_t input = p->values[link->edge->values[i]].source;
    const cv_port *port = &p->inputs[input];
    cv_tensor to = cv_message_tensor(&link->message.header, slot, i);
    int64_t at = 0;
    for (uint32_t k = 0; k < batch->entry->n_parts; k++) {
      const cv_ledger_part *part = &batch->entry->parts[k];
      const cv_gateway_request *request = part->request->subject;
      const cv_tensor *from = &request->inputs[input];
      if (link->route->gateway->split)
        cv_batch_copy(port, from, part->first, &to, at, part->count);
      else if (to.bytes)
        memcpy(to.data, from->data, to.bytes);
      if (port->batch_axis < 0) break;
      at += part->count;
    }
  }
}

static cv_status acquire(cv_route_link *link, cv_route_batch *batch, uint64_t seq, cv_slot *slot) {
  fill(link, &link->message, batch, seq);
  cv_status status = cv_message_layout(&link->message);
  if (status != CV_OK) return status;
  return cv_channel_acquire(link->channel, seq, link->message.bytes, slot);
}

static void send(cv_route_link *link, uint64_t seq) {
  cv_route *route = link->route;
  uint32_t b = (uint32_t)(seq % route->window);
  cv_route_batch *batch = &route->batches[b];
  cv_slot slot;
  link->sent_ns[b] = cv_clock_ns();
  cv_status status = acquire(link, batch, seq, &slot);
  if (status == CV_INVALID && cv_message_status(batch->flags) == CV_OK) {
    cv_answer_explain(batch->entry, cv_error_text());
    batch->flags |= cv_message_failure(status, CV_GATEWAY_STAGE);
    status = acquire(link, batch, seq, &slot);
  }
  link->pending[b] = status == CV_AGAIN;
  if (status == CV_AGAIN || !check(route, status)) return;
  if (cv_message_status(batch->flags) == CV_OK) gather(link, batch, slot);
  check(route, cv_channel_send(link->channel, &link->message.header, NULL));
}

static void pump_source(cv_route *route) {
  cv_schedule_action action;
  for (int e = 0; e < route->n_out; e++)
    for (uint32_t b = 0; b < route->window; b++)
      if (route->out[e].pending[b] && route->phase == CV_ROUTE_OPEN)
        send(&route->out[e], route->batches[b].entry->seq);
  if (route->gateway->used == route)
    while (route->phase == CV_ROUTE_OPEN && stamp(route)) {
    }
  while (route->phase == CV_ROUTE_OPEN && cv_schedule_next(route->source, &action)) {
    if (action.kind == CV_SCHEDULE_COMPUTE)
      check(route, cv_schedule_on_computed(route->source, action.seq));
    else if (action.kind == CV_SCHEDULE_SEND)
      send(&route->out[action.edge], (uint64_t)action.seq);
  }
}

/* ---- the sink ---- */

static cv_status read_failure(const cv_route *route, uint64_t seq, char *text, size_t size) {
  for (int e = 0; e < route->n_in; e++) {
    const cv_route_link *link = &route->in[e];
    uint32_t flags = link->headers[seq % link->edge->slots]->flags;
    cv_status status = cv_message_status(flags);
    if (status == CV_OK) continue;
    if (status > CV_TIMEOUT) status = CV_FAILED;
    snprintf(text, size, "stage %d failed on it: %s (its log has the sentence)",
             cv_message_stage(flags), cv_status_text(status));
    return status;
  }
  return CV_OK;
}

/* A micro-batch has come back whole. */
static void take(cv_route *route, uint64_t seq) {
  cv_gateway *gateway = route->gateway;
  const cv_route_link *first = &route->in[0];
  cv_ledger_batch *entry = cv_ledger_find(gateway->ledger, route->epoch, seq);
  if (!entry || first->headers[seq % first->edge->slots]->incarnation != gateway->incarnation)
    return; /* taken before, or not ours: dropped */
  char text[CV_GATEWAY_TEXT];
  cv_status status = read_failure(route, seq, text, sizeof text);
  for (int e = 0; e < route->n_in && status == CV_OK; e++) {
    const cv_route_link *link = &route->in[e];
    const cv_header *header = link->headers[seq % link->edge->slots];
    cv_slot slot = link->slots[seq % link->edge->slots];
    for (uint32_t i = 0; i < link->edge->n_values && status == CV_OK; i++) {
      cv_tensor result = cv_message_tensor(header, slot, i);
      status = cv_answer_place(gateway, entry, link->edge->values[i], &result);
    }
    if (status != CV_OK) snprintf(text, sizeof text, "%s", cv_error_text());
  }
  if (status != CV_OK) cv_answer_explain(entry, text);
  cv_ledger_take(gateway->ledger, entry, status);
}

static void pump_sink(cv_route *route) {
  cv_schedule_action action;
  while (route->phase == CV_ROUTE_OPEN && cv_schedule_next(route->sink, &action)) {
    if (action.kind == CV_SCHEDULE_GRANT) {
      check(route, cv_channel_grant(route->in[action.edge].channel, (uint64_t)action.seq));
    } else if (action.kind == CV_SCHEDULE_COMPUTE) {
      take(route, (uint64_t)action.seq);
      check(route, cv_schedule_on_computed(route->sink, action.seq));
    }
  }
}

/* ---- channels ---- */

static void on_open(void *arg, cv_channel *channel) {
  cv_route_link *link = arg;
  cv_route *route = link->route;
  (void)channel;
  link->open = true;
  if (++route->n_open < link_count(route) || route->phase != CV_ROUTE_OPENING) return;
  route->phase = CV_ROUTE_OPEN;
  tell(route, CV_OK, "");
}

static void on_grant(void *arg, cv_channel *channel, uint64_t limit) {
  cv_route_link *link = arg;
  (void)channel;
  if (link->route->phase > CV_ROUTE_OPEN) return;
  if (limit > INT64_MAX) limit = INT64_MAX;
  check(link->route, cv_schedule_on_grant(link->route->source, link->index, (int64_t)limit));
}

static void on_sent(void *arg, cv_channel *channel, uint64_t seq, cv_status status) {
  cv_route_link *link = arg;
  cv_route *route = link->route;
  (void)channel;
  if (route->phase != CV_ROUTE_OPEN || status != CV_OK) return; /* on_error tells the reason */
  trace(link, CV_TRACE_SEND, seq, link->sent_ns[seq % route->window]);
  check(route, cv_schedule_on_sent(route->source, link->index, (int64_t)seq));
}

static void on_header(void *arg, cv_channel *channel, const cv_header *header, cv_slot slot) {
  cv_route_link *link = arg;
  cv_route *route = link->route;
  int index;
  (void)channel;
  if (route->phase != CV_ROUTE_OPEN) return;
  if (!check(route, cv_message_check(route->gateway->program, link->edge, header, slot)) ||
      !check(route, cv_schedule_on_header(route->sink, link->index, (int64_t)header->seq, &index)))
    return;
  link->headers[index] = header;
  link->slots[index] = slot;
  link->began_ns[index] = cv_clock_ns();
}

static void on_complete(void *arg, cv_channel *channel, uint64_t seq, cv_status status) {
  cv_route_link *link = arg;
  cv_route *route = link->route;
  (void)channel;
  if (route->phase != CV_ROUTE_OPEN) return;
  if (status == CV_CORRUPT)
    status = cv_error(status, "edge %" PRIu32 ": micro-batch %" PRIu64 " arrived damaged", link->id,
                      seq);
  else if (status != CV_OK)
    return; /* on_error tells the reason */
  trace(link, CV_TRACE_RECEIVE, seq, link->began_ns[seq % link->edge->slots]);
  if (check(route, status))
    check(route, cv_schedule_on_complete(route->sink, link->index, (int64_t)seq));
}

static void on_error(void *arg, cv_channel *channel, cv_status status, const char *text) {
  cv_route_link *link = arg;
  char sentence[CV_GATEWAY_TEXT];
  (void)channel;
  snprintf(sentence, sizeof sentence, "%s: %s", link->peer, text);
  fail(link->route, status, sentence);
}

static void on_closed(void *arg, cv_channel *channel) {
  cv_route_link *link = arg;
  (void)channel;
  link->channel = NULL;
  link->route->n_channels--;
}

static cv_status open_link(cv_route_link *link, const cv_edge_peer *peer, cv_role role) {
  const cv_route *route = link->route;
  cv_gateway *gateway = route->gateway;
  cv_channel_events events = {.arg = link,
                              .on_open = on_open,
                              .on_grant = on_grant,
                              .on_sent = on_sent,
                              .on_header = on_header,
                              .on_complete = on_complete,
                              .on_error = on_error,
                              .on_closed = on_closed};
  cv_channel_params params = {
      .id = {.deployment = gateway->deployment,
             .epoch_term = route->epoch.term,
             .epoch_number = route->epoch.number,
             .edge = link->id,
             .producer = role == CV_PRODUCER ? gateway->incarnation : peer->incarnation,
             .consumer = role == CV_PRODUCER ? peer->incarnation : gateway->incarnation},
      .role = role,
      .slots = link->edge->slots,
      .slot_bytes = link->edge->slot_bytes,
      .max_slot_bytes = link->edge->max_slot_bytes,
      .max_symbols = link->edge->n_symbols,
      .max_tensors = link->edge->n_values,
      .events = &events};
  cv_status status = cv_channel_open(gateway->rows[link->row], &params, peer->address,
                                     peer->address_bytes, &link->channel);
  return status == CV_OK ? CV_OK : cv_error_context(status, "%s", link->peer);
}

static bool is_newer(cv_epoch a, cv_epoch b) {
  return a.term > b.term || (a.term == b.term && a.number > b.number);
}

cv_status cv_gateway_open(cv_gateway *gateway, const cv_route_spec *spec) {
  cv_route *route = NULL;
  for (int i = 0; i < CV_ROUTES && !route; i++)
    if (gateway->routes[i].phase == CV_ROUTE_FREE) route = &gateway->routes[i];
  if (!route) return cv_error(CV_INVALID, "%s: two epochs are open, close one", gateway->name);
  if (!is_newer(spec->epoch, gateway->last))
    return cv_error(CV_INVALID,
                    "%s: epoch %" PRIu64 ".%" PRIu32 " is not newer than %" PRIu64 ".%" PRIu32,
                    gateway->name, spec->epoch.term, spec->epoch.number, gateway->last.term,
                    gateway->last.number);
  cv_status status = cv_route_build(route, spec);
  if (status != CV_OK) {
    cv_route_free(route);
    return status;
  }
  gateway->last = spec->epoch;
  route->phase = CV_ROUTE_OPENING;
  for (int i = 0; i < link_count(route) && status == CV_OK; i++) {
    cv_route_link *link = link_at(route, i);
    status = open_link(link, &spec->peers[link->id], i < route->n_in ? CV_CONSUMER : CV_PRODUCER);
    if (status == CV_OK) route->n_channels++;
  }
  if (status != CV_OK) { /* told by this status alone; what was opened goes quietly */
    route->is_told = route->is_quiet = true;
    route->phase = CV_ROUTE_FAILED;
    route->closes = true;
    route->status = status;
  }
  return status;
}

/* ---- pump and close ---- */

static void begin_close(cv_route *route) {
  if (route->phase != CV_ROUTE_OPEN) abort_links(route);
  route->phase = CV_ROUTE_CLOSING;
  if (route->gateway->used == route) route->gateway->used = NULL;
  for (int i = 0; i < link_count(route); i++)
    if (link_at(route, i)->channel) cv_channel_close(link_at(route, i)->channel);
}

void cv_route_pump(cv_route *route) {
  cv_gateway *gateway = route->gateway;
  if (route->phase == CV_ROUTE_OPEN) pump_sink(route);
  if (route->phase == CV_ROUTE_OPEN) pump_source(route);
  if (route->closes && route->phase != CV_ROUTE_CLOSING &&
      cv_ledger_in_flight(gateway->ledger, route->epoch) == 0)
    begin_close(route);
  if (route->phase != CV_ROUTE_CLOSING || route->n_channels > 0) return;
  cv_epoch epoch = route->epoch;
  bool quiet = route->is_quiet;
  cv_route_free(route);
  if (!quiet && gateway->events.on_closed) gateway->events.on_closed(gateway->events.arg, epoch);
}

/* The requests of its micro-batches fail as it did. */
static void give_up(cv_route *route) {
  for (uint32_t b = 0; b < route->window; b++) {
    const cv_ledger_batch *entry = route->batches[b].entry;
    if (entry && entry->live && cv_route_is(route, entry->epoch))
      cv_answer_explain(entry, route->text);
  }
  cv_ledger_drop(route->gateway->ledger, route->epoch, route->status);
}

static void close_route(cv_route *route, cv_close_how how) {
  cv_gateway *gateway = route->gateway;
  route->closes = true;
  if (gateway->used == route) gateway->used = NULL;
  if (how == CV_CLOSE_DRAIN && route->phase != CV_ROUTE_FAILED) return;
  if (route->phase == CV_ROUTE_OPENING || route->phase == CV_ROUTE_OPEN) {
    snprintf(route->text, sizeof route->text, "%s: the epoch was closed", gateway->name);
    route->status = CV_CANCELED;
    route->phase = CV_ROUTE_FAILED;
  }
  abort_links(route);
  if (how == CV_CLOSE_REPLAY || how == CV_CLOSE_BLAME)
    cv_ledger_replay(gateway->ledger, route->epoch, how == CV_CLOSE_BLAME);
  else
    give_up(route);
}

void cv_gateway_close(cv_gateway *gateway, cv_epoch epoch, cv_close_how how) {
  for (int i = 0; i < CV_ROUTES; i++)
    if (cv_route_is(&gateway->routes[i], epoch)) close_route(&gateway->routes[i], how);
}

cv_status cv_gateway_use(cv_gateway *gateway, cv_epoch epoch) {
  for (int i = 0; i < CV_ROUTES; i++) {
    cv_route *route = &gateway->routes[i];
    if (!cv_route_is(route, epoch) || route->phase != CV_ROUTE_OPEN || route->closes) continue;
    if (is_newer(gateway->highest, epoch)) break;
    gateway->used = route;
    gateway->highest = epoch;
    cv_ledger_set_max_items(gateway->ledger, route->micro_batch);
    return CV_OK;
  }
  return cv_error(CV_INVALID, "%s: epoch %" PRIu64 ".%" PRIu32 " is not open, or is an older one",
                  gateway->name, epoch.term, epoch.number);
}

void cv_gateway_hold(cv_gateway *gateway) { gateway->used = NULL; }

void cv_route_explain(const cv_route *route, char *text, size_t size) {
  char sink[CV_GATEWAY_TEXT / 2];
  if (route->phase == CV_ROUTE_OPENING) {
    int i = 0;
    while (i + 1 < link_count(route) && link_at(route, i)->open) i++;
    snprintf(text, size, "%s has not met %s", route->gateway->name, link_at(route, i)->peer);
  } else if (!cv_schedule_idle(route->source)) {
    cv_schedule_explain_text(route->source, text, size);
  } else {
    cv_schedule_explain_text(route->sink, sink, sizeof sink);
    snprintf(text, size, "%s: %s", route->gateway->name, sink);
  }
}
