#include "compiler/onnx/build.h"

const cv_type *cv_ty(const cv_graph *g, cv_val v) {
  static const cv_type none = {.dtype = CV_F32,
                               .dims = {CV_EXPR_NONE, CV_EXPR_NONE, CV_EXPR_NONE, CV_EXPR_NONE,
                                        CV_EXPR_NONE, CV_EXPR_NONE, CV_EXPR_NONE, CV_EXPR_NONE}};
  return v >= CV_ABSENT ? &none : cv_type_of(g, v);
}

cv_val cv_truth(cv_graph *g, bool value) {
  static const int64_t none[1];
  uint8_t byte = value;
  return cv_graph_const(g, CV_BOOL, 0, none, &byte);
}

cv_val cv_widen(cv_graph *g, cv_val x) {
  cv_dtype dtype = cv_dt(g, x);
  return dtype == CV_F16 || dtype == CV_BF16 ? cv_cast(g, x, CV_F32) : x;
}

const cv_expr *cv_dims_of(cv_graph *g, cv_val v) {
  return cv_arena_copy(&g->arena, cv_ty(g, v)->dims, sizeof cv_ty(g, v)->dims);
}

/* Kahan's form: x * log(u) / (u - 1) with u = 1 + x. */
cv_val cv_log1p(cv_graph *g, cv_val x) {
  cv_val one = cv_num(g, x, 1);
  cv_val u = cv_add(g, x, one);
  cv_val d = cv_sub(g, u, one);
  cv_val exact = cv_eq(g, d, cv_num(g, x, 0));
  cv_val big = cv_lt(g, cv_num(g, x, 1e10), x);
  cv_val safe = cv_select(g, exact, one, d);
  cv_val y = cv_mul(g, cv_log(g, u), cv_div(g, x, safe));
  return cv_select(g, exact, x, cv_select(g, big, cv_log(g, u), y));
}

cv_val cv_sigmoid(cv_graph *g, cv_val x) {
  cv_val wide = cv_widen(g, x);
  cv_val one = cv_num(g, wide, 1);
  cv_val y = cv_div(g, one, cv_add(g, one, cv_exp(g, cv_neg(g, wide))));
  return cv_cast(g, y, cv_dt(g, x));
}

cv_val cv_softplus(cv_graph *g, cv_val x) {
  cv_val tail = cv_log1p(g, cv_exp(g, cv_neg(g, cv_abs(g, x))));
  return cv_add(g, cv_max2(g, x, cv_num(g, x, 0)), tail);
}

cv_val cv_softmax(cv_graph *g, cv_val x, uint32_t axes) {
  cv_val wide = cv_widen(g, x);
  cv_val e = cv_exp(g, cv_sub(g, wide, cv_reduce(g, wide, "max", axes, true)));
  cv_val y = cv_div(g, e, cv_reduce(g, e, "sum", axes, true));
  return cv_cast(g, y, cv_dt(g, x));
}

cv_val cv_log_softmax(cv_graph *g, cv_val x, uint32_t axes) {
  cv_val wide = cv_widen(g, x);
  cv_val d = cv_sub(g, wide, cv_reduce(g, wide, "max", axes, true));
  cv_val y = cv_sub(g, d, cv_log(g, cv_reduce(g, cv_exp(g, d), "sum", axes, true)));
  return cv_cast(g, y, cv_dt(g, x));
}

/* The maximum is taken out first; one that is not finite stays in. */
cv_val cv_log_sum_exp(cv_graph *g, cv_val x, uint32_t axes, bool keep) {
  cv_val wide = cv_widen(g, x);
  cv_val top = cv_reduce(g, wide, "max", axes, true);
  cv_val finite = cv_lt(g, cv_abs(g, top), cv_num(g, top, __builtin_inf()));
  top = cv_select(g, finite, top, cv_num(g, top, 0));
  cv_val sum = cv_reduce(g, cv_exp(g, cv_sub(g, wide, top)), "sum", axes, true);
  cv_val y = cv_cast(g, cv_add(g, cv_log(g, sum), top), cv_dt(g, x));
  return keep ? y : cv_squeeze(g, y, axes);
}

cv_expr e_count(cv_graph *g, cv_val x, int from, int to) {
  cv_expr product = e_const(g, 1);
  for (int i = from; i < to; i++) product = e_mul(g, product, cv_dim(g, x, i));
  return product;
}

