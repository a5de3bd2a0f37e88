/* How each op moves the batch. */
#include <string.h>

#include "compiler/separable_internal.h"

static const cv_batched none = {.axis = -1};

static cv_batched *state(const cv_proof *proof, cv_val v) { return &proof->value[v]; }
static bool depends(const cv_proof *proof, cv_val v) { return proof->value[v].axis >= 0; }

static int rank_of(const cv_proof *proof, cv_val v) { return cv_type_of(proof->graph, v)->rank; }

static bool any_depends(const cv_proof *proof, const cv_node *node) {
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (depends(proof, node->ins[i])) return true;
  return false;
}

/* The common state of two values with the same dims; false if their items lie apart differently. */
static bool agree(const cv_batched *a, const cv_batched *b, cv_batched *out) {
  if (a->axis < 0 || (a->uniform && b->axis == a->axis)) {
    *out = *b;
    return true;
  }
  *out = *a;
  if (b->axis < 0 || (b->uniform && a->axis == b->axis)) return true;
  return a->axis == b->axis && a->outer == b->outer && a->inner == b->inner;
}

/* All inputs have the outputs' dims. */
static bool prove_map(cv_proof *proof, const cv_node *node) {
  cv_batched out = none;
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (!agree(&out, state(proof, node->ins[i]), &out))
      return cv_proof_no(proof, node, "combines different items of the batch");
  *state(proof, node->outs[0]) = out;
  return true;
}

/* a / b if that is exact, else CV_EXPR_NONE. */
static cv_expr quotient(const cv_proof *proof, cv_expr a, cv_expr b) {
  cv_expr q = cv_expr_div(proof->graph->exprs, a, b);
  return cv_expr_mul(proof->graph->exprs, q, b) == a ? q : CV_EXPR_NONE;
}

/* The batch in the new dim d: what stands before and behind it in the run of dims must match what
 * stood there. */
static bool try_dim(const cv_proof *proof, const cv_type *to, const cv_dim_run *run, int d,
                    const cv_batched *stood, cv_batched *out) {
  cv_exprs *exprs = proof->graph->exprs;
  cv_expr before = cv_dims_count_expr(proof->graph, to->dims, run->b0, d);
  cv_expr behind = cv_dims_count_expr(proof->graph, to->dims, d + 1, run->b1);
  cv_expr outer = quotient(proof, stood->outer, before);
  cv_expr inner = quotient(proof, stood->inner, behind);
  if (outer == CV_EXPR_NONE || inner == CV_EXPR_NONE) return false;
  if (cv_expr_mul(exprs, cv_expr_mul(exprs, outer, proof->size), inner) != to->dims[d])
    return false;
  out->axis = d;
  out->outer = outer;
  out->inner = inner;
  return true;
}

static bool prove_reshape(cv_proof *proof, const cv_node *node) {
  cv_exprs *exprs = proof->graph->exprs;
  const cv_batched *x = state(proof, node->ins[0]);
  cv_type from = *cv_type_of(proof->graph, node->ins[0]);
  cv_type to = *cv_type_of(proof->graph, node->outs[0]);
  cv_batched out = *x;
  if (x->axis < 0) return true;
  for (int d = 0; d < from.rank; d++) from.dims[d] = cv_proof_known(proof, from.dims[d]);
  for (int d = 0; d < to.rank; d++) to.dims[d] = cv_proof_known(proof, to.dims[d]);
  for (int d = 0; x->uniform && d < to.rank; d++) {
    if (!cv_proof_uses(proof, to.dims[d])) continue;
    *state(proof, node->outs[0]) = cv_proof_dim(proof, d, to.dims[d], true);
    return true;
  }
  cv_dim_run run = {0};
  bool found = false;
  while (!found && cv_dims_next(proof->graph, &from, &to, &run)) found = x->axis < run.a1;
  if (!found)
    return cv_proof_no(proof, node, "merges or splits the batch in a way that cannot be followed");
  cv_batched stood = *x; /* in the run as a whole */
  cv_expr before = cv_dims_count_expr(proof->graph, from.dims, run.a0, x->axis);
  cv_expr behind = cv_dims_count_expr(proof->graph, from.dims, x->axis + 1, run.a1);
  stood.outer = cv_expr_mul(exprs, before, x->outer);
  stood.inner = cv_expr_mul(exprs, behind, x->inner);
  for (int d = run.b0; d < run.b1; d++) {
    if (!try_dim(proof, &to, &run, d, &stood, &out)) continue;
    *state(proof, node->outs[0]) = out;
    return true;
  }
  return cv_proof_no(proof, node, "mixes the batch with other dims");
}

