/* Resize and Upsample: axis by axis, as a gather of one or several neighbours with weights. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

typedef enum { NEAREST, LINEAR, CUBIC } resize_mode;
enum { MAX_SCALE = 1 << 20 };

typedef struct {
  cv_on *n;
  resize_mode mode;
  const char *coordinates, *rounding;
  double a, extrapolation; /* of the cubic; outside of a crop */
  bool exclude_outside, antialias, crop;
} resizer;

/* One axis. The scale is out / in as the model gives it, as a number where it is known. */
typedef struct {
  int axis;
  cv_expr in, out;
  bool known;
  double number;
  cv_val scale;              /* f64 scalar */
  cv_val roi_start, roi_end; /* f64 scalars, of a crop */
} resize_axis;

static cv_val f64(cv_graph *g, cv_expr e) { return cv_scalar_of(g, e, CV_F64); }

/* The steps between the first and the last place, of an output that is scale times the input long
 * even where that is no whole number; 1 for a single place. */
static cv_val steps_of(cv_graph *g, const resize_axis *r) {
  cv_val steps = cv_add_num(g, cv_mul(g, r->scale, f64(g, r->in)), -1);
  cv_val single = cv_eq(g, f64(g, r->out), cv_num(g, steps, 1));
  return cv_select(g, single, cv_num(g, steps, 1), steps);
}

/* start (in - 1) + i (end - start)(in - 1) / (out - 1); the middle if there is one place. */
static cv_val crop_places(cv_graph *g, const resize_axis *r, cv_val i) {
  cv_val last = f64(g, e_add_i(g, r->in, -1)), span = cv_sub(g, r->roi_end, r->roi_start);
  cv_val step = cv_div(g, cv_mul(g, span, last), steps_of(g, r));
  cv_val at = cv_add(g, cv_mul(g, r->roi_start, last), cv_mul(g, i, step));
  cv_val middle = cv_mul(g, cv_mul_num(g, cv_add(g, r->roi_start, r->roi_end), 0.5), last);
  return cv_select(g, cv_eq(g, f64(g, r->out), cv_num(g, at, 1)), middle, at);
}

/* Where output i lies on the input's axis: f64 [out]. The names are ONNX's. */
static cv_val places(const resizer *z, const resize_axis *r) {
  cv_graph *g = z->n->g;
  const char *mode = z->coordinates;
  cv_val i = cv_iota(g, CV_F64, &r->out, 1, 0);
  cv_val half = cv_add_num(g, cv_div(g, cv_add_num(g, i, 0.5), r->scale), -0.5);
  if (strcmp(mode, "half_pixel") == 0) return half;
  if (strcmp(mode, "asymmetric") == 0) return cv_div(g, i, r->scale);
  if (strcmp(mode, "tf_half_pixel_for_nn") == 0) return cv_add_num(g, half, 0.5);
  if (strcmp(mode, "tf_crop_and_resize") == 0) return crop_places(g, r, i);
  if (strcmp(mode, "pytorch_half_pixel") == 0) {
    cv_val one = cv_eq(g, f64(g, r->out), cv_num(g, half, 1));
    return cv_select(g, one, cv_num(g, half, 0), half);
  }
  if (strcmp(mode, "half_pixel_symmetric") == 0) {
    cv_val in = f64(g, r->in), exact = cv_mul(g, r->scale, in);
    cv_val adjust = cv_sub(g, cv_num(g, in, 1), cv_div(g, f64(g, r->out), exact));
    return cv_add(g, half, cv_mul(g, cv_mul_num(g, in, 0.5), adjust));
  }
  if (strcmp(mode, "align_corners") == 0) {
    return cv_div(g, cv_mul(g, i, f64(g, e_add_i(g, r->in, -1))), steps_of(g, r));
  }
  return cv_on_fail(z->n, CV_UNSUPPORTED, "coordinate_transformation_mode \"%s\"", mode);
}

/* An f64 position as index into the axis, borders repeated. */
static cv_val index_of(cv_graph *g, cv_val at, cv_expr in) {
  cv_val last = f64(g, e_add_i(g, in, -1));
  return cv_cast(g, cv_max2(g, cv_min2(g, at, last), cv_num(g, at, 0)), CV_I64);
}

