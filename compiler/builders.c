/* Short builders over cv_build. */
#include <string.h>

#include "compiler/graph_internal.h"

/* True if v is a value; the error is set else. */
static bool usable(cv_graph *graph, cv_val v) {
  if (graph->status != CV_OK) return false;
  if (v < graph->values.len) return true;
  cv_graph_fail(graph, CV_INTERNAL, "a builder was given no value (node \"%s\")", graph->source);
  return false;
}

static cv_attr attr_int(cv_attr_key key, int64_t i) { return (cv_attr){.key = key, .i = i}; }
static cv_attr attr_dtype(cv_attr_key key, cv_dtype d) { return (cv_attr){.key = key, .dtype = d}; }
static cv_attr attr_text(cv_attr_key key, const char *t) {
  return (cv_attr){.key = key, .text = t};
}
static cv_attr attr_ints(cv_attr_key key, const int64_t *ints, int n) {
  return (cv_attr){.key = key, .count = (uint32_t)n, .ints = ints};
}
static cv_attr attr_exprs(cv_attr_key key, const cv_expr *exprs, int n) {
  return (cv_attr){.key = key, .count = (uint32_t)n, .exprs = exprs};
}

static bool is_one(const cv_graph *graph, cv_expr e) {
  int64_t value;
  return cv_expr_is_const(graph->exprs, e, &value) && value == 1;
}

/* ---- MAP ---- */

cv_val cv_unary(cv_graph *graph, cv_op op, cv_val x) {
  return usable(graph, x) ? cv_build(graph, op, &x, 1, NULL, 0) : CV_POISON;
}

cv_val cv_binary(cv_graph *graph, cv_op op, cv_val a, cv_val b) {
  if (!usable(graph, a) || !usable(graph, b)) return CV_POISON;
  return cv_build(graph, op, (cv_val[]){a, b}, 2, NULL, 0);
}

cv_val cv_cast(cv_graph *graph, cv_val x, cv_dtype to) {
  if (!usable(graph, x)) return CV_POISON;
  if (cv_type_of(graph, x)->dtype == to) return x;
  cv_attr attr = attr_dtype(CV_ATTR_TO, to);
  return cv_build(graph, CV_OP_cast, &x, 1, &attr, 1);
}

/* The common dim of two: sets the error where there is none. */
static cv_expr common_dim(cv_graph *graph, cv_expr a, cv_expr b) {
  int64_t value;
  if (a == b || is_one(graph, b)) return a;
  if (is_one(graph, a)) return b;
  if (!cv_graph_assume_equal(graph, a, b)) return CV_EXPR_NONE;
  return cv_expr_is_const(graph->exprs, b, &value) ? b : a;
}

bool cv_broadcast_dims(cv_graph *graph, const cv_type *const *types, uint32_t n,
                       cv_type *out_type) {
  cv_type out = *types[0];
  if (graph->status != CV_OK) return false;
  for (uint32_t k = 1; k < n; k++) {
    cv_type joined = types[k]->rank > out.rank ? *types[k] : out;
    const cv_type *shorter = types[k]->rank > out.rank ? &out : types[k];
    int shift = joined.rank - shorter->rank;
    for (int i = 0; i < shorter->rank; i++) {
      cv_expr a = out.dims[i + shift - (joined.rank - out.rank)];
      cv_expr b = types[k]->dims[i + shift - (joined.rank - types[k]->rank)];
      joined.dims[i + shift] = common_dim(graph, a, b);
      if (joined.dims[i + shift] == CV_EXPR_NONE) return false;
    }
    out.rank = joined.rank;
    memcpy(out.dims, joined.dims, sizeof out.dims);
  }
  *out_type = out;
  return true;
}

