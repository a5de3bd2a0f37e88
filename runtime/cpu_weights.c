/* Weights of a slice: packed at load, shared between slices, counted. */
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "runtime/cpu_internal.h"

/* A weight that must be made, and by which step. */
typedef struct {
  cpu_weight *weight;
  const cpu_runner *runner;
  const cpu_step *step; /* NULL: a const that is read as it is */
} fresh;

typedef struct {
  cpu_context *context;
  cv_vec(fresh) fresh;
  uint64_t packed, raw; /* bytes of the fresh ones */
  int64_t *symbols;     /* none has a value at load */
} loading;

static uint64_t rounded(uint64_t bytes) { return (bytes + 63) & ~(uint64_t)63; }

static cpu_weight *find(cpu_weight *const *weights, size_t n, const void *owner, uint32_t which) {
  for (size_t i = 0; i < n; i++)
    if (weights[i]->owner == owner && weights[i]->which == which) return weights[i];
  return NULL;
}

/* Holds the weight: of this slice already, loaded by another slice, or a new one. */
static cv_status need(loading *l, const fresh *wanted, const cpu_weight *about,
                      cpu_weight **out_weight) {
  cpu_context *context = l->context;
  cpu_device *device = context->device;
  cpu_weight *weight = find(context->held.data, context->held.len, about->owner, about->which);
  *out_weight = weight;
  if (weight) return CV_OK;
  if (!cv_vec_reserve(&context->held, 1) || !cv_vec_reserve(&l->fresh, 1))
    return cv_error_nomem(sizeof *weight);
  pthread_mutex_lock(&device->lock);
  weight = find(device->weights.data, device->weights.len, about->owner, about->which);
  if (weight) weight->refs++;
  pthread_mutex_unlock(&device->lock);
  if (!weight) {
    weight = cv_alloc(1, sizeof *weight);
    if (!weight) return cv_error_nomem(sizeof *weight);
    *weight = *about;
    weight->refs = 1;
    l->fresh.data[l->fresh.len] = *wanted;
    l->fresh.data[l->fresh.len++].weight = weight;
    if (wanted->step)
      l->packed += rounded(about->bytes);
    else
      l->raw += about->bytes;
  }
  context->held.data[context->held.len++] = weight;
  context->weight_bytes += about->bytes;
  *out_weight = weight;
  return CV_OK;
}

static cv_status need_raw(loading *l, const cpu_runner *runner, uint32_t value) {
  if (value == CV_NONE || runner->program->values[value].kind != CV_VALUE_CONST) return CV_OK;
  const cv_const *constant = &runner->program->consts[runner->program->values[value].source];
  cpu_weight *weight;
  return need(l, &(fresh){.runner = runner},
              &(cpu_weight){.owner = constant, .bytes = constant->bytes}, &weight);
}

static cv_status need_step(loading *l, const cpu_runner *runner, cpu_step *step) {
  const cv_rendering *rendering = step->rendering;
  for (uint32_t i = 0; i < step->step->n_ins; i++) {
    if (step->kernel && !rendering->reads_raw[i]) continue;
    cv_status status = need_raw(l, runner, step->step->ins[i]);
    if (status != CV_OK) return status;
  }
  for (uint32_t p = 0; step->kernel && p < rendering->n_packs; p++) {
    int64_t bytes;
    cv_status status =
        cv_expr_eval(runner->program->exprs, rendering->packs[p].bytes, l->symbols, &bytes);
    if (status != CV_OK || bytes < 0 || !step->kernel->pack)
      return cv_error(CV_CORRUPT, "step %s: packed weight %" PRIu32 " has no size or no maker",
                      step->step->name, p);
    cpu_weight *weight;
    status = need(l, &(fresh){.runner = runner, .step = step},
                  &(cpu_weight){.owner = rendering, .which = p, .bytes = (uint64_t)bytes}, &weight);
    if (status != CV_OK) return status;
    step->packs[p] = weight; /* its data, once it is packed */
  }
  return CV_OK;
}

