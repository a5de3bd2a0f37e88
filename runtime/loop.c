/* Loop steps: a body program run again and again. Carried values live in two buffers in turn,
 * stacked outputs in one that grows. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/cpu_internal.h"

struct cpu_loop {
  cpu_context *context;
  const cv_step *step;
  cpu_runner *body;
  uint32_t *body_ins, *body_outs; /* value ids of the body's ports */
  int64_t *symbols;               /* of one iteration */
  cv_tensor *ins;                 /* of the body */
  cv_tensor *body_results;        /* of the body */
  cv_tensor *outs;                /* of the step */
  cpu_region *carried[2];         /* one each a carried value */
  cpu_region *stacked, *items;    /* one each a stacked output; `items`: one iteration's */
  uint64_t *item_bytes;
  _Alignas(64) int64_t iteration;
  _Alignas(64) bool condition;
  _Alignas(64) bool next_condition[64];
  int turn; /* buffers that the body writes now */
};

/* ---- loading ---- */

static cv_status make_lists(cpu_loop *loop) {
  const cv_loop *about = loop->step->loop;
  const cv_program *body = about->body;
  uint32_t n_syms = cv_exprs_symbols(body->exprs);
  size_t carried = about->carried + 1u, stacked = about->stacked + 1u;
  loop->body_ins = cv_alloc(body->n_inputs + 1u, sizeof(uint32_t));
  loop->body_outs = cv_alloc(body->n_outputs + 1u, sizeof(uint32_t));
  loop->symbols = cv_alloc(n_syms + 1u, sizeof(int64_t));
  loop->ins = cv_alloc(body->n_inputs + 1u, sizeof(cv_tensor));
  loop->body_results = cv_alloc(body->n_outputs + 1u, sizeof(cv_tensor));
  loop->outs = cv_alloc(loop->step->n_outs + 1u, sizeof(cv_tensor));
  loop->carried[0] = cv_alloc(carried, sizeof(cpu_region));
  loop->carried[1] = cv_alloc(carried, sizeof(cpu_region));
  loop->stacked = cv_alloc(stacked, sizeof(cpu_region));
  loop->items = cv_alloc(stacked, sizeof(cpu_region));
  loop->item_bytes = cv_alloc(stacked, sizeof(uint64_t));
  if (!loop->body_ins || !loop->body_outs || !loop->symbols || !loop->ins || !loop->body_results ||
      !loop->outs || !loop->carried[0] || !loop->carried[1] || !loop->stacked || !loop->items ||
      !loop->item_bytes)
    return cv_error_nomem((carried + stacked) * sizeof(cpu_region));
  for (uint32_t i = 0; i < body->n_inputs; i++) loop->body_ins[i] = body->inputs[i].value;
  for (uint32_t i = 0; i < body->n_outputs; i++) loop->body_outs[i] = body->outputs[i].value;
  return CV_OK;
}

cv_status cpu_loop_create(cpu_context *context, const cv_step *step, cpu_loop **out_loop) {
  *out_loop = NULL;
  const cv_program *body = step->loop->body;
  cpu_loop *loop = cv_alloc_aligned(64, sizeof *loop);
  if (!loop) return cv_error_nomem(sizeof *loop);
  loop->context = context;
  loop->step = step;
  cv_status status = make_lists(loop);
  cpu_part part = {.program = body,
                   .n_steps = body->n_steps,
                   .ins = loop->body_ins,
                   .n_ins = body->n_inputs,
                   .outs = loop->body_outs,
                   .n_outs = body->n_outputs};
  if (status == CV_OK) status = cpu_runner_create(context, &part, &loop->body);
  if (status == CV_OK)
    *out_loop = loop;
  else
    cpu_loop_destroy(loop);
  return status;
}

static void release_all(cpu_device *device, cpu_region *regions, uint32_t count) {
  for (uint32_t i = 0; regions && i < count; i++) cpu_region_release(device, &regions[i]);
  cv_free(regions);
}

void cpu_loop_destroy(cpu_loop *loop) {
  if (!loop) return;
  cpu_device *device = loop->context->device;
  cpu_runner_destroy(loop->body);
  release_all(device, loop->carried[0], loop->step->loop->carried);
  release_all(device, loop->carried[1], loop->step->loop->carried);
  release_all(device, loop->stacked, loop->step->loop->stacked);
  release_all(device, loop->items, loop->step->loop->stacked);
  cv_free(loop->body_ins);
  cv_free(loop->body_outs);
  cv_free(loop->symbols);
  cv_free(loop->ins);
  cv_free(loop->body_results);
  cv_free(loop->outs);
  cv_free(loop->item_bytes);
  cv_free(loop);
}

