/* Arithmetic operations of nodes: multiplications and additions count one each, whatever one
 * elementwise op does counts one an element. */
#include "compiler/fuse.h"

static cv_expr product(cv_graph *graph, cv_val v, int first, int last) {
  const cv_type *type = cv_type_of(graph, v);
  cv_expr count = cv_expr_const(graph->exprs, 1);
  for (int d = first; d < last; d++) count = cv_expr_mul(graph->exprs, count, type->dims[d]);
  return count;
}

static cv_expr count(cv_graph *graph, cv_val v) {
  return product(graph, v, 0, cv_type_of(graph, v)->rank);
}

static cv_expr contraction_flops(cv_graph *graph, const cv_node *node) {
  cv_expr two = cv_expr_const(graph->exprs, 2);
  cv_expr per_result;
  if (node->op == CV_OP_matmul) {
    int rank = cv_type_of(graph, node->ins[0])->rank;
    per_result = product(graph, node->ins[0], rank - 1, rank);
  } else {
    per_result = product(graph, node->ins[1], 1, cv_type_of(graph, node->ins[1])->rank);
  }
  return cv_expr_mul(graph->exprs, two,
                     cv_expr_mul(graph->exprs, count(graph, node->outs[0]), per_result));
}

static cv_expr window_flops(cv_graph *graph, const cv_node *node) {
  const cv_attr *kernel = cv_node_attr(node, CV_ATTR_KERNEL);
  int64_t taps = 1;
  for (uint32_t i = 0; i < kernel->count; i++) taps *= kernel->ints[i];
  return cv_expr_mul(graph->exprs, cv_expr_const(graph->exprs, taps), count(graph, node->outs[0]));
}

cv_expr cv_node_flops(cv_graph *graph, const cv_node *node) {
  switch (cv_class_of(node)) {
    case CV_CLASS_MAP: return count(graph, node->outs[0]);
    case CV_CLASS_REDUCE: return count(graph, node->ins[0]);
    case CV_CLASS_CONTRACT: return contraction_flops(graph, node);
    case CV_CLASS_WINDOW: return window_flops(graph, node);
    case CV_CLASS_ROUTINE:
      if (node->op == CV_OP_window_arg) return window_flops(graph, node);
      return count(graph, node->n_ins ? node->ins[0] : node->outs[0]);
    default: return cv_expr_const(graph->exprs, 0);
  }
}
