#include "coordinator/plan_program.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

/* The roofline where nothing was measured: one core's arithmetic and memory, and the cost of
 * starting a step. */
static const double ROOF_FLOPS_PER_US = 40e3, ROOF_BYTES_PER_US = 8e3, ROOF_START_US = 1.0;
static const cv_plan_link LOOPBACK = {
    .bytes_per_us = 4000, .latency_us = 20, .send_us_per_byte = 0, .receive_us_per_byte = 0};

enum { TYPICAL_DIM = 128, SIZES = 2 };

typedef struct {
  const cv_program *program;
  const cv_plan_request *request;
  cv_arena arena;
  int64_t
      *symbols[SIZES]; /* for one item, and for two (equal where the program is not separable) */
  cv_plan_input input;
  bool estimated;
} builder;

void cv_plan_symbols(const cv_program *program, int64_t *out_symbols) {
  for (uint32_t i = 0; i < cv_exprs_symbols(program->exprs); i++) {
    int64_t lo, hi;
    cv_symbol_bounds(program->exprs, i, &lo, &hi);
    int64_t typical = lo > TYPICAL_DIM ? lo : TYPICAL_DIM;
    if (program->separable && i == program->batch) typical = lo > 1 ? lo : 1;
    out_symbols[i] = typical < hi ? typical : hi;
  }
}

/* e for one item and for two: the part that grows with the batch, and the rest. Values that do not
 * fit count as 0. */
static void split_linear(const builder *b, cv_expr e, double *out_fixed, double *out_per_item) {
  int64_t one = 0, two = 0;
  if (e == CV_EXPR_NONE || cv_expr_eval(b->program->exprs, e, b->symbols[0], &one) != CV_OK)
    one = 0;
  if (e == CV_EXPR_NONE || cv_expr_eval(b->program->exprs, e, b->symbols[1], &two) != CV_OK)
    two = one;
  *out_per_item = (double)(two - one);
  *out_fixed = (double)one - *out_per_item;
}

static void value_bytes(const builder *b, const cv_value *value, double *out_fixed,
                        double *out_per_item) {
  double bytes[SIZES];
  for (int s = 0; s < SIZES; s++) {
    bytes[s] = (double)cv_dtype_size(value->dtype);
    for (int d = 0; d < value->rank; d++) {
      int64_t extent = 0;
      if (cv_expr_eval(b->program->exprs, value->dims[d], b->symbols[s], &extent) != CV_OK)
        extent = 0;
      bytes[s] *= (double)extent;
    }
  }
  *out_per_item = bytes[1] - bytes[0];
  *out_fixed = bytes[0] - *out_per_item;
}

static bool reads(const cv_step *step, uint32_t value) {
  for (uint32_t i = 0; i < step->n_ins; i++)
    if (step->ins[i] == value) return true;
  return false;
}

static bool is_result(const cv_program *program, uint32_t value) {
  for (uint32_t i = 0; i < program->n_outputs; i++)
    if (program->outputs[i].value == value) return true;
  return false;
}

/* Steps that read a value, ascending; behind them the gateway (n_steps) where it is a result. */
static int *readers_of(builder *b, uint32_t value, bool results, int *out_count) {
  const cv_program *program = b->program;
  int count = 0;
  for (int pass = 0;; pass++) {
    int *list = pass ? cv_arena_array(&b->arena, int, (size_t)count + 1) : NULL;
    if (pass && !list) return NULL;
    count = 0;
    for (uint32_t s = 0; s < program->n_steps; s++) {
      if (!reads(&program->steps[s], value)) continue;
      if (list) list[count] = (int)s;
      count++;
    }
    if (results && is_result(program, value)) {
      if (list) list[count] = (int)program->n_steps;
      count++;
    }
    if (list) {
      *out_count = count;
      return list;
    }
  }
}

