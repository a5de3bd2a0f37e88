/* The proof of batch separability: where the batch sits in every value, from the inputs on. */
#include "compiler/separable_internal.h"

#include <stdarg.h>

bool cv_proof_no(cv_proof *proof, const cv_node *node, const char *format, ...) {
  if (proof->why) return false;
  cv_str text = {.may_die = true};
  cv_str_add(&text, "not separable: %s '%s' ", cv_op_get(node->op)->name, node->source);
  va_list args;
  va_start(args, format);
  cv_str_addv(&text, format, args);
  va_end(args);
  proof->why = cv_arena_strdup(&proof->graph->arena, cv_str_text(&text));
  cv_str_deinit(&text);
  return false;
}

bool cv_proof_uses(const cv_proof *proof, cv_expr e) {
  return e != CV_EXPR_NONE && cv_expr_uses(proof->graph->exprs, e, proof->batch);
}

cv_expr cv_proof_known(const cv_proof *proof, cv_expr e) {
  return cv_expr_substitute(proof->graph->exprs, e, proof->known);
}

/* Loops of known trips whose condition is always true. */
static void find_known(cv_proof *proof, const cv_block *block) {
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    for (uint32_t b = 0; b < node->n_blocks; b++) find_known(proof, node->blocks[b]);
    cv_sym sym;
    int64_t trips = node->op == CV_OP_loop ? cv_loop_known_trips(proof->graph, node) : -1;
    if (trips >= 0 &&
        cv_expr_is_symbol(proof->graph->exprs, cv_node_attr(node, CV_ATTR_SYMBOL)->e, &sym))
      proof->known[sym] = cv_expr_const(proof->graph->exprs, trips);
  }
}

cv_batched cv_proof_dim(const cv_proof *proof, int axis, cv_expr dim, bool uniform) {
  cv_exprs *exprs = proof->graph->exprs;
  cv_batched state = {.axis = -1, .outer = cv_expr_const(exprs, 1), .uniform = uniform};
  cv_expr rest;
  int64_t zero;
  if (!cv_expr_linear(exprs, dim, proof->batch, &state.inner, &rest)) return state;
  if (!cv_expr_is_const(exprs, rest, &zero) || zero != 0) return state;
  if (cv_expr_is_const(exprs, state.inner, &zero) && zero == 0) return state;
  state.axis = axis;
  return state;
}

/* What every node must keep: the batch is in one dim of its outputs, as their states say, and its
 * guard does not depend on it. */
static bool check_outputs(cv_proof *proof, const cv_node *node) {
  cv_exprs *exprs = proof->graph->exprs;
  if (cv_proof_uses(proof, node->guard)) return cv_proof_no(proof, node, "is guarded by the batch");
  for (uint32_t i = 0; i < node->n_outs; i++) {
    const cv_type *type = cv_type_of(proof->graph, node->outs[i]);
    const cv_batched *state = &proof->value[node->outs[i]];
    for (int d = 0; d < type->rank; d++) {
      bool here = d == state->axis;
      if (!here && cv_proof_uses(proof, type->dims[d]))
        return cv_proof_no(proof, node, "has the batch in dim %d, where its items are not apart",
                           d);
      cv_expr is =
          here ? cv_expr_mul(exprs, cv_expr_mul(exprs, state->outer, state->inner), proof->size)
               : type->dims[d];
      if (is != type->dims[d])
        return cv_proof_no(proof, node, "has a dim %d that does not hold whole items", d);
    }
  }
  return true;
}

bool cv_proof_block(cv_proof *proof, const cv_block *block) {
  for (size_t i = 0; i < block->nodes.len; i++)
    if (!cv_proof_node(proof, block->nodes.data[i]) || !check_outputs(proof, block->nodes.data[i]))
      return false;
  return true;
}

/* The batch: the symbol in dim 0 of the first input that has one there. */
static cv_sym find_batch(const cv_graph *graph) {
  for (size_t i = 0; i < graph->body->params.len; i++) {
    const cv_type *type = cv_type_of(graph, graph->body->params.data[i]);
    cv_sym sym;
    if (type->rank && cv_expr_is_symbol(graph->exprs, type->dims[0], &sym)) return sym;
  }
  return CV_NONE;
}

static bool start_inputs(cv_proof *proof) {
  cv_graph *graph = proof->graph;
  for (size_t i = 0; i < graph->body->params.len; i++) {
    cv_val v = graph->body->params.data[i];
    const cv_type *type = cv_type_of(graph, v);
    const char *name = cv_value_of(graph, v)->name;
    for (int d = 0; d < type->rank; d++) {
      if (!cv_proof_uses(proof, type->dims[d])) continue;
      cv_batched state = cv_proof_dim(proof, d, type->dims[d], false);
      int64_t factor;
      bool whole = state.axis >= 0 && cv_expr_is_const(graph->exprs, state.inner, &factor);
      if (!whole || proof->value[v].axis >= 0) {
        proof->why = cv_arena_format(&graph->arena,
                                     "not separable: input '%s' has the batch in dim %d not as one "
                                     "multiple of it",
                                     name ? name : "", d);
        return false;
      }
      proof->value[v] = state;
    }
  }
  return true;
}

