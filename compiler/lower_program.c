/* Programs from blocks: ports, states, separability, the shared constants; and their text. */
#include <stdio.h>
#include <string.h>

#include "compiler/lower_internal.h"

/* Names of outputs go to the values that are them, where nothing else has the name. */
static void name_outputs(cv_graph *graph) {
  for (size_t i = 0; i < graph->body->results.len && i < graph->result_names.len; i++) {
    const char *name = graph->result_names.data[i];
    cv_value_info *info = cv_value_of(graph, graph->body->results.data[i]);
    if (!name || !info->def) continue;
    bool first = true; /* of several outputs that are one value the first names it */
    for (size_t k = 0; k < i && first; k++)
      first = graph->body->results.data[k] != graph->body->results.data[i];
    if (first) info->name = name;
  }
}

/* Other values must not have an output's name: theirs goes. */
static void free_output_names(cv_graph *graph) {
  for (size_t v = 0; v < graph->values.len; v++) {
    cv_value_info *info = &graph->values.data[v];
    for (size_t i = 0; info->name && info->def && i < graph->result_names.len; i++)
      if (graph->result_names.data[i] && strcmp(info->name, graph->result_names.data[i]) == 0)
        info->name = NULL;
  }
}

/* The value of result i: what no step made, and what is an output already, goes through an alias.
 */
static uint32_t lower_result(cv_block_lowering *low, cv_val v, const char *name, bool *is_output) {
  uint32_t id = cv_lower_value(low, v);
  if (low->values.data[id].kind == CV_VALUE_STEP && !is_output[id]) return id;
  cv_expr one = cv_expr_const(low->top->graph->exprs, 1);
  const char *out_name = name ? name : "output";
  uint64_t taken;
  char *unique = cv_arena_strdup(&low->program->arena, out_name);
  for (int i = 2; cv_map_get_str(&low->value_names, unique, &taken); i++)
    unique = cv_arena_format(&low->program->arena, "%s_%d", out_name, i);
  cv_map_set(&low->value_names, unique, strlen(unique), 1);
  cv_alias_spec spec = {"result", unique, v, one};
  return cv_lower_alias(low, &id, 1, &spec);
}

static void lower_results(cv_block_lowering *low, const cv_block *block) {
  cv_program *program = low->program;
  const cv_graph *graph = low->top->graph;
  size_t n = block->results.len;
  bool *is_output = cv_alloc_or_die(low->values.len + 2 * n + 1, sizeof *is_output);
  program->outputs = cv_arena_array(&program->arena, cv_port, n + 1);
  program->n_outputs = (uint32_t)n;
  for (size_t i = 0; i < n && graph->status == CV_OK; i++) {
    bool named = block == graph->body && i < graph->result_names.len;
    const char *name = named ? graph->result_names.data[i] : NULL;
    uint32_t id = lower_result(low, block->results.data[i], name, is_output);
    is_output[id] = true;
    program->outputs[i] = (cv_port){.value = id, .batch_axis = -1, .batch_factor = 1};
  }
  cv_free(is_output);
}

/* Moves a vector into the program's arena. */
#define MOVE_VEC(program, field, v)                                                               \
  do {                                                                                            \
    (program)->n_##field = (uint32_t)(v)->len;                                                    \
    (program)->field = cv_arena_copy(&(program)->arena, (v)->data, (v)->len * sizeof *(v)->data); \
    cv_vec_deinit(v);                                                                             \
  } while (0)

