/* The interpreter's MAP ops. Floats are computed in double and rounded once to the dtype. */
#include <math.h>
#include <string.h>

#include "compiler/interp_internal.h"
#include "runtime/half.h"

static double float_unary(cv_op op, double x) {
  switch (op) {
    case CV_OP_neg: return -x;
    case CV_OP_abs: return fabs(x);
    case CV_OP_sign: return isnan(x) ? x : (double)((x > 0) - (x < 0));
    case CV_OP_floor: return floor(x);
    case CV_OP_ceil: return ceil(x);
    case CV_OP_round: return rint(x);
    case CV_OP_sqrt: return sqrt(x);
    case CV_OP_exp: return exp(x);
    case CV_OP_log: return log(x);
    case CV_OP_sin: return sin(x);
    case CV_OP_cos: return cos(x);
    case CV_OP_atan: return atan(x);
    case CV_OP_tanh: return tanh(x);
    case CV_OP_erf: return erf(x);
    default: return NAN;
  }
}

static double float_binary(cv_op op, double a, double b) {
  switch (op) {
    case CV_OP_add: return a + b;
    case CV_OP_sub: return a - b;
    case CV_OP_mul: return a * b;
    case CV_OP_div: return a / b;
    case CV_OP_rem: return fmod(a, b);
    case CV_OP_pow: return pow(a, b);
    case CV_OP_max: return isnan(a) || a > b ? a : b;
    case CV_OP_min: return isnan(a) || a < b ? a : b;
    default: return NAN;
  }
}

static bool float_compare(cv_op op, double a, double b) {
  return op == CV_OP_eq ? a == b : op == CV_OP_lt ? a < b : a <= b;
}

static bool int_compare(cv_op op, cv_dtype dtype, int64_t a, int64_t b) {
  bool less = dtype == CV_U64 ? (uint64_t)a < (uint64_t)b : a < b;
  return op == CV_OP_eq ? a == b : less || (op == CV_OP_le && a == b);
}

static int64_t int_unary(cv_op op, cv_dtype dtype, int64_t x) {
  bool is_unsigned = cv_dtype_kind(dtype) == 'u';
  switch (op) {
    case CV_OP_neg: return (int64_t)(0 - (uint64_t)x);
    case CV_OP_abs: return x < 0 && !is_unsigned ? (int64_t)(0 - (uint64_t)x) : x;
    case CV_OP_sign: return is_unsigned ? x != 0 : (x > 0) - (x < 0);
    case CV_OP_not: return dtype == CV_BOOL ? x == 0 : ~x;
    default: return 0;
  }
}

static int64_t int_divide(cv_op op, cv_dtype dtype, int64_t a, int64_t b) {
  uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
  if (b == 0) return 0;
  if (dtype == CV_U64) return (int64_t)(op == CV_OP_div ? ua / ub : ua % ub);
  if (b == -1) return op == CV_OP_div ? (int64_t)(0 - ua) : 0;
  return op == CV_OP_div ? a / b : a % b;
}

/* By squaring; a negative power of an integer is 1 / a^-b, truncated. */
static int64_t int_power(cv_dtype dtype, int64_t a, int64_t b) {
  int64_t result = 1;
  if (b < 0 && dtype != CV_U64) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  for (uint64_t n = (uint64_t)b; n > 0; n >>= 1) {
    if ((n & 1) != 0) result = wrap_mul(result, a);
    a = wrap_mul(a, a);
  }
  return result;
}

static int64_t int_shift(cv_op op, cv_dtype dtype, int64_t a, int64_t b) {
  int bits = 8 * (int)cv_dtype_size(dtype);
  bool all = b < 0 || b >= bits; /* a negative count is one beyond the width */
  if (op == CV_OP_shl) return all ? 0 : (int64_t)((uint64_t)a << b);
  if (dtype == CV_U64) return all ? 0 : (int64_t)((uint64_t)a >> b);
  return all ? (a < 0 ? -1 : 0) : a >> b;
}

