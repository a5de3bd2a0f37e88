/* Runs a program step by step with the interpreter: bodies parsed back from their texts. The oracle
 * of lowering: what it gives must be what the graph gives. */
#ifndef CV_TESTS_RUN_PROGRAM_H
#define CV_TESTS_RUN_PROGRAM_H

#include <stdlib.h>
#include <string.h>

#include "compiler/graph.h"
#include "compiler/passes.h"
#include "runtime/device.h"
#include "runtime/program.h"
#include "tests/compiler/tensors.h"

static cv_status run_steps(const cv_program *p, const cv_tensor *inputs, int64_t *symbols,
                           cv_tensor *outputs);

static inline int64_t eval(const cv_program *p, cv_expr e, const int64_t *symbols) {
  int64_t value = 0;
  if (cv_expr_eval(p->exprs, e, symbols, &value) != CV_OK) abort();
  return value;
}

static inline void borrow(const cv_tensor *from, cv_tensor *to) {
  *to = *from;
  to->owned = false;
}

static inline void read_const(const cv_const *c, cv_tensor *to) {
  *to = (cv_tensor){.dtype = c->dtype, .rank = c->rank, .bytes = c->bytes};
  memcpy(to->dims, c->dims, sizeof to->dims);
  memcpy(&to->data, &c->data, sizeof to->data);
}

static inline cv_status run_kernel(const cv_program *p, const cv_step *step, cv_tensor *values,
                                   const int64_t *symbols) {
  cv_graph *body = NULL;
  cv_tensor ins[64], outs[8];
  cv_status status = cv_graph_parse(step->body, p->exprs, NULL, NULL, &body);
  if (status != CV_OK) return cv_error_context(status, "step '%s'", step->name);
  size_t n = cv_exprs_symbols(p->exprs);
  int64_t *copy = calloc(n + 1, sizeof *copy);
  memcpy(copy, symbols, n * sizeof *copy);
  if (step->n_ins > 64 || step->n_outs > 8 || body->body->params.len != step->n_ins ||
      body->body->results.len != step->n_outs)
    abort();
  for (uint32_t i = 0; i < step->n_ins; i++) borrow(&values[step->ins[i]], &ins[i]);
  memset(outs, 0, sizeof outs);
  status = cv_graph_interpret(body, ins, copy, outs);
  for (uint32_t i = 0; i < step->n_outs; i++) values[step->outs[i]] = outs[i];
  free(copy);
  cv_graph_destroy(body);
  return cv_error_context(status, "step '%s'", step->name);
}

static inline cv_status run_alias(const cv_program *p, const cv_step *step, cv_tensor *values,
                                  const int64_t *symbols) {
  const cv_value *out = &p->values[step->outs[0]];
  for (uint32_t i = 0; i < step->n_ins; i++) {
    const cv_tensor *in = &values[step->ins[i]];
    if (in->absent) continue;
    cv_status status = cv_tensor_copy(in, &values[step->outs[0]]);
    cv_tensor *to = &values[step->outs[0]];
    to->rank = out->rank;
    int64_t count = 1, was = 1;
    for (int d = 0; d < in->rank; d++) was *= in->dims[d];
    for (int d = 0; d < out->rank; d++) count *= to->dims[d] = eval(p, out->dims[d], symbols);
    if (status == CV_OK && count != was)
      return cv_error(CV_INVALID, "alias '%s': %lld elements become %lld", step->name,
                      (long long)was, (long long)count);
    return status;
  }
  return cv_error(CV_INVALID, "alias '%s': no input is there", step->name);
}

/* Puts item number `at` behind the items so far. */
static inline cv_status stack_item(cv_tensor *all, cv_tensor *item, int64_t at) {
  if (at == 0) {
    int64_t dims[CV_MAX_RANK] = {0};
    memcpy(dims + 1, item->dims, item->rank * sizeof *dims);
    cv_tensor_deinit(all);
    cv_status status = cv_tensor_create(item->dtype, item->rank + 1, dims, all);
    if (status != CV_OK) return status;
  }
  all->data = realloc(all->data, all->bytes + item->bytes + 64);
  memcpy((char *)all->data + all->bytes, item->data, item->bytes);
  all->bytes += item->bytes;
  all->dims[0] = at + 1;
  return CV_OK;
}

