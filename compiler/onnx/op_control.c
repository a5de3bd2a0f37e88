/* If, Loop and Scan: their graphs become blocks. */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"
#include "onnx.pb-c.h"

typedef struct {
  cv_block *block;
  cv_val *results;
} branch;

/* `taken` is non-zero where the branch runs: what its builders assume holds only there. */
static branch build_branch(cv_on *n, const char *attr, cv_expr taken) {
  cv_graph *g = n->g;
  cv_block *outer = g->at;
  size_t assumed = g->equalities.len;
  branch b = {cv_block_create(g, outer), cv_arena_array(&g->arena, cv_val, n->n_out + 1)};
  g->at = b.block;
  cv_on_subgraph(n, attr, NULL, 0, b.results, n->n_out);
  g->at = outer;
  for (; assumed < g->equalities.len; assumed++) {
    cv_equality *equality = &g->equalities.data[assumed];
    equality->guard = e_mul(g, equality->guard, taken);
  }
  for (uint32_t i = 0; i < n->n_out && cv_ok(g); i++) {
    if (!cv_vec_push(&b.block->results, b.results[i])) {
      cv_graph_fail(g, CV_NOMEM, "out of memory for a branch");
    }
  }
  return b;
}

/* What both branches' results have in common: a dim in which they differ is chosen by the
 * condition. False where they have not one dtype and one number of dims. */
static bool join_types(cv_graph *g, cv_expr taken, cv_val a, cv_val b, cv_type *out) {
  const cv_type ta = *cv_ty(g, a), tb = *cv_ty(g, b);
  *out = ta;
  if (ta.dtype != tb.dtype || ta.rank != tb.rank) return false;
  for (int i = 0; i < ta.rank; i++) {
    if (ta.dims[i] == tb.dims[i]) continue;
    out->dims[i] = cv_expr_select(g->exprs, taken, ta.dims[i], tb.dims[i]);
  }
  return true;
}

/* Branches of unlike dims, as exporters write a Squeeze that depends on a dim: the graph can be
 * only one of them. It is that of the request at hand, or where none is known the first; the other
 * is tried if the import fails later, as it may in a branch that this request does not take. A
 * request for which the condition is not as chosen is refused. */
static void choose(cv_on *n, cv_expr taken, cv_val a, cv_val b) {
  cv_graph *g = n->g;
  bool then;
  const cv_type ta = *cv_ty(g, a), tb = *cv_ty(g, b);
  int64_t now;
  bool sampled = cv_on_sample(n, taken, &now);
  if (!cv_on_choose(n, !sampled || now != 0, &then) && !sampled) {
    cv_on_fail(
        n, CV_UNSUPPORTED,
        "its branches give %s and %s: one number of dims is needed, or a condition known when "
        "compiling (--bind or --dim of the input it hangs on)",
        cv_type_text(g, &ta), cv_type_text(g, &tb));
    return;
  }
  if (!cv_graph_assume_equal(g, cv_expr_eq(g->exprs, taken, e_const(g, 0)), e_const(g, !then))) {
    return;
  }
  cv_on_subgraph(n, then ? "then_branch" : "else_branch", NULL, 0, n->out, n->n_out);
}

void cv_import_if(cv_on *n) {
  cv_graph *g = n->g;
  uint32_t count;
  int64_t known;
  cv_val cond = cv_as_scalar(g, cv_on_in(n, 0));
  const cv_expr *taken = cv_on_exprs_of(n, cond, 0, 1, &count);
  if (!taken) return;
  if (cv_expr_is_const(g->exprs, taken[0], &known)) {
    cv_on_subgraph(n, known ? "then_branch" : "else_branch", NULL, 0, n->out, n->n_out);
    return;
  }
  size_t assumed = g->equalities.len;
  branch a = build_branch(n, "then_branch", taken[0]);
  branch b = build_branch(n, "else_branch", e_sub(g, e_const(g, 1), taken[0]));
  cv_block *blocks[2] = {a.block, b.block};
  cv_type *types = cv_arena_array(&g->arena, cv_type, n->n_out + 1);
  for (uint32_t i = 0; i < n->n_out && cv_ok(g); i++) {
    if (join_types(g, taken[0], a.results[i], b.results[i], &types[i])) continue;
    g->equalities.len = assumed; /* the blocks are dropped */
    choose(n, taken[0], a.results[i], b.results[i]);
    return;
  }
  if (!cv_ok(g)) return;
  cv_node *node = cv_build_control(g, CV_OP_if, &cond, 1, NULL, 0, blocks, 2, types, n->n_out);
  for (uint32_t i = 0; node && i < n->n_out; i++) cv_on_set(n, i, node->outs[i]);
}

