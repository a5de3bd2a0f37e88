/* Elementwise arithmetic, logic and comparisons. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

void cv_import_unary(cv_on *n) {
  cv_on_set(n, 0, cv_unary(n->g, (cv_op)n->row->arg, cv_on_in(n, 0)));
}

/* floor, ceil and round leave integers alone. */
void cv_import_rounding(cv_on *n) {
  cv_val x = cv_on_in(n, 0);
  cv_on_set(n, 0, cv_is_float(n->g, x) ? cv_unary(n->g, (cv_op)n->row->arg, x) : x);
}

void cv_import_binary(cv_on *n) {
  cv_on_set(n, 0, cv_binary_bc(n->g, (cv_op)n->row->arg, cv_on_in(n, 0), cv_on_in(n, 1)));
}

/* a > b and a >= b, as b < a and b <= a. */
void cv_import_swapped(cv_on *n) {
  cv_on_set(n, 0, cv_binary_bc(n->g, (cv_op)n->row->arg, cv_on_in(n, 1), cv_on_in(n, 0)));
}

/* Before opset 7: b is broadcast only if the node says so, from its dim `axis` on. */
void cv_import_old_binary(cv_on *n) {
  cv_graph *g = n->g;
  cv_val a = cv_on_in(n, 0), b = cv_on_in(n, 1);
  cv_expr dims[CV_MAX_RANK];
  int rank = cv_rank(g, a), own = cv_rank(g, b);
  if (cv_on_int(n, "broadcast", 0) && cv_on_attr(n, "axis") && own <= rank) {
    int axis = cv_on_axis(n, cv_on_int(n, "axis", 0), rank);
    if (axis + own > rank) {
      cv_on_fail(n, CV_INVALID, "axis %d with operands of %d and %d dims", axis, rank, own);
      return;
    }
    for (int i = 0; i < rank; i++) {
      dims[i] = i >= axis && i < axis + own ? cv_dim(g, b, i - axis) : e_const(g, 1);
    }
    b = cv_reshape(g, b, dims, rank);
  }
  bool greater = strcmp(n->row->op, "Greater") == 0;
  cv_on_set(n, 0, cv_binary_bc(g, (cv_op)n->row->arg, greater ? b : a, greater ? a : b));
}

/* Max, Min, Sum, Mean of any number of operands. */
void cv_import_variadic(cv_on *n) {
  cv_val y = cv_on_in(n, 0);
  for (uint32_t i = 1; i < n->n_in; i++) {
    y = cv_binary_bc(n->g, (cv_op)n->row->arg, y, cv_on_in(n, i));
  }
  if (strcmp(n->row->op, "Mean") == 0 && n->n_in > 1) {
    y = cv_div(n->g, y, cv_num(n->g, y, n->n_in));
  }
  cv_on_set(n, 0, y);
}

/* The exponent may be of another dtype than base and result. */
void cv_import_pow(cv_on *n) {
  cv_graph *g = n->g;
  cv_val a = cv_on_in(n, 0), b = cv_on_in(n, 1);
  cv_dtype dtype = cv_dt(g, a);
  if (!cv_is_float(g, a) && cv_is_float(g, b)) {
    cv_val y = cv_binary_bc(g, CV_OP_pow, cv_cast(g, a, CV_F64), cv_cast(g, b, CV_F64));
    cv_on_set(n, 0, cv_cast(g, y, dtype));
    return;
  }
  cv_on_set(n, 0, cv_binary_bc(g, CV_OP_pow, a, cv_cast(g, b, dtype)));
}

