/* Attention and what belongs to it: rotary positions, gated units, state-space forms. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

/* [b, s, heads d] as [b, heads, s, d]; 4 dims stay. */
static cv_val heads(cv_on *n, cv_val x, int64_t count) {
  cv_graph *g = n->g;
  if (cv_rank(g, x) == 4) return x;
  if (cv_rank(g, x) != 3 || count < 1) {
    return cv_on_fail(n, CV_INVALID, "inputs of 3 dims need a number of heads");
  }
  cv_expr h = e_const(g, count);
  cv_expr dims[4] = {cv_dim(g, x, 0), cv_dim(g, x, 1), h, e_div(g, cv_dim(g, x, 2), h)};
  return cv_swap(g, cv_reshape(g, x, dims, 4), 1, 2);
}

/* [b, heads, s, d] as [b, s, heads d]. */
static cv_val merged_heads(cv_graph *g, cv_val x) {
  x = cv_swap(g, x, 1, 2);
  cv_expr dims[3] = {cv_dim(g, x, 0), cv_dim(g, x, 1), e_count(g, x, 2, 4)};
  return cv_reshape(g, x, dims, 3);
}

/* Each head of [b, kv, ..] as often as needed for `count` heads: h0, h0, h1, h1. */
static cv_val spread_heads(cv_graph *g, cv_val x, cv_expr count) {
  cv_expr kv = cv_dim(g, x, 1), times = e_div(g, count, kv);
  if (count == kv || e_is(g, times, 1)) return x;
  int rank = cv_rank(g, x);
  cv_val wide = cv_unsqueeze(g, x, 2);
  cv_expr dims[CV_MAX_RANK];
  for (int i = 0; i <= rank; i++) dims[i] = cv_dim(g, wide, i);
  dims[2] = times;
  wide = cv_broadcast_to(g, wide, dims, rank + 1);
  for (int i = 0; i < rank; i++) dims[i] = i == 1 ? count : cv_dim(g, x, i);
  return cv_reshape(g, wide, dims, rank);
}

typedef struct {
  cv_val q, k, v; /* [b, heads, s, d], wide */
  cv_expr past;   /* keys before the new ones; CV_EXPR_NONE without a cache */
  cv_val lengths; /* i64 [b, 1, 1, 1]: keys that are not padding, or CV_ABSENT */
} attention;

/* Adds a bias of 0 where allowed, else -inf, to one that may be absent. */
static cv_val allow(cv_graph *g, cv_val bias, cv_val allowed, cv_val like) {
  cv_val more = cv_select(g, allowed, cv_num(g, like, 0), cv_num(g, like, -INFINITY));
  return bias == CV_ABSENT ? more : cv_add(g, bias, more);
}

/* The mask as a bias, its last dim padded to the keys'. */
static cv_val mask_bias(cv_on *n, const attention *a, cv_val mask) {
  cv_graph *g = n->g;
  int rank = cv_rank(g, mask);
  int64_t have, want;
  cv_expr keys = cv_dim(g, a->k, 2), dims[CV_MAX_RANK], hi[CV_MAX_RANK];
  bool truth = cv_dt(g, mask) == CV_BOOL;
  if (rank == 0) return cv_on_fail(n, CV_INVALID, "attn_mask has no dims");
  if (!truth) mask = cv_cast(g, mask, cv_dt(g, a->q));
  if (cv_dim_known(g, mask, rank - 1, &have) && cv_expr_is_const(g->exprs, keys, &want)) {
    for (int i = 0; i < rank; i++) dims[i] = hi[i] = e_const(g, 0);
    hi[rank - 1] = e_const(g, want > have ? want - have : 0);
    cv_val fill = truth ? cv_truth(g, false) : cv_num(g, a->q, -INFINITY);
    mask = cv_pad(g, mask, fill, dims, hi);
  } else {
    for (int i = 0; i < rank; i++) dims[i] = i == rank - 1 ? keys : cv_dim(g, mask, i);
    mask = cv_assume_dims(g, mask, dims, rank);
  }
  return truth ? allow(g, CV_ABSENT, mask, a->q) : mask;
}

/* All that keeps a query from a key: mask, causality, window, padding; CV_ABSENT if nothing does.
 */
