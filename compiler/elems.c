/* Elements of small integer and bool values as expressions: shape arithmetic folds away while the
 * graph is built. Only what is certain is folded; NULL elements mean "not known". */
#include "compiler/elems.h"

#include <string.h>

#include "base/alloc.h"
#include "compiler/graph_internal.h"

/* Larger expressions are no shape arithmetic: they are left to run time. */
enum { MAX_ELEMENT_SIZE = 128 };

/* ---- known elements ---- */

static bool fits(cv_dtype dtype, int64_t value) {
  int bits = 8 * (int)cv_dtype_size(dtype);
  if (dtype == CV_BOOL) return value == 0 || value == 1;
  if (cv_dtype_kind(dtype) == 'u') return value >= 0 && (bits == 64 || value < (int64_t)1 << bits);
  return bits == 64 || (value >= -((int64_t)1 << (bits - 1)) && value < (int64_t)1 << (bits - 1));
}

static bool const_elems(cv_graph *graph, cv_val v, const cv_expr **out_elems, uint32_t *out_n) {
  const cv_type type = *cv_type_of(graph, v);
  uint64_t n;
  if (!cv_dims_small(graph, &type, GRAPH_MAX_CONST_ELEMS, &n)) return false;
  cv_expr *elems = cv_arena_array(&graph->arena, cv_expr, n + 1);
  for (uint64_t i = 0; i < n; i++) {
    int64_t value;
    if (!cv_const_int(graph, v, i, &value)) return false;
    elems[i] = cv_expr_const(graph->exprs, value);
  }
  cv_value_of(graph, v)->elems = *out_elems = elems;
  cv_value_of(graph, v)->n_elems = *out_n = (uint32_t)n;
  return true;
}

bool cv_graph_elems(cv_graph *graph, cv_val v, const cv_expr **out_elems, uint32_t *out_n) {
  *out_elems = NULL;
  *out_n = 0;
  if (graph->status != CV_OK || v >= graph->values.len) return false;
  const cv_value_info *info = cv_value_of(graph, v);
  if (info->elems != NULL) {
    *out_elems = info->elems;
    *out_n = info->n_elems;
    return true;
  }
  return info->is_const && const_elems(graph, v, out_elems, out_n);
}

/* A symbol of a new name that begins with `name`. */
static cv_sym fresh_symbol(cv_graph *graph, const char *name, int64_t lo, int64_t hi) {
  cv_sym sym;
  const char *text = name;
  for (int i = 2; cv_exprs_find(graph->exprs, text, &sym); i++) {
    text = cv_arena_format(&graph->arena, "%s.%d", name, i);
  }
  return cv_exprs_symbol(graph->exprs, text, lo, hi);
}

bool cv_graph_bind_elems(cv_graph *graph, cv_val v, const char *name, int64_t lo, int64_t hi,
                         const cv_expr **out_elems, uint32_t *out_n) {
  uint64_t n;
  if (cv_graph_elems(graph, v, out_elems, out_n)) return true;
  if (graph->status != CV_OK || v >= graph->values.len) return false;
  const cv_type type = *cv_type_of(graph, v);
  if (!cv_dims_small(graph, &type, GRAPH_MAX_ELEMS, &n) || cv_dtype_is_float(type.dtype)) {
    cv_graph_fail(graph, CV_UNSUPPORTED,
                  "node \"%s\": the elements of \"%s\", %s, cannot be bound: few integers wanted",
                  graph->source, name, cv_type_text(graph, &type));
    return false;
  }
  cv_expr *elems = cv_arena_array(&graph->arena, cv_expr, n + 1);
  for (uint64_t i = 0; i < n; i++) {
    bool truth = type.dtype == CV_BOOL;
    cv_sym sym = fresh_symbol(graph, name, truth ? 0 : lo, truth ? 1 : hi);
    elems[i] = cv_expr_symbol(graph->exprs, sym);
  }
  bool direct = cv_dtype_is_index(type.dtype) || type.dtype == CV_BOOL;
  cv_val source = direct ? v : cv_cast(graph, v, CV_I64);
  cv_attr attr = {.key = CV_ATTR_EXPRS, .count = (uint32_t)n, .exprs = elems};
  if (source == CV_POISON) return false;
  if (cv_build_node(graph, CV_OP_bind, &source, 1, &attr, 1) == NULL) return false;
  cv_value_of(graph, v)->elems = *out_elems = elems;
  cv_value_of(graph, v)->n_elems = *out_n = (uint32_t)n;
  return true;
}

