/* Constant folding by the interpreter. A splat (one element standing for all) stays one:
 * elementwise ops fold on the element, movement keeps it. Nothing is folded that would grow the
 * artifact: such a constant expression stays with its reader, as part of the weight's packing. */
#include <string.h>

#include "compiler/passes_internal.h"

enum {
  SMALL_BYTES = 4096,          /* a result up to this size may be larger than its operands */
  SMALL_COUNT = 4096,          /* elements of an iota that becomes a constant */
  SPLAT_EXPANDED = 1 << 20,    /* bytes of a splat that is expanded to be computed with */
  MAX_WORK = 100 * 1000 * 1000 /* multiplications of a contraction done by the interpreter */
};

typedef struct {
  const cv_graph *graph;
  bool all_const;
} const_check;

static void see_expr(void *context, cv_expr e) {
  const_check *check = context;
  int64_t value;
  if (e != CV_EXPR_NONE && !cv_expr_is_const(check->graph->exprs, e, &value))
    check->all_const = false;
}

/* All dims and attributes are constants; the guard does not matter. */
static bool shapes_const(const cv_graph *graph, const cv_node *node) {
  const_check check = {graph, true};
  cv_node bare = *node;
  bare.guard = CV_EXPR_NONE;
  cv_node_exprs(graph, &bare, see_expr, &check);
  return check.all_const;
}

/* The one element of a constant whose elements are all that one: a splat, or a single element. */
static const void *splat_element(const cv_graph *graph, cv_val v) {
  const cv_value_info *info = cv_value_of(graph, v);
  if (!info->is_const || !info->data.data) return NULL;
  if (info->data.splat || info->data.bytes == cv_dtype_size(info->type.dtype))
    return info->data.data;
  return NULL;
}

static bool same_element(const cv_graph *graph, cv_val a, cv_val b) {
  const void *x = splat_element(graph, a), *y = splat_element(graph, b);
  return x && y && memcmp(x, y, cv_dtype_size(cv_type_of(graph, a)->dtype)) == 0;
}

/* A constant as a tensor that borrows its bytes, or owns the expanded ones. */
static bool const_tensor(const cv_graph *graph, cv_val v, cv_tensor *out_tensor) {
  const cv_value_info *info = cv_value_of(graph, v);
  uint64_t count, bytes;
  *out_tensor = (cv_tensor){0};
  if (!info->is_const || !info->data.data || !cv_type_bytes(graph, &info->type, &count, &bytes))
    return false;
  int64_t dims[CV_MAX_RANK];
  for (int d = 0; d < info->type.rank; d++)
    if (!cv_expr_is_const(graph->exprs, info->type.dims[d], &dims[d])) return false;
  size_t size = cv_dtype_size(info->type.dtype);
  if (info->data.splat && bytes != size) {
    if (bytes > SPLAT_EXPANDED ||
        cv_tensor_create(info->type.dtype, info->type.rank, dims, out_tensor) != CV_OK)
      return false;
    for (uint64_t i = 0; i < count; i++)
      memcpy((char *)out_tensor->data + i * size, info->data.data, size);
    return true;
  }
  *out_tensor = (cv_tensor){.dtype = info->type.dtype, .rank = info->type.rank, .bytes = bytes};
  memcpy(out_tensor->dims, dims, sizeof dims);
  memcpy(&out_tensor->data, &info->data.data, sizeof out_tensor->data);
  return true;
}

/* The constant that v is, or is made of by casts and movement; CV_POISON if there is none. What is
 * made like that is not folded itself where it would grow, but a reduce of it is. */
static cv_val const_of(const cv_graph *graph, cv_val v) {
  for (int depth = 0; depth < 4; depth++) {
    const cv_value_info *info = cv_value_of(graph, v);
    if (!info->def) return info->is_const && info->data.data ? v : CV_POISON;
    switch (info->def->op) {
      case CV_OP_cast:
      case CV_OP_broadcast:
      case CV_OP_transpose:
      case CV_OP_reshape: v = info->def->ins[0]; break;
      default: return CV_POISON;
    }
  }
  return CV_POISON;
}

