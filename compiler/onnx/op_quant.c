/* Quantisation: per tensor, per axis and in blocks. */
#include "compiler/onnx/build.h"
#include "compiler/onnx/quant.h"
#include "compiler/onnx/table.h"

cv_val cv_saturate(cv_graph *g, cv_val x, cv_val zero, cv_dtype to) {
  static const struct {
    cv_dtype dtype;
    double lo, hi;
  } ranges[] = {{CV_I8, -128, 127}, {CV_U8, 0, 255}, {CV_I16, -32768, 32767}, {CV_U16, 0, 65535}};
  cv_val y = cv_unary(g, CV_OP_round, x);
  if (zero != CV_ABSENT) y = cv_add(g, y, cv_cast(g, zero, cv_dt(g, y)));
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    if (ranges[i].dtype != to) continue;
    y = cv_min2(g, cv_max2(g, y, cv_num(g, y, ranges[i].lo)), cv_num(g, y, ranges[i].hi));
    return cv_cast(g, y, to);
  }
  return cv_graph_fail(g, CV_UNSUPPORTED, "quantised type %s is not supported", cv_dtype_name(to));
}

/* A scale or zero point brought to x's dims as far as it must: a vector along the axis, or blocks
 * of `block` elements of it repeated. */
static cv_val spread(cv_on *n, cv_val v, cv_val x, int axis, int64_t block) {
  cv_graph *g = n->g;
  int rank = cv_rank(g, x);
  if (v == CV_ABSENT || cv_rank(g, v) == 0) return v;
  if (cv_rank(g, v) == 1 && e_is(g, cv_dim(g, v, 0), 1) && rank != 1) return cv_as_scalar(g, v);
  if (cv_rank(g, v) == 1 && block == 0) return cv_along(g, v, axis, rank);
  if (cv_rank(g, v) != rank) {
    return cv_on_fail(n, CV_INVALID, "a scale of %d dims for a tensor of %d", cv_rank(g, v), rank);
  }
  if (block == 0) return v;
  cv_expr dims[CV_MAX_RANK + 1];
  cv_val wide = cv_unsqueeze(g, v, axis + 1);
  for (int i = 0; i <= rank; i++) dims[i] = cv_dim(g, wide, i);
  if (!cv_ok(g)) return CV_POISON;
  dims[axis + 1] = e_const(g, block);
  wide = cv_broadcast_to(g, wide, dims, rank + 1);
  for (int i = 0; i < rank; i++) dims[i] = cv_dim(g, v, i);
  dims[axis] = e_mul_i(g, dims[axis], block);
  wide = cv_reshape(g, wide, dims, rank);
  return cv_slice_axis(g, wide, axis, e_const(g, 0), cv_dim(g, x, axis),
                       1); /* last block: ragged */
}

static int quant_axis(cv_on *n, cv_val x, cv_val scale) {
  int rank = cv_rank(n->g, x);
  if (cv_rank(n->g, scale) == 0 || rank == 0) return 0;
  int64_t axis = cv_on_int(n, "axis", 1);
  if (e_is(n->g, cv_dim(n->g, scale, 0), 1) && axis >= rank) return 0;
  return rank == 1 ? 0 : cv_on_axis(n, axis, rank);
}

void cv_import_quantize(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), scale = cv_on_in(n, 1), zero = cv_on_in(n, 2);
  int axis = quant_axis(n, x, scale);
  int64_t block = cv_on_int(n, "block_size", 0), number = cv_on_int(n, "output_dtype", 0);
  cv_dtype to = CV_U8;
  if (zero != CV_ABSENT) {
    to = cv_dt(g, zero);
  } else if (number && !cv_dtype_from_onnx((int)number, &to)) {
    cv_on_fail(n, CV_UNSUPPORTED, "the quantised type %lld is not supported", (long long)number);
    return;
  }
  cv_val wide = cv_is_float(g, x) ? cv_widen(g, x) : cv_cast(g, x, CV_F32);
  scale = cv_cast(g, spread(n, scale, x, axis, block), cv_dt(g, wide));
  cv_on_set(n, 0, cv_saturate(g, cv_div(g, wide, scale), spread(n, zero, x, axis, block), to));
}

/* (x - zero) scale in the scale's dtype. */
void cv_import_dequantize(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), scale = cv_on_in(n, 1), zero = cv_on_in(n, 2);
  int axis = quant_axis(n, x, scale);
  int64_t block = cv_on_int(n, "block_size", 0), number = cv_on_int(n, "output_dtype", 0);
  cv_dtype to = cv_dt(g, scale);
  if (number && !cv_dtype_from_onnx((int)number, &to)) {
    cv_on_fail(n, CV_UNSUPPORTED, "the element type %lld is not supported", (long long)number);
    return;
  }
  cv_val y = cv_cast(g, x, CV_I32);
  if (zero != CV_ABSENT) {
    y = cv_sub(g, y, cv_cast(g, spread(n, zero, x, axis, block), CV_I32));
  }
  cv_val wide = cv_widen(g, spread(n, scale, x, axis, block));
  cv_on_set(n, 0, cv_cast(g, cv_mul(g, cv_cast(g, y, cv_dt(g, wide)), wide), to));
}

/* uint8 over the range of x, which is made to hold 0. */
void cv_import_dynamic_quantize(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), nil = cv_num(g, x, 0);
  uint32_t all = (1u << cv_rank(g, x)) - 1;
  cv_val lo = cv_min2(g, cv_reduce(g, x, "min", all, false), nil);
  cv_val hi = cv_max2(g, cv_reduce(g, x, "max", all, false), nil);
  cv_val scale = cv_div(g, cv_sub(g, hi, lo), cv_num(g, x, 255));
  cv_val flat = cv_eq(g, scale, nil);
  cv_val safe = cv_select(g, flat, cv_num(g, x, 1), scale);
  cv_val zero = cv_saturate(g, cv_div(g, cv_neg(g, lo), safe), CV_ABSENT, CV_U8);
  cv_on_set(n, 0, cv_saturate(g, cv_div(g, x, safe), zero, CV_U8));
  cv_on_set(n, 1, scale);
  cv_on_set(n, 2, zero);
}
