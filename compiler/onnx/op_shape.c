/* Ops that arrange elements anew: their number and order along an axis stay, or follow from dims.
 */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

/* Shape, of dims [start, end). */
void cv_import_shape(cv_on *n) {
  cv_val x = cv_on_in(n, 0);
  int64_t rank = cv_rank(n->g, x), start = cv_on_int(n, "start", 0),
          end = cv_on_int(n, "end", rank);
  start = start < 0 ? start + rank : start;
  end = end < 0 ? end + rank : end;
  start = start < 0 ? 0 : start > rank ? rank : start;
  end = end < start ? start : end > rank ? rank : end;
  const cv_expr *dims = cv_dims_of(n->g, x);
  cv_on_set(n, 0, cv_extents(n->g, dims + start, (uint32_t)(end - start)));
}

void cv_import_size(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  cv_on_set(n, 0, cv_scalar_of(g, e_count(g, x, 0, cv_rank(g, x)), CV_I64));
}

/* Dims of Reshape where all of them are certain: 0 takes the input's, -1 what is left. */
static bool known_dims(cv_on *n, cv_val x, const cv_expr *want, uint32_t rank, cv_expr *out) {
  cv_graph *g = n->g;
  bool zero_is_zero = cv_on_int(n, "allowzero", 0) != 0;
  cv_expr others = e_const(g, 1);
  int open = -1;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t lo, hi;
    cv_expr_bounds(g->exprs, want[i], &lo, &hi);
    out[i] = want[i];
    if (e_is(g, want[i], -1)) {
      if (open >= 0) return cv_on_fail(n, CV_INVALID, "two dims of -1"), false;
      open = (int)i;
      continue;
    }
    if (hi < 0) return cv_on_fail(n, CV_INVALID, "a dim below -1"), false;
    if (e_is(g, want[i], 0) && !zero_is_zero) {
      if ((int)i >= cv_rank(g, x))
        return cv_on_fail(n, CV_INVALID, "dim 0 beyond the input"), false;
      out[i] = cv_dim(g, x, (int)i);
    }
    others = e_mul(g, others, out[i]);
  }
  if (open >= 0) {
    cv_expr total = e_count(g, x, 0, cv_rank(g, x));
    out[open] = e_is(g, others, 0) ? e_const(g, 0) : e_div(g, total, others);
  }
  return true;
}

/* Dims from values that are only known at run time, -1 and 0 among them. */
static void run_time_dims(cv_on *n, cv_val x, const cv_expr *want, uint32_t rank, cv_expr *out) {
  cv_graph *g = n->g;
  cv_exprs *e = g->exprs;
  bool zero_is_zero = cv_on_int(n, "allowzero", 0) != 0;
  cv_expr product = e_const(g, 1), nil = e_const(g, 0), minus = e_const(g, -1);
  for (uint32_t i = 0; i < rank; i++) {
    cv_expr own = (int)i < cv_rank(g, x) && !zero_is_zero ? cv_dim(g, x, (int)i) : nil;
    out[i] = cv_expr_select(e, cv_expr_eq(e, want[i], nil), own, want[i]);
    product = e_mul(g, product, out[i]);
  }
  cv_expr others = e_max(g, e_const(g, 1), e_sub(g, nil, product));
  cv_expr left = e_div(g, e_count(g, x, 0, cv_rank(g, x)), others);
  for (uint32_t i = 0; i < rank; i++) {
    out[i] = cv_expr_select(e, cv_expr_eq(e, want[i], minus), left, out[i]);
    out[i] = e_max(g, out[i], nil);
  }
}

/* True if the value may be -1 or 0 at run time (a number is judged where it stands). */
static bool uncertain(const cv_graph *g, cv_expr e) {
  int64_t lo, hi, value;
  cv_expr_bounds(g->exprs, e, &lo, &hi);
  return !cv_expr_is_const(g->exprs, e, &value) && lo < 0;
}

/* Before opset 5 the shape is an attribute. */
static const cv_expr *old_shape(cv_on *n, uint32_t *out_rank) {
  const int64_t *ints = cv_on_ints(n, "shape", out_rank);
  cv_expr *dims = cv_arena_array(&n->g->arena, cv_expr, *out_rank + 1);
  for (uint32_t i = 0; i < *out_rank; i++) dims[i] = e_const(n->g, ints[i]);
  return dims;
}