static bool prove_transpose(cv_proof *proof, const cv_node *node) {
  const cv_attr *perm = cv_node_attr(node, CV_ATTR_PERM);
  cv_batched out = *state(proof, node->ins[0]);
  for (uint32_t d = 0; d < perm->count; d++)
    if (perm->ints[d] == state(proof, node->ins[0])->axis) out.axis = (int)d;
  *state(proof, node->outs[0]) = out;
  return true;
}

static bool prove_broadcast(cv_proof *proof, const cv_node *node) {
  const cv_type *from = cv_type_of(proof->graph, node->ins[0]);
  const cv_type *to = cv_type_of(proof->graph, node->outs[0]);
  cv_batched out = *state(proof, node->ins[0]);
  for (int d = 0; d < to->rank; d++) {
    if (from->dims[d] == to->dims[d] || !cv_proof_uses(proof, to->dims[d])) continue;
    if (out.axis >= 0) return cv_proof_no(proof, node, "repeats items of the batch for each other");
    out = cv_proof_dim(proof, d, to->dims[d], true);
  }
  *state(proof, node->outs[0]) = out;
  return true;
}

static bool prove_slice(cv_proof *proof, const cv_node *node) {
  const cv_batched *x = state(proof, node->ins[0]);
  const cv_attr *starts = cv_node_attr(node, CV_ATTR_STARTS),
                *steps = cv_node_attr(node, CV_ATTR_STEPS);
  const cv_type *from = cv_type_of(proof->graph, node->ins[0]);
  const cv_type *to = cv_type_of(proof->graph, node->outs[0]);
  for (int d = 0; d < from->rank; d++) {
    int64_t zero = 1;
    bool whole = cv_expr_is_const(proof->graph->exprs, starts->exprs[d], &zero) && zero == 0 &&
                 steps->ints[d] == 1 && from->dims[d] == to->dims[d];
    if (d == x->axis && !whole && !x->uniform)
      return cv_proof_no(proof, node, "takes some items of the batch and not others");
    if (cv_proof_uses(proof, starts->exprs[d]))
      return cv_proof_no(proof, node, "starts at a place that depends on the batch");
  }
  *state(proof, node->outs[0]) = *x;
  if (x->axis >= 0 && x->uniform)
    *state(proof, node->outs[0]) = cv_proof_dim(proof, x->axis, to->dims[x->axis], true);
  return true;
}

static bool prove_pad(cv_proof *proof, const cv_node *node) {
  const cv_batched *x = state(proof, node->ins[0]);
  const cv_attr *sides[2] = {cv_node_attr(node, CV_ATTR_LO), cv_node_attr(node, CV_ATTR_HI)};
  for (int s = 0; s < 2; s++)
    for (uint32_t d = 0; d < sides[s]->count; d++) {
      int64_t zero;
      bool nothing = cv_expr_is_const(proof->graph->exprs, sides[s]->exprs[d], &zero) && zero == 0;
      if (((int)d == x->axis && !nothing) || cv_proof_uses(proof, sides[s]->exprs[d]))
        return cv_proof_no(proof, node, "pads along the batch");
    }
  *state(proof, node->outs[0]) = *x;
  return true;
}

static bool prove_concat(cv_proof *proof, const cv_node *node) {
  cv_batched out = none;
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (!agree(&out, state(proof, node->ins[i]), &out))
      return cv_proof_no(proof, node, "joins different items of the batch");
  if (out.axis >= 0 && out.axis == cv_node_int(node, CV_ATTR_AXIS))
    return cv_proof_no(proof, node, "joins along the batch");
  *state(proof, node->outs[0]) = out;
  return true;
}

static bool prove_gather(cv_proof *proof, const cv_node *node) {
  const cv_batched *x = state(proof, node->ins[0]), *idx = state(proof, node->ins[1]);
  int axis = (int)cv_node_int(node, CV_ATTR_AXIS);
  cv_batched *out = state(proof, node->outs[0]);
  if (x->axis >= 0 && idx->axis >= 0)
    return cv_proof_no(proof, node, "picks from the batch by indices of the batch");
  if (x->axis >= 0 && x->axis == axis) return cv_proof_no(proof, node, "picks along the batch");
  *out = x->axis >= 0 ? *x : *idx;
  if (x->axis > axis) out->axis = x->axis + rank_of(proof, node->ins[1]) - 1;
  if (idx->axis >= 0) out->axis = axis + idx->axis;
  return true;
}

/* Index tuples of `k` along the last dim; dims from `axis` of x on follow theirs. */
static int64_t tuple_length(const cv_proof *proof, cv_val idx) {
  const cv_type *type = cv_type_of(proof->graph, idx);
  int64_t k;
  return cv_expr_is_const(proof->graph->exprs, type->dims[type->rank - 1], &k) ? k : -1;
}

