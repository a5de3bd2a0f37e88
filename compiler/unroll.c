/* Loops of few known trips, no condition and a small body become straight code, so that they can be
 * cut and fused. */
#include <string.h>

#include "compiler/passes_internal.h"

enum { MAX_TRIPS = 8, MAX_NODES = 64 };

typedef struct {
  cv_expr *trips; /* by symbol: the constant it turned out to be; CV_EXPR_NONE: none */
  cv_sym n;
} unroller;

static bool is_true(const cv_graph *graph, cv_val v) {
  const cv_value_info *info = cv_value_of(graph, v);
  return info->is_const && info->data.data && info->type.dtype == CV_BOOL &&
         *(const unsigned char *)info->data.data != 0;
}

int64_t cv_loop_known_trips(const cv_graph *graph, const cv_node *node) {
  const cv_block *body = node->blocks[0];
  const cv_value_info *trips = cv_value_of(graph, node->ins[0]);
  if (!trips->is_const || !trips->data.data || !is_true(graph, node->ins[1])) return -1;
  cv_val goes_on = body->results.data[0];
  if (!is_true(graph, goes_on) && goes_on != body->params.data[1]) return -1;
  int64_t n;
  memcpy(&n, trips->data.data, sizeof n);
  return n >= 0 && n <= cv_node_int(node, CV_ATTR_MAX) ? n : -1;
}

/* The number of trips of a loop that can be unrolled; 0 if it cannot. */
static int64_t trips_to_unroll(const cv_graph *graph, const cv_node *node) {
  const cv_block *body = node->blocks[0];
  int64_t n = cv_loop_known_trips(graph, node);
  if (n < 1 || n > MAX_TRIPS || n * (int64_t)body->nodes.len > MAX_NODES) return 0;
  for (size_t i = 0; i < body->nodes.len; i++)
    if (body->nodes.data[i]->op == CV_OP_bind || body->nodes.data[i]->n_blocks) return 0;
  for (uint32_t i = 2; i < node->n_ins; i++)
    if (!cv_type_same(cv_type_of(graph, node->ins[i]), cv_type_of(graph, body->params.data[i])))
      return 0;
  uint32_t carried = cv_loop_carried(graph, node);
  for (uint32_t i = 0; i < carried; i++)
    if (!cv_type_same(cv_type_of(graph, node->ins[i + 2]),
                      cv_type_of(graph, body->results.data[i + 1])))
      return 0;
  return n;
}

typedef struct {
  cv_graph *graph;
  cv_vec(cv_val) to; /* by value of the body: in this trip; CV_POISON: as it is */
} trip;

static cv_val in_trip(const trip *t, cv_val v) {
  return v < t->to.len && t->to.data[v] != CV_POISON ? t->to.data[v] : v;
}

static void set_in_trip(trip *t, cv_val v, cv_val to) {
  while (t->to.len <= v) cv_push(&t->to, CV_POISON);
  t->to.data[v] = to;
}

static bool run_body(trip *t, const cv_node *loop) {
  cv_graph *graph = t->graph;
  const cv_block *body = loop->blocks[0];
  for (size_t i = 0; i < body->nodes.len; i++) {
    const cv_node *node = body->nodes.data[i];
    cv_val *ins = cv_arena_array(&graph->arena, cv_val, node->n_ins + 1);
    for (uint32_t k = 0; k < node->n_ins; k++) ins[k] = in_trip(t, node->ins[k]);
    graph->region = node->region;
    graph->source = node->source;
    graph->guard = cv_expr_mul(graph->exprs, loop->guard, node->guard);
    cv_node *copy = cv_build_node(graph, node->op, ins, node->n_ins, node->attrs, node->n_attrs);
    if (!copy) return false;
    for (uint32_t k = 0; k < node->n_outs; k++) set_in_trip(t, node->outs[k], copy->outs[k]);
  }
  graph->guard = loop->guard;
  graph->source = loop->source;
  return true;
}

/* One item of a stacked output: a dim of 1 in front. */
static cv_val as_item(cv_graph *graph, cv_val v) {
  cv_type type = *cv_type_of(graph, v);
  if (type.rank == CV_MAX_RANK)
    return cv_graph_fail(graph, CV_UNSUPPORTED, "Loop '%s' stacks %s: too many dims", graph->source,
                         cv_type_text(graph, &type));
  memmove(type.dims + 1, type.dims, type.rank * sizeof *type.dims);
  type.dims[0] = cv_expr_const(graph->exprs, 1);
  return cv_reshape(graph, v, type.dims, type.rank + 1);
}

static bool unroll(cv_rewriter *rewriter, const cv_node *node, int64_t n) {
  cv_graph *graph = rewriter->graph;
  const cv_block *body = node->blocks[0];
  uint32_t carried = cv_loop_carried(graph, node), stacked = node->n_outs - carried;
  cv_val *items = cv_arena_array(&graph->arena, cv_val, (size_t)n * stacked + 1);
  cv_val *state = cv_arena_array(&graph->arena, cv_val, node->n_ins + 1);
  memcpy(state, node->ins, node->n_ins * sizeof *state);
  trip t = {.graph = graph};
  for (int64_t i = 0; i < n && graph->status == CV_OK; i++) {
    state[0] = cv_graph_i64(graph, i);
    for (uint32_t k = 0; k < node->n_ins; k++) set_in_trip(&t, body->params.data[k], state[k]);
    if (!run_body(&t, node)) break;
    for (uint32_t k = 0; k < carried; k++) state[k + 2] = in_trip(&t, body->results.data[k + 1]);
    for (uint32_t k = 0; k < stacked; k++)
      items[k * n + i] = as_item(graph, in_trip(&t, body->results.data[carried + 1 + k]));
  }
  cv_vec_deinit(&t.to);
  if (graph->status != CV_OK) return false;
  for (uint32_t k = 0; k < carried; k++) cv_rewrite_replace(rewriter, node->outs[k], state[k + 2]);
  for (uint32_t k = 0; k < stacked; k++)
    cv_rewrite_replace(rewriter, node->outs[carried + k],
                       cv_concat(graph, items + k * n, (uint32_t)n, 0));
  return true;
}

static bool visit(cv_rewriter *rewriter, cv_node *node) {
  unroller *u = rewriter->context;
  cv_graph *graph = rewriter->graph;
  int64_t n = node->op == CV_OP_loop ? trips_to_unroll(graph, node) : 0;
  if (n == 0) return false;
  const cv_attr *symbol = cv_node_attr(node, CV_ATTR_SYMBOL);
  cv_sym sym;
  bool known = symbol && cv_expr_is_symbol(graph->exprs, symbol->e, &sym) && sym < u->n;
  if (known) u->trips[sym] = cv_expr_const(graph->exprs, n);
  return unroll(rewriter, node, n);
}

void cv_pass_unroll(cv_graph *graph, const cv_pass_options *options) {
  (void)options;
  unroller u = {.n = cv_exprs_symbols(graph->exprs)};
  u.trips = cv_alloc_or_die((size_t)u.n + 1, sizeof *u.trips);
  for (cv_sym s = 0; s < u.n; s++) u.trips[s] = CV_EXPR_NONE;
  if (cv_rewrite(graph, visit, &u)) cv_graph_substitute(graph, u.trips);
  cv_free(u.trips);
}
