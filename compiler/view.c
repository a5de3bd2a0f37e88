/* Strided views: whether a chain of movement can be read from the stored value below it by one
 * stride a dim, as contractions and windows want it. */
#include "compiler/fuse.h"

/* Dims and the strides at which their elements lie; `computed`: no one stride, the index is worked
 * out. */
typedef struct {
  cv_type type;
  cv_expr strides[CV_MAX_RANK];
  bool computed[CV_MAX_RANK];
} view;

static void view_init(cv_graph *graph, const cv_type *type, view *out_view) {
  *out_view = (view){.type = *type};
  cv_expr stride = cv_expr_const(graph->exprs, 1);
  for (int d = type->rank - 1; d >= 0; d--) {
    out_view->strides[d] = stride;
    stride = cv_expr_mul(graph->exprs, stride, type->dims[d]);
  }
}

static bool is_one(const cv_graph *graph, cv_expr e) {
  int64_t value;
  return cv_expr_is_const(graph->exprs, e, &value) && value == 1;
}

/* True if dims [first, last) of the view lie behind one another without gaps. */
static bool contiguous(const cv_graph *graph, const view *v, int first, int last) {
  for (int d = first; d < last; d++) {
    if (v->computed[d]) return false;
    if (d + 1 < last &&
        v->strides[d] != cv_expr_mul(graph->exprs, v->type.dims[d + 1], v->strides[d + 1]))
      return false;
  }
  return true;
}

/* Dims [b0, b1) of `to` take the place of [a0, a1) of `from`, whose product is the same. */
static void reshape_run(const cv_graph *graph, const view *from, view *to, const cv_dim_run *run) {
  bool plain = contiguous(graph, from, run->a0, run->a1);
  cv_expr stride = cv_expr_const(graph->exprs, 1);
  if (run->a1 > run->a0) stride = from->strides[run->a1 - 1];
  for (int d = run->b1 - 1; d >= run->b0; d--) {
    to->strides[d] = stride;
    to->computed[d] = !plain && !is_one(graph, to->type.dims[d]);
    stride = cv_expr_mul(graph->exprs, stride, to->type.dims[d]);
  }
}

static void drop_ones(const cv_graph *graph, view *v) {
  int kept = 0;
  for (int d = 0; d < v->type.rank; d++) {
    if (is_one(graph, v->type.dims[d])) continue;
    v->type.dims[kept] = v->type.dims[d];
    v->strides[kept] = v->strides[d];
    v->computed[kept++] = v->computed[d];
  }
  v->type.rank = (uint8_t)kept;
}

static void view_reshape(cv_graph *graph, view *v, const cv_type *type) {
  view from = *v, to = {.type = *type}, bare = to;
  uint8_t place[CV_MAX_RANK]; /* of the bare dims, without ones */
  int n = 0;
  drop_ones(graph, &from);
  for (uint8_t d = 0; d < type->rank; d++) {
    to.strides[d] = cv_expr_const(graph->exprs, 1);
    if (is_one(graph, type->dims[d])) continue;
    place[n] = d;
    bare.type.dims[n++] = type->dims[d];
  }
  bare.type.rank = (uint8_t)n;
  for (int d = 0; d < n; d++) bare.computed[d] = true; /* until a run says otherwise */
  cv_dim_run run = {0};
  while (cv_dims_next(graph, &from.type, &bare.type, &run)) reshape_run(graph, &from, &bare, &run);
  for (int d = 0; d < n; d++) {
    to.strides[place[d]] = bare.strides[d];
    to.computed[place[d]] = bare.computed[d];
  }
  *v = to;
}

static bool view_step(cv_graph *graph, const cv_node *node, view *v) {
  const cv_type *type = cv_type_of(graph, node->outs[0]);
  view before = *v;
  switch (node->op) {
    case CV_OP_transpose: {
      const cv_attr *perm = cv_node_attr(node, CV_ATTR_PERM);
      for (int d = 0; d < v->type.rank; d++) {
        v->type.dims[d] = before.type.dims[perm->ints[d]];
        v->strides[d] = before.strides[perm->ints[d]];
        v->computed[d] = before.computed[perm->ints[d]];
      }
      return true;
    }
    case CV_OP_broadcast:
      for (int d = 0; d < v->type.rank; d++) {
        if (before.type.dims[d] != type->dims[d]) v->strides[d] = cv_expr_const(graph->exprs, 0);
        v->type.dims[d] = type->dims[d];
      }
      return true;
    case CV_OP_slice: {
      const cv_attr *steps = cv_node_attr(node, CV_ATTR_STEPS);
      for (int d = 0; d < v->type.rank; d++) {
        cv_expr step = cv_expr_const(graph->exprs, steps->ints[d]);
        v->strides[d] = cv_expr_mul(graph->exprs, v->strides[d], step);
        v->type.dims[d] = type->dims[d];
      }
      return true;
    }
    case CV_OP_reshape: view_reshape(graph, v, type); return true;
    default: return false;
  }
}

static bool view_of(cv_fusion *fusion, cv_val x, view *out_view) {
  cv_node *def = cv_fusion_def(fusion, x);
  if (!def || !cv_fusion_free(fusion, def) || fusion->stored[x]) {
    view_init(fusion->graph, cv_type_of(fusion->graph, x), out_view);
    return true;
  }
  if (cv_class_of(def) != CV_CLASS_MOVE || !view_of(fusion, def->ins[0], out_view)) return false;
  return view_step(fusion->graph, def, out_view);
}

bool cv_view_is_plain(cv_fusion *fusion, cv_val v, int batch_dims) {
  view found;
  if (fusion->constant[v]) return true;
  if (!view_of(fusion, v, &found)) return false;
  for (int d = batch_dims; d < found.type.rank; d++)
    if (found.computed[d]) return false;
  return true;
}