void cv_import_reshape(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  cv_expr dims[CV_MAX_RANK];
  uint32_t rank;
  const cv_expr *want =
      n->opset < 5 ? old_shape(n, &rank) : cv_on_exprs(n, 1, -1, CV_ONNX_MAX_DIM, &rank);
  if (!want) return;
  if (rank > CV_MAX_RANK) {
    cv_on_fail(n, CV_UNSUPPORTED, "%u dims, at most %d are supported", rank, CV_MAX_RANK);
    return;
  }
  bool open = false;
  for (uint32_t i = 0; i < rank; i++) open = open || uncertain(g, want[i]);
  if (open) {
    run_time_dims(n, x, want, rank, dims);
  } else if (!known_dims(n, x, want, rank, dims)) {
    return;
  }
  cv_on_set(n, 0, cv_reshape(g, x, dims, (int)rank));
}

void cv_import_flatten(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int rank = cv_rank(g, x);
  int64_t axis = cv_on_int(n, "axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) {
    cv_on_fail(n, CV_INVALID, "axis %lld of %d dims", (long long)axis, rank);
    return;
  }
  cv_expr dims[2] = {e_count(g, x, 0, (int)axis), e_count(g, x, (int)axis, rank)};
  cv_on_set(n, 0, cv_reshape(g, x, dims, 2));
}

/* Whether a Squeeze without axes takes the dim away. One that is not known is 1 if a node before
 * needs it so, or if it is for the request at hand; else it is taken for more. Requests for which
 * that is not so are refused. */
static bool squeezes(cv_on *n, cv_expr dim) {
  cv_graph *g = n->g;
  int64_t known;
  if (cv_expr_is_const(g->exprs, dim, &known)) return known == 1;
  for (size_t i = 0; i < g->equalities.len; i++) {
    const cv_equality *equal = &g->equalities.data[i];
    if ((equal->a == dim && e_is(g, equal->b, 1)) || (equal->b == dim && e_is(g, equal->a, 1)))
      return true;
  }
  if (cv_on_sample(n, dim, &known) && known == 1) return true; /* cv_assume_dims states it */
  cv_graph_assume_equal(g, cv_expr_eq(g->exprs, dim, e_const(g, 1)), e_const(g, 0));
  return false;
}

void cv_import_squeeze(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  uint32_t axes;
  if (!cv_on_axes(n, 1, 13, cv_rank(g, x), &axes)) {
    for (int i = 0; i < cv_rank(g, x); i++) axes |= squeezes(n, cv_dim(g, x, i)) ? 1u << i : 0;
  }
  cv_expr dims[CV_MAX_RANK];
  for (int i = 0; i < cv_rank(g, x); i++) {
    dims[i] = axes >> i & 1 ? e_const(g, 1) : cv_dim(g, x, i);
  }
  cv_on_set(n, 0, cv_squeeze(g, cv_assume_dims(g, x, dims, cv_rank(g, x)), axes));
}

void cv_import_unsqueeze(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  uint32_t count, mask = 0;
  const int64_t *axes =
      n->opset >= 13 ? cv_on_known_ints(n, 1, "axes", &count) : cv_on_ints(n, "axes", &count);
  int rank = cv_rank(g, x) + (axes ? (int)count : 0);
  if (!axes || rank > CV_MAX_RANK) {
    if (cv_ok(g)) cv_on_fail(n, CV_UNSUPPORTED, "axes are missing, or give more than 8 dims");
    return;
  }
  for (uint32_t i = 0; i < count; i++) mask |= 1u << cv_on_axis(n, axes[i], rank);
  cv_expr dims[CV_MAX_RANK];
  int from = 0;
  for (int i = 0; i < rank; i++) {
    bool fresh = mask >> i & 1;
    if (!fresh && from >= cv_rank(g, x)) {
      cv_on_fail(n, CV_INVALID, "an axis is named twice");
      return;
    }
    dims[i] = fresh ? e_const(g, 1) : cv_dim(g, x, from++);
  }
  cv_on_set(n, 0, cv_reshape(g, x, dims, rank));
}

