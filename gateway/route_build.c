/* Makes a route from its spec, and frees it. */
#include <inttypes.h>
#include <string.h>

#include "gateway/gateway_internal.h"

static cv_status find_row(const cv_gateway *gateway, const char *row, uint32_t *out_row) {
  for (uint32_t i = 0; row && i < gateway->n_rows; i++)
    if (strcmp(gateway->row_names[i], row) == 0) {
      *out_row = i;
      return CV_OK;
    }
  return cv_error(CV_INVALID, "%s: transport %s is not open", gateway->name, row ? row : "(none)");
}

static cv_status build_link(cv_route *route, cv_route_link *link, const cv_edge *edge,
                            const cv_edge_peer *peer) {
  cv_arena *arena = &route->arena;
  cv_edge *copy;
  link->route = route;
  cv_status status = cv_edge_copy(arena, edge, &copy);
  if (status == CV_OK) status = find_row(route->gateway, peer->row, &link->row);
  if (status != CV_OK) return status;
  link->edge = copy;
  link->peer = cv_arena_strdup(arena, peer->name ? peer->name : "a stage");
  bool in = edge->to == CV_EDGE_GATEWAY;
  size_t slots = in ? edge->slots : 0;
  link->headers = cv_arena_array(arena, const cv_header *, slots + 1);
  link->slots = cv_arena_array(arena, cv_slot, slots + 1);
  link->began_ns = cv_arena_array(arena, int64_t, slots + 1);
  link->pending = cv_arena_array(arena, bool, route->window);
  link->sent_ns = cv_arena_array(arena, int64_t, route->window);
  if (!link->peer || !link->headers || !link->slots || !link->began_ns || !link->pending ||
      !link->sent_ns)
    return cv_error_nomem(slots * sizeof *link->slots);
  for (uint32_t i = 0; !in && i < edge->n_values; i++)
    if (edge->values[i] >= route->gateway->program->n_values ||
        route->gateway->program->values[edge->values[i]].kind != CV_VALUE_INPUT)
      return cv_error(CV_INVALID, "edge %" PRIu32 " wants a value of the gateway that is no input",
                      link->id);
  return in ? CV_OK : cv_message_init(&link->message, link->edge);
}

static cv_status build_links(cv_route *route, const cv_route_spec *spec) {
  const cv_edges *edges = spec->edges;
  for (uint32_t i = 0; i < edges->n_edges; i++) {
    route->n_in += edges->edges[i].to == CV_EDGE_GATEWAY;
    route->n_out += edges->edges[i].from == CV_EDGE_GATEWAY;
  }
  if (route->n_in < 1 || route->n_out < 1)
    return cv_error(CV_INVALID, "a plan with %d edges from the gateway and %d to it: it has both",
                    route->n_out, route->n_in);
  route->in = cv_arena_array(&route->arena, cv_route_link, (size_t)route->n_in);
  route->out = cv_arena_array(&route->arena, cv_route_link, (size_t)route->n_out);
  if (!route->in || !route->out) return cv_error_nomem(edges->n_edges * sizeof(cv_route_link));
  int n_in = 0, n_out = 0;
  for (uint32_t i = 0; i < edges->n_edges; i++) {
    const cv_edge *edge = &edges->edges[i];
    if (edge->to != CV_EDGE_GATEWAY && edge->from != CV_EDGE_GATEWAY) continue;
    bool in = edge->to == CV_EDGE_GATEWAY;
    cv_route_link *link = in ? &route->in[n_in] : &route->out[n_out];
    link->index = in ? n_in++ : n_out++;
    link->id = i;
    cv_status status = build_link(route, link, edge, &spec->peers[i]);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

static cv_status build_schedules(cv_route *route) {
  cv_schedule_in *in = cv_arena_array(&route->arena, cv_schedule_in, (size_t)route->n_in);
  cv_schedule_out *out = cv_arena_array(&route->arena, cv_schedule_out, (size_t)route->n_out);
  if (!in || !out) return cv_error_nomem(sizeof *in);
  for (int e = 0; e < route->n_in; e++)
    in[e] = (cv_schedule_in){(int)route->in[e].edge->slots, route->in[e].peer};
  for (int e = 0; e < route->n_out; e++) out[e] = (cv_schedule_out){false, route->out[e].peer};
  cv_schedule_config source = {
      .n_out = route->n_out, .out = out, .out_buffers = (int)route->window};
  cv_schedule_config sink = {.n_in = route->n_in, .in = in, .out_buffers = 1};
  cv_status status = cv_schedule_create(&source, &route->source);
  return status == CV_OK ? cv_schedule_create(&sink, &route->sink) : status;
}

static cv_status build_batches(cv_route *route) {
  const cv_gateway *gateway = route->gateway;
  route->batches = cv_arena_array(&route->arena, cv_route_batch, route->window);
  if (!route->batches) return cv_error_nomem(route->window * sizeof *route->batches);
  for (uint32_t b = 0; b < route->window; b++) {
    cv_route_batch *batch = &route->batches[b];
    batch->symbols = cv_arena_array(&route->arena, int64_t, gateway->n_symbols + 1);
    batch->inputs = cv_arena_array(&route->arena, cv_tensor, gateway->program->n_inputs + 1);
    if (!batch->symbols || !batch->inputs) return cv_error_nomem(sizeof(cv_tensor));
  }
  return CV_OK;
}

cv_status cv_route_build(cv_route *route, const cv_route_spec *spec) {
  uint32_t window = spec->window ? spec->window : 2 * (uint32_t)spec->edges->n_stages + 2;
  route->window = window < CV_ROUTE_WINDOW ? window : CV_ROUTE_WINDOW;
  route->epoch = spec->epoch;
  route->micro_batch = spec->micro_batch > 0 ? spec->micro_batch : 0;
  cv_status status = build_links(route, spec);
  if (status == CV_OK) status = build_schedules(route);
  if (status == CV_OK) status = build_batches(route);
  return status;
}

void cv_route_free(cv_route *route) {
  for (int e = 0; route->out && e < route->n_out; e++) cv_message_deinit(&route->out[e].message);
  cv_schedule_destroy(route->source);
  cv_schedule_destroy(route->sink);
  cv_arena_deinit(&route->arena);
  *route = (cv_route){.gateway = route->gateway};
}
