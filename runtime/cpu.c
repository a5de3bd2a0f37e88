/* The device row "cpu". */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/cpu_internal.h"

typedef struct {
  cv_slice base;
  cpu_context context;
  cpu_runner *runner;
} cpu_slice;

static void close_device(cv_device *device) {
  cpu_device *cpu = (cpu_device *)device;
  if (!cpu) return;
  cv_pool_destroy(cpu->pool);
  cv_vec_deinit(&cpu->weights);
  cv_vec_deinit(&cpu->codes);
  pthread_mutex_destroy(&cpu->lock);
  cv_free(cpu->name);
  cv_free(cpu->target);
  cv_free(cpu);
}

static cv_status open_device(const cv_device_spec *spec, cv_device **out_device) {
  *out_device = NULL;
  cv_status status = CV_OK;
  cpu_device *cpu = cv_alloc(1, sizeof *cpu);
  if (!cpu) return cv_error_nomem(sizeof *cpu);
  cpu->base.ops = &cv_device_cpu;
  pthread_mutex_init(&cpu->lock, NULL);
  cpu->limit = spec->memory;
  cpu->threads = spec->threads;
  cpu->name = cv_strdup(spec->name ? spec->name : "cpu");
  if (spec->target) cpu->target = cv_strdup(spec->target);
  if (!cpu->name || (spec->target && !cpu->target)) CV_TRY(cv_error_nomem(64));
  CV_TRY(cv_pool_create(spec->threads, &cpu->pool));
  *out_device = &cpu->base;
out:
  if (status != CV_OK) close_device(&cpu->base);
  return status;
}

/* ---- slices ---- */

static void unload(cv_slice *base) {
  cpu_slice *slice = (cpu_slice *)base;
  cpu_device *device = slice->context.device;
  cpu_runner_destroy(slice->runner);
  cpu_weights_release(&slice->context);
  cpu_region_release(device, &slice->context.scratch);
  cpu_code_release(device, slice->context.code);
  cv_free(slice->base.ins);
  cv_free(slice->base.outs);
  cv_free(slice);
}

static cv_status find_ports(cv_slice *slice, const cv_program *program) {
  size_t n = program->n_values + 1u;
  slice->ins = cv_alloc(n, sizeof *slice->ins);
  slice->outs = cv_alloc(n, sizeof *slice->outs);
  if (!slice->ins || !slice->outs) return cv_error_nomem(n * sizeof *slice->ins);
  cv_program_slice_ports(program, slice->first, slice->last, slice->ins, &slice->n_ins, slice->outs,
                         &slice->n_outs);
  return CV_OK;
}

typedef cv_vec(cpu_runner *) runner_list;

/* The runner and those of the loops in it. */
static bool list_runners(cpu_runner *runner, runner_list *list) {
  if (!cv_vec_push(list, runner)) return false;
  for (uint32_t s = 0; s < runner->n_steps; s++)
    if (runner->steps[s].loop && !list_runners(cpu_loop_body(runner->steps[s].loop), list))
      return false;
  return true;
}

static cv_status load_weights(cpu_slice *slice) {
  runner_list list = {0};
  cv_status status = list_runners(slice->runner, &list)
                         ? cpu_weights_load(&slice->context, list.data, (uint32_t)list.len)
                         : cv_error_nomem(list.len * sizeof(cpu_runner *));
  cv_vec_deinit(&list);
  return status;
}

static cv_status load(cv_device *device, cv_artifact *artifact, uint32_t first, uint32_t last,
                      cv_slice **out_slice) {
  *out_slice = NULL;
  cpu_device *cpu = (cpu_device *)device;
  const cv_program *program = cv_artifact_program(artifact);
  cv_status status = CV_OK;
  cpu_slice *slice = cv_alloc(1, sizeof *slice);
  if (!slice) return cv_error_nomem(sizeof *slice);
  slice->base =
      (cv_slice){.ops = &cv_device_cpu, .artifact = artifact, .first = first, .last = last};
  cpu_context *context = &slice->context;
  context->device = cpu;
  context->artifact = artifact;
  CV_TRY(cv_artifact_pick_target(artifact, cpu->target, &context->target));
  CV_TRY(find_ports(&slice->base, program));
  CV_TRY(cpu_code_acquire(cpu, artifact, context->target, &context->code));
  cpu_part part = {.program = program,
                   .first = first,
                   .n_steps = last - first + 1,
                   .ins = slice->base.ins,
                   .n_ins = slice->base.n_ins,
                   .outs = slice->base.outs,
                   .n_outs = slice->base.n_outs};
  CV_TRY(cpu_runner_create(context, &part, &slice->runner));
  CV_TRY(load_weights(slice));
  *out_slice = &slice->base;
out:
  if (status == CV_OK) return CV_OK;
  unload(&slice->base);
  return cv_error_context(status, "device %s: loading steps %" PRIu32 " to %" PRIu32, cpu->name,
                          first, last);
}

static cv_status run(cv_slice *base, cv_run *run) {
  cpu_slice *slice = (cpu_slice *)base;
  cpu_job job = {.symbols = run->symbols,
                 .ins = run->ins,
                 .outs = run->outs,
                 .place = run->place,
                 .place_context = run->context,
                 .times = run->times};
  return cpu_runner_run(slice->runner, &job);
}

static void memory_used(const cv_slice *base, cv_slice_memory *out_memory) {
  const cpu_slice *slice = (const cpu_slice *)base;
  *out_memory = (cv_slice_memory){.weights = slice->context.weight_bytes,
                                  .arena = cpu_runner_arena(slice->runner),
                                  .scratch = slice->context.scratch.bytes};
}

const cv_device_ops cv_device_cpu = {.kind = "cpu",
                                     .memory = CV_MEMORY_HOST,
                                     .open = open_device,
                                     .close = close_device,
                                     .load = load,
                                     .unload = unload,
                                     .run = run,
                                     .memory_used = memory_used};