uint64_t cpu_loop_arena(const cpu_loop *loop) {
  uint64_t bytes = cpu_runner_arena(loop->body);
  for (uint32_t i = 0; i < loop->step->loop->carried; i++)
    bytes += loop->carried[0][i].bytes + loop->carried[1][i].bytes;
  for (uint32_t i = 0; i < loop->step->loop->stacked; i++)
    bytes += loop->stacked[i].bytes + loop->items[i].bytes;
  return bytes;
}

cpu_runner *cpu_loop_body(const cpu_loop *loop) { return loop->body; }

/* ---- running ---- */

/* Where the body's results go: condition, carried..., items of stacked outputs... */
static cv_status place(void *context, uint32_t index, cv_tensor *tensor) {
  cpu_loop *loop = context;
  cpu_device *device = loop->context->device;
  cpu_region *region;
  if (index == 0) {
    if (tensor->bytes > sizeof loop->next_condition)
      return cv_error(CV_INVALID, "the body's condition is %s, it must be one bool",
                      cv_tensor_shape_text(tensor).text);
    tensor->data = loop->next_condition;
    return CV_OK;
  }
  uint32_t carried = loop->step->loop->carried;
  if (index <= carried)
    region = &loop->carried[loop->turn][index - 1];
  else
    region = &loop->items[index - 1 - carried];
  cv_status status = cpu_region_grow(device, region, tensor->bytes, "a loop's value");
  tensor->data = region->base;
  return status;
}

/* The inputs before the first iteration. */
static cv_status begin(cpu_loop *loop, const cpu_runner *runner, const int64_t *symbols,
                       int64_t *out_trips) {
  const cv_step *step = loop->step;
  const cv_program *body = step->loop->body, *program = runner->program;
  *out_trips = INT64_MAX;
  loop->condition = true;
  for (uint32_t i = 0; i < step->n_ins; i++) {
    uint32_t v = step->ins[i];
    cv_tensor *in = &loop->ins[i];
    if (i >= 2) {
      cv_status status = cpu_describe(program, v, symbols, in);
      if (status != CV_OK) return status;
      in->data = runner->at[v];
      in->absent = !in->data;
      continue;
    }
    if (v == CV_NONE) continue;
    const void *data = runner->at[v];
    if (!data) return cv_error(CV_INVALID, "its trip count or condition is absent");
    if (i == 0)
      *out_trips = cpu_element(data, program->values[v].dtype, 0);
    else
      loop->condition = cpu_element(data, program->values[v].dtype, 0) != 0;
  }
  for (uint32_t i = 0; i < 2; i++) {
    const cv_value *value = &body->values[body->inputs[i].value];
    loop->ins[i] = (cv_tensor){.dtype = value->dtype,
                               .rank = value->rank,
                               .data = i ? (void *)&loop->condition : (void *)&loop->iteration,
                               .bytes = cv_dtype_size(value->dtype)};
    for (int d = 0; d < value->rank; d++) loop->ins[i].dims[d] = 1; /* [1] stands for a scalar */
  }
  return CV_OK;
}

/* Appends this iteration's items to the stacked outputs. */
static cv_status stack(cpu_loop *loop, int64_t iteration) {
  const cv_loop *about = loop->step->loop;
  cpu_device *device = loop->context->device;
  for (uint32_t k = 0; k < about->stacked; k++) {
    const cv_tensor *item = &loop->body_results[1 + about->carried + k];
    cv_tensor *out = &loop->outs[about->carried + k];
    bool same = iteration == 0 || item->bytes == loop->item_bytes[k];
    for (int d = 0; d < item->rank && iteration > 0; d++)
      same = same && item->dims[d] == out->dims[d + 1];
    if (item->absent || !same)
      return cv_error(CV_INVALID, "iteration %" PRId64 " stacks %s where others gave another shape",
                      iteration, cv_tensor_shape_text(item).text);
    loop->item_bytes[k] = item->bytes;
    for (int d = 0; d < item->rank; d++) out->dims[d + 1] = item->dims[d];
    uint64_t have = (uint64_t)iteration * item->bytes;
    if (have + item->bytes > loop->stacked[k].bytes || !loop->stacked[k].base) {
      cpu_region bigger = {0};
      cv_status status =
          cpu_region_grow(device, &bigger, 2 * (have + item->bytes), "a loop's stacked output");
      if (status != CV_OK) return status;
      if (have) memcpy(bigger.base, loop->stacked[k].base, have);
      cpu_region_release(device, &loop->stacked[k]);
      loop->stacked[k] = bigger;
    }
    if (item->bytes) memcpy((char *)loop->stacked[k].base + have, item->data, item->bytes);
  }
  return CV_OK;
}

