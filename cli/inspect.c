/* cuvil inspect */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/compile.h"

/* ---- texts ---- */

static void add_type(const cv_program *program, const cv_value *value, cv_str *out) {
  cv_str_add(out, "%s[", cv_dtype_name(value->dtype));
  for (int i = 0; i < value->rank; i++) {
    if (i) cv_str_puts(out, ", ");
    cv_expr_print(program->exprs, value->dims[i], out);
  }
  cv_str_puts(out, "]");
}

static json_t *json_text(cv_str *str) {
  json_t *text = json_string(cv_str_text(str));
  cv_str_deinit(str);
  return text;
}

static json_t *json_expr(const cv_program *program, cv_expr e) {
  int64_t value;
  if (e == CV_EXPR_NONE) return json_null();
  if (cv_expr_is_const(program->exprs, e, &value)) return json_integer(value);
  cv_str text = {.may_die = true};
  cv_expr_print(program->exprs, e, &text);
  return json_text(&text);
}

/* Bytes of a value as an expression. */
static cv_expr value_bytes(const cv_program *program, const cv_value *value) {
  cv_expr bytes = cv_expr_const(program->exprs, (int64_t)cv_dtype_size(value->dtype));
  for (int i = 0; i < value->rank; i++) bytes = cv_expr_mul(program->exprs, bytes, value->dims[i]);
  return bytes;
}

static cv_expr live_bytes(const cv_program *program, uint32_t position, uint32_t *ids) {
  uint32_t count = cv_program_live(program, position, ids);
  cv_expr bytes = cv_expr_const(program->exprs, 0);
  for (uint32_t i = 0; i < count; i++)
    bytes = cv_expr_add(program->exprs, bytes, value_bytes(program, &program->values[ids[i]]));
  return bytes;
}

static uint64_t weight_bytes(const cv_program *program, const cv_step *step) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < step->n_ins; i++) {
    if (step->ins[i] == CV_NONE) continue;
    const cv_value *value = &program->values[step->ins[i]];
    if (value->kind == CV_VALUE_CONST) bytes += program->consts[value->source].bytes;
  }
  return bytes;
}

/* ---- JSON ---- */

static json_t *json_ports(const cv_program *program, const cv_port *ports, uint32_t count) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < count; i++) {
    const cv_value *value = &program->values[ports[i].value];
    json_t *dims = json_array();
    for (int d = 0; d < value->rank; d++)
      json_array_append_new(dims, json_expr(program, value->dims[d]));
    json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:i}", "name", value->name, "dtype",
                                          cv_dtype_name(value->dtype), "dims", dims, "batch_axis",
                                          (int)ports[i].batch_axis));
  }
  return list;
}

static json_t *json_steps(const cv_program *program) {
  static const char *const kinds[] = {"kernel", "alias", "loop"};
  json_t *list = json_array();
  for (uint32_t i = 0; i < program->n_steps; i++) {
    const cv_step *step = &program->steps[i];
    json_t *outs = json_array();
    for (uint32_t o = 0; o < step->n_outs; o++) {
      cv_str type = {.may_die = true};
      add_type(program, &program->values[step->outs[o]], &type);
      json_array_append_new(outs, json_text(&type));
    }
    json_array_append_new(
        list,
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:I}", "step", (int)i, "name",
                  step->name, "kind", kinds[step->kind], "pattern",
                  step->pattern ? step->pattern : "", "regions", step->regions ? step->regions : "",
                  "nodes", step->nodes ? step->nodes : "", "flops", json_expr(program, step->flops),
                  "outputs", outs, "weight_bytes", (json_int_t)weight_bytes(program, step)));
  }
  return list;
}

static void add_cuts(const cv_program *program, json_t *root) {
  uint32_t *ids = cv_alloc_or_die(program->n_values, sizeof *ids);
  json_t *legal = json_array(), *cuts = json_array();
  for (uint32_t at = 1; at < program->n_steps; at++) {
    if (!cv_program_cut_legal(program, at)) continue;
    json_array_append_new(legal, json_integer(at));
    json_array_append_new(cuts, json_pack("{s:i, s:o}", "cut", (int)at, "bytes",
                                          json_expr(program, live_bytes(program, at, ids))));
  }
  json_object_set_new(root, "legal_cuts", legal);
  json_object_set_new(root, "cuts", cuts);
  cv_free(ids);
}

static json_t *json_symbols(const cv_program *program) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < cv_exprs_symbols(program->exprs); i++) {
    int64_t lo, hi;
    cv_symbol_bounds(program->exprs, i, &lo, &hi);
    json_array_append_new(
        list, json_pack("{s:s, s:I, s:I}", "name", cv_symbol_name(program->exprs, i), "min",
                        (json_int_t)lo, "max", (json_int_t)hi));
  }
  return list;
}

static json_t *json_targets(const cv_program *program) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < program->n_targets; i++) {
    const cv_target_code *target = &program->targets[i];
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:s, s:s, s:I}", "name", target->name, "arch", target->arch,
                        "features", target->features, "toolchain", target->toolchain, "code_bytes",
                        (json_int_t)target->code_bytes));
  }
  return list;
}

