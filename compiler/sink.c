/* Reshapes behind contractions, windows and reduces move down past the elementwise ops that follow,
 * so that these can run as an epilogue on the dims of the result: matmul of merged dims, reshape,
 * add becomes matmul, add, reshape. Exact: only the dims under which an element is computed change.
 */
#include "compiler/passes_internal.h"

typedef struct {
  cv_vec(bool) anchored; /* by value: an anchor's result or elementwise on one, under its dims */
} sinker;

static bool is_anchored(const sinker *s, cv_val v) {
  return v < s->anchored.len && s->anchored.data[v];
}

static void set_anchored(sinker *s, cv_val v) {
  while (s->anchored.len <= v) cv_push(&s->anchored, false);
  s->anchored.data[v] = true;
}

/* The operand that is a reshape of an anchored value, if no operand is anchored as it is. */
static const cv_node *reshape_to_sink(cv_rewriter *rewriter, const cv_node *node) {
  const sinker *s = rewriter->context;
  const cv_node *found = NULL;
  for (uint32_t i = 0; i < node->n_ins; i++) {
    if (is_anchored(s, node->ins[i])) return NULL;
    const cv_node *def = cv_value_of(rewriter->graph, node->ins[i])->def;
    if (!found && def && def->op == CV_OP_reshape && is_anchored(s, def->ins[0]) &&
        def->guard == node->guard)
      found = def;
  }
  return found;
}

static bool sink(cv_rewriter *rewriter, const cv_node *node, const cv_node *reshape) {
  cv_graph *graph = rewriter->graph;
  const cv_type above = *cv_type_of(graph, reshape->ins[0]);
  const cv_type below = *cv_type_of(graph, node->outs[0]);
  cv_val ins[3];
  for (uint32_t i = 0; i < node->n_ins; i++)
    ins[i] = node->ins[i] == reshape->outs[0]
                 ? reshape->ins[0]
                 : cv_reshape(graph, node->ins[i], above.dims, above.rank);
  cv_val y = cv_build(graph, node->op, ins, node->n_ins, node->attrs, node->n_attrs);
  if (y == CV_POISON) return false;
  set_anchored(rewriter->context, y);
  cv_rewrite_replace(rewriter, node->outs[0], cv_reshape(graph, y, below.dims, below.rank));
  return true;
}

static bool visit(cv_rewriter *rewriter, cv_node *node) {
  sinker *s = rewriter->context;
  switch (cv_class_of(node)) {
    case CV_CLASS_CONTRACT:
    case CV_CLASS_WINDOW:
    case CV_CLASS_REDUCE: set_anchored(s, node->outs[0]); return false;
    case CV_CLASS_MAP: break;
    default: return false;
  }
  const cv_node *reshape = reshape_to_sink(rewriter, node);
  if (reshape) return sink(rewriter, node, reshape);
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (is_anchored(s, node->ins[i])) set_anchored(s, node->outs[0]);
  return false;
}

void cv_pass_sink(cv_graph *graph, const cv_pass_options *options) {
  (void)options;
  sinker s = {0};
  cv_rewrite(graph, visit, &s);
  cv_vec_deinit(&s.anchored);
}