cv_val cv_binary_bc(cv_graph *graph, cv_op op, cv_val a, cv_val b) {
  if (!usable(graph, a) || !usable(graph, b)) return CV_POISON;
  const cv_type ta = *cv_type_of(graph, a), tb = *cv_type_of(graph, b);
  cv_type out;
  if (!cv_broadcast_dims(graph, (const cv_type *[]){&ta, &tb}, 2, &out)) return CV_POISON;
  a = cv_broadcast_to(graph, a, out.dims, out.rank);
  b = cv_broadcast_to(graph, b, out.dims, out.rank);
  return cv_binary(graph, op, a, b);
}

cv_val cv_select(cv_graph *graph, cv_val c, cv_val a, cv_val b) {
  if (!usable(graph, c) || !usable(graph, a) || !usable(graph, b)) return CV_POISON;
  const cv_type tc = *cv_type_of(graph, c), ta = *cv_type_of(graph, a), tb = *cv_type_of(graph, b);
  cv_type out;
  if (!cv_broadcast_dims(graph, (const cv_type *[]){&tc, &ta, &tb}, 3, &out)) return CV_POISON;
  cv_val ins[3] = {c, a, b};
  for (int i = 0; i < 3; i++) {
    ins[i] = cv_broadcast_to(graph, ins[i], out.dims, out.rank);
    if (ins[i] == CV_POISON) return CV_POISON;
  }
  return cv_build(graph, CV_OP_select, ins, 3, NULL, 0);
}

/* ---- MOVE ---- */

static bool dims_are(const cv_type *type, const cv_expr *dims, int rank) {
  return type->rank == rank && memcmp(type->dims, dims, (size_t)rank * sizeof *dims) == 0;
}

cv_val cv_reshape(cv_graph *graph, cv_val x, const cv_expr *dims, int rank) {
  if (!usable(graph, x)) return CV_POISON;
  if (dims_are(cv_type_of(graph, x), dims, rank)) return x;
  cv_attr attr = attr_exprs(CV_ATTR_DIMS, dims, rank);
  return cv_build(graph, CV_OP_reshape, &x, 1, &attr, 1);
}

cv_val cv_assume_dims(cv_graph *graph, cv_val x, const cv_expr *dims, int rank) {
  if (!usable(graph, x)) return CV_POISON;
  const cv_type type = *cv_type_of(graph, x);
  if (type.rank != rank) {
    return cv_graph_fail(graph, CV_INVALID, "node \"%s\": %s cannot have %d dims", graph->source,
                         cv_type_text(graph, &type), rank);
  }
  for (int i = 0; i < rank; i++) {
    if (!cv_graph_assume_equal(graph, type.dims[i], dims[i])) return CV_POISON;
  }
  return cv_reshape(graph, x, dims, rank);
}

cv_val cv_transpose(cv_graph *graph, cv_val x, const int64_t *perm) {
  if (!usable(graph, x)) return CV_POISON;
  int rank = cv_type_of(graph, x)->rank;
  bool identity = true;
  for (int i = 0; i < rank; i++) identity = identity && perm[i] == i;
  if (identity) return x;
  cv_attr attr = attr_ints(CV_ATTR_PERM, perm, rank);
  return cv_build(graph, CV_OP_transpose, &x, 1, &attr, 1);
}

cv_val cv_broadcast_to(cv_graph *graph, cv_val x, const cv_expr *dims, int rank) {
  if (!usable(graph, x)) return CV_POISON;
  const cv_type type = *cv_type_of(graph, x);
  int more = rank - type.rank;
  if (dims_are(&type, dims, rank)) return x;
  if (more < 0 || rank > CV_MAX_RANK) {
    return cv_graph_fail(graph, CV_INVALID, "node \"%s\": %s cannot be broadcast to %d dims",
                         graph->source, cv_type_text(graph, &type), rank);
  }
  cv_expr own[CV_MAX_RANK];
  for (int i = 0; i < rank; i++) {
    own[i] = i < more ? cv_expr_const(graph->exprs, 1) : type.dims[i - more];
    if (own[i] == dims[i] || is_one(graph, own[i])) continue;
    if (!cv_graph_assume_equal(graph, own[i], dims[i])) return CV_POISON;
    own[i] = dims[i];
  }
  x = cv_reshape(graph, x, own, rank);
  if (x == CV_POISON || dims_are(cv_type_of(graph, x), dims, rank)) return x;
  cv_attr attr = attr_exprs(CV_ATTR_DIMS, dims, rank);
  return cv_build(graph, CV_OP_broadcast, &x, 1, &attr, 1);
}

