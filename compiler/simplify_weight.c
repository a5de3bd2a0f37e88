/* Rules that move scales and offsets of channels into weights: batch norm folds away. */
#include "compiler/simplify.h"

/* Splits a commutative op into a constant (or broadcast of one) and the rest. */
static bool split_const(const cv_graph *graph, const cv_node *node, cv_val *out_x, cv_val *out_c) {
  for (int i = 1; i >= 0; i--) {
    *out_c = cv_const_source(graph, node->ins[i]);
    *out_x = node->ins[1 - i];
    if (*out_c != CV_POISON && cv_const_source(graph, *out_x) == CV_POISON) return true;
  }
  return false;
}

static bool is_float(const cv_graph *graph, cv_val v) {
  return cv_dtype_kind(cv_type_of(graph, v)->dtype) == 'f';
}

/* All dims of c but `axis` are 1. */
static bool only_axis(const cv_graph *graph, cv_val c, int axis) {
  const cv_type *type = cv_type_of(graph, c);
  if (cv_value_of(graph, c)->data.splat) return true;
  for (int d = 0; d < type->rank; d++)
    if (d != axis && !cv_expr_is(graph, type->dims[d], 1)) return false;
  return true;
}

/* A constant of f32 or f64 that nothing needs unscaled. */
static bool is_weight(const cv_graph *graph, cv_val w) {
  const cv_value_info *info = cv_value_of(graph, w);
  return info->is_const && info->data.data && !info->data.splat &&
         (info->type.dtype == CV_F32 || info->type.dtype == CV_F64);
}

/* The scale of a channel along `axis` of the weight. */
static cv_val scale_weight(cv_graph *graph, cv_val w, cv_val c, int axis) {
  const cv_type type = *cv_type_of(graph, w);
  cv_val scale = c;
  if (cv_value_of(graph, c)->data.splat) {
    cv_type scalar = {.dtype = type.dtype};
    scale = cv_graph_splat(graph, &scalar, cv_value_of(graph, c)->data.data);
  } else {
    const cv_type from = *cv_type_of(graph, c);
    cv_expr count = cv_type_count(graph, &from), dims[CV_MAX_RANK];
    for (int d = 0; d < type.rank; d++) dims[d] = cv_expr_const(graph->exprs, 1);
    dims[axis] = count;
    scale = cv_reshape(graph, c, dims, type.rank);
  }
  return cv_binary(graph, CV_OP_mul, w, cv_broadcast_to(graph, scale, type.dims, type.rank));
}

/* x - c is x + (-c), to the bit; so the rules below need not know sub. */
cv_val cv_rule_sub_const(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  cv_val c = cv_const_source(graph, node->ins[1]);
  if (c == CV_POISON || !is_float(graph, c) || cv_const_source(graph, node->ins[0]) != CV_POISON)
    return CV_POISON;
  const cv_type out = *cv_type_of(graph, node->outs[0]);
  cv_val offset = cv_broadcast_to(graph, cv_unary(graph, CV_OP_neg, c), out.dims, out.rank);
  return cv_binary(graph, CV_OP_add, node->ins[0], offset);
}

/* conv(x, w) * c is conv(x, w c). */
cv_val cv_rule_scale_into_conv(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  cv_val x, c;
  if (!split_const(graph, node, &x, &c)) return CV_POISON;
  const cv_node *conv = cv_only_def_of(r, x, CV_OP_conv);
  if (!conv || !is_weight(graph, conv->ins[1]) || !only_axis(graph, c, 1) ||
      cv_type_of(graph, c)->dtype != cv_type_of(graph, conv->ins[1])->dtype)
    return CV_POISON;
  cv_val ins[2] = {conv->ins[0], scale_weight(graph, conv->ins[1], c, 0)};
  return cv_build(graph, CV_OP_conv, ins, 2, conv->attrs, conv->n_attrs);
}

/* (a w) * c is a (w c), c along the columns. */
cv_val cv_rule_scale_into_matmul(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  cv_val x, c;
  if (!split_const(graph, node, &x, &c)) return CV_POISON;
  const cv_node *matmul = cv_only_def_of(r, x, CV_OP_matmul);
  if (!matmul || !is_weight(graph, matmul->ins[1])) return CV_POISON;
  int rank = cv_type_of(graph, x)->rank;
  if (!only_axis(graph, c, rank - 1) ||
      cv_type_of(graph, c)->dtype != cv_type_of(graph, matmul->ins[1])->dtype)
    return CV_POISON;
  cv_val ins[2] = {matmul->ins[0], scale_weight(graph, matmul->ins[1], c, rank - 1)};
  return cv_build(graph, CV_OP_matmul, ins, 2, matmul->attrs, matmul->n_attrs);
}

/* (y + b) * c is y c + b c where y is a contraction that will take c into its weight. */
cv_val cv_rule_scale_of_sum(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  cv_val sum, c, y, b;
  if (!split_const(graph, node, &sum, &c) || !is_float(graph, sum)) return CV_POISON;
  const cv_node *add = cv_only_def_of(r, sum, CV_OP_add);
  if (!add || !split_const(graph, add, &y, &b)) return CV_POISON;
  const cv_node *below = cv_only_def_of(r, y, CV_OP_conv);
  int axis = 1;
  if (!below) {
    below = cv_only_def_of(r, y, CV_OP_matmul);
    axis = cv_type_of(graph, y)->rank - 1;
  }
  if (!below || !is_weight(graph, below->ins[1]) || !only_axis(graph, c, axis)) return CV_POISON;
  const cv_type out = *cv_type_of(graph, node->outs[0]);
  cv_val offset = cv_const_combine(graph, CV_OP_mul, b, c, node->outs[0]);
  cv_val factor = cv_broadcast_to(graph, c, out.dims, out.rank);
  return cv_binary(graph, CV_OP_add, cv_binary(graph, CV_OP_mul, y, factor), offset);
}

/* (x op a) op b is x op (a op b) for add and mul. Integers wrap and so stay exact. */
cv_val cv_rule_const_chain(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  cv_val inner, b, x, a;
  if (!split_const(graph, node, &inner, &b)) return CV_POISON;
  const cv_node *below = cv_only_def_of(r, inner, node->op);
  if (!below || !split_const(graph, below, &x, &a)) return CV_POISON;
  return cv_binary(graph, node->op, x, cv_const_combine(graph, node->op, a, b, node->outs[0]));
}