static cv_status add_values(builder *b) {
  const cv_program *program = b->program;
  cv_plan_value *values = cv_arena_array(&b->arena, cv_plan_value, program->n_values + 1);
  cv_plan_weight *weights = cv_arena_array(&b->arena, cv_plan_weight, program->n_values + 1);
  if (!values || !weights) return cv_error_nomem(program->n_values * sizeof *values);
  int n_values = 0, n_weights = 0;
  for (uint32_t v = 0; v < program->n_values; v++) {
    const cv_value *value = &program->values[v];
    int count = 0;
    int *readers = readers_of(b, v, value->kind != CV_VALUE_CONST, &count);
    if (!readers) return cv_error_nomem(sizeof *readers);
    if (value->kind == CV_VALUE_CONST) {
      weights[n_weights++] = (cv_plan_weight){
          .bytes = program->consts[value->source].bytes, .n_readers = count, .readers = readers};
      continue;
    }
    double fixed, per_item;
    value_bytes(b, value, &fixed, &per_item);
    if (fixed < 0) fixed = 0;
    if (per_item < 0) per_item = 0;
    values[n_values++] = (cv_plan_value){
        .producer = value->kind == CV_VALUE_INPUT ? CV_PLAN_GATEWAY : (int)value->source,
        .n_readers = count,
        .readers = readers,
        .bytes_fixed = (uint64_t)fixed,
        .bytes_per_item = (uint64_t)per_item};
  }
  b->input.values = values;
  b->input.n_values = n_values;
  b->input.weights = weights;
  b->input.n_weights = n_weights;
  return CV_OK;
}

/* Live bytes while a step runs, as its share of the arena. */
static cv_status add_buffers(builder *b) {
  const cv_program *program = b->program;
  uint64_t *fixed = cv_arena_array(&b->arena, uint64_t, program->n_steps);
  uint64_t *per_item = cv_arena_array(&b->arena, uint64_t, program->n_steps);
  uint8_t *legal = cv_arena_array(&b->arena, uint8_t, program->n_steps + 1);
  uint32_t *ids = cv_arena_array(&b->arena, uint32_t, program->n_values + 1);
  if (!fixed || !per_item || !legal || !ids)
    return cv_error_nomem(program->n_steps * sizeof *fixed);
  for (uint32_t s = 0; s < program->n_steps; s++) {
    double f = 0, p = 0;
    uint32_t count = cv_program_live(program, s, ids);
    for (uint32_t i = 0; i < count + program->steps[s].n_outs; i++) {
      uint32_t id = i < count ? ids[i] : program->steps[s].outs[i - count];
      double more_f, more_p;
      value_bytes(b, &program->values[id], &more_f, &more_p);
      f += more_f;
      p += more_p;
    }
    fixed[s] = f > 0 ? (uint64_t)f : 0;
    per_item[s] = p > 0 ? (uint64_t)p : 0;
    legal[s] = s > 0 && cv_program_cut_legal(program, s);
  }
  b->input.buffer_fixed = fixed;
  b->input.buffer_per_item = per_item;
  b->input.legal = legal;
  return CV_OK;
}

static double step_bytes(const builder *b, const cv_step *step, int items) {
  double total = 0;
  for (uint32_t i = 0; i < step->n_ins + step->n_outs; i++) {
    uint32_t id = i < step->n_ins ? step->ins[i] : step->outs[i - step->n_ins];
    if (id == CV_NONE) continue;
    double fixed, per_item;
    value_bytes(b, &b->program->values[id], &fixed, &per_item);
    total += fixed + per_item * items;
  }
  return total;
}

static void roofline(const builder *b, int items, double *step_us) {
  for (uint32_t s = 0; s < b->program->n_steps; s++) {
    const cv_step *step = &b->program->steps[s];
    if (step->kind == CV_STEP_ALIAS) {
      step_us[s] = 0;
      continue;
    }
    double fixed, per_item;
    split_linear(b, step->flops, &fixed, &per_item);
    double flops = fixed + per_item * items;
    step_us[s] = ROOF_START_US +
                 fmax(flops / ROOF_FLOPS_PER_US, step_bytes(b, step, items) / ROOF_BYTES_PER_US);
  }
}