static cv_val round_to(const resizer *z, cv_val at) {
  cv_graph *g = z->n->g;
  const char *mode = z->rounding;
  if (strcmp(mode, "floor") == 0) return cv_floor(g, at);
  if (strcmp(mode, "ceil") == 0) return cv_unary(g, CV_OP_ceil, at);
  if (strcmp(mode, "round_prefer_ceil") == 0) return cv_floor(g, cv_add_num(g, at, 0.5));
  return cv_unary(g, CV_OP_ceil, cv_add_num(g, at, -0.5));
}

/* The filter at a distance: a tent, or Keys' cubic. */
static cv_val kernel(const resizer *z, cv_val distance) {
  cv_graph *g = z->n->g;
  cv_val d = cv_abs(g, distance), one = cv_num(g, d, 1), nil = cv_num(g, d, 0);
  if (z->mode == LINEAR) return cv_max2(g, cv_sub(g, one, d), nil);
  double a = z->a;
  /* ((a + 2) d - (a + 3)) d^2 + 1 up to 1, ((d - 5) d + 8) d a - 4a up to 2 */
  cv_val near = cv_add_num(g, cv_mul_num(g, d, a + 2), -(a + 3));
  near = cv_add(g, cv_mul(g, near, cv_square(g, d)), one);
  cv_val far = cv_add_num(g, cv_mul(g, cv_add_num(g, d, -5), d), 8);
  far = cv_add_num(g, cv_mul_num(g, cv_mul(g, far, d), a), -4 * a);
  cv_val inner = cv_select(g, cv_lt(g, d, cv_num(g, d, 2)), far, nil);
  return cv_select(g, cv_le(g, d, one), near, inner);
}

/* The sum of weighted neighbours, floor(at) + first .. floor(at) + last. */
static cv_val weighted(const resizer *z, const resize_axis *r, cv_val x, cv_val at) {
  cv_graph *g = z->n->g;
  double reach = z->mode == LINEAR ? 1 : 2, squeeze = 1;
  if (z->antialias && r->number > 0 && r->number < 1) squeeze = r->number;
  int rank = cv_rank(g, x);
  if (reach / squeeze > 1024) {
    return cv_on_fail(z->n, CV_UNSUPPORTED, "antialias over a scale of %g", r->number);
  }
  int first = (int)floor(-reach / squeeze) + 1, last = 1 - first;
  cv_val base = cv_floor(g, at), ratio = cv_sub(g, at, base), sum = CV_ABSENT, y = CV_ABSENT;
  cv_val *weights = cv_arena_array(&g->arena, cv_val, (size_t)(last - first + 1));
  cv_val top = f64(g, e_add_i(g, r->in, -1));
  for (int k = first; k <= last; k++) {
    cv_val away = cv_sub(g, cv_num(g, ratio, k), ratio), w;
    w = kernel(z, cv_mul_num(g, away, squeeze));
    if (z->exclude_outside) {
      cv_val p = cv_add_num(g, base, k), nil = cv_num(g, p, 0);
      cv_val inside = cv_and(g, cv_le(g, nil, p), cv_le(g, p, top));
      w = cv_select(g, inside, w, nil);
    }
    weights[k - first] = w;
    sum = sum == CV_ABSENT ? w : cv_add(g, sum, w);
  }
  for (int k = first; k <= last; k++) {
    cv_val w = weights[k - first];
    if (z->antialias || z->exclude_outside) w = cv_div(g, w, sum);
    w = cv_along(g, cv_cast(g, w, cv_dt(g, x)), r->axis, rank);
    cv_val part = cv_gather(g, x, index_of(g, cv_add_num(g, base, k), r->in), r->axis);
    part = cv_mul(g, part, w);
    y = y == CV_ABSENT ? part : cv_add(g, y, part);
  }
  return y;
}

