/* Normalisations. */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

/* (x - mean) / sqrt(var + eps) over axes; the statistics in x's dtype, which is wide. */
typedef struct {
  cv_val y, mean, inverse;
} normalised;

static normalised normalise(cv_graph *g, cv_val x, uint32_t axes, double eps) {
  normalised r;
  r.mean = cv_mean(g, x, axes, true);
  cv_val d = cv_sub(g, x, r.mean);
  cv_val var = cv_mean(g, cv_square(g, d), axes, true);
  r.inverse = cv_div(g, cv_num(g, x, 1), cv_sqrt(g, cv_add_num(g, var, eps)));
  r.y = cv_mul(g, d, r.inverse);
  return r;
}

/* Axes from `axis` to the last. */
static uint32_t axes_from(cv_on *n, int64_t axis, int rank) {
  int first = cv_on_axis(n, axis, rank);
  return ((1u << rank) - 1) & ~((1u << first) - 1);
}

/* The dtype statistics are kept in: stash_type, at least f32. */
static cv_val stash(cv_on *n, cv_val x) {
  cv_dtype to = CV_F32;
  if (!cv_dtype_from_onnx((int)cv_on_int(n, "stash_type", 1), &to) || to == CV_F16 ||
      to == CV_BF16 || cv_dt(n->g, x) == CV_F64) {
    return cv_widen(n->g, x);
  }
  return cv_cast(n->g, x, to);
}

/* Times scale, plus bias, in x's dtype as the operator says. */
static cv_val affine(cv_graph *g, cv_val y, cv_val scale, cv_val bias) {
  if (scale != CV_ABSENT) y = cv_mul(g, y, cv_cast(g, scale, cv_dt(g, y)));
  return bias == CV_ABSENT ? y : cv_add(g, y, cv_cast(g, bias, cv_dt(g, y)));
}

void cv_import_layer_norm(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), wide = stash(n, x);
  uint32_t axes = axes_from(n, cv_on_int(n, "axis", -1), cv_rank(g, x));
  normalised r = normalise(g, wide, axes, cv_on_float(n, "epsilon", 1e-5));
  cv_val y = affine(g, r.y, cv_on_in(n, 1), cv_on_in(n, 2));
  cv_on_set(n, 0, cv_cast(g, y, cv_dt(g, x)));
  cv_on_set(n, 1, r.mean);
  cv_on_set(n, 2, r.inverse);
}

void cv_import_rms_norm(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), wide = stash(n, x);
  uint32_t axes = axes_from(n, cv_on_int(n, "axis", -1), cv_rank(g, x));
  cv_val mean = cv_mean(g, cv_square(g, wide), axes, true);
  cv_val y = cv_div(g, wide, cv_sqrt(g, cv_add_num(g, mean, cv_on_float(n, "epsilon", 1e-5))));
  y = affine(g, y, cv_on_in(n, 1), CV_ABSENT);
  cv_on_set(n, 0, cv_cast(g, y, cv_dt(g, cv_on_has(n, 1) ? cv_on_in(n, 1) : x)));
}

/* Over the spatial axes; scale and bias per channel. */
void cv_import_instance_norm(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), wide = cv_widen(g, x);
  int rank = cv_rank(g, x);
  uint32_t axes = ((1u << rank) - 1) & ~3u;
  normalised r = normalise(g, wide, axes, cv_on_float(n, "epsilon", 1e-5));
  cv_val y =
      affine(g, r.y, cv_along(g, cv_on_in(n, 1), 1, rank), cv_along(g, cv_on_in(n, 2), 1, rank));
  cv_on_set(n, 0, cv_cast(g, y, cv_dt(g, x)));
}

/* Channels in groups, [n, groups, rest]; scale and bias per group before opset 21, then per
 * channel. */
