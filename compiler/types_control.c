/* Type rules of ops with blocks. Dims of what crosses a block's border are stated, not inferred. */
#include "compiler/graph_internal.h"

static bool like(const cv_type *a, const cv_type *b, int more_dims) {
  return a->dtype == b->dtype && a->rank == b->rank + more_dims;
}

static bool is_scalar(const cv_type *type, cv_dtype dtype) {
  return type->dtype == dtype && type->rank == 0;
}

/* The block's params take the operands from `first` on. */
static bool params_match(cv_rule *rule, const cv_block *block, uint32_t first, uint32_t from) {
  uint32_t n = rule->n_ins - first;
  if (block->params.len != n) {
    return cv_rule_fail(rule, "a block has %zu params for %u values", block->params.len, n);
  }
  for (uint32_t i = from; i < n; i++) {
    const cv_type *param = cv_type_of(rule->graph, block->params.data[i]);
    const cv_type *in = cv_rule_in(rule, first + i);
    if (!like(param, in, 0)) {
      return cv_rule_fail(rule, "param %u of a block is %s, the value is %s", i,
                          cv_type_text(rule->graph, param), cv_type_text(rule->graph, in));
    }
  }
  return true;
}

static bool rule_if(cv_rule *rule, const cv_node *node, const cv_type *types) {
  if (node->n_blocks != 2) return cv_rule_fail(rule, "%u blocks, must be 2", node->n_blocks);
  if (!is_scalar(cv_rule_in(rule, 0), CV_BOOL)) {
    return cv_rule_fail(rule, "the condition must be a bool scalar, is %s",
                        cv_type_text(rule->graph, cv_rule_in(rule, 0)));
  }
  for (uint32_t b = 0; b < 2; b++) {
    const cv_block *block = node->blocks[b];
    if (!params_match(rule, block, 1, 0)) return false;
    if (block->results.len != node->n_outs) {
      return cv_rule_fail(rule, "block %u gives %zu results, %u wanted", b, block->results.len,
                          node->n_outs);
    }
    for (uint32_t i = 0; i < node->n_outs; i++) {
      const cv_type *result = cv_type_of(rule->graph, block->results.data[i]);
      if (!like(&types[i], result, 0)) {
        return cv_rule_fail(rule, "result %u of block %u is %s, output is %s", i, b,
                            cv_type_text(rule->graph, result),
                            cv_type_text(rule->graph, &types[i]));
      }
    }
  }
  return true;
}

static bool loop_outs(cv_rule *rule, const cv_node *node, const cv_type *types) {
  const cv_block *body = node->blocks[0];
  cv_expr trips = cv_rule_attr(rule, CV_ATTR_SYMBOL)->e;
  uint32_t carried = 0;
  if (body->results.len != node->n_outs + 1) {
    return cv_rule_fail(rule, "the body gives %zu results, %u wanted", body->results.len,
                        node->n_outs + 1);
  }
  for (uint32_t i = 0; i < node->n_outs; i++) {
    const cv_type *result = cv_type_of(rule->graph, body->results.data[i + 1]);
    bool carries = i == carried && like(&types[i], result, 0);
    if (carries) carried++;
    if (!carries && !(like(&types[i], result, 1) && types[i].dims[0] == trips)) {
      return cv_rule_fail(rule,
                          "output %u is %s for the body's %s: that, or it with a first dim %s", i,
                          cv_type_text(rule->graph, &types[i]), cv_type_text(rule->graph, result),
                          cv_expr_text(rule->graph, trips));
    }
    if (!carries) continue;
    if (i + 2 >= rule->n_ins || !like(cv_rule_in(rule, i + 2), result, 0)) {
      return cv_rule_fail(rule, "carried value %u has no initial value of type %s", i,
                          cv_type_text(rule->graph, result));
    }
  }
  return true;
}

static bool rule_loop(cv_rule *rule, const cv_node *node, const cv_type *types) {
  cv_sym sym;
  if (node->n_blocks != 1) return cv_rule_fail(rule, "%u blocks, must be 1", node->n_blocks);
  const cv_block *body = node->blocks[0];
  if (!is_scalar(cv_rule_in(rule, 0), CV_I64) || !is_scalar(cv_rule_in(rule, 1), CV_BOOL)) {
    return cv_rule_fail(rule, "trips must be an i64 scalar and the condition a bool scalar");
  }
  if (!cv_expr_is_symbol(rule->graph->exprs, cv_rule_attr(rule, CV_ATTR_SYMBOL)->e, &sym)) {
    return cv_rule_fail(rule, "attribute symbol is no symbol");
  }
  if (!cv_rule_range(rule, CV_ATTR_MAX, 0, INT64_MAX)) return false;
  if (body->results.len < 1 || body->params.len < 2 ||
      !is_scalar(cv_type_of(rule->graph, body->results.data[0]), CV_BOOL) ||
      !is_scalar(cv_type_of(rule->graph, body->params.data[0]), CV_I64) ||
      !is_scalar(cv_type_of(rule->graph, body->params.data[1]), CV_BOOL)) {
    return cv_rule_fail(rule,
                        "the body takes (i64 scalar, bool scalar, ...) and gives a bool scalar "
                        "first");
  }
  return params_match(rule, body, 0, 2) && loop_outs(rule, node, types);
}

bool cv_rule_control(cv_rule *rule, const cv_node *node, const cv_type *types) {
  return rule->op == CV_OP_if ? rule_if(rule, node, types) : rule_loop(rule, node, types);
}
