/* The verifier: what every pass must leave behind. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "compiler/graph_internal.h"

typedef struct {
  cv_graph *graph;
  const char *after;
  bool *visible; /* by value */
  cv_map names;
  cv_status status;
} verifier;

static void fail(verifier *v, const cv_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(verifier *v, const cv_node *node, const char *format, ...) {
  char text[1024];
  va_list args;
  if (v->status != CV_OK) return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (node == NULL) {
    v->status = cv_error(CV_INTERNAL, "after %s: %s", v->after, text);
  } else {
    v->status = cv_error(CV_INTERNAL, "after %s: node %u (%s of \"%s\"): %s", v->after, node->id,
                         cv_op_get(node->op)->name, node->source, text);
  }
}

/* ---- values ---- */

static void check_const(verifier *v, cv_val value) {
  const cv_value_info *info = cv_value_of(v->graph, value);
  uint64_t n = 1, size = cv_dtype_size(info->type.dtype);
  if (info->data.data == NULL) return;
  if (!info->data.splat && !cv_dims_small(v->graph, &info->type, UINT64_MAX / 16, &n)) {
    fail(v, NULL, "constant %u of type %s has no constant size", value,
         cv_type_text(v->graph, &info->type));
  } else if (info->data.bytes != n * size) {
    fail(v, NULL, "constant %u of type %s has %llu bytes", value,
         cv_type_text(v->graph, &info->type), (unsigned long long)info->data.bytes);
  }
}

static void check_type(verifier *v, const cv_node *node, cv_val value) {
  const cv_type *type = cv_type_of(v->graph, value);
  if ((unsigned)type->dtype >= CV_DTYPE_COUNT || type->rank > CV_MAX_RANK) {
    fail(v, node, "value %u has no valid type", value);
    return;
  }
  for (int i = 0; i < type->rank; i++) {
    if (type->dims[i] == CV_EXPR_NONE) fail(v, node, "dim %d of value %u is missing", i, value);
  }
}

/* A value comes into being: a type, a name of its own, not there before. */
static void define(verifier *v, const cv_node *node, cv_val value) {
  if (value >= v->graph->values.len) {
    fail(v, node, "defines value %u, which does not exist", value);
    return;
  }
  const cv_value_info *info = cv_value_of(v->graph, value);
  uint64_t other;
  if (v->visible[value]) fail(v, node, "value %u is defined twice", value);
  v->visible[value] = true;
  check_type(v, node, value);
  if (node == NULL && info->guard == CV_EXPR_NONE) {
    fail(v, node, "the guard of value %u is missing", value);
  }
  if (info->name == NULL) return;
  if (cv_map_get_str(&v->names, info->name, &other) && other != value) {
    fail(v, node, "two values are named \"%s\"", info->name);
  }
  if (!cv_map_put_str(&v->names, info->name, value)) (void)cv_alloc_or_die(SIZE_MAX / 2, 1);
}

/* 1 where the guard is not 0, else 0. */
static cv_expr truth(cv_exprs *exprs, cv_expr guard) {
  cv_expr zero = cv_expr_const(exprs, 0);
  return cv_expr_eq(exprs, cv_expr_eq(exprs, guard, zero), zero);
}

enum { MAX_PREDICATES = 12 };

/* Tries all values of the symbols of both, which are few and 0 or 1 (flattened Ifs make no others):
 * true, and whether `guard` never holds without `other`. False if they are of another kind. */
static bool by_cases(const cv_exprs *exprs, cv_expr guard, cv_expr other, bool *out_implies) {
  cv_sym used[MAX_PREDICATES], n_symbols = cv_exprs_symbols(exprs);
  uint32_t n = 0;
  for (cv_sym s = 0; s < n_symbols; s++) {
    int64_t lo, hi;
    if (!cv_expr_uses(exprs, guard, s) && !cv_expr_uses(exprs, other, s)) continue;
    cv_symbol_bounds(exprs, s, &lo, &hi);
    if (lo < 0 || hi > 1 || n == MAX_PREDICATES) return false;
    used[n++] = s;
  }
  int64_t *symbols = cv_alloc_or_die((size_t)n_symbols + 1, sizeof *symbols);
  *out_implies = true;
  for (uint32_t bits = 0; bits < 1u << n && *out_implies; bits++) {
    int64_t a = 1, b = 0;
    for (uint32_t i = 0; i < n; i++) symbols[used[i]] = bits >> i & 1;
    if (cv_expr_eval(exprs, guard, symbols, &a) != CV_OK ||
        cv_expr_eval(exprs, other, symbols, &b) != CV_OK || (a != 0 && b == 0))
      *out_implies = false;
  }
  cv_free(symbols);
  return true;
}

/* Where `guard` holds, `other` does: as far as can be proved. */
static bool implies(cv_exprs *exprs, cv_expr guard, cv_expr other) {
  int64_t value;
  bool proved;
  if (guard == other || (cv_expr_is_const(exprs, other, &value) && value != 0)) return true;
  if (by_cases(exprs, guard, other, &proved)) return proved;
  cv_expr a = truth(exprs, guard), b = truth(exprs, other);
  return cv_expr_mul(exprs, a, b) == a;
}

/* The guard under which operand i is read. */
static cv_expr read_guard(const verifier *v, const cv_node *node, uint32_t i) {
  if (node->op != CV_OP_join) return node->guard;
  cv_exprs *exprs = v->graph->exprs;
  cv_expr taken = truth(exprs, cv_node_attr(node, CV_ATTR_GUARD)->e);
  if (i == 1) taken = cv_expr_sub(exprs, cv_expr_const(exprs, 1), taken);
  return cv_expr_mul(exprs, truth(exprs, node->guard), taken);
}

static void use(verifier *v, const cv_node *node, cv_val value, cv_expr guard, const char *what) {
  if (value >= v->graph->values.len) {
    fail(v, node, "%s is value %u, which does not exist", what, value);
    return;
  }
  const cv_value_info *info = cv_value_of(v->graph, value);
  if (info->is_const && info->def == NULL && info->block == NULL) {
    if (!v->visible[value]) {
      define(v, node, value);
      check_const(v, value);
    }
    return;
  }
  cv_expr present = info->def != NULL ? info->def->guard : info->guard;
  if (!v->visible[value]) {
    fail(v, node, "%s is value %u (\"%s\"), which is not defined before", what, value,
         info->name != NULL ? info->name : "");
  } else if (guard != CV_EXPR_NONE && !implies(v->graph->exprs, guard, present)) {
    fail(v, node, "%s is value %u, which is present where %s, but it is read where %s", what, value,
         cv_expr_text(v->graph, present), cv_expr_text(v->graph, guard));
  }
}

/* ---- nodes ---- */

/* Equal as they would be built now (the bounds may have narrowed since). */
static bool same_expr(cv_graph *graph, cv_expr a, cv_expr b) {
  int64_t value;
  if (a == b) return true;
  return cv_expr_is_const(graph->exprs, cv_expr_eq(graph->exprs, a, b), &value) && value == 1;
}

static void check_outs(verifier *v, const cv_node *node, const cv_rule *rule) {
  if (node->n_outs != rule->n_outs) {
    fail(v, node, "%u outputs, must be %u", node->n_outs, rule->n_outs);
    return;
  }
  for (uint32_t i = 0; i < node->n_outs; i++) {
    const cv_type *have = cv_type_of(v->graph, node->outs[i]), *want = &rule->outs[i];
    bool same = have->dtype == want->dtype && have->rank == want->rank;
    for (int k = 0; same && k < have->rank; k++) {
      same = same_expr(v->graph, have->dims[k], want->dims[k]);
    }
    if (!same) {
      fail(v, node, "output %u is %s, the rule says %s", i, cv_type_text(v->graph, have),
           cv_type_text(v->graph, want));
    }
  }
}

static void check_block(verifier *v, const cv_block *block, const cv_block *parent);

static void check_blocks(verifier *v, const cv_node *node, const cv_block *block) {
  size_t bytes = v->graph->values.len + 1;
  for (uint32_t i = 0; i < node->n_blocks && v->status == CV_OK; i++) {
    /* What the block defines is not seen outside; constants it meets first are defined again. */
    bool *outer = v->visible;
    v->visible = cv_alloc_or_die(bytes, 1);
    memcpy(v->visible, outer, bytes);
    check_block(v, node->blocks[i], block);
    cv_free(v->visible);
    v->visible = outer;
  }
}

static bool check_shape_of_node(verifier *v, const cv_node *node) {
  if ((unsigned)node->op >= CV_OP_COUNT) {
    v->status = cv_error(CV_INTERNAL, "after %s: node %u has no op", v->after, node->id);
    return false;
  }
  if (node->guard == CV_EXPR_NONE) fail(v, node, "its guard is missing");
  if (node->region != CV_NO_REGION && node->region >= v->graph->regions.len) {
    fail(v, node, "region %u does not exist", node->region);
  }
  for (uint32_t i = 1; i < node->n_attrs; i++) {
    if (node->attrs[i].key <= node->attrs[i - 1].key) fail(v, node, "attributes are not sorted");
  }
  return v->status == CV_OK;
}

static void check_node(verifier *v, const cv_node *node, const cv_block *block) {
  cv_graph *graph = v->graph;
  cv_rule rule = {.graph = graph,
                  .op = node->op,
                  .ins = node->ins,
                  .n_ins = node->n_ins,
                  .attrs = node->attrs,
                  .n_attrs = node->n_attrs};
  if (!check_shape_of_node(v, node)) return;
  for (uint32_t i = 0; i < node->n_ins; i++) {
    if (node->ins[i] >= graph->values.len) use(v, node, node->ins[i], CV_EXPR_NONE, "an operand");
  }
  if (v->status != CV_OK) return;
  bool blocks = cv_op_get(node->op)->blocks;
  bool ok = cv_rule_apply(&rule);
  for (uint32_t i = 0; ok && i < node->n_ins; i++) {
    use(v, node, node->ins[i], read_guard(v, node, i), "an operand");
  }
  if (ok && blocks) check_blocks(v, node, block);
  if (v->status != CV_OK) return;
  for (uint32_t i = 0; i < node->n_outs; i++) {
    define(v, node, node->outs[i]);
    if (v->status != CV_OK) return;
    const cv_value_info *info = cv_value_of(graph, node->outs[i]);
    if (info->def != node || info->def_index != i) {
      fail(v, node, "output %u does not name the node as its definition", i);
    }
  }
  cv_type *types = cv_alloc_or_die(node->n_outs + 1, sizeof *types);
  for (uint32_t i = 0; i < node->n_outs; i++) types[i] = *cv_type_of(graph, node->outs[i]);
  if (ok && blocks) ok = cv_rule_control(&rule, node, types);
  cv_free(types);
  if (!ok) fail(v, node, "%s", rule.error);
  if (ok && !blocks) check_outs(v, node, &rule);
}

static void check_block(verifier *v, const cv_block *block, const cv_block *parent) {
  if (block->parent != parent) fail(v, NULL, "a block does not know the block it stands in");
  for (size_t i = 0; i < block->params.len && v->status == CV_OK; i++) {
    cv_val param = block->params.data[i];
    define(v, NULL, param);
    if (v->status != CV_OK) return;
    const cv_value_info *info = cv_value_of(v->graph, param);
    if (info->block != block || info->def != NULL || info->def_index != i) {
      fail(v, NULL, "param %zu (\"%s\") does not name its block", i,
           info->name != NULL ? info->name : "");
    }
  }
  for (size_t i = 0; i < block->nodes.len && v->status == CV_OK; i++) {
    check_node(v, block->nodes.data[i], block);
  }
  for (size_t i = 0; i < block->results.len && v->status == CV_OK; i++) {
    use(v, NULL, block->results.data[i], CV_EXPR_NONE, "a result");
  }
}

cv_status cv_graph_verify(cv_graph *graph, const char *after) {
  if (graph->status != CV_OK) return cv_graph_status(graph);
  verifier v = {.graph = graph, .after = after};
  const cv_block *body = graph->body;
  v.visible = cv_alloc_or_die(graph->values.len + 1, 1);
  check_block(&v, body, NULL);
  if (graph->result_names.len != 0 && graph->result_names.len != body->results.len) {
    fail(&v, NULL, "%zu names for %zu results", graph->result_names.len, body->results.len);
  }
  for (size_t i = 0; i < graph->states.len; i++) {
    const cv_graph_state *state = &graph->states.data[i];
    if (state->input >= body->params.len || state->output >= body->results.len) {
      fail(&v, NULL, "state %zu names input %u and output %u, which do not exist", i, state->input,
           state->output);
    }
  }
  cv_free(v.visible);
  cv_map_deinit(&v.names);
  return v.status;
}
