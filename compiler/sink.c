/* Reshapes behind contractions, windows and reduces move down past the elementwise ops and reduces
 * that follow, so that these can run on the dims of the result: matmul of merged dims, reshape, add
 * becomes matmul, add, reshape. Exact: only the dims under which an element is computed change.
 *
 * A reshape whose reader reduces a part of merged dims (group norm: channels and places as groups
 * and rest) is refined first: [n, c, h, w] to [n, g, c/g, h, w], which both sides are merges of. */
#include <string.h>

#include "compiler/passes_internal.h"

typedef struct {
  cv_vec(bool) anchored; /* by value: an anchor's result, its input's rows, or elementwise on one,
                            under its dims */
  bool *refine;          /* by value, as of the start: a reshape to refine */
  size_t n_refine;
} sinker;

static bool is_anchored(const sinker *s, cv_val v) {
  return v < s->anchored.len && s->anchored.data[v];
}

static void set_anchored(sinker *s, cv_val v) {
  while (s->anchored.len <= v) cv_push(&s->anchored, false);
  s->anchored.data[v] = true;
}

/* The anchored value that v is a reshape (or several) of; CV_POISON if there is none. */
static cv_val anchored_below(const cv_rewriter *rewriter, cv_val v, cv_expr guard) {
  const sinker *s = rewriter->context;
  for (;;) {
    const cv_node *def = cv_value_of(rewriter->graph, v)->def;
    if (!def || def->op != CV_OP_reshape || def->guard != guard) return CV_POISON;
    v = def->ins[0];
    if (is_anchored(s, v)) return v;
  }
}

/* ---- elementwise ---- */

/* The anchored value below the reshapes of an operand, if no operand is anchored as it is. */
static cv_val value_to_sink_to(const cv_rewriter *rewriter, const cv_node *node) {
  cv_val found = CV_POISON;
  for (uint32_t i = 0; i < node->n_ins; i++) {
    if (is_anchored(rewriter->context, node->ins[i])) return CV_POISON;
    if (found == CV_POISON) found = anchored_below(rewriter, node->ins[i], node->guard);
  }
  return found;
}

static bool sink_map(cv_rewriter *rewriter, const cv_node *node, cv_val below) {
  cv_graph *graph = rewriter->graph;
  const cv_type to = *cv_type_of(graph, below), from = *cv_type_of(graph, node->outs[0]);
  cv_val ins[3];
  for (uint32_t i = 0; i < node->n_ins; i++) {
    bool same = anchored_below(rewriter, node->ins[i], node->guard) == below;
    ins[i] = same ? below : cv_reshape(graph, node->ins[i], to.dims, to.rank);
  }
  cv_val y = cv_build(graph, node->op, ins, node->n_ins, node->attrs, node->n_attrs);
  if (y == CV_POISON) return false;
  set_anchored(rewriter->context, y);
  cv_rewrite_replace(rewriter, node->outs[0], cv_reshape(graph, y, from.dims, from.rank));
  return true;
}

/* ---- reduces ---- */

/* Bits [from, to). */
static uint32_t bits(int from, int to) { return ((1u << to) - 1) & ~((1u << from) - 1); }

/* The axes of `below` (a bit mask) that are merged or split into the node's; false if some of their
 * dims are reduced and others are not. */
static bool axes_below(const cv_graph *graph, const cv_type *below, const cv_type *above,
                       const cv_node *reduce, uint32_t *out_axes) {
  const cv_attr *axes = cv_node_attr(reduce, CV_ATTR_AXES);
  uint32_t mask = 0;
  for (uint32_t i = 0; i < axes->count; i++) mask |= 1u << axes->ints[i];
  *out_axes = 0;
  cv_dim_run run = {0};
  while (cv_dims_next(graph, below, above, &run)) {
    uint32_t dims = bits(run.b0, run.b1);
    if ((mask & dims) == dims)
      *out_axes |= bits(run.a0, run.a1);
    else if (mask & dims)
      return false;
  }
  return run.a1 == below->rank && run.b1 == above->rank;
}

static bool sink_reduce(cv_rewriter *rewriter, const cv_node *node) {
  cv_graph *graph = rewriter->graph;
  cv_val below = is_anchored(rewriter->context, node->ins[0])
                     ? CV_POISON
                     : anchored_below(rewriter, node->ins[0], node->guard);
  uint32_t axes;
  if (below == CV_POISON ||
      !axes_below(graph, cv_type_of(graph, below), cv_type_of(graph, node->ins[0]), node, &axes))
    return false;
  const cv_type out = *cv_type_of(graph, node->outs[0]);
  cv_val y = cv_reduce(graph, below, cv_node_text(node, CV_ATTR_KIND), axes, false);
  if (y == CV_POISON) return false;
  set_anchored(rewriter->context, y);
  cv_rewrite_replace(rewriter, node->outs[0], cv_reshape(graph, y, out.dims, out.rank));
  return true;
}

/* ---- refining ---- */

