#include "compiler/onnx/window.h"

#include <string.h>

#include "compiler/onnx/build.h"

/* A list attribute of `count` entries, `otherwise` where absent. */
static bool read_list(cv_on *n, const char *name, int count, int64_t otherwise, int64_t *out) {
  uint32_t have;
  const int64_t *list = cv_on_ints(n, name, &have);
  for (int i = 0; i < count; i++) out[i] = list && (uint32_t)i < have ? list[i] : otherwise;
  if (list && have != (uint32_t)count) {
    cv_on_fail(n, CV_INVALID, "%s has %u entries, %d are needed", name, have, count);
    return false;
  }
  return true;
}

static bool check(cv_on *n, const cv_on_window *w) {
  for (int i = 0; i < w->attrs.spatial; i++) {
    if (w->attrs.strides[i] < 1 || w->attrs.dilations[i] < 1 || w->attrs.kernel[i] < 1) {
      cv_on_fail(n, CV_INVALID, "strides, dilations and kernel must be at least 1");
      return false;
    }
  }
  return true;
}

/* Elements the kernel spans. */
static int64_t reach(const cv_on_window *w, int i) {
  return (w->attrs.kernel[i] - 1) * w->attrs.dilations[i] + 1;
}

/* SAME: out = ceil(in / stride), what is missing split in halves. */
static void pad_same(cv_on *n, cv_val x, cv_on_window *w, bool upper) {
  cv_graph *g = n->g;
  for (int i = 0; i < w->attrs.spatial; i++) {
    cv_expr in = cv_dim(g, x, 2 + i);
    int64_t stride = w->attrs.strides[i];
    cv_expr out = e_ceil_div(g, in, stride);
    cv_expr need = e_add_i(g, e_mul_i(g, e_add_i(g, out, -1), stride), reach(w, i));
    cv_expr total = e_max(g, e_sub(g, need, in), e_const(g, 0));
    cv_expr half = e_div(g, total, e_const(g, 2));
    w->attrs.lo[i] = upper ? half : e_sub(g, total, half);
    w->attrs.hi[i] = upper ? e_sub(g, total, half) : half;
  }
}

/* ceil_mode: one more window where the last one still begins inside of the input or its left pad.
 */
static void add_ceil(cv_on *n, cv_val x, cv_on_window *w) {
  cv_graph *g = n->g;
  for (int i = 0; i < w->attrs.spatial; i++) {
    cv_expr in = cv_dim(g, x, 2 + i), lo = w->attrs.lo[i], hi = w->attrs.hi[i];
    int64_t stride = w->attrs.strides[i];
    cv_expr room = e_add_i(g, e_add(g, e_add(g, in, lo), hi), -reach(w, i));
    cv_expr last = e_mul_i(g, e_ceil_div(g, room, stride), stride); /* where the last one begins */
    cv_expr inside = cv_expr_lt(g->exprs, last, e_add(g, in, lo));
    cv_expr extra = cv_expr_select(g->exprs, inside, e_sub(g, last, room), e_const(g, 0));
    extra = e_max(g, extra, e_const(g, 0));
    w->extra[i] = extra;
    w->attrs.hi[i] = e_add(g, hi, extra);
    if (!e_is(g, extra, 0)) w->ceiled = true;
  }
}

bool cv_on_read_window(cv_on *n, cv_val x, const int64_t *kernel, cv_on_window *out_window) {
  cv_graph *g = n->g;
  cv_on_window *w = out_window;
  int64_t pads[2 * CV_MAX_RANK];
  *w = (cv_on_window){.attrs.spatial = cv_rank(g, x) - 2, .attrs.groups = 1};
  int spatial = w->attrs.spatial;
  if (spatial < 1) {
    cv_on_fail(n, CV_INVALID, "its input must have at least 3 dims, it has %d", spatial + 2);
    return false;
  }
  for (int i = 0; i < spatial; i++) {
    w->attrs.lhs_dilation[i] = 1;
    w->extra[i] = e_const(g, 0);
    w->attrs.kernel[i] = kernel ? kernel[i] : 1;
  }
  if (!read_list(n, "strides", spatial, 1, w->attrs.strides) ||
      !read_list(n, "dilations", spatial, 1, w->attrs.dilations) ||
      !read_list(n, "pads", 2 * spatial, 0, pads) ||
      (!kernel && !read_list(n, "kernel_shape", spatial, 1, w->attrs.kernel)) || !check(n, w)) {
    return false;
  }
  const char *mode = cv_on_text(n, "auto_pad", "NOTSET");
  bool same = cv_starts_with(mode, "SAME");
  for (int i = 0; i < spatial; i++) {
    bool none = strcmp(mode, "VALID") == 0;
    w->attrs.lo[i] = e_const(g, none ? 0 : pads[i]);
    w->attrs.hi[i] = e_const(g, none ? 0 : pads[spatial + i]);
  }
  if (same) pad_same(n, x, w, strcmp(mode, "SAME_UPPER") == 0);
  for (int i = 0; i < spatial; i++) {
    if (!e_is(g, w->attrs.lo[i], 0) || !e_is(g, w->attrs.hi[i], 0)) w->padded = true;
  }
  if (!same && cv_on_int(n, "ceil_mode", 0)) add_ceil(n, x, w);
  return cv_ok(g);
}
