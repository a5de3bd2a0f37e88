/* The interpreter's matmul, convolution and windows. Floats accumulate in double and are rounded
 * once; integers accumulate in int64 and wrap to the accumulator's width. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/interp_internal.h"
#include "runtime/half.h"

/* An operand or an accumulator in its working type. */
typedef union {
  double f;
  int64_t i;
} number;

static number *numbers_of(const cv_tensor *x) {
  int64_t n = interp_count(x);
  number *out = cv_alloc_or_die((size_t)n + 1, sizeof *out);
  for (int64_t i = 0; i < n; i++) {
    if (cv_dtype_is_float(x->dtype)) {
      out[i].f = cv_element_to_double(x->dtype, interp_at(x, i));
    } else {
      out[i].i = cv_element_to_int(x->dtype, interp_at(x, i));
    }
  }
  return out;
}

/* acc[k] += w * x[k] */
static void add_scaled(bool is_float, number *acc, number w, const number *x, int64_t n) {
  for (int64_t k = 0; k < n; k++) {
    if (is_float) {
      acc[k].f += w.f * x[k].f;
    } else {
      acc[k].i = wrap_add(acc[k].i, wrap_mul(w.i, x[k].i));
    }
  }
}

/* Accumulators to elements of y: 8-bit operands accumulate in i32, others in their own type. */
static void store(const cv_tensor *y, int64_t first, cv_dtype from, const number *acc, int64_t n) {
  cv_dtype width = cv_dtype_size(from) == 1 ? CV_I32 : from;
  for (int64_t i = 0; i < n; i++) {
    void *out = interp_out(y, first + i);
    if (cv_dtype_is_float(from)) {
      cv_element_from_double(y->dtype, acc[i].f, out);
    } else {
      unsigned char wrapped[8];
      cv_element_from_int(width, acc[i].i, wrapped);
      cv_element_from_int(y->dtype, cv_element_to_int(width, wrapped), out);
    }
  }
}

static void matmul(const interp_call *call) {
  const cv_tensor *a = &call->ins[0], *b = &call->ins[1], *y = &call->outs[0];
  int64_t m = y->dims[y->rank - 2], n = y->dims[y->rank - 1], k = a->dims[a->rank - 1];
  bool is_float = cv_dtype_is_float(a->dtype);
  int64_t rows = n > 0 ? interp_count(y) / n : 0;
  number *x = numbers_of(a), *w = numbers_of(b);
  number *acc = cv_alloc_or_die((size_t)n + 1, sizeof *acc);
  for (int64_t r = 0; r < rows; r++) {
    const number *w_batch = w + r / m * k * n;
    memset(acc, 0, (size_t)n * sizeof *acc);
    for (int64_t c = 0; c < k; c++) add_scaled(is_float, acc, x[r * k + c], w_batch + c * n, n);
    store(y, r * n, a->dtype, acc, n);
  }
  cv_free(x);
  cv_free(w);
  cv_free(acc);
}

/* ---- windows ---- */

/* The spatial part of a convolution or window, evaluated. */
typedef struct {
  int rank;
  int64_t in[CV_MAX_RANK], out[CV_MAX_RANK], kernel[CV_MAX_RANK], in_strides[CV_MAX_RANK];
  int64_t stride[CV_MAX_RANK], dilation[CV_MAX_RANK], gap[CV_MAX_RANK], lo[CV_MAX_RANK];
  int64_t in_count, out_count, kernel_count;
} space;

static cv_status space_of(const interp_call *call, const int64_t *kernel, space *s) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  *s = (space){.rank = x->rank - 2, .in_count = 1, .out_count = 1, .kernel_count = 1};
  cv_status status = interp_eval_list(call, CV_ATTR_LO, s->lo);
  if (status != CV_OK) return status;
  const cv_attr *gap = cv_node_attr(call->node, CV_ATTR_LHS_DILATION);
  for (int i = 0; i < s->rank; i++) {
    if (s->lo[i] > (int64_t)1 << 40 || s->lo[i] < -((int64_t)1 << 40)) {
      return interp_fail(call, "dim %d is padded by %lld", i, (long long)s->lo[i]);
    }
    s->in[i] = x->dims[i + 2];
    s->out[i] = y->dims[i + 2];
    s->kernel[i] = kernel[i];
    s->stride[i] = cv_node_attr(call->node, CV_ATTR_STRIDES)->ints[i];
    s->dilation[i] = cv_node_attr(call->node, CV_ATTR_DILATIONS)->ints[i];
    s->gap[i] = gap != NULL ? gap->ints[i] : 1;
    s->in_count *= s->in[i];
    s->out_count *= s->out[i];
    s->kernel_count *= s->kernel[i];
  }
  interp_strides(s->rank, s->in, s->in_strides);
  return CV_OK;
}

/* Position along dim i that output o reads with tap k; false in the padding or between elements. */
static bool tap(const space *s, int i, int64_t o, int64_t k, int64_t *out_at) {
  int64_t at = o * s->stride[i] + k * s->dilation[i] - s->lo[i];
  *out_at = at / s->gap[i];
  return at >= 0 && at % s->gap[i] == 0 && *out_at < s->in[i];
}

/* For each output position in order: offset in x's plane that it reads with the tap `k`, or -1. */
static void tap_offsets(const space *s, const int64_t *k, int64_t *out_offsets) {
  int64_t index[CV_MAX_RANK] = {0};
  for (int64_t o = 0; o < s->out_count; o++, interp_next(s->rank, s->out, index)) {
    int64_t offset = 0;
    bool inside = true;
    for (int i = 0; i < s->rank && inside; i++) {
      int64_t at;
      inside = tap(s, i, index[i], k[i], &at);
      if (inside) offset += at * s->in_strides[i];
    }
    out_offsets[o] = inside ? offset : -1;
  }
}

