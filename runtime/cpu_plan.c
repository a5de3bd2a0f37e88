/* Plans a segment for the values of its symbols: what runs, where results lie. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/cpu_internal.h"

enum { NEVER = UINT32_MAX, ALIGN = 64 };

/* Below these a step is done before another thread has woken up. */
enum { WIDE_FLOPS = 200000, WIDE_BYTES = 256 << 10 };

/* ---- the arena: holes by best fit ---- */

typedef struct {
  cpu_hole *holes; /* by offset; room for one more than values live at once */
  uint32_t n;
  uint64_t top, most;
} arena_plan;

static uint64_t rounded(uint64_t bytes) {
  return bytes ? (bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1) : ALIGN;
}

static void remove_hole(arena_plan *a, uint32_t i) {
  memmove(&a->holes[i], &a->holes[i + 1], (a->n - i - 1) * sizeof *a->holes);
  a->n--;
}

static uint64_t take(arena_plan *a, uint64_t bytes) {
  uint32_t best = NEVER;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->holes[i].bytes >= bytes && (best == NEVER || a->holes[i].bytes < a->holes[best].bytes))
      best = i;
  if (best == NEVER) { /* on top; a hole that ends there is used up */
    uint64_t offset = a->top;
    if (a->n && a->holes[a->n - 1].offset + a->holes[a->n - 1].bytes == a->top)
      offset = a->holes[--a->n].offset;
    a->top = offset + bytes;
    if (a->top > a->most) a->most = a->top;
    return offset;
  }
  uint64_t offset = a->holes[best].offset;
  a->holes[best].offset += bytes;
  a->holes[best].bytes -= bytes;
  if (!a->holes[best].bytes) remove_hole(a, best);
  return offset;
}

static void give_back(arena_plan *a, uint64_t offset, uint64_t bytes) {
  uint32_t i = 0;
  while (i < a->n && a->holes[i].offset < offset) i++;
  bool joins_before = i > 0 && a->holes[i - 1].offset + a->holes[i - 1].bytes == offset;
  bool joins_after = i < a->n && offset + bytes == a->holes[i].offset;
  if (joins_before) {
    a->holes[i - 1].bytes += bytes;
    if (joins_after) {
      a->holes[i - 1].bytes += a->holes[i].bytes;
      remove_hole(a, i);
    }
  } else if (joins_after) {
    a->holes[i].offset = offset;
    a->holes[i].bytes += bytes;
  } else {
    memmove(&a->holes[i + 1], &a->holes[i], (a->n - i) * sizeof *a->holes);
    a->holes[i] = (cpu_hole){.offset = offset, .bytes = bytes};
    a->n++;
  }
}

/* ---- values ---- */

typedef struct {
  cpu_runner *runner;
  cpu_segment *segment;
  const int64_t *symbols;
  cpu_plan *plan;
} planner;

static cv_status eval(const planner *p, cv_expr e, int64_t *out_number) {
  return cv_expr_eval(p->runner->program->exprs, e, p->symbols, out_number);
}

static cv_status value_bytes(const planner *p, uint32_t v, uint64_t *out_bytes) {
  cv_tensor tensor;
  cv_status status = cpu_describe(p->runner->program, v, p->symbols, &tensor);
  *out_bytes = tensor.bytes;
  return status;
}

/* A value from outside of the segment stands for itself. */
static cv_status see_input(const planner *p, uint32_t v) {
  cpu_spot *spot = &p->runner->spots[v];
  const cv_value *value = &p->runner->program->values[v];
  if (spot->made) return CV_OK;
  int64_t present = 1;
  cv_status status = value->kind == CV_VALUE_CONST ? CV_OK : eval(p, value->guard, &present);
  *spot = (cpu_spot){.root = v, .last = NEVER, .kind = CPU_SAME, .present = present != 0};
  return status;
}

/* Output 0 of an alias shares the memory of its first present input. */
static cv_status see_alias(const planner *p, const cv_step *step) {
  cpu_spot *spots = p->runner->spots, *spot = &spots[step->outs[0]];
  const cv_value *values = p->runner->program->values;
  uint32_t from = 0;
  while (from < step->n_ins && !spots[step->ins[from]].present) from++;
  if (from == step->n_ins)
    return cv_error(CV_INVALID, "step %s: none of its inputs is there", step->name);
  uint32_t root = spots[step->ins[from]].root;
  uint64_t bytes;
  cv_status status = value_bytes(p, step->ins[from], &bytes);
  if (status != CV_OK) return status;
  if (bytes != spot->bytes)
    return cv_error(CV_INVALID,
                    "step %s: %s has %" PRIu64 " bytes and cannot become %s with %" PRIu64
                    ": the shapes of the inputs do not fit the model",
                    step->name, values[step->ins[from]].name, bytes, values[step->outs[0]].name,
                    spot->bytes);
  spot->root = root;
  if (spots[root].made && spot->last > spots[root].last) spots[root].last = spot->last;
  return CV_OK;
}