cv_val cv_scalar_of(cv_graph *g, cv_expr e, cv_dtype dtype) {
  int64_t value;
  if (cv_expr_is_const(g->exprs, e, &value)) {
    if (dtype == CV_I64) return cv_graph_i64(g, value);
    return cv_graph_scalar(g, dtype, (double)value);
  }
  return cv_cast(g, cv_as_scalar(g, cv_extents(g, &e, 1)), dtype);
}

cv_val cv_extent(cv_graph *g, cv_val x, uint32_t axes, cv_dtype dtype) {
  cv_expr product = e_const(g, 1);
  for (int i = 0; i < cv_rank(g, x); i++) {
    if (axes >> i & 1) product = e_mul(g, product, cv_dim(g, x, i));
  }
  return cv_scalar_of(g, product, dtype);
}

cv_val cv_mean(cv_graph *g, cv_val x, uint32_t axes, bool keep) {
  cv_val wide = cv_widen(g, x);
  cv_val sum = cv_reduce(g, wide, "sum", axes, keep);
  cv_val y = cv_div(g, sum, cv_extent(g, x, axes, cv_dt(g, wide)));
  return cv_cast(g, y, cv_dt(g, x));
}

cv_val cv_unsqueeze(cv_graph *g, cv_val x, int axis) {
  cv_expr dims[CV_MAX_RANK + 1];
  const cv_type *type = cv_ty(g, x);
  if (type->rank >= CV_MAX_RANK) {
    return cv_graph_fail(g, CV_UNSUPPORTED, "it needs a tensor of more than %d dims", CV_MAX_RANK);
  }
  for (int i = 0, k = 0; i <= type->rank; i++) {
    dims[i] = i == axis ? e_const(g, 1) : type->dims[k++];
  }
  return cv_reshape(g, x, dims, type->rank + 1);
}

cv_val cv_squeeze(cv_graph *g, cv_val x, uint32_t axes) {
  cv_expr dims[CV_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < cv_rank(g, x); i++) {
    if (!(axes >> i & 1)) dims[rank++] = cv_dim(g, x, i);
  }
  return cv_reshape(g, x, dims, rank);
}

cv_val cv_flatten_all(cv_graph *g, cv_val x) {
  cv_expr count = e_count(g, x, 0, cv_rank(g, x));
  return cv_reshape(g, x, &count, 1);
}

cv_val cv_as_scalar(cv_graph *g, cv_val x) {
  cv_expr none = CV_EXPR_NONE;
  return cv_reshape(g, x, &none, 0);
}

cv_val cv_along(cv_graph *g, cv_val x, int axis, int rank) {
  cv_expr dims[CV_MAX_RANK];
  for (int i = 0; i < rank; i++) dims[i] = i == axis ? cv_dim(g, x, 0) : e_const(g, 1);
  return cv_reshape(g, x, dims, rank);
}

cv_val cv_swap(cv_graph *g, cv_val x, int a, int b) {
  int64_t perm[CV_MAX_RANK];
  for (int i = 0; i < CV_MAX_RANK; i++) perm[i] = i == a ? b : i == b ? a : i;
  return cv_transpose(g, x, perm);
}

cv_val cv_flip(cv_graph *g, cv_val x, int axis) {
  cv_expr extent = cv_dim(g, x, axis);
  return cv_slice_axis(g, x, axis, e_add_i(g, extent, -1), extent, -1);
}

cv_val cv_index_along(cv_graph *g, cv_expr extent, int axis, int rank) {
  cv_expr dims[CV_MAX_RANK];
  if (rank == 0) return cv_graph_i64(g, 0);
  for (int i = 0; i < rank; i++) dims[i] = i == axis ? extent : e_const(g, 1);
  return cv_iota(g, CV_I64, dims, rank, axis);
}

cv_val cv_slice_const(cv_graph *g, cv_val x, int axis, int64_t start, int64_t extent) {
  return cv_slice_axis(g, x, axis, e_const(g, start), e_const(g, extent), 1);
}