static bool prove_gather_nd(cv_proof *proof, const cv_node *node) {
  const cv_batched *x = state(proof, node->ins[0]), *idx = state(proof, node->ins[1]);
  cv_batched *out = state(proof, node->outs[0]);
  int64_t batch_dims = cv_node_int(node, CV_ATTR_BATCH_DIMS), k = tuple_length(proof, node->ins[1]);
  bool shared_dim = x->axis >= 0 && x->axis < batch_dims;
  if (x->axis < 0 && idx->axis < rank_of(proof, node->ins[1]) - 1) {
    *out = *idx;
  } else if (shared_dim && agree(x, idx, out)) {
    return true;
  } else if (x->axis >= batch_dims + k && k >= 0 && idx->axis < 0) {
    *out = *x;
    out->axis = rank_of(proof, node->ins[1]) - 1 + x->axis - (int)(batch_dims + k);
  } else {
    return cv_proof_no(proof, node, "picks along the batch");
  }
  return true;
}

static bool prove_scatter(cv_proof *proof, const cv_node *node) {
  const cv_batched *x = state(proof, node->ins[0]), *updates = state(proof, node->ins[2]);
  cv_batched *out = state(proof, node->outs[0]);
  if (!any_depends(proof, node)) return true;
  int64_t k = tuple_length(proof, node->ins[1]);
  if (depends(proof, node->ins[1]) || k < 0 || (x->axis >= 0 && x->axis < k))
    return cv_proof_no(proof, node, "puts elements along the batch");
  cv_batched moved = *updates;
  if (moved.axis >= 0) moved.axis += (int)k - (rank_of(proof, node->ins[1]) - 1);
  if ((updates->axis >= 0 && moved.axis < k) || !agree(x, &moved, out))
    return cv_proof_no(proof, node, "puts elements of the batch elsewhere");
  return x->axis >= 0 || updates->axis < 0 ||
         cv_proof_no(proof, node, "puts elements of the batch into what is shared");
}

static bool prove_shape(cv_proof *proof, const cv_node *node) {
  const cv_type *type = cv_type_of(proof->graph, node->outs[0]);
  const cv_attr *exprs = cv_node_attr(node, CV_ATTR_EXPRS);
  for (uint32_t i = 0; exprs && i < exprs->count; i++)
    if (cv_proof_uses(proof, exprs->exprs[i]))
      return cv_proof_no(proof, node, "makes a value of the size of the batch");
  for (int d = 0; !exprs && d < type->rank; d++) {
    if (!cv_proof_uses(proof, type->dims[d])) continue;
    if (d == cv_node_int(node, CV_ATTR_AXIS))
      return cv_proof_no(proof, node, "numbers the items of the batch");
    *state(proof, node->outs[0]) = cv_proof_dim(proof, d, type->dims[d], true);
  }
  return true;
}

static bool prove_reduce(cv_proof *proof, const cv_node *node) {
  const cv_attr *axes = cv_node_attr(node, CV_ATTR_AXES);
  const cv_batched *x = state(proof, node->ins[0]);
  cv_batched *out = state(proof, node->outs[0]);
  *out = *x;
  for (uint32_t i = 0; i < axes->count && x->axis >= 0; i++) {
    if (axes->ints[i] == x->axis) return cv_proof_no(proof, node, "reduces over the batch");
    if (axes->ints[i] < x->axis) out->axis--;
  }
  return true;
}

/* arg, scan, topk: along one axis. */
static bool prove_along(cv_proof *proof, const cv_node *node) {
  int64_t axis = cv_node_int(node, CV_ATTR_AXIS);
  const cv_attr *k = cv_node_attr(node, CV_ATTR_K);
  cv_batched x = *state(proof, node->ins[0]);
  if (x.axis >= 0 && x.axis == axis) return cv_proof_no(proof, node, "works along the batch");
  if (k && cv_proof_uses(proof, k->e))
    return cv_proof_no(proof, node, "takes as many as the batch");
  if (node->op == CV_OP_arg && x.axis > axis) x.axis--;
  for (uint32_t i = 0; i < node->n_outs; i++) *state(proof, node->outs[i]) = x;
  return true;
}

static bool prove_matmul(cv_proof *proof, const cv_node *node) {
  const cv_batched *a = state(proof, node->ins[0]), *b = state(proof, node->ins[1]);
  int rank = rank_of(proof, node->outs[0]);
  cv_batched *out = state(proof, node->outs[0]);
  if (a->axis == rank - 1 || b->axis == rank - 2)
    return cv_proof_no(proof, node, "sums over the batch");
  bool matrix = a->axis == rank - 2 || b->axis == rank - 1;
  if (matrix && a->axis >= 0 && b->axis >= 0)
    return cv_proof_no(proof, node, "multiplies each item of the batch with each other");
  return agree(a, b, out) || cv_proof_no(proof, node, "multiplies different items of the batch");
}