cv_val cv_slice_axis(cv_graph *graph, cv_val x, int axis, cv_expr start, cv_expr extent,
                     int64_t step) {
  if (!usable(graph, x)) return CV_POISON;
  const cv_type type = *cv_type_of(graph, x);
  cv_expr starts[CV_MAX_RANK], dims[CV_MAX_RANK];
  int64_t steps[CV_MAX_RANK], zero;
  if (axis < 0 || axis >= type.rank) {
    return cv_graph_fail(graph, CV_INVALID, "node \"%s\": %s has no axis %d to slice",
                         graph->source, cv_type_text(graph, &type), axis);
  }
  bool whole = cv_expr_is_const(graph->exprs, start, &zero) && zero == 0 && step == 1;
  if (whole && extent == type.dims[axis]) return x;
  for (int i = 0; i < type.rank; i++) {
    starts[i] = i == axis ? start : cv_expr_const(graph->exprs, 0);
    dims[i] = i == axis ? extent : type.dims[i];
    steps[i] = i == axis ? step : 1;
  }
  cv_attr attrs[] = {attr_exprs(CV_ATTR_STARTS, starts, type.rank),
                     attr_exprs(CV_ATTR_DIMS, dims, type.rank),
                     attr_ints(CV_ATTR_STEPS, steps, type.rank)};
  return cv_build(graph, CV_OP_slice, &x, 1, attrs, 3);
}

cv_val cv_pad(cv_graph *graph, cv_val x, cv_val value, const cv_expr *lo, const cv_expr *hi) {
  if (!usable(graph, x) || !usable(graph, value)) return CV_POISON;
  int rank = cv_type_of(graph, x)->rank;
  cv_expr zero = cv_expr_const(graph->exprs, 0);
  bool none = true;
  for (int i = 0; i < rank; i++) none = none && lo[i] == zero && hi[i] == zero;
  if (none) return x;
  cv_attr attrs[] = {attr_exprs(CV_ATTR_LO, lo, rank), attr_exprs(CV_ATTR_HI, hi, rank)};
  return cv_build(graph, CV_OP_pad, (cv_val[]){x, value}, 2, attrs, 2);
}

cv_val cv_concat(cv_graph *graph, const cv_val *xs, uint32_t n, int axis) {
  for (uint32_t i = 0; i < n; i++) {
    if (!usable(graph, xs[i])) return CV_POISON;
  }
  if (n == 1) return xs[0];
  cv_attr attr = attr_int(CV_ATTR_AXIS, axis);
  return cv_build(graph, CV_OP_concat, xs, n, &attr, 1);
}

cv_val cv_gather(cv_graph *graph, cv_val x, cv_val idx, int axis) {
  if (!usable(graph, x) || !usable(graph, idx)) return CV_POISON;
  cv_attr attr = attr_int(CV_ATTR_AXIS, axis);
  return cv_build(graph, CV_OP_gather, (cv_val[]){x, idx}, 2, &attr, 1);
}

cv_val cv_gather_nd(cv_graph *graph, cv_val x, cv_val idx, int batch_dims) {
  if (!usable(graph, x) || !usable(graph, idx)) return CV_POISON;
  cv_attr attr = attr_int(CV_ATTR_BATCH_DIMS, batch_dims);
  return cv_build(graph, CV_OP_gather_nd, (cv_val[]){x, idx}, 2, &attr, 1);
}

/* ---- SHAPE, REDUCE ---- */