static cv_val bias_of(cv_on *n, const attention *a) {
  cv_graph *g = n->g;
  int64_t left = cv_on_int(n, "left_window_size", -1),
          right = cv_on_int(n, "right_window_size", -1);
  cv_expr queries = cv_dim(g, a->q, 2);
  cv_val bias = cv_on_has(n, 3) ? mask_bias(n, a, n->in[3]) : CV_ABSENT;
  cv_val at = cv_index_along(g, queries, 2, 4), key = cv_index_along(g, cv_dim(g, a->k, 2), 3, 4);
  if (a->past != CV_EXPR_NONE) {
    at = cv_add(g, at, cv_scalar_of(g, a->past, CV_I64));
  } else if (a->lengths != CV_ABSENT) {
    at = cv_add(g, at, cv_sub(g, a->lengths, cv_scalar_of(g, queries, CV_I64)));
  }
  if (cv_on_int(n, "is_causal", 0)) bias = allow(g, bias, cv_le(g, key, at), a->q);
  if (left >= 0) {
    bias = allow(g, bias, cv_le(g, at, cv_add(g, key, cv_graph_i64(g, left))), a->q);
  }
  if (right >= 0) {
    bias = allow(g, bias, cv_le(g, key, cv_add(g, at, cv_graph_i64(g, right))), a->q);
  }
  if (a->lengths != CV_ABSENT) bias = allow(g, bias, cv_lt(g, key, a->lengths), a->q);
  return bias;
}

/* Softmax over the keys; a query that may see none gets zeros. */
static cv_val weights_of(cv_on *n, cv_val scores, cv_val bias) {
  cv_graph *g = n->g;
  cv_dtype precision;
  int64_t number = cv_on_int(n, "softmax_precision", 0);
  if (number && cv_dtype_from_onnx((int)number, &precision) && precision == CV_F64) {
    scores = cv_cast(g, scores, CV_F64);
  }
  cv_val p = cv_softmax(g, scores, 8);
  if (bias != CV_ABSENT && cv_ok(g)) {
    cv_val top = cv_reduce(g, bias, "max", 1u << (cv_rank(g, bias) - 1), true);
    p = cv_select(g, cv_eq(g, top, cv_num(g, bias, -INFINITY)), cv_num(g, p, 0), p);
  }
  return p;
}

static bool read_attention(cv_on *n, attention *a) {
  cv_graph *g = n->g;
  cv_val q = cv_on_in(n, 0);
  cv_val k = heads(n, cv_on_in(n, 1), cv_on_int(n, "kv_num_heads", 0));
  cv_val v = heads(n, cv_on_in(n, 2), cv_on_int(n, "kv_num_heads", 0));
  q = heads(n, q, cv_on_int(n, "q_num_heads", 0));
  if (!cv_ok(g)) return false;
  a->past = CV_EXPR_NONE;
  a->lengths = CV_ABSENT;
  if (cv_on_has(n, 4) && cv_on_has(n, 5)) {
    a->past = cv_dim(g, n->in[4], 2);
    k = cv_concat(g, (const cv_val[]){n->in[4], k}, 2, 2);
    v = cv_concat(g, (const cv_val[]){n->in[5], v}, 2, 2);
  }
  if (cv_on_has(n, 6)) a->lengths = cv_along(g, cv_cast(g, n->in[6], CV_I64), 0, 4);
  cv_on_set(n, 1, k);
  cv_on_set(n, 2, v);
  cv_expr count = cv_dim(g, q, 1);
  a->q = cv_widen(g, q);
  a->k = cv_widen(g, spread_heads(g, k, count));
  a->v = cv_widen(g, spread_heads(g, v, count));
  return cv_ok(g);
}

/* The scale of scores: 1 / sqrt(d) unless given. */
static cv_val scaled_query(cv_on *n, const attention *a) {
  cv_graph *g = n->g;
  if (cv_on_attr(n, "scale")) return cv_mul_num(g, a->q, cv_on_float(n, "scale", 1));
  cv_val d = cv_scalar_of(g, cv_dim(g, a->q, 3), cv_dt(g, a->q));
  return cv_div(g, a->q, cv_sqrt(g, d));
}

void cv_import_attention(cv_on *n) {
  cv_graph *g = n->g;
  attention a;
  cv_dtype dtype = cv_dt(g, cv_on_in(n, 0));
  double cap = cv_on_float(n, "softcap", 0);
  int64_t mode = cv_on_int(n, "qk_matmul_output_mode", 0);
  if (!read_attention(n, &a)) return;
  cv_val scores = cv_matmul_bc(g, scaled_query(n, &a), cv_swap(g, a.k, 2, 3), cv_dt(g, a.q));
  if (cap > 0) {
    cv_val inner = cv_div(g, scores, cv_num(g, scores, cap));
    scores = cv_mul_num(g, cv_unary(g, CV_OP_tanh, inner), cap);
  }
  cv_val bias = bias_of(n, &a), biased = bias == CV_ABSENT ? scores : cv_add(g, scores, bias);
  cv_val p = cv_cast(g, weights_of(n, biased, bias), cv_dt(g, a.v));
  cv_val y = cv_cast(g, cv_matmul_bc(g, p, a.v, cv_dt(g, a.v)), dtype);
  cv_on_set(n, 0, cv_rank(g, cv_on_in(n, 0)) == 3 ? merged_heads(g, y) : y);
  cv_on_set(n, 3, cv_cast(g, mode == 3 ? p : mode == 2 ? biased : scores, dtype));
}

