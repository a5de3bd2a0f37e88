/* Algebra and movement rules, applied until none fires. Folding and dead code run between rounds,
 * so that constants and single readers show. */
#include "compiler/simplify.h"

#include "runtime/half.h"

static const cv_simplify_rule rules[] = {
    {"cast-chain", CV_RULE_EXACT, CV_OP_cast, cv_rule_cast_chain},
    {"cast-none", CV_RULE_EXACT, CV_OP_cast, cv_rule_cast_none},
    {"neg-neg", CV_RULE_EXACT, CV_OP_neg, cv_rule_twice},
    {"not-not", CV_RULE_EXACT, CV_OP_not, cv_rule_twice},
    {"mul-one", CV_RULE_EXACT, CV_OP_mul, cv_rule_neutral},
    {"div-one", CV_RULE_EXACT, CV_OP_div, cv_rule_neutral},
    {"add-neutral", CV_RULE_EXACT, CV_OP_add, cv_rule_neutral},
    {"sub-zero", CV_RULE_EXACT, CV_OP_sub, cv_rule_neutral},
    {"and-true", CV_RULE_EXACT, CV_OP_and, cv_rule_neutral},
    {"or-false", CV_RULE_EXACT, CV_OP_or, cv_rule_neutral},
    {"max-infinity", CV_RULE_EXACT, CV_OP_max, cv_rule_neutral},
    {"min-infinity", CV_RULE_EXACT, CV_OP_min, cv_rule_neutral},
    {"add-zero", CV_RULE_BOUNDED, CV_OP_add, cv_rule_add_zero},
    {"mul-zero", CV_RULE_EXACT, CV_OP_mul, cv_rule_mul_zero},
    {"max-max", CV_RULE_EXACT, CV_OP_max, cv_rule_clamp_chain},
    {"min-min", CV_RULE_EXACT, CV_OP_min, cv_rule_clamp_chain},
    {"select-known", CV_RULE_EXACT, CV_OP_select, cv_rule_select},
    {"div-exact", CV_RULE_EXACT, CV_OP_div, cv_rule_div_exact},
    {"div-reciprocal", CV_RULE_BOUNDED, CV_OP_div, cv_rule_div_reciprocal},
    {"pow-one", CV_RULE_EXACT, CV_OP_pow, cv_rule_pow_one},
    {"pow-known", CV_RULE_BOUNDED, CV_OP_pow, cv_rule_pow},
    {"reshape-none", CV_RULE_EXACT, CV_OP_reshape, cv_rule_move_none},
    {"transpose-none", CV_RULE_EXACT, CV_OP_transpose, cv_rule_move_none},
    {"broadcast-none", CV_RULE_EXACT, CV_OP_broadcast, cv_rule_move_none},
    {"slice-none", CV_RULE_EXACT, CV_OP_slice, cv_rule_move_none},
    {"pad-none", CV_RULE_EXACT, CV_OP_pad, cv_rule_move_none},
    {"concat-one", CV_RULE_EXACT, CV_OP_concat, cv_rule_move_none},
    {"reshape-reshape", CV_RULE_EXACT, CV_OP_reshape, cv_rule_move_twice},
    {"transpose-transpose", CV_RULE_EXACT, CV_OP_transpose, cv_rule_move_twice},
    {"broadcast-broadcast", CV_RULE_EXACT, CV_OP_broadcast, cv_rule_move_twice},
    {"slice-slice", CV_RULE_EXACT, CV_OP_slice, cv_rule_move_twice},
    {"transpose-is-reshape", CV_RULE_EXACT, CV_OP_transpose, cv_rule_transpose_is_reshape},
    {"reshape-of-broadcast", CV_RULE_EXACT, CV_OP_reshape, cv_rule_reshape_of_broadcast},
    {"slice-of-concat", CV_RULE_EXACT, CV_OP_slice, cv_rule_slice_of_concat},
    {"concat-of-concat", CV_RULE_EXACT, CV_OP_concat, cv_rule_concat_of_concat},
    {"gather-one", CV_RULE_EXACT, CV_OP_gather, cv_rule_gather_one},
    {"gather-own-item", CV_RULE_EXACT, CV_OP_gather_nd, cv_rule_gather_own_item},
    {"reduce-ones", CV_RULE_EXACT, CV_OP_reduce, cv_rule_reduce_ones},
    {"pad-into-conv", CV_RULE_EXACT, CV_OP_conv, cv_rule_pad_into_window},
    {"pad-into-window", CV_RULE_EXACT, CV_OP_window, cv_rule_pad_into_window},
    {"sub-const", CV_RULE_EXACT, CV_OP_sub, cv_rule_sub_const},
    {"scale-into-conv", CV_RULE_BOUNDED, CV_OP_mul, cv_rule_scale_into_conv},
    {"scale-into-matmul", CV_RULE_BOUNDED, CV_OP_mul, cv_rule_scale_into_matmul},
    {"scale-of-sum", CV_RULE_BOUNDED, CV_OP_mul, cv_rule_scale_of_sum},
    {"mul-mul", CV_RULE_BOUNDED, CV_OP_mul, cv_rule_const_chain},
    {"add-add", CV_RULE_BOUNDED, CV_OP_add, cv_rule_const_chain},
    {"add-of-broadcasts", CV_RULE_EXACT, CV_OP_add, cv_rule_map_of_broadcasts},
    {"sub-of-broadcasts", CV_RULE_EXACT, CV_OP_sub, cv_rule_map_of_broadcasts},
    {"mul-of-broadcasts", CV_RULE_EXACT, CV_OP_mul, cv_rule_map_of_broadcasts},
    {"select-of-broadcasts", CV_RULE_EXACT, CV_OP_select, cv_rule_map_of_broadcasts},
    {"cast-of-broadcast", CV_RULE_EXACT, CV_OP_cast, cv_rule_map_of_broadcasts},
    {NULL, CV_RULE_EXACT, CV_OP_COUNT, NULL},
};