void cv_import_transpose(cv_on *n) {
  cv_val x = cv_on_in(n, 0);
  int rank = cv_rank(n->g, x);
  int64_t perm[CV_MAX_RANK];
  uint32_t count, seen = 0;
  const int64_t *given = cv_on_ints(n, "perm", &count);
  if (given && count != (uint32_t)rank) {
    cv_on_fail(n, CV_INVALID, "perm has %u entries for %d dims", count, rank);
    return;
  }
  for (int i = 0; i < rank; i++) {
    perm[i] = given ? cv_on_axis(n, given[i], rank) : rank - 1 - i;
    seen |= 1u << perm[i];
  }
  if (seen != (1u << rank) - 1) {
    cv_on_fail(n, CV_INVALID, "perm names an axis twice");
    return;
  }
  cv_on_set(n, 0, cv_transpose(n->g, x, perm));
}

void cv_import_concat(cv_on *n) {
  cv_graph *g = n->g;
  int rank = cv_rank(g, cv_on_in(n, 0));
  int axis = cv_on_axis(n, cv_on_int(n, "axis", n->opset < 4 ? 1 : 0), rank);
  for (uint32_t i = 1; i < n->n_in && cv_ok(g); i++) {
    const cv_type type = *cv_ty(g, n->in[i]);
    cv_expr dims[CV_MAX_RANK];
    for (int k = 0; k < rank; k++) {
      dims[k] = k == axis && k < type.rank ? type.dims[k] : cv_dim(g, n->in[0], k);
    }
    n->in[i] = cv_assume_dims(g, n->in[i], dims, rank);
  }
  cv_on_set(n, 0, cv_concat(g, n->in, n->n_in, axis));
}

/* The parts of Split where no sizes are given: equal, the last one smaller. */
static void equal_parts(cv_on *n, cv_expr whole, cv_expr *out) {
  cv_graph *g = n->g;
  cv_expr left = whole, part = e_ceil_div(g, whole, n->n_out);
  for (uint32_t i = 0; i < n->n_out; i++) {
    out[i] = i + 1 < n->n_out ? e_min(g, part, left) : left;
    left = e_sub(g, left, out[i]);
  }
}

void cv_import_split(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int axis = cv_on_axis(n, cv_on_int(n, "axis", 0), cv_rank(g, x));
  cv_expr *parts = cv_arena_array(&g->arena, cv_expr, n->n_out + 1), at = e_const(g, 0);
  uint32_t count = n->n_out;
  const int64_t *list = NULL;
  const cv_expr *given = NULL;
  bool input = n->opset >= 13 && cv_on_has(n, 1);
  if (input) {
    given = cv_on_exprs(n, 1, 0, CV_ONNX_MAX_DIM, &count);
  } else if (n->opset < 13 && cv_on_attr(n, "split")) {
    list = cv_on_ints(n, "split", &count);
  } else {
    equal_parts(n, cv_dim(g, x, axis), parts);
  }
  if (!cv_ok(g)) return;
  if (count != n->n_out) {
    cv_on_fail(n, CV_INVALID, "%u sizes for %u outputs", count, n->n_out);
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    cv_expr extent = given ? given[i] : list ? e_const(g, list[i]) : parts[i];
    cv_on_set(n, i, cv_slice_axis(g, x, axis, at, extent, 1));
    at = e_add(g, at, extent);
  }
}

/* Numpy's broadcast to a shape that may itself have dims of 1. */
void cv_import_expand(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  uint32_t count;
  const cv_expr *want = cv_on_exprs(n, 1, 1, CV_ONNX_MAX_DIM, &count);
  int own = cv_rank(g, x), rank = own > (int)count ? own : (int)count;
  cv_expr dims[CV_MAX_RANK];
  if (!want) return;
  if (rank > CV_MAX_RANK) {
    cv_on_fail(n, CV_UNSUPPORTED, "%d dims, at most %d are supported", rank, CV_MAX_RANK);
    return;
  }
  for (int i = 0; i < rank; i++) {
    int from = i - (rank - own), to = i - (rank - (int)count);
    cv_expr a = from >= 0 ? cv_dim(g, x, from) : e_const(g, 1), b = to >= 0 ? want[to] : a;
    int64_t value;
    bool fixed = cv_expr_is_const(g->exprs, a, &value) && value != 1;
    dims[i] = e_is(g, a, 1) ? b : a;
    /* A shape of 1 or of the dim itself leaves the dim; another one is the same at run time. */
    if (!fixed && !e_is(g, a, 1) && !e_is(g, b, 1)) dims[i] = b;
  }
  cv_on_set(n, 0, cv_broadcast_to(g, x, dims, rank));
}

