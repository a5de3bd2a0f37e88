/* The node builder: types by the rules, a node appended where the graph stands. */
#include "compiler/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/graph_internal.h"

static const char *place_of(const cv_graph *graph) {
  return graph->source[0] != '\0' ? graph->source : "?";
}

static bool operands_usable(cv_graph *graph, cv_op op, const cv_val *ins, uint32_t n_ins) {
  if (graph->status != CV_OK) return false;
  for (uint32_t i = 0; i < n_ins; i++) {
    if (ins[i] < graph->values.len) continue;
    cv_graph_fail(graph, CV_INTERNAL, "%s of node \"%s\": operand %u is no value",
                  cv_op_get(op)->name, place_of(graph), i);
    return false;
  }
  return true;
}

static int order_attrs(const void *a, const void *b) {
  const cv_attr *x = a, *y = b;
  return (x->key > y->key) - (x->key < y->key);
}

static void copy_attrs(cv_graph *graph, cv_node *node, const cv_attr *attrs, uint32_t n) {
  cv_arena *arena = &graph->arena;
  node->n_attrs = n;
  node->attrs = cv_arena_array(arena, cv_attr, n + 1);
  if (n > 0) memcpy(node->attrs, attrs, n * sizeof *attrs);
  if (n > 1) qsort(node->attrs, n, sizeof *attrs, order_attrs);
  for (uint32_t i = 0; i < n; i++) {
    cv_attr *attr = &node->attrs[i];
    switch (cv_attr_kind_of(attr->key)) {
      case CV_KIND_INTS:
        attr->ints = cv_arena_copy(arena, attr->ints, attr->count * sizeof *attr->ints);
        break;
      case CV_KIND_EXPRS:
        attr->exprs = cv_arena_copy(arena, attr->exprs, attr->count * sizeof *attr->exprs);
        break;
      case CV_KIND_TEXT: attr->text = cv_arena_strdup(arena, attr->text); break;
      default: break;
    }
  }
}

/* The node with operands, attributes and outputs of these types, appended. */
static cv_node *append(cv_graph *graph, cv_op op, const cv_val *ins, uint32_t n_ins,
                       const cv_attr *attrs, uint32_t n_attrs) {
  cv_node *node = cv_arena_new(&graph->arena, cv_node);
  node->op = op;
  node->id = graph->n_nodes++;
  node->n_ins = n_ins;
  node->ins = cv_arena_array(&graph->arena, cv_val, n_ins + 1);
  if (n_ins > 0) memcpy(node->ins, ins, n_ins * sizeof *ins);
  copy_attrs(graph, node, attrs, n_attrs);
  node->guard = graph->guard;
  node->region = graph->region;
  node->source = graph->source;
  graph_push(&graph->at->nodes, node);
  return node;
}

static void add_outs(cv_graph *graph, cv_node *node, const cv_type *types, uint32_t n) {
  node->n_outs = n;
  node->outs = cv_arena_array(&graph->arena, cv_val, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    node->outs[i] = cv_value_add(graph, &types[i]);
    cv_value_info *info = cv_value_of(graph, node->outs[i]);
    info->def = node;
    info->def_index = i;
    info->guard = node->guard;
  }
}

cv_node *cv_build_node(cv_graph *graph, cv_op op, const cv_val *ins, uint32_t n_ins,
                       const cv_attr *attrs, uint32_t n_attrs) {
  if (!operands_usable(graph, op, ins, n_ins)) return NULL;
  cv_rule rule = {
      .graph = graph, .op = op, .ins = ins, .n_ins = n_ins, .attrs = attrs, .n_attrs = n_attrs};
  if (cv_op_get(op)->blocks) {
    cv_graph_fail(graph, CV_INTERNAL, "%s needs blocks: use cv_build_control", cv_op_get(op)->name);
    return NULL;
  }
  if (!cv_rule_apply(&rule)) {
    cv_graph_fail(graph, CV_INVALID, "%s of node \"%s\": %s", cv_op_get(op)->name, place_of(graph),
                  rule.error);
    return NULL;
  }
  cv_node *node = append(graph, op, ins, n_ins, attrs, n_attrs);
  add_outs(graph, node, rule.outs, rule.n_outs);
  cv_elems_infer(graph, node);
  return node;
}

cv_val cv_build(cv_graph *graph, cv_op op, const cv_val *ins, uint32_t n_ins, const cv_attr *attrs,
                uint32_t n_attrs) {
  const cv_node *node = cv_build_node(graph, op, ins, n_ins, attrs, n_attrs);
  return node != NULL && node->n_outs > 0 ? node->outs[0] : CV_POISON;
}

cv_node *cv_build_control(cv_graph *graph, cv_op op, const cv_val *ins, uint32_t n_ins,
                          const cv_attr *attrs, uint32_t n_attrs, cv_block *const *blocks,
                          uint32_t n_blocks, const cv_type *types, uint32_t n_types) {
  if (!operands_usable(graph, op, ins, n_ins)) return NULL;
  const cv_op_info *info = cv_op_get(op);
  cv_rule rule = {
      .graph = graph, .op = op, .ins = ins, .n_ins = n_ins, .attrs = attrs, .n_attrs = n_attrs};
  if (!info->blocks) {
    cv_graph_fail(graph, CV_INTERNAL, "%s has no blocks: use cv_build", info->name);
    return NULL;
  }
  bool ok = cv_rule_apply(&rule);
  cv_node draft = {.op = op,
                   .n_ins = n_ins,
                   .n_outs = n_types,
                   .n_attrs = n_attrs,
                   .n_blocks = n_blocks,
                   .ins = (cv_val *)(uintptr_t)ins,
                   .attrs = (cv_attr *)(uintptr_t)attrs,
                   .blocks = (cv_block **)(uintptr_t)blocks};
  if (!ok || !cv_rule_control(&rule, &draft, types)) {
    cv_graph_fail(graph, CV_INVALID, "%s of node \"%s\": %s", info->name, place_of(graph),
                  rule.error);
    return NULL;
  }
  cv_node *node = append(graph, op, ins, n_ins, attrs, n_attrs);
  node->n_blocks = n_blocks;
  node->blocks = cv_arena_copy(&graph->arena, blocks, n_blocks * sizeof *blocks);
  add_outs(graph, node, types, n_types);
  return node;
}
