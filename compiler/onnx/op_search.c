/* Searches: top k, non-zero, compress, unique, non-maximum suppression. */
#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

/* TopK: k is an attribute before opset 10. */
void cv_import_top_k(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int axis = cv_on_axis(n, cv_on_int(n, "axis", -1), cv_rank(g, x));
  cv_expr k = e_const(g, cv_on_int(n, "k", 1));
  uint32_t count = 1;
  if (n->opset >= 10) {
    const cv_expr *given = cv_on_exprs(n, 1, 0, CV_ONNX_MAX_DIM, &count);
    if (!given || count != 1) return;
    k = given[0];
  }
  cv_attr attrs[3] = {{.key = CV_ATTR_AXIS, .i = axis},
                      {.key = CV_ATTR_K, .e = k},
                      {.key = CV_ATTR_LARGEST, .i = cv_on_int(n, "largest", 1) != 0}};
  cv_val y = cv_build(g, CV_OP_topk, &x, 1, attrs, 3);
  cv_on_set(n, 0, y);
  cv_on_set(n, 1, y == CV_POISON ? y : y + 1);
}

/* i64 [rank, count] of the places that are not zero. */
static cv_val nonzero(cv_on *n, cv_val x) {
  cv_graph *g = n->g;
  uint32_t one;
  int64_t lo, hi;
  cv_expr_bounds(g->exprs, e_count(g, x, 0, cv_rank(g, x)), &lo, &hi);
  cv_val count = cv_build(g, CV_OP_nonzero_count, &x, 1, NULL, 0);
  const cv_expr *k = cv_on_exprs_of(n, count, 0, hi < 0 ? 0 : hi, &one);
  if (!k) return CV_POISON;
  cv_attr attr = {.key = CV_ATTR_K, .e = k[0]};
  return cv_build(g, CV_OP_nonzero, &x, 1, &attr, 1);
}

void cv_import_nonzero(cv_on *n) { cv_on_set(n, 0, nonzero(n, cv_on_in(n, 0))); }

/* The slices of an axis (or the elements of the flat tensor) whose condition is true. */
void cv_import_compress(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int axis = 0;
  if (cv_on_attr(n, "axis")) {
    axis = cv_on_axis(n, cv_on_int(n, "axis", 0), cv_rank(g, x));
  } else {
    x = cv_flatten_all(g, x);
  }
  cv_val places = cv_flatten_all(g, nonzero(n, cv_on_in(n, 1)));
  cv_on_set(n, 0, cv_gather(g, x, places, axis));
}

/* Brings the axis first and flattens the rest: [k, rest], as Unique along an axis compares. */
static cv_val rows_of(cv_graph *g, cv_val x, int axis, cv_expr *moved, int64_t *back) {
  int rank = cv_rank(g, x);
  int64_t perm[CV_MAX_RANK];
  perm[0] = axis;
  for (int i = 0, k = 1; i < rank; i++) {
    if (i != axis) perm[k++] = i;
  }
  for (int i = 0; i < rank; i++) back[perm[i]] = i;
  cv_val y = cv_transpose(g, x, perm);
  for (int i = 0; i < rank; i++) moved[i] = cv_dim(g, y, i);
  cv_expr dims[2] = {moved[0], e_count(g, y, 1, rank)};
  return cv_reshape(g, y, dims, 2);
}

/* A key per row, such that equal rows have equal keys and keys order as rows do: the number of rows
 * that come before it. */
static cv_val row_ranks(cv_graph *g, cv_val rows) {
  cv_val a = cv_unsqueeze(g, rows, 1), b = cv_unsqueeze(g, rows, 0);
  cv_val below = cv_lt(g, b, a), differ = cv_not(g, cv_eq(g, a, b));
  /* [i, j, d]: decided by the first place where they differ */
  cv_attr scan[4] = {{.key = CV_ATTR_KIND, .text = "sum"},
                     {.key = CV_ATTR_AXIS, .i = 2},
                     {.key = CV_ATTR_EXCLUSIVE, .i = 1},
                     {.key = CV_ATTR_REVERSE, .i = 0}};
  cv_val count = cv_cast(g, differ, CV_I64);
  cv_val before = cv_build(g, CV_OP_scan, &count, 1, scan, 4);
  cv_val first = cv_and(g, differ, cv_eq(g, before, cv_graph_i64(g, 0)));
  cv_val less = cv_reduce(g, cv_and(g, first, below), "any", 4, false);
  return cv_reduce(g, cv_cast(g, less, CV_I64), "sum", 2, false);
}

/* (unique values, first places, inverse, counts), of the flat tensor or of the slices of an axis.
 */
void cv_import_unique(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), keys;
  bool by_axis = cv_on_attr(n, "axis") != NULL;
  int rank = cv_rank(g, x), axis = by_axis ? cv_on_axis(n, cv_on_int(n, "axis", 0), rank) : 0;
  int64_t back[CV_MAX_RANK];
  cv_expr moved[CV_MAX_RANK];
  uint32_t one;
  if (!cv_ok(g)) return;
  keys = by_axis ? row_ranks(g, rows_of(g, x, axis, moved, back)) : cv_flatten_all(g, x);
  if (!by_axis) x = keys;
  cv_attr attr = {.key = CV_ATTR_SORTED, .i = cv_on_int(n, "sorted", 1) != 0};
  cv_val first = cv_build(g, CV_OP_unique, &keys, 1, &attr, 1);
  if (first == CV_POISON) return;
  int64_t lo, hi;
  cv_expr_bounds(g->exprs, e_count(g, keys, 0, 1), &lo, &hi);
  const cv_expr *count = cv_on_exprs_of(n, first + 3, 0, hi, &one);
  if (!count) return;
  cv_val places = cv_slice_axis(g, first, 0, e_const(g, 0), count[0], 1);
  cv_on_set(n, 0, cv_gather(g, x, places, axis));
  cv_on_set(n, 1, places);
  cv_on_set(n, 2, first + 1);
  cv_on_set(n, 3, cv_slice_axis(g, first + 2, 0, e_const(g, 0), count[0], 1));
}

static cv_val scalar_or(cv_on *n, uint32_t i, cv_dtype dtype, double otherwise) {
  if (!cv_on_has(n, i)) return cv_graph_scalar(n->g, dtype, otherwise);
  return cv_cast(n->g, cv_as_scalar(n->g, cv_on_in(n, i)), dtype);
}

void cv_import_nms(cv_on *n) {
  cv_graph *g = n->g;
  uint32_t one;
  cv_val ins[5] = {cv_on_in(n, 0), cv_on_in(n, 1), scalar_or(n, 2, CV_I64, 0),
                   scalar_or(n, 3, CV_F32, 0), scalar_or(n, 4, CV_F32, -__builtin_inf())};
  cv_attr attr = {.key = CV_ATTR_CENTER, .i = cv_on_int(n, "center_point_box", 0) != 0};
  cv_val all = cv_build(g, CV_OP_nms, ins, 5, &attr, 1);
  if (all == CV_POISON) return;
  int64_t lo, hi;
  cv_expr_bounds(g->exprs, cv_dim(g, all, 0), &lo, &hi);
  const cv_expr *count = cv_on_exprs_of(n, all + 1, 0, hi, &one);
  if (!count) return;
  cv_on_set(n, 0, cv_slice_axis(g, all, 0, e_const(g, 0), count[0], 1));
}
