/* Which template renders a body. One walk gives each value a kind; the rules of templates.h are
 * checked on the kinds. */
#include <string.h>

#include "compiler/passes_internal.h"
#include "compiler/templates.h"

const char *cv_pattern_name(cv_pattern pattern) {
  static const char *const names[] = {"map", "row", "reduce", "contraction", "window", "routine"};
  return names[pattern];
}

typedef struct {
  const cv_graph *body;
  cv_node *anchor;     /* the one, or the first, node that is neither MAP, MOVE, GATHER nor SHAPE */
  uint32_t n_anchors;  /* how many there are */
  uint32_t n_reduces;  /* how many of them reduce */
  unsigned char *kind; /* by value */
} analysis;

/* Kinds of values. */
enum {
  PURE,   /* params, constants, SHAPE nodes, and index chains over them */
  OTHER,  /* computed, but not from an anchor */
  BESIDE, /* the same, elementwise in the dims of its result: an epilogue may read it */
  ROWS,   /* of an anchor's domain: [outer..., row...], or the anchor's result and its epilogue */
  SCALAR, /* one for each row */
  MOVED   /* behind a final reshape or transpose */
};

#define NO(node, ...) \
  cv_error(CV_UNSUPPORTED, "%s '%s': " __VA_ARGS__, cv_op_get((node)->op)->name, (node)->source)

static bool is_index_class(cv_op_class class) {
  return class == CV_CLASS_MOVE || class == CV_CLASS_GATHER || class == CV_CLASS_SHAPE;
}

static bool same_dims(const cv_graph *body, cv_val a, const cv_type *type) {
  const cv_type *other = cv_type_of(body, a);
  return other->rank == type->rank && cv_dims_same(type->rank, other->dims, type->dims);
}

static bool is_pure(const analysis *a, const cv_node *node) {
  if (!is_index_class(cv_class_of(node))) return false;
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (a->kind[node->ins[i]] != PURE) return false;
  return true;
}

static bool is_constant(const cv_graph *body, cv_val v) {
  const cv_value_info *info = cv_value_of(body, v);
  if (!info->def) return info->is_const;
  cv_op_class class = cv_class_of(info->def);
  if (class != CV_CLASS_MAP && class != CV_CLASS_MOVE && class != CV_CLASS_GATHER) return false;
  for (uint32_t i = 0; i < info->def->n_ins; i++)
    if (!is_constant(body, info->def->ins[i])) return false;
  return true;
}

/* What may stand between params and an operand of a contraction (`ints`: integers and casts too) or
 * a window. */
