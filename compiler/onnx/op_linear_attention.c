/* LinearAttention: a matrix of state per head, read and written step by step. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

enum { MAX_UNROLLED = 16 };

typedef struct {
  cv_val q, k, v;     /* [t, b, h, d] */
  cv_val decay, beta; /* [t, b, h, 1 or d], or CV_ABSENT */
  cv_expr steps, heads, kv_heads;
} linear_attention;

/* [b, t, h d] as [t, b, h, d] in f32. */
static cv_val by_step(cv_graph *g, cv_val x, int64_t count) {
  cv_expr h = e_const(g, count);
  cv_expr dims[4] = {cv_dim(g, x, 0), cv_dim(g, x, 1), h, e_div(g, cv_dim(g, x, 2), h)};
  return cv_swap(g, cv_reshape(g, cv_widen(g, x), dims, 4), 0, 1);
}

/* State [b, kv, dk, dv] before a step to after it; the step's output [b, h, dv]. */
static cv_val step(cv_graph *g, const linear_attention *a, cv_val at, cv_val state, cv_val *out_y) {
  cv_val q = cv_gather(g, a->q, at, 0), k = cv_gather(g, a->k, at, 0),
         v = cv_gather(g, a->v, at, 0);
  cv_val key = cv_unsqueeze(g, k, 3);
  if (a->decay != CV_ABSENT) {
    state = cv_mul(g, state, cv_unsqueeze(g, cv_exp(g, cv_gather(g, a->decay, at, 0)), 3));
  }
  if (a->beta != CV_ABSENT) {
    cv_val known = cv_reduce(g, cv_mul(g, state, key), "sum", 4, false);
    v = cv_mul(g, cv_gather(g, a->beta, at, 0), cv_sub(g, v, known));
  }
  state = cv_add(g, state, cv_mul(g, key, cv_unsqueeze(g, v, 2)));
  /* Query heads in groups read one state each: [b, kv, group, dk] x [b, kv, dk, dv]. */
  cv_expr group = e_div(g, a->heads, a->kv_heads);
  cv_expr dims[4] = {cv_dim(g, q, 0), a->kv_heads, group, cv_dim(g, q, 2)};
  cv_val y = cv_matmul(g, cv_reshape(g, q, dims, 4), state, cv_dt(g, q));
  cv_expr flat[3] = {dims[0], a->heads, cv_dim(g, state, 3)};
  *out_y = cv_reshape(g, y, flat, 3);
  return state;
}

static void loop_step(cv_on *n, void *context, const cv_val *params, cv_val *results) {
  results[0] = params[1];
  results[1] = step(n->g, context, params[0], params[2], &results[2]);
}

/* All steps: the outputs [t, b, h, dv], and the last state. */
static cv_val run(cv_on *n, linear_attention *a, cv_val *state) {
  cv_graph *g = n->g;
  int64_t steps;
  if (cv_expr_is_const(g->exprs, a->steps, &steps) && steps >= 1 && steps <= MAX_UNROLLED) {
    cv_val ys[MAX_UNROLLED];
    for (int64_t i = 0; i < steps; i++) {
      *state = step(g, a, cv_graph_i64(g, i), *state, &ys[i]);
      ys[i] = cv_unsqueeze(g, ys[i], 0);
    }
    return cv_concat(g, ys, (uint32_t)steps, 0);
  }
  cv_on_loop_spec spec = {.trips = cv_scalar_of(g, a->steps, CV_I64),
                          .condition = cv_truth(g, true),
                          .carried = 1,
                          .stacked = 1,
                          .init = state,
                          .max = CV_ONNX_MAX_DIM,
                          .build = loop_step};
  cv_node *node = cv_on_loop(n, &spec, a);
  if (!node) return CV_POISON;
  *state = node->outs[0];
  cv_expr dims[4] = {a->steps};
  for (int i = 1; i < 4; i++) dims[i] = cv_dim(g, node->outs[1], i);
  return cv_assume_dims(g, node->outs[1], dims, 4);
}

void cv_import_linear_attention(cv_on *n) {
  cv_graph *g = n->g;
  cv_val q = cv_on_in(n, 0), v = cv_on_in(n, 2), past = cv_on_in(n, 3);
  int64_t count = cv_on_int(n, "q_num_heads", 0), kv = cv_on_int(n, "kv_num_heads", 0), last;
  const char *rule = cv_on_text(n, "update_rule", "gated_delta");
  bool gated = cv_starts_with(rule, "gated"), delta = cv_ends_with(rule, "delta");
  if (count < 1 || kv < 1 || count % kv != 0 || cv_rank(g, q) != 3) {
    cv_on_fail(n, CV_INVALID, "%lld heads over %lld", (long long)count, (long long)kv);
    return;
  }
  linear_attention a = {.q = by_step(g, q, count),
                        .k = by_step(g, cv_on_in(n, 1), kv),
                        .v = by_step(g, v, kv),
                        .decay = CV_ABSENT,
                        .beta = CV_ABSENT,
                        .steps = cv_dim(g, q, 1),
                        .heads = e_const(g, count),
                        .kv_heads = e_const(g, kv)};
  if (gated && cv_on_has(n, 4)) a.decay = by_step(g, n->in[4], kv);
  if (delta && cv_on_has(n, 5)) {
    bool known = cv_dim_known(g, n->in[5], 2, &last);
    a.beta = by_step(g, n->in[5], known && last == 1 ? 1 : kv);
  }
  cv_expr dims[4] = {cv_dim(g, q, 0), a.kv_heads, cv_dim(g, a.k, 3), cv_dim(g, a.v, 3)};
  cv_dtype kept = past == CV_ABSENT ? cv_dt(g, q) : cv_dt(g, past);
  cv_val state = past == CV_ABSENT ? cv_full(g, cv_dt(g, a.q), dims, 4, 0) : cv_widen(g, past);
  double scale = cv_on_float(n, "scale", 0);
  if (scale != 0) {
    a.q = cv_mul_num(g, a.q, scale);
  } else {
    a.q = cv_div(g, a.q, cv_sqrt(g, cv_scalar_of(g, cv_dim(g, a.q, 3), cv_dt(g, a.q))));
  }
  if (!cv_ok(g)) return;
  cv_val y = cv_swap(g, run(n, &a, &state), 0, 1); /* [b, t, h, dv] */
  cv_expr flat[3] = {cv_dim(g, y, 0), cv_dim(g, y, 1), e_count(g, y, 2, 4)};
  cv_on_set(n, 0, cv_cast(g, cv_reshape(g, y, flat, 3), cv_dt(g, q)));
  cv_on_set(n, 1, cv_cast(g, state, kept));
}