static bool interpret(cv_graph *graph, const cv_node *node, cv_tensor *outs);

/* An operand: a constant, or what is made of one, computed for this. */
static bool operand_tensor(cv_graph *graph, cv_val v, cv_tensor *out_tensor) {
  const cv_node *def = cv_value_of(graph, v)->def;
  if (!def) return const_tensor(graph, v, out_tensor);
  *out_tensor = (cv_tensor){0};
  return shapes_const(graph, def) && interpret(graph, def, out_tensor);
}

/* Runs the node on constants; true and the outputs (owned) if that worked. */
static bool interpret(cv_graph *graph, const cv_node *node, cv_tensor *outs) {
  cv_tensor *ins = cv_alloc_or_die((size_t)node->n_ins + 1, sizeof *ins);
  size_t n_symbols = cv_exprs_symbols(graph->exprs);
  int64_t *symbols = cv_alloc_or_die(n_symbols + 1, sizeof *symbols);
  for (size_t s = 0; s < n_symbols; s++) symbols[s] = CV_UNBOUND;
  bool good = true;
  for (uint32_t i = 0; i < node->n_ins && good; i++)
    good = operand_tensor(graph, node->ins[i], &ins[i]);
  if (good) good = cv_node_interpret(graph, node, ins, symbols, outs) == CV_OK;
  for (uint32_t i = 0; i < node->n_ins; i++) cv_tensor_deinit(&ins[i]);
  cv_free(ins);
  cv_free(symbols);
  return good;
}

/* MAP over splats: the same op on scalars, in a block that is thrown away. */
static cv_val fold_map_splat(cv_graph *graph, const cv_node *node) {
  cv_val *scalars = cv_arena_array(&graph->arena, cv_val, node->n_ins);
  for (uint32_t i = 0; i < node->n_ins; i++) {
    const void *element = splat_element(graph, node->ins[i]);
    if (!element) return CV_POISON;
    scalars[i] = cv_graph_const(graph, cv_type_of(graph, node->ins[i])->dtype, 0, NULL, element);
  }
  cv_block *at = graph->at;
  graph->at = cv_block_create(graph, at);
  cv_node *scalar =
      cv_build_node(graph, node->op, scalars, node->n_ins, node->attrs, node->n_attrs);
  cv_block *scratch = graph->at;
  graph->at = at;
  cv_tensor out = {0};
  cv_val folded = CV_POISON;
  if (scalar && interpret(graph, scalar, &out))
    folded = cv_graph_splat(graph, cv_type_of(graph, node->outs[0]), out.data);
  cv_tensor_deinit(&out);
  cv_vec_deinit(&scratch->nodes);
  return folded;
}

/* Movement of a splat is a splat. */
static cv_val fold_move_splat(cv_graph *graph, const cv_node *node) {
  const void *element = node->n_ins ? splat_element(graph, node->ins[0]) : NULL;
  if (!element) return CV_POISON;
  uint32_t same = 1; /* the operands that must be the same splat */
  if (node->op == CV_OP_pad || node->op == CV_OP_concat) same = node->n_ins;
  for (uint32_t i = 1; i < node->n_ins; i++) {
    if (i < same && !same_element(graph, node->ins[0], node->ins[i])) return CV_POISON;
    if (!cv_value_of(graph, node->ins[i])->is_const) return CV_POISON;
  }
  return cv_graph_splat(graph, cv_type_of(graph, node->outs[0]), element);
}