/* True if nearest neighbours are whole repeats: an integer scale whose rounding falls so. */
static bool is_repeat(const resizer *z, const resize_axis *r) {
  bool asymmetric = strcmp(z->coordinates, "asymmetric") == 0 && strcmp(z->rounding, "floor") == 0;
  bool half = strcmp(z->coordinates, "half_pixel") == 0 && cv_starts_with(z->rounding, "round");
  return z->mode == NEAREST && (asymmetric || half) && r->known && r->number >= 1 &&
         r->number == floor(r->number) && r->out == e_mul_i(z->n->g, r->in, (int64_t)r->number);
}

static cv_val repeated(cv_graph *g, const resize_axis *r, cv_val x) {
  int rank = cv_rank(g, x);
  cv_expr dims[CV_MAX_RANK + 1];
  cv_val wide = cv_unsqueeze(g, x, r->axis + 1);
  for (int i = 0; i <= rank; i++) dims[i] = cv_dim(g, wide, i);
  if (!cv_ok(g)) return CV_POISON;
  dims[r->axis + 1] = e_const(g, (int64_t)r->number);
  wide = cv_broadcast_to(g, wide, dims, rank + 1);
  for (int i = 0; i < rank; i++) dims[i] = i == r->axis ? r->out : cv_dim(g, x, i);
  return cv_reshape(g, wide, dims, rank);
}

static cv_val resize_one(const resizer *z, const resize_axis *r, cv_val x) {
  cv_graph *g = z->n->g;
  if (is_repeat(z, r) && cv_rank(g, x) < CV_MAX_RANK) return repeated(g, r, x);
  if (z->antialias && !r->known) {
    return cv_on_fail(z->n, CV_UNSUPPORTED, "antialias needs scales known when compiling");
  }
  cv_val at = places(z, r), y;
  if (!cv_ok(g)) return CV_POISON;
  if (z->mode == NEAREST) {
    y = cv_gather(g, x, index_of(g, round_to(z, at), r->in), r->axis);
  } else {
    y = weighted(z, r, x, at);
  }
  if (!z->crop) return y;
  cv_val outside = cv_lt(g, at, cv_num(g, at, 0));
  outside = cv_or(g, outside, cv_lt(g, f64(g, e_add_i(g, r->in, -1)), at));
  outside = cv_along(g, outside, r->axis, cv_rank(g, y));
  return cv_select(g, outside, cv_num(g, y, z->extrapolation), y);
}

/* ---- what the node says ---- */

static resizer read_attrs(cv_on *n) {
  const char *mode = cv_on_text(n, "mode", "nearest");
  bool old = n->opset < 11 || strcmp(n->row->op, "Upsample") == 0;
  resizer z = {.n = n,
               .mode = strcmp(mode, "nearest") == 0 ? NEAREST
                       : strcmp(mode, "cubic") == 0 ? CUBIC
                                                    : LINEAR,
               .coordinates = cv_on_text(n, "coordinate_transformation_mode",
                                         old ? "asymmetric" : "half_pixel"),
               .rounding = cv_on_text(n, "nearest_mode", old ? "floor" : "round_prefer_floor"),
               .a = cv_on_float(n, "cubic_coeff_a", -0.75),
               .extrapolation = cv_on_float(n, "extrapolation_value", 0),
               .exclude_outside = cv_on_int(n, "exclude_outside", 0) != 0,
               .antialias = cv_on_int(n, "antialias", 0) != 0};
  z.crop = strcmp(z.coordinates, "tf_crop_and_resize") == 0;
  if (z.mode == NEAREST) z.antialias = false;
  return z;
}

/* An extent that came out as a floating-point number. */
static cv_expr whole_extent(cv_on *n, double extent) {
  if (extent >= 0 && extent < 1e12) return e_const(n->g, (int64_t)extent);
  cv_on_fail(n, CV_INVALID, "an extent of %g", extent);
  return CV_EXPR_NONE;
}

