#include "gateway/gateway.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/gateway_internal.h"

#define WATCHDOG_NS ((int64_t)5000000000)
enum { MAX_REQUESTS = 64 };

static bool mergeable(void *arg, const cv_ledger_request *a, const cv_ledger_request *b) {
  const cv_gateway *gateway = arg;
  const cv_gateway_request *x = a->subject, *y = b->subject;
  for (uint32_t i = 0; i < gateway->program->n_inputs; i++)
    if (!cv_batch_mergeable(&gateway->program->inputs[i], &x->inputs[i], &y->inputs[i]))
      return false;
  return true;
}

static cv_status open_rows(cv_gateway *gateway, const cv_gateway_options *options) {
  if (options->n_rows < 1 || options->n_rows > CV_EXECUTOR_ROWS)
    return cv_error(CV_INVALID, "a gateway of %u transports: give 1 to %d", options->n_rows,
                    CV_EXECUTOR_ROWS);
  for (uint32_t i = 0; i < options->n_rows; i++) {
    const cv_transport_row *row = cv_transport_find(options->rows[i]);
    if (!row)
      return cv_error(CV_INVALID, "there is no transport '%s' in this build", options->rows[i]);
    gateway->row_names[i] = cv_strdup(options->rows[i]);
    if (!gateway->row_names[i]) return cv_error_nomem(strlen(options->rows[i]) + 1);
    bool inproc = strcmp(options->rows[i], "inproc") == 0;
    cv_status status = cv_transport_open(row, inproc ? options->hub : NULL, &gateway->rows[i]);
    if (status != CV_OK) return status;
    gateway->n_rows++;
  }
  return CV_OK;
}

static cv_status make_requests(cv_gateway *gateway) {
  const cv_program *p = gateway->program;
  cv_arena *arena = &gateway->arena;
  gateway->requests = cv_arena_array(arena, cv_gateway_request, gateway->max_requests);
  gateway->symbols = cv_arena_array(arena, int64_t, gateway->n_symbols + 1);
  if (!gateway->requests || !gateway->symbols) return cv_error_nomem(gateway->max_requests);
  for (uint32_t i = 0; i < gateway->max_requests; i++) {
    gateway->requests[i].inputs = cv_arena_array(arena, cv_tensor, p->n_inputs + 1);
    gateway->requests[i].outputs = cv_arena_array(arena, cv_tensor, p->n_outputs + 1);
    if (!gateway->requests[i].inputs || !gateway->requests[i].outputs)
      return cv_error_nomem(p->n_inputs * sizeof(cv_tensor));
  }
  return CV_OK;
}

cv_status cv_gateway_create(const cv_gateway_options *options, cv_gateway **out_gateway) {
  *out_gateway = NULL;
  cv_gateway *gateway = cv_alloc(1, sizeof *gateway);
  if (!gateway) return cv_error_nomem(sizeof *gateway);
  cv_status status = CV_OK;
  gateway->incarnation = options->incarnation;
  gateway->deployment = options->deployment;
  gateway->program = options->program;
  gateway->split = options->program->separable && options->program->n_states == 0;
  gateway->n_symbols = cv_exprs_symbols(options->program->exprs);
  gateway->max_requests = options->max_requests ? options->max_requests : MAX_REQUESTS;
  gateway->spin_ns = options->spin_ns;
  gateway->watchdog_ns = options->watchdog_ns > 0 ? options->watchdog_ns : WATCHDOG_NS;
  gateway->events = options->events;
  gateway->moved_ns = cv_clock_ns();
  for (int i = 0; i < CV_ROUTES; i++) gateway->routes[i].gateway = gateway;
  cv_ledger_rule rule = {.split = gateway->split,
                         .max_items = 0,
                         .one_by_one = options->program->n_states > 0,
                         .mergeable = mergeable,
                         .arg = gateway};
  gateway->name = cv_strdup(options->name ? options->name : "the gateway");
  if (!gateway->name) CV_TRY(cv_error_nomem(1));
  CV_TRY(make_requests(gateway));
  CV_TRY(cv_ledger_create(gateway->max_requests, CV_ROUTES * CV_ROUTE_WINDOW, &rule,
                          &gateway->ledger));
  if (options->trace_events) CV_TRY(cv_trace_create(options->trace_events, &gateway->trace));
  CV_TRY(open_rows(gateway, options));
  *out_gateway = gateway;
out:
  if (status != CV_OK) cv_gateway_destroy(gateway);
  return status;
}

void cv_gateway_destroy(cv_gateway *gateway) {
  if (!gateway) return;
  gateway->events = (cv_gateway_events){0};
  for (uint32_t i = 0; i < CV_EXECUTOR_ROWS; i++) {
    cv_transport_close(gateway->rows[i]);
    cv_free(gateway->row_names[i]);
  }
  for (int i = 0; i < CV_ROUTES; i++) cv_route_free(&gateway->routes[i]);
  for (uint32_t i = 0; gateway->requests && i < gateway->max_requests; i++)
    if (gateway->requests[i].inputs && gateway->requests[i].outputs)
      cv_answer_free_request(gateway, &gateway->requests[i]);
  for (size_t i = 0; i < gateway->streams.len; i++)
    cv_answer_free_state(gateway, &gateway->streams.data[i]);
  cv_vec_deinit(&gateway->streams);
  cv_ledger_destroy(gateway->ledger);
  cv_trace_destroy(gateway->trace);
  cv_arena_deinit(&gateway->arena);
  cv_free(gateway->name);
  cv_free(gateway);
}