static bool prove_conv(cv_proof *proof, const cv_node *node) {
  const cv_batched *x = state(proof, node->ins[0]);
  if (depends(proof, node->ins[1])) return cv_proof_no(proof, node, "has weights of the batch");
  if (x->axis > 0) return cv_proof_no(proof, node, "has the batch in a channel or spatial dim");
  *state(proof, node->outs[0]) = *x;
  return true;
}

static bool prove_window(cv_proof *proof, const cv_node *node) {
  const cv_batched *x = state(proof, node->ins[0]);
  if (x->axis > 1) return cv_proof_no(proof, node, "slides along the batch");
  *state(proof, node->outs[0]) = *x;
  return true;
}

static bool prove_loop(cv_proof *proof, const cv_node *node) {
  const cv_block *body = node->blocks[0];
  uint32_t carried = cv_loop_carried(proof->graph, node);
  if (depends(proof, node->ins[0]) || depends(proof, node->ins[1]))
    return cv_proof_no(proof, node, "runs as often as the batch says");
  for (uint32_t i = 0; i < node->n_ins; i++)
    *state(proof, body->params.data[i]) = *state(proof, node->ins[i]);
  if (!cv_proof_block(proof, body)) return false;
  if (depends(proof, body->results.data[0]))
    return cv_proof_no(proof, node, "runs as long as the batch says");
  for (uint32_t i = 0; i < node->n_outs; i++) {
    cv_batched item = *state(proof, body->results.data[i + 1]), out = item;
    if (i < carried && (!agree(state(proof, node->ins[i + 2]), &item, &out) ||
                        (out.axis >= 0 && state(proof, node->ins[i + 2])->axis < 0)))
      return cv_proof_no(proof, node, "carries a value that mixes items of the batch");
    if (i >= carried && out.axis >= 0) out.axis++;
    *state(proof, node->outs[i]) = out;
  }
  return true;
}

static bool prove_move(cv_proof *proof, const cv_node *node) {
  switch (node->op) {
    case CV_OP_reshape: return prove_reshape(proof, node);
    case CV_OP_transpose: return prove_transpose(proof, node);
    case CV_OP_broadcast: return prove_broadcast(proof, node);
    case CV_OP_slice: return prove_slice(proof, node);
    case CV_OP_pad: return prove_pad(proof, node);
    case CV_OP_concat: return prove_concat(proof, node);
    case CV_OP_gather: return prove_gather(proof, node);
    default: return prove_gather_nd(proof, node);
  }
}

static bool prove_routine(cv_proof *proof, const cv_node *node) {
  switch (node->op) {
    case CV_OP_arg:
    case CV_OP_scan:
    case CV_OP_topk: return prove_along(proof, node);
    case CV_OP_window_arg: return prove_window(proof, node);
    case CV_OP_scatter_nd: return prove_scatter(proof, node);
    case CV_OP_random: return cv_proof_no(proof, node, "draws anew for each request");
    default:
      return !any_depends(proof, node) ||
             cv_proof_no(proof, node, "looks at all items of the batch at once");
  }
}

bool cv_proof_node(cv_proof *proof, const cv_node *node) {
  for (uint32_t i = 0; i < node->n_outs; i++) *state(proof, node->outs[i]) = none;
  switch (cv_class_of(node)) {
    case CV_CLASS_MAP: return prove_map(proof, node);
    case CV_CLASS_MOVE:
    case CV_CLASS_GATHER: return prove_move(proof, node);
    case CV_CLASS_SHAPE: return prove_shape(proof, node);
    case CV_CLASS_REDUCE: return prove_reduce(proof, node);
    case CV_CLASS_CONTRACT:
      return node->op == CV_OP_matmul ? prove_matmul(proof, node) : prove_conv(proof, node);
    case CV_CLASS_WINDOW: return prove_window(proof, node);
    case CV_CLASS_ROUTINE: return prove_routine(proof, node);
    case CV_CLASS_BIND:
      return !depends(proof, node->ins[0]) ||
             cv_proof_no(proof, node, "makes a size of what is in the batch");
    case CV_CLASS_CONTROL:
      if (node->op == CV_OP_loop) return prove_loop(proof, node);
      if (node->op == CV_OP_join) return prove_map(proof, node);
      return !any_depends(proof, node) || cv_proof_no(proof, node, "was not flattened");
  }
  return false;
}
