/* Dead code: nodes whose results nothing reads. A `bind` lives while something that lives, or an
 * assumption that is to be checked, uses one of its symbols. */
#include "compiler/passes_internal.h"

typedef struct {
  cv_graph *graph;
  bool *live;       /* by value */
  bool *seen_exprs; /* by expression; grows */
  size_t n_seen;
  bool *used; /* by symbol */
  bool changed;
} liveness;

static void see_expr(void *context, cv_expr e) {
  liveness *l = context;
  if (e == CV_EXPR_NONE) return;
  if (e >= l->n_seen) {
    size_t n = (size_t)e * 2 + 64;
    l->seen_exprs = cv_realloc_or_die(l->seen_exprs, n, sizeof *l->seen_exprs);
    for (size_t i = l->n_seen; i < n; i++) l->seen_exprs[i] = false;
    l->n_seen = n;
  }
  if (l->seen_exprs[e]) return;
  l->seen_exprs[e] = true;
  for (cv_sym s = 0; s < cv_exprs_symbols(l->graph->exprs); s++)
    if (!l->used[s] && cv_expr_uses(l->graph->exprs, e, s)) l->used[s] = l->changed = true;
}

static void see_type(liveness *l, cv_val v) {
  const cv_type *type = cv_type_of(l->graph, v);
  for (int d = 0; d < type->rank; d++) see_expr(l, type->dims[d]);
}

static void mark(liveness *l, cv_val v) {
  if (v == CV_POISON || l->live[v]) return;
  l->live[v] = l->changed = true;
  see_type(l, v);
}

static bool is_live(const liveness *l, const cv_node *node) {
  for (uint32_t i = 0; i < node->n_outs; i++)
    if (l->live[node->outs[i]]) return true;
  const cv_attr *exprs = node->op == CV_OP_bind ? cv_node_attr(node, CV_ATTR_EXPRS) : NULL;
  for (uint32_t i = 0; exprs && i < exprs->count; i++) {
    cv_sym sym;
    if (!cv_expr_is_symbol(l->graph->exprs, exprs->exprs[i], &sym) || l->used[sym]) return true;
  }
  return false;
}

/* Marks backwards; the results of an inner block count once its node is live. */
static void mark_block(liveness *l, const cv_block *block) {
  for (size_t i = 0; i < block->results.len; i++) mark(l, block->results.data[i]);
  for (size_t i = 0; i < block->params.len; i++) see_type(l, block->params.data[i]);
  for (size_t i = block->nodes.len; i-- > 0;) {
    const cv_node *node = block->nodes.data[i];
    if (!is_live(l, node)) continue;
    for (uint32_t k = 0; k < node->n_ins; k++) mark(l, node->ins[k]);
    if (node->op != CV_OP_bind)
      cv_node_exprs(l->graph, node, see_expr, l);
    else
      see_expr(l, node->guard);
    for (uint32_t b = 0; b < node->n_blocks; b++) mark_block(l, node->blocks[b]);
  }
}

static void sweep_block(const liveness *l, cv_block *block) {
  size_t kept = 0;
  for (size_t i = 0; i < block->nodes.len; i++) {
    cv_node *node = block->nodes.data[i];
    if (!is_live(l, node)) continue;
    block->nodes.data[kept++] = node;
    for (uint32_t b = 0; b < node->n_blocks; b++) sweep_block(l, node->blocks[b]);
  }
  block->nodes.len = kept;
}

void cv_pass_dce(cv_graph *graph, const cv_pass_options *options) {
  (void)options;
  liveness l = {.graph = graph};
  l.live = cv_alloc_or_die(graph->values.len + 1, sizeof *l.live);
  l.used = cv_alloc_or_die((size_t)cv_exprs_symbols(graph->exprs) + 1, sizeof *l.used);
  for (size_t i = 0; i < graph->equalities.len; i++) {
    see_expr(&l, graph->equalities.data[i].a);
    see_expr(&l, graph->equalities.data[i].b);
    see_expr(&l, graph->equalities.data[i].guard);
  }
  do { /* again while a symbol made another bind live */
    l.changed = false;
    mark_block(&l, graph->body);
  } while (l.changed);
  sweep_block(&l, graph->body);
  cv_free(l.live);
  cv_free(l.used);
  cv_free(l.seen_exprs);
}
