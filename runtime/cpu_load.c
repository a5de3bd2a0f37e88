/* Makes runners: kernels found, lists made. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/cpu_internal.h"

/* The rendering of step `s` alone. The verifier saw that there is one. */
static const cv_rendering *find_rendering(const cv_target_code *target, uint32_t s) {
  for (uint32_t i = 0; i < target->n_renderings; i++)
    if (target->renderings[i].first == s && target->renderings[i].last == s)
      return &target->renderings[i];
  return NULL;
}

static cv_status load_kernel(const cpu_runner *runner, uint32_t s, cpu_step *step) {
  const cpu_context *context = runner->context;
  const cv_rendering *rendering = find_rendering(&runner->program->targets[context->target], s);
  const cv_kernel_table *table = context->code->table;
  if (!rendering || table->count < 0 || rendering->kernel >= (uint32_t)table->count)
    return cv_error(CV_CORRUPT, "step %s: its kernel is not in the code of target %s",
                    step->step->name, runner->program->targets[context->target].name);
  step->rendering = rendering;
  step->kernel = &table->kernels[rendering->kernel];
  if (!step->kernel->prepare || !step->kernel->run)
    return cv_error(CV_CORRUPT, "step %s: its kernel is incomplete", step->step->name);
  return CV_OK;
}

static cv_status load_step(cpu_runner *runner, uint32_t s, cpu_step *step) {
  step->step = &runner->program->steps[s];
  if (step->step->kind == CV_STEP_LOOP)
    return cpu_loop_create(runner->context, step->step, &step->loop);
  if (step->step->kind != CV_STEP_KERNEL) return CV_OK;
  cv_status status = load_kernel(runner, s, step);
  if (status != CV_OK) return status;
  step->packs = cv_arena_array(&runner->arena, const void *, step->rendering->n_packs + 1u);
  return step->packs ? CV_OK : cv_error_nomem(step->rendering->n_packs * sizeof(void *));
}

static cv_status make_lists(cpu_runner *runner) {
  cv_arena *arena = &runner->arena;
  size_t n = runner->program->n_values + 2u;
  runner->steps = cv_arena_array(arena, cpu_step, runner->n_steps + 1u);
  runner->values = cv_arena_array(arena, cpu_value, n);
  runner->spots = cv_arena_array(arena, cpu_spot, n);
  runner->at = cv_arena_array(arena, void *, n);
  runner->holes = cv_arena_array(arena, cpu_hole, n);
  if (!runner->steps || !runner->values || !runner->spots || !runner->at || !runner->holes)
    return cv_error_nomem(n * sizeof(cpu_spot));
  return CV_OK;
}

/* Values stand in their plain layout: code that wants another one is not for this program. */
static cv_status check_layouts(const cpu_runner *runner) {
  const cv_target_code *target = &runner->program->targets[runner->context->target];
  for (uint32_t v = 0; v < runner->program->n_values; v++)
    if (target->layouts[v] != 0)
      return cv_error(CV_UNSUPPORTED,
                      "target %s keeps %s in layout %" PRIu32
                      ", which this program does not know: build the target again",
                      target->name, runner->program->values[v].name, target->layouts[v]);
  return CV_OK;
}

cv_status cpu_runner_create(cpu_context *context, const cpu_part *part, cpu_runner **out_runner) {
  *out_runner = NULL;
  cpu_runner *runner = cv_alloc(1, sizeof *runner);
  if (!runner) return cv_error_nomem(sizeof *runner);
  *runner = (cpu_runner){.context = context,
                         .program = part->program,
                         .n_steps = part->n_steps,
                         .ins = part->ins,
                         .n_ins = part->n_ins,
                         .outs = part->outs,
                         .n_outs = part->n_outs};
  cv_status status = make_lists(runner);
  if (status != CV_OK) runner->n_steps = 0;
  if (status == CV_OK) status = check_layouts(runner);
  for (uint32_t s = 0; s < runner->n_steps && status == CV_OK; s++)
    status = load_step(runner, part->first + s, &runner->steps[s]);
  if (status == CV_OK) status = cpu_segments_make(runner);
  if (status == CV_OK)
    *out_runner = runner;
  else
    cpu_runner_destroy(runner);
  return status;
}

void cpu_runner_destroy(cpu_runner *runner) {
  if (!runner) return;
  for (uint32_t s = 0; s < runner->n_steps; s++) cpu_loop_destroy(runner->steps[s].loop);
  for (uint32_t g = 0; g < runner->n_segments; g++) {
    cpu_region_release(runner->context->device, &runner->segments[g].arena);
    for (int i = 0; i < CPU_PLANS; i++) cv_free(runner->segments[g].plans[i]);
  }
  cv_arena_deinit(&runner->arena);
  cv_free(runner);
}

uint64_t cpu_runner_arena(const cpu_runner *runner) {
  uint64_t bytes = 0;
  for (uint32_t g = 0; g < runner->n_segments; g++) bytes += runner->segments[g].arena.bytes;
  for (uint32_t s = 0; s < runner->n_steps; s++)
    if (runner->steps[s].loop) bytes += cpu_loop_arena(runner->steps[s].loop);
  return bytes;
}
