/* Sampling at computed places: GridSample, AffineGrid. */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

typedef enum { ZEROS, BORDER, REFLECTION } padding;
typedef enum { NEAREST, LINEAR, CUBIC } sampling;

typedef struct {
  cv_graph *g;
  padding padding;
  bool corners;
  int spatial;
  cv_val x;                     /* [n, s.., c] */
  cv_expr extents[CV_MAX_RANK]; /* of s */
} sampler;

static cv_val extent_of(const sampler *s, int d, cv_val like) {
  return cv_scalar_of(s->g, s->extents[d], cv_dt(s->g, like));
}

/* Mirrors at the borders of the axis until inside: [0, e-1] with corners, else [-0.5, e-0.5]. */
static cv_val reflected(const sampler *s, int d, cv_val at) {
  cv_graph *g = s->g;
  cv_val extent = extent_of(s, d, at), one = cv_num(g, at, 1);
  cv_val lo = cv_num(g, at, s->corners ? 0 : -0.5);
  cv_val span = s->corners ? cv_sub(g, extent, one) : extent;
  cv_val period = cv_max2(g, cv_mul_num(g, span, 2), cv_num(g, at, 1e-9));
  cv_val r = cv_binary_bc(g, CV_OP_rem, cv_abs(g, cv_sub(g, at, lo)), period);
  return cv_add(g, lo, cv_min2(g, r, cv_sub(g, period, r)));
}

static cv_val clamped(const sampler *s, int d, cv_val at) {
  cv_graph *g = s->g;
  cv_val top = cv_sub(g, extent_of(s, d, at), cv_num(g, at, 1));
  return cv_max2(g, cv_min2(g, at, top), cv_num(g, at, 0));
}

/* One whole place per axis ([n, o..] floats): x there, zero where it lies outside if so padded. */
static cv_val at_place(const sampler *s, const cv_val *at) {
  cv_graph *g = s->g;
  cv_val parts[CV_MAX_RANK], inside = CV_ABSENT;
  for (int d = 0; d < s->spatial; d++) {
    cv_val p = at[d], kept = s->padding == REFLECTION ? reflected(s, d, p) : p;
    cv_val in = clamped(s, d, kept);
    cv_val same = cv_eq(g, in, p);
    inside = inside == CV_ABSENT ? same : cv_and(g, inside, same);
    parts[d] = cv_unsqueeze(g, cv_cast(g, in, CV_I64), cv_rank(g, p));
  }
  if (!cv_ok(g)) return CV_POISON;
  int rank = cv_rank(g, at[0]);
  cv_val y = cv_gather_nd(g, s->x, cv_concat(g, parts, (uint32_t)s->spatial, rank), 1);
  if (s->padding != ZEROS) return y;
  return cv_select(g, cv_unsqueeze(g, inside, rank), y, cv_num(g, y, 0));
}

/* Weights of the neighbours floor(at) + first + k along one axis. */
static int taps(cv_graph *g, sampling mode, cv_val ratio, cv_val *out_weights) {
  const double a = -0.75;
  cv_val one = cv_num(g, ratio, 1);
  if (mode == LINEAR) {
    out_weights[0] = cv_sub(g, one, ratio);
    out_weights[1] = ratio;
    return 2;
  }
  for (int k = 0; k < 4; k++) {
    cv_val d = cv_abs(g, cv_sub(g, cv_num(g, ratio, k - 1), ratio));
    cv_val w;
    if (k == 1 || k == 2) {
      w = cv_add_num(g, cv_mul_num(g, d, a + 2), -(a + 3));
      w = cv_add(g, cv_mul(g, w, cv_square(g, d)), one);
    } else {
      w = cv_add_num(g, cv_mul(g, cv_add_num(g, d, -5), d), 8);
      w = cv_add_num(g, cv_mul_num(g, cv_mul(g, w, d), a), -4 * a);
    }
    out_weights[k] = w;
  }
  return 4;
}

static cv_val interpolated(const sampler *s, sampling mode, const cv_val *at) {
  cv_graph *g = s->g;
  cv_val base[CV_MAX_RANK], weights[CV_MAX_RANK][4], place[CV_MAX_RANK], y = CV_ABSENT;
  int count = 0, total = 1, rank = cv_rank(g, at[0]);
  for (int d = 0; d < s->spatial; d++) {
    base[d] = cv_floor(g, at[d]);
    count = taps(g, mode, cv_sub(g, at[d], base[d]), weights[d]);
    total *= count;
  }
  for (int i = 0; i < total && cv_ok(g); i++) {
    cv_val w = CV_ABSENT;
    for (int d = 0, rest = i; d < s->spatial; d++, rest /= count) {
      int k = rest % count;
      place[d] = cv_add_num(g, base[d], k - (mode == CUBIC ? 1 : 0));
      w = w == CV_ABSENT ? weights[d][k] : cv_mul(g, w, weights[d][k]);
    }
    w = cv_unsqueeze(g, cv_cast(g, w, cv_dt(g, s->x)), rank);
    cv_val part = cv_mul(g, at_place(s, place), w);
    y = y == CV_ABSENT ? part : cv_add(g, y, part);
  }
  return y;
}