/* floor(in * scale), bound at run time if it must be. */
static cv_expr scaled_extent(cv_on *n, const resize_axis *r) {
  cv_graph *g = n->g;
  int64_t in;
  uint32_t one;
  if (r->known && r->number == floor(r->number)) return e_mul_i(g, r->in, (int64_t)r->number);
  if (r->known && cv_expr_is_const(g->exprs, r->in, &in)) {
    return whole_extent(n, floor((double)in * r->number));
  }
  if (r->known && 1 / r->number == floor(1 / r->number)) {
    return e_div(g, r->in, e_const(g, (int64_t)(1 / r->number)));
  }
  cv_val out = cv_floor(g, cv_mul(g, f64(g, r->in), r->scale));
  const cv_expr *e = cv_on_exprs_of(n, cv_cast(g, out, CV_I64), 1, CV_ONNX_MAX_DIM, &one);
  return e ? e[0] : CV_EXPR_NONE;
}

/* Out extents and scales from scales: floor(in * scale). */
static void from_scales(cv_on *n, uint32_t input, uint32_t count, resize_axis *axes) {
  cv_graph *g = n->g;
  uint32_t have = 0;
  uint64_t known = 0;
  const double *values = NULL;
  const float *attr = input == 0 ? cv_on_floats(n, "scales", &have) : NULL;
  if (!attr && cv_on_int(n, "antialias", 0)) {
    values = cv_on_known_doubles(n, input, "scales", &have);
  } else if (!attr) {
    values = cv_graph_doubles(g, cv_on_in(n, input), &known);
    have = (uint32_t)known;
  }
  if ((attr || values) && have != count) {
    cv_on_fail(n, CV_INVALID, "%u scales for %u axes", have, count);
    return;
  }
  for (uint32_t i = 0; i < count && cv_ok(g); i++) {
    resize_axis *r = &axes[i];
    r->known = attr || values;
    r->number = attr ? (double)attr[i] : values ? values[i] : 0;
    if (r->known && !(r->number > 1.0 / MAX_SCALE && r->number < MAX_SCALE)) {
      cv_on_fail(n, CV_INVALID, "a scale of %g", r->number);
      return;
    }
    r->scale = r->known
                   ? cv_graph_scalar(g, CV_F64, r->number)
                   : cv_cast(g, cv_as_scalar(g, cv_slice_const(g, n->in[input], 0, i, 1)), CV_F64);
    r->out = scaled_extent(n, r);
  }
}

/* keep_aspect_ratio_policy: one scale for all axes, the smallest or the largest. */
static void keep_aspect(cv_on *n, bool larger, uint32_t count, resize_axis *axes) {
  cv_graph *g = n->g;
  double scale = 0;
  for (uint32_t i = 0; i < count; i++) {
    int64_t in, out;
    if (!cv_expr_is_const(g->exprs, axes[i].in, &in) ||
        !cv_expr_is_const(g->exprs, axes[i].out, &out)) {
      cv_on_fail(
          n, CV_UNSUPPORTED,
          "keep_aspect_ratio_policy needs sizes and dims known when compiling: give --dim or "
          "--bind");
      return;
    }
    double own = in > 0 ? (double)out / (double)in : 0;
    if (!(own > 0 && own < MAX_SCALE)) {
      cv_on_fail(n, CV_INVALID, "a scale of %g", own);
      return;
    }
    if (i == 0 || (larger ? own > scale : own < scale)) scale = own;
  }
  for (uint32_t i = 0; i < count; i++) {
    int64_t in = 0;
    (void)cv_expr_is_const(g->exprs, axes[i].in, &in);
    axes[i].number = scale;
    axes[i].known = true;
    axes[i].scale = cv_graph_scalar(g, CV_F64, scale);
    axes[i].out = whole_extent(n, floor(scale * (double)in + 0.5));
  }
}