static cv_status see_step(const planner *p, uint32_t s) {
  const cv_step *step = p->runner->steps[s].step;
  cpu_spot *spots = p->runner->spots;
  int64_t active;
  cv_status status = eval(p, step->guard, &active);
  for (uint32_t i = 0; i < step->n_ins && status == CV_OK; i++) status = see_input(p, step->ins[i]);
  for (uint32_t i = 0; i < step->n_outs && status == CV_OK; i++) {
    uint32_t v = step->outs[i];
    spots[v] = (cpu_spot){.root = v,
                          .last = p->runner->values[v].last,
                          .kind = active ? CPU_ARENA : CPU_ABSENT,
                          .present = active != 0,
                          .made = true};
    if (active) status = value_bytes(p, v, &spots[v].bytes);
  }
  if (status == CV_OK && active && step->kind == CV_STEP_ALIAS) status = see_alias(p, step);
  return status;
}

/* Results that a step of this segment can write in place; the others are copied. */
static void see_results(const planner *p) {
  const cpu_runner *runner = p->runner;
  uint32_t number = (uint32_t)(p->segment - runner->segments);
  for (uint32_t o = 0; o < runner->n_outs; o++) {
    uint32_t v = runner->outs[o];
    if (runner->values[v].segment != number) continue;
    const cv_value *value = &runner->program->values[v];
    cpu_result *result = &p->plan->results[p->plan->n_results++];
    *result = (cpu_result){.out = o, .copied = true};
    result->tensor = (cv_tensor){.dtype = value->dtype, .rank = value->rank};
    if (!runner->spots[v].present) {
      result->tensor.absent = true;
      continue;
    }
    /* the dims were evaluated for the value's bytes: they cannot fail now */
    (void)!cpu_describe(runner->program, v, p->symbols, &result->tensor);
    cpu_spot *root = &runner->spots[runner->spots[v].root];
    if (root->kind != CPU_ARENA || !root->made) continue;
    root->kind = CPU_OUT;
    root->where = o;
    result->copied = false;
  }
}

/* Gives back what is read for the last time by step s. */
static void end_lives(const planner *p, arena_plan *arena, uint32_t s, const uint32_t *values,
                      uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    cpu_spot *root = &p->runner->spots[p->runner->spots[values[i]].root];
    if (!root->made || root->kind != CPU_ARENA || root->last != s) continue;
    give_back(arena, root->where, rounded(root->bytes));
    root->last = NEVER; /* once */
  }
}

static cv_status place_values(const planner *p) {
  arena_plan arena = {.holes = p->runner->holes};
  for (uint32_t s = p->segment->first; s <= p->segment->last; s++) {
    const cv_step *step = p->runner->steps[s].step;
    for (uint32_t i = 0; i < step->n_outs; i++) {
      cpu_spot *spot = &p->runner->spots[step->outs[i]];
      if (spot->kind != CPU_ARENA || spot->root != step->outs[i]) continue;
      if (spot->bytes > INT64_MAX / 2 || arena.top > INT64_MAX / 2)
        return cv_error(CV_INVALID, "step %s: its results are too large", step->name);
      spot->where = take(&arena, rounded(spot->bytes));
    }
    end_lives(p, &arena, s, step->ins, step->n_ins);
    end_lives(p, &arena, s, step->outs, step->n_outs);
  }
  p->plan->arena_bytes = arena.most;
  return CV_OK;
}

/* ---- tables ---- */

static void point(const planner *p, void **slot, uint32_t v) {
  const cpu_runner *runner = p->runner;
  const cpu_spot *spot = &runner->spots[v], *root = &runner->spots[spot->root];
  *slot = NULL;
  if (!spot->present) return;
  if (runner->program->values[spot->root].kind == CV_VALUE_CONST)
    *slot = runner->at[spot->root];
  else if (root->made && root->kind == CPU_ARENA)
    p->plan->fixups[p->plan->n_fixups++] = (cpu_fixup){.slot = slot, .offset = root->where};
  else
    p->plan->patches[p->plan->n_patches++] = (cpu_patch){.slot = slot, .value = spot->root};
}

