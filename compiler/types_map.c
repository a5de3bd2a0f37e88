/* Type rules of MAP, SHAPE and REDUCE ops. */
#include "compiler/graph_internal.h"

/* What dtypes an op takes. */
typedef enum { ANY, NUMERIC, FLOATS, INTEGERS, LOGICAL } dtype_set;

static dtype_set set_of(cv_op op) {
  switch (op) {
    case CV_OP_floor:
    case CV_OP_ceil:
    case CV_OP_round:
    case CV_OP_sqrt:
    case CV_OP_exp:
    case CV_OP_log:
    case CV_OP_sin:
    case CV_OP_cos:
    case CV_OP_atan:
    case CV_OP_tanh:
    case CV_OP_erf: return FLOATS;
    case CV_OP_shl:
    case CV_OP_shr: return INTEGERS;
    case CV_OP_not:
    case CV_OP_and:
    case CV_OP_or:
    case CV_OP_xor: return LOGICAL;
    case CV_OP_eq:
    case CV_OP_cast:
    case CV_OP_select: return ANY;
    default: return NUMERIC;
  }
}

static bool in_set(dtype_set set, cv_dtype dtype) {
  switch (set) {
    case ANY: return true;
    case NUMERIC: return dtype != CV_BOOL;
    case FLOATS: return cv_dtype_is_float(dtype);
    case INTEGERS: return cv_dtype_is_int(dtype);
    case LOGICAL: return !cv_dtype_is_float(dtype);
  }
  return false;
}

static bool same_dims(cv_rule *rule, const cv_type *a, const cv_type *b) {
  if (a->rank != b->rank) {
    return cv_rule_fail(rule, "operands %s and %s differ in rank", cv_type_text(rule->graph, a),
                        cv_type_text(rule->graph, b));
  }
  for (int i = 0; i < a->rank; i++) {
    if (a->dims[i] == b->dims[i]) continue;
    return cv_rule_fail(rule, "dim %d of operands %s and %s: %s and %s are not known to be equal",
                        i, cv_type_text(rule->graph, a), cv_type_text(rule->graph, b),
                        cv_expr_text(rule->graph, a->dims[i]),
                        cv_expr_text(rule->graph, b->dims[i]));
  }
  return true;
}

/* Another name of the same bytes. */
static bool bits_type(cv_rule *rule, cv_dtype from) {
  cv_dtype to = cv_rule_attr(rule, CV_ATTR_TO)->dtype;
  if (to == CV_BOOL || cv_dtype_size(to) != cv_dtype_size(from)) {
    return cv_rule_fail(rule, "the bits of %s are no %s: a number of the same width is wanted",
                        cv_dtype_name(from), cv_dtype_name(to));
  }
  rule->outs[0].dtype = to;
  return true;
}

bool cv_rule_map(cv_rule *rule) {
  static const char *const set_text[] = {"any", "a number", "a float", "an integer",
                                         "bool or an integer"};
  uint32_t first = rule->op == CV_OP_select ? 1 : 0;
  const cv_type *a = cv_rule_in(rule, first);
  dtype_set set = set_of(rule->op);
  if (!in_set(set, a->dtype)) {
    return cv_rule_fail(rule, "the dtype must be %s, is %s", set_text[set],
                        cv_dtype_name(a->dtype));
  }
  for (uint32_t i = 0; i < rule->n_ins; i++) {
    const cv_type *b = cv_rule_in(rule, i);
    cv_dtype wanted = i < first ? CV_BOOL : a->dtype;
    if (b->dtype != wanted) {
      return cv_rule_fail(rule, "operand %u is %s, must be %s", i, cv_dtype_name(b->dtype),
                          cv_dtype_name(wanted));
    }
    if (!same_dims(rule, a, b)) return false;
  }
  rule->outs[0] = *a;
  if (rule->op == CV_OP_bits) return bits_type(rule, a->dtype);
  if (rule->op == CV_OP_cast) rule->outs[0].dtype = cv_rule_attr(rule, CV_ATTR_TO)->dtype;
  if (rule->op == CV_OP_eq || rule->op == CV_OP_lt || rule->op == CV_OP_le) {
    rule->outs[0].dtype = CV_BOOL;
  }
  return true;
}

/* ---- SHAPE ---- */

bool cv_rule_shape(cv_rule *rule) {
  if (rule->op == CV_OP_extents) {
    uint32_t n = cv_rule_attr(rule, CV_ATTR_EXPRS)->count;
    rule->outs[0] = (cv_type){
        .dtype = CV_I64, .rank = 1, .dims = {cv_expr_const(rule->graph->exprs, (int64_t)n)}};
    return true;
  }
  const cv_attr *dims = cv_rule_attr(rule, CV_ATTR_DIMS);
  cv_type out = {.dtype = cv_rule_attr(rule, CV_ATTR_TO)->dtype, .rank = (uint8_t)dims->count};
  if (dims->count == 0 || dims->count > CV_MAX_RANK) {
    return cv_rule_fail(rule, "%u dims, must be 1 to %d", dims->count, CV_MAX_RANK);
  }
  if (out.dtype == CV_BOOL) return cv_rule_fail(rule, "an index cannot be bool");
  if (!cv_rule_range(rule, CV_ATTR_AXIS, 0, (int64_t)dims->count - 1)) return false;
  for (uint32_t i = 0; i < dims->count; i++) {
    out.dims[i] = dims->exprs[i];
    if (!cv_rule_not_negative(rule, "a dim", out.dims[i])) return false;
  }
  rule->outs[0] = out;
  return true;
}

/* ---- REDUCE ---- */

bool cv_rule_reduce(cv_rule *rule) {
  const cv_type *in = cv_rule_in(rule, 0);
  const cv_attr *axes = cv_rule_attr(rule, CV_ATTR_AXES);
  const char *kinds = in->dtype == CV_BOOL ? "any all" : "sum prod max min";
  cv_type out = {.dtype = in->dtype};
  uint32_t mask = 0;
  if (!cv_rule_word(rule, CV_ATTR_KIND, kinds)) return false;
  for (uint32_t i = 0; i < axes->count; i++) {
    int64_t axis = axes->ints[i];
    if (axis < 0 || axis >= in->rank || (i > 0 && axis <= axes->ints[i - 1])) {
      return cv_rule_fail(rule, "axes must rise and lie in [0, %d) for %s", in->rank,
                          cv_type_text(rule->graph, in));
    }
    mask |= 1U << axis;
  }
  for (int i = 0; i < in->rank; i++) {
    if ((mask >> i & 1) == 0) out.dims[out.rank++] = in->dims[i];
  }
  rule->outs[0] = out;
  return true;
}