/* A profile's time at a size: linear between the sizes measured, in proportion beyond them. */
static double profile_at(const cv_profile *profile, int step, int items) {
  int s = 0;
  while (s + 1 < profile->n_sizes && profile->sizes[s + 1] <= items) s++;
  const double *times = profile->step_us;
  double low = times[(size_t)s * (size_t)profile->n_steps + (size_t)step];
  if (s + 1 >= profile->n_sizes || items <= profile->sizes[s])
    return low * items / profile->sizes[s];
  double high = times[(size_t)(s + 1) * (size_t)profile->n_steps + (size_t)step];
  double share = (double)(items - profile->sizes[s]) / (profile->sizes[s + 1] - profile->sizes[s]);
  return low + (high - low) * share;
}

static cv_status add_kinds(builder *b) {
  const cv_plan_request *request = b->request;
  uint32_t n_steps = b->program->n_steps;
  cv_plan_kind *kinds = cv_arena_array(&b->arena, cv_plan_kind, (size_t)request->n_kinds);
  int *sizes = cv_arena_array(&b->arena, int, 1);
  if (!kinds || !sizes) return cv_error_nomem(sizeof *kinds);
  sizes[0] = request->micro_batch;
  for (int k = 0; k < request->n_kinds; k++) {
    double *step_us = cv_arena_array(&b->arena, double, n_steps);
    if (!step_us) return cv_error_nomem(n_steps * sizeof *step_us);
    const cv_profile *profile = request->profiles ? request->profiles[k] : NULL;
    if (profile) {
      for (uint32_t s = 0; s < n_steps; s++)
        step_us[s] = profile_at(profile, (int)s, request->micro_batch);
    } else {
      roofline(b, request->micro_batch, step_us);
      b->estimated = true;
    }
    kinds[k] = (cv_plan_kind){.name = request->kinds[k], .step_us = step_us};
  }
  b->input.kinds = kinds;
  b->input.n_kinds = request->n_kinds;
  b->input.sizes = sizes;
  b->input.n_sizes = 1;
  return CV_OK;
}

static cv_status add_links(builder *b) {
  const cv_plan_request *request = b->request;
  if (request->links) {
    b->input.links = request->links;
    return CV_OK;
  }
  size_t ends = (size_t)request->n_devices + 1;
  cv_plan_link *links = cv_arena_array(&b->arena, cv_plan_link, ends * ends);
  if (!links) return cv_error_nomem(ends * ends * sizeof *links);
  cv_plan_links_default(request->devices, request->n_devices, NULL, &LOOPBACK, &LOOPBACK, links);
  b->input.links = links;
  return CV_OK;
}

static cv_status build(builder *b) {
  const cv_program *program = b->program;
  const cv_plan_request *request = b->request;
  uint32_t n_symbols = cv_exprs_symbols(program->exprs);
  for (int s = 0; s < SIZES; s++) {
    b->symbols[s] = cv_arena_array(&b->arena, int64_t, n_symbols + 1);
    if (!b->symbols[s]) return cv_error_nomem(n_symbols * sizeof(int64_t));
    if (request->symbols)
      memcpy(b->symbols[s], request->symbols, n_symbols * sizeof(int64_t));
    else
      cv_plan_symbols(program, b->symbols[s]);
    if (program->separable && program->batch != CV_NONE) b->symbols[s][program->batch] = s + 1;
  }
  b->input = (cv_plan_input){.n_steps = (int)program->n_steps,
                             .devices = request->devices,
                             .n_devices = request->n_devices,
                             .artifact = program->hash,
                             .stages = request->stages,
                             .ordered = request->ordered,
                             .micro_batch = request->micro_batch,
                             .threads = request->threads};
  cv_status status = add_values(b);
  if (status == CV_OK) status = add_buffers(b);
  if (status == CV_OK) status = add_kinds(b);
  if (status == CV_OK) status = add_links(b);
  return status;
}