/* ---- Loop ---- */

static bool uses_from(const cv_graph *g, cv_expr e, cv_sym first) {
  for (cv_sym sym = first; sym < cv_exprs_symbols(g->exprs); sym++)
    if (cv_expr_uses(g->exprs, e, sym)) return true;
  return false;
}

/* A stacked value's dims are the same in each iteration: where a dim is made of the body's own
 * symbols (from `first` on), what it was assumed equal to outside of the body stands for it. */
static cv_val stacked_item(cv_graph *g, cv_val v, cv_sym first) {
  const cv_type type = *cv_ty(g, v);
  cv_expr dims[CV_MAX_RANK];
  for (int d = 0; d < type.rank; d++) {
    dims[d] = type.dims[d];
    if (!uses_from(g, dims[d], first)) continue;
    for (size_t i = 0; i < g->equalities.len; i++) {
      const cv_equality *equal = &g->equalities.data[i];
      if (equal->a == type.dims[d] && !uses_from(g, equal->b, first)) dims[d] = equal->b;
      if (equal->b == type.dims[d] && !uses_from(g, equal->a, first)) dims[d] = equal->a;
    }
  }
  return cv_assume_dims(g, v, dims, type.rank);
}

cv_node *cv_on_loop(cv_on *n, const cv_on_loop_spec *spec, void *context) {
  cv_graph *g = n->g;
  cv_block *outer = g->at, *body = cv_block_create(g, outer);
  uint32_t carried = spec->carried, outs = carried + spec->stacked;
  cv_val *params = cv_arena_array(&g->arena, cv_val, carried + 2);
  cv_val *results = cv_arena_array(&g->arena, cv_val, outs + 1);
  cv_val *ins = cv_arena_array(&g->arena, cv_val, carried + 2);
  cv_type *types = cv_arena_array(&g->arena, cv_type, outs + 1);
  const cv_type index = {.dtype = CV_I64}, truth = {.dtype = CV_BOOL};
  if (!cv_ok(g)) return NULL;
  params[0] = cv_graph_param(g, body, NULL, &index);
  params[1] = cv_graph_param(g, body, NULL, &truth);
  ins[0] = spec->trips;
  ins[1] = spec->condition;
  for (uint32_t i = 0; i < carried; i++) {
    cv_type type = *cv_ty(g, spec->init[i]);
    params[2 + i] = cv_graph_param(g, body, NULL, &type);
    ins[2 + i] = spec->init[i];
  }
  g->at = body;
  cv_sym first = cv_exprs_symbols(g->exprs);
  spec->build(n, context, params, results);
  if (cv_ok(g)) results[0] = cv_as_scalar(g, results[0]);
  for (uint32_t i = carried + 1; i <= outs && cv_ok(g); i++)
    results[i] = stacked_item(g, results[i], first);
  g->at = outer;
  cv_expr trips = cv_on_symbol(n, "trips", 0, spec->max);
  for (uint32_t i = 0; i <= outs && cv_ok(g); i++) {
    if (!cv_vec_push(&body->results, results[i])) {
      cv_graph_fail(g, CV_NOMEM, "out of memory for a loop");
    }
    if (i == 0) continue;
    cv_type type = *cv_ty(g, results[i]);
    if (i > carried && type.rank == CV_MAX_RANK) {
      cv_on_fail(n, CV_UNSUPPORTED, "a stacked value of more than %d dims", CV_MAX_RANK);
      return NULL;
    }
    types[i - 1] = i <= carried ? *cv_ty(g, spec->init[i - 1]) : type;
    if (i <= carried) continue;
    types[i - 1].rank = (uint8_t)(type.rank + 1);
    types[i - 1].dims[0] = trips;
    memcpy(types[i - 1].dims + 1, type.dims, type.rank * sizeof *type.dims);
  }
  cv_attr attrs[2] = {{.key = CV_ATTR_SYMBOL, .e = trips}, {.key = CV_ATTR_MAX, .i = spec->max}};
  if (!cv_ok(g)) return NULL;
  return cv_build_control(g, CV_OP_loop, ins, carried + 2, attrs, 2, &body, 1, types, outs);
}