void cv_import_group_norm(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), wide = cv_widen(g, x), scale = cv_on_in(n, 1), bias = cv_on_in(n, 2);
  int64_t groups = cv_on_int(n, "num_groups", 1);
  int rank = cv_rank(g, x);
  if (groups < 1 || rank < 2) {
    cv_on_fail(n, CV_INVALID, "num_groups is %lld, x has %d dims", (long long)groups, rank);
    return;
  }
  cv_expr count = e_count(g, x, 1, rank), group = e_const(g, groups);
  cv_expr dims[3] = {cv_dim(g, x, 0), group, e_div(g, count, group)};
  cv_val y = normalise(g, cv_reshape(g, wide, dims, 3), 4, cv_on_float(n, "epsilon", 1e-5)).y;
  if (n->opset < 21) {
    y = affine(g, y, cv_along(g, scale, 1, 3), cv_along(g, bias, 1, 3));
    y = cv_reshape(g, y, cv_dims_of(g, x), rank);
  } else {
    y = cv_reshape(g, y, cv_dims_of(g, x), rank);
    y = affine(g, y, cv_along(g, scale, 1, rank), cv_along(g, bias, 1, rank));
  }
  cv_on_set(n, 0, cv_cast(g, y, cv_dt(g, x)));
}

/* Inference: one multiply and one add per channel, made from constants where the statistics are. */
static void batch_inference(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), wide = cv_widen(g, x);
  cv_dtype dtype = cv_dt(g, wide);
  cv_val scale = cv_cast(g, cv_on_in(n, 1), dtype), bias = cv_cast(g, cv_on_in(n, 2), dtype);
  cv_val mean = cv_cast(g, cv_on_in(n, 3), dtype), var = cv_cast(g, cv_on_in(n, 4), dtype);
  int rank = cv_rank(g, x);
  cv_val deviation = cv_sqrt(g, cv_add_num(g, var, cv_on_float(n, "epsilon", 1e-5)));
  cv_val factor = cv_div(g, scale, deviation);
  cv_val offset = cv_sub(g, bias, cv_mul(g, mean, factor));
  cv_val y = cv_mul(g, wide, cv_along(g, factor, 1, rank));
  y = cv_add(g, y, cv_along(g, offset, 1, rank));
  cv_on_set(n, 0, cv_cast(g, y, cv_dt(g, x)));
}

/* training_mode: statistics of the batch, and running ones out. */
static void batch_training(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), wide = cv_widen(g, x);
  double momentum = cv_on_float(n, "momentum", 0.9), eps = cv_on_float(n, "epsilon", 1e-5);
  int rank = cv_rank(g, x);
  uint32_t axes = ((1u << rank) - 1) & ~2u;
  normalised r = normalise(g, wide, axes, eps);
  cv_val y =
      affine(g, r.y, cv_along(g, cv_on_in(n, 1), 1, rank), cv_along(g, cv_on_in(n, 2), 1, rank));
  cv_on_set(n, 0, cv_cast(g, y, cv_dt(g, x)));
  cv_val var = cv_mean(g, cv_square(g, cv_sub(g, wide, r.mean)), axes, false);
  cv_val now[2] = {cv_squeeze(g, r.mean, axes), var};
  for (uint32_t i = 0; i < 2; i++) {
    cv_val old = cv_on_in(n, 3 + i);
    cv_val kept = cv_mul_num(g, cv_cast(g, old, cv_dt(g, wide)), momentum);
    cv_val next = cv_add(g, kept, cv_mul_num(g, now[i], 1 - momentum));
    cv_on_set(n, 1 + i, cv_cast(g, next, cv_dt(g, old)));
  }
}

void cv_import_batch_norm(cv_on *n) {
  if (cv_rank(n->g, cv_on_in(n, 0)) < 2 && cv_ok(n->g)) {
    cv_on_fail(n, CV_INVALID, "its input must have at least 2 dims");
  } else if (cv_on_int(n, "training_mode", 0)) {
    batch_training(n);
  } else {
    batch_inference(n);
  }
}

