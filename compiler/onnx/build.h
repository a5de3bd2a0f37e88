/* Short forms for the builders of the import table, over compiler/graph.h: numpy broadcasting,
 * constants of the operand's dtype, expressions of the graph's pool. All pass poison on. */
#ifndef CV_COMPILER_ONNX_BUILD_H
#define CV_COMPILER_ONNX_BUILD_H

#include "compiler/graph.h"
#include "compiler/onnx/node.h"

/* The type of any value: of poison and absent ones a scalar f32. */
const cv_type *cv_ty(const cv_graph *g, cv_val v);
static inline cv_dtype cv_dt(const cv_graph *g, cv_val v) { return cv_ty(g, v)->dtype; }
static inline int cv_rank(const cv_graph *g, cv_val v) { return cv_ty(g, v)->rank; }
static inline cv_expr cv_dim(const cv_graph *g, cv_val v, int i) { return cv_ty(g, v)->dims[i]; }
static inline bool cv_is_float(const cv_graph *g, cv_val v) {
  return cv_dtype_kind(cv_dt(g, v)) == 'f';
}
/* A copy of its dims in the arena (the type itself moves when values are added). */
const cv_expr *cv_dims_of(cv_graph *g, cv_val v);
/* The dim as a number: false if it is symbolic. */
static inline bool cv_dim_known(const cv_graph *g, cv_val v, int i, int64_t *out) {
  return cv_expr_is_const(g->exprs, cv_dim(g, v, i), out);
}
static inline bool cv_ok(const cv_graph *g) { return g->status == CV_OK; }

static inline cv_val cv_add(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_add, a, b);
}
static inline cv_val cv_sub(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_sub, a, b);
}
static inline cv_val cv_mul(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_mul, a, b);
}
static inline cv_val cv_div(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_div, a, b);
}
static inline cv_val cv_max2(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_max, a, b);
}
static inline cv_val cv_min2(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_min, a, b);
}
static inline cv_val cv_lt(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_lt, a, b);
}
static inline cv_val cv_le(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_le, a, b);
}
static inline cv_val cv_eq(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_eq, a, b);
}
static inline cv_val cv_and(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_and, a, b);
}
static inline cv_val cv_or(cv_graph *g, cv_val a, cv_val b) {
  return cv_binary_bc(g, CV_OP_or, a, b);
}
static inline cv_val cv_not(cv_graph *g, cv_val a) { return cv_unary(g, CV_OP_not, a); }
static inline cv_val cv_neg(cv_graph *g, cv_val a) { return cv_unary(g, CV_OP_neg, a); }
static inline cv_val cv_abs(cv_graph *g, cv_val a) { return cv_unary(g, CV_OP_abs, a); }
static inline cv_val cv_exp(cv_graph *g, cv_val a) { return cv_unary(g, CV_OP_exp, a); }
static inline cv_val cv_log(cv_graph *g, cv_val a) { return cv_unary(g, CV_OP_log, a); }
static inline cv_val cv_sqrt(cv_graph *g, cv_val a) { return cv_unary(g, CV_OP_sqrt, a); }
static inline cv_val cv_floor(cv_graph *g, cv_val a) { return cv_unary(g, CV_OP_floor, a); }

/* A scalar constant of the dtype of `like`. */
static inline cv_val cv_num(cv_graph *g, cv_val like, double value) {
  return cv_graph_scalar(g, cv_dt(g, like), value);
}
static inline cv_val cv_add_num(cv_graph *g, cv_val a, double b) {
  return cv_add(g, a, cv_num(g, a, b));
}
static inline cv_val cv_mul_num(cv_graph *g, cv_val a, double b) {
  return cv_mul(g, a, cv_num(g, a, b));
}
static inline cv_val cv_square(cv_graph *g, cv_val a) { return cv_mul(g, a, a); }

/* A bool scalar constant. */
cv_val cv_truth(cv_graph *g, bool value);
/* f16 and bf16 as f32, so that a composite rounds once; others as they are. */
cv_val cv_widen(cv_graph *g, cv_val x);
/* log(1 + x), right for small x. */
cv_val cv_log1p(cv_graph *g, cv_val x);
cv_val cv_sigmoid(cv_graph *g, cv_val x);
cv_val cv_softplus(cv_graph *g, cv_val x);
/* Softmax and its logarithm over the axes of a mask. */
cv_val cv_softmax(cv_graph *g, cv_val x, uint32_t axes);
cv_val cv_log_softmax(cv_graph *g, cv_val x, uint32_t axes);
cv_val cv_log_sum_exp(cv_graph *g, cv_val x, uint32_t axes, bool keep);
/* The mean over the axes of a mask, in x's dtype. */
cv_val cv_mean(cv_graph *g, cv_val x, uint32_t axes, bool keep);
/* The product of the dims of a mask as a scalar of a dtype. */
cv_val cv_extent(cv_graph *g, cv_val x, uint32_t axes, cv_dtype dtype);
/* An expression as a scalar of a dtype. */
cv_val cv_scalar_of(cv_graph *g, cv_expr e, cv_dtype dtype);

