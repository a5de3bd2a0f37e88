#include "cli/runner.h"

#include <string.h>

#include "base/alloc.h"

cv_status cv_runner_init(cv_runner *runner, cv_artifact *artifact, const cv_device_spec *spec) {
  const cv_program *program = cv_artifact_program(artifact);
  *runner = (cv_runner){.artifact = artifact, .program = program};
  cv_status status = CV_OK;
  CV_TRY(cv_device_open(spec, &runner->device));
  CV_TRY(cv_device_load(runner->device, artifact, 0, program->n_steps - 1, &runner->slice));
  runner->symbols = cv_alloc_or_die(cv_exprs_symbols(program->exprs), sizeof *runner->symbols);
  runner->outs = cv_alloc_or_die(program->n_outputs, sizeof *runner->outs);
  runner->slot_of = cv_alloc_or_die(program->n_outputs, sizeof *runner->slot_of);
  runner->ins = cv_alloc_or_die(runner->slice->n_ins, sizeof *runner->ins);
  runner->placed = cv_alloc_or_die(runner->slice->n_outs, sizeof *runner->placed);
  runner->capacity = cv_alloc_or_die(runner->slice->n_outs, sizeof *runner->capacity);
  runner->times = cv_alloc_or_die(program->n_steps, sizeof *runner->times);
  for (uint32_t o = 0; o < program->n_outputs; o++) {
    runner->slot_of[o] = CV_NONE;
    for (uint32_t i = 0; i < runner->slice->n_outs; i++)
      if (runner->slice->outs[i] == program->outputs[o].value) runner->slot_of[o] = i;
  }
out:
  return status;
}

static cv_status place(void *context, uint32_t index, cv_tensor *tensor) {
  cv_runner *runner = context;
  cv_tensor *kept = &runner->placed[index];
  if (runner->capacity[index] < tensor->bytes) {
    cv_tensor_deinit(kept);
    runner->capacity[index] = 0;
    cv_status status = cv_tensor_create(tensor->dtype, tensor->rank, tensor->dims, kept);
    if (status != CV_OK) return status;
    runner->capacity[index] = kept->bytes;
  }
  void *data = kept->data;
  *kept = *tensor;
  kept->data = data;
  kept->owned = true;
  *tensor = *kept;
  tensor->owned = false;
  return CV_OK;
}

cv_status cv_runner_run(cv_runner *runner, const cv_tensor *inputs) {
  const cv_program *program = runner->program;
  cv_slice *slice = runner->slice;
  cv_status status = cv_program_bind_inputs(program, inputs, runner->symbols);
  if (status != CV_OK) return status;
  for (uint32_t i = 0; i < slice->n_ins; i++)
    runner->ins[i] = inputs[program->values[slice->ins[i]].source];
  cv_tensor *outs = cv_alloc_or_die(slice->n_outs, sizeof *outs);
  cv_run run = {.symbols = runner->symbols,
                .ins = runner->ins,
                .outs = outs,
                .place = place,
                .context = runner,
                .times = runner->times};
  status = cv_slice_run(slice, &run);
  for (uint32_t o = 0; o < program->n_outputs && status == CV_OK; o++) {
    uint32_t slot = runner->slot_of[o];
    runner->outs[o] =
        slot != CV_NONE ? outs[slot] : inputs[program->values[program->outputs[o].value].source];
    runner->outs[o].owned = false;
  }
  cv_free(outs);
  return status;
}

cv_status cv_runner_carry_state(const cv_runner *runner, cv_tensor *inputs) {
  for (uint32_t i = 0; i < runner->program->n_states; i++) {
    cv_state_pair pair = runner->program->states[i];
    cv_tensor copy;
    cv_status status = cv_tensor_copy(&runner->outs[pair.output], &copy);
    if (status != CV_OK) return status;
    cv_tensor_deinit(&inputs[pair.input]);
    inputs[pair.input] = copy;
  }
  return CV_OK;
}

void cv_runner_deinit(cv_runner *runner) {
  for (uint32_t i = 0; runner->placed && i < runner->slice->n_outs; i++)
    cv_tensor_deinit(&runner->placed[i]);
  cv_slice_unload(runner->slice);
  cv_device_close(runner->device);
  cv_free(runner->symbols);
  cv_free(runner->outs);
  cv_free(runner->slot_of);
  cv_free(runner->ins);
  cv_free(runner->placed);
  cv_free(runner->capacity);
  cv_free(runner->times);
  *runner = (cv_runner){0};
}

/* splitmix64: a fixed sequence, so that two runs measure the same. */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

static void fill(cv_tensor *tensor, uint64_t *seed) {
  size_t size = cv_dtype_size(tensor->dtype);
  uint64_t count = tensor->bytes / size;
  char *data = tensor->data;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t bits = next_random(seed);
    double real = (double)(bits >> 11) / 9007199254740992.0 - 0.5;
    float single = (float)real;
    switch (tensor->dtype) {
      case CV_F32: memcpy(data + i * size, &single, size); break;
      case CV_F64: memcpy(data + i * size, &real, size); break;
      case CV_F16:
        memcpy(data + i * size, &(uint16_t){(uint16_t)(0x3000 | (bits & 0x3ff))}, size);
        break;
      case CV_BF16:
        memcpy(data + i * size, &(uint16_t){(uint16_t)(0x3e00 | (bits & 0x7f))}, size);
        break;
      default: data[i * size] = (char)(bits & 1); break; /* little endian; the rest is zero */
    }
  }
}

cv_status cv_inputs_make(const cv_program *program, const int64_t *symbols, cv_tensor *inputs) {
  uint64_t seed = 1;
  for (uint32_t i = 0; i < program->n_inputs; i++) {
    const cv_value *value = &program->values[program->inputs[i].value];
    int64_t dims[CV_MAX_RANK] = {0};
    for (int d = 0; d < value->rank; d++) {
      cv_status status = cv_expr_eval(program->exprs, value->dims[d], symbols, &dims[d]);
      if (status != CV_OK) return cv_error_context(status, "input %s", value->name);
    }
    cv_status status = cv_tensor_create(value->dtype, value->rank, dims, &inputs[i]);
    if (status != CV_OK) return cv_error_context(status, "input %s", value->name);
    fill(&inputs[i], &seed);
  }
  return CV_OK;
}