/* What a node assumes of the number of items holds for that number alone. */
static bool check_equalities(cv_proof *proof) {
  cv_graph *graph = proof->graph;
  for (size_t i = 0; i < graph->equalities.len; i++) {
    const cv_equality *equality = &graph->equalities.data[i];
    if (!cv_proof_uses(proof, equality->a) && !cv_proof_uses(proof, equality->b)) continue;
    proof->why = cv_arena_format(&graph->arena,
                                 "not separable: node '%s' needs two dims equal that are so for "
                                 "some sizes of the batch alone",
                                 equality->source);
    return false;
  }
  return true;
}

/* Outputs must be made of whole items, one after the other. */
static bool finish_outputs(cv_proof *proof, cv_separability *verdict) {
  cv_graph *graph = proof->graph;
  for (size_t i = 0; i < graph->body->results.len; i++) {
    const cv_batched *state = &proof->value[graph->body->results.data[i]];
    int64_t outer, factor;
    if (state->axis < 0) continue;
    if (!cv_expr_is_const(graph->exprs, state->outer, &outer) || outer != 1 ||
        !cv_expr_is_const(graph->exprs, state->inner, &factor)) {
      proof->why =
          cv_arena_format(&graph->arena,
                          "not separable: the items of output %zu do not lie one after the "
                          "other in pieces of constant size",
                          i);
      return false;
    }
    verdict->output_axis[i] = state->axis;
    verdict->output_factor[i] = factor;
  }
  return true;
}

/* Constants with the batch in a dim are the same for all items. */
static void start_constants(cv_proof *proof) {
  cv_graph *graph = proof->graph;
  for (size_t v = 0; v < graph->values.len; v++) {
    const cv_value_info *info = cv_value_of(graph, (cv_val)v);
    proof->value[v].axis = -1;
    if (!info->is_const) continue;
    for (int d = 0; d < info->type.rank; d++)
      if (cv_proof_uses(proof, info->type.dims[d]))
        proof->value[v] = cv_proof_dim(proof, d, info->type.dims[d], true);
  }
}

void cv_prove_separable(cv_graph *graph, cv_separability *out_verdict) {
  size_t n_ins = graph->body->params.len, n_outs = graph->body->results.len;
  cv_separability *v = out_verdict;
  *v = (cv_separability){.batch = find_batch(graph)};
  v->input_axis = cv_arena_array(&graph->arena, int32_t, n_ins + 1);
  v->output_axis = cv_arena_array(&graph->arena, int32_t, n_outs + 1);
  v->input_factor = cv_arena_array(&graph->arena, int64_t, n_ins + 1);
  v->output_factor = cv_arena_array(&graph->arena, int64_t, n_outs + 1);
  for (size_t i = 0; i < n_ins; i++) v->input_axis[i] = -1, v->input_factor[i] = 1;
  for (size_t i = 0; i < n_outs; i++) v->output_axis[i] = -1, v->output_factor[i] = 1;
  if (v->batch == CV_NONE) {
    v->why = "not separable: no input has a symbol as its dim 0";
    return;
  }
  cv_proof proof = {.graph = graph, .batch = v->batch};
  proof.size = cv_expr_symbol(graph->exprs, v->batch);
  proof.value = cv_alloc_or_die(graph->values.len + 1, sizeof *proof.value);
  proof.known = cv_arena_array(&graph->arena, cv_expr, (size_t)cv_exprs_symbols(graph->exprs) + 1);
  for (cv_sym s = 0; s < cv_exprs_symbols(graph->exprs); s++) proof.known[s] = CV_EXPR_NONE;
  find_known(&proof, graph->body);
  start_constants(&proof);
  v->separable = check_equalities(&proof) && start_inputs(&proof) &&
                 cv_proof_block(&proof, graph->body) && finish_outputs(&proof, v);
  for (size_t i = 0; i < n_ins && v->separable; i++) {
    const cv_batched *state = &proof.value[graph->body->params.data[i]];
    v->input_axis[i] = state->axis;
    if (state->axis >= 0 && !cv_expr_is_const(graph->exprs, state->inner, &v->input_factor[i]))
      v->input_factor[i] = 1;
  }
  v->why = v->separable ? cv_arena_format(&graph->arena,
                                          "separable: every value keeps the items of '%s' apart",
                                          cv_symbol_name(graph->exprs, v->batch))
                        : proof.why;
  cv_free(proof.value);
}
