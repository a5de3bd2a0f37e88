/* A device that interprets any program of f32 values in a plain way, and chains of steps for it:
 * each result is 1 + the sum of the step's inputs, element by element (the inputs' elements come
 * round again). With pace_us a run lasts that long. An input that holds FAKE_POISON fails. */
#ifndef CV_TESTS_GATEWAY_FAKE_H
#define CV_TESTS_GATEWAY_FAKE_H

#include "base/clock.h"
#include "runtime/message.h"
#include "tests/runtime/sample_build.h"

#define FAKE_POISON 666.0f

typedef struct {
  cv_device base;
  cv_device_spec spec;
} fake_device;

typedef struct {
  cv_slice base;
  const fake_device *device;
  cv_tensor *values; /* by id */
  void **memory;     /* by id: what is not placed */
  uint64_t *bytes;
} fake_slice;

static const cv_device_ops fake_ops;

static inline cv_status fake_open(const cv_device_spec *spec, cv_device **out_device) {
  fake_device *device = cv_alloc(1, sizeof *device);
  *out_device = device ? &device->base : NULL;
  if (!device) return cv_error_nomem(sizeof *device);
  device->base.ops = &fake_ops;
  device->spec = *spec;
  return CV_OK;
}

static inline void fake_close(cv_device *device) { cv_free(device); }

static inline void fake_unload(cv_slice *base) {
  fake_slice *slice = (fake_slice *)base;
  for (uint32_t v = 0; slice->memory && v < cv_artifact_program(base->artifact)->n_values; v++)
    cv_free(slice->memory[v]);
  cv_free(slice->values);
  cv_free(slice->memory);
  cv_free(slice->bytes);
  cv_free(base->ins);
  cv_free(base->outs);
  cv_free(slice);
}

static inline cv_status fake_load(cv_device *device, cv_artifact *artifact, uint32_t first,
                                  uint32_t last, cv_slice **out_slice) {
  const cv_program *p = cv_artifact_program(artifact);
  uint64_t memory = ((const fake_device *)device)->spec.memory;
  if (memory && memory < 100)
    return cv_error(CV_INFEASIBLE, "100 bytes needed, %llu there", (unsigned long long)memory);
  fake_slice *slice = cv_alloc(1, sizeof *slice);
  if (!slice) return cv_error_nomem(sizeof *slice);
  slice->base = (cv_slice){.ops = &fake_ops, .artifact = artifact, .first = first, .last = last};
  slice->device = (fake_device *)device;
  slice->values = cv_alloc(p->n_values, sizeof *slice->values);
  slice->memory = cv_alloc(p->n_values, sizeof *slice->memory);
  slice->bytes = cv_alloc(p->n_values, sizeof *slice->bytes);
  slice->base.ins = cv_alloc(p->n_values, sizeof(uint32_t));
  slice->base.outs = cv_alloc(p->n_values, sizeof(uint32_t));
  if (!slice->values || !slice->memory || !slice->bytes || !slice->base.ins || !slice->base.outs) {
    fake_unload(&slice->base);
    return cv_error_nomem(p->n_values);
  }
  cv_program_slice_ports(p, first, last, slice->base.ins, &slice->base.n_ins, slice->base.outs,
                         &slice->base.n_outs);
  *out_slice = &slice->base;
  return CV_OK;
}

static inline cv_status fake_make(fake_slice *slice, cv_run *run, uint32_t v) {
  const cv_program *p = cv_artifact_program(slice->base.artifact);
  cv_tensor *value = &slice->values[v];
  cv_status status = cv_message_describe(p, v, run->symbols, value);
  if (status != CV_OK || value->absent) return status;
  for (uint32_t k = 0; k < slice->base.n_outs; k++) {
    if (slice->base.outs[k] != v) continue;
    status = run->place(run->context, k, value);
    run->outs[k] = *value;
    return status;
  }
  if (slice->bytes[v] < value->bytes) {
    cv_free(slice->memory[v]);
    slice->bytes[v] = 0;
    slice->memory[v] = cv_alloc_aligned(64, value->bytes);
    if (!slice->memory[v]) return cv_error_nomem(value->bytes);
    slice->bytes[v] = value->bytes;
  }
  value->data = slice->memory[v];
  return CV_OK;
}

static inline cv_status fake_step(fake_slice *slice, cv_run *run, const cv_step *step) {
  for (uint32_t k = 0; k < step->n_outs; k++) {
    cv_tensor *out = &slice->values[step->outs[k]];
    cv_status status = fake_make(slice, run, step->outs[k]);
    if (status != CV_OK) return status;
    float *to = out->data;
    for (uint64_t i = 0; i < out->bytes / 4; i++) to[i] = 1;
    for (uint32_t n = 0; n < step->n_ins; n++) {
      const cv_tensor *in = &slice->values[step->ins[n]];
      const float *from = in->data;
      for (uint64_t i = 0; in->bytes && i < out->bytes / 4; i++) {
        if (!(from[i % (in->bytes / 4)] < FAKE_POISON) &&
            !(from[i % (in->bytes / 4)] > FAKE_POISON))
          return cv_error(CV_INVALID, "step %s: the input is poisoned", step->name);
        to[i] += from[i % (in->bytes / 4)];
      }
    }
  }
  return CV_OK;
}