/* Integers and bools of few elements that the type rules followed through the shape arithmetic. */
static cv_val fold_elems(cv_graph *graph, const cv_node *node) {
  if (node->n_outs != 1) return CV_POISON;
  const cv_type *type = cv_type_of(graph, node->outs[0]);
  const cv_expr *elems;
  uint32_t n;
  uint64_t count, bytes;
  if (cv_dtype_kind(type->dtype) == 'f' || !cv_type_bytes(graph, type, &count, &bytes) ||
      count > SMALL_COUNT || !cv_graph_elems(graph, node->outs[0], &elems, &n) || n != count)
    return CV_POISON;
  char *data = cv_arena_alloc(&graph->arena, count + 1, 8);
  int64_t dims[CV_MAX_RANK];
  size_t size = cv_dtype_size(type->dtype);
  for (int d = 0; d < type->rank; d++)
    if (!cv_expr_is_const(graph->exprs, type->dims[d], &dims[d])) return CV_POISON;
  for (uint32_t i = 0; i < n; i++) {
    int64_t value;
    if (!cv_expr_is_const(graph->exprs, elems[i], &value)) return CV_POISON;
    memcpy(data + i * size, &value, size); /* little-endian: the low bytes */
  }
  return cv_graph_const_borrowed(graph, type->dtype, type->rank, dims, data);
}

static bool work_fits(const cv_graph *graph, const cv_node *node, uint64_t out_count) {
  cv_op_class class = cv_class_of(node);
  if (class != CV_CLASS_CONTRACT && class != CV_CLASS_WINDOW && class != CV_CLASS_ROUTINE)
    return true;
  uint64_t in_count = 1, most = 1, bytes;
  for (uint32_t i = 0; i < node->n_ins; i++) {
    if (!cv_type_bytes(graph, cv_type_of(graph, node->ins[i]), &in_count, &bytes)) return false;
    if (in_count > most) most = in_count;
  }
  uint64_t work;
  return !__builtin_mul_overflow(most, out_count, &work) && work <= MAX_WORK;
}

/* Bytes may not grow, unless they are few. */
static bool size_fits(const cv_graph *graph, const cv_node *node) {
  uint64_t in_bytes = 0, out_bytes = 0, count, bytes, out_count = 0;
  for (uint32_t i = 0; i < node->n_ins; i++) {
    cv_val source = const_of(graph, node->ins[i]);
    if (source == CV_POISON) return false;
    in_bytes += cv_value_of(graph, source)->data.bytes;
  }
  for (uint32_t i = 0; i < node->n_outs; i++) {
    if (!cv_type_bytes(graph, cv_type_of(graph, node->outs[i]), &count, &bytes)) return false;
    out_bytes += bytes;
    out_count += count;
  }
  if (node->op == CV_OP_iota) return out_count <= SMALL_COUNT;
  return (out_bytes <= SMALL_BYTES || out_bytes <= in_bytes) && work_fits(graph, node, out_count);
}

static bool fold_all(cv_rewriter *rewriter, cv_node *node) {
  cv_graph *graph = rewriter->graph;
  if (!size_fits(graph, node) || !shapes_const(graph, node)) return false;
  cv_tensor *outs = cv_alloc_or_die(node->n_outs, sizeof *outs);
  bool good = interpret(graph, node, outs);
  for (uint32_t i = 0; i < node->n_outs && good; i++) {
    const void *data = cv_arena_copy(&graph->arena, outs[i].data, outs[i].bytes);
    cv_rewrite_replace(
        rewriter, node->outs[i],
        cv_graph_const_borrowed(graph, outs[i].dtype, outs[i].rank, outs[i].dims, data));
  }
  for (uint32_t i = 0; i < node->n_outs; i++) cv_tensor_deinit(&outs[i]);
  cv_free(outs);
  return good;
}

/* Symbols that turned out to be constants. */
typedef struct {
  cv_expr *map; /* by symbol; CV_EXPR_NONE: not known */
  cv_sym n;
  bool any;
} bindings;