/* Movement. */
cv_val cv_unsqueeze(cv_graph *g, cv_val x, int axis);
cv_val cv_squeeze(cv_graph *g, cv_val x, uint32_t axes); /* the axes of a mask, whose dims are 1 */
cv_val cv_flatten_all(cv_graph *g, cv_val x);            /* to one dim */
cv_val cv_as_scalar(cv_graph *g, cv_val x);              /* of one element: rank 0 */
/* x of rank 1 along `axis` of a tensor of `rank` dims: [1, .., n, .., 1]. */
cv_val cv_along(cv_graph *g, cv_val x, int axis, int rank);
cv_val cv_swap(cv_graph *g, cv_val x, int a, int b); /* transposes two axes */
cv_val cv_flip(cv_graph *g, cv_val x, int axis);
/* Index along the axis, i64, of dims [1, .., n, .., 1]. */
cv_val cv_index_along(cv_graph *g, cv_expr extent, int axis, int rank);
cv_val cv_slice_const(cv_graph *g, cv_val x, int axis, int64_t start, int64_t extent);
/* numpy.matmul: vectors, broadcast batch dims; leading dims are merged where b is a matrix. */
cv_val cv_matmul_bc(cv_graph *g, cv_val a, cv_val b, cv_dtype to);
/* Takes a's last dim and b's before the last for equal, as a matrix product needs: what is known of
 * one holds for the other. */
void cv_match_inner(cv_graph *g, cv_val *a, cv_val *b);
/* A constant of the type with all elements `value`. */
cv_val cv_full(cv_graph *g, cv_dtype dtype, const cv_expr *dims, int rank, double value);
/* Indices for gather_nd / scatter_nd from GatherElements' indices along `axis`: [..., rank]. */
cv_val cv_element_indices(cv_graph *g, cv_val idx, int axis);
cv_val cv_scatter(cv_graph *g, cv_val x, cv_val idx, cv_val updates, const char *kind);

/* Expressions of the graph's pool. */
static inline cv_expr e_const(cv_graph *g, int64_t v) { return cv_expr_const(g->exprs, v); }
static inline cv_expr e_add(cv_graph *g, cv_expr a, cv_expr b) {
  return cv_expr_add(g->exprs, a, b);
}
static inline cv_expr e_sub(cv_graph *g, cv_expr a, cv_expr b) {
  return cv_expr_sub(g->exprs, a, b);
}
static inline cv_expr e_mul(cv_graph *g, cv_expr a, cv_expr b) {
  return cv_expr_mul(g->exprs, a, b);
}
static inline cv_expr e_div(cv_graph *g, cv_expr a, cv_expr b) {
  return cv_expr_div(g->exprs, a, b);
}
static inline cv_expr e_max(cv_graph *g, cv_expr a, cv_expr b) {
  return cv_expr_max(g->exprs, a, b);
}
static inline cv_expr e_min(cv_graph *g, cv_expr a, cv_expr b) {
  return cv_expr_min(g->exprs, a, b);
}
static inline cv_expr e_add_i(cv_graph *g, cv_expr a, int64_t b) {
  return cv_expr_add(g->exprs, a, e_const(g, b));
}
static inline cv_expr e_mul_i(cv_graph *g, cv_expr a, int64_t b) {
  return cv_expr_mul(g->exprs, a, e_const(g, b));
}
/* ceil(a / b), b > 0. */
static inline cv_expr e_ceil_div(cv_graph *g, cv_expr a, int64_t b) {
  return cv_expr_div(g->exprs, e_add_i(g, a, b - 1), e_const(g, b));
}
/* The product of dims [from, to) of x. */
cv_expr e_count(cv_graph *g, cv_val x, int from, int to);
static inline bool e_is(const cv_graph *g, cv_expr e, int64_t value) {
  int64_t v;
  return cv_expr_is_const(g->exprs, e, &v) && v == value;
}

#endif
