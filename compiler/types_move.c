/* Type rules of MOVE and GATHER ops. */
#include <inttypes.h>

#include "compiler/graph_internal.h"

static bool take_dims(cv_rule *rule, cv_type *out) {
  const cv_attr *dims = cv_rule_attr(rule, CV_ATTR_DIMS);
  if (dims->count > CV_MAX_RANK) {
    return cv_rule_fail(rule, "%u dims: at most %d are supported", dims->count, CV_MAX_RANK);
  }
  out->rank = (uint8_t)dims->count;
  for (uint32_t i = 0; i < dims->count; i++) {
    out->dims[i] = dims->exprs[i];
    if (!cv_rule_not_negative(rule, "a dim", out->dims[i])) return false;
  }
  return true;
}

static bool rule_reshape(cv_rule *rule) {
  const cv_type *in = cv_rule_in(rule, 0);
  cv_graph *graph = rule->graph;
  cv_type out = {.dtype = in->dtype};
  int64_t same;
  if (!take_dims(rule, &out)) return false;
  cv_expr before = cv_dims_product(graph, in->rank, in->dims);
  cv_expr after = cv_dims_product(graph, out.rank, out.dims);
  cv_expr equal = cv_expr_eq(graph->exprs, before, after);
  if (cv_expr_is_const(graph->exprs, equal, &same) && same == 0) {
    return cv_rule_fail(rule, "%s and %s differ in their number of elements",
                        cv_type_text(graph, in), cv_type_text(graph, &out));
  }
  rule->outs[0] = out;
  return true;
}

static bool rule_transpose(cv_rule *rule) {
  const cv_type *in = cv_rule_in(rule, 0);
  const cv_attr *perm = cv_rule_attr(rule, CV_ATTR_PERM);
  cv_type out = *in;
  uint32_t seen = 0;
  if (!cv_rule_count(rule, CV_ATTR_PERM, in->rank)) return false;
  for (uint32_t i = 0; i < perm->count; i++) {
    int64_t from = perm->ints[i];
    if (from < 0 || from >= in->rank || (seen >> from & 1) != 0) {
      return cv_rule_fail(rule, "perm is no permutation of the %d dims", in->rank);
    }
    seen |= 1U << from;
    out.dims[i] = in->dims[from];
  }
  rule->outs[0] = out;
  return true;
}

static bool rule_broadcast(cv_rule *rule) {
  const cv_type *in = cv_rule_in(rule, 0);
  cv_type out = {.dtype = in->dtype};
  if (!cv_rule_count(rule, CV_ATTR_DIMS, in->rank) || !take_dims(rule, &out)) return false;
  for (int i = 0; i < in->rank; i++) {
    int64_t one;
    if (cv_expr_is_const(rule->graph->exprs, in->dims[i], &one) && one == 1) continue;
    if (!cv_rule_dims_equal(rule, "a broadcast dim that is not 1", in->dims[i], out.dims[i])) {
      return false;
    }
  }
  rule->outs[0] = out;
  return true;
}

/* An index that is provably outside of [0, extent). */
static bool outside(cv_graph *graph, cv_expr index, cv_expr extent) {
  int64_t lo, hi;
  cv_expr_bounds(graph->exprs, index, &lo, &hi);
  if (hi < 0) return true;
  cv_expr_bounds(graph->exprs, cv_expr_sub(graph->exprs, index, extent), &lo, &hi);
  return lo >= 0;
}

static bool rule_slice(cv_rule *rule) {
  const cv_type *in = cv_rule_in(rule, 0);
  const cv_attr *starts = cv_rule_attr(rule, CV_ATTR_STARTS);
  const cv_attr *steps = cv_rule_attr(rule, CV_ATTR_STEPS);
  cv_exprs *exprs = rule->graph->exprs;
  cv_type out = {.dtype = in->dtype};
  if (!cv_rule_count(rule, CV_ATTR_DIMS, in->rank) || !take_dims(rule, &out)) return false;
  if (!cv_rule_count(rule, CV_ATTR_STARTS, in->rank)) return false;
  if (!cv_rule_count(rule, CV_ATTR_STEPS, in->rank)) return false;
  for (int i = 0; i < in->rank; i++) {
    int64_t lo, hi;
    cv_expr_bounds(exprs, out.dims[i], &lo, &hi);
    if (lo < 1) continue; /* it may be empty: nothing is read */
    cv_expr way = cv_expr_mul(exprs, cv_expr_sub(exprs, out.dims[i], cv_expr_const(exprs, 1)),
                              cv_expr_const(exprs, steps->ints[i]));
    cv_expr last = cv_expr_add(exprs, starts->exprs[i], way);
    if (outside(rule->graph, starts->exprs[i], in->dims[i]) ||
        outside(rule->graph, last, in->dims[i])) {
      return cv_rule_fail(
          rule, "dim %d from %s on, %s elements by step %" PRId64 ", leaves the extent %s", i,
          cv_expr_text(rule->graph, starts->exprs[i]), cv_expr_text(rule->graph, out.dims[i]),
          steps->ints[i], cv_expr_text(rule->graph, in->dims[i]));
    }
  }
  rule->outs[0] = out;
  return true;
}