/* A join whose guard is known is one of its branches. */
static bool fold_join(cv_rewriter *rewriter, const cv_node *node) {
  const cv_attr *guard = cv_node_attr(node, CV_ATTR_GUARD);
  int64_t value;
  if (!cv_expr_is_const(rewriter->graph->exprs, guard->e, &value)) return false;
  cv_rewrite_replace(rewriter, node->outs[0], node->ins[value ? 0 : 1]);
  return true;
}

/* A bind of a constant: the symbols are its elements from now on. True if the node is to go. */
static bool fold_bind(cv_rewriter *rewriter, const cv_node *node) {
  cv_graph *graph = rewriter->graph;
  bindings *found = rewriter->context;
  const cv_attr *symbols = cv_node_attr(node, CV_ATTR_EXPRS);
  uint64_t n;
  const int64_t *values = cv_graph_ints(graph, node->ins[0], &n);
  if (!values || n < symbols->count) return false;
  for (uint32_t i = 0; i < symbols->count; i++) {
    cv_sym sym;
    if (!cv_expr_is_symbol(graph->exprs, symbols->exprs[i], &sym) || sym >= found->n) return false;
  }
  for (uint32_t i = 0; i < symbols->count; i++) {
    cv_sym sym;
    if (!cv_expr_is_symbol(graph->exprs, symbols->exprs[i], &sym)) continue;
    found->map[sym] = cv_expr_const(graph->exprs, values[i]);
    found->any = true;
  }
  return true;
}

/* Results without elements need neither operands nor a kernel. */
static bool fold_empty(cv_rewriter *rewriter, const cv_node *node) {
  cv_graph *graph = rewriter->graph;
  static const uint64_t nothing;
  for (uint32_t i = 0; i < node->n_outs; i++) {
    const cv_type *type = cv_type_of(graph, node->outs[i]);
    bool empty = false;
    int64_t dim;
    for (int d = 0; d < type->rank; d++)
      empty = empty || (cv_expr_is_const(graph->exprs, type->dims[d], &dim) && dim == 0);
    if (!empty) return false;
  }
  for (uint32_t i = 0; i < node->n_outs; i++) {
    const cv_type type = *cv_type_of(graph, node->outs[i]);
    cv_rewrite_replace(rewriter, node->outs[i], cv_graph_splat(graph, &type, &nothing));
  }
  return true;
}

static bool visit(cv_rewriter *rewriter, cv_node *node) {
  cv_graph *graph = rewriter->graph;
  if (node->op == CV_OP_bind) return fold_bind(rewriter, node);
  cv_op_class class = cv_class_of(node);
  if (node->op == CV_OP_join) return fold_join(rewriter, node);
  if (class == CV_CLASS_BIND || class == CV_CLASS_CONTROL || node->op == CV_OP_random) return false;
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (node->ins[i] == CV_POISON) return false;
  if (fold_empty(rewriter, node)) return true;
  cv_val folded = CV_POISON;
  if (class == CV_CLASS_MAP) folded = fold_map_splat(graph, node);
  if (class == CV_CLASS_MOVE || class == CV_CLASS_GATHER) folded = fold_move_splat(graph, node);
  if (folded == CV_POISON) folded = fold_elems(graph, node);
  if (folded == CV_POISON) return fold_all(rewriter, node);
  cv_rewrite_replace(rewriter, node->outs[0], folded);
  return true;
}

void cv_pass_fold(cv_graph *graph, const cv_pass_options *options) {
  (void)options;
  bool changed = true;
  while (changed && graph->status == CV_OK) { /* again while a symbol became known */
    bindings found = {.n = cv_exprs_symbols(graph->exprs)};
    found.map = cv_alloc_or_die((size_t)found.n + 1, sizeof *found.map);
    for (cv_sym s = 0; s < found.n; s++) found.map[s] = CV_EXPR_NONE;
    cv_rewrite(graph, visit, &found);
    if (found.any) cv_graph_substitute(graph, found.map);
    changed = found.any;
    cv_free(found.map);
  }
}