enum { MAX_ROUNDS = 32 };

const cv_simplify_rule *cv_simplify_rules(void) { return rules; }

cv_node *cv_def_of(const cv_rewriter *rewriter, cv_val v, cv_op op) {
  cv_node *def = cv_value_of(rewriter->graph, v)->def;
  return def && def->op == op ? def : NULL;
}

cv_node *cv_only_def_of(const cv_rewriter *rewriter, cv_val v, cv_op op) {
  return cv_rewrite_uses(rewriter, v) == 1 ? cv_def_of(rewriter, v, op) : NULL;
}

bool cv_splat_value(const cv_graph *graph, cv_val v, double *out_value) {
  const cv_value_info *info = cv_value_of(graph, v);
  *out_value = 0;
  if (!info->is_const || !info->data.data ||
      (!info->data.splat && info->data.bytes != cv_dtype_size(info->type.dtype)))
    return false;
  *out_value = cv_element_to_double(info->type.dtype, info->data.data);
  return true;
}

bool cv_is_splat(const cv_graph *graph, cv_val v, double value) {
  double is;
  return cv_splat_value(graph, v, &is) && is == value;
}

bool cv_expr_is(const cv_graph *graph, cv_expr e, int64_t value) {
  int64_t is;
  return cv_expr_is_const(graph->exprs, e, &is) && is == value;
}

cv_val cv_const_source(const cv_graph *graph, cv_val v) {
  const cv_value_info *info = cv_value_of(graph, v);
  if (info->def && info->def->op == CV_OP_broadcast) {
    v = info->def->ins[0];
    info = cv_value_of(graph, v);
  }
  return info->is_const && info->data.data ? v : CV_POISON;
}