static int64_t int_binary(cv_op op, cv_dtype dtype, int64_t a, int64_t b) {
  switch (op) {
    case CV_OP_add: return wrap_add(a, b);
    case CV_OP_sub: return (int64_t)((uint64_t)a - (uint64_t)b);
    case CV_OP_mul: return wrap_mul(a, b);
    case CV_OP_div:
    case CV_OP_rem: return int_divide(op, dtype, a, b);
    case CV_OP_pow: return int_power(dtype, a, b);
    case CV_OP_max: return int_compare(CV_OP_lt, dtype, a, b) ? b : a;
    case CV_OP_min: return int_compare(CV_OP_lt, dtype, b, a) ? b : a;
    case CV_OP_and: return a & b;
    case CV_OP_or: return a | b;
    case CV_OP_xor: return a ^ b;
    case CV_OP_shl:
    case CV_OP_shr: return int_shift(op, dtype, a, b);
    default: return 0;
  }
}

static void cast_element(cv_dtype from, const void *in, cv_dtype to, void *out) {
  if (from == to) {
    memcpy(out, in, cv_dtype_size(to));
  } else if (cv_dtype_is_float(from)) {
    cv_element_from_double(to, cv_element_to_double(from, in), out);
  } else if (from == CV_U64 && cv_dtype_is_float(to)) {
    uint64_t u;
    memcpy(&u, in, sizeof u);
    float f = (float)u; /* one rounding */
    if (to == CV_F32) {
      memcpy(out, &f, sizeof f);
    } else {
      cv_element_from_double(to, to == CV_F64 ? (double)u : (double)f, out);
    }
  } else {
    cv_element_from_int(to, cv_element_to_int(from, in), out);
  }
}

static void map_float(const interp_call *call, int64_t n) {
  const cv_tensor *a = &call->ins[0], *b = &call->ins[call->node->n_ins - 1];
  cv_op op = call->node->op;
  cv_dtype dtype = a->dtype, to = call->outs[0].dtype;
  for (int64_t i = 0; i < n; i++) {
    double x = cv_element_to_double(dtype, interp_at(a, i));
    if (call->node->n_ins == 1) {
      cv_element_from_double(to, float_unary(op, x), interp_out(call->outs, i));
      continue;
    }
    double y = cv_element_to_double(dtype, interp_at(b, i));
    if (to == CV_BOOL) {
      cv_element_from_int(to, float_compare(op, x, y), interp_out(call->outs, i));
    } else {
      cv_element_from_double(to, float_binary(op, x, y), interp_out(call->outs, i));
    }
  }
}

static void map_int(const interp_call *call, int64_t n) {
  const cv_tensor *a = &call->ins[0], *b = &call->ins[call->node->n_ins - 1];
  cv_op op = call->node->op;
  cv_dtype dtype = a->dtype, to = call->outs[0].dtype;
  bool compare = op == CV_OP_eq || op == CV_OP_lt || op == CV_OP_le;
  for (int64_t i = 0; i < n; i++) {
    int64_t x = cv_element_to_int(dtype, interp_at(a, i)), r;
    int64_t y = cv_element_to_int(dtype, interp_at(b, i));
    if (compare) {
      r = int_compare(op, dtype, x, y);
    } else {
      r = call->node->n_ins == 1 ? int_unary(op, dtype, x) : int_binary(op, dtype, x, y);
    }
    cv_element_from_int(to, r, interp_out(call->outs, i));
  }
}

cv_status interp_map(const interp_call *call) {
  int64_t n = interp_count(call->outs);
  const cv_tensor *a = &call->ins[0];
  size_t size = cv_dtype_size(call->outs[0].dtype);
  if (call->node->op == CV_OP_cast) {
    for (int64_t i = 0; i < n; i++) {
      cast_element(a->dtype, interp_at(a, i), call->outs[0].dtype, interp_out(call->outs, i));
    }
  } else if (call->node->op == CV_OP_bits) {
    if (n > 0) memcpy(call->outs[0].data, a->data, (size_t)n * size);
  } else if (call->node->op == CV_OP_select) {
    const unsigned char *c = a->data;
    for (int64_t i = 0; i < n; i++) {
      memcpy(interp_out(call->outs, i), interp_at(&call->ins[c[i] != 0 ? 1 : 2], i), size);
    }
  } else if (cv_dtype_is_float(a->dtype)) {
    map_float(call, n);
  } else {
    map_int(call, n);
  }
  return CV_OK;
}
