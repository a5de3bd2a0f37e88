/* Rules over movement. */
#include <string.h>

#include "compiler/simplify.h"

/* reshape, transpose, broadcast, slice, pad, concat that change nothing. */
cv_val cv_rule_move_none(cv_rewriter *r, const cv_node *node) {
  const cv_graph *graph = r->graph;
  cv_val x = node->ins[0];
  if (node->op == CV_OP_concat) return node->n_ins == 1 ? x : CV_POISON;
  if (!cv_type_same(cv_type_of(graph, x), cv_type_of(graph, node->outs[0]))) return CV_POISON;
  const cv_attr *perm = cv_node_attr(node, CV_ATTR_PERM);
  for (uint32_t i = 0; perm && i < perm->count; i++)
    if (perm->ints[i] != i) return CV_POISON;
  const cv_attr *starts = cv_node_attr(node, CV_ATTR_STARTS);
  const cv_attr *steps = cv_node_attr(node, CV_ATTR_STEPS);
  for (uint32_t i = 0; starts && i < starts->count; i++)
    if (!cv_expr_is(graph, starts->exprs[i], 0) || steps->ints[i] != 1) return CV_POISON;
  return x;
}

static cv_val slice_slice(cv_rewriter *r, const cv_node *outer, const cv_node *inner) {
  cv_graph *graph = r->graph;
  const cv_attr *s1 = cv_node_attr(inner, CV_ATTR_STARTS), *p1 = cv_node_attr(inner, CV_ATTR_STEPS);
  const cv_attr *s2 = cv_node_attr(outer, CV_ATTR_STARTS), *p2 = cv_node_attr(outer, CV_ATTR_STEPS);
  cv_expr starts[CV_MAX_RANK];
  int64_t steps[CV_MAX_RANK];
  for (uint32_t d = 0; d < s1->count; d++) {
    cv_expr step = cv_expr_const(graph->exprs, p1->ints[d]);
    starts[d] =
        cv_expr_add(graph->exprs, s1->exprs[d], cv_expr_mul(graph->exprs, s2->exprs[d], step));
    steps[d] = p1->ints[d] * p2->ints[d];
  }
  cv_attr attrs[] = {{.key = CV_ATTR_STARTS, .count = s1->count, .exprs = starts},
                     *cv_node_attr(outer, CV_ATTR_DIMS),
                     {.key = CV_ATTR_STEPS, .count = s1->count, .ints = steps}};
  return cv_build(graph, CV_OP_slice, inner->ins, 1, attrs, 3);
}

cv_val cv_rule_move_twice(cv_rewriter *r, const cv_node *node) {
  const cv_node *inner = cv_def_of(r, node->ins[0], node->op);
  if (!inner) return CV_POISON;
  const cv_type out = *cv_type_of(r->graph, node->outs[0]);
  switch (node->op) {
    case CV_OP_reshape: return cv_reshape(r->graph, inner->ins[0], out.dims, out.rank);
    case CV_OP_broadcast: return cv_broadcast_to(r->graph, inner->ins[0], out.dims, out.rank);
    case CV_OP_slice: return slice_slice(r, node, inner);
    case CV_OP_transpose: {
      const cv_attr *p1 = cv_node_attr(inner, CV_ATTR_PERM), *p2 = cv_node_attr(node, CV_ATTR_PERM);
      int64_t perm[CV_MAX_RANK];
      for (uint32_t d = 0; d < p1->count; d++) perm[d] = p1->ints[p2->ints[d]];
      return cv_transpose(r->graph, inner->ins[0], perm);
    }
    default: return CV_POISON;
  }
}

/* Dims that are not 1 keep their order. */
cv_val cv_rule_transpose_is_reshape(cv_rewriter *r, const cv_node *node) {
  const cv_graph *graph = r->graph;
  const cv_attr *perm = cv_node_attr(node, CV_ATTR_PERM);
  int64_t last = -1;
  for (uint32_t d = 0; d < perm->count; d++) {
    if (cv_expr_is(graph, cv_type_of(graph, node->ins[0])->dims[perm->ints[d]], 1)) continue;
    if (perm->ints[d] < last) return CV_POISON;
    last = perm->ints[d];
  }
  const cv_type out = *cv_type_of(graph, node->outs[0]);
  return cv_reshape(r->graph, node->ins[0], out.dims, out.rank);
}