/* Pairs of x turned by angles given as cosines and sines, [len, d/2] by position or [b, s, d/2]. */
void cv_import_rotary(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), cosine = cv_on_in(n, 1), sine = cv_on_in(n, 2);
  bool flat = cv_rank(g, x) == 3, interleaved = cv_on_int(n, "interleaved", 0) != 0;
  cv_val y = heads(n, x, cv_on_int(n, "num_heads", 0));
  int64_t part = cv_on_int(n, "rotary_embedding_dim", 0);
  if (!cv_ok(g)) return;
  cv_expr d = cv_dim(g, y, 3), turned = part ? e_const(g, part) : d, nil = e_const(g, 0);
  cv_expr half = e_div(g, turned, e_const(g, 2));
  if (cv_on_has(n, 3)) {
    cosine = cv_gather(g, cosine, n->in[3], 0);
    sine = cv_gather(g, sine, n->in[3], 0);
  }
  cosine = cv_unsqueeze(g, cosine, 1); /* [b, 1, s, d/2] */
  sine = cv_unsqueeze(g, sine, 1);
  int64_t step = interleaved ? 2 : 1;
  cv_val a = cv_slice_axis(g, y, 3, nil, half, step);
  cv_val b = cv_slice_axis(g, y, 3, interleaved ? e_const(g, 1) : half, half, step);
  cv_val real = cv_sub(g, cv_mul(g, cosine, a), cv_mul(g, sine, b));
  cv_val imaginary = cv_add(g, cv_mul(g, sine, a), cv_mul(g, cosine, b));
  cv_val parts[2] = {real, imaginary};
  if (interleaved) {
    cv_val wide[2] = {cv_unsqueeze(g, real, 4), cv_unsqueeze(g, imaginary, 4)};
    cv_expr dims[4] = {cv_dim(g, y, 0), cv_dim(g, y, 1), cv_dim(g, y, 2), turned};
    parts[0] = cv_reshape(g, cv_concat(g, wide, 2, 4), dims, 4);
  }
  cv_val out = interleaved ? parts[0] : cv_concat(g, parts, 2, 3);
  if (turned != d) {
    cv_val rest[2] = {out, cv_slice_axis(g, y, 3, turned, e_sub(g, d, turned), 1)};
    out = cv_concat(g, rest, 2, 3);
  }
  cv_on_set(n, 0, flat ? merged_heads(g, out) : out);
}

/* a sigmoid(alpha a) b */
void cv_import_swiglu(cv_on *n) {
  cv_graph *g = n->g;
  cv_val a = cv_on_in(n, 0);
  double alpha = cv_on_float(n, "alpha", 1);
  cv_val gate = cv_sigmoid(g, alpha == 1 ? a : cv_mul_num(g, a, alpha));
  cv_on_set(n, 0, cv_mul(g, cv_mul(g, a, gate), cv_on_in(n, 1)));
}

/* A depthwise convolution over [b, c, past + length] with what came before kept as state. */
void cv_import_causal_conv(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), w = cv_on_in(n, 1), past = cv_on_in(n, 3);
  const char *activation = cv_on_text(n, "activation", "none");
  int64_t k, channels;
  if (cv_rank(g, x) != 3 || cv_rank(g, w) != 3 || !cv_dim_known(g, w, 2, &k) ||
      !cv_dim_known(g, w, 0, &channels)) {
    if (cv_ok(g))
      cv_on_fail(n, CV_INVALID, "input and weight must have 3 dims, the weight's constant");
    return;
  }
  if (past == CV_ABSENT) {
    cv_expr dims[3] = {cv_dim(g, x, 0), cv_dim(g, x, 1), e_const(g, k - 1)};
    past = cv_full(g, cv_dt(g, x), dims, 3, 0);
  }
  cv_val all = k == 1 ? x : cv_concat(g, (const cv_val[]){past, x}, 2, 2);
  cv_window_attrs attrs = {.spatial = 1,
                           .strides = {1},
                           .dilations = {1},
                           .lhs_dilation = {1},
                           .kernel = {k},
                           .groups = channels};
  attrs.lo[0] = attrs.hi[0] = e_const(g, 0);
  cv_val y = cv_conv(g, all, w, &attrs, cv_dt(g, x));
  if (cv_on_has(n, 2)) y = cv_add(g, y, cv_along(g, n->in[2], 1, 3));
  if (strcmp(activation, "none") != 0) {
    cv_val wide = cv_widen(g, y);
    y = cv_cast(g, cv_mul(g, wide, cv_sigmoid(g, wide)), cv_dt(g, y));
  }
  cv_on_set(n, 0, y);
  cv_expr extra = e_const(g, k - 1);
  cv_on_set(n, 1, cv_slice_axis(g, all, 2, e_sub(g, cv_dim(g, all, 2), extra), extra, 1));
}