/* ---- inference: MAP ---- */

static bool at_least(cv_graph *graph, cv_expr e, int64_t least) {
  int64_t lo, hi;
  cv_expr_bounds(graph->exprs, e, &lo, &hi);
  return e != CV_EXPR_NONE && lo >= least;
}

static cv_expr logical_not(cv_graph *graph, cv_expr a) {
  return cv_expr_eq(graph->exprs, a, cv_expr_const(graph->exprs, 0));
}

/* C's truncating division is the floor only where nothing is negative; constants go through int64.
 */
static cv_expr divide(cv_graph *graph, cv_op op, cv_expr a, cv_expr b) {
  int64_t x, y;
  bool known = cv_expr_is_const(graph->exprs, a, &x) && cv_expr_is_const(graph->exprs, b, &y);
  if (known) {
    if (y == 0) return cv_expr_const(graph->exprs, 0);
    if (y == -1) {
      if (op == CV_OP_rem) return cv_expr_const(graph->exprs, 0);
      return cv_expr_sub(graph->exprs, cv_expr_const(graph->exprs, 0), a);
    }
    return cv_expr_const(graph->exprs, op == CV_OP_div ? x / y : x % y);
  }
  if (!at_least(graph, a, 0) || !at_least(graph, b, 1)) return CV_EXPR_NONE;
  return op == CV_OP_div ? cv_expr_div(graph->exprs, a, b) : cv_expr_mod(graph->exprs, a, b);
}

static cv_expr map_element(cv_graph *graph, cv_op op, bool truth, const cv_expr *x) {
  cv_exprs *e = graph->exprs;
  cv_expr zero = cv_expr_const(e, 0);
  switch (op) {
    case CV_OP_neg: return cv_expr_sub(e, zero, x[0]);
    case CV_OP_abs: return cv_expr_max(e, x[0], cv_expr_sub(e, zero, x[0]));
    case CV_OP_sign: return cv_expr_sub(e, cv_expr_lt(e, zero, x[0]), cv_expr_lt(e, x[0], zero));
    case CV_OP_add: return cv_expr_add(e, x[0], x[1]);
    case CV_OP_sub: return cv_expr_sub(e, x[0], x[1]);
    case CV_OP_mul: return cv_expr_mul(e, x[0], x[1]);
    case CV_OP_div:
    case CV_OP_rem: return divide(graph, op, x[0], x[1]);
    case CV_OP_max: return cv_expr_max(e, x[0], x[1]);
    case CV_OP_min: return cv_expr_min(e, x[0], x[1]);
    case CV_OP_eq: return cv_expr_eq(e, x[0], x[1]);
    case CV_OP_lt: return cv_expr_lt(e, x[0], x[1]);
    case CV_OP_le: return logical_not(graph, cv_expr_lt(e, x[1], x[0]));
    case CV_OP_not: return truth ? logical_not(graph, x[0]) : CV_EXPR_NONE;
    case CV_OP_and: return truth ? cv_expr_mul(e, x[0], x[1]) : CV_EXPR_NONE;
    case CV_OP_or:
      if (!truth) return CV_EXPR_NONE;
      return cv_expr_sub(e, cv_expr_add(e, x[0], x[1]), cv_expr_mul(e, x[0], x[1]));
    case CV_OP_xor: return truth ? logical_not(graph, cv_expr_eq(e, x[0], x[1])) : CV_EXPR_NONE;
    case CV_OP_select: return cv_expr_select(e, x[0], x[1], x[2]);
    default: return CV_EXPR_NONE;
  }
}

