/* Convolutions. */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/quant.h"
#include "compiler/onnx/table.h"
#include "compiler/onnx/window.h"

/* Kernel extents from the weights' dims, which must be constant: false if not. */
static bool kernel_of(cv_on *n, cv_val x, cv_val w, int64_t *out_kernel) {
  cv_graph *g = n->g;
  int rank = cv_rank(g, w);
  if (!cv_ok(g)) return false;
  if (rank < 3 || rank != cv_rank(g, x)) {
    cv_on_fail(n, CV_INVALID, "weights of %d dims for an input of %d", rank, cv_rank(g, x));
    return false;
  }
  for (int i = 2; i < rank; i++) {
    if (!cv_dim_known(g, w, i, &out_kernel[i - 2])) {
      cv_on_fail(n, CV_UNSUPPORTED, "the kernel's extents must be constants");
      return false;
    }
  }
  return true;
}

static cv_val add_bias(cv_graph *g, cv_val y, cv_val bias) {
  return bias == CV_ABSENT ? y : cv_add(g, y, cv_along(g, bias, 1, cv_rank(g, y)));
}

/* x with as many channels as the weights take, where shape arithmetic hides how many it has. */
static cv_val with_channels(cv_graph *g, cv_val x, cv_val w, int64_t groups) {
  int64_t known;
  cv_expr dims[CV_MAX_RANK];
  if (cv_dim_known(g, x, 1, &known)) return x;
  memcpy(dims, cv_dims_of(g, x), (size_t)cv_rank(g, x) * sizeof *dims);
  dims[1] = e_mul_i(g, cv_dim(g, w, 1), groups);
  return cv_assume_dims(g, x, dims, cv_rank(g, x));
}

static cv_val convolve(cv_on *n, cv_val x, cv_val w, cv_dtype to) {
  int64_t kernel[CV_MAX_RANK];
  cv_on_window window;
  if (!kernel_of(n, x, w, kernel) || !cv_on_read_window(n, x, kernel, &window)) return CV_POISON;
  window.attrs.groups = cv_on_int(n, "group", 1);
  x = with_channels(n->g, x, w, window.attrs.groups);
  return cv_conv(n->g, x, w, &window.attrs, to);
}

void cv_import_conv(cv_on *n) {
  cv_val x = cv_on_in(n, 0);
  cv_val y = convolve(n, x, cv_on_in(n, 1), cv_dt(n->g, x));
  cv_on_set(n, 0, add_bias(n->g, y, cv_on_in(n, 2)));
}

/* Integers with their zero point taken off; 8 bits stay 8 bits where it is none. */
static cv_val centred(cv_graph *g, cv_val x, cv_val zero, int axis) {
  uint64_t count;
  const int64_t *values = zero == CV_ABSENT ? NULL : cv_graph_ints(g, zero, &count);
  bool none = zero == CV_ABSENT;
  if (values) {
    none = true;
    for (uint64_t i = 0; i < count; i++) none = none && values[i] == 0;
  }
  if (none) return x;
  if (cv_rank(g, zero) == 1) zero = cv_along(g, zero, axis, cv_rank(g, x));
  return cv_sub(g, cv_cast(g, x, CV_I32), cv_cast(g, zero, CV_I32));
}

/* A product in i32 of two integer tensors, both 8-bit or both i32. */
static cv_val convolve_integers(cv_on *n, cv_val x, cv_val zx, cv_val w, cv_val zw) {
  cv_graph *g = n->g;
  x = centred(g, x, cv_rank(g, zx) == 1 ? cv_as_scalar(g, zx) : zx, 0);
  w = centred(g, w, zw, 0);
  if (cv_dt(g, x) != cv_dt(g, w)) {
    x = cv_cast(g, x, CV_I32);
    w = cv_cast(g, w, CV_I32);
  }
  return convolve(n, x, w, CV_I32);
}

void cv_import_conv_integer(cv_on *n) {
  cv_on_set(n, 0,
            convolve_integers(n, cv_on_in(n, 0), cv_on_in(n, 2), cv_on_in(n, 1), cv_on_in(n, 3)));
}

/* (x, sx, zx, w, sw, zw, sy, zy, bias i32) */
void cv_import_qlinear_conv(cv_on *n) {
  cv_graph *g = n->g;
  cv_val sum = convolve_integers(n, cv_on_in(n, 0), cv_on_in(n, 2), cv_on_in(n, 3), cv_on_in(n, 5));
  sum = add_bias(g, sum, cv_on_in(n, 8));
  cv_val scale = cv_mul(g, cv_on_in(n, 1), cv_on_in(n, 4));
  scale = cv_div(g, scale, cv_on_in(n, 6));
  if (cv_rank(g, scale) == 1) scale = cv_along(g, scale, 1, cv_rank(g, sum));
  cv_val y = cv_mul(g, cv_cast(g, sum, CV_F32), scale);
  cv_on_set(n, 0, cv_saturate(g, y, cv_on_in(n, 7), cv_dt(g, cv_on_in(n, 7))));
}

