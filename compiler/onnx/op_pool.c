/* Pooling. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"
#include "compiler/onnx/window.h"

/* Offset of a plane in the whole tensor, for indices: [n, c, 1..] of plane numbers times its size.
 */
static cv_val plane_offsets(cv_graph *g, cv_val x) {
  int rank = cv_rank(g, x);
  cv_expr dims[CV_MAX_RANK], plane = e_count(g, x, 2, rank), count = e_count(g, x, 0, 2);
  for (int i = 0; i < rank; i++) dims[i] = i < 2 ? cv_dim(g, x, i) : e_const(g, 1);
  cv_val number = cv_reshape(g, cv_iota(g, CV_I64, &count, 1, 0), dims, rank);
  return cv_mul(g, number, cv_scalar_of(g, plane, CV_I64));
}

/* Row-major index in a plane to the column-major one of the same place (storage_order 1). */
static cv_val column_major(cv_graph *g, cv_val index, cv_val x) {
  int rank = cv_rank(g, x);
  cv_val rest = index, out = cv_graph_i64(g, 0);
  for (int i = rank - 1; i >= 2; i--) {
    cv_val extent = cv_scalar_of(g, cv_dim(g, x, i), CV_I64);
    cv_val at = cv_binary_bc(g, CV_OP_rem, rest, extent);
    rest = cv_div(g, rest, extent);
    cv_expr stride = e_count(g, x, 2, i);
    out = cv_add(g, out, cv_mul(g, at, cv_scalar_of(g, stride, CV_I64)));
  }
  return out;
}

/* The window op's maximum and its index in the plane. */
static cv_val window_arg(cv_graph *g, cv_val x, const cv_window_attrs *a) {
  uint32_t n = (uint32_t)a->spatial;
  cv_attr attrs[5] = {{.key = CV_ATTR_KERNEL, .count = n, .ints = a->kernel},
                      {.key = CV_ATTR_STRIDES, .count = n, .ints = a->strides},
                      {.key = CV_ATTR_DILATIONS, .count = n, .ints = a->dilations},
                      {.key = CV_ATTR_LO, .count = n, .exprs = a->lo},
                      {.key = CV_ATTR_HI, .count = n, .exprs = a->hi}};
  return cv_build(g, CV_OP_window_arg, &x, 1, attrs, 5);
}

void cv_import_max_pool(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  cv_on_window w;
  if (!cv_on_read_window(n, x, NULL, &w)) return;
  cv_on_set(n, 0, cv_window(g, x, "max", &w.attrs));
  if (!cv_on_wants(n, 1)) return;
  cv_val index = window_arg(g, x, &w.attrs);
  if (cv_on_int(n, "storage_order", 0)) index = column_major(g, index, x);
  cv_on_set(n, 1, cv_add(g, index, plane_offsets(g, x)));
}

/* How many elements each window holds: [1, 1, out..], or a number where all hold the same. */
static cv_val window_counts(cv_on *n, cv_val x, const cv_on_window *w, cv_dtype dtype) {
  cv_graph *g = n->g;
  bool include = cv_on_int(n, "count_include_pad", 0) != 0;
  int rank = cv_rank(g, x);
  cv_expr dims[CV_MAX_RANK];
  if (!w->ceiled && (include || !w->padded)) {
    double count = 1;
    for (int i = 0; i < w->attrs.spatial; i++) count *= (double)w->attrs.kernel[i];
    return cv_graph_scalar(g, dtype, count);
  }
  cv_window_attrs attrs = w->attrs;
  for (int i = 0; i < rank; i++) {
    dims[i] = i < 2 ? e_const(g, 1) : cv_dim(g, x, i);
    if (i < 2 || !include) continue;
    cv_expr pads = e_add(g, attrs.lo[i - 2], e_sub(g, attrs.hi[i - 2], w->extra[i - 2]));
    dims[i] = e_add(g, dims[i], pads);
    attrs.lo[i - 2] = e_const(g, 0);
    attrs.hi[i - 2] = w->extra[i - 2];
  }
  return cv_window(g, cv_full(g, dtype, dims, rank, 1), "sum", &attrs);
}

