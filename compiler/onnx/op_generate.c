/* Ops that make values: constants, ranges, identity matrices, windows. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

void cv_import_constant(cv_on *n) {
  cv_graph *g = n->g;
  uint32_t count;
  const int64_t *ints;
  const float *floats;
  if (cv_on_attr(n, "value")) {
    cv_on_set(n, 0, cv_on_tensor(n, "value"));
  } else if (cv_on_attr(n, "value_float")) {
    cv_on_set(n, 0, cv_graph_scalar(g, CV_F32, cv_on_float(n, "value_float", 0)));
  } else if (cv_on_attr(n, "value_int")) {
    cv_on_set(n, 0, cv_graph_i64(g, cv_on_int(n, "value_int", 0)));
  } else if ((floats = cv_on_floats(n, "value_floats", &count))) {
    cv_on_set(n, 0, cv_graph_const(g, CV_F32, 1, &(int64_t){count}, floats));
  } else if ((ints = cv_on_ints(n, "value_ints", &count))) {
    cv_on_set(n, 0, cv_graph_const(g, CV_I64, 1, &(int64_t){count}, ints));
  } else {
    cv_on_fail(n, CV_UNSUPPORTED, "a constant that is text, sparse or missing");
  }
}

void cv_import_constant_of_shape(cv_on *n) {
  cv_graph *g = n->g;
  uint32_t rank;
  const cv_expr *dims = cv_on_exprs(n, 0, 0, CV_ONNX_MAX_DIM, &rank);
  cv_val value = cv_on_tensor(n, "value");
  if (!dims || !cv_ok(g)) return;
  if (rank > CV_MAX_RANK) {
    cv_on_fail(n, CV_UNSUPPORTED, "%u dims, at most %d are supported", rank, CV_MAX_RANK);
    return;
  }
  if (value == CV_ABSENT) value = cv_graph_scalar(g, CV_F32, 0);
  if (!cv_value_of(g, value)->data.bytes) {
    cv_on_fail(n, CV_INVALID, "value has no element");
    return;
  }
  cv_type type = {.dtype = cv_dt(g, value), .rank = (uint8_t)rank};
  memcpy(type.dims, dims, rank * sizeof *dims);
  cv_on_set(n, 0, cv_graph_splat(g, &type, cv_value_of(g, value)->data.data));
}

/* How many elements a Range of floats has, bound at run time if it must be. */
static cv_expr float_count(cv_on *n, cv_val start, cv_val limit, cv_val delta) {
  cv_graph *g = n->g;
  uint32_t count;
  cv_val span = cv_sub(g, cv_cast(g, limit, CV_F64), cv_cast(g, start, CV_F64));
  cv_val steps = cv_unary(g, CV_OP_ceil, cv_div(g, span, cv_cast(g, delta, CV_F64)));
  steps = cv_max2(g, cv_cast(g, steps, CV_I64), cv_graph_i64(g, 0));
  const double *a = cv_graph_doubles(g, start, &(uint64_t){0});
  const double *b = cv_graph_doubles(g, limit, &(uint64_t){0});
  const double *d = cv_graph_doubles(g, delta, &(uint64_t){0});
  if (a && b && d && d[0] != 0) {
    double exact = ceil((b[0] - a[0]) / d[0]);
    return e_const(g, exact > 0 && exact < 1e9 ? (int64_t)exact : 0);
  }
  const cv_expr *e = cv_on_exprs_of(n, steps, 0, CV_ONNX_MAX_DIM, &count);
  return e ? e[0] : CV_EXPR_NONE;
}