static bool rule_pad(cv_rule *rule) {
  const cv_type *in = cv_rule_in(rule, 0), *value = cv_rule_in(rule, 1);
  const cv_attr *lo = cv_rule_attr(rule, CV_ATTR_LO), *hi = cv_rule_attr(rule, CV_ATTR_HI);
  cv_exprs *exprs = rule->graph->exprs;
  cv_type out = *in;
  if (value->dtype != in->dtype || value->rank != 0) {
    return cv_rule_fail(rule, "the padding value must be a scalar of %s, is %s",
                        cv_dtype_name(in->dtype), cv_type_text(rule->graph, value));
  }
  if (!cv_rule_count(rule, CV_ATTR_LO, in->rank) || !cv_rule_count(rule, CV_ATTR_HI, in->rank)) {
    return false;
  }
  for (int i = 0; i < in->rank; i++) {
    if (!cv_rule_not_negative(rule, "padding", lo->exprs[i]) ||
        !cv_rule_not_negative(rule, "padding", hi->exprs[i])) {
      return false;
    }
    out.dims[i] = cv_expr_add(exprs, cv_expr_add(exprs, in->dims[i], lo->exprs[i]), hi->exprs[i]);
    if (!cv_rule_not_negative(rule, "a dim", out.dims[i])) return false;
  }
  rule->outs[0] = out;
  return true;
}

static bool rule_concat(cv_rule *rule) {
  const cv_type *first = cv_rule_in(rule, 0);
  cv_type out = *first;
  if (!cv_rule_range(rule, CV_ATTR_AXIS, 0, first->rank - 1)) return false;
  int64_t axis = cv_rule_int(rule, CV_ATTR_AXIS);
  for (uint32_t k = 1; k < rule->n_ins; k++) {
    const cv_type *next = cv_rule_in(rule, k);
    if (next->dtype != first->dtype || next->rank != first->rank) {
      return cv_rule_fail(rule, "operand %u is %s, operand 0 is %s", k,
                          cv_type_text(rule->graph, next), cv_type_text(rule->graph, first));
    }
    for (int i = 0; i < first->rank; i++) {
      if (i != axis && !cv_rule_dims_equal(rule, "operands", first->dims[i], next->dims[i])) {
        return false;
      }
    }
    out.dims[axis] = cv_expr_add(rule->graph->exprs, out.dims[axis], next->dims[axis]);
    if (out.dims[axis] == CV_EXPR_NONE) {
      return cv_rule_fail(rule, "the joined dim is too large an expression");
    }
  }
  rule->outs[0] = out;
  return true;
}

static bool is_index(cv_rule *rule, const cv_type *idx) {
  if (cv_dtype_is_index(idx->dtype)) return true;
  return cv_rule_fail(rule, "indices must be i64 or i32, are %s", cv_dtype_name(idx->dtype));
}

static bool too_many_dims(cv_rule *rule, int rank) {
  return cv_rule_fail(rule, "the result would have %d dims: at most %d are supported", rank,
                      CV_MAX_RANK);
}

static bool rule_gather(cv_rule *rule) {
  const cv_type *x = cv_rule_in(rule, 0), *idx = cv_rule_in(rule, 1);
  cv_type out = {.dtype = x->dtype};
  int rank = x->rank + idx->rank - 1;
  if (!is_index(rule, idx) || !cv_rule_range(rule, CV_ATTR_AXIS, 0, x->rank - 1)) return false;
  if (rank > CV_MAX_RANK) return too_many_dims(rule, rank);
  int64_t axis = cv_rule_int(rule, CV_ATTR_AXIS);
  for (int i = 0; i < axis; i++) out.dims[out.rank++] = x->dims[i];
  for (int i = 0; i < idx->rank; i++) out.dims[out.rank++] = idx->dims[i];
  for (int i = (int)axis + 1; i < x->rank; i++) out.dims[out.rank++] = x->dims[i];
  rule->outs[0] = out;
  return true;
}

static bool rule_gather_nd(cv_rule *rule) {
  const cv_type *x = cv_rule_in(rule, 0), *idx = cv_rule_in(rule, 1);
  cv_type out = {.dtype = x->dtype};
  int64_t k;
  if (!is_index(rule, idx)) return false;
  int least = idx->rank - 1 < x->rank ? idx->rank - 1 : x->rank;
  if (!cv_rule_range(rule, CV_ATTR_BATCH_DIMS, 0, least)) return false;
  int batch = (int)cv_rule_int(rule, CV_ATTR_BATCH_DIMS);
  if (!cv_expr_is_const(rule->graph->exprs, idx->dims[idx->rank - 1], &k) || k < 0 ||
      k > x->rank - batch) {
    return cv_rule_fail(rule, "the last dim of indices %s must be a constant up to %d",
                        cv_type_text(rule->graph, idx), x->rank - batch);
  }
  for (int i = 0; i < batch; i++) {
    if (!cv_rule_dims_equal(rule, "batch dims", x->dims[i], idx->dims[i])) return false;
  }
  int rank = idx->rank - 1 + x->rank - batch - (int)k;
  if (rank > CV_MAX_RANK) return too_many_dims(rule, rank);
  for (int i = 0; i < idx->rank - 1; i++) out.dims[out.rank++] = idx->dims[i];
  for (int i = batch + (int)k; i < x->rank; i++) out.dims[out.rank++] = x->dims[i];
  rule->outs[0] = out;
  return true;
}

bool cv_rule_move(cv_rule *rule) {
  switch (rule->op) {
    case CV_OP_reshape: return rule_reshape(rule);
    case CV_OP_transpose: return rule_transpose(rule);
    case CV_OP_broadcast: return rule_broadcast(rule);
    case CV_OP_slice: return rule_slice(rule);
    case CV_OP_pad: return rule_pad(rule);
    case CV_OP_concat: return rule_concat(rule);
    case CV_OP_gather: return rule_gather(rule);
    case CV_OP_gather_nd: return rule_gather_nd(rule);
    default: return cv_rule_fail(rule, "the op has no type rule");
  }
}