static void from_sizes(cv_on *n, uint32_t count, resize_axis *axes) {
  cv_graph *g = n->g;
  uint32_t have;
  const char *policy = cv_on_text(n, "keep_aspect_ratio_policy", "stretch");
  bool stretch = strcmp(policy, "stretch") == 0;
  bool fixed = !stretch || cv_on_int(n, "antialias", 0) != 0;
  const int64_t *ints = fixed ? cv_on_known_ints(n, 3, "sizes", &have) : NULL;
  const cv_expr *sizes = fixed ? NULL : cv_on_exprs(n, 3, 1, CV_ONNX_MAX_DIM, &have);
  if ((!sizes && !ints) || have != count) {
    if (cv_ok(g)) cv_on_fail(n, CV_INVALID, "%u sizes for %u axes", have, count);
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    resize_axis *r = &axes[i];
    int64_t in, out;
    r->out = ints ? e_const(g, ints[i]) : sizes[i];
    r->known = cv_expr_is_const(g->exprs, r->in, &in) && cv_expr_is_const(g->exprs, r->out, &out);
    if (r->in == r->out) {
      r->known = true;
      in = out = 1;
    }
    r->number = r->known ? (double)out / (double)in : 0;
    r->scale =
        r->known ? cv_graph_scalar(g, CV_F64, r->number) : cv_div(g, f64(g, r->out), f64(g, r->in));
  }
  if (!stretch) keep_aspect(n, strcmp(policy, "not_larger") != 0, count, axes);
}

/* The axes that are resized, with their part of roi: how many. */
static uint32_t read_axes(cv_on *n, const resizer *z, resize_axis *axes) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int rank = cv_rank(g, x);
  uint32_t count = (uint32_t)rank, n_axes;
  const int64_t *list = cv_on_ints(n, "axes", &n_axes);
  if (list) count = n_axes > CV_MAX_RANK ? CV_MAX_RANK : n_axes;
  cv_val roi = z->crop && cv_on_has(n, 1) ? cv_cast(g, n->in[1], CV_F64) : CV_ABSENT;
  for (uint32_t i = 0; i < count; i++) {
    resize_axis *r = &axes[i];
    r->axis = list ? cv_on_axis(n, list[i], rank) : (int)i;
    r->in = r->out = cv_dim(g, x, r->axis);
    if (roi == CV_ABSENT) continue;
    r->roi_start = cv_as_scalar(g, cv_slice_const(g, roi, 0, i, 1));
    r->roi_end = cv_as_scalar(g, cv_slice_const(g, roi, 0, (int64_t)count + i, 1));
  }
  if (z->crop && roi == CV_ABSENT && cv_ok(g)) cv_on_fail(n, CV_INVALID, "a crop without roi");
  return count;
}

/* Extents and scales from what the node has, by its op and opset. */
static void read_extents(cv_on *n, uint32_t count, resize_axis *axes) {
  cv_graph *g = n->g;
  bool upsample = strcmp(n->row->op, "Upsample") == 0;
  if (!cv_ok(g)) return;
  bool empty = !cv_on_has(n, 2) || e_is(g, e_count(g, n->in[2], 0, cv_rank(g, n->in[2])), 0);
  if (upsample || n->opset < 11) {
    from_scales(n, upsample && n->opset < 9 ? 0 : 1, count, axes);
  } else if (cv_on_has(n, 3) && empty) {
    from_sizes(n, count, axes);
  } else {
    from_scales(n, 2, count, axes);
  }
}

/* Floats as wide as f32 at least; nearest neighbours are not computed with. */
static cv_val computed(const resizer *z, cv_val x) {
  cv_graph *g = z->n->g;
  if (z->mode == NEAREST) return x;
  return cv_is_float(g, x) ? cv_widen(g, x) : cv_cast(g, x, CV_F32);
}

void cv_import_resize(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  resizer z = read_attrs(n);
  resize_axis axes[CV_MAX_RANK] = {0};
  uint32_t count = read_axes(n, &z, axes);
  read_extents(n, count, axes);
  cv_dtype dtype = cv_dt(g, x);
  cv_val y = computed(&z, x);
  for (uint32_t i = 0; i < count && cv_ok(g); i++) {
    if (axes[i].known && axes[i].number == 1 && !z.crop) continue;
    y = resize_one(&z, &axes[i], y);
  }
  if (cv_dt(g, y) != dtype && cv_dtype_kind(dtype) != 'f') y = cv_unary(g, CV_OP_round, y);
  cv_on_set(n, 0, cv_cast(g, y, dtype));
}
