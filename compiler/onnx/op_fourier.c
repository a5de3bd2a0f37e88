/* DFT and STFT as products with a matrix of cosines and sines: y[k] = sum of x[t] e^(-2 pi i k
 * t/N). The matrix takes (point, part) to (bin, part), a part being real or imaginary. And the
 * matrix from a spectrum to mel bins. */
#include <math.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

enum { MAX_POINTS = 4096 }; /* the matrix grows with the square */

typedef struct {
  int64_t points, bins; /* of the input that count, of the output */
  int64_t length;       /* N */
  int in_parts, out_parts;
  bool inverse,
      halved; /* halved: an inverse of the first half of a spectrum, whose rest mirrors it */
} transform;

/* What input (t, part) adds to output (k, to). */
static double weight(const transform *f, int64_t t, int part, int64_t k, int to) {
  double angle = 2 * M_PI * (double)(k * t % f->length) / (double)f->length;
  double c = cos(angle), s = f->inverse ? -sin(angle) : sin(angle);
  double scale = f->inverse ? 1 / (double)f->length : 1;
  if (f->halved && t > 0 && 2 * t != f->length) scale *= 2;
  return scale * (part == to ? c : to == 0 ? s : -s);
}

/* x [.., points * in_parts] to [.., bins, out_parts]. */
static cv_val apply(cv_on *n, cv_val x, const transform *f) {
  cv_graph *g = n->g;
  int64_t dims[2] = {f->points * f->in_parts, f->bins * f->out_parts};
  bool wide = cv_dt(g, x) == CV_F64;
  void *data = wide ? (void *)cv_arena_array(&g->arena, double, (size_t)(dims[0] * dims[1]) + 1)
                    : (void *)cv_arena_array(&g->arena, float, (size_t)(dims[0] * dims[1]) + 1);
  if (!data)
    return cv_on_fail(n, CV_NOMEM, "out of memory for a matrix of %lld x %lld", (long long)dims[0],
                      (long long)dims[1]);
  for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
    int64_t row = i / dims[1], column = i % dims[1];
    double w = weight(f, row / f->in_parts, (int)(row % f->in_parts), column / f->out_parts,
                      (int)(column % f->out_parts));
    if (wide)
      ((double *)data)[i] = w;
    else
      ((float *)data)[i] = (float)w;
  }
  cv_dtype dtype = wide ? CV_F64 : CV_F32, was = cv_dt(g, x);
  cv_val matrix = cv_graph_const_borrowed(g, dtype, 2, dims, data);
  cv_val y = cv_cast(g, cv_matmul_bc(g, cv_cast(g, x, dtype), matrix, dtype), was);
  int rank = cv_rank(g, y);
  cv_expr out[CV_MAX_RANK];
  for (int d = 0; d < rank - 1; d++) out[d] = cv_dim(g, y, d);
  out[rank - 1] = e_const(g, f->bins);
  out[rank] = e_const(g, f->out_parts);
  return cv_reshape(g, y, out, rank + 1);
}

/* The last two axes as one. */
static cv_val join_parts(cv_graph *g, cv_val x) {
  int rank = cv_rank(g, x);
  cv_expr dims[CV_MAX_RANK];
  for (int d = 0; d < rank - 2; d++) dims[d] = cv_dim(g, x, d);
  dims[rank - 2] = e_mul(g, cv_dim(g, x, rank - 2), cv_dim(g, x, rank - 1));
  return cv_reshape(g, x, dims, rank - 1);
}

static bool check_length(cv_on *n, int64_t length) {
  if (length >= 1 && length <= MAX_POINTS) return true;
  cv_on_fail(n, CV_UNSUPPORTED, "a transform of %lld points, 1 to %d are taken", (long long)length,
             MAX_POINTS);
  return false;
}

void cv_import_dft(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int rank = cv_rank(g, x);
  int64_t parts, have;
  if (rank < 3 || rank >= CV_MAX_RANK || !cv_dim_known(g, x, rank - 1, &parts) || parts < 1 ||
      parts > 2) {
    cv_on_fail(n, CV_INVALID, "its input is %s: the last dim must be 1 (real) or 2 (complex)",
               cv_type_text(g, cv_ty(g, x)));
    return;
  }
  bool inverse = cv_on_int(n, "inverse", 0) != 0, half = cv_on_int(n, "onesided", 0) != 0;
  int64_t given = n->opset >= 20 ? cv_on_known_int(n, 2, "axis", -2) : cv_on_int(n, "axis", 1);
  int axis = cv_on_axis(n, given, rank);
  if (!cv_ok(g)) return;
  if (axis == rank - 1 || !cv_dim_known(g, x, axis, &have)) {
    cv_on_fail(n, CV_UNSUPPORTED, "axis %d of %s must be a known number of points", axis,
               cv_type_text(g, cv_ty(g, x)));
    return;
  }
  int64_t length = cv_on_known_int(n, 1, "dft_length", inverse && half ? 2 * (have - 1) : have);
  if (!cv_ok(g) || !check_length(n, length)) return;
  transform f = {.length = length,
                 .inverse = inverse,
                 .halved = inverse && half,
                 .in_parts = (int)parts,
                 .out_parts = inverse && half ? 1 : 2};
  int64_t most = f.halved ? length / 2 + 1 : length;
  f.points = have < most ? have : most;
  f.bins = half && !inverse ? length / 2 + 1 : length;
  x = cv_slice_const(g, x, axis, 0, f.points);
  x = cv_swap(g, x, axis, rank - 2);
  x = apply(n, join_parts(g, x), &f);
  cv_on_set(n, 0, cv_swap(g, x, axis, rank - 2));
}