/* e as a value of `dtype`: expressions do not wrap, so one that may leave the range is not known
 * (i64 aside, where sizes are taken to fit), and neither is one that grew large. */
static cv_expr in_dtype(cv_graph *graph, cv_dtype dtype, cv_expr e) {
  int64_t lo, hi;
  cv_expr_bounds(graph->exprs, e, &lo, &hi);
  if (cv_expr_size(graph->exprs, e) > MAX_ELEMENT_SIZE) return CV_EXPR_NONE;
  if (e == CV_EXPR_NONE || dtype == CV_I64) return e;
  return fits(dtype, lo) && fits(dtype, hi) ? e : CV_EXPR_NONE;
}

static bool infer_map(cv_graph *graph, const cv_node *node, cv_expr *out, uint32_t n) {
  const cv_expr *ins[3] = {NULL};
  cv_dtype from = cv_type_of(graph, node->ins[0])->dtype;
  cv_dtype to = cv_type_of(graph, node->outs[0])->dtype;
  for (uint32_t i = 0; i < node->n_ins; i++) {
    uint32_t count;
    if (!cv_graph_elems(graph, node->ins[i], &ins[i], &count) || count != n) return false;
  }
  for (uint32_t i = 0; i < n; i++) {
    cv_expr x[3] = {0};
    for (uint32_t k = 0; k < node->n_ins; k++) x[k] = ins[k][i];
    if (node->op == CV_OP_cast) {
      out[i] =
          to == CV_BOOL && from != CV_BOOL ? logical_not(graph, logical_not(graph, x[0])) : x[0];
    } else {
      out[i] = map_element(graph, node->op, from == CV_BOOL, x);
    }
    out[i] = in_dtype(graph, to, out[i]);
    if (out[i] == CV_EXPR_NONE) return false;
  }
  return true;
}

/* ---- inference: movement ---- */

/* Constant dims of a small value. */
static bool known_dims(const cv_graph *graph, const cv_type *type, int64_t *dims) {
  for (int i = 0; i < type->rank; i++) {
    if (!cv_expr_is_const(graph->exprs, type->dims[i], &dims[i])) return false;
  }
  return true;
}

/* The next index vector in row-major order. */
static void advance(int rank, const int64_t *dims, int64_t *index) {
  for (int i = rank - 1; i >= 0; i--) {
    if (++index[i] < dims[i]) return;
    index[i] = 0;
  }
}

/* Transpose, broadcast, slice and gather along constant indices: where out[index] comes from along
 * each dim of the operand. False if it is not known. */
static bool source_index(cv_graph *graph, const cv_node *node, int rank, const int64_t *in_dims,
                         const int64_t *index, int64_t *out_source) {
  for (int i = 0; i < rank; i++) {
    int64_t at = index[i];
    if (node->op == CV_OP_transpose) {
      out_source[cv_node_attr(node, CV_ATTR_PERM)->ints[i]] = at;
      continue;
    }
    if (node->op == CV_OP_broadcast) at = in_dims[i] == 1 ? 0 : at;
    if (node->op == CV_OP_slice) {
      int64_t start, step = cv_node_attr(node, CV_ATTR_STEPS)->ints[i];
      if (!cv_expr_is_const(graph->exprs, cv_node_attr(node, CV_ATTR_STARTS)->exprs[i], &start)) {
        return false;
      }
      if (__builtin_mul_overflow(at, step, &at) || __builtin_add_overflow(at, start, &at)) {
        return false;
      }
    }
    if (at < 0 || at >= in_dims[i]) return false;
    out_source[i] = at;
  }
  return true;
}