/* Packs one weight into its place. */
static cv_status pack(loading *l, const fresh *item, void *out) {
  const cpu_context *context = l->context;
  const cpu_step *step = item->step;
  const cv_program *program = item->runner->program;
  const cv_rendering *rendering = step->rendering;
  cv_status status = CV_OK;
  void **ptrs = cv_alloc(step->step->n_ins + 1u, sizeof *ptrs);
  int64_t *dims = cv_alloc(rendering->n_dims + 1u, sizeof *dims);
  if (!ptrs || !dims) CV_TRY(cv_error_nomem(rendering->n_dims * sizeof *dims));
  for (uint32_t i = 0; i < step->step->n_ins; i++) {
    const cv_value *value = &program->values[step->step->ins[i]];
    if (value->kind != CV_VALUE_CONST) continue;
    ptrs[i] = (void *)(uintptr_t)program->consts[value->source].data;
    CV_TRY(cv_artifact_check_const(context->artifact, value->source));
  }
  for (uint32_t d = 0; d < rendering->n_dims; d++) /* those of weights are constant */
    if (cv_expr_eval(program->exprs, rendering->dims[d], l->symbols, &dims[d]) != CV_OK)
      dims[d] = 0;
  if (step->kernel->pack((int)item->weight->which, ptrs, dims, out) != 0)
    CV_TRY(cv_error(CV_INVALID, "step %s: its weights cannot be packed", step->step->name));
  item->weight->data = out;
out:
  cv_free(ptrs);
  cv_free(dims);
  return status;
}

static cv_status make_slab(uint64_t bytes, cpu_slab **out_slab) {
  *out_slab = cv_alloc(1, sizeof **out_slab);
  if (!*out_slab) return cv_error_nomem(sizeof **out_slab);
  cv_status status = cpu_region_alloc(bytes, &(*out_slab)->region);
  if (status == CV_OK) return CV_OK;
  cv_free(*out_slab);
  *out_slab = NULL;
  return status;
}

/* Pays for the fresh weights and makes them. After a failure each still owns what it got. */
static cv_status make_fresh(loading *l) {
  cpu_context *context = l->context;
  cv_status status = cpu_reserve(context->device, l->packed + l->raw, "loading the weights");
  bool reserved = status == CV_OK;
  cpu_slab *slab = NULL;
  if (status == CV_OK && l->packed) status = make_slab(l->packed, &slab);
  uint64_t offset = 0;
  for (size_t i = 0; i < l->fresh.len; i++) {
    const fresh *item = &l->fresh.data[i];
    cpu_weight *weight = item->weight;
    if (item->step) weight->bytes = rounded(weight->bytes);
    if (!reserved) weight->bytes = 0; /* what is released gives back nothing */
    if (item->step && slab) {
      weight->slab = slab;
      slab->weights++;
      if (status == CV_OK) status = pack(l, item, (char *)slab->region.base + offset);
      offset += weight->bytes;
    } else if (!item->step && status == CV_OK) {
      const cv_const *constant = weight->owner;
      weight->data = constant->data;
      status = cv_artifact_check_const(
          context->artifact, (uint32_t)(constant - cv_artifact_program(context->artifact)->consts));
    }
  }
  return status;
}

/* Puts the fresh ones where other slices find them. */
static cv_status publish(loading *l) {
  cpu_device *device = l->context->device;
  cv_status status = CV_OK;
  pthread_mutex_lock(&device->lock);
  if (cv_vec_reserve(&device->weights, l->fresh.len))
    for (size_t i = 0; i < l->fresh.len; i++)
      device->weights.data[device->weights.len++] = l->fresh.data[i].weight;
  else
    status = cv_error_nomem(l->fresh.len * sizeof(cpu_weight *));
  pthread_mutex_unlock(&device->lock);
  return status;
}