cv_program *cv_lower_block(cv_lowering *top, const cv_block *block, const cv_vals *captured) {
  cv_graph *graph = top->graph;
  cv_program *program = captured ? cv_program_create(top->exprs, false, true) : top->top;
  cv_block_lowering low = {.top = top, .program = program};
  cv_push(&top->programs, program);
  low.value_of = cv_alloc_or_die(graph->values.len + 1, sizeof *low.value_of);
  memset(low.value_of, 0xff, (graph->values.len + 1) * sizeof *low.value_of);
  for (size_t i = 0; i < block->params.len; i++) {
    cv_push(&low.input_vals, block->params.data[i]);
    cv_lower_input(&low, block->params.data[i], NULL);
  }
  for (size_t i = 0; captured && i < captured->len; i++) {
    cv_push(&low.input_vals, captured->data[i]);
    cv_lower_input(&low, captured->data[i], "captured");
  }
  cv_fuse(graph, block, top->options, &low.fusion);
  cv_lower_groups(&low);
  if (graph->status == CV_OK) lower_results(&low, block);
  MOVE_VEC(program, inputs, &low.inputs);
  MOVE_VEC(program, values, &low.values);
  MOVE_VEC(program, steps, &low.steps);
  MOVE_VEC(program, binds, &low.binds);
  program->separable_why = "";
  program->model_name = cv_arena_strdup(&program->arena, graph->name ? graph->name : "");
  program->producer = cv_arena_strdup(&program->arena, graph->producer ? graph->producer : "");
  cv_vec_deinit(&low.input_vals);
  cv_map_deinit(&low.value_names);
  cv_map_deinit(&low.step_names);
  cv_fusion_deinit(&low.fusion);
  cv_free(low.value_of);
  return program;
}

static void lower_separability(cv_lowering *low) {
  cv_program *program = low->top;
  cv_separability verdict;
  cv_prove_separable(low->graph, &verdict);
  program->separable = verdict.separable;
  program->separable_why = cv_arena_strdup(&program->arena, verdict.why);
  if (verdict.batch == CV_NONE) return;
  cv_sym sym;
  cv_expr batch = cv_lower_expr(low, cv_expr_symbol(low->graph->exprs, verdict.batch));
  if (cv_expr_is_symbol(low->exprs, batch, &sym)) program->batch = sym;
  if (!verdict.separable) return;
  for (uint32_t i = 0; i < program->n_inputs; i++) {
    program->inputs[i].batch_axis = verdict.input_axis[i];
    program->inputs[i].batch_factor = verdict.input_factor[i];
  }
  for (uint32_t i = 0; i < program->n_outputs; i++) {
    program->outputs[i].batch_axis = verdict.output_axis[i];
    program->outputs[i].batch_factor = verdict.output_factor[i];
  }
}

static void lower_states(cv_lowering *low) {
  cv_program *program = low->top;
  program->n_states = (uint32_t)low->graph->states.len;
  program->states = cv_arena_array(&program->arena, cv_state_pair, program->n_states + 1);
  for (uint32_t i = 0; i < program->n_states; i++)
    program->states[i] =
        (cv_state_pair){low->graph->states.data[i].input, low->graph->states.data[i].output};
}

static bool binds(const cv_program *program, cv_sym sym) {
  for (uint32_t s = 0; s < program->n_steps; s++) {
    const cv_step *step = &program->steps[s];
    if (step->loop && step->loop->trips == sym) return true;
    for (uint32_t b = 0; b < step->n_binds; b++)
      if (step->binds[b].sym == sym) return true;
  }
  return false;
}

static bool binds_part_of(const cv_program *program, const cv_check *check) {
  for (cv_sym sym = 0; sym < cv_exprs_symbols(program->exprs); sym++)
    if (binds(program, sym) && (cv_expr_uses(program->exprs, check->a, sym) ||
                                cv_expr_uses(program->exprs, check->b, sym) ||
                                cv_expr_uses(program->exprs, check->guard, sym)))
      return true;
  return false;
}

/* Each assumption is a check of the innermost program that binds a symbol of it, else of the
 * outermost. */
static void lower_checks(cv_lowering *low) {
  cv_graph *graph = low->graph;
  for (size_t i = 0; i < low->programs.len; i++)
    low->programs.data[i]->checks =
        cv_arena_array(&low->programs.data[i]->arena, cv_check, graph->equalities.len + 1);
  for (size_t i = 0; i < graph->equalities.len; i++) {
    const cv_equality *equality = &graph->equalities.data[i];
    cv_program *owner = low->top;
    cv_check check = {cv_lower_expr(low, equality->a), cv_lower_expr(low, equality->b),
                      cv_lower_expr(low, equality->guard), NULL};
    for (size_t k = 0; k < low->programs.len; k++) /* bodies come after what they are in */
      if (binds_part_of(low->programs.data[k], &check)) owner = low->programs.data[k];
    check.source = cv_arena_strdup(&owner->arena, equality->source);
    owner->checks[owner->n_checks++] = check;
  }
}