static bool infer_move(cv_graph *graph, const cv_node *node, cv_expr *out, uint32_t n) {
  const cv_type *in = cv_type_of(graph, node->ins[0]), *type = cv_type_of(graph, node->outs[0]);
  int64_t in_dims[CV_MAX_RANK], dims[CV_MAX_RANK], index[CV_MAX_RANK] = {0};
  const cv_expr *x;
  uint32_t count;
  if (!known_dims(graph, in, in_dims) || !known_dims(graph, type, dims)) return false;
  if (!cv_graph_elems(graph, node->ins[0], &x, &count)) return false;
  for (uint32_t i = 0; i < n; i++, advance(type->rank, dims, index)) {
    int64_t source[CV_MAX_RANK], flat = 0;
    if (!source_index(graph, node, type->rank, in_dims, index, source)) return false;
    for (int k = 0; k < type->rank; k++) flat = flat * in_dims[k] + source[k];
    out[i] = x[flat];
  }
  return true;
}

static bool infer_gather(cv_graph *graph, const cv_node *node, cv_expr *out, uint32_t n) {
  const cv_type *in = cv_type_of(graph, node->ins[0]);
  int64_t dims[CV_MAX_RANK], inner = 1;
  int axis = (int)cv_node_int(node, CV_ATTR_AXIS);
  const cv_expr *x, *idx;
  uint32_t count, k;
  if (!known_dims(graph, in, dims) || !cv_graph_elems(graph, node->ins[0], &x, &count) ||
      !cv_graph_elems(graph, node->ins[1], &idx, &k)) {
    return false;
  }
  for (int i = axis + 1; i < in->rank; i++) inner *= dims[i];
  for (uint32_t i = 0; i < n; i++) {
    int64_t at, position = (int64_t)i / inner % k, outer = (int64_t)i / inner / k;
    if (!cv_expr_is_const(graph->exprs, idx[position], &at)) return false;
    if (at < 0) at += dims[axis];
    if (at < 0 || at >= dims[axis]) return false;
    out[i] = x[(outer * dims[axis] + at) * inner + (int64_t)i % inner];
  }
  return true;
}

static bool infer_concat(cv_graph *graph, const cv_node *node, cv_expr *out, uint32_t n) {
  const cv_type *type = cv_type_of(graph, node->outs[0]);
  int64_t dims[CV_MAX_RANK], outer = 1, at = 0;
  int axis = (int)cv_node_int(node, CV_ATTR_AXIS);
  if (!known_dims(graph, type, dims)) return false;
  for (int i = 0; i < axis; i++) outer *= dims[i];
  int64_t row = outer == 0 ? 0 : n / outer;
  for (uint32_t k = 0; k < node->n_ins; k++) {
    const cv_expr *x;
    uint32_t count;
    if (!cv_graph_elems(graph, node->ins[k], &x, &count)) return false;
    int64_t part = outer == 0 ? 0 : count / outer;
    for (int64_t o = 0; o < outer; o++) {
      memcpy(out + o * row + at, x + o * part, (size_t)part * sizeof *out);
    }
    at += part;
  }
  return true;
}

/* ---- inference: REDUCE, SHAPE ---- */

static cv_expr accumulate(cv_exprs *e, const char *kind, cv_expr a, cv_expr b) {
  if (strcmp(kind, "sum") == 0) return cv_expr_add(e, a, b);
  if (strcmp(kind, "prod") == 0 || strcmp(kind, "all") == 0) return cv_expr_mul(e, a, b);
  if (strcmp(kind, "max") == 0 || strcmp(kind, "any") == 0) return cv_expr_max(e, a, b);
  return cv_expr_min(e, a, b);
}