/* Grid coordinate [-1, 1] of axis d to a place on it. The grid's last entry is the first axis. */
static cv_val unnormalised(const sampler *s, cv_val grid, int d) {
  cv_graph *g = s->g;
  int last = cv_rank(g, grid) - 1;
  cv_val at = cv_squeeze(g, cv_slice_const(g, grid, last, s->spatial - 1 - d, 1), 1u << last);
  cv_val extent = extent_of(s, d, at), up = cv_add_num(g, at, 1);
  if (s->corners) return cv_mul(g, up, cv_mul_num(g, cv_add_num(g, extent, -1), 0.5));
  return cv_mul_num(g, cv_add_num(g, cv_mul(g, up, extent), -1), 0.5);
}

static padding padding_of(cv_on *n) {
  const char *mode = cv_on_text(n, "padding_mode", "zeros");
  if (strcmp(mode, "border") == 0) return BORDER;
  return strcmp(mode, "reflection") == 0 ? REFLECTION : ZEROS;
}

void cv_import_grid_sample(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), grid = cv_widen(g, cv_on_in(n, 1)), at[CV_MAX_RANK], y;
  const char *mode = cv_on_text(n, "mode", "linear");
  int rank = cv_rank(g, x);
  int64_t perm[CV_MAX_RANK], back[CV_MAX_RANK];
  if (rank < 3 || cv_rank(g, grid) != rank) {
    if (cv_ok(g)) cv_on_fail(n, CV_INVALID, "X and grid must have equally many dims, at least 3");
    return;
  }
  for (int i = 0; i < rank; i++) {
    perm[i] = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
    back[perm[i]] = i;
  }
  sampler s = {.g = g,
               .padding = padding_of(n),
               .corners = cv_on_int(n, "align_corners", 0) != 0,
               .spatial = rank - 2,
               .x = cv_transpose(g, x, perm)};
  for (int d = 0; d < s.spatial; d++) s.extents[d] = cv_dim(g, x, 2 + d);
  bool cubic = strstr(mode, "cubic") != NULL, nearest = strcmp(mode, "nearest") == 0;
  for (int d = 0; d < s.spatial; d++) {
    at[d] = unnormalised(&s, grid, d);
    if (s.padding == REFLECTION && !cubic) at[d] = reflected(&s, d, at[d]);
    if (s.padding != ZEROS && !cubic) at[d] = clamped(&s, d, at[d]);
    if (nearest) at[d] = cv_unary(g, CV_OP_round, at[d]);
  }
  y = nearest ? at_place(&s, at) : interpolated(&s, cubic ? CUBIC : LINEAR, at);
  cv_on_set(n, 0, cv_transpose(g, y, back));
}

/* Places -1..1 along an axis of `extent` points, at their middles unless the corners are met. */
static cv_val base_points(cv_graph *g, cv_expr extent, bool corners, cv_dtype dtype) {
  cv_val i = cv_iota(g, dtype, &extent, 1, 0), count = cv_scalar_of(g, extent, dtype);
  if (corners) {
    cv_val steps = cv_max2(g, cv_add_num(g, count, -1), cv_num(g, count, 1));
    return cv_add_num(g, cv_div(g, cv_mul_num(g, i, 2), steps), -1);
  }
  return cv_add_num(g, cv_div(g, cv_add_num(g, cv_mul_num(g, i, 2), 1), count), -1);
}

/* theta [n, d, d+1] over the points of size (n, c, s..): [n, s.., d]. */
void cv_import_affine_grid(cv_on *n) {
  cv_graph *g = n->g;
  cv_val theta = cv_on_in(n, 0), columns[4];
  uint32_t count;
  const cv_expr *size = cv_on_exprs(n, 1, 1, CV_ONNX_MAX_DIM, &count);
  bool corners = cv_on_int(n, "align_corners", 0) != 0;
  if (!size || (count != 4 && count != 5)) {
    if (cv_ok(g)) cv_on_fail(n, CV_INVALID, "size must have 4 or 5 entries");
    return;
  }
  int spatial = (int)count - 2;
  cv_dtype dtype = cv_dt(g, theta);
  cv_expr total = e_const(g, 1), dims[CV_MAX_RANK];
  for (int d = 0; d < spatial; d++) {
    dims[d] = size[2 + d];
    total = e_mul(g, total, dims[d]);
  }
  cv_expr column[2] = {total, e_const(g, 1)};
  for (int k = 0; k <= spatial; k++) { /* x (the last axis) first, and a column of ones */
    int d = spatial - 1 - k;
    cv_val p = k == spatial ? cv_full(g, dtype, dims, spatial, 1)
                            : cv_along(g, base_points(g, dims[d], corners, dtype), d, spatial);
    columns[k] = cv_reshape(g, cv_broadcast_to(g, p, dims, spatial), column, 2);
  }
  cv_val points = cv_concat(g, columns, (uint32_t)spatial + 1, 1); /* [total, d + 1] */
  cv_val y = cv_matmul_bc(g, points, cv_swap(g, theta, 1, 2), dtype);
  cv_expr out[CV_MAX_RANK] = {cv_dim(g, theta, 0)};
  for (int d = 0; d < spatial; d++) out[1 + d] = dims[d];
  out[1 + spatial] = e_const(g, spatial);
  cv_on_set(n, 0, cv_reshape(g, y, out, spatial + 2));
}
