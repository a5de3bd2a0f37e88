/* Type rules of CONTRACT and WINDOW ops. */
#include <inttypes.h>

#include "compiler/graph_internal.h"

/* Operands of one dtype, or both of 8-bit integers; float to float, integer to integer. */
static bool check_dtypes(cv_rule *rule, cv_dtype a, cv_dtype b, cv_dtype to) {
  bool small =
      cv_dtype_is_int(a) && cv_dtype_is_int(b) && cv_dtype_size(a) == 1 && cv_dtype_size(b) == 1;
  if (a == CV_BOOL || (a != b && !small)) {
    return cv_rule_fail(rule, "operands of %s and %s: equal numbers or 8-bit integers wanted",
                        cv_dtype_name(a), cv_dtype_name(b));
  }
  if (to == CV_BOOL || cv_dtype_is_float(a) != cv_dtype_is_float(to)) {
    return cv_rule_fail(rule, "%s cannot be accumulated to %s", cv_dtype_name(a),
                        cv_dtype_name(to));
  }
  return true;
}

static bool rule_matmul(cv_rule *rule) {
  const cv_type *a = cv_rule_in(rule, 0), *b = cv_rule_in(rule, 1);
  cv_dtype to = cv_rule_attr(rule, CV_ATTR_TO)->dtype;
  cv_type out = *a;
  if (!check_dtypes(rule, a->dtype, b->dtype, to)) return false;
  if (a->rank != b->rank || a->rank < 2) {
    return cv_rule_fail(rule, "%s x %s: equal ranks of 2 and more wanted",
                        cv_type_text(rule->graph, a), cv_type_text(rule->graph, b));
  }
  for (int i = 0; i < a->rank - 2; i++) {
    if (!cv_rule_dims_equal(rule, "batch dims", a->dims[i], b->dims[i])) return false;
  }
  if (!cv_rule_dims_equal(rule, "inner dims", a->dims[a->rank - 1], b->dims[b->rank - 2])) {
    return false;
  }
  out.dims[out.rank - 1] = b->dims[b->rank - 1];
  out.dtype = to;
  rule->outs[0] = out;
  return true;
}

/* One spatial dim of a window or convolution. */
typedef struct {
  cv_expr in, kernel, lo, hi;
  int64_t stride, dilation, lhs_dilation;
} spatial;

/* All entries in [1, 2^31). */
static bool positive(cv_rule *rule, cv_attr_key key) {
  const cv_attr *attr = cv_rule_attr(rule, key);
  for (uint32_t i = 0; i < attr->count; i++) {
    if (attr->ints[i] < 1 || attr->ints[i] > INT32_MAX) {
      return cv_rule_fail(rule, "entry %u of %s is %" PRId64 ", must be at least 1", i,
                          cv_attr_name(key), attr->ints[i]);
    }
  }
  return true;
}

/* floor((stretched in + lo + hi - stretched kernel) / stride) + 1 */
static bool out_dim(cv_rule *rule, const spatial *s, cv_expr *out) {
  cv_exprs *e = rule->graph->exprs;
  cv_expr one = cv_expr_const(e, 1), in = s->in;
  if (s->lhs_dilation != 1) {
    cv_expr gaps = cv_expr_mul(e, cv_expr_sub(e, in, one), cv_expr_const(e, s->lhs_dilation));
    in = cv_expr_max(e, cv_expr_const(e, 0), cv_expr_add(e, gaps, one));
  }
  cv_expr reach = cv_expr_mul(e, cv_expr_sub(e, s->kernel, one), cv_expr_const(e, s->dilation));
  cv_expr padded = cv_expr_add(e, cv_expr_add(e, in, s->lo), s->hi);
  cv_expr room = cv_expr_sub(e, cv_expr_sub(e, padded, reach), one);
  *out = cv_expr_add(e, cv_expr_div(e, room, cv_expr_const(e, s->stride)), one);
  int64_t lo, hi;
  cv_expr_bounds(e, *out, &lo, &hi);
  if (*out == CV_EXPR_NONE) return cv_rule_fail(rule, "an out dim is too large an expression");
  if (hi >= 0) return true;
  return cv_rule_fail(rule, "the window %s does not fit the padded extent %s",
                      cv_expr_text(rule->graph, cv_expr_add(e, reach, one)),
                      cv_expr_text(rule->graph, padded));
}

/* Lists of strides, dilations, lo and hi have one entry a spatial dim. */
static bool check_spatial(cv_rule *rule, uint32_t n) {
  static const cv_attr_key keys[] = {CV_ATTR_STRIDES, CV_ATTR_DILATIONS, CV_ATTR_LO, CV_ATTR_HI};
  for (int i = 0; i < 4; i++) {
    if (!cv_rule_count(rule, keys[i], n)) return false;
  }
  return positive(rule, CV_ATTR_STRIDES) && positive(rule, CV_ATTR_DILATIONS);
}

