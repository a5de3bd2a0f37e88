/* cuvil run --check: every step's kernel against the interpreter on the step's normative body. */
#include "cli/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/graph.h"
#include "runtime/device.h"
#include "runtime/half.h"

typedef struct {
  cv_artifact *artifact;
  const cv_program *program;
  cv_device *device;
  cv_tensor *values; /* by value id; owned */
  int64_t *symbols;
  double worst;
  uint32_t checked;
} checker;

static cv_status place(void *context, uint32_t index, cv_tensor *tensor) {
  (void)context, (void)index;
  cv_tensor made;
  cv_status status = cv_tensor_create(tensor->dtype, tensor->rank, tensor->dims, &made);
  if (status == CV_OK) *tensor = made;
  return status;
}

/* Largest |a - b| over the largest |b|; infinite for what is NaN or missing on one side only. */
static double difference(const cv_tensor *got, const cv_tensor *want) {
  if (got->absent || want->absent) return got->absent == want->absent ? 0 : INFINITY;
  if (got->dtype != want->dtype || got->bytes != want->bytes) return INFINITY;
  size_t size = cv_dtype_size(got->dtype);
  double largest = 0, worst = 0;
  for (uint64_t i = 0; i < got->bytes; i += size) {
    double a = cv_element_to_double(got->dtype, (char *)got->data + i);
    double b = cv_element_to_double(want->dtype, (char *)want->data + i);
    if (isfinite(b) && fabs(b) > largest) largest = fabs(b);
    if (a == b || (isnan(a) && isnan(b))) continue;
    double d = fabs(a - b);
    if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
  }
  return largest > 0 ? worst / largest : worst;
}

static cv_status interpret(const checker *c, const cv_step *step, cv_tensor *wanted) {
  cv_graph *body = NULL;
  cv_tensor *ins = cv_alloc_or_die(step->n_ins, sizeof *ins);
  int64_t *symbols = NULL;
  cv_status status = CV_OK;
  CV_TRY(cv_graph_parse(step->body, NULL, NULL, NULL, &body));
  uint32_t n = cv_exprs_symbols(body->exprs);
  symbols = cv_alloc_or_die(n, sizeof *symbols);
  for (uint32_t i = 0; i < n; i++) {
    cv_sym sym;
    symbols[i] = CV_UNBOUND;
    if (cv_exprs_find(c->program->exprs, cv_symbol_name(body->exprs, i), &sym))
      symbols[i] = c->symbols[sym];
  }
  for (uint32_t i = 0; i < step->n_ins; i++) ins[i] = c->values[step->ins[i]];
  status = cv_graph_interpret(body, ins, symbols, wanted);
out:
  cv_free(ins);
  cv_free(symbols);
  cv_graph_destroy(body);
  return status;
}

static cv_status compare(checker *c, uint32_t s, double tolerance) {
  const cv_step *step = &c->program->steps[s];
  cv_tensor *wanted = cv_alloc_or_die(step->n_outs, sizeof *wanted);
  cv_status status = interpret(c, step, wanted);
  for (uint32_t o = 0; o < step->n_outs && status == CV_OK; o++) {
    double d = difference(&c->values[step->outs[o]], &wanted[o]);
    c->checked++;
    if (d > c->worst) c->worst = d;
    if (d > tolerance)
      printf("step %u %s (%s): output %s %s differs by %.3g of its largest element\n", s,
             step->name, step->pattern, c->program->values[step->outs[o]].name,
             cv_tensor_shape_text(&wanted[o]).text, d);
  }
  for (uint32_t o = 0; o < step->n_outs; o++) cv_tensor_deinit(&wanted[o]);
  cv_free(wanted);
  return status;
}

static cv_status run_step(checker *c, uint32_t s, double tolerance) {
  const cv_program *program = c->program;
  const cv_step *step = &program->steps[s];
  cv_slice *slice;
  cv_status status = cv_device_load(c->device, c->artifact, s, s, &slice);
  if (status != CV_OK) return status;
  cv_tensor *ins = cv_alloc_or_die(slice->n_ins, sizeof *ins),
            *outs = cv_alloc_or_die(slice->n_outs, sizeof *outs);
  for (uint32_t i = 0; i < slice->n_ins; i++) ins[i] = c->values[slice->ins[i]];
  cv_run run = {.symbols = c->symbols, .ins = ins, .outs = outs, .place = place, .context = c};
  status = cv_slice_run(slice, &run);
  for (uint32_t o = 0; o < slice->n_outs && status == CV_OK; o++)
    if (!c->values[slice->outs[o]].data) c->values[slice->outs[o]] = outs[o];
  int64_t runs = 1;
  if (status == CV_OK) status = cv_expr_eval(program->exprs, step->guard, c->symbols, &runs);
  if (status == CV_OK && step->kind == CV_STEP_KERNEL && runs && slice->n_outs == step->n_outs)
    status = compare(c, s, tolerance);
  cv_free(ins);
  cv_free(outs);
  cv_slice_unload(slice);
  return cv_error_context(status, "step %u %s", s, step->name);
}

cv_status cv_check_steps(cv_artifact *artifact, const cv_tensor *inputs, double tolerance) {
  const cv_program *program = cv_artifact_program(artifact);
  checker c = {.artifact = artifact, .program = program};
  cv_device_spec spec = {.name = "this machine", .kind = "cpu", .threads = 1};
  c.values = cv_alloc_or_die(program->n_values, sizeof *c.values);
  c.symbols = cv_alloc_or_die(cv_exprs_symbols(program->exprs), sizeof *c.symbols);
  cv_status status = CV_OK;
  CV_TRY(cv_device_open(&spec, &c.device));
  CV_TRY(cv_program_bind_inputs(program, inputs, c.symbols));
  for (uint32_t v = 0; v < program->n_values; v++) {
    const cv_value *value = &program->values[v];
    cv_tensor *tensor = &c.values[v];
    if (value->kind == CV_VALUE_INPUT) {
      *tensor = inputs[value->source];
    } else if (value->kind == CV_VALUE_CONST) {
      const cv_const *k = &program->consts[value->source];
      *tensor = (cv_tensor){.dtype = k->dtype,
                            .rank = k->rank,
                            .data = (void *)(uintptr_t)k->data,
                            .bytes = k->bytes};
      memcpy(tensor->dims, k->dims, sizeof tensor->dims);
    }
    tensor->owned = false;
  }
  for (uint32_t s = 0; s < program->n_steps; s++) CV_TRY(run_step(&c, s, tolerance));
  printf(
      "%u outputs of %u steps checked against the interpreter: largest difference %.3g of the "
      "largest element\n",
      c.checked, program->n_steps, c.worst);
  if (c.worst > tolerance)
    status =
        cv_error(CV_FAILED, "kernels differ from the interpreter by up to %.3g, allowed is %.3g",
                 c.worst, tolerance);
out:
  for (uint32_t v = 0; v < program->n_values; v++) cv_tensor_deinit(&c.values[v]);
  cv_free(c.values);
  cv_free(c.symbols);
  cv_device_close(c.device);
  return status;
}
