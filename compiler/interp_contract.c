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

/* Adds what one tap contributes to all planes of one image. `acc` is [channels out, out_count]. */
static void conv_tap(const space *s, const cv_tensor *w, int64_t groups, bool is_float,
                     const number *x, const number *weights, int64_t position,
                     const int64_t *offsets, number *acc) {
  int64_t m = w->dims[0], inner = w->dims[1], per_group = m / groups;
  for (int64_t o = 0; o < m; o++) {
    for (int64_t c = 0; c < inner; c++) {
      const number *plane = x + (o / per_group * inner + c) * s->in_count;
      number weight = weights[(o * inner + c) * s->kernel_count + position];
      number *sum = acc + o * s->out_count;
      for (int64_t k = 0; k < s->out_count; k++) {
        if (offsets[k] < 0) continue;
        if (is_float) {
          sum[k].f += weight.f * plane[offsets[k]].f;
        } else {
          sum[k].i = wrap_add(sum[k].i, wrap_mul(weight.i, plane[offsets[k]].i));
        }
      }
    }
  }
}

static cv_status conv(const interp_call *call) {
  const cv_tensor *x = &call->ins[0], *w = &call->ins[1], *y = &call->outs[0];
  int64_t groups = cv_node_int(call->node, CV_ATTR_GROUPS), index[CV_MAX_RANK] = {0};
  space s;
  cv_status status = space_of(call, w->dims + 2, &s);
  if (status != CV_OK) return status;
  if (w->dims[0] % groups != 0) return interp_fail(call, "channels out do not divide into groups");
  int64_t image = x->dims[1] * s.in_count, result = w->dims[0] * s.out_count;
  number *values = numbers_of(x), *weights = numbers_of(w);
  number *acc = cv_alloc_or_die((size_t)interp_count(y) + 1, sizeof *acc);
  int64_t *offsets = cv_alloc_or_die((size_t)s.out_count + 1, sizeof *offsets);
  for (int64_t k = 0; k < s.kernel_count && result > 0; k++) {
    tap_offsets(&s, index, offsets);
    for (int64_t n = 0; n < x->dims[0]; n++) {
      conv_tap(&s, w, groups, cv_dtype_is_float(x->dtype), values + n * image, weights, k, offsets,
               acc + n * result);
    }
    interp_next(s.rank, s.kernel, index);
  }
  store(y, 0, x->dtype, acc, interp_count(y));
  cv_free(values);
  cv_free(weights);
  cv_free(acc);
  cv_free(offsets);
  return CV_OK;
}

cv_status interp_contract(const interp_call *call) {
  if (call->node->op == CV_OP_conv) return conv(call);
  matmul(call);
  return CV_OK;
}

/* One output of a window: its sum or maximum, and where the first maximum is. */
static void window_at(const interp_call *call, const space *s, const int64_t *out, int64_t plane,
                      const char *kind, number *value, int64_t *position) {
  const cv_tensor *x = &call->ins[0];
  int64_t k[CV_MAX_RANK] = {0};
  bool max = kind[0] == 'm';
  *position = -1;
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
    const void *best = interp_at(x, plane + (*position < 0 ? offset : *position));
    bool first = *position < 0;
    if (first || (max && interp_order(x->dtype, element, best) > 0)) *position = offset;
    if (max) continue;
    if (cv_dtype_is_float(x->dtype)) {
      value->f += cv_element_to_double(x->dtype, element);
    } else {
      value->i = wrap_add(value->i, cv_element_to_int(x->dtype, element));
    }
  } while (interp_next(s->rank, s->kernel, k));
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
    number value = {0};
    int64_t position, plane = i / s.out_count * s.in_count;
    window_at(call, &s, index, plane, kind, &value, &position);
    interp_next(s.rank, s.out, index);
    void *out = interp_out(y, i);
    if (arg) {
      cv_element_from_int(CV_I64, position < 0 ? 0 : position, out);
    } else if (kind[0] == 'm' && position < 0) {
      store_lowest(y->dtype, out);
    } else if (kind[0] == 'm') {
      memcpy(out, interp_at(x, plane + position), size);
    } else if (cv_dtype_is_float(x->dtype)) {
      cv_element_from_double(y->dtype, value.f, out);
    } else {
      cv_element_from_int(y->dtype, value.i, out);
    }
  }
  return CV_OK;
}