static spatial spatial_at(const cv_rule *rule, cv_expr in, cv_expr kernel, int i) {
  return (spatial){.in = in,
                   .kernel = kernel,
                   .lo = cv_rule_attr(rule, CV_ATTR_LO)->exprs[i],
                   .hi = cv_rule_attr(rule, CV_ATTR_HI)->exprs[i],
                   .stride = cv_rule_attr(rule, CV_ATTR_STRIDES)->ints[i],
                   .dilation = cv_rule_attr(rule, CV_ATTR_DILATIONS)->ints[i],
                   .lhs_dilation = 1};
}

static bool rule_conv(cv_rule *rule) {
  const cv_type *x = cv_rule_in(rule, 0), *w = cv_rule_in(rule, 1);
  cv_dtype to = cv_rule_attr(rule, CV_ATTR_TO)->dtype;
  cv_exprs *e = rule->graph->exprs;
  cv_type out = {.dtype = to, .rank = x->rank};
  int64_t groups = cv_rule_int(rule, CV_ATTR_GROUPS), channels;
  if (!check_dtypes(rule, x->dtype, w->dtype, to)) return false;
  if (x->rank != w->rank || x->rank < 3) {
    return cv_rule_fail(rule, "%s over %s: equal ranks of 3 and more wanted",
                        cv_type_text(rule->graph, x), cv_type_text(rule->graph, w));
  }
  uint32_t n = (uint32_t)x->rank - 2;
  if (!check_spatial(rule, n) || !cv_rule_count(rule, CV_ATTR_LHS_DILATION, n)) return false;
  if (!positive(rule, CV_ATTR_LHS_DILATION)) return false;
  if (!cv_rule_range(rule, CV_ATTR_GROUPS, 1, INT32_MAX)) return false;
  cv_expr inner = cv_expr_mul(e, w->dims[1], cv_expr_const(e, groups));
  if (!cv_rule_dims_equal(rule, "channels", x->dims[1], inner)) return false;
  if (cv_expr_is_const(e, w->dims[0], &channels) && channels % groups != 0) {
    return cv_rule_fail(rule, "%" PRId64 " channels out do not divide into %" PRId64 " groups",
                        channels, groups);
  }
  out.dims[0] = x->dims[0];
  out.dims[1] = w->dims[0];
  for (int i = 0; i < (int)n; i++) {
    spatial s = spatial_at(rule, x->dims[i + 2], w->dims[i + 2], i);
    s.lhs_dilation = cv_rule_attr(rule, CV_ATTR_LHS_DILATION)->ints[i];
    if (!out_dim(rule, &s, &out.dims[i + 2])) return false;
  }
  rule->outs[0] = out;
  return true;
}

static bool rule_window(cv_rule *rule) {
  const cv_type *x = cv_rule_in(rule, 0);
  const cv_attr *kernel = cv_rule_attr(rule, CV_ATTR_KERNEL);
  cv_exprs *e = rule->graph->exprs;
  cv_type out = *x;
  if (rule->op == CV_OP_window && !cv_rule_word(rule, CV_ATTR_KIND, "max sum")) return false;
  if (x->dtype == CV_BOOL || x->rank < 3) {
    return cv_rule_fail(rule, "the operand is %s: numbers of rank 3 and more wanted",
                        cv_type_text(rule->graph, x));
  }
  uint32_t n = (uint32_t)x->rank - 2;
  if (!check_spatial(rule, n) || !cv_rule_count(rule, CV_ATTR_KERNEL, n)) return false;
  if (!positive(rule, CV_ATTR_KERNEL)) return false;
  for (int i = 0; i < (int)n; i++) {
    spatial s = spatial_at(rule, x->dims[i + 2], cv_expr_const(e, kernel->ints[i]), i);
    if (!cv_rule_not_negative(rule, "padding", s.lo) ||
        !cv_rule_not_negative(rule, "padding", s.hi) || !out_dim(rule, &s, &out.dims[i + 2])) {
      return false;
    }
  }
  if (rule->op == CV_OP_window_arg) out.dtype = CV_I64;
  rule->outs[0] = out;
  return true;
}

bool cv_rule_contract(cv_rule *rule) {
  if (rule->op == CV_OP_matmul) return rule_matmul(rule);
  if (rule->op == CV_OP_conv) return rule_conv(rule);
  return rule_window(rule);
}