static cv_status add_origin(const builder *b, cv_plan *plan) {
  char *reason = cv_format(
      "%s%s", plan->reason ? plan->reason : "",
      b->estimated ? "; step times are estimated by a roofline; cuvil profile measures them" : "");
  if (!reason) {
    cv_plan_deinit(plan);
    return cv_error_nomem(1);
  }
  cv_free(plan->reason);
  plan->reason = reason;
  return CV_OK;
}

static cv_status check(const cv_plan_request *request) {
  if (request->micro_batch < 1 || request->threads < 1 || request->n_devices < 1)
    return cv_error(CV_INVALID, "micro-batch %d, threads %d, %d devices: each must be at least 1",
                    request->micro_batch, request->threads, request->n_devices);
  return CV_OK;
}

cv_status cv_plan_program(const cv_program *program, const cv_plan_request *request,
                          cv_plan *out_plan) {
  *out_plan = (cv_plan){0};
  cv_status status = check(request);
  if (status != CV_OK) return status;
  builder b = {.program = program, .request = request};
  status = build(&b);
  if (status == CV_OK) status = cv_partition(&b.input, out_plan);
  if (status == CV_OK) status = add_origin(&b, out_plan);
  cv_arena_deinit(&b.arena);
  return status;
}

cv_status cv_plan_program_predict(const cv_program *program, const cv_plan_request *request,
                                  int n_stages, const int *cuts, const int *devices,
                                  cv_plan *out_plan) {
  *out_plan = (cv_plan){0};
  cv_status status = check(request);
  if (status != CV_OK) return status;
  builder b = {.program = program, .request = request};
  status = build(&b);
  if (status == CV_OK) status = cv_plan_predict(&b.input, n_stages, cuts, devices, out_plan);
  if (status == CV_OK) status = add_origin(&b, out_plan);
  cv_arena_deinit(&b.arena);
  return status;
}

cv_status cv_plan_to_json(const cv_plan *plan, cv_plan_json *out_json) {
  *out_json = (cv_plan_json){.micro_batch = plan->micro_batch,
                             .threads = plan->threads,
                             .rate = plan->rate,
                             .latency_us = plan->latency_us,
                             .bottleneck_us = plan->bottleneck_us,
                             .bound_us = plan->bound_us};
  cv_status status = CV_OK;
  size_t count = (size_t)plan->n_stages;
  out_json->artifact = plan->artifact ? cv_strdup(plan->artifact) : NULL;
  out_json->reason = plan->reason ? cv_strdup(plan->reason) : NULL;
  out_json->stages = cv_alloc(count, sizeof *out_json->stages);
  if (!out_json->stages || (plan->artifact && !out_json->artifact) ||
      (plan->reason && !out_json->reason)) {
    status = cv_error_nomem(count * sizeof *out_json->stages);
    goto out;
  }
  out_json->n_stages = (uint32_t)count;
  for (size_t i = 0; i < count; i++) {
    const cv_plan_stage *from = &plan->stages[i];
    cv_plan_json_stage *to = &out_json->stages[i];
    *to = (cv_plan_json_stage){.first = (uint32_t)from->first,
                               .last = (uint32_t)from->last,
                               .n_devices = 1,
                               .predicted_us = from->us};
    to->devices = cv_alloc(1, sizeof *to->devices);
    to->weights = cv_alloc(1, sizeof *to->weights);
    if (to->devices) to->devices[0] = cv_strdup(from->device);
    if (to->weights) to->weights[0] = 1;
    if (!to->devices || !to->devices[0] || !to->weights) {
      status = cv_error_nomem(sizeof *to);
      goto out;
    }
  }
out:
  if (status != CV_OK) cv_plan_json_deinit(out_json);
  return status;
}