/* fmod = 0: the sign of the divisor, as Python's %; fmod = 1: of the dividend, as C's. */
void cv_import_mod(cv_on *n) {
  cv_graph *g = n->g;
  cv_val a = cv_on_in(n, 0), b = cv_on_in(n, 1);
  cv_val r = cv_binary_bc(g, CV_OP_rem, a, b);
  if (cv_on_int(n, "fmod", 0) == 0 && cv_dtype_kind(cv_dt(g, a)) != 'u') {
    cv_val zero = cv_num(g, r, 0);
    cv_val differ = cv_binary_bc(g, CV_OP_xor, cv_lt(g, r, zero), cv_lt(g, b, zero));
    cv_val fix = cv_and(g, cv_not(g, cv_eq(g, r, zero)), differ);
    r = cv_select(g, fix, cv_add(g, r, b), r);
  }
  cv_on_set(n, 0, r);
}

void cv_import_bit_shift(cv_on *n) {
  const char *direction = cv_on_text(n, "direction", "");
  bool left = strcmp(direction, "LEFT") == 0;
  if (!left && strcmp(direction, "RIGHT") != 0) {
    cv_on_fail(n, CV_INVALID, "direction must be LEFT or RIGHT, it is \"%s\"", direction);
    return;
  }
  cv_on_set(n, 0, cv_binary_bc(n->g, left ? CV_OP_shl : CV_OP_shr, cv_on_in(n, 0), cv_on_in(n, 1)));
}

void cv_import_reciprocal(cv_on *n) {
  cv_val x = cv_on_in(n, 0);
  cv_on_set(n, 0, cv_div(n->g, cv_num(n->g, x, 1), x));
}

void cv_import_where(cv_on *n) {
  cv_on_set(n, 0, cv_select(n->g, cv_on_in(n, 0), cv_on_in(n, 1), cv_on_in(n, 2)));
}

void cv_import_is_nan(cv_on *n) {
  cv_val x = cv_on_in(n, 0);
  cv_on_set(n, 0, cv_not(n->g, cv_eq(n->g, x, x)));
}

void cv_import_is_inf(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  bool up = cv_on_int(n, "detect_positive", 1) != 0, down = cv_on_int(n, "detect_negative", 1) != 0;
  cv_val top = cv_num(g, x, INFINITY), y;
  if (up && down) {
    y = cv_eq(g, cv_abs(g, x), top);
  } else if (up || down) {
    y = cv_eq(g, x, up ? top : cv_num(g, x, -INFINITY));
  } else {
    y = cv_full(g, CV_BOOL, cv_dims_of(g, x), cv_rank(g, x), 0);
  }
  cv_on_set(n, 0, y);
}

void cv_import_cast(cv_on *n) {
  cv_dtype to;
  int64_t number = cv_on_int(n, "to", 0);
  if (!cv_dtype_from_onnx((int)number, &to)) {
    cv_on_fail(n, CV_UNSUPPORTED, "the element type %lld is not supported", (long long)number);
    return;
  }
  cv_on_set(n, 0, cv_cast(n->g, cv_on_in(n, 0), to));
}

void cv_import_cast_like(cv_on *n) {
  cv_on_set(n, 0, cv_cast(n->g, cv_on_in(n, 0), cv_dt(n->g, cv_on_in(n, 1))));
}

/* The same bits under another dtype of the same width; a bool is a byte of 0 or 1. */
void cv_import_bit_cast(cv_on *n) {
  cv_graph *g = n->g;
  cv_dtype to;
  cv_val x = cv_on_in(n, 0);
  int64_t number = cv_on_int(n, "to", 0);
  if (!cv_dtype_from_onnx((int)number, &to)) {
    cv_on_fail(n, CV_UNSUPPORTED, "the element type %lld is not supported", (long long)number);
    return;
  }
  if (cv_dt(g, x) == CV_BOOL && to != CV_BOOL) x = cv_cast(g, x, CV_U8);
  cv_dtype whole = to == CV_BOOL && cv_dt(g, x) != CV_BOOL ? CV_U8 : to;
  cv_attr attr = {.key = CV_ATTR_TO, .dtype = whole};
  if (cv_ok(g) && cv_dt(g, x) != whole) x = cv_build(g, CV_OP_bits, &x, 1, &attr, 1);
  cv_on_set(n, 0, cv_cast(g, x, to));
}