/* Weights [c, m/g, k..] of a transposed convolution as those of the plain one: [m, c/g, k..], each
 * kernel turned round. */
static cv_val turned(cv_on *n, cv_val w, int64_t groups) {
  cv_graph *g = n->g;
  int rank = cv_rank(g, w);
  cv_expr dims[CV_MAX_RANK + 1];
  int64_t perm[CV_MAX_RANK + 1];
  for (int i = 2; i < rank; i++) w = cv_flip(g, w, i);
  if (groups == 1) return cv_swap(g, w, 0, 1);
  if (rank == CV_MAX_RANK || groups < 1) return cv_on_fail(n, CV_UNSUPPORTED, "too many dims");
  dims[0] = e_const(g, groups);
  dims[1] = e_div(g, cv_dim(g, w, 0), dims[0]);
  for (int i = 1; i < rank; i++) dims[i + 1] = cv_dim(g, w, i);
  for (int i = 0; i <= rank; i++) perm[i] = i == 1 ? 2 : i == 2 ? 1 : i;
  w = cv_transpose(g, cv_reshape(g, w, dims, rank + 1), perm);
  cv_expr c = dims[1];
  dims[0] = e_mul(g, dims[0], dims[2]);
  dims[1] = c;
  for (int i = 3; i <= rank; i++) dims[i - 1] = dims[i];
  return cv_reshape(g, w, dims, rank);
}

/* Pads of the plain convolution from those of the transposed one; a negative one becomes a slice of
 * the result. */
typedef struct {
  cv_expr cut_lo[CV_MAX_RANK], cut_hi[CV_MAX_RANK];
  bool cuts;
} trim;

static void turn_pads(cv_on *n, cv_val x, cv_on_window *w, trim *t) {
  cv_graph *g = n->g;
  uint32_t have_shape, have_extra;
  const int64_t *shape = cv_on_ints(n, "output_shape", &have_shape);
  const int64_t *extra = cv_on_ints(n, "output_padding", &have_extra);
  const char *mode = cv_on_text(n, "auto_pad", "NOTSET");
  int spatial = w->attrs.spatial;
  *t = (trim){0};
  if ((shape && have_shape < (uint32_t)spatial) || (extra && have_extra != (uint32_t)spatial)) {
    cv_on_fail(n, CV_INVALID, "output_shape or output_padding has too few entries");
    return;
  }
  for (int i = 0; i < spatial; i++) {
    int64_t stride = w->attrs.strides[i], span = (w->attrs.kernel[i] - 1) * w->attrs.dilations[i];
    cv_expr more = e_const(g, extra ? extra[i] : 0), in = cv_dim(g, x, 2 + i);
    cv_expr lo = w->attrs.lo[i], hi = w->attrs.hi[i];
    if (shape || cv_starts_with(mode, "SAME")) {
      cv_expr want = shape ? e_const(g, shape[have_shape - (uint32_t)spatial + (uint32_t)i])
                           : e_mul_i(g, in, stride);
      cv_expr full = e_add_i(g, e_add(g, e_mul_i(g, e_add_i(g, in, -1), stride), more), span + 1);
      cv_expr total = e_sub(g, full, want), half = e_div(g, total, e_const(g, 2));
      lo = strcmp(mode, "SAME_UPPER") == 0 ? half : e_sub(g, total, half);
      hi = e_sub(g, total, lo);
    }
    cv_expr nil = e_const(g, 0), plus_lo = e_sub(g, e_const(g, span), lo);
    cv_expr plus_hi = e_add(g, e_sub(g, e_const(g, span), hi), more);
    w->attrs.lo[i] = e_max(g, plus_lo, nil);
    w->attrs.hi[i] = e_max(g, plus_hi, nil);
    t->cut_lo[i] = e_sub(g, w->attrs.lo[i], plus_lo);
    t->cut_hi[i] = e_sub(g, w->attrs.hi[i], plus_hi);
    t->cuts = t->cuts || !e_is(g, t->cut_lo[i], 0) || !e_is(g, t->cut_hi[i], 0);
    w->attrs.lhs_dilation[i] = stride;
    w->attrs.strides[i] = 1;
  }
}

void cv_import_conv_transpose(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), w = cv_on_in(n, 1);
  int64_t kernel[CV_MAX_RANK], groups = cv_on_int(n, "group", 1);
  cv_on_window window;
  trim t;
  if (!kernel_of(n, x, w, kernel) || !cv_on_read_window(n, x, kernel, &window)) return;
  turn_pads(n, x, &window, &t);
  window.attrs.groups = groups;
  w = turned(n, w, groups);
  cv_val y = cv_conv(g, with_channels(g, x, w, groups), w, &window.attrs, cv_dt(g, x));
  for (int i = 0; t.cuts && i < window.attrs.spatial; i++) {
    cv_expr extent = e_sub(g, e_sub(g, cv_dim(g, y, 2 + i), t.cut_lo[i]), t.cut_hi[i]);
    y = cv_slice_axis(g, y, 2 + i, t.cut_lo[i], extent, 1);
  }
  cv_on_set(n, 0, add_bias(g, y, cv_on_in(n, 2)));
}
