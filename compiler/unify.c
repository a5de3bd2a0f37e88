/* Equalities that building the graph had to assume: of two symbols one stands for both, a symbol
 * that must be a constant becomes it. The inputs' dims then say so, and requests that do not fit
 * are refused by their shape. Symbols that a step binds keep theirs. */
#include "compiler/equal.h"
#include "compiler/passes_internal.h"

/* Applies one equality; false if none can be. */
static bool apply_one(cv_graph *graph, const bool *bound, cv_expr *map, cv_sym n_symbols) {
  for (size_t i = 0; i < graph->equalities.len; i++) {
    cv_equality equality = graph->equalities.data[i];
    cv_sym a, b;
    int64_t value;
    if (!cv_expr_is_const(graph->exprs, equality.guard, &value) || value == 0) continue;
    bool sym_a = cv_expr_is_symbol(graph->exprs, equality.a, &a) && !bound[a];
    bool sym_b = cv_expr_is_symbol(graph->exprs, equality.b, &b);
    if (sym_a && sym_b) {
      cv_graph_unify(graph, b, a);
      return true;
    }
    if (cv_expr_is_symbol(graph->exprs, equality.a, &a) && sym_b && !bound[b]) {
      cv_graph_unify(graph, a, b);
      return true;
    }
    if (!sym_a && !(sym_b && !bound[b])) continue;
    if (!cv_expr_is_const(graph->exprs, sym_a ? equality.b : equality.a, &value)) continue;
    for (cv_sym s = 0; s < n_symbols; s++) map[s] = CV_EXPR_NONE;
    map[sym_a ? a : b] = cv_expr_const(graph->exprs, value);
    cv_graph_substitute(graph, map);
    return true;
  }
  return false;
}

void cv_pass_unify(cv_graph *graph, const cv_pass_options *options) {
  (void)options;
  cv_sym n = cv_exprs_symbols(graph->exprs);
  bool *bound = cv_alloc_or_die((size_t)n + 1, sizeof *bound);
  cv_expr *map = cv_alloc_or_die((size_t)n + 1, sizeof *map);
  cv_mark_bound(graph, graph->body, bound);
  size_t before = graph->equalities.len + 1;
  while (graph->equalities.len < before && graph->status == CV_OK) { /* each one takes one away */
    before = graph->equalities.len;
    if (before == 0 || !apply_one(graph, bound, map, n)) break;
  }
  cv_free(bound);
  cv_free(map);
}
