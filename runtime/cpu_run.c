/* Runs a runner's steps. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/cpu_internal.h"

/* Stands for the data of tensors without bytes. */
static _Alignas(64) char nothing[64];

static void *data_of(const cv_tensor *tensor) { return tensor->data ? tensor->data : nothing; }

static cv_status take_input(cpu_runner *runner, const cpu_job *job, uint32_t i) {
  uint32_t v = runner->ins[i];
  const cv_value *value = &runner->program->values[v];
  const cv_tensor *given = &job->ins[i];
  runner->at[v] = NULL;
  if (given->absent) return CV_OK; /* who reads it all the same finds nothing and says so */
  cv_tensor wanted;
  cv_status status = cpu_describe(runner->program, v, job->symbols, &wanted);
  if (status != CV_OK) return status;
  bool fits = given->dtype == wanted.dtype && given->rank == wanted.rank &&
              given->bytes == wanted.bytes && (given->data || !given->bytes);
  for (int d = 0; d < wanted.rank && fits; d++) fits = given->dims[d] == wanted.dims[d];
  if (!fits)
    return cv_error(CV_INVALID, "input '%s' must be %s, given is %s", value->name,
                    cv_tensor_shape_text(&wanted).text, cv_tensor_shape_text(given).text);
  runner->at[v] = data_of(given);
  return CV_OK;
}

/* Asks for the memory of a result. */
static cv_status place(const cpu_runner *runner, const cpu_job *job, uint32_t out,
                       const cv_tensor *tensor) {
  job->outs[out] = *tensor;
  if (tensor->absent) return CV_OK;
  cv_status status = job->place(job->place_context, out, &job->outs[out]);
  if (status == CV_OK && !job->outs[out].data && tensor->bytes)
    status = cv_error(CV_INTERNAL, "no memory was given for the result %s",
                      runner->program->values[runner->outs[out]].name);
  return status;
}

/* A result that is copied from at[] of its value. */
static cv_status copy_result(const cpu_runner *runner, const cpu_job *job, uint32_t out) {
  const cv_tensor *result = &job->outs[out];
  const void *from = runner->at[runner->outs[out]];
  if (result->absent || !result->bytes) return CV_OK;
  if (!from)
    return cv_error(CV_INVALID, "the result %s is not there",
                    runner->program->values[runner->outs[out]].name);
  memcpy(result->data, from, result->bytes);
  return CV_OK;
}