static bool divides(const cv_graph *graph, cv_expr a, cv_expr b, int64_t *out_quotient) {
  int64_t x, y;
  if (!cv_expr_is_const(graph->exprs, a, &x) || !cv_expr_is_const(graph->exprs, b, &y))
    return false;
  if (y < 1 || x % y != 0) return false;
  *out_quotient = x / y;
  return true;
}

/* Dims that `a` and `b`, of equal products, are both merges of; false if they cannot be found. */
static bool common_dims(cv_graph *graph, const cv_type *a, const cv_type *b, cv_type *out) {
  cv_type x = *a, y = *b;
  int i = 0, j = 0, n = 0;
  while (i < x.rank && j < y.rank && n < CV_MAX_RANK) {
    int64_t q;
    if (x.dims[i] == y.dims[j]) {
      out->dims[n++] = x.dims[i];
      i++;
      j++;
    } else if (divides(graph, x.dims[i], y.dims[j], &q)) {
      out->dims[n++] = y.dims[j++];
      x.dims[i] = cv_expr_const(graph->exprs, q);
    } else if (divides(graph, y.dims[j], x.dims[i], &q)) {
      out->dims[n++] = x.dims[i++];
      y.dims[j] = cv_expr_const(graph->exprs, q);
    } else {
      cv_expr rest = cv_expr_const(graph->exprs, 1); /* the last dim of b holds all that is left */
      for (int d = i; d < x.rank; d++) rest = cv_expr_mul(graph->exprs, rest, x.dims[d]);
      if (j + 1 != y.rank || rest != y.dims[j] || n + x.rank - i > CV_MAX_RANK) return false;
      for (; i < x.rank; i++) out->dims[n++] = x.dims[i];
      j++;
    }
  }
  out->rank = (uint8_t)n;
  out->dtype = a->dtype;
  return i == x.rank && j == y.rank;
}

/* Marks the reshapes that v comes from by elementwise ops and whose dims do not suit the reduce. */
static void mark_refine(const cv_graph *graph, cv_val v, const cv_node *reduce, sinker *s,
                        int depth) {
  const cv_node *def = cv_value_of(graph, v)->def;
  uint32_t axes;
  if (!def || depth > 8) return;
  if (def->op == CV_OP_reshape) {
    const cv_type *from = cv_type_of(graph, def->ins[0]);
    if (!axes_below(graph, from, cv_type_of(graph, v), reduce, &axes)) s->refine[v] = true;
  }
  for (uint32_t i = 0; cv_class_of(def) == CV_CLASS_MAP && i < def->n_ins; i++)
    mark_refine(graph, def->ins[i], reduce, s, depth + 1);
}

static void find_refine(const cv_graph *graph, const cv_block *block, sinker *s) {
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    if (node->op == CV_OP_reduce) mark_refine(graph, node->ins[0], node, s, 0);
    for (uint32_t b = 0; b < node->n_blocks; b++) find_refine(graph, node->blocks[b], s);
  }
}

static bool refine(cv_rewriter *rewriter, const cv_node *node) {
  cv_graph *graph = rewriter->graph;
  const sinker *s = rewriter->context;
  cv_type fine, out = *cv_type_of(graph, node->outs[0]);
  if (node->outs[0] >= s->n_refine || !s->refine[node->outs[0]]) return false;
  if (!common_dims(graph, cv_type_of(graph, node->ins[0]), &out, &fine)) return false;
  cv_val y = cv_reshape(graph, node->ins[0], fine.dims, fine.rank);
  if (y == CV_POISON || cv_type_same(&fine, &out)) return false;
  set_anchored(rewriter->context, y);
  cv_rewrite_replace(rewriter, node->outs[0], cv_reshape(graph, y, out.dims, out.rank));
  return true;
}

static bool visit(cv_rewriter *rewriter, cv_node *node) {
  sinker *s = rewriter->context;
  cv_val below;
  switch (cv_class_of(node)) {
    case CV_CLASS_CONTRACT:
    case CV_CLASS_WINDOW: set_anchored(s, node->outs[0]); return false;
    case CV_CLASS_MOVE: return node->op == CV_OP_reshape && refine(rewriter, node);
    case CV_CLASS_REDUCE:
      if (sink_reduce(rewriter, node)) return true;
      set_anchored(s, node->outs[0]);
      return false;
    case CV_CLASS_MAP: break;
    default: return false;
  }
  below = value_to_sink_to(rewriter, node);
  if (below != CV_POISON) return sink_map(rewriter, node, below);
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (is_anchored(s, node->ins[i])) set_anchored(s, node->outs[0]);
  return false;
}

void cv_pass_sink(cv_graph *graph, const cv_pass_options *options) {
  (void)options;
  sinker s = {.n_refine = graph->values.len};
  s.refine = cv_alloc_or_die(graph->values.len + 1, sizeof *s.refine);
  find_refine(graph, graph->body, &s);
  cv_rewrite(graph, visit, &s);
  cv_vec_deinit(&s.anchored);
  cv_free(s.refine);
}