static inline cv_status run_loop(const cv_program *p, const cv_step *step, cv_tensor *values,
                                 int64_t *symbols) {
  const cv_loop *loop = step->loop;
  uint32_t n_in = loop->body->n_inputs, n_out = loop->body->n_outputs;
  cv_tensor *ins = calloc(n_in + 1, sizeof *ins), *outs = calloc(n_out + 1, sizeof *outs);
  cv_tensor *state = calloc(n_in + 1, sizeof *state);
  int64_t trips = INT64_MAX, at = 0;
  unsigned char goes_on = 1;
  cv_status status = CV_OK;
  if (step->ins[0] != CV_NONE) memcpy(&trips, values[step->ins[0]].data, sizeof trips);
  if (step->ins[1] != CV_NONE) memcpy(&goes_on, values[step->ins[1]].data, 1);
  for (uint32_t i = 2; i < n_in && status == CV_OK; i++)
    status = cv_tensor_copy(&values[step->ins[i]], &state[i]);
  for (uint32_t i = 0; i < loop->stacked && status == CV_OK; i++) {
    const cv_value *out = &p->values[step->outs[loop->carried + i]];
    int64_t dims[CV_MAX_RANK] = {0};
    for (int d = 1; d < out->rank; d++) dims[d] = eval(p, out->dims[d], symbols);
    status = cv_tensor_create(out->dtype, out->rank, dims, &values[step->outs[loop->carried + i]]);
  }
  for (; status == CV_OK && goes_on && at < trips; at++) {
    if (at >= loop->max_trips) status = cv_error(CV_INVALID, "loop '%s' runs too long", step->name);
    for (uint32_t i = 2; i < n_in; i++) borrow(&state[i], &ins[i]);
    ins[0] = (cv_tensor){.dtype = CV_I64, .data = &at, .bytes = 8};
    ins[1] = (cv_tensor){.dtype = CV_BOOL, .data = &goes_on, .bytes = 1};
    if (status == CV_OK) status = run_steps(loop->body, ins, symbols, outs);
    if (status != CV_OK) break;
    memcpy(&goes_on, outs[0].data, 1);
    for (uint32_t i = 0; i < loop->carried; i++) {
      cv_tensor_deinit(&state[i + 2]);
      state[i + 2] = outs[1 + i];
      outs[1 + i] = (cv_tensor){0};
    }
    for (uint32_t i = 0; i < loop->stacked && status == CV_OK; i++)
      status = stack_item(&values[step->outs[loop->carried + i]], &outs[1 + loop->carried + i], at);
    for (uint32_t i = 0; i < n_out; i++) cv_tensor_deinit(&outs[i]);
  }
  if (loop->trips != CV_NONE) symbols[loop->trips] = at;
  for (uint32_t i = 0; i < loop->carried && status == CV_OK; i++)
    status = cv_tensor_copy(&state[i + 2], &values[step->outs[i]]);
  for (uint32_t i = 0; i < n_in; i++) cv_tensor_deinit(&state[i]);
  free(ins);
  free(outs);
  free(state);
  return status;
}

static inline void run_binds(const cv_bind *binds, uint32_t n, const cv_tensor *values,
                             int64_t *symbols) {
  for (uint32_t i = 0; i < n; i++) {
    const cv_tensor *t = &values[binds[i].value];
    if (t->absent) continue;
    size_t size = cv_dtype_size(t->dtype);
    symbols[binds[i].sym] =
        cv_element_to_int(t->dtype, (const char *)t->data + binds[i].element * size);
  }
}