/* x / (bias + alpha / size * sum of squares over `size` channels around)^beta */
void cv_import_lrn(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int64_t size = cv_on_int(n, "size", 1);
  double alpha = cv_on_float(n, "alpha", 1e-4), beta = cv_on_float(n, "beta", 0.75);
  int rank = cv_rank(g, x);
  if (rank < 2 || size < 1) {
    cv_on_fail(n, CV_INVALID, "size is %lld, x has %d dims", (long long)size, rank);
    return;
  }
  cv_expr dims[4] = {cv_dim(g, x, 0), e_const(g, 1), cv_dim(g, x, 1), e_count(g, x, 2, rank)};
  cv_window_attrs attrs = {.spatial = 2,
                           .strides = {1, 1},
                           .dilations = {1, 1},
                           .lhs_dilation = {1, 1},
                           .kernel = {size, 1},
                           .groups = 1};
  attrs.lo[0] = e_const(g, (size - 1) / 2);
  attrs.hi[0] = e_const(g, size - 1 - (size - 1) / 2);
  attrs.lo[1] = attrs.hi[1] = e_const(g, 0);
  cv_val sums = cv_window(g, cv_reshape(g, cv_square(g, x), dims, 4), "sum", &attrs);
  sums = cv_reshape(g, sums, cv_dims_of(g, x), rank);
  cv_val base = cv_add_num(g, cv_mul_num(g, sums, alpha / (double)size), cv_on_float(n, "bias", 1));
  cv_on_set(n, 0, cv_div(g, x, cv_binary_bc(g, CV_OP_pow, base, cv_num(g, x, beta))));
}

void cv_import_lp_norm(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), norm;
  uint32_t axes = 1u << cv_on_axis(n, cv_on_int(n, "axis", -1), cv_rank(g, x));
  if (cv_on_int(n, "p", 2) == 1) {
    norm = cv_reduce(g, cv_abs(g, x), "sum", axes, true);
  } else {
    norm = cv_sqrt(g, cv_reduce(g, cv_square(g, x), "sum", axes, true));
  }
  cv_val zero = cv_num(g, x, 0), none = cv_eq(g, norm, zero);
  cv_val y = cv_div(g, x, cv_select(g, none, cv_num(g, x, 1), norm));
  cv_on_set(n, 0, y);
}

/* (x - mean) / (sqrt(mean of squares of the difference) + 1e-9), over given axes. */
void cv_import_mean_variance_norm(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  uint32_t count, axes = 0;
  const int64_t *given = cv_on_ints(n, "axes", &count);
  for (uint32_t i = 0; given && i < count; i++) {
    axes |= 1u << cv_on_axis(n, given[i], cv_rank(g, x));
  }
  if (!given) axes = 1u | 4u | 8u;
  cv_val d = cv_sub(g, x, cv_mean(g, x, axes, true));
  cv_val deviation = cv_sqrt(g, cv_mean(g, cv_square(g, d), axes, true));
  cv_on_set(n, 0, cv_div(g, d, cv_add_num(g, deviation, 1e-9)));
}

/* The mask is all true outside of training; with a ratio of 0 also inside. */
void cv_import_dropout(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  bool training = n->opset >= 12 && cv_on_known_int(n, 2, "training_mode", 0) != 0;
  uint32_t count;
  const double *ratio =
      training && cv_on_has(n, 1) ? cv_on_known_doubles(n, 1, "ratio", &count) : NULL;
  if (training && (!ratio || count != 1 || ratio[0] != 0)) {
    cv_on_fail(n, CV_UNSUPPORTED, "training_mode: a model is run for inference only");
    return;
  }
  cv_on_set(n, 0, x);
  if (!cv_on_wants(n, 1)) return;
  cv_dtype mask = n->opset < 10 ? cv_dt(g, x) : CV_BOOL;
  cv_on_set(n, 1, cv_full(g, mask, cv_dims_of(g, x), cv_rank(g, x), 1));
}