/* Batch dims of both brought to numpy's broadcast. */
static void match_batches(cv_graph *g, cv_val *a, cv_val *b) {
  const cv_type ta = *cv_ty(g, *a), tb = *cv_ty(g, *b);
  int rank = ta.rank > tb.rank ? ta.rank : tb.rank;
  cv_expr da[CV_MAX_RANK], db[CV_MAX_RANK];
  for (int i = 0; i < rank; i++) {
    int ia = i - (rank - ta.rank), ib = i - (rank - tb.rank);
    cv_expr ea = ia >= 0 ? ta.dims[ia] : e_const(g, 1), eb = ib >= 0 ? tb.dims[ib] : e_const(g, 1);
    da[i] = i < rank - 2 && e_is(g, ea, 1) ? eb : ea;
    db[i] = i < rank - 2 && e_is(g, eb, 1) ? ea : eb;
  }
  *a = cv_broadcast_to(g, *a, da, rank);
  *b = cv_broadcast_to(g, *b, db, rank);
}

void cv_match_inner(cv_graph *g, cv_val *a, cv_val *b) {
  cv_type ta = *cv_ty(g, *a), tb = *cv_ty(g, *b);
  int64_t known;
  if (ta.rank < 2 || tb.rank < 2) return;
  cv_expr *last = &ta.dims[ta.rank - 1], *first = &tb.dims[tb.rank - 2];
  if (cv_expr_is_const(g->exprs, *first, &known))
    *last = *first;
  else
    *first = *last;
  *a = cv_assume_dims(g, *a, ta.dims, ta.rank);
  *b = cv_assume_dims(g, *b, tb.dims, tb.rank);
}

/* [lead.., m, k] x [k, n] as one matrix product: the weight is used as it is. */
static cv_val merged(cv_graph *g, cv_val a, cv_val b, cv_dtype to) {
  int rank = cv_rank(g, a);
  cv_expr flat[2] = {e_count(g, a, 0, rank - 1), cv_dim(g, a, rank - 1)};
  cv_expr dims[CV_MAX_RANK];
  for (int i = 0; i < rank - 1; i++) dims[i] = cv_dim(g, a, i);
  dims[rank - 1] = cv_dim(g, b, 1);
  return cv_reshape(g, cv_matmul(g, cv_reshape(g, a, flat, 2), b, to), dims, rank);
}

cv_val cv_matmul_bc(cv_graph *g, cv_val a, cv_val b, cv_dtype to) {
  bool row = cv_rank(g, a) == 1, column = cv_rank(g, b) == 1;
  cv_val y;
  if (!cv_ok(g)) return CV_POISON;
  if (cv_rank(g, a) == 0 || cv_rank(g, b) == 0) {
    return cv_graph_fail(g, CV_INVALID, "a matrix product needs operands with dims");
  }
  if (row) a = cv_unsqueeze(g, a, 0);
  if (column) b = cv_unsqueeze(g, b, 1);
  cv_match_inner(g, &a, &b);
  if (cv_rank(g, a) > 2 && cv_rank(g, b) == 2) {
    y = merged(g, a, b, to);
  } else {
    match_batches(g, &a, &b);
    y = cv_matmul(g, a, b, to);
  }
  int rank = cv_rank(g, y);
  uint32_t drop =
      (row && rank >= 2 ? 1u << (rank - 2) : 0) | (column && rank ? 1u << (rank - 1) : 0);
  return drop ? cv_squeeze(g, y, drop) : y;
}

cv_val cv_full(cv_graph *g, cv_dtype dtype, const cv_expr *dims, int rank, double value) {
  cv_type type = {.dtype = dtype, .rank = (uint8_t)rank};
  for (int i = 0; i < rank; i++) type.dims[i] = dims[i];
  cv_val scalar = cv_graph_scalar(g, dtype, value);
  if (scalar == CV_POISON) return scalar;
  return cv_graph_splat(g, &type, cv_value_of(g, scalar)->data.data);
}

cv_val cv_element_indices(cv_graph *g, cv_val idx, int axis) {
  cv_val parts[CV_MAX_RANK];
  const cv_type type = *cv_ty(g, idx);
  if (!cv_ok(g)) return CV_POISON;
  for (int i = 0; i < type.rank; i++) {
    cv_val part = i == axis ? cv_cast(g, idx, CV_I64) : cv_iota(g, CV_I64, type.dims, type.rank, i);
    parts[i] = cv_unsqueeze(g, part, type.rank);
  }
  return cv_concat(g, parts, type.rank, type.rank);
}

cv_val cv_scatter(cv_graph *g, cv_val x, cv_val idx, cv_val updates, const char *kind) {
  cv_attr attr = {.key = CV_ATTR_KIND, .text = kind};
  cv_val ins[3] = {x, idx, updates};
  return cv_build(g, CV_OP_scatter_nd, ins, 3, &attr, 1);
}
