#include "compiler/equal.h"

#include "base/alloc.h"
#include "compiler/build.h"
#include "compiler/passes_internal.h"

enum { GROWTH = 4 }; /* atoms that the other form may have more */

void cv_mark_bound(const cv_graph *graph, const cv_block *block, bool *bound) {
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    const cv_attr *exprs = cv_node_attr(node, CV_ATTR_EXPRS);
    const cv_attr *trips = cv_node_attr(node, CV_ATTR_SYMBOL);
    cv_sym sym;
    for (uint32_t k = 0; node->op == CV_OP_bind && k < exprs->count; k++)
      if (cv_expr_is_symbol(graph->exprs, exprs->exprs[k], &sym)) bound[sym] = true;
    if (trips && cv_expr_is_symbol(graph->exprs, trips->e, &sym)) bound[sym] = true;
    for (uint32_t b = 0; b < node->n_blocks; b++) cv_mark_bound(graph, node->blocks[b], bound);
  }
}

static bool uses_marked(const cv_exprs *pool, cv_expr e, const bool *marked) {
  for (cv_sym sym = 0; sym < cv_exprs_symbols(pool); sym++)
    if (marked[sym] && cv_expr_uses(pool, e, sym)) return true;
  return false;
}

/* Whether `e` may be written as `other` everywhere. */
static bool may_become(cv_exprs *pool, cv_expr e, cv_expr other) {
  return cv_expr_is_function(pool, e) &&
         cv_expr_size(pool, other) <= cv_expr_size(pool, e) + GROWTH &&
         cv_expr_replace(pool, other, e, cv_expr_const(pool, 0)) == other;
}

/* A symbol that a step binds is not known before that step: it stands for nothing else. */
static bool choose(cv_exprs *pool, cv_expr a, cv_expr b, const bool *bound, cv_equal *out) {
  bool forth = may_become(pool, a, b) && !uses_marked(pool, b, bound),
       back = may_become(pool, b, a) && !uses_marked(pool, a, bound);
  if (forth && back) forth = cv_expr_size(pool, a) >= cv_expr_size(pool, b);
  *out = forth ? (cv_equal){a, b} : (cv_equal){b, a};
  return forth || back;
}

static cv_expr apply_all(cv_exprs *pool, cv_expr e, const cv_equal *pairs, uint32_t n) {
  for (uint32_t i = 0; i < n && e != CV_EXPR_NONE; i++)
    e = cv_expr_replace(pool, e, pairs[i].from, pairs[i].to);
  return e;
}

uint32_t cv_equal_pairs(const cv_graph *graph, cv_equal *out_pairs) {
  uint32_t n = 0;
  bool *bound = cv_alloc_or_die((size_t)cv_exprs_symbols(graph->exprs) + 1, sizeof *bound);
  cv_mark_bound(graph, graph->body, bound);
  for (size_t i = 0; i < graph->equalities.len; i++) {
    const cv_equality *equality = &graph->equalities.data[i];
    int64_t holds;
    if (!cv_expr_is_const(graph->exprs, equality->guard, &holds) || holds == 0) continue;
    cv_expr a = apply_all(graph->exprs, equality->a, out_pairs, n);
    cv_expr b = apply_all(graph->exprs, equality->b, out_pairs, n);
    if (a == b || a == CV_EXPR_NONE || b == CV_EXPR_NONE) continue;
    if (choose(graph->exprs, a, b, bound, &out_pairs[n])) n++;
  }
  cv_free(bound);
  return n;
}

typedef cv_vec(cv_expr) expr_list;

static void collect_dims(const cv_graph *graph, expr_list *out) {
  for (size_t v = 0; v < graph->values.len; v++) {
    const cv_type *type = &graph->values.data[v].type;
    for (int d = 0; d < type->rank; d++) cv_push(out, type->dims[d]);
  }
}

void cv_equal_tell(cv_graph *body, const cv_equal *pairs, uint32_t n) {
  expr_list dims = {0};
  if (n > 0) collect_dims(body, &dims);
  for (uint32_t i = 0; i < n; i++) {
    bool used = false;
    for (size_t k = 0; k < dims.len; k++) {
      cv_expr to = cv_expr_replace(body->exprs, dims.data[k], pairs[i].from, pairs[i].to);
      if (to == dims.data[k] || to == CV_EXPR_NONE) continue;
      dims.data[k] = to;
      used = true;
    }
    if (used) cv_graph_assume_equal(body, pairs[i].from, pairs[i].to);
  }
  cv_vec_deinit(&dims);
}

void cv_equal_apply(cv_graph *body) {
  cv_equal *pairs = cv_alloc_or_die(body->equalities.len + 1, sizeof *pairs);
  uint32_t n = 0;
  for (size_t i = 0; i < body->equalities.len; i++) {
    const cv_equality *equality = &body->equalities.data[i];
    cv_expr from = apply_all(body->exprs, equality->a, pairs, n);
    cv_expr to = apply_all(body->exprs, equality->b, pairs, n);
    if (from == CV_EXPR_NONE || to == CV_EXPR_NONE || !may_become(body->exprs, from, to)) continue;
    pairs[n++] = (cv_equal){from, to};
    cv_graph_replace(body, from, to);
  }
  cv_free(pairs);
}