static void loop_body(cv_on *n, void *context, const cv_val *params, cv_val *results) {
  cv_graph *g = n->g;
  uint32_t carried = *(uint32_t *)context, ins, outs;
  if (!cv_on_subgraph_size(n, "body", &ins, &outs)) return;
  cv_on_subgraph(n, "body", params, carried + 2, results, outs);
  /* What is carried keeps its dims: a body that writes them otherwise must mean the same. */
  for (uint32_t i = 0; i < carried && cv_ok(g); i++) {
    const cv_type want = *cv_ty(g, params[2 + i]), have = *cv_ty(g, results[1 + i]);
    if (want.rank != have.rank || want.dtype != have.dtype) {
      cv_on_fail(n, CV_UNSUPPORTED, "carried value %u is %s at first, %s after an iteration", i,
                 cv_type_text(g, &want), cv_type_text(g, &have));
      return;
    }
    results[1 + i] = cv_assume_dims(g, results[1 + i], want.dims, want.rank);
  }
}

void cv_import_loop(cv_on *n) {
  cv_graph *g = n->g;
  uint32_t ins, outs, count;
  int64_t known = INT64_MAX;
  if (!cv_on_subgraph_size(n, "body", &ins, &outs)) return;
  uint32_t carried = n->n_in > 2 ? n->n_in - 2 : 0;
  if (ins != carried + 2 || outs < carried + 1 || outs - 1 != n->n_out) {
    cv_on_fail(n, CV_INVALID, "a body of %u inputs and %u outputs for %u carried values", ins, outs,
               carried);
    return;
  }
  cv_on_loop_spec spec = {.carried = carried,
                          .stacked = outs - 1 - carried,
                          .init = n->in + 2,
                          .max = CV_ONNX_MAX_DIM,
                          .build = loop_body};
  spec.trips =
      cv_on_has(n, 0) ? cv_as_scalar(g, cv_cast(g, n->in[0], CV_I64)) : cv_graph_i64(g, INT64_MAX);
  spec.condition = cv_on_has(n, 1) ? cv_as_scalar(g, n->in[1]) : cv_truth(g, true);
  const cv_expr *e;
  if (cv_graph_elems(g, spec.trips, &e, &count) && cv_expr_is_const(g->exprs, e[0], &known) &&
      known >= 0 && known < spec.max) {
    spec.max = known;
  }
  cv_node *node = cv_on_loop(n, &spec, &carried);
  for (uint32_t i = 0; node && i < n->n_out; i++) cv_on_set(n, i, node->outs[i]);
}

/* ---- Scan ---- */

typedef struct {
  cv_on *n;
  uint32_t states, scans, outs;
  const int64_t *in_axes, *in_backward, *out_axes, *out_backward;
  cv_val last; /* trips - 1, i64 scalar */
} scan;

