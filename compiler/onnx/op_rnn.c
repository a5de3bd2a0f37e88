/* RNN, GRU and LSTM: the input's products in one matrix product over all steps, then the steps, one
 * after the other where they are few, else as a loop. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "compiler/onnx/activation.h"
#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"
#include "onnx.pb-c.h"

enum { MAX_UNROLLED = 16 };

/* One direction of one node. */
typedef struct {
  cv_on *n;
  cv_onnx_cell cell;
  int gates;
  cv_expr steps, batch, hidden;
  bool backward, linear_before_reset, input_forget;
  double clip; /* 0: none */
  const char *activations[3];
  double alpha[3], beta[3];
  cv_val x;       /* products of the input: [t, b, gates h] */
  cv_val r, rb;   /* recurrent weights [h, gates h]; the recurrent bias of GRU's last gate [h] */
  cv_val p[3];    /* LSTM's peepholes i, o, f [h], or CV_ABSENT */
  cv_val lengths; /* i64 [b, 1], or CV_ABSENT */
} rnn;

/* h (and c) before and after a step. */
typedef struct {
  cv_val h, c;
} rnn_state;

static cv_val clipped(const rnn *r, cv_val x) {
  cv_graph *g = r->n->g;
  if (r->clip == 0) return x;
  return cv_max2(g, cv_min2(g, x, cv_num(g, x, r->clip)), cv_num(g, x, -r->clip));
}

static cv_val activate(const rnn *r, int which, cv_val x) {
  return cv_activation(r->n->g, r->activations[which], clipped(r, x), r->alpha[which],
                       r->beta[which]);
}

/* Gate k of [b, gates h]. */
static cv_val gate(const rnn *r, cv_val all, int k) {
  cv_graph *g = r->n->g;
  return cv_slice_axis(g, all, 1, e_mul_i(g, r->hidden, k), r->hidden, 1);
}

static cv_val recurrent(const rnn *r, cv_val h) {
  return cv_matmul(r->n->g, h, r->r, cv_dt(r->n->g, h));
}

static cv_val peeped(const rnn *r, cv_val pre, int which, cv_val c) {
  cv_graph *g = r->n->g;
  return r->p[which] == CV_ABSENT ? pre : cv_add(g, pre, cv_mul(g, r->p[which], c));
}

/* i, o, f, c; Ct = f C + i g(..), Ht = o h(Ct) */
static rnn_state lstm_step(const rnn *r, cv_val xt, rnn_state s) {
  cv_graph *g = r->n->g;
  cv_val all = cv_add(g, xt, recurrent(r, s.h));
  cv_val i = activate(r, 0, peeped(r, gate(r, all, 0), 0, s.c)), f;
  if (r->input_forget) {
    f = cv_sub(g, cv_num(g, i, 1), i);
  } else {
    f = activate(r, 0, peeped(r, gate(r, all, 2), 2, s.c));
  }
  cv_val c = cv_add(g, cv_mul(g, f, s.c), cv_mul(g, i, activate(r, 1, gate(r, all, 3))));
  cv_val o = activate(r, 0, peeped(r, gate(r, all, 1), 1, c));
  return (rnn_state){cv_mul(g, o, activate(r, 2, c)), c};
}