static bool infer_reduce(cv_graph *graph, const cv_node *node, cv_expr *out, uint32_t n) {
  const cv_type *in = cv_type_of(graph, node->ins[0]), *type = cv_type_of(graph, node->outs[0]);
  const cv_attr *axes = cv_node_attr(node, CV_ATTR_AXES);
  int64_t dims[CV_MAX_RANK], index[CV_MAX_RANK] = {0};
  const cv_expr *x;
  uint32_t count, reduced = 0;
  if (!known_dims(graph, in, dims) || !cv_graph_elems(graph, node->ins[0], &x, &count)) {
    return false;
  }
  if (count == 0 || n == 0) return false;
  for (uint32_t i = 0; i < axes->count; i++) reduced |= 1U << axes->ints[i];
  for (uint32_t i = 0; i < n; i++) out[i] = CV_EXPR_NONE;
  for (uint32_t i = 0; i < count; i++, advance(in->rank, dims, index)) {
    int64_t flat = 0;
    for (int k = 0; k < in->rank; k++) {
      if ((reduced >> k & 1) == 0) flat = flat * dims[k] + index[k];
    }
    out[flat] = out[flat] == CV_EXPR_NONE
                    ? x[i]
                    : accumulate(graph->exprs, cv_node_text(node, CV_ATTR_KIND), out[flat], x[i]);
    out[flat] = in_dtype(graph, type->dtype, out[flat]);
    if (out[flat] == CV_EXPR_NONE) return false;
  }
  return true;
}

static bool infer_shape(cv_graph *graph, const cv_node *node, cv_expr *out, uint32_t n) {
  const cv_type *type = cv_type_of(graph, node->outs[0]);
  if (node->op == CV_OP_extents) {
    if (n > 0) memcpy(out, cv_node_attr(node, CV_ATTR_EXPRS)->exprs, n * sizeof *out);
    return true;
  }
  int64_t dims[CV_MAX_RANK], index[CV_MAX_RANK] = {0};
  if (!known_dims(graph, type, dims)) return false;
  for (uint32_t i = 0; i < n; i++, advance(type->rank, dims, index)) {
    out[i] = cv_expr_const(graph->exprs, index[cv_node_int(node, CV_ATTR_AXIS)]);
    if (in_dtype(graph, type->dtype, out[i]) == CV_EXPR_NONE) return false;
  }
  return true;
}

static bool infer(cv_graph *graph, const cv_node *node, cv_expr *out, uint32_t n) {
  const cv_expr *x;
  uint32_t count;
  switch (cv_op_get(node->op)->class_) {
    case CV_CLASS_MAP: return infer_map(graph, node, out, n);
    case CV_CLASS_SHAPE: return infer_shape(graph, node, out, n);
    case CV_CLASS_REDUCE: return infer_reduce(graph, node, out, n);
    default: break;
  }
  switch (node->op) {
    case CV_OP_reshape:
      if (!cv_graph_elems(graph, node->ins[0], &x, &count) || count != n) return false;
      if (n > 0) memcpy(out, x, n * sizeof *out);
      return true;
    case CV_OP_transpose:
    case CV_OP_broadcast:
    case CV_OP_slice: return infer_move(graph, node, out, n);
    case CV_OP_gather: return infer_gather(graph, node, out, n);
    case CV_OP_concat: return infer_concat(graph, node, out, n);
    default: return false;
  }
}

void cv_elems_infer(cv_graph *graph, const cv_node *node) {
  uint64_t n;
  if (node->n_outs != 1) return;
  const cv_type *type = cv_type_of(graph, node->outs[0]);
  if (cv_dtype_is_float(type->dtype) || !cv_dims_small(graph, type, GRAPH_MAX_ELEMS, &n)) return;
  for (uint32_t i = 0; i < node->n_ins; i++) {
    const cv_value_info *in = cv_value_of(graph, node->ins[i]);
    if (in->elems == NULL && !in->is_const) return;
  }
  cv_expr *elems = cv_alloc_or_die(n + 1, sizeof *elems);
  if (infer(graph, node, elems, (uint32_t)n)) {
    cv_value_info *info = cv_value_of(graph, node->outs[0]);
    info->elems = cv_arena_copy(&graph->arena, elems, (n + 1) * sizeof *elems);
    info->n_elems = (uint32_t)n;
  }
  cv_free(elems);
}