/* max(0, ceil((limit - start) / delta)) for integers; the delta's sign must be known. */
static cv_expr int_count(cv_on *n) {
  cv_graph *g = n->g;
  uint32_t k;
  int64_t delta = cv_on_known_int(n, 2, "delta", 1);
  const cv_expr *start = cv_on_exprs(n, 0, -CV_ONNX_MAX_DIM, CV_ONNX_MAX_DIM, &k);
  const cv_expr *limit = cv_on_exprs(n, 1, -CV_ONNX_MAX_DIM, CV_ONNX_MAX_DIM, &k);
  if (!start || !limit || delta == 0) return CV_EXPR_NONE;
  cv_expr span = delta > 0 ? e_sub(g, limit[0], start[0]) : e_sub(g, start[0], limit[0]);
  return e_max(g, e_ceil_div(g, span, delta > 0 ? delta : -delta), e_const(g, 0));
}

void cv_import_range(cv_on *n) {
  cv_graph *g = n->g;
  cv_val start = cv_as_scalar(g, cv_on_in(n, 0)), limit = cv_as_scalar(g, cv_on_in(n, 1));
  cv_val delta = cv_as_scalar(g, cv_on_in(n, 2));
  cv_dtype dtype = cv_dt(g, start);
  cv_expr count = cv_is_float(g, start) ? float_count(n, start, limit, delta) : int_count(n);
  if (count == CV_EXPR_NONE) {
    if (cv_ok(g)) cv_on_fail(n, CV_INVALID, "a delta of 0");
    return;
  }
  cv_val at = cv_iota(g, dtype == CV_F16 || dtype == CV_BF16 ? CV_F32 : dtype, &count, 1, 0);
  cv_val step = cv_mul(g, at, cv_cast(g, delta, cv_dt(g, at)));
  cv_val y = cv_add(g, step, cv_cast(g, start, cv_dt(g, at)));
  cv_on_set(n, 0, cv_cast(g, y, dtype));
}

void cv_import_eye_like(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  cv_dtype to = cv_dt(g, x);
  int64_t number = cv_on_int(n, "dtype", 0);
  if (cv_rank(g, x) != 2 || (number && !cv_dtype_from_onnx((int)number, &to))) {
    cv_on_fail(n, CV_INVALID, "its input must be a matrix, its dtype a number");
    return;
  }
  cv_val row = cv_index_along(g, cv_dim(g, x, 0), 0, 2);
  cv_val column = cv_index_along(g, cv_dim(g, x, 1), 1, 2);
  row = cv_add(g, row, cv_graph_i64(g, cv_on_int(n, "k", 0)));
  cv_on_set(n, 0, cv_cast(g, cv_eq(g, row, column), to));
}

/* Hann, Hamming and Blackman windows: a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N). */
void cv_import_window_function(cv_on *n) {
  static const double terms[3][3] = {{0.5, 0.5, 0}, {25.0 / 46, 21.0 / 46, 0}, {0.42, 0.5, 0.08}};
  cv_graph *g = n->g;
  const double *a = terms[n->row->arg];
  uint32_t count;
  cv_dtype to = CV_F32;
  const cv_expr *size = cv_on_exprs(n, 0, 0, CV_ONNX_MAX_DIM, &count);
  int64_t number = cv_on_int(n, "output_datatype", 1);
  if (!size) return;
  if (!cv_dtype_from_onnx((int)number, &to)) {
    cv_on_fail(n, CV_UNSUPPORTED, "the element type %lld", (long long)number);
    return;
  }
  bool periodic = cv_on_int(n, "periodic", 1) != 0;
  cv_expr whole = periodic ? size[0] : e_add_i(g, size[0], -1);
  cv_val i = cv_iota(g, CV_F64, size, 1, 0);
  cv_val angle = cv_div(g, cv_mul_num(g, i, 2 * M_PI), cv_scalar_of(g, whole, CV_F64));
  cv_val y = cv_mul_num(g, cv_unary(g, CV_OP_cos, angle), -a[1]);
  cv_val twice = cv_unary(g, CV_OP_cos, cv_mul_num(g, angle, 2));
  y = cv_add(g, cv_add_num(g, y, a[0]), cv_mul_num(g, twice, a[2]));
  cv_on_set(n, 0, cv_cast(g, y, to));
}