/* Raw bytes that were only read to be packed need not stay in memory. */
static void release_raw(const loading *l) {
  const cv_program *outer = cv_artifact_program(l->context->artifact);
  for (size_t i = 0; i < l->fresh.len; i++) {
    const fresh *item = &l->fresh.data[i];
    for (uint32_t k = 0; item->step && k < item->step->step->n_ins; k++) {
      const cv_value *value = &item->runner->program->values[item->step->step->ins[k]];
      if (value->kind != CV_VALUE_CONST) continue;
      if (!cpu_weights_const(l->context, &outer->consts[value->source]))
        cv_artifact_release_const(l->context->artifact, value->source);
    }
  }
}

/* Hands the finished weights to the runners. */
static void connect(const cpu_context *context, cpu_runner *runner) {
  for (uint32_t s = 0; s < runner->n_steps; s++) {
    cpu_step *step = &runner->steps[s];
    for (uint32_t p = 0; step->kernel && p < step->rendering->n_packs; p++)
      step->packs[p] = ((const cpu_weight *)step->packs[p])->data;
  }
  for (uint32_t v = 0; v < runner->program->n_values; v++) {
    const cv_value *value = &runner->program->values[v];
    if (value->kind == CV_VALUE_CONST)
      runner->at[v] =
          (void *)(uintptr_t)cpu_weights_const(context, &runner->program->consts[value->source]);
  }
}

cv_status cpu_weights_load(cpu_context *context, cpu_runner *const *runners, uint32_t n_runners) {
  cv_status status = CV_OK;
  loading l = {.context = context};
  uint32_t n_syms = cv_exprs_symbols(cv_artifact_program(context->artifact)->exprs);
  l.symbols = cv_alloc(n_syms + 1u, sizeof *l.symbols);
  if (!l.symbols) CV_TRY(cv_error_nomem(n_syms * sizeof *l.symbols));
  for (uint32_t i = 0; i < n_syms; i++) l.symbols[i] = CV_UNBOUND;
  for (uint32_t r = 0; r < n_runners && status == CV_OK; r++) {
    cpu_runner *runner = runners[r];
    for (uint32_t s = 0; s < runner->n_steps && status == CV_OK; s++)
      status = need_step(&l, runner, &runner->steps[s]);
    for (uint32_t o = 0; o < runner->n_outs && status == CV_OK; o++)
      status = need_raw(&l, runner, runner->outs[o]);
  }
  if (status != CV_OK) {
    for (size_t i = 0; i < l.fresh.len; i++) l.fresh.data[i].weight->bytes = 0;
    goto out;
  }
  CV_TRY(make_fresh(&l));
  CV_TRY(publish(&l));
  release_raw(&l);
  for (uint32_t r = 0; r < n_runners; r++) connect(context, runners[r]);
out:
  if (status != CV_OK) cpu_weights_release(context);
  cv_vec_deinit(&l.fresh);
  cv_free(l.symbols);
  return status;
}

/* With the device's lock held. */
static void drop(cpu_device *device, cpu_weight *weight) {
  for (size_t i = 0; i < device->weights.len; i++) {
    if (device->weights.data[i] != weight) continue;
    device->weights.data[i] = device->weights.data[--device->weights.len];
    break;
  }
  device->used -= weight->bytes;
  cpu_slab *slab = weight->slab;
  if (slab && --slab->weights == 0) {
    cpu_region_free(&slab->region);
    cv_free(slab);
  } else if (slab && slab->region.mapped && weight->data) {
    uintptr_t begin = ((uintptr_t)weight->data + 4095) & ~(uintptr_t)4095;
    uintptr_t end = ((uintptr_t)weight->data + weight->bytes) & ~(uintptr_t)4095;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
  }
  cv_free(weight);
}

void cpu_weights_release(cpu_context *context) {
  cpu_device *device = context->device;
  pthread_mutex_lock(&device->lock);
  for (size_t i = 0; i < context->held.len; i++)
    if (--context->held.data[i]->refs == 0) drop(device, context->held.data[i]);
  pthread_mutex_unlock(&device->lock);
  cv_vec_deinit(&context->held);
  context->weight_bytes = 0;
}

const void *cpu_weights_const(const cpu_context *context, const cv_const *constant) {
  const cpu_weight *weight = find(context->held.data, context->held.len, constant, 0);
  return weight ? weight->data : NULL;
}