/* z, r, h; Ht = (1 - z) g(..) + z H */
static rnn_state gru_step(const rnn *r, cv_val xt, rnn_state s) {
  cv_graph *g = r->n->g;
  cv_expr nil = e_const(g, 0), two = e_mul_i(g, r->hidden, 2);
  cv_val h, inner;
  if (r->linear_before_reset) {
    cv_val all = recurrent(r, s.h);
    cv_val zr =
        cv_add(g, cv_slice_axis(g, xt, 1, nil, two, 1), cv_slice_axis(g, all, 1, nil, two, 1));
    cv_val z = activate(r, 0, gate(r, zr, 0)), reset = activate(r, 0, gate(r, zr, 1));
    inner = gate(r, all, 2);
    if (r->rb != CV_ABSENT) inner = cv_add(g, inner, r->rb);
    h = activate(r, 1, cv_add(g, gate(r, xt, 2), cv_mul(g, reset, inner)));
    s.h = cv_add(g, cv_mul(g, cv_sub(g, cv_num(g, z, 1), z), h), cv_mul(g, z, s.h));
    return s;
  }
  cv_dtype dtype = cv_dt(g, s.h);
  cv_val w_zr = cv_slice_axis(g, r->r, 1, nil, two, 1),
         w_h = cv_slice_axis(g, r->r, 1, two, r->hidden, 1);
  cv_val zr = cv_add(g, cv_slice_axis(g, xt, 1, nil, two, 1), cv_matmul(g, s.h, w_zr, dtype));
  cv_val z = activate(r, 0, gate(r, zr, 0)), reset = activate(r, 0, gate(r, zr, 1));
  inner = cv_matmul(g, cv_mul(g, reset, s.h), w_h, dtype);
  if (r->rb != CV_ABSENT) inner = cv_add(g, inner, r->rb);
  h = activate(r, 1, cv_add(g, gate(r, xt, 2), inner));
  s.h = cv_add(g, cv_mul(g, cv_sub(g, cv_num(g, z, 1), z), h), cv_mul(g, z, s.h));
  return s;
}

/* One step at time `at` (i64 scalar): the next state, and what goes to Y. Rows past their length
 * keep their state and give 0. */
static rnn_state step(const rnn *r, cv_val at, rnn_state s, cv_val *out_y) {
  cv_graph *g = r->n->g;
  cv_val xt = cv_gather(g, r->x, at, 0);
  rnn_state next = s;
  if (r->cell == CV_CELL_LSTM) {
    next = lstm_step(r, xt, s);
  } else if (r->cell == CV_CELL_GRU) {
    next = gru_step(r, xt, s);
  } else {
    next.h = activate(r, 0, cv_add(g, xt, recurrent(r, s.h)));
  }
  *out_y = next.h;
  if (r->lengths == CV_ABSENT) return next;
  cv_val live = cv_lt(g, at, r->lengths);
  *out_y = cv_select(g, live, next.h, cv_num(g, next.h, 0));
  next.h = cv_select(g, live, next.h, s.h);
  if (r->cell == CV_CELL_LSTM) next.c = cv_select(g, live, next.c, s.c);
  return next;
}

static cv_val unrolled(const rnn *r, int64_t steps, rnn_state *state) {
  cv_graph *g = r->n->g;
  cv_val ys[MAX_UNROLLED];
  for (int64_t i = 0; i < steps && cv_ok(g); i++) {
    int64_t t = r->backward ? steps - 1 - i : i;
    *state = step(r, cv_graph_i64(g, t), *state, &ys[t]);
    ys[t] = cv_unsqueeze(g, ys[t], 0);
  }
  return cv_ok(g) ? cv_concat(g, ys, (uint32_t)steps, 0) : CV_POISON;
}

static void loop_step(cv_on *n, void *context, const cv_val *params, cv_val *results) {
  const rnn *r = context;
  cv_graph *g = n->g;
  rnn_state s = {params[2], r->cell == CV_CELL_LSTM ? params[3] : CV_ABSENT};
  cv_val at = params[0], y;
  if (r->backward) at = cv_sub(g, cv_scalar_of(g, e_add_i(g, r->steps, -1), CV_I64), at);
  s = step(r, at, s, &y);
  uint32_t k = 0;
  results[k++] = params[1];
  results[k++] = s.h;
  if (r->cell == CV_CELL_LSTM) results[k++] = s.c;
  results[k++] = y;
}

static cv_val looped(rnn *r, rnn_state *state) {
  cv_graph *g = r->n->g;
  bool lstm = r->cell == CV_CELL_LSTM;
  int64_t lo, hi;
  cv_expr_bounds(g->exprs, r->steps, &lo, &hi);
  cv_val init[2] = {state->h, state->c};
  cv_on_loop_spec spec = {.trips = cv_scalar_of(g, r->steps, CV_I64),
                          .condition = cv_truth(g, true),
                          .carried = lstm ? 2 : 1,
                          .stacked = 1,
                          .init = init,
                          .max = hi < 0 ? 0 : hi,
                          .build = loop_step};
  cv_node *node = cv_on_loop(r->n, &spec, r);
  if (!node) return CV_POISON;
  state->h = node->outs[0];
  if (lstm) state->c = node->outs[1];
  cv_expr dims[3] = {r->steps, r->batch, r->hidden};
  cv_val y = cv_assume_dims(g, node->outs[lstm ? 2 : 1], dims, 3);
  return r->backward ? cv_flip(g, y, 0) : y;
}