/* at[] of the values that are read behind the segment, or through at[] in it. */
static void export_values(const planner *p) {
  const cpu_runner *runner = p->runner;
  for (uint32_t s = p->segment->first; s <= p->segment->last; s++) {
    const cv_step *step = runner->steps[s].step;
    for (uint32_t i = 0; i < step->n_outs; i++) {
      uint32_t v = step->outs[i];
      const cpu_spot *spot = &runner->spots[v], *root = &runner->spots[spot->root];
      if (runner->values[v].last != UINT32_MAX && spot->kind != CPU_OUT) continue;
      cpu_export *export_ = &p->plan->exports[p->plan->n_exports++];
      *export_ = (cpu_export){.value = v, .kind = CPU_ABSENT};
      if (!spot->present) continue;
      export_->kind = root->made ? root->kind : CPU_SAME;
      export_->where = root->made ? root->where : spot->root;
    }
  }
}

/* Names what the step depends on: the symbols with a value. */
static cv_status refuse_shapes(const planner *p, const cv_step *step) {
  const cv_exprs *exprs = p->runner->program->exprs;
  char text[256] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < cv_exprs_symbols(exprs) && used < sizeof text; i++)
    if (p->symbols[i] != CV_UNBOUND)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%s = %lld", used ? ", " : "",
                               cv_symbol_name(exprs, i), (long long)p->symbols[i]);
  return cv_error(CV_INVALID,
                  "step %s: the model cannot compute these shapes (%s): give other sizes",
                  step->name, text);
}

static cv_status plan_kernel(const planner *p, const cpu_step *step, cpu_call *call) {
  const cv_rendering *rendering = step->rendering;
  for (uint32_t d = 0; d < rendering->n_dims; d++) {
    cv_status status = eval(p, rendering->dims[d], &call->dims[d]);
    if (status != CV_OK) return status;
  }
  if (step->kernel->prepare(call->dims, &call->plan) != 0) return refuse_shapes(p, step->step);
  const cv_kernel_plan *plan = &call->plan;
  if (plan->phases < 0 || plan->phases > CV_KERNEL_MAX_PHASES || plan->scratch_thread < 0 ||
      plan->scratch_shared < 0)
    return cv_error(CV_INVALID, "step %s: its kernel gives an impossible plan", step->step->name);
  uint64_t thread = (uint64_t)plan->scratch_thread, shared = (uint64_t)plan->scratch_shared;
  if (thread > p->plan->scratch_thread) p->plan->scratch_thread = rounded(thread);
  if (shared > p->plan->scratch_shared) p->plan->scratch_shared = rounded(shared);
  return CV_OK;
}

/* True if the step's work is worth waking the other threads. */
static bool is_wide(const planner *p, const cv_step *step) {
  int64_t flops = 0;
  uint64_t bytes = 0;
  if (p->runner->context->device->threads == 1) return false;
  if (step->flops != CV_EXPR_NONE && eval(p, step->flops, &flops) != CV_OK) flops = 0;
  for (uint32_t i = 0; i < step->n_outs; i++) bytes += p->runner->spots[step->outs[i]].bytes;
  return flops >= WIDE_FLOPS || bytes >= WIDE_BYTES;
}

/* True if no result has an element: such a call has no phases. */
static bool makes_nothing(const planner *p, const cv_step *step) {
  for (uint32_t i = 0; i < step->n_outs; i++)
    if (p->runner->spots[step->outs[i]].bytes) return false;
  return true;
}

static cv_status plan_calls(const planner *p) {
  cpu_plan *plan = p->plan;
  void **ptrs = plan->ptrs;
  int64_t *dims = plan->dims;
  for (uint32_t s = p->segment->first; s <= p->segment->last; s++) {
    const cpu_step *step = &p->runner->steps[s];
    const cv_step *about = step->step;
    if (about->n_outs && !p->runner->spots[about->outs[0]].present) continue;
    cpu_call *call = &plan->calls[plan->n_calls++];
    *call = (cpu_call){.kernel = step->kernel, .ptrs = ptrs, .dims = dims, .step = s};
    for (uint32_t i = 0; i < about->n_ins; i++) point(p, ptrs++, about->ins[i]);
    for (uint32_t i = 0; i < about->n_outs; i++) point(p, ptrs++, about->outs[i]);
    if (step->kernel) {
      for (uint32_t i = 0; i < step->rendering->n_packs; i++)
        *ptrs++ = (void *)(uintptr_t)step->packs[i];
      dims += step->rendering->n_dims;
      call->wide = is_wide(p, about);
      cv_status status = makes_nothing(p, about) ? CV_OK : plan_kernel(p, step, call);
      if (status != CV_OK) return status;
    }
    for (uint32_t i = 0; i < about->n_binds; i++) point(p, ptrs++, about->binds[i].value);
  }
  return CV_OK;
}