void cv_import_average_pool(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), wide = cv_widen(g, x);
  cv_on_window w;
  if (!cv_on_read_window(n, x, NULL, &w)) return;
  cv_val y = cv_window(g, wide, "sum", &w.attrs);
  y = cv_div(g, y, window_counts(n, x, &w, cv_dt(g, wide)));
  cv_on_set(n, 0, cv_cast(g, y, cv_dt(g, x)));
}

static cv_val power(cv_graph *g, cv_val x, double p) {
  return p == 2 ? cv_square(g, x) : cv_binary_bc(g, CV_OP_pow, cv_abs(g, x), cv_num(g, x, p));
}

static cv_val root(cv_graph *g, cv_val x, double p) {
  return p == 2 ? cv_sqrt(g, x) : cv_binary_bc(g, CV_OP_pow, x, cv_num(g, x, 1 / p));
}

/* (sum of |x|^p)^(1/p) */
void cv_import_lp_pool(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  double p = (double)cv_on_int(n, "p", 2);
  cv_on_window w;
  if (!cv_on_read_window(n, x, NULL, &w)) return;
  cv_val y = cv_window(g, power(g, cv_widen(g, x), p), "sum", &w.attrs);
  cv_on_set(n, 0, cv_cast(g, root(g, y, p), cv_dt(g, x)));
}

/* Global pools. */
void cv_import_global_pool(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), y;
  uint32_t axes = ((1u << cv_rank(g, x)) - 1) & ~3u;
  double p = (double)cv_on_int(n, "p", 2);
  if (n->row->arg == CV_POOL_AVERAGE) {
    y = cv_mean(g, x, axes, true);
  } else if (n->row->arg == CV_POOL_MAX) {
    y = cv_reduce(g, x, "max", axes, true);
  } else {
    y = cv_cast(g, root(g, cv_reduce(g, power(g, cv_widen(g, x), p), "sum", axes, true), p),
                cv_dt(g, x));
  }
  cv_on_set(n, 0, y);
}

/* Puts each value of x at its flat index in zeros of the unpooled dims. */
void cv_import_max_unpool(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), index = cv_on_in(n, 1);
  cv_on_window w;
  cv_expr dims[CV_MAX_RANK];
  uint32_t count;
  int rank = cv_rank(g, x);
  if (!cv_on_read_window(n, x, NULL, &w)) return;
  for (int i = 0; i < rank; i++) {
    dims[i] = cv_dim(g, x, i);
    if (i < 2) continue;
    cv_expr out = e_mul_i(g, e_add_i(g, dims[i], -1), w.attrs.strides[i - 2]);
    out = e_add_i(g, out, w.attrs.kernel[i - 2]);
    dims[i] = e_sub(g, out, e_add(g, w.attrs.lo[i - 2], w.attrs.hi[i - 2]));
  }
  /* Indices count in these dims; asked-for larger ones are filled up with zeros. */
  cv_expr total = e_const(g, 1), lo[CV_MAX_RANK], hi[CV_MAX_RANK];
  for (int i = 0; i < rank; i++) total = e_mul(g, total, dims[i]);
  cv_val flat = cv_full(g, cv_dt(g, x), &total, 1, 0);
  cv_val places = cv_unsqueeze(g, cv_flatten_all(g, index), 1);
  flat = cv_scatter(g, flat, places, cv_flatten_all(g, x), "set");
  cv_val y = cv_reshape(g, flat, dims, rank);
  if (cv_on_has(n, 2)) {
    const cv_expr *given = cv_on_exprs(n, 2, 0, CV_ONNX_MAX_DIM, &count);
    if (!given || (int)count != rank) return;
    for (int i = 0; i < rank; i++) {
      lo[i] = e_const(g, 0);
      hi[i] = e_max(g, e_sub(g, given[i], dims[i]), lo[i]);
    }
    y = cv_pad(g, y, cv_num(g, y, 0), lo, hi);
  }
  cv_on_set(n, 0, y);
}