/* ---- what the node says ---- */

/* Entry d of the direction axis, which is dropped; CV_ABSENT stays. */
static cv_val direction_of(cv_graph *g, cv_val v, int d) {
  if (v == CV_ABSENT) return v;
  return cv_squeeze(g, cv_slice_const(g, v, 0, d, 1), 1);
}

static void read_activations(rnn *r, int direction) {
  static const char *const defaults[3][3] = {
      {"Tanh", "", ""}, {"Sigmoid", "Tanh", ""}, {"Sigmoid", "Tanh", "Tanh"}};
  static const char *const names[] = {
      "Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
      "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
  int per = (int)r->cell + 1;
  const Onnx__AttributeProto *attr = cv_on_attr(r->n, "activations");
  uint32_t n_alpha, n_beta;
  const float *alpha = cv_on_floats(r->n, "activation_alpha", &n_alpha);
  const float *beta = cv_on_floats(r->n, "activation_beta", &n_beta);
  for (int i = 0; i < per; i++) {
    uint32_t k = (uint32_t)(direction * per + i);
    r->activations[i] = defaults[r->cell][i];
    r->alpha[i] = alpha && k < n_alpha ? (double)alpha[k] : NAN;
    r->beta[i] = beta && k < n_beta ? (double)beta[k] : NAN;
    if (!attr || k >= attr->n_strings || !attr->strings[k].len) continue;
    char *given = cv_arena_strndup(&r->n->g->arena, (const char *)attr->strings[k].data,
                                   attr->strings[k].len);
    r->activations[i] = given;
    for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
      if (strcasecmp(given, names[j]) == 0) r->activations[i] = names[j];
    }
  }
}

/* Splits B into what is added to the input's product and what GRU keeps for its last gate. */
static cv_val input_bias(rnn *r, cv_val b) {
  cv_graph *g = r->n->g;
  r->rb = CV_ABSENT;
  if (b == CV_ABSENT) return b;
  cv_expr size = e_mul_i(g, r->hidden, r->gates), nil = e_const(g, 0);
  cv_val wb = cv_slice_axis(g, b, 0, nil, size, 1), rb = cv_slice_axis(g, b, 0, size, size, 1);
  if (r->cell != CV_CELL_GRU) return cv_add(g, wb, rb);
  cv_expr two = e_mul_i(g, r->hidden, 2);
  r->rb = cv_slice_axis(g, rb, 0, two, r->hidden, 1);
  cv_val kept[2] = {cv_slice_axis(g, rb, 0, nil, two, 1),
                    cv_full(g, cv_dt(g, b), &r->hidden, 1, 0)};
  return cv_add(g, wb, cv_concat(g, kept, 2, 0));
}

static cv_val initial(rnn *r, cv_val given, int direction) {
  cv_graph *g = r->n->g;
  cv_expr dims[2] = {r->batch, r->hidden};
  if (given == CV_ABSENT) return cv_full(g, cv_dt(g, r->x), dims, 2, 0);
  return cv_assume_dims(g, direction_of(g, given, direction), dims, 2);
}