/* The dims that a step's outputs have must be what the program says. */
static inline cv_status check_out(const cv_program *p, uint32_t v, const cv_tensor *t,
                                  const int64_t *symbols) {
  const cv_value *value = &p->values[v];
  bool fits = t->dtype == value->dtype && t->rank == value->rank;
  for (int d = 0; d < t->rank && fits; d++) fits = t->dims[d] == eval(p, value->dims[d], symbols);
  if (fits) return CV_OK;
  return cv_error(CV_INTERNAL, "value '%s' came as %s", value->name, cv_tensor_shape_text(t).text);
}

static inline cv_status run_step(const cv_program *p, const cv_step *step, cv_tensor *values,
                                 int64_t *symbols) {
  if (eval(p, step->guard, symbols) == 0) {
    for (uint32_t i = 0; i < step->n_outs; i++) values[step->outs[i]].absent = true;
    return CV_OK;
  }
  for (uint32_t i = 0; i < step->n_ins; i++)
    if (step->kind != CV_STEP_ALIAS && step->ins[i] != CV_NONE && values[step->ins[i]].absent)
      return cv_error(CV_INTERNAL, "step '%s' reads an absent value", step->name);
  cv_status status = step->kind == CV_STEP_KERNEL  ? run_kernel(p, step, values, symbols)
                     : step->kind == CV_STEP_ALIAS ? run_alias(p, step, values, symbols)
                                                   : run_loop(p, step, values, symbols);
  if (status == CV_OK) run_binds(step->binds, step->n_binds, values, symbols);
  for (uint32_t i = 0; i < step->n_outs && status == CV_OK; i++)
    status = check_out(p, step->outs[i], &values[step->outs[i]], symbols);
  return cv_error_context(status, "step '%s'", step->name);
}

/* Runs all steps; outputs are owned by the caller. */
static cv_status run_steps(const cv_program *p, const cv_tensor *inputs, int64_t *symbols,
                           cv_tensor *outputs) {
  cv_status status = CV_OK;
  cv_tensor *values = calloc(p->n_values + 1, sizeof *values);
  for (uint32_t v = 0; v < p->n_values; v++) {
    if (p->values[v].kind == CV_VALUE_INPUT) borrow(&inputs[p->values[v].source], &values[v]);
    if (p->values[v].kind == CV_VALUE_CONST)
      read_const(&p->consts[p->values[v].source], &values[v]);
  }
  run_binds(p->binds, p->n_binds, values, symbols);
  for (uint32_t s = 0; s < p->n_steps && status == CV_OK; s++)
    status = run_step(p, &p->steps[s], values, symbols);
  for (uint32_t i = 0; i < p->n_outputs && status == CV_OK; i++)
    status = cv_tensor_copy(&values[p->outputs[i].value], &outputs[i]);
  for (uint32_t v = 0; v < p->n_values; v++) cv_tensor_deinit(&values[v]);
  free(values);
  return status;
}

/* Runs a whole program on a request. */
static inline cv_status run_program(const cv_program *p, const cv_tensor *inputs,
                                    cv_tensor *outputs) {
  int64_t *symbols = calloc(cv_exprs_symbols(p->exprs) + 1, sizeof *symbols);
  cv_status status = cv_program_bind_inputs(p, inputs, symbols);
  if (status == CV_OK) status = run_steps(p, inputs, symbols, outputs);
  free(symbols);
  return status;
}

/* Runs the graph itself: symbols bound by the inputs' dims. */
static inline cv_status run_graph(cv_graph *graph, const cv_tensor *inputs, cv_tensor *outputs) {
  size_t n = cv_exprs_symbols(graph->exprs);
  int64_t *symbols = calloc(n + 1, sizeof *symbols);
  for (size_t s = 0; s < n; s++) symbols[s] = CV_UNBOUND;
  for (size_t i = 0; i < graph->body->params.len; i++) {
    const cv_type *type = cv_type_of(graph, graph->body->params.data[i]);
    cv_sym sym;
    for (int d = 0; d < type->rank; d++)
      if (cv_expr_is_symbol(graph->exprs, type->dims[d], &sym)) symbols[sym] = inputs[i].dims[d];
  }
  cv_status status = cv_graph_interpret(graph, inputs, symbols, outputs);
  free(symbols);
  return status;
}

#endif