static cv_status check_moves(const analysis *a, cv_val v, bool ints) {
  const cv_node *node = cv_value_of(a->body, v)->def;
  if (!node || is_constant(a->body, v)) return CV_OK;
  cv_op_class class = cv_class_of(node);
  bool integer = cv_dtype_kind(cv_type_of(a->body, v)->dtype) != 'f';
  bool quantised = ints && class == CV_CLASS_MAP && (integer || node->op == CV_OP_cast);
  if (class != CV_CLASS_MOVE && class != CV_CLASS_SHAPE && !quantised)
    return NO(node, "only movement may stand before a contraction or a window");
  for (uint32_t i = 0; i < node->n_ins; i++) {
    cv_status status = check_moves(a, node->ins[i], ints);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

static cv_expr count_of(const analysis *a, cv_val v) {
  const cv_type *type = cv_type_of(a->body, v);
  cv_expr count = cv_expr_const(a->body->exprs, 1);
  for (int d = 0; d < type->rank; d++) count = cv_expr_mul(a->body->exprs, count, type->dims[d]);
  return count;
}

/* A reshape or transpose of what an anchor made, folded into the store: only such and results may
 * read it. Of a reshape both counts must be the same expression, else places before and after it
 * cannot be matched. */
static bool is_final_move(const analysis *a, const cv_node *node) {
  if (node->op == CV_OP_reshape) return count_of(a, node->ins[0]) == count_of(a, node->outs[0]);
  return node->op == CV_OP_transpose;
}

/* Kinds behind one anchor whose result has the type `domain`. */
static cv_status epilogue_kind(const analysis *a, const cv_node *node, const cv_type *domain) {
  bool has[MOVED + 1] = {false};
  for (uint32_t i = 0; i < node->n_ins; i++) has[a->kind[node->ins[i]]] = true;
  bool from_anchor = has[ROWS], in_domain = same_dims(a->body, node->outs[0], domain);
  unsigned char *kind = &a->kind[node->outs[0]];
  if (is_pure(a, node)) {
    *kind = PURE;
  } else if (cv_class_of(node) == CV_CLASS_MAP && from_anchor) {
    *kind = ROWS;
    if (!in_domain || has[OTHER] || has[MOVED])
      return NO(node, "it does not work on the elements of the result before it");
  } else if (cv_class_of(node) == CV_CLASS_MAP && !has[MOVED]) {
    *kind = in_domain && !has[OTHER] ? BESIDE : OTHER;
  } else if (is_final_move(a, node) && (from_anchor || has[MOVED])) {
    *kind = MOVED;
  } else if (is_index_class(cv_class_of(node)) && !from_anchor && !has[MOVED]) {
    *kind = OTHER;
  } else {
    return NO(node, "it can not follow the op before it inside one kernel");
  }
  return CV_OK;
}

static cv_status check_one_anchor(analysis *a, bool any_prologue) {
  const cv_block *block = a->body->body;
  const cv_type *domain = cv_type_of(a->body, a->anchor->outs[0]);
  cv_status status = CV_OK;
  for (size_t i = 0; i < block->nodes.len && status == CV_OK; i++) {
    const cv_node *node = block->nodes.data[i];
    if (node == a->anchor)
      a->kind[node->outs[0]] = ROWS;
    else
      status = epilogue_kind(a, node, domain);
  }
  for (uint32_t i = 0; i < a->anchor->n_ins && status == CV_OK && !any_prologue; i++)
    status = check_moves(a, a->anchor->ins[i], cv_class_of(a->anchor) == CV_CLASS_CONTRACT);
  for (size_t i = 0; i < block->results.len && status == CV_OK; i++)
    if (a->kind[block->results.data[i]] < ROWS)
      status = NO(a->anchor, "a result does not depend on it");
  return status;
}

/* The dims without the last k, and the same followed by ones. */
static bool is_scalar_dims(const cv_graph *body, cv_val v, const cv_type *domain, int k) {
  const cv_type *type = cv_type_of(body, v);
  int outer = domain->rank - k;
  if (type->rank < outer || !cv_dims_same(outer, type->dims, domain->dims)) return false;
  for (int d = outer; d < type->rank; d++) {
    int64_t one;
    if (!cv_expr_is_const(body->exprs, type->dims[d], &one) || one != 1) return false;
  }
  return true;
}

static bool reduces_rows(const analysis *a, const cv_node *node, const cv_type *domain, int k) {
  const cv_attr *axes = cv_node_attr(node, CV_ATTR_AXES);
  if ((int)axes->count != k || !same_dims(a->body, node->ins[0], domain)) return false;
  for (int i = 0; i < k; i++) {
    bool found = false;
    for (int j = 0; j < k; j++) found = found || axes->ints[j] == domain->rank - k + i;
    if (!found) return false;
  }
  return true;
}

/* MAP in a row body: all operands rows, or all one a row. */
static cv_status row_map_kind(const analysis *a, const cv_node *node, const cv_type *domain,
                              int k) {
  bool rows = same_dims(a->body, node->outs[0], domain);
  if (!rows && !is_scalar_dims(a->body, node->outs[0], domain, k))
    return NO(node, "it works neither on rows nor on one value a row");
  for (uint32_t i = 0; i < node->n_ins; i++) {
    unsigned char kind = a->kind[node->ins[i]];
    if (kind != PURE && kind != (rows ? ROWS : SCALAR))
      return NO(node, "it mixes rows with what is none");
  }
  a->kind[node->outs[0]] = rows ? ROWS : SCALAR;
  return CV_OK;
}

static cv_status row_move_kind(const analysis *a, const cv_node *node, const cv_type *domain,
                               int k) {
  unsigned char from = node->n_ins ? a->kind[node->ins[0]] : PURE;
  unsigned char *kind = &a->kind[node->outs[0]];
  if (is_pure(a, node)) {
    *kind = PURE;
  } else if (from == SCALAR && node->op == CV_OP_reshape &&
             is_scalar_dims(a->body, node->outs[0], domain, k)) {
    *kind = SCALAR;
  } else if (from == SCALAR && node->op == CV_OP_broadcast &&
             same_dims(a->body, node->outs[0], domain)) {
    *kind = ROWS;
  } else if (is_final_move(a, node) && from >= ROWS) {
    *kind = MOVED;
  } else {
    return NO(node, "movement inside a row kernel");
  }
  return CV_OK;
}

static cv_status check_row(analysis *a) {
  const cv_block *block = a->body->body;
  const cv_type *domain = cv_type_of(a->body, a->anchor->ins[0]);
  int k = (int)cv_node_attr(a->anchor, CV_ATTR_AXES)->count;
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    cv_op_class class = cv_class_of(node);
    cv_status status = CV_OK;
    if (class == CV_CLASS_REDUCE) {
      unsigned char kind = a->kind[node->ins[0]];
      if (!reduces_rows(a, node, domain, k) || (kind != ROWS && kind != PURE))
        return NO(node, "it does not reduce the rows of this kernel");
      a->kind[node->outs[0]] = SCALAR;
    } else if (class == CV_CLASS_MAP) {
      status = row_map_kind(a, node, domain, k);
    } else {
      status = row_move_kind(a, node, domain, k);
    }
    if (status != CV_OK) return status;
  }
  for (size_t i = 0; i < block->results.len; i++)
    if (a->kind[block->results.data[i]] == PURE)
      return NO(a->anchor, "a result does not depend on a row");
  return CV_OK;
}

/* A result behind its reshapes. */
static cv_val before_reshapes(const cv_graph *body, cv_val v) {
  const cv_node *def = cv_value_of(body, v)->def;
  while (def && def->op == CV_OP_reshape) {
    v = def->ins[0];
    def = cv_value_of(body, v)->def;
  }
  return v;
}

static cv_status check_map(const analysis *a) {
  const cv_block *block = a->body->body;
  for (size_t i = 1; i < block->results.len; i++) {
    const cv_type *first = cv_type_of(a->body, block->results.data[0]);
    cv_val plain = before_reshapes(a->body, block->results.data[0]);
    cv_val v = block->results.data[i];
    if (!same_dims(a->body, v, first) &&
        !same_dims(a->body, before_reshapes(a->body, v), cv_type_of(a->body, plain)))
      return cv_error(CV_UNSUPPORTED, "the results of a map kernel differ in dims");
  }
  return CV_OK;
}

static cv_status check_routine(const analysis *a) {
  const cv_block *block = a->body->body;
  if (block->nodes.len != 1) return NO(a->anchor, "a routine stands alone in its kernel");
  return CV_OK;
}

/* conv with as many groups as channels, in and out. */
static bool is_depthwise(const cv_graph *body, const cv_node *node) {
  if (node->op != CV_OP_conv) return false;
  int64_t in, out, groups = cv_node_int(node, CV_ATTR_GROUPS);
  return cv_expr_is_const(body->exprs, cv_type_of(body, node->ins[0])->dims[1], &in) &&
         cv_expr_is_const(body->exprs, cv_type_of(body, node->ins[1])->dims[0], &out) &&
         groups == in && groups == out && groups > 1;
}

static cv_status classify(analysis *a, cv_pattern *out_pattern) {
  *out_pattern = CV_PATTERN_MAP;
  if (!a->anchor) return check_map(a);
  cv_op_class class = cv_class_of(a->anchor);
  if (class == CV_CLASS_BIND || class == CV_CLASS_CONTROL)
    return NO(a->anchor, "no kernel runs control flow");
  if (class == CV_CLASS_ROUTINE) {
    *out_pattern = CV_PATTERN_ROUTINE;
    return check_routine(a);
  }
  if (a->n_reduces == a->n_anchors) {
    *out_pattern = CV_PATTERN_REDUCE;
    if (a->n_anchors == 1 && check_one_anchor(a, true) == CV_OK) return CV_OK;
    memset(a->kind, PURE, a->body->values.len);
    *out_pattern = CV_PATTERN_ROW;
    return check_row(a);
  }
  if (a->n_anchors > 1) return NO(a->anchor, "two of its kind are never in one kernel");
  bool window = class == CV_CLASS_WINDOW || is_depthwise(a->body, a->anchor);
  *out_pattern = window ? CV_PATTERN_WINDOW : CV_PATTERN_CONTRACTION;
  return check_one_anchor(a, false);
}

cv_status cv_pattern_of(const cv_graph *body, cv_pattern *out_pattern) {
  analysis a = {.body = body};
  for (size_t i = 0; i < body->body->nodes.len; i++) {
    cv_node *node = body->body->nodes.data[i];
    cv_op_class class = cv_class_of(node);
    if (class == CV_CLASS_MAP || is_index_class(class)) continue;
    if (!a.anchor) a.anchor = node;
    a.n_anchors++;
    if (class == CV_CLASS_REDUCE) a.n_reduces++;
  }
  a.kind = cv_alloc_or_die(body->values.len + 1, 1);
  cv_status status = classify(&a, out_pattern);
  cv_free(a.kind);
  return status;
}
