/* Pad in its modes, and ops made of it. */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

typedef struct {
  cv_expr lo[CV_MAX_RANK], hi[CV_MAX_RANK];
} pads;

static bool read_pads(cv_on *n, int rank, pads *p) {
  cv_graph *g = n->g;
  uint32_t count, n_axes = (uint32_t)rank;
  const int64_t *axes = n->opset >= 18 ? cv_on_known_ints(n, 3, "axes", &n_axes) : NULL;
  const cv_expr *given = NULL;
  const int64_t *list = NULL;
  if (!axes) n_axes = (uint32_t)rank;
  if (n->opset >= 11) {
    given = cv_on_exprs(n, 1, -CV_ONNX_MAX_DIM, CV_ONNX_MAX_DIM, &count);
  } else {
    list = cv_on_ints(n, "pads", &count);
  }
  if (!cv_ok(g) || (!given && !list)) return false;
  if (count != 2 * n_axes) {
    cv_on_fail(n, CV_INVALID, "%u pads for %u axes", count, n_axes);
    return false;
  }
  for (int i = 0; i < rank; i++) p->lo[i] = p->hi[i] = e_const(g, 0);
  for (uint32_t i = 0; i < n_axes; i++) {
    int axis = axes ? cv_on_axis(n, axes[i], rank) : (int)i;
    p->lo[axis] = given ? given[i] : e_const(g, list[i]);
    p->hi[axis] = given ? given[i + n_axes] : e_const(g, list[i + n_axes]);
  }
  return true;
}

/* Negative pads cut: they come first, and are 0 then. */
static cv_val cut(cv_graph *g, cv_val x, pads *p) {
  cv_expr nil = e_const(g, 0);
  for (int i = 0; i < cv_rank(g, x); i++) {
    cv_expr lo = e_max(g, e_sub(g, nil, p->lo[i]), nil),
            hi = e_max(g, e_sub(g, nil, p->hi[i]), nil);
    cv_expr extent = e_sub(g, e_sub(g, cv_dim(g, x, i), lo), hi);
    x = cv_slice_axis(g, x, i, lo, extent, 1);
    p->lo[i] = e_max(g, p->lo[i], nil);
    p->hi[i] = e_max(g, p->hi[i], nil);
  }
  return x;
}

/* Where each element of a padded axis comes from: edge clamps, reflect mirrors without the border,
 * wrap goes round. */
static cv_val sources(cv_graph *g, const char *mode, cv_expr dim, cv_expr lo, cv_expr whole) {
  cv_val at = cv_sub(g, cv_index_along(g, whole, 0, 1), cv_scalar_of(g, lo, CV_I64));
  cv_val extent = cv_scalar_of(g, dim, CV_I64), zero = cv_graph_i64(g, 0), one = cv_graph_i64(g, 1);
  if (strcmp(mode, "edge") == 0) {
    return cv_max2(g, cv_min2(g, at, cv_sub(g, extent, one)), zero);
  }
  cv_val period = extent;
  if (strcmp(mode, "reflect") == 0) {
    period = cv_max2(g, cv_mul(g, cv_sub(g, extent, one), cv_graph_i64(g, 2)), one);
  }
  cv_val r = cv_binary_bc(g, CV_OP_rem, at, period);
  r = cv_select(g, cv_lt(g, r, zero), cv_add(g, r, period), r);
  return strcmp(mode, "wrap") == 0 ? r : cv_min2(g, r, cv_sub(g, period, r));
}

static cv_val pad_by_index(cv_on *n, cv_val x, const char *mode, const pads *p) {
  cv_graph *g = n->g;
  for (int i = 0; i < cv_rank(g, x) && cv_ok(g); i++) {
    cv_expr dim = cv_dim(g, x, i), whole = e_add(g, dim, e_add(g, p->lo[i], p->hi[i]));
    if (e_is(g, p->lo[i], 0) && e_is(g, p->hi[i], 0)) continue;
    x = cv_gather(g, x, sources(g, mode, dim, p->lo[i], whole), i);
  }
  return x;
}

void cv_import_pad(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), value;
  const char *mode = cv_on_text(n, "mode", "constant");
  pads p;
  if (!read_pads(n, cv_rank(g, x), &p)) return;
  if (strcmp(mode, "constant") != 0) {
    if (strcmp(mode, "edge") != 0 && strcmp(mode, "reflect") != 0 && strcmp(mode, "wrap") != 0) {
      cv_on_fail(n, CV_UNSUPPORTED, "mode \"%s\"", mode);
      return;
    }
    x = cut(g, x, &p);
    cv_on_set(n, 0, pad_by_index(n, x, mode, &p));
    return;
  }
  if (n->opset < 11) {
    value = cv_num(g, x, cv_on_float(n, "value", 0));
  } else if (cv_on_has(n, 2)) {
    value = cv_as_scalar(g, cv_on_in(n, 2));
  } else {
    value = cv_num(g, x, 0);
  }
  x = cut(g, x, &p);
  cv_on_set(n, 0, cv_pad(g, x, value, p.lo, p.hi));
}

/* Crops or zero-pads the middle to a shape, over given axes. */
void cv_import_center_crop_pad(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  uint32_t n_axes, count;
  int rank = cv_rank(g, x);
  const int64_t *axes = cv_on_ints(n, "axes", &n_axes);
  const cv_expr *shape = cv_on_exprs(n, 1, 0, CV_ONNX_MAX_DIM, &count);
  if (!shape) return;
  if (count != (axes ? n_axes : (uint32_t)rank)) {
    cv_on_fail(n, CV_INVALID, "the shape has %u entries", count);
    return;
  }
  pads p;
  for (int i = 0; i < rank; i++) p.lo[i] = p.hi[i] = e_const(g, 0);
  for (uint32_t i = 0; i < count; i++) {
    int axis = cv_on_axis(n, axes ? axes[i] : (int64_t)i, rank);
    cv_expr more = e_sub(g, shape[i], cv_dim(g, x, axis)), two = e_const(g, 2), nil = e_const(g, 0);
    /* padding: the smaller half first; cropping: the smaller half cut first */
    cv_expr grow = e_max(g, more, nil), shrink = e_max(g, e_sub(g, nil, more), nil);
    p.lo[axis] = e_sub(g, e_div(g, grow, two), e_div(g, shrink, two));
    p.hi[axis] = e_sub(g, more, p.lo[axis]);
  }
  x = cut(g, x, &p);
  cv_on_set(n, 0, cv_pad(g, x, cv_num(g, x, 0), p.lo, p.hi));
}