static void scan_body(cv_on *n, void *context, const cv_val *params, cv_val *results) {
  cv_graph *g = n->g;
  const scan *s = context;
  cv_val *args = cv_arena_array(&g->arena, cv_val, s->states + s->scans + 1);
  memcpy(args, params + 2, s->states * sizeof *args);
  for (uint32_t i = 0; i < s->scans; i++) {
    cv_val x = n->in[s->states + i], at = params[0];
    int axis = s->in_axes ? cv_on_axis(n, s->in_axes[i], cv_rank(g, x)) : 0;
    if (s->in_backward && s->in_backward[i]) at = cv_sub(g, s->last, at);
    args[s->states + i] = cv_gather(g, x, at, axis);
  }
  results[0] = params[1];
  cv_on_subgraph(n, "body", args, s->states + s->scans, results + 1, s->outs);
  for (uint32_t i = 0; i < s->states && cv_ok(g); i++) {
    const cv_type want = *cv_ty(g, params[2 + i]);
    results[1 + i] = cv_assume_dims(g, results[1 + i], want.dims, want.rank);
  }
}

static cv_val scan_output(cv_on *n, const scan *s, uint32_t i, cv_val y, cv_expr trips) {
  cv_graph *g = n->g;
  int rank = cv_rank(g, y);
  cv_expr dims[CV_MAX_RANK];
  int64_t perm[CV_MAX_RANK];
  for (int k = 0; k < rank; k++) dims[k] = k == 0 ? trips : cv_dim(g, y, k);
  y = cv_assume_dims(g, y, dims, rank);
  if (s->out_backward && s->out_backward[i]) y = cv_flip(g, y, 0);
  int axis = s->out_axes ? cv_on_axis(n, s->out_axes[i], rank) : 0;
  for (int k = 0; k < rank; k++) perm[k] = k < axis ? k + 1 : k == axis ? 0 : k;
  return cv_transpose(g, y, perm);
}

void cv_import_scan(cv_on *n) {
  cv_graph *g = n->g;
  scan s = {.n = n, .scans = (uint32_t)cv_on_int(n, "num_scan_inputs", 0)};
  uint32_t ins, have[4];
  if (!cv_on_subgraph_size(n, "body", &ins, &s.outs)) return;
  if (s.scans < 1 || s.scans > n->n_in || ins != n->n_in || s.outs != n->n_out ||
      n->n_in - s.scans > s.outs) {
    cv_on_fail(n, CV_INVALID, "its body does not fit its inputs and outputs");
    return;
  }
  s.states = n->n_in - s.scans;
  s.in_axes = cv_on_ints(n, "scan_input_axes", &have[0]);
  s.in_backward = cv_on_ints(n, "scan_input_directions", &have[1]);
  s.out_axes = cv_on_ints(n, "scan_output_axes", &have[2]);
  s.out_backward = cv_on_ints(n, "scan_output_directions", &have[3]);
  uint32_t stacked = s.outs - s.states;
  if ((s.in_axes && have[0] != s.scans) || (s.in_backward && have[1] != s.scans) ||
      (s.out_axes && have[2] != stacked) || (s.out_backward && have[3] != stacked)) {
    cv_on_fail(n, CV_INVALID, "axes or directions of another number than its scanned values");
    return;
  }
  cv_val x = n->in[s.states];
  cv_expr trips = cv_dim(g, x, s.in_axes ? cv_on_axis(n, s.in_axes[0], cv_rank(g, x)) : 0);
  s.last = cv_scalar_of(g, e_add_i(g, trips, -1), CV_I64);
  cv_on_loop_spec spec = {.carried = s.states,
                          .stacked = stacked,
                          .init = n->in,
                          .trips = cv_scalar_of(g, trips, CV_I64),
                          .condition = cv_truth(g, true),
                          .max = CV_ONNX_MAX_DIM,
                          .build = scan_body};
  cv_node *node = cv_on_loop(n, &spec, &s);
  for (uint32_t i = 0; node && i < n->n_out && cv_ok(g); i++) {
    cv_val y = node->outs[i];
    cv_on_set(n, i, i < s.states ? y : scan_output(n, &s, i - s.states, y, trips));
  }
}