/* A convolution under way. */
typedef struct {
  space s;
  const cv_tensor *w;
  int64_t groups;
  bool is_float;
  number *x, *weights;
  number *acc;      /* [n, channels out, out_count] */
  int64_t *offsets; /* of the present tap, by output position */
} convolution;

/* sum[k] += weight * plane[offset of k] where the tap does not fall into the padding. */
static void add_plane(const convolution *c, number *sum, number weight, const number *plane) {
  for (int64_t k = 0; k < c->s.out_count; k++) {
    if (c->offsets[k] < 0) continue;
    if (c->is_float) {
      sum[k].f += weight.f * plane[c->offsets[k]].f;
    } else {
      sum[k].i = wrap_add(sum[k].i, wrap_mul(weight.i, plane[c->offsets[k]].i));
    }
  }
}

/* Adds what the tap at `position` contributes to all planes of image n. */
static void conv_tap(const convolution *c, int64_t n, int64_t position) {
  int64_t m = c->w->dims[0], inner = c->w->dims[1], per_group = m / c->groups;
  const number *image = c->x + n * inner * c->groups * c->s.in_count;
  for (int64_t o = 0; o < m; o++) {
    for (int64_t i = 0; i < inner; i++) {
      const number *plane = image + (o / per_group * inner + i) * c->s.in_count;
      number weight = c->weights[(o * inner + i) * c->s.kernel_count + position];
      add_plane(c, c->acc + (n * m + o) * c->s.out_count, weight, plane);
    }
  }
}

static cv_status conv(const interp_call *call) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  convolution c = {.w = &call->ins[1],
                   .groups = cv_node_int(call->node, CV_ATTR_GROUPS),
                   .is_float = cv_dtype_is_float(x->dtype)};
  int64_t index[CV_MAX_RANK] = {0}, count = interp_count(y);
  cv_status status = space_of(call, c.w->dims + 2, &c.s);
  if (status != CV_OK) return status;
  if (c.w->dims[0] % c.groups != 0) {
    return interp_fail(call, "channels out do not divide into groups");
  }
  c.x = numbers_of(x);
  c.weights = numbers_of(c.w);
  c.acc = cv_alloc_or_die((size_t)count + 1, sizeof *c.acc);
  c.offsets = cv_alloc_or_die((size_t)c.s.out_count + 1, sizeof *c.offsets);
  for (int64_t k = 0; k < c.s.kernel_count && count > 0; k++) {
    tap_offsets(&c.s, index, c.offsets);
    for (int64_t n = 0; n < x->dims[0]; n++) conv_tap(&c, n, k);
    interp_next(c.s.rank, c.s.kernel, index);
  }
  store(y, 0, x->dtype, c.acc, count);
  cv_free(c.x);
  cv_free(c.weights);
  cv_free(c.acc);
  cv_free(c.offsets);
  return CV_OK;
}

cv_status interp_contract(const interp_call *call) {
  if (call->node->op == CV_OP_conv) return conv(call);
  matmul(call);
  return CV_OK;
}

/* One output of a window: the sum, and where in the plane its first maximum is (-1: all padding).
 */
typedef struct {
  number sum;
  int64_t position;
} window_result;

static window_result window_at(const cv_tensor *x, const space *s, const int64_t *out,
                               int64_t plane) {
  window_result r = {.position = -1};
  int64_t k[CV_MAX_RANK] = {0};
  do {
    int64_t offset = 0;
    bool inside = true;
    for (int i = 0; i < s->rank && inside; i++) {
      int64_t at;
      inside = tap(s, i, out[i], k[i], &at);
      if (inside) offset += at * s->in_strides[i];
    }
    if (!inside) continue;
    const void *element = interp_at(x, plane + offset);
    if (r.position < 0 || interp_order(x->dtype, element, interp_at(x, plane + r.position)) > 0) {
      r.position = offset;
    }
    if (cv_dtype_is_float(x->dtype)) {
      r.sum.f += cv_element_to_double(x->dtype, element);
    } else {
      r.sum.i = wrap_add(r.sum.i, cv_element_to_int(x->dtype, element));
    }
  } while (interp_next(s->rank, s->kernel, k));
  return r;
}

/* The lowest value of a dtype: what a maximum over padding alone gives. */
static void store_lowest(cv_dtype dtype, void *out) {
  /* Saturates for integers. */
  cv_element_from_double(dtype, -INFINITY, out);
}

cv_status interp_window(const interp_call *call) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  bool arg = call->node->op == CV_OP_window_arg;
  const char *kind = arg ? "max" : cv_node_text(call->node, CV_ATTR_KIND);
  size_t size = cv_dtype_size(y->dtype);
  int64_t index[CV_MAX_RANK] = {0};
  space s;
  cv_status status = space_of(call, cv_node_attr(call->node, CV_ATTR_KERNEL)->ints, &s);
  if (status != CV_OK) return status;
  int64_t n = interp_count(y);
  for (int64_t i = 0; i < n; i++) {
    int64_t plane = i / s.out_count * s.in_count;
    window_result r = window_at(x, &s, index, plane);
    interp_next(s.rank, s.out, index);
    void *out = interp_out(y, i);
    if (arg) {
      cv_element_from_int(CV_I64, r.position < 0 ? 0 : r.position, out);
    } else if (kind[0] == 'm' && r.position < 0) {
      store_lowest(y->dtype, out);
    } else if (kind[0] == 'm') {
      memcpy(out, interp_at(x, plane + r.position), size);
    } else if (cv_dtype_is_float(x->dtype)) {
      cv_element_from_double(y->dtype, r.sum.f, out);
    } else {
      cv_element_from_int(y->dtype, r.sum.i, out);
    }
  }
  return CV_OK;
}