static cv_status fill(const planner *p) {
  cpu_plan *plan = p->plan;
  cv_status status = CV_OK;
  plan->n_calls = plan->n_fixups = plan->n_patches = plan->n_exports = plan->n_results = 0;
  plan->scratch_thread = plan->scratch_shared = 0;
  plan->arena_base = NULL;
  for (uint32_t s = p->segment->first; s <= p->segment->last; s++) {
    const cv_step *step = p->runner->steps[s].step;
    for (uint32_t i = 0; i < step->n_ins; i++) /* those of the plan before are not this one's */
      p->runner->spots[step->ins[i]].made = false;
  }
  for (uint32_t s = p->segment->first; s <= p->segment->last && status == CV_OK; s++)
    status = cv_error_context(see_step(p, s), "planning step %s", p->runner->steps[s].step->name);
  if (status != CV_OK) return status;
  see_results(p);
  status = place_values(p);
  if (status != CV_OK) return status;
  export_values(p);
  return plan_calls(p);
}

/* ---- the plans that are kept ---- */

/* A plan and its tables in one piece of memory. */
static cpu_plan *make_plan(const cpu_segment *segment) {
  size_t steps = segment->last - segment->first + 1, ptrs = segment->n_ptrs;
  size_t bytes[] = {sizeof(cpu_plan),
                    segment->n_syms * sizeof(int64_t),
                    steps * sizeof(cpu_call),
                    ptrs * sizeof(cpu_fixup),
                    ptrs * sizeof(cpu_patch),
                    segment->n_made * sizeof(cpu_export),
                    segment->n_outs * sizeof(cpu_result),
                    ptrs * sizeof(void *),
                    segment->n_dims * sizeof(int64_t)};
  void *parts[sizeof bytes / sizeof *bytes];
  size_t total = 0;
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) total += (bytes[i] + 15) & ~(size_t)15;
  char *at = cv_alloc(1, total);
  if (!at) return NULL;
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
    parts[i] = at;
    at += (bytes[i] + 15) & ~(size_t)15;
  }
  cpu_plan *plan = parts[0];
  *plan = (cpu_plan){.key = parts[1],
                     .calls = parts[2],
                     .fixups = parts[3],
                     .patches = parts[4],
                     .exports = parts[5],
                     .results = parts[6],
                     .ptrs = parts[7],
                     .dims = parts[8]};
  return plan;
}

/* A free place among the kept plans, else the one whose last use is longest ago. */
static cpu_plan *choose(cpu_segment *segment) {
  cpu_plan *oldest = segment->plans[0];
  for (int i = 0; i < CPU_PLANS; i++) {
    if (!segment->plans[i]) return segment->plans[i] = make_plan(segment);
    if (segment->plans[i]->used_at < oldest->used_at) oldest = segment->plans[i];
  }
  return oldest;
}

static bool fits(const cpu_plan *plan, const int64_t *key, uint32_t n) {
  return plan && plan->valid && memcmp(plan->key, key, n * sizeof *key) == 0;
}

cv_status cpu_plan_get(cpu_runner *runner, cpu_segment *segment, const int64_t *symbols,
                       cpu_plan **out_plan) {
  uint32_t n = segment->n_syms;
  int64_t *key = runner->key;
  for (uint32_t i = 0; i < n; i++) key[i] = symbols[segment->syms[i]];
  cpu_plan *plan = segment->recent;
  for (int i = 0; i < CPU_PLANS && !fits(plan, key, n); i++) plan = segment->plans[i];
  *out_plan = NULL;
  if (!fits(plan, key, n)) {
    plan = choose(segment);
    if (!plan) return cv_error_nomem(segment->n_ptrs * sizeof(void *));
    plan->valid = false;
    planner p = {.runner = runner, .segment = segment, .symbols = symbols, .plan = plan};
    cv_status status = fill(&p);
    if (status != CV_OK) return status;
    memcpy(plan->key, key, n * sizeof *key);
    plan->valid = true;
  }
  plan->used_at = ++runner->uses;
  segment->recent = plan;
  *out_plan = plan;
  return CV_OK;
}