/* One iteration: the symbols begin as the loop found them, then the body's inputs bind theirs. */
static cv_status iterate(cpu_loop *loop, const int64_t *symbols, int64_t iteration) {
  const cv_loop *about = loop->step->loop;
  const cv_program *body = about->body;
  loop->iteration = iteration;
  memcpy(loop->symbols, symbols, cv_exprs_symbols(body->exprs) * sizeof *symbols);
  cv_status status = cpu_bind_inputs(body, loop->ins, loop->symbols);
  cpu_job job = {.symbols = loop->symbols,
                 .ins = loop->ins,
                 .outs = loop->body_results,
                 .place = place,
                 .place_context = loop};
  if (status == CV_OK) status = cpu_runner_run(loop->body, &job);
  if (status == CV_OK) status = stack(loop, iteration);
  if (status != CV_OK) return status;
  for (uint32_t k = 0; k < about->carried; k++) {
    loop->ins[2 + k] = loop->body_results[1 + k];
    if (loop->ins[2 + k].absent)
      return cv_error(CV_INVALID, "iteration %" PRId64 " gives no value to carry on", iteration);
  }
  loop->turn = !loop->turn;
  if (loop->body_results[0].absent)
    return cv_error(CV_INVALID, "iteration %" PRId64 " gives no condition", iteration);
  loop->condition = loop->next_condition[0];
  return CV_OK;
}

/* A carried value's dims may only be known now: those that are a symbol without a value bind it. */
static cv_status bind_carried(const cpu_loop *loop, const cv_program *program, uint32_t i,
                              int64_t *symbols) {
  const cv_value *value = &program->values[loop->step->outs[i]];
  cv_status status = CV_OK;
  for (int d = 0; d < value->rank && status == CV_OK; d++) {
    cv_sym sym;
    if (cv_expr_is_symbol(program->exprs, value->dims[d], &sym) && symbols[sym] == CV_UNBOUND)
      status = cpu_bind_late(program, sym, loop->ins[2 + i].dims[d], value->name, symbols);
  }
  return status;
}

/* Output `i`, checked against what the program says of it. */
static cv_status finish_output(cpu_loop *loop, const cv_program *program, uint32_t i, int64_t trips,
                               const int64_t *symbols) {
  uint32_t carried = loop->step->loop->carried, v = loop->step->outs[i];
  cv_tensor wanted, *out = &loop->outs[i];
  cv_status status = cpu_describe(program, v, symbols, &wanted);
  if (status != CV_OK) return status;
  if (i < carried) {
    *out = loop->ins[2 + i];
  } else {
    if (trips == 0) *out = wanted;
    out->dtype = wanted.dtype;
    out->rank = wanted.rank;
    out->dims[0] = trips;
    out->data = loop->stacked[i - carried].base;
    out->bytes = (uint64_t)trips * loop->item_bytes[i - carried];
  }
  bool fits = out->bytes == wanted.bytes;
  for (int d = 0; d < wanted.rank && fits; d++) fits = out->dims[d] == wanted.dims[d];
  if (fits) return CV_OK;
  return cv_error(CV_INVALID, "%s must be %s, but is %s", program->values[v].name,
                  cv_tensor_shape_text(&wanted).text, cv_tensor_shape_text(out).text);
}

static cv_status finish(cpu_loop *loop, const cpu_runner *runner, int64_t trips, int64_t *symbols) {
  const cv_loop *about = loop->step->loop;
  cv_status status = CV_OK;
  if (about->trips != CV_NONE)
    status = cpu_bind_late(runner->program, about->trips, trips, loop->step->name, symbols);
  for (uint32_t i = 0; i < about->carried && status == CV_OK; i++)
    status = bind_carried(loop, runner->program, i, symbols);
  for (uint32_t i = 0; i < loop->step->n_outs && status == CV_OK; i++)
    status = finish_output(loop, runner->program, i, trips, symbols);
  return status;
}

cv_status cpu_loop_run(cpu_loop *loop, cpu_runner *runner, uint32_t s, int64_t *symbols,
                       cv_tensor **out_outs) {
  const cv_loop *about = runner->steps[s].step->loop;
  int64_t wanted, trips = 0;
  *out_outs = loop->outs;
  loop->turn = 0;
  memset(loop->outs, 0, loop->step->n_outs * sizeof *loop->outs);
  memset(loop->item_bytes, 0, about->stacked * sizeof *loop->item_bytes);
  cv_status status = begin(loop, runner, symbols, &wanted);
  while (status == CV_OK && trips < wanted && loop->condition) {
    if (trips >= about->max_trips)
      return cv_error(CV_INVALID,
                      "it ran %" PRId64
                      " times, its bound: does its condition ever become false? (another bound "
                      "can be given when the model is built)",
                      trips);
    status = iterate(loop, symbols, trips);
    if (status != CV_OK) return cv_error_context(status, "iteration %" PRId64, trips);
    trips++;
  }
  return status == CV_OK ? finish(loop, runner, trips, symbols) : status;
}
