/* Type rules of ROUTINE ops. */
#include "compiler/graph_internal.h"

static bool wanted(cv_rule *rule, uint32_t i, const char *text) {
  return cv_rule_fail(rule, "operand %u is %s: %s wanted", i,
                      cv_type_text(rule->graph, cv_rule_in(rule, i)), text);
}

static bool rule_arg(cv_rule *rule) {
  const cv_type *x = cv_rule_in(rule, 0);
  cv_type out = {.dtype = CV_I64};
  if (x->dtype == CV_BOOL) return wanted(rule, 0, "numbers");
  if (!cv_rule_word(rule, CV_ATTR_KIND, "max min") || !cv_rule_range(rule, CV_ATTR_LAST, 0, 1) ||
      !cv_rule_range(rule, CV_ATTR_AXIS, 0, x->rank - 1)) {
    return false;
  }
  for (int i = 0; i < x->rank; i++) {
    if (i != cv_rule_int(rule, CV_ATTR_AXIS)) out.dims[out.rank++] = x->dims[i];
  }
  rule->outs[0] = out;
  return true;
}

static bool rule_scan(cv_rule *rule) {
  const cv_type *x = cv_rule_in(rule, 0);
  if (x->dtype == CV_BOOL) return wanted(rule, 0, "numbers");
  rule->outs[0] = *x;
  return cv_rule_word(rule, CV_ATTR_KIND, "sum prod") &&
         cv_rule_range(rule, CV_ATTR_EXCLUSIVE, 0, 1) &&
         cv_rule_range(rule, CV_ATTR_REVERSE, 0, 1) &&
         cv_rule_range(rule, CV_ATTR_AXIS, 0, x->rank - 1);
}

static bool rule_scatter_nd(cv_rule *rule) {
  const cv_type *x = cv_rule_in(rule, 0), *idx = cv_rule_in(rule, 1);
  const cv_type *updates = cv_rule_in(rule, 2);
  const char *kinds = x->dtype == CV_BOOL ? "set" : "set add mul max min";
  int64_t k;
  if (!cv_rule_word(rule, CV_ATTR_KIND, kinds)) return false;
  if (!cv_dtype_is_index(idx->dtype) || idx->rank < 1 ||
      !cv_expr_is_const(rule->graph->exprs, idx->dims[idx->rank - 1], &k) || k < 0 || k > x->rank) {
    return wanted(rule, 1, "indices, i64 or i32, whose last dim is a constant up to x's rank");
  }
  if (updates->dtype != x->dtype || updates->rank != idx->rank - 1 + x->rank - k) {
    return wanted(rule, 2, "updates of x's dtype with dims idx[:-1] + x[k:]");
  }
  for (int i = 0; i < updates->rank; i++) {
    int outer = idx->rank - 1;
    cv_expr dim = i < outer ? idx->dims[i] : x->dims[i - outer + (int)k];
    if (!cv_rule_dims_equal(rule, "updates", dim, updates->dims[i])) return false;
  }
  rule->outs[0] = *x;
  return true;
}

static bool rule_topk(cv_rule *rule) {
  const cv_type *x = cv_rule_in(rule, 0);
  cv_expr k = cv_rule_attr(rule, CV_ATTR_K)->e;
  int64_t lo, hi;
  if (x->dtype == CV_BOOL) return wanted(rule, 0, "numbers");
  if (!cv_rule_range(rule, CV_ATTR_AXIS, 0, x->rank - 1) ||
      !cv_rule_range(rule, CV_ATTR_LARGEST, 0, 1) || !cv_rule_not_negative(rule, "k", k)) {
    return false;
  }
  int64_t axis = cv_rule_int(rule, CV_ATTR_AXIS);
  cv_exprs *exprs = rule->graph->exprs;
  cv_expr_bounds(exprs, cv_expr_sub(exprs, k, x->dims[axis]), &lo, &hi);
  if (lo > 0) {
    return cv_rule_fail(rule, "k is %s, more than the %s elements", cv_expr_text(rule->graph, k),
                        cv_expr_text(rule->graph, x->dims[axis]));
  }
  rule->outs[0] = *x;
  rule->outs[0].dims[axis] = k;
  rule->outs[1] = rule->outs[0];
  rule->outs[1].dtype = CV_I64;
  return true;
}

