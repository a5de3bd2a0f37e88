/* Strided views: whether a chain of movement can be read from the stored value below it by one
 * stride a dim, as contractions and windows want it. */
#include "compiler/fuse.h"

/* dims[i] elements at strides[i]; `computed`: no one stride, the index is worked out. */
typedef struct {
  int rank;
  cv_expr dims[CV_MAX_RANK], strides[CV_MAX_RANK];
  bool computed[CV_MAX_RANK];
} view;

static void view_init(cv_graph *graph, const cv_type *type, view *out_view) {
  *out_view = (view){.rank = type->rank};
  cv_expr stride = cv_expr_const(graph->exprs, 1);
  for (int d = type->rank - 1; d >= 0; d--) {
    out_view->dims[d] = type->dims[d];
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
        v->strides[d] != cv_expr_mul(graph->exprs, v->dims[d + 1], v->strides[d + 1]))
      return false;
  }
  return true;
}

/* Dims [n0, n1) of `to` take the place of [o0, o1) of `from`, whose product is the same. */
static void reshape_block(const cv_graph *graph, const view *from, int o0, int o1, view *to, int n0,
                          int n1) {
  bool plain = contiguous(graph, from, o0, o1);
  cv_expr stride = o1 > o0 ? from->strides[o1 - 1] : cv_expr_const(graph->exprs, 1);
  for (int d = n1 - 1; d >= n0; d--) {
    to->strides[d] = stride;
    to->computed[d] = !plain && !is_one(graph, to->dims[d]);
    stride = cv_expr_mul(graph->exprs, stride, to->dims[d]);
  }
}

static void drop_ones(const cv_graph *graph, view *v) {
  int kept = 0;
  for (int d = 0; d < v->rank; d++) {
    if (is_one(graph, v->dims[d])) continue;
    v->dims[kept] = v->dims[d];
    v->strides[kept] = v->strides[d];
    v->computed[kept++] = v->computed[d];
  }
  v->rank = kept;
}

static void view_reshape(cv_graph *graph, view *v, const cv_type *type) {
  view from = *v, to = {.rank = type->rank};
  drop_ones(graph, &from);
  for (int d = 0; d < type->rank; d++) to.dims[d] = type->dims[d];
  int o = 0, n = 0;
  while (n < to.rank) {
    int o1 = o, n1 = n;
    if (is_one(graph, to.dims[n])) {
      n1 = n + 1;
    } else if (!cv_dims_match(graph, from.rank, from.dims, o, to.rank, to.dims, n, &o1, &n1)) {
      o1 = from.rank; /* cannot tell: the rest has no strides */
      for (; n < to.rank; n++) to.computed[n] = true, to.strides[n] = CV_EXPR_NONE;
      break;
    }
    reshape_block(graph, &from, o, o1, &to, n, n1);
    o = o1;
    n = n1;
  }
  *v = to;
}

static bool view_step(cv_graph *graph, const cv_node *node, view *v) {
  const cv_type *type = cv_type_of(graph, node->outs[0]);
  view before = *v;
  switch (node->op) {
    case CV_OP_transpose: {
      const cv_attr *perm = cv_node_attr(node, CV_ATTR_PERM);
      for (int d = 0; d < v->rank; d++) {
        v->dims[d] = before.dims[perm->ints[d]];
        v->strides[d] = before.strides[perm->ints[d]];
        v->computed[d] = before.computed[perm->ints[d]];
      }
      return true;
    }
    case CV_OP_broadcast:
      for (int d = 0; d < v->rank; d++) {
        if (before.dims[d] != type->dims[d]) v->strides[d] = cv_expr_const(graph->exprs, 0);
        v->dims[d] = type->dims[d];
      }
      return true;
    case CV_OP_slice: {
      const cv_attr *steps = cv_node_attr(node, CV_ATTR_STEPS);
      for (int d = 0; d < v->rank; d++) {
        cv_expr step = cv_expr_const(graph->exprs, steps->ints[d]);
        v->strides[d] = cv_expr_mul(graph->exprs, v->strides[d], step);
        v->dims[d] = type->dims[d];
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
  for (int d = batch_dims; d < found.rank; d++)
    if (found.computed[d]) return false;
  return true;
}
