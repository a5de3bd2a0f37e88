/* Slice, in all its forms. */
#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

typedef struct {
  const cv_expr *starts, *ends;
  const int64_t *axes, *steps; /* NULL: 0, 1, ..; all 1 */
  uint32_t count;
} slice_args;

static bool attr_args(cv_on *n, slice_args *a) {
  uint32_t n_ends, n_axes;
  const int64_t *starts = cv_on_ints(n, "starts", &a->count);
  const int64_t *ends = cv_on_ints(n, "ends", &n_ends);
  a->axes = cv_on_ints(n, "axes", &n_axes);
  if (!starts || !ends || n_ends != a->count || (a->axes && n_axes != a->count)) {
    cv_on_fail(n, CV_INVALID, "starts, ends and axes differ in length");
    return false;
  }
  cv_expr *s = cv_arena_array(&n->g->arena, cv_expr, a->count + 1);
  cv_expr *e = cv_arena_array(&n->g->arena, cv_expr, a->count + 1);
  for (uint32_t i = 0; i < a->count; i++) {
    s[i] = e_const(n->g, starts[i]);
    e[i] = e_const(n->g, ends[i]);
  }
  a->starts = s;
  a->ends = e;
  return true;
}

static bool input_args(cv_on *n, slice_args *a) {
  uint32_t n_ends, n_axes, n_steps;
  a->axes = cv_on_known_ints(n, 3, "axes", &n_axes);
  a->steps = cv_on_known_ints(n, 4, "steps", &n_steps);
  a->starts = cv_on_exprs(n, 1, -CV_ONNX_MAX_DIM, CV_ONNX_MAX_DIM, &a->count);
  a->ends = cv_on_exprs(n, 2, -CV_ONNX_MAX_DIM, CV_ONNX_MAX_DIM, &n_ends);
  if (!cv_ok(n->g) || !a->starts || !a->ends) return false;
  if (n_ends != a->count || (a->axes && n_axes != a->count) || (a->steps && n_steps != a->count)) {
    cv_on_fail(n, CV_INVALID, "starts, ends, axes and steps differ in length");
    return false;
  }
  return true;
}

/* Counted from the end if negative, then into [lo, hi]. INT64_MAX and the like stand for an end,
 * and are brought near before anything is added. */
static cv_expr clamped(cv_graph *g, cv_expr at, cv_expr dim, cv_expr lo, cv_expr hi) {
  int64_t value;
  if (cv_expr_is_const(g->exprs, at, &value)) {
    const int64_t far = (int64_t)1 << 40;
    at = e_const(g, value > far ? far : value < -far ? -far : value);
  }
  cv_expr negative = cv_expr_lt(g->exprs, at, e_const(g, 0));
  at = cv_expr_select(g->exprs, negative, e_add(g, at, dim), at);
  return e_min(g, e_max(g, at, lo), hi);
}

static cv_val slice_one(cv_graph *g, cv_val x, int axis, cv_expr start, cv_expr end, int64_t step) {
  cv_expr dim = cv_dim(g, x, axis), nil = e_const(g, 0), extent;
  if (step > 0) {
    start = clamped(g, start, dim, nil, dim);
    end = clamped(g, end, dim, nil, dim);
    extent = e_max(g, e_ceil_div(g, e_sub(g, end, start), step), nil);
  } else {
    cv_expr last = e_add_i(g, dim, -1), minus = e_const(g, -1);
    start = clamped(g, start, dim, nil, last);
    end = clamped(g, end, dim, minus, last);
    extent = e_max(g, e_ceil_div(g, e_sub(g, start, end), -step), nil);
    start = e_max(g, start, nil);
  }
  if (e_is(g, extent, 0)) start = nil;
  return cv_slice_axis(g, x, axis, start, extent, step);
}

void cv_import_slice(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  slice_args a = {0};
  if (!(n->opset < 10 ? attr_args(n, &a) : input_args(n, &a))) return;
  for (uint32_t i = 0; i < a.count && cv_ok(g); i++) {
    int axis = cv_on_axis(n, a.axes ? a.axes[i] : (int64_t)i, cv_rank(g, x));
    int64_t step = a.steps ? a.steps[i] : 1, far = (int64_t)1 << 40;
    if (step == 0) {
      cv_on_fail(n, CV_INVALID, "a step of 0");
      return;
    }
    step = step > far ? far : step < -far ? -far : step;
    x = slice_one(g, x, axis, a.starts[i], a.ends[i], step);
  }
  cv_on_set(n, 0, x);
}