/* Dims that are merged or split are all broadcast or all not: the reshape goes below. */
cv_val cv_rule_reshape_of_broadcast(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  const cv_node *inner = cv_def_of(r, node->ins[0], CV_OP_broadcast);
  if (!inner) return CV_POISON;
  const cv_type from = *cv_type_of(graph, inner->ins[0]), wide = *cv_type_of(graph, node->ins[0]);
  const cv_type out = *cv_type_of(graph, node->outs[0]);
  cv_expr dims[CV_MAX_RANK], one = cv_expr_const(graph->exprs, 1);
  cv_dim_run run = {0};
  while (cv_dims_next(graph, &wide, &out, &run)) {
    bool kept = true, spread = true;
    for (int d = run.a0; d < run.a1; d++) {
      kept = kept && from.dims[d] == wide.dims[d];
      spread = spread && from.dims[d] == one;
    }
    if (!kept && !spread) return CV_POISON;
    for (int d = run.b0; d < run.b1; d++) dims[d] = kept ? out.dims[d] : one;
  }
  for (; run.a1 < wide.rank; run.a1++)
    if (wide.dims[run.a1] != one) return CV_POISON;
  for (; run.b1 < out.rank; run.b1++) {
    if (out.dims[run.b1] != one) return CV_POISON;
    dims[run.b1] = one;
  }
  cv_val below = cv_reshape(graph, inner->ins[0], dims, out.rank);
  return cv_broadcast_to(graph, below, out.dims, out.rank);
}

/* e >= 0 for all values of its symbols. */
static bool not_negative(const cv_graph *graph, cv_expr e) {
  int64_t lo, hi;
  cv_expr_bounds(graph->exprs, e, &lo, &hi);
  return e != CV_EXPR_NONE && lo >= 0;
}

/* A slice within one operand is a slice of that operand. */
cv_val cv_rule_slice_of_concat(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  const cv_node *inner = cv_def_of(r, node->ins[0], CV_OP_concat);
  if (!inner) return CV_POISON;
  int64_t axis = cv_node_int(inner, CV_ATTR_AXIS);
  const cv_attr *starts = cv_node_attr(node, CV_ATTR_STARTS);
  if (cv_node_attr(node, CV_ATTR_STEPS)->ints[axis] != 1) return CV_POISON;
  const cv_type out = *cv_type_of(graph, node->outs[0]);
  cv_expr offset = cv_expr_const(graph->exprs, 0), at = starts->exprs[axis];
  for (uint32_t i = 0; i < inner->n_ins; i++) {
    cv_expr dim = cv_type_of(graph, inner->ins[i])->dims[axis];
    cv_expr start = cv_expr_sub(graph->exprs, at, offset);
    cv_expr end = cv_expr_add(graph->exprs, start, out.dims[axis]);
    offset = cv_expr_add(graph->exprs, offset, dim);
    if (!not_negative(graph, start) || !not_negative(graph, cv_expr_sub(graph->exprs, dim, end)))
      continue;
    cv_expr moved[CV_MAX_RANK];
    memcpy(moved, starts->exprs, starts->count * sizeof *moved);
    moved[axis] = start;
    cv_attr attrs[] = {{.key = CV_ATTR_STARTS, .count = starts->count, .exprs = moved},
                       *cv_node_attr(node, CV_ATTR_DIMS),
                       *cv_node_attr(node, CV_ATTR_STEPS)};
    return cv_build(graph, CV_OP_slice, &inner->ins[i], 1, attrs, 3);
  }
  return CV_POISON;
}

cv_val cv_rule_concat_of_concat(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  int64_t axis = cv_node_int(node, CV_ATTR_AXIS);
  cv_vec(cv_val) parts = {0};
  bool found = false;
  for (uint32_t i = 0; i < node->n_ins; i++) {
    const cv_node *inner = cv_only_def_of(r, node->ins[i], CV_OP_concat);
    if (!inner || cv_node_int(inner, CV_ATTR_AXIS) != axis) {
      cv_push(&parts, node->ins[i]);
      continue;
    }
    found = true;
    for (uint32_t k = 0; k < inner->n_ins; k++) cv_push(&parts, inner->ins[k]);
  }
  cv_val joined = found ? cv_concat(graph, parts.data, (uint32_t)parts.len, (int)axis) : CV_POISON;
  cv_vec_deinit(&parts);
  return joined;
}

/* gather of one known index is a slice. */
cv_val cv_rule_gather_one(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  int axis = (int)cv_node_int(node, CV_ATTR_AXIS);
  double index;
  if (!cv_splat_value(graph, node->ins[1], &index)) return CV_POISON;
  const cv_type *idx = cv_type_of(graph, node->ins[1]);
  for (int d = 0; d < idx->rank; d++)
    if (!cv_expr_is(graph, idx->dims[d], 1)) return CV_POISON;
  cv_expr dim = cv_type_of(graph, node->ins[0])->dims[axis];
  cv_expr start = cv_expr_const(graph->exprs, (int64_t)index), one = cv_expr_const(graph->exprs, 1);
  if (index < 0) start = cv_expr_add(graph->exprs, dim, start);
  cv_expr beyond = cv_expr_sub(graph->exprs, cv_expr_sub(graph->exprs, dim, start), one);
  if (!not_negative(graph, start) || !not_negative(graph, beyond)) return CV_POISON;
  const cv_type out = *cv_type_of(graph, node->outs[0]);
  cv_val slice = cv_slice_axis(graph, node->ins[0], axis, start, one, 1);
  return cv_reshape(graph, slice, out.dims, out.rank);
}