static inline cv_status fake_run(cv_slice *base, cv_run *run) {
  fake_slice *slice = (fake_slice *)base;
  int64_t begin = cv_clock_ns();
  const cv_program *p = cv_artifact_program(base->artifact);
  for (uint32_t i = 0; i < base->n_ins; i++) slice->values[base->ins[i]] = run->ins[i];
  for (uint32_t s = base->first; s <= base->last; s++) {
    int64_t from = cv_clock_ns();
    cv_status status = fake_step(slice, run, &p->steps[s]);
    if (status != CV_OK) return status;
    if (run->times) run->times[s - base->first] = (cv_step_time){from, cv_clock_ns()};
  }
  for (uint32_t k = 0; k < base->n_outs; k++) { /* an input that passes through */
    cv_tensor *in = &slice->values[base->outs[k]];
    if (p->values[base->outs[k]].kind != CV_VALUE_INPUT) continue;
    run->outs[k] = *in;
    cv_status status = run->place(run->context, k, &run->outs[k]);
    if (status != CV_OK) return status;
    memcpy(run->outs[k].data, in->data, in->bytes);
  }
  if (slice->device->spec.pace_us > 0)
    cv_clock_sleep_until(begin + (int64_t)(slice->device->spec.pace_us * 1000));
  return CV_OK;
}

static inline void fake_memory(const cv_slice *slice, cv_slice_memory *out_memory) {
  (void)slice;
  *out_memory = (cv_slice_memory){.weights = 1};
}

static const cv_device_ops fake_ops = {.kind = "fake",
                                       .memory = CV_MEMORY_HOST,
                                       .open = fake_open,
                                       .close = fake_close,
                                       .load = fake_load,
                                       .unload = fake_unload,
                                       .run = fake_run,
                                       .memory_used = fake_memory};

static inline const cv_device_ops *fake_find(const char *kind) {
  return strcmp(kind, "fake") == 0 ? &fake_ops : cv_device_find(kind);
}

static inline cv_device_spec fake_spec(double pace_us) {
  return (cv_device_spec){.name = "test", .kind = "fake", .threads = 1, .pace_us = pace_us};
}

/* ---- programs ---- */

enum { CHAIN_STEPS = 8, CHAIN_WIDTH = 4 };

static const char *const chain_names[] = {"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"};
static const char *const chain_steps[] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"};

/* x f32[batch,4] -> h0 -> ... -> h7 = 1 + h6 + h0 + y, with y f32[4] a late, shared input (so a
 * skip edge goes from the first step to the last); results h7, h1 (early), x (passes through).
 * Separable. With `state`, y is state: it takes h7 of the request before (batch 1). */
static inline cv_program *chain_program(bool state) {
  cv_exprs *e = cv_exprs_create(true);
  cv_program *p = cv_program_create(e, true, true);
  sample_lists(p);
  cv_expr batch = cv_expr_symbol(e, cv_exprs_symbol(e, "batch", 0, 1000));
  if (state) batch = sample_const(p, 1);
  sample_type type = {CV_F32, 2, batch, sample_const(p, CHAIN_WIDTH)};
  sample_type shared = state ? type : (sample_type){CV_F32, 1, sample_const(p, CHAIN_WIDTH), 0};
  uint32_t x = sample_value(p, type, CV_VALUE_INPUT, 0, "x");
  uint32_t y = sample_value(p, shared, CV_VALUE_INPUT, 1, "y");
  uint32_t before = x, first = 0, early = 0;
  for (uint32_t s = 0; s < CHAIN_STEPS; s++) {
    uint32_t h = sample_value(p, type, CV_VALUE_STEP, s, chain_names[s]);
    sample_list ins = {1, {before}};
    if (s == CHAIN_STEPS - 1) ins = (sample_list){3, {before, first, y}};
    sample_step(p, chain_steps[s], CV_STEP_KERNEL, ins, (sample_list){1, {h}});
    if (s == 0) first = h;
    if (s == 1) early = h;
    before = h;
  }
  int32_t axis = state ? -1 : 0;
  p->inputs[0] = (cv_port){.value = x, .batch_axis = axis, .batch_factor = 1};
  p->inputs[1] = (cv_port){.value = y, .batch_axis = -1};
  p->n_inputs = 2;
  p->outputs[0] = (cv_port){.value = before, .batch_axis = axis, .batch_factor = 1};
  p->outputs[1] = (cv_port){.value = early, .batch_axis = axis, .batch_factor = 1};
  p->outputs[2] = (cv_port){.value = x, .batch_axis = axis, .batch_factor = 1};
  p->n_outputs = 3;
  p->separable = !state;
  p->batch = state ? CV_NONE : 0;
  if (state) {
    p->states =
        cv_arena_copy(&p->arena, &(cv_state_pair){.input = 1, .output = 0}, sizeof(cv_state_pair));
    p->n_states = 1;
  }
  return p;
}

/* h7 for one element of x and y. */
static inline float chain_result(float x, float y) {
  float h = x;
  for (int s = 0; s < CHAIN_STEPS; s++) h += 1;
  return h + (x + 1) + y;
}

/* Writes a program to `path` and opens it. */
static inline cv_artifact *fake_artifact(cv_program *program, const char *path) {
  cv_artifact *artifact = NULL;
  if (cv_artifact_write(program, path) != CV_OK || cv_artifact_open(path, &artifact) != CV_OK) {
    fprintf(stderr, "%s\n", cv_error_text());
    abort();
  }
  cv_program_destroy(program);
  return artifact;
}

#endif