cv_status cv_gateway_address(const cv_gateway *gateway, uint32_t row, void *buffer, size_t cap,
                             size_t *out_size) {
  *out_size = 0;
  if (row >= gateway->n_rows)
    return cv_error(CV_INVALID, "%s has no transport number %u", gateway->name, row);
  return cv_transport_address(gateway->rows[row], buffer, cap, out_size);
}

/* Whether some input is to come from the stream's state. */
static bool leaves_state_out(const cv_program *p, const cv_request *request) {
  for (uint32_t i = 0; i < p->n_states; i++)
    if (!request->inputs[p->states[i].input].data) return true;
  return false;
}

cv_status cv_gateway_submit(cv_gateway *gateway, const cv_request *request, uint64_t *out_id) {
  const cv_program *p = gateway->program;
  cv_status status = CV_OK;
  *out_id = 0;
  if (!leaves_state_out(p, request))
    status = cv_program_bind_inputs(p, request->inputs, gateway->symbols);
  if (status != CV_OK) return status;
  int64_t items = gateway->split ? gateway->symbols[p->batch] : 1;
  cv_ledger_request *entry;
  status = cv_ledger_add(gateway->ledger, request->stream, items, NULL, &entry);
  if (status != CV_OK) return status;
  cv_gateway_request *own = &gateway->requests[entry->id % gateway->max_requests];
  entry->subject = own;
  memcpy(own->inputs, request->inputs, p->n_inputs * sizeof *own->inputs);
  own->context = request->context;
  own->reset = request->reset;
  own->ends = false;
  own->submitted_ns = cv_clock_ns();
  own->text[0] = '\0';
  *out_id = entry->id;
  return CV_OK;
}

void cv_gateway_refuse(cv_gateway *gateway, cv_status status, const char *text) {
  for (uint32_t i = 0; i < gateway->max_requests; i++) {
    cv_ledger_request *request = cv_ledger_at(gateway->ledger, i);
    if (!request || request->is_stamped) continue;
    cv_gateway_request *own = request->subject;
    snprintf(own->text, sizeof own->text, "%s", text);
    cv_ledger_fail(gateway->ledger, request, status);
  }
}

uint32_t cv_gateway_in_flight(const cv_gateway *gateway, cv_epoch epoch) {
  return cv_ledger_in_flight(gateway->ledger, epoch);
}

uint32_t cv_gateway_waiting(const cv_gateway *gateway) {
  return cv_ledger_waiting(gateway->ledger);
}

static void watch(cv_gateway *gateway, int64_t now) {
  const cv_route *waits = NULL;
  for (int i = 0; i < CV_ROUTES; i++) {
    const cv_route *route = &gateway->routes[i];
    if (route->phase == CV_ROUTE_OPENING ||
        (route->phase == CV_ROUTE_OPEN && cv_ledger_in_flight(gateway->ledger, route->epoch) > 0))
      waits = route;
  }
  if (!waits || now - gateway->moved_ns < gateway->watchdog_ns) return;
  gateway->moved_ns = now;
  char text[CV_GATEWAY_TEXT];
  cv_route_explain(waits, text, sizeof text);
  if (gateway->events.on_stalled) gateway->events.on_stalled(gateway->events.arg, text);
}

/* The route in use last: what the others took may be what its next micro-batch waits for. */
static void pump(cv_gateway *gateway) {
  for (int i = 0; i < CV_ROUTES; i++)
    if (&gateway->routes[i] != gateway->used) cv_route_pump(&gateway->routes[i]);
  if (gateway->used) cv_route_pump(gateway->used);
}

cv_status cv_gateway_wait(cv_gateway *gateway, int extra_fd, int64_t deadline_ns) {
  pump(gateway);
  if (cv_answer_deliver(gateway) > 0) return CV_OK;
  int64_t watch_ns = cv_clock_ns() + gateway->watchdog_ns / 4;
  bool watching = watch_ns < deadline_ns;
  cv_status status = cv_transport_wait(gateway->rows, gateway->n_rows, extra_fd,
                                       watching ? watch_ns : deadline_ns, gateway->spin_ns);
  int64_t now = cv_clock_ns();
  if (status == CV_OK) gateway->moved_ns = now;
  if (status == CV_TIMEOUT && watching) status = CV_OK;
  pump(gateway);
  cv_answer_deliver(gateway);
  watch(gateway, now);
  return status;
}

size_t cv_gateway_trace(cv_gateway *gateway, cv_trace_event *out_events, size_t cap) {
  return cv_trace_take(gateway->trace, out_events, cap);
}

uint64_t cv_gateway_trace_dropped(const cv_gateway *gateway) {
  return cv_trace_dropped(gateway->trace);
}