/* True if element [.., i, ..] of v is i, i along the axis. */
static bool counts_along(const cv_graph *graph, cv_val v, int axis) {
  const cv_node *def = cv_value_of(graph, v)->def;
  if (!def) return false;
  if (def->op == CV_OP_iota) return cv_node_int(def, CV_ATTR_AXIS) == axis;
  const cv_type *to = cv_type_of(graph, v);
  const cv_type *from = def->n_ins ? cv_type_of(graph, def->ins[0]) : to;
  if (def->op == CV_OP_broadcast)
    return from->dims[axis] == to->dims[axis] && counts_along(graph, def->ins[0], axis);
  if (def->op != CV_OP_reshape) return false;
  int below = -1; /* the one dim of `from` that is not 1 must be that of `to` */
  for (int d = 0; d < from->rank; d++)
    if (!cv_expr_is(graph, from->dims[d], 1)) below = below == -1 ? d : -2;
  for (int d = 0; d < to->rank; d++)
    if (d != axis && !cv_expr_is(graph, to->dims[d], 1)) return false;
  return below >= 0 && from->dims[below] == to->dims[axis] &&
         counts_along(graph, def->ins[0], below);
}

/* gather_nd whose first index is the place itself picks from its own item: that dim is one that x
 * and the indices share. */
cv_val cv_rule_gather_own_item(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  int b = (int)cv_node_int(node, CV_ATTR_BATCH_DIMS);
  const cv_node *join = cv_def_of(r, node->ins[1], CV_OP_concat);
  const cv_type idx = *cv_type_of(graph, node->ins[1]);
  if (!join || join->n_ins < 2 || cv_node_int(join, CV_ATTR_AXIS) != idx.rank - 1 ||
      b >= idx.rank - 1 || cv_type_of(graph, node->ins[0])->dims[b] != idx.dims[b])
    return CV_POISON;
  const cv_type *first = cv_type_of(graph, join->ins[0]);
  if (!cv_expr_is(graph, first->dims[idx.rank - 1], 1) || !counts_along(graph, join->ins[0], b))
    return CV_POISON;
  cv_val rest = cv_concat(graph, join->ins + 1, join->n_ins - 1, idx.rank - 1);
  return cv_gather_nd(graph, node->ins[0], rest, b + 1);
}

/* Axes of one element need no reducing. */
cv_val cv_rule_reduce_ones(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  const cv_attr *axes = cv_node_attr(node, CV_ATTR_AXES);
  const cv_type type = *cv_type_of(graph, node->ins[0]), out = *cv_type_of(graph, node->outs[0]);
  uint32_t left = 0;
  for (uint32_t i = 0; i < axes->count; i++)
    if (!cv_expr_is(graph, type.dims[axes->ints[i]], 1)) left |= 1u << axes->ints[i];
  if (__builtin_popcount(left) == (int)axes->count || type.dtype != out.dtype) return CV_POISON;
  cv_val y = cv_reduce(graph, node->ins[0], cv_node_text(node, CV_ATTR_KIND), left, false);
  return cv_reshape(graph, y, out.dims, out.rank);
}

/* Zero padding of spatial dims joins the op's own. */
cv_val cv_rule_pad_into_window(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  const cv_node *pad = cv_def_of(r, node->ins[0], CV_OP_pad);
  double value;
  if (!pad || !cv_splat_value(graph, pad->ins[1], &value) || value != 0) return CV_POISON;
  if (node->op == CV_OP_window && strcmp(cv_node_text(node, CV_ATTR_KIND), "sum") != 0)
    return CV_POISON;
  const cv_attr *more[2] = {cv_node_attr(pad, CV_ATTR_LO), cv_node_attr(pad, CV_ATTR_HI)};
  const cv_attr *own[2] = {cv_node_attr(node, CV_ATTR_LO), cv_node_attr(node, CV_ATTR_HI)};
  const cv_attr *spread = cv_node_attr(node, CV_ATTR_LHS_DILATION);
  cv_expr sums[2][CV_MAX_RANK], zero = cv_expr_const(graph->exprs, 0);
  for (int side = 0; side < 2; side++) {
    if (more[side]->exprs[0] != zero || more[side]->exprs[1] != zero) return CV_POISON;
    for (uint32_t d = 0; d < own[side]->count; d++) {
      if (spread && spread->ints[d] != 1) return CV_POISON;
      sums[side][d] = cv_expr_add(graph->exprs, own[side]->exprs[d], more[side]->exprs[d + 2]);
    }
  }
  cv_attr attrs[CV_ATTR_COUNT];
  for (uint32_t i = 0; i < node->n_attrs; i++) {
    attrs[i] = node->attrs[i];
    if (attrs[i].key == CV_ATTR_LO) attrs[i].exprs = sums[0];
    if (attrs[i].key == CV_ATTR_HI) attrs[i].exprs = sums[1];
  }
  cv_val ins[2] = {pad->ins[0], node->n_ins > 1 ? node->ins[1] : CV_POISON};
  return cv_build(graph, node->op, ins, node->n_ins, attrs, node->n_attrs);
}