void cv_import_identity(cv_on *n) { cv_on_set(n, 0, cv_on_in(n, 0)); }

void cv_import_tan(cv_on *n) {
  cv_val x = cv_on_in(n, 0);
  cv_on_set(n, 0, cv_div(n->g, cv_unary(n->g, CV_OP_sin, x), cv_unary(n->g, CV_OP_cos, x)));
}

/* asin(x) = atan(x / sqrt((1 - x)(1 + x))) */
void cv_import_asin(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), one = cv_num(g, x, 1);
  cv_val root = cv_sqrt(g, cv_mul(g, cv_sub(g, one, x), cv_add(g, one, x)));
  cv_on_set(n, 0, cv_unary(g, CV_OP_atan, cv_div(g, x, root)));
}

/* acos(x) = 2 atan(sqrt((1 - x) / (1 + x))) */
void cv_import_acos(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), one = cv_num(g, x, 1);
  cv_val root = cv_sqrt(g, cv_div(g, cv_sub(g, one, x), cv_add(g, one, x)));
  cv_on_set(n, 0, cv_mul_num(g, cv_unary(g, CV_OP_atan, root), 2));
}

/* sinh: by t = tanh(x/2) near 0, where the difference of exponentials loses digits. */
void cv_import_sinh(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), one = cv_num(g, x, 1);
  cv_val t = cv_unary(g, CV_OP_tanh, cv_mul_num(g, x, 0.5));
  cv_val near = cv_div(g, cv_mul_num(g, t, 2), cv_sub(g, one, cv_square(g, t)));
  cv_val far = cv_mul_num(g, cv_sub(g, cv_exp(g, x), cv_exp(g, cv_neg(g, x))), 0.5);
  cv_on_set(n, 0, cv_select(g, cv_lt(g, cv_abs(g, x), one), near, far));
}

void cv_import_cosh(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  cv_on_set(n, 0, cv_mul_num(g, cv_add(g, cv_exp(g, x), cv_exp(g, cv_neg(g, x))), 0.5));
}

/* asinh(x) = sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2))) */
void cv_import_asinh(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), a = cv_abs(g, x), one = cv_num(g, x, 1), square = cv_square(g, a);
  cv_val root = cv_add(g, one, cv_sqrt(g, cv_add(g, one, square)));
  cv_val y = cv_log1p(g, cv_add(g, a, cv_div(g, square, root)));
  cv_on_set(n, 0, cv_mul(g, cv_unary(g, CV_OP_sign, x), y));
}

/* acosh(x) = log1p(t + sqrt(2t + t^2)), t = x - 1 */
void cv_import_acosh(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), t = cv_sub(g, x, cv_num(g, x, 1));
  cv_val root = cv_sqrt(g, cv_add(g, cv_mul_num(g, t, 2), cv_square(g, t)));
  cv_on_set(n, 0, cv_log1p(g, cv_add(g, t, root)));
}

/* atanh(x) = log1p(2x / (1 - x)) / 2 */
void cv_import_atanh(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), one = cv_num(g, x, 1);
  cv_val y = cv_log1p(g, cv_div(g, cv_mul_num(g, x, 2), cv_sub(g, one, x)));
  cv_on_set(n, 0, cv_mul_num(g, y, 0.5));
}

static cv_val bound(cv_on *n, uint32_t i, const char *attr) {
  if (n->opset >= 11) return cv_on_in(n, i);
  if (!cv_on_attr(n, attr)) return CV_ABSENT;
  return cv_num(n->g, cv_on_in(n, 0), cv_on_float(n, attr, 0));
}

/* Clip: bounds are attributes before opset 11, then optional inputs. */
void cv_import_clip(cv_on *n) {
  cv_val y = cv_on_in(n, 0), lo = bound(n, 1, "min"), hi = bound(n, 2, "max");
  if (lo != CV_ABSENT) y = cv_max2(n->g, y, lo);
  if (hi != CV_ABSENT) y = cv_min2(n->g, y, hi);
  cv_on_set(n, 0, y);
}