cv_val cv_iota(cv_graph *graph, cv_dtype dtype, const cv_expr *dims, int rank, int axis) {
  cv_attr attrs[] = {attr_exprs(CV_ATTR_DIMS, dims, rank), attr_int(CV_ATTR_AXIS, axis),
                     attr_dtype(CV_ATTR_TO, dtype)};
  return cv_build(graph, CV_OP_iota, NULL, 0, attrs, 3);
}

cv_val cv_extents(cv_graph *graph, const cv_expr *exprs, uint32_t n) {
  cv_attr attr = attr_exprs(CV_ATTR_EXPRS, exprs, (int)n);
  return cv_build(graph, CV_OP_extents, NULL, 0, &attr, 1);
}

cv_val cv_reduce(cv_graph *graph, cv_val x, const char *kind, uint32_t axes, bool keep) {
  if (!usable(graph, x)) return CV_POISON;
  const cv_type type = *cv_type_of(graph, x);
  int64_t list[CV_MAX_RANK];
  cv_expr kept[CV_MAX_RANK];
  int n = 0;
  if (axes == 0) return x;
  if (axes >> type.rank != 0) {
    return cv_graph_fail(graph, CV_INVALID, "node \"%s\": %s has no axis %d to reduce",
                         graph->source, cv_type_text(graph, &type), 31 - __builtin_clz(axes));
  }
  for (int i = 0; i < type.rank; i++) {
    bool reduced = (axes >> i & 1) != 0;
    if (reduced) list[n++] = i;
    kept[i] = reduced ? cv_expr_const(graph->exprs, 1) : type.dims[i];
  }
  cv_attr attrs[] = {attr_text(CV_ATTR_KIND, kind), attr_ints(CV_ATTR_AXES, list, n)};
  cv_val y = cv_build(graph, CV_OP_reduce, &x, 1, attrs, 2);
  return keep && y != CV_POISON ? cv_reshape(graph, y, kept, type.rank) : y;
}

/* ---- CONTRACT, WINDOW ---- */

cv_val cv_matmul(cv_graph *graph, cv_val a, cv_val b, cv_dtype to) {
  if (!usable(graph, a) || !usable(graph, b)) return CV_POISON;
  cv_attr attr = attr_dtype(CV_ATTR_TO, to);
  return cv_build(graph, CV_OP_matmul, (cv_val[]){a, b}, 2, &attr, 1);
}

cv_val cv_conv(cv_graph *graph, cv_val x, cv_val w, const cv_window_attrs *attrs, cv_dtype to) {
  if (!usable(graph, x) || !usable(graph, w)) return CV_POISON;
  int n = attrs->spatial;
  cv_attr list[] = {attr_ints(CV_ATTR_STRIDES, attrs->strides, n),
                    attr_ints(CV_ATTR_DILATIONS, attrs->dilations, n),
                    attr_ints(CV_ATTR_LHS_DILATION, attrs->lhs_dilation, n),
                    attr_exprs(CV_ATTR_LO, attrs->lo, n),
                    attr_exprs(CV_ATTR_HI, attrs->hi, n),
                    attr_int(CV_ATTR_GROUPS, attrs->groups),
                    attr_dtype(CV_ATTR_TO, to)};
  return cv_build(graph, CV_OP_conv, (cv_val[]){x, w}, 2, list, 7);
}

cv_val cv_window(cv_graph *graph, cv_val x, const char *kind, const cv_window_attrs *attrs) {
  if (!usable(graph, x)) return CV_POISON;
  int n = attrs->spatial;
  cv_attr list[] = {attr_text(CV_ATTR_KIND, kind),
                    attr_ints(CV_ATTR_KERNEL, attrs->kernel, n),
                    attr_ints(CV_ATTR_STRIDES, attrs->strides, n),
                    attr_ints(CV_ATTR_DILATIONS, attrs->dilations, n),
                    attr_exprs(CV_ATTR_LO, attrs->lo, n),
                    attr_exprs(CV_ATTR_HI, attrs->hi, n)};
  return cv_build(graph, CV_OP_window, &x, 1, list, 6);
}