static void share_consts(cv_lowering *low) {
  MOVE_VEC(low->top, consts, &low->consts);
  for (size_t i = 0; i < low->programs.len; i++) {
    low->programs.data[i]->consts = low->top->consts;
    low->programs.data[i]->n_consts = low->top->n_consts;
  }
}

static void dump_values(const cv_program *program, const char *what, const uint32_t *ids,
                        uint32_t n, cv_str *out) {
  cv_str_add(out, " %s", what);
  for (uint32_t i = 0; i < n; i++)
    cv_str_add(out, " %s", ids[i] == CV_NONE ? "-" : program->values[ids[i]].name);
}

void cv_program_dump(const cv_program *program, cv_str *out) {
  static const char *const kinds[] = {"kernel", "alias", "loop"};
  for (uint32_t s = 0; s < program->n_steps; s++) {
    const cv_step *step = &program->steps[s];
    cv_str_add(out, "# step %u '%s' %s %s:", s, step->name, kinds[step->kind],
               step->pattern ? step->pattern : "");
    dump_values(program, "in", step->ins, step->n_ins, out);
    dump_values(program, "out", step->outs, step->n_outs, out);
    cv_str_puts(out, ", when ");
    cv_expr_print(program->exprs, step->guard, out);
    for (uint32_t i = 0; i < step->n_binds; i++)
      cv_str_add(out, ", binds %s", cv_symbol_name(program->exprs, step->binds[i].sym));
    cv_str_add(out, "\n%s\n", step->body ? step->body : "");
    if (!step->loop) continue;
    cv_str_puts(out, "# its body\n");
    cv_program_dump(step->loop->body, out);
    cv_str_puts(out, "# end of its body\n");
  }
}

static void dump_if_wanted(const cv_program *program, const cv_pass_options *options) {
  const char *wanted = options->dump_after;
  if (!wanted || (strcmp(wanted, "fuse") != 0 && strcmp(wanted, "all") != 0)) return;
  cv_str text = {.may_die = true};
  cv_program_dump(program, &text);
  fprintf(stderr, "# after fuse: %u steps\n%s", program->n_steps, cv_str_text(&text));
  cv_str_deinit(&text);
}

cv_status cv_lower(cv_graph *graph, const cv_pass_options *options, cv_program **out_program) {
  *out_program = NULL;
  cv_status status = cv_graph_status(graph);
  if (status != CV_OK) return status;
  cv_lowering low = {.graph = graph, .options = options, .exprs = cv_exprs_create(true)};
  low.top = cv_program_create(low.exprs, true, true);
  free_output_names(graph);
  name_outputs(graph);
  for (size_t i = 0; i < graph->body->params.len; i++) { /* symbols of the inputs come first */
    const cv_type *type = cv_type_of(graph, graph->body->params.data[i]);
    for (int d = 0; d < type->rank; d++) cv_lower_expr(&low, type->dims[d]);
  }
  cv_lower_block(&low, graph->body, NULL);
  status = cv_graph_status(graph);
  if (status == CV_OK) {
    share_consts(&low);
    lower_separability(&low);
    lower_states(&low);
    lower_checks(&low);
    status = cv_program_verify(low.top);
    if (status != CV_OK)
      status = cv_error(CV_INTERNAL, "lowering made a bad program: %s", cv_error_text());
  }
  if (status == CV_OK) {
    dump_if_wanted(low.top, options);
    *out_program = low.top;
  } else {
    cv_program_destroy(low.top);
  }
  cv_vec_deinit(&low.imported);
  cv_vec_deinit(&low.consts);
  cv_vec_deinit(&low.programs);
  cv_map_deinit(&low.const_index);
  return status;
}