static cv_val repeat(cv_graph *g, cv_val x, int axis, cv_expr times) {
  int rank = cv_rank(g, x);
  cv_expr dims[CV_MAX_RANK + 1], wide[CV_MAX_RANK + 1];
  if (e_is(g, times, 1)) return x;
  if (rank == CV_MAX_RANK) return cv_graph_fail(g, CV_UNSUPPORTED, "repeats of 8 dims");
  for (int i = 0, k = 0; i <= rank; i++) {
    dims[i] = i == axis ? e_const(g, 1) : cv_dim(g, x, k++);
    wide[i] = i == axis ? times : dims[i];
  }
  cv_val y = cv_broadcast_to(g, cv_reshape(g, x, dims, rank + 1), wide, rank + 1);
  for (int i = axis; i < rank; i++) wide[i] = wide[i + 1];
  wide[axis] = e_mul(g, wide[axis], times);
  return cv_reshape(g, y, wide, rank);
}

void cv_import_tile(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  uint32_t count;
  const cv_expr *times = cv_on_exprs(n, 1, 0, CV_ONNX_MAX_DIM, &count);
  if (!times) return;
  if ((int)count != cv_rank(g, x)) {
    cv_on_fail(n, CV_INVALID, "%u repeats for %d dims", count, cv_rank(g, x));
    return;
  }
  for (int i = 0; i < (int)count && cv_ok(g); i++) x = repeat(g, x, i, times[i]);
  cv_on_set(n, 0, x);
}

/* [n, c, h, w] <-> [n, c / b^2, h b, w b]; DCR: the block is the slower part of the channels. */
void cv_import_depth_to_space(cv_on *n) {
  static const int64_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int64_t b = cv_on_int(n, "blocksize", 1);
  bool by_crd = strcmp(cv_on_text(n, "mode", "DCR"), "CRD") == 0;
  if (cv_rank(g, x) != 4 || b < 1) {
    cv_on_fail(n, CV_INVALID, "blocksize %lld, %d dims", (long long)b, cv_rank(g, x));
    return;
  }
  cv_expr block = e_const(g, b), h = cv_dim(g, x, 2), w = cv_dim(g, x, 3);
  cv_expr c = e_div(g, cv_dim(g, x, 1), e_const(g, b * b));
  cv_expr six[6] = {cv_dim(g, x, 0), by_crd ? c : block, block, by_crd ? block : c, h, w};
  cv_expr four[4] = {six[0], c, e_mul(g, h, block), e_mul(g, w, block)};
  cv_val y = cv_transpose(g, cv_reshape(g, x, six, 6), by_crd ? crd : dcr);
  cv_on_set(n, 0, cv_reshape(g, y, four, 4));
}

void cv_import_space_to_depth(cv_on *n) {
  static const int64_t dcr[] = {0, 3, 5, 1, 2, 4}, crd[] = {0, 1, 3, 5, 2, 4};
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int64_t b = cv_on_int(n, "blocksize", 1);
  bool by_crd = strcmp(cv_on_text(n, "mode", "DCR"), "CRD") == 0;
  if (cv_rank(g, x) != 4 || b < 1) {
    cv_on_fail(n, CV_INVALID, "blocksize %lld, %d dims", (long long)b, cv_rank(g, x));
    return;
  }
  cv_expr block = e_const(g, b), c = cv_dim(g, x, 1);
  cv_expr h = e_div(g, cv_dim(g, x, 2), block), w = e_div(g, cv_dim(g, x, 3), block);
  cv_expr six[6] = {cv_dim(g, x, 0), c, h, block, w, block};
  cv_expr four[4] = {six[0], e_mul_i(g, c, b * b), h, w};
  cv_on_set(n, 0,
            cv_reshape(g, cv_transpose(g, cv_reshape(g, x, six, 6), by_crd ? crd : dcr), four, 4));
}