/* One direction: Y [t, b, h] and the final state. */
static cv_val run_direction(rnn *r, cv_val x, int direction, rnn_state *out_state) {
  cv_on *n = r->n;
  cv_graph *g = n->g;
  bool second = cv_on_int(n, "layout", 0) != 0;
  cv_val w = direction_of(g, cv_on_in(n, 1), direction);
  cv_val p = direction_of(g, cv_on_in(n, 7), direction), h0 = cv_on_in(n, 5), c0 = cv_on_in(n, 6);
  int64_t steps;
  if (second && h0 != CV_ABSENT) h0 = cv_swap(g, h0, 0, 1);
  if (second && c0 != CV_ABSENT) c0 = cv_swap(g, c0, 0, 1);
  r->r = cv_swap(g, direction_of(g, cv_on_in(n, 2), direction), 0, 1);
  cv_val bias = input_bias(r, direction_of(g, cv_on_in(n, 3), direction));
  r->x = cv_matmul_bc(g, x, cv_swap(g, w, 0, 1), cv_dt(g, x));
  if (bias != CV_ABSENT) r->x = cv_add(g, r->x, bias);
  for (int i = 0; i < 3; i++) {
    r->p[i] = p == CV_ABSENT || r->cell != CV_CELL_LSTM
                  ? CV_ABSENT
                  : cv_slice_axis(g, p, 0, e_mul_i(g, r->hidden, i), r->hidden, 1);
  }
  read_activations(r, direction);
  out_state->h = initial(r, h0, direction);
  out_state->c = r->cell == CV_CELL_LSTM ? initial(r, c0, direction) : CV_ABSENT;
  if (!cv_ok(g)) return CV_POISON;
  if (cv_expr_is_const(g->exprs, r->steps, &steps) && steps >= 1 && steps <= MAX_UNROLLED) {
    return unrolled(r, steps, out_state);
  }
  return looped(r, out_state);
}

static cv_val stack(cv_graph *g, const cv_val *parts, int n, int axis) {
  cv_val wide[2];
  for (int i = 0; i < n; i++) wide[i] = cv_unsqueeze(g, parts[i], axis);
  return cv_concat(g, wide, (uint32_t)n, axis);
}

void cv_import_rnn(cv_on *n) {
  cv_graph *g = n->g;
  const char *direction = cv_on_text(n, "direction", "forward");
  bool layout = cv_on_int(n, "layout", 0) != 0, both = strcmp(direction, "bidirectional") == 0;
  cv_val x = cv_on_in(n, 0), ys[2], hs[2], cs[2];
  if (cv_rank(g, x) != 3 || cv_rank(g, cv_on_in(n, 1)) != 3 || cv_rank(g, cv_on_in(n, 2)) != 3) {
    if (cv_ok(g)) cv_on_fail(n, CV_INVALID, "X, W and R must have 3 dims");
    return;
  }
  if (layout) x = cv_swap(g, x, 0, 1);
  rnn r = {.n = n,
           .cell = (cv_onnx_cell)n->row->arg,
           .gates = n->row->arg == CV_CELL_LSTM  ? 4
                    : n->row->arg == CV_CELL_GRU ? 3
                                                 : 1,
           .steps = cv_dim(g, x, 0),
           .batch = cv_dim(g, x, 1),
           .hidden = cv_dim(g, cv_on_in(n, 2), 2),
           .linear_before_reset = cv_on_int(n, "linear_before_reset", 0) != 0,
           .input_forget = cv_on_int(n, "input_forget", 0) != 0,
           .clip = cv_on_float(n, "clip", 0),
           .lengths = CV_ABSENT};
  if (cv_on_has(n, 4)) r.lengths = cv_unsqueeze(g, cv_cast(g, n->in[4], CV_I64), 1);
  int count = both ? 2 : 1;
  for (int d = 0; d < count && cv_ok(g); d++) {
    rnn_state state;
    r.backward = strcmp(direction, "reverse") == 0 || d == 1;
    ys[d] = run_direction(&r, x, d, &state);
    hs[d] = state.h;
    cs[d] = state.c;
  }
  if (!cv_ok(g)) return;
  /* layout 0: Y [t, d, b, h], Y_h [d, b, h]; 1: Y [b, t, d, h], Y_h [b, d, h] */
  cv_val y = stack(g, ys, count, 1);
  if (layout) y = cv_transpose(g, y, (const int64_t[]){2, 0, 1, 3});
  cv_on_set(n, 0, y);
  cv_on_set(n, 1, stack(g, hs, count, layout ? 1 : 0));
  if (r.cell == CV_CELL_LSTM) cv_on_set(n, 2, stack(g, cs, count, layout ? 1 : 0));
}
