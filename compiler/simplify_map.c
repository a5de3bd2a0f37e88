/* Rules over elementwise ops. */
#include <math.h>
#include <string.h>

#include "compiler/simplify.h"

/* Bits of the integers that a dtype holds exactly, without the sign; -1: not all of a float's. */
static int integer_bits(cv_dtype dtype) {
  int bits = 8 * (int)cv_dtype_size(dtype);
  switch (dtype) {
    case CV_BOOL: return 1;
    case CV_F64: return 53;
    case CV_F32: return 24;
    case CV_F16: return 11;
    case CV_BF16: return 8;
    default: return cv_dtype_kind(dtype) == 'u' ? bits : bits - 1;
  }
}

/* True if `to` holds every value of `from`. */
static bool holds(cv_dtype from, cv_dtype to) {
  char a = cv_dtype_kind(from), b = cv_dtype_kind(to);
  if (from == to) return true;
  if (a == 'f')
    return b == 'f' && (to == CV_F64 || (to == CV_F32 && (from == CV_F16 || from == CV_BF16)));
  if (b == 'b' || (a == 'i' && b == 'u')) return false;
  return integer_bits(from) <= integer_bits(to);
}

/* x -> A -> B is x -> B where A holds all of x; a float between integers would saturate instead of
 * wrap. */
cv_val cv_rule_cast_chain(cv_rewriter *r, const cv_node *node) {
  const cv_node *inner = cv_def_of(r, node->ins[0], CV_OP_cast);
  if (!inner) return CV_POISON;
  cv_dtype x = cv_type_of(r->graph, inner->ins[0])->dtype;
  cv_dtype a = cv_type_of(r->graph, node->ins[0])->dtype;
  cv_dtype b = cv_type_of(r->graph, node->outs[0])->dtype;
  bool wraps = cv_dtype_kind(a) == 'f' && cv_dtype_kind(x) != 'f' && cv_dtype_kind(b) != 'f';
  if (!holds(x, a) || (wraps && !holds(x, b))) return CV_POISON;
  return cv_cast(r->graph, inner->ins[0], b);
}

cv_val cv_rule_cast_none(cv_rewriter *r, const cv_node *node) {
  bool same =
      cv_type_of(r->graph, node->ins[0])->dtype == cv_type_of(r->graph, node->outs[0])->dtype;
  return same ? node->ins[0] : CV_POISON;
}

cv_val cv_rule_twice(cv_rewriter *r, const cv_node *node) {
  const cv_node *inner = cv_def_of(r, node->ins[0], node->op);
  return inner ? inner->ins[0] : CV_POISON;
}

/* The constant c for which `x op c` is x, to the bit; false if there is none. */
static bool neutral(const cv_node *node, bool is_float, double *out_c) {
  switch (node->op) {
    case CV_OP_mul:
    case CV_OP_div: *out_c = 1; return true;
    case CV_OP_add: *out_c = is_float ? -0.0 : 0; return true;
    case CV_OP_sub: *out_c = 0; return true;
    case CV_OP_max: *out_c = -INFINITY; return is_float;
    case CV_OP_min: *out_c = INFINITY; return is_float;
    case CV_OP_or: *out_c = 0; return true;
    default: *out_c = 0; return false;
  }
}

static bool is_true_splat(const cv_graph *graph, cv_val v) {
  return cv_type_of(graph, v)->dtype == CV_BOOL && cv_is_splat(graph, v, 1);
}

cv_val cv_rule_neutral(cv_rewriter *r, const cv_node *node) {
  cv_val a = node->ins[0], b = node->ins[1];
  double c, is;
  if (node->op == CV_OP_and) {
    if (is_true_splat(r->graph, b)) return a;
    return is_true_splat(r->graph, a) ? b : CV_POISON;
  }
  bool is_float = cv_dtype_kind(cv_type_of(r->graph, a)->dtype) == 'f';
  if (!neutral(node, is_float, &c)) return CV_POISON;
  if (cv_splat_value(r->graph, b, &is) && is == c && signbit(is) == signbit(c)) return a;
  bool commutes = node->op != CV_OP_sub && node->op != CV_OP_div;
  if (commutes && cv_splat_value(r->graph, a, &is) && is == c && signbit(is) == signbit(c))
    return b;
  return CV_POISON;
}

/* x + 0.0: -0 would become +0. */
cv_val cv_rule_add_zero(cv_rewriter *r, const cv_node *node) {
  if (cv_is_splat(r->graph, node->ins[1], 0)) return node->ins[0];
  return cv_is_splat(r->graph, node->ins[0], 0) ? node->ins[1] : CV_POISON;
}

cv_val cv_rule_mul_zero(cv_rewriter *r, const cv_node *node) {
  if (cv_dtype_kind(cv_type_of(r->graph, node->ins[0])->dtype) == 'f') return CV_POISON;
  for (int i = 0; i < 2; i++)
    if (cv_is_splat(r->graph, node->ins[i], 0)) return node->ins[i];
  return CV_POISON;
}

/* Splits a commutative op into its constant splat and the rest. */
static bool split_splat(const cv_graph *graph, const cv_node *node, cv_val *out_x, cv_val *out_c) {
  double value;
  for (int i = 0; i < 2; i++) {
    if (!cv_splat_value(graph, node->ins[i], &value)) continue;
    *out_c = node->ins[i];
    *out_x = node->ins[1 - i];
    return true;
  }
  return false;
}