/* Results that no step makes: inputs that pass through, consts. */
static cv_status pass_through(cpu_runner *runner, const cpu_job *job) {
  for (uint32_t o = 0; o < runner->n_outs; o++) {
    uint32_t v = runner->outs[o];
    if (runner->values[v].segment != UINT32_MAX) continue;
    cv_tensor tensor;
    cv_status status = cpu_describe(runner->program, v, job->symbols, &tensor);
    tensor.absent = !runner->at[v];
    if (tensor.absent) tensor.bytes = 0;
    if (status == CV_OK) status = place(runner, job, o, &tensor);
    if (status == CV_OK) status = copy_result(runner, job, o);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

/* ---- a segment ---- */

static void set_exports(cpu_runner *runner, const cpu_segment *segment, const cpu_plan *plan,
                        const cpu_job *job) {
  for (uint32_t i = 0; i < plan->n_exports; i++) {
    const cpu_export *item = &plan->exports[i];
    void **at = &runner->at[item->value];
    switch (item->kind) {
      case CPU_ABSENT: *at = NULL; break;
      case CPU_ARENA: *at = (char *)segment->arena.base + item->where; break;
      case CPU_OUT: *at = data_of(&job->outs[item->where]); break;
      case CPU_SAME: *at = runner->at[item->where]; break;
    }
  }
}

/* Memory and pointers of a plan. */
static cv_status prepare(cpu_runner *runner, cpu_segment *segment, cpu_plan *plan,
                         const cpu_job *job) {
  cpu_device *device = runner->context->device;
  cv_status status = CV_OK;
  uint64_t scratch = plan->scratch_shared + plan->scratch_thread * (uint64_t)device->threads;
  if (plan->arena_bytes > segment->arena.bytes)
    status = cpu_region_grow(device, &segment->arena, plan->arena_bytes, "the activations");
  if (status == CV_OK && scratch > runner->context->scratch.bytes)
    status = cpu_region_grow(device, &runner->context->scratch, scratch, "the kernels' scratch");
  for (uint32_t i = 0; i < plan->n_results && status == CV_OK; i++)
    status = place(runner, job, plan->results[i].out, &plan->results[i].tensor);
  if (status != CV_OK) return status;
  if (plan->arena_base != segment->arena.base) {
    for (uint32_t i = 0; i < plan->n_fixups; i++)
      *plan->fixups[i].slot = (char *)segment->arena.base + plan->fixups[i].offset;
    plan->arena_base = segment->arena.base;
  }
  set_exports(runner, segment, plan, job);
  for (uint32_t i = 0; i < plan->n_patches; i++) {
    const cpu_patch *patch = &plan->patches[i];
    *patch->slot = runner->at[patch->value];
    if (!*patch->slot)
      return cv_error(CV_INVALID, "the value %s is read, but it is absent",
                      runner->program->values[patch->value].name);
  }
  return CV_OK;
}

typedef struct {
  const cpu_call *call;
  int phase;
  char *scratch;
  uint64_t stride;
  void *shared;
} work;

static int run_tasks(void *arg, int64_t begin, int64_t end, int thread) {
  const work *w = arg;
  return w->call->kernel->run(w->phase, begin, end, thread, w->call->ptrs, w->call->dims,
                              w->scratch + w->stride * (uint64_t)thread, w->shared);
}

static cv_status kernel_failed(const cpu_runner *runner, const cpu_call *call, int code) {
  static const char *const texts[] = {"an index is out of range", "a value is out of range",
                                      "bad input data"};
  const char *text = code >= 1 && code <= 3 ? texts[code - 1] : "an unknown failure";
  return cv_error(CV_INVALID, "step %s: %s (kernel's code %d)",
                  runner->steps[call->step].step->name, text, code);
}

/* Gives the symbol its value from the bytes of the value it is read from. */
static cv_status bind_one(const cpu_runner *runner, const cv_bind *bind, const void *data,
                          const char *step, int64_t *symbols) {
  cv_dtype dtype = runner->program->values[bind->value].dtype;
  int64_t number = cpu_element(data, dtype, bind->element);
  cv_status status = cpu_bind_late(runner->program, bind->sym, number, step, symbols);
  return cv_error_context(status, "step");
}

static cv_status bind_results(const cpu_runner *runner, const cpu_call *call, int64_t *symbols) {
  const cpu_step *step = &runner->steps[call->step];
  const cv_step *about = step->step;
  void **ptrs = call->ptrs + about->n_ins + about->n_outs;
  if (step->kernel) ptrs += step->rendering->n_packs;
  cv_status status = CV_OK;
  for (uint32_t i = 0; i < about->n_binds && status == CV_OK; i++)
    status = bind_one(runner, &about->binds[i], ptrs[i], about->name, symbols);
  return status;
}

static cv_status run_kernel(cpu_runner *runner, const cpu_call *call, work *w) {
  cv_pool *pool = runner->context->device->pool;
  w->call = call;
  for (w->phase = 0; w->phase < call->plan.phases; w->phase++) {
    int64_t tasks = call->plan.tasks[w->phase];
    int code = 0;
    if (call->wide)
      code = cv_pool_run(pool, tasks, run_tasks, w);
    else if (tasks > 0)
      code = run_tasks(w, 0, tasks, 0);
    if (code) return kernel_failed(runner, call, code);
  }
  return CV_OK;
}

static cv_status run_calls(cpu_runner *runner, const cpu_plan *plan, const cpu_job *job) {
  char *scratch = runner->context->scratch.base;
  work w = {.stride = plan->scratch_thread, .shared = scratch};
  w.scratch = scratch ? scratch + plan->scratch_shared : NULL;
  for (uint32_t i = 0; i < plan->n_calls; i++) {
    const cpu_call *call = &plan->calls[i];
    cv_status status = CV_OK;
    if (job->times) job->times[call->step].begin_ns = cv_clock_ns();
    if (call->kernel) status = run_kernel(runner, call, &w);
    if (job->times) job->times[call->step].end_ns = cv_clock_ns();
    if (status == CV_OK && runner->steps[call->step].step->n_binds)
      status = bind_results(runner, call, job->symbols);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

static cv_status run_segment(cpu_runner *runner, cpu_segment *segment, const cpu_job *job) {
  cpu_plan *plan;
  cv_status status = cpu_plan_get(runner, segment, job->symbols, &plan);
  if (status == CV_OK) status = prepare(runner, segment, plan, job);
  if (status == CV_OK) status = run_calls(runner, plan, job);
  for (uint32_t i = 0; status == CV_OK && i < plan->n_results; i++)
    if (plan->results[i].copied) status = copy_result(runner, job, plan->results[i].out);
  return status;
}

/* A loop: its outputs' shapes are known when it has run. */
static cv_status run_loop(cpu_runner *runner, const cpu_segment *segment, const cpu_job *job) {
  uint32_t s = segment->first;
  const cv_step *step = runner->steps[s].step;
  cv_tensor *outs = NULL;
  int64_t active;
  cv_status status = cv_expr_eval(runner->program->exprs, step->guard, job->symbols, &active);
  if (status != CV_OK) return status;
  if (active) {
    if (job->times) job->times[s].begin_ns = cv_clock_ns();
    status = cpu_loop_run(runner->steps[s].loop, runner, s, job->symbols, &outs);
    if (job->times) job->times[s].end_ns = cv_clock_ns();
    if (status != CV_OK) return cv_error_context(status, "loop %s", step->name);
  }
  for (uint32_t i = 0; i < step->n_outs; i++) {
    uint32_t v = step->outs[i];
    const cv_value *value = &runner->program->values[v];
    cv_tensor tensor = {.dtype = value->dtype, .rank = value->rank, .absent = true};
    runner->at[v] = active ? data_of(&outs[i]) : NULL;
    if (active) tensor = outs[i];
    tensor.data = NULL;
    for (uint32_t o = 0; o < runner->n_outs && status == CV_OK; o++) {
      if (runner->outs[o] != v) continue;
      status = place(runner, job, o, &tensor);
      if (status == CV_OK) status = copy_result(runner, job, o);
    }
  }
  for (uint32_t i = 0; i < step->n_binds && active && status == CV_OK; i++)
    status = bind_one(runner, &step->binds[i], runner->at[step->binds[i].value], step->name,
                      job->symbols);
  return status;
}

cv_status cpu_runner_run(cpu_runner *runner, const cpu_job *job) {
  cv_status status = CV_OK;
  if (job->times) memset(job->times, 0, runner->n_steps * sizeof *job->times);
  for (uint32_t i = 0; i < runner->n_ins && status == CV_OK; i++)
    status = take_input(runner, job, i);
  if (status == CV_OK) status = pass_through(runner, job);
  for (uint32_t g = 0; g < runner->n_segments && status == CV_OK; g++) {
    cpu_segment *segment = &runner->segments[g];
    status = segment->loop ? run_loop(runner, segment, job) : run_segment(runner, segment, job);
  }
  return status;
}