/* Frames of the signal [batch, samples(, parts)] a step apart: [batch, frames, points, parts]. */
static cv_val frames_of(cv_on *n, cv_val x, int64_t length, int64_t step) {
  cv_graph *g = n->g;
  if (cv_rank(g, x) == 2) x = cv_unsqueeze(g, x, 2);
  cv_expr span = e_sub(g, cv_dim(g, x, 1), e_const(g, length));
  cv_expr count = e_max(g, e_const(g, 0), e_add_i(g, e_div(g, span, e_const(g, step)), 1));
  cv_val at = cv_mul_num(g, cv_index_along(g, count, 0, 2), (double)step);
  at = cv_add(g, at, cv_index_along(g, e_const(g, length), 1, 2));
  return cv_gather(g, x, at, 1);
}

void cv_import_stft(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int rank = cv_rank(g, x);
  int64_t parts = 1, step = cv_on_known_int(n, 1, "frame_step", 0), length = 0;
  bool window = cv_on_has(n, 2);
  if (!cv_ok(g)) return;
  if (rank < 2 || rank > 3 || (rank == 3 && !cv_dim_known(g, x, 2, &parts)) || parts < 1 ||
      parts > 2 || step < 1) {
    cv_on_fail(n, CV_INVALID, "a signal %s in steps of %lld", cv_type_text(g, cv_ty(g, x)),
               (long long)step);
    return;
  }
  if (cv_on_has(n, 3))
    length = cv_on_known_int(n, 3, "frame_length", 0);
  else if (window && cv_rank(g, n->in[2]) == 1)
    cv_dim_known(g, n->in[2], 0, &length);
  if (!cv_ok(g) || !check_length(n, length)) return;
  cv_val frames = frames_of(n, x, length, step);
  if (window) {
    cv_expr points = e_const(g, length);
    cv_val shape = cv_unsqueeze(g, cv_assume_dims(g, n->in[2], &points, 1), 1);
    frames = cv_mul(g, frames, shape);
  }
  bool half = cv_on_int(n, "onesided", 1) != 0;
  transform f = {.points = length,
                 .bins = half ? length / 2 + 1 : length,
                 .length = length,
                 .in_parts = (int)parts,
                 .out_parts = 2};
  cv_on_set(n, 0, apply(n, join_parts(g, frames), &f));
}

/* ---- mel ---- */

static double mel_of(double hertz) { return 2595 / M_LN10 * log1p(hertz / 700); }

/* Where mel bin i begins, in bins of the spectrum: they lie evenly on the mel scale. */
static double mel_edge(int64_t i, int64_t bins, double low, double high, double per_hertz) {
  double step = (mel_of(high) - mel_of(low)) / (double)(bins + 2);
  double hertz = 700 * expm1(((double)i * step + mel_of(low)) / 2595 * M_LN10);
  return floor(hertz * per_hertz);
}

/* The triangle over [lower, upper) with its top, 1, at `center`. */
static double triangle(double at, double lower, double center, double upper) {
  if (at >= center && at < upper) return (upper - at) / (upper - center);
  if (at < lower || at > center) return 0;
  return center > lower ? (at - lower) / (center - lower) : 1;
}

static bool known_double(cv_on *n, uint32_t i, const char *what, double *out) {
  uint32_t count;
  const double *given = cv_on_known_doubles(n, i, what, &count);
  if (!given) return false;
  if (count == 1) *out = given[0];
  if (count != 1) cv_on_fail(n, CV_INVALID, "input %u (%s) must hold one number", i, what);
  return count == 1;
}

/* [dft_length / 2 + 1, num_mel_bins]: how much each bin of a spectrum adds to each mel bin. */
void cv_import_mel_weight_matrix(cv_on *n) {
  cv_graph *g = n->g;
  cv_dtype to;
  double low, high;
  int64_t bins = cv_on_known_int(n, 0, "num_mel_bins", 0);
  int64_t length = cv_on_known_int(n, 1, "dft_length", 0);
  int64_t rate = cv_on_known_int(n, 2, "sample_rate", 0);
  int64_t number = cv_on_int(n, "output_datatype", 1);
  if (!cv_ok(g) || !known_double(n, 3, "lower_edge_hertz", &low) ||
      !known_double(n, 4, "upper_edge_hertz", &high))
    return;
  if (!cv_dtype_from_onnx((int)number, &to)) {
    cv_on_fail(n, CV_UNSUPPORTED, "the element type %lld is not supported", (long long)number);
    return;
  }
  if (bins < 1 || bins > MAX_POINTS || length < 1 || length > MAX_POINTS || rate < 1 ||
      !(low >= 0 && high >= low)) {
    cv_on_fail(n, CV_INVALID, "%lld mel bins from %g to %g Hz of %lld points at %lld Hz",
               (long long)bins, low, high, (long long)length, (long long)rate);
    return;
  }
  int64_t dims[2] = {length / 2 + 1, bins};
  double *data = cv_arena_array(&g->arena, double, (size_t)(dims[0] * dims[1]));
  double per_hertz = (double)(length + 1) / (double)rate;
  for (int64_t i = 0; i < bins; i++) {
    double edge[3];
    for (int k = 0; k < 3; k++) edge[k] = mel_edge(i + k, bins, low, high, per_hertz);
    if (edge[2] > (double)dims[0]) {
      cv_on_fail(n, CV_INVALID, "mel bin %lld ends at %g, beyond the %lld bins of the spectrum",
                 (long long)i, edge[2], (long long)dims[0]);
      return;
    }
    for (int64_t at = 0; at < dims[0]; at++)
      data[at * bins + i] = triangle((double)at, edge[0], edge[1], edge[2]);
  }
  cv_on_set(n, 0, cv_cast(g, cv_graph_const_borrowed(g, CV_F64, 2, dims, data), to));
}
