/* An If becomes guarded nodes, so that it can be cut: the condition is bound to a symbol p in 0..1,
 * nodes of the then branch get the guard p, of the else branch 1 - p (times the guards around
 * them), and a join takes the result that is there. All core ops are pure, so every If qualifies.
 */
#include "compiler/passes_internal.h"

/* Nodes of `branch` under the guard, at the place of the If; params stand for the captured values.
 */
static void inline_branch(cv_rewriter *rewriter, const cv_node *node, cv_block *branch,
                          cv_expr guard) {
  cv_graph *graph = rewriter->graph;
  for (size_t i = 0; i < branch->params.len && i + 1 < node->n_ins; i++)
    cv_rewrite_replace(rewriter, branch->params.data[i], node->ins[i + 1]);
  for (size_t i = 0; i < branch->nodes.len; i++)
    branch->nodes.data[i]->guard = cv_expr_mul(graph->exprs, branch->nodes.data[i]->guard, guard);
  cv_rewrite_inline(rewriter, branch);
  for (size_t i = 0; i < branch->results.len; i++)
    branch->results.data[i] = cv_rewrite_resolve(rewriter, branch->results.data[i]);
}

static void join_results(cv_rewriter *rewriter, const cv_node *node, cv_expr p) {
  cv_graph *graph = rewriter->graph;
  for (uint32_t i = 0; i < node->n_outs; i++) {
    cv_val both[2] = {node->blocks[0]->results.data[i], node->blocks[1]->results.data[i]};
    const cv_type *a = cv_type_of(graph, both[0]), *b = cv_type_of(graph, both[1]);
    if (a->dtype != b->dtype || a->rank != b->rank) {
      cv_graph_fail(graph, CV_UNSUPPORTED,
                    "If '%s': its branches give %s and %s as output %u: one dtype and one rank are "
                    "needed; export the model with equal types, or fix the condition",
                    node->source, cv_type_text(graph, a), cv_type_text(graph, b), i);
      return;
    }
    cv_attr guard = {.key = CV_ATTR_GUARD, .e = p};
    cv_rewrite_replace(rewriter, node->outs[i], cv_build(graph, CV_OP_join, both, 2, &guard, 1));
  }
}

static bool visit(cv_rewriter *rewriter, cv_node *node) {
  if (node->op != CV_OP_if) return false;
  cv_graph *graph = rewriter->graph;
  const cv_expr *elems;
  uint32_t n;
  if (!cv_graph_bind_elems(graph, node->ins[0], "taken", 0, 1, &elems, &n)) return true;
  if (n != 1) {
    cv_graph_fail(graph, CV_INVALID, "If '%s': its condition has %u elements, one is needed",
                  node->source, n);
    return true;
  }
  cv_expr p = elems[0], outer = node->guard;
  int64_t known;
  if (cv_expr_is_const(graph->exprs, p, &known)) {
    cv_block *taken = node->blocks[known ? 0 : 1];
    inline_branch(rewriter, node, taken, outer);
    for (uint32_t i = 0; i < node->n_outs; i++)
      cv_rewrite_replace(rewriter, node->outs[i], taken->results.data[i]);
    return true;
  }
  cv_expr not_p = cv_expr_sub(graph->exprs, cv_expr_const(graph->exprs, 1), p);
  inline_branch(rewriter, node, node->blocks[0], cv_expr_mul(graph->exprs, outer, p));
  inline_branch(rewriter, node, node->blocks[1], cv_expr_mul(graph->exprs, outer, not_p));
  graph->guard = outer;
  graph->region = node->region;
  graph->source = node->source;
  join_results(rewriter, node, p);
  return true;
}

void cv_pass_flatten_if(cv_graph *graph, const cv_pass_options *options) {
  (void)options;
  cv_rewrite(graph, visit, NULL);
}