static uint64_t total_weights(const cv_program *program) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < program->n_consts; i++) bytes += program->consts[i].bytes;
  return bytes;
}

static void print_json(const cv_program *program) {
  json_t *states = json_array();
  for (uint32_t i = 0; i < program->n_states; i++)
    json_array_append_new(states, json_pack("{s:i, s:i}", "input", (int)program->states[i].input,
                                            "output", (int)program->states[i].output));
  json_t *root =
      json_pack("{s:s, s:s, s:b, s:s, s:I}", "model", program->model_name, "artifact",
                program->hash, "separable", program->separable, "separable_why",
                program->separable_why, "weight_bytes", (json_int_t)total_weights(program));
  json_object_set_new(root, "inputs", json_ports(program, program->inputs, program->n_inputs));
  json_object_set_new(root, "outputs", json_ports(program, program->outputs, program->n_outputs));
  json_object_set_new(root, "states", states);
  json_object_set_new(root, "symbols", json_symbols(program));
  json_object_set_new(root, "targets", json_targets(program));
  json_object_set_new(root, "steps", json_steps(program));
  add_cuts(program, root);
  json_dumpf(root, stdout, JSON_INDENT(1));
  printf("\n");
  json_decref(root);
}

/* ---- tables ---- */

static void print_ports(const cv_program *program, const char *title, const cv_port *ports,
                        uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    cv_str text = {.may_die = true};
    add_type(program, &program->values[ports[i].value], &text);
    printf("%-8s %s %s\n", title, program->values[ports[i].value].name, cv_str_text(&text));
    cv_str_deinit(&text);
  }
}

static void print_steps(const cv_program *program) {
  uint32_t *ids = cv_alloc_or_die(program->n_values, sizeof *ids);
  printf("\n%4s  %-11s %10s  %-24s %-28s %s\n", "step", "pattern", "weights",
         "bytes at the cut before", "output", "name");
  for (uint32_t i = 0; i < program->n_steps; i++) {
    const cv_step *step = &program->steps[i];
    cv_str cut = {.may_die = true}, type = {.may_die = true};
    if (i && !cv_program_cut_legal(program, i))
      cv_str_puts(&cut, "no cut");
    else if (i)
      cv_expr_print(program->exprs, live_bytes(program, i, ids), &cut);
    if (step->n_outs) add_type(program, &program->values[step->outs[0]], &type);
    printf("%4u  %-11s %10llu  %-24s %-28s %s\n", i,
           step->kind == CV_STEP_KERNEL  ? step->pattern
           : step->kind == CV_STEP_ALIAS ? "alias"
                                         : "loop",
           (unsigned long long)weight_bytes(program, step), cv_str_text(&cut), cv_str_text(&type),
           step->name);
    cv_str_deinit(&cut);
    cv_str_deinit(&type);
  }
  cv_free(ids);
}

static void print_text(const cv_program *program) {
  printf("model    %s (%s)\nartifact %s\n", program->model_name, program->producer, program->hash);
  print_ports(program, "input", program->inputs, program->n_inputs);
  print_ports(program, "output", program->outputs, program->n_outputs);
  for (uint32_t i = 0; i < program->n_states; i++)
    printf("state    %s -> %s\n",
           program->values[program->outputs[program->states[i].output].value].name,
           program->values[program->inputs[program->states[i].input].value].name);
  for (uint32_t i = 0; i < cv_exprs_symbols(program->exprs); i++) {
    int64_t lo, hi;
    cv_symbol_bounds(program->exprs, i, &lo, &hi);
    printf("symbol   %s in [%lld, %lld]\n", cv_symbol_name(program->exprs, i), (long long)lo,
           (long long)hi);
  }
  for (uint32_t i = 0; i < program->n_targets; i++)
    printf("target   %s: %.1f kB of code, needs %s; %s\n", program->targets[i].name,
           (double)program->targets[i].code_bytes / 1e3, program->targets[i].features,
           program->targets[i].toolchain);
  printf("batch    %s: %s\n", program->separable ? "separable" : "not separable",
         program->separable_why);
  printf("weights  %u, %.2f MB\n", program->n_consts, (double)total_weights(program) / 1e6);
  print_steps(program);
}

cv_status cv_command_inspect(int argc, char **argv) {
  cv_compile_options compile = {0};
  bool json = false;
  cv_texts words;
  const cv_option rows[] = {
      {"--json", CV_OPTION_FLAG, &json, NULL, "one JSON object: steps, legal_cuts, ...", 0, 0},
      CV_COMPILE_OPTIONS(compile),
      {0}};
  const cv_command command = {
      "cuvil inspect FILE.cuv|MODEL.onnx [--json]",
      "Shows an artifact: its steps, the bytes at each cut, symbols, targets and sizes.", rows, 1,
      1};
  cv_artifact *artifact = NULL;
  cv_status status;
  CV_TRY(cv_options_parse(&command, argc, argv, &words));
  CV_TRY(cv_compile_open(words.data[0], &compile, NULL, &artifact));
  if (json)
    print_json(cv_artifact_program(artifact));
  else
    print_text(cv_artifact_program(artifact));
out:
  cv_artifact_close(artifact);
  cv_options_release(&command, &words);
  return status;
}