/* max(max(x, a), b) is max(x, max(a, b)), and so for min. */
cv_val cv_rule_clamp_chain(cv_rewriter *r, const cv_node *node) {
  cv_val inner, a, x, b;
  if (!split_splat(r->graph, node, &inner, &b)) return CV_POISON;
  const cv_node *below = cv_def_of(r, inner, node->op);
  if (!below || !split_splat(r->graph, below, &x, &a)) return CV_POISON;
  return cv_binary(r->graph, node->op, x, cv_binary(r->graph, node->op, a, b));
}

cv_val cv_rule_select(cv_rewriter *r, const cv_node *node) {
  double c;
  if (node->ins[1] == node->ins[2]) return node->ins[1];
  if (cv_splat_value(r->graph, node->ins[0], &c)) return node->ins[c != 0 ? 1 : 2];
  return CV_POISON;
}

static cv_val reciprocal(cv_graph *graph, cv_val c) {
  const cv_type type = *cv_type_of(graph, c);
  return cv_binary_bc(graph, CV_OP_div, cv_graph_scalar(graph, type.dtype, 1), c);
}

static bool is_exponent(double value, cv_dtype dtype) {
  int exponent;
  if (!isfinite(value) || value == 0 || fabs(frexp(value, &exponent)) != 0.5) return false;
  int most = dtype == CV_F64 ? 1000 : dtype == CV_F16 ? 12 : 120;
  return exponent > -most && exponent < most; /* so that 1 / value is normal too */
}

/* Division by powers of two is multiplication. */
cv_val cv_rule_div_exact(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  cv_dtype dtype = cv_type_of(graph, node->ins[0])->dtype;
  double c;
  if (cv_dtype_kind(dtype) != 'f' || !cv_splat_value(graph, node->ins[1], &c)) return CV_POISON;
  if (!is_exponent(c, dtype)) return CV_POISON;
  return cv_binary(graph, CV_OP_mul, node->ins[0], reciprocal(graph, node->ins[1]));
}

/* One rounding more. A quantiser rounds next, and ties would move: its division stays. */
cv_val cv_rule_div_reciprocal(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  cv_dtype dtype = cv_type_of(graph, node->ins[0])->dtype;
  cv_val c = cv_const_narrow(graph, cv_const_source(graph, node->ins[1]));
  if ((dtype != CV_F32 && dtype != CV_F64) || c == CV_POISON) return CV_POISON;
  uint64_t n;
  const double *values = cv_graph_doubles(graph, c, &n);
  for (uint64_t i = 0; values && i < n; i++)
    if (!isnormal(values[i]) || !isnormal((float)(1 / values[i]))) return CV_POISON;
  if (!values || cv_rule_feeds_round(r, node->outs[0])) return CV_POISON;
  const cv_type type = *cv_type_of(graph, node->outs[0]);
  cv_val by = cv_broadcast_to(graph, reciprocal(graph, c), type.dims, type.rank);
  return cv_binary(graph, CV_OP_mul, node->ins[0], by);
}

cv_val cv_rule_pow_one(cv_rewriter *r, const cv_node *node) {
  return cv_is_splat(r->graph, node->ins[1], 1) ? node->ins[0] : CV_POISON;
}

/* Small exponents by multiplication and root. (pow(-inf, 0.5) is inf, its root NaN.) */
cv_val cv_rule_pow(cv_rewriter *r, const cv_node *node) {
  cv_val x = node->ins[0];
  double c;
  if (cv_dtype_kind(cv_type_of(r->graph, x)->dtype) != 'f' ||
      !cv_splat_value(r->graph, node->ins[1], &c))
    return CV_POISON;
  if (c == 0.5) return cv_unary(r->graph, CV_OP_sqrt, x);
  if (c != 2 && c != 3) return CV_POISON;
  cv_val square = cv_binary(r->graph, CV_OP_mul, x, x);
  return c == 2 ? square : cv_binary(r->graph, CV_OP_mul, square, x);
}

/* Elementwise on broadcasts of equal dims (and splats): compute before the broadcast. */
cv_val cv_rule_map_of_broadcasts(cv_rewriter *r, const cv_node *node) {
  cv_graph *graph = r->graph;
  const cv_type out = *cv_type_of(graph, node->outs[0]);
  cv_type from = {.rank = 0};
  bool found = false;
  double value;
  for (uint32_t i = 0; i < node->n_ins; i++) {
    const cv_node *def = cv_def_of(r, node->ins[i], CV_OP_broadcast);
    if (!def && !cv_splat_value(graph, node->ins[i], &value)) return CV_POISON;
    if (!def) continue;
    const cv_type *type = cv_type_of(graph, def->ins[0]);
    if (found && !cv_dims_same(out.rank, type->dims, from.dims)) return CV_POISON;
    from = *type;
    found = true;
  }
  if (!found) return CV_POISON;
  cv_val ins[3];
  for (uint32_t i = 0; i < node->n_ins; i++) {
    const cv_node *def = cv_def_of(r, node->ins[i], CV_OP_broadcast);
    if (def) {
      ins[i] = def->ins[0];
      continue;
    }
    cv_type splat = from;
    splat.dtype = cv_type_of(graph, node->ins[i])->dtype;
    ins[i] = cv_graph_splat(graph, &splat, cv_value_of(graph, node->ins[i])->data.data);
  }
  cv_val small = cv_build(graph, node->op, ins, node->n_ins, node->attrs, node->n_attrs);
  return cv_broadcast_to(graph, small, out.dims, out.rank);
}