cv_val cv_const_narrow(cv_graph *graph, cv_val v) {
  if (v == CV_POISON) return v;
  cv_type type = *cv_type_of(graph, v);
  if (!cv_value_of(graph, v)->data.splat) return v;
  for (int d = 0; d < type.rank; d++) type.dims[d] = cv_expr_const(graph->exprs, 1);
  return cv_graph_splat(graph, &type, cv_value_of(graph, v)->data.data);
}

cv_val cv_const_combine(cv_graph *graph, cv_op op, cv_val a, cv_val b, cv_val like) {
  const cv_type type = *cv_type_of(graph, like);
  a = cv_const_narrow(graph, a);
  b = cv_const_narrow(graph, b);
  return cv_broadcast_to(graph, cv_binary_bc(graph, op, a, b), type.dims, type.rank);
}

typedef struct {
  const cv_pass_options *options;
  uint64_t *fired;
  int64_t fuel;
  bool *rounded; /* by value, as of the start of a walk: a `round` reads it */
  uint32_t n_rounded;
} simplifier;

bool cv_rule_feeds_round(const cv_rewriter *rewriter, cv_val v) {
  const simplifier *s = rewriter->context;
  return v >= s->n_rounded || s->rounded[v];
}

static void find_rounded(const cv_block *block, bool *rounded) {
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    if (node->op == CV_OP_round) rounded[node->ins[0]] = true;
    for (uint32_t b = 0; b < node->n_blocks; b++) find_rounded(node->blocks[b], rounded);
  }
}

static bool allowed(const cv_pass_options *options, cv_rule_class class) {
  if (class == CV_RULE_BOUNDED) return !options->exact;
  return class == CV_RULE_EXACT || options->fast_math;
}

static bool visit(cv_rewriter *rewriter, cv_node *node) {
  simplifier *s = rewriter->context;
  cv_graph *graph = rewriter->graph;
  if (node->n_outs != 1 || node->n_blocks) return false;
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (node->ins[i] == CV_POISON) return false;
  for (size_t i = 0; rules[i].name; i++) {
    const cv_simplify_rule *rule = &rules[i];
    if (rule->op != node->op || s->fuel == 0 || !allowed(s->options, rule->class_)) continue;
    cv_val to = rule->apply(rewriter, node);
    if (to == CV_POISON || to == node->outs[0]) continue;
    if (!cv_type_same(cv_type_of(graph, to), cv_type_of(graph, node->outs[0]))) {
      cv_graph_fail(graph, CV_INTERNAL, "rule %s makes %s of %s '%s', which is %s", rule->name,
                    cv_type_text(graph, cv_type_of(graph, to)), cv_op_get(node->op)->name,
                    node->source, cv_type_text(graph, cv_type_of(graph, node->outs[0])));
      return false;
    }
    cv_rewrite_replace(rewriter, node->outs[0], to);
    if (s->fired) s->fired[i]++;
    if (s->fuel > 0) s->fuel--;
    return true;
  }
  return false;
}

void cv_simplify(cv_graph *graph, const cv_pass_options *options, uint64_t *fired) {
  simplifier s = {.options = options, .fired = fired};
  s.fuel = options->rewrite_fuel > 0 ? options->rewrite_fuel : -1;
  bool changed = graph->status == CV_OK;
  for (int round = 0; round < MAX_ROUNDS && changed; round++) {
    s.n_rounded = (uint32_t)graph->values.len;
    s.rounded = cv_alloc_or_die(graph->values.len + 1, sizeof *s.rounded);
    find_rounded(graph->body, s.rounded);
    changed = cv_rewrite(graph, visit, &s) && graph->status == CV_OK;
    cv_free(s.rounded);
    if (!changed) break;
    cv_pass_fold(graph, options);
    cv_pass_dce(graph, options);
  }
}

void cv_pass_simplify(cv_graph *graph, const cv_pass_options *options) {
  cv_simplify(graph, options, NULL);
}