static bool rule_nonzero(cv_rule *rule) {
  const cv_type *x = cv_rule_in(rule, 0);
  cv_expr k = cv_rule_attr(rule, CV_ATTR_K)->e;
  cv_expr rank = cv_expr_const(rule->graph->exprs, x->rank);
  rule->outs[0] = (cv_type){.dtype = CV_I64, .rank = 2, .dims = {rank, k}};
  return cv_rule_not_negative(rule, "k", k);
}

static bool rule_unique(cv_rule *rule) {
  const cv_type *x = cv_rule_in(rule, 0);
  if (x->rank != 1) return wanted(rule, 0, "a flat tensor");
  for (int i = 0; i < 3; i++) {
    rule->outs[i] = (cv_type){.dtype = CV_I64, .rank = 1, .dims = {x->dims[0]}};
  }
  rule->outs[3] = cv_scalar_type(CV_I64);
  return cv_rule_range(rule, CV_ATTR_SORTED, 0, 1);
}

static bool rule_nms(cv_rule *rule) {
  const cv_type *boxes = cv_rule_in(rule, 0), *scores = cv_rule_in(rule, 1);
  static const cv_dtype scalars[] = {CV_I64, CV_F32, CV_F32};
  cv_exprs *exprs = rule->graph->exprs;
  cv_expr four = cv_expr_const(exprs, 4);
  if (boxes->dtype != CV_F32 || boxes->rank != 3 || boxes->dims[2] != four) {
    return wanted(rule, 0, "f32[n,b,4]");
  }
  if (scores->dtype != CV_F32 || scores->rank != 3) return wanted(rule, 1, "f32[n,c,b]");
  for (uint32_t i = 0; i < 3; i++) {
    const cv_type *scalar = cv_rule_in(rule, i + 2);
    if (scalar->rank != 0 || scalar->dtype != scalars[i]) {
      return wanted(rule, i + 2, i == 0 ? "an i64 scalar" : "an f32 scalar");
    }
  }
  if (!cv_rule_range(rule, CV_ATTR_CENTER, 0, 1) ||
      !cv_rule_dims_equal(rule, "batch of boxes and scores", boxes->dims[0], scores->dims[0]) ||
      !cv_rule_dims_equal(rule, "number of boxes and scores", boxes->dims[1], scores->dims[2])) {
    return false;
  }
  cv_expr most = cv_dims_product(rule->graph, 3, scores->dims);
  if (!cv_rule_not_negative(rule, "the number of boxes", most)) return false;
  rule->outs[0] = (cv_type){.dtype = CV_I64, .rank = 2, .dims = {most, cv_expr_const(exprs, 3)}};
  rule->outs[1] = cv_scalar_type(CV_I64);
  return true;
}

static bool rule_random(cv_rule *rule) {
  const cv_attr *dims = cv_rule_attr(rule, CV_ATTR_DIMS);
  cv_type out = {.dtype = cv_rule_attr(rule, CV_ATTR_TO)->dtype, .rank = (uint8_t)dims->count};
  if (!cv_rule_word(rule, CV_ATTR_KIND, "uniform normal")) return false;
  if (!cv_dtype_is_float(out.dtype)) return cv_rule_fail(rule, "the dtype must be a float");
  if (dims->count > CV_MAX_RANK) {
    return cv_rule_fail(rule, "%u dims: at most %d are supported", dims->count, CV_MAX_RANK);
  }
  for (uint32_t i = 0; i < dims->count; i++) {
    out.dims[i] = dims->exprs[i];
    if (!cv_rule_not_negative(rule, "a dim", out.dims[i])) return false;
  }
  rule->outs[0] = out;
  return true;
}

bool cv_rule_routine(cv_rule *rule) {
  switch (rule->op) {
    case CV_OP_arg: return rule_arg(rule);
    case CV_OP_scan: return rule_scan(rule);
    case CV_OP_window_arg: return cv_rule_contract(rule);
    case CV_OP_scatter_nd: return rule_scatter_nd(rule);
    case CV_OP_topk: return rule_topk(rule);
    case CV_OP_nonzero_count: rule->outs[0] = cv_scalar_type(CV_I64); return true;
    case CV_OP_nonzero: return rule_nonzero(rule);
    case CV_OP_unique: return rule_unique(rule);
    case CV_OP_nms: return rule_nms(rule);
    case CV_OP_random: return rule_random(rule);
    default: return cv_rule_fail(rule, "the op has no type rule");
  }
}
