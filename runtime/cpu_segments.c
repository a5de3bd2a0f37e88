/* Splits a runner's steps in segments: see cpu_internal.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "runtime/cpu_internal.h"

typedef bool (*visit)(void *context, cv_expr e);

static bool visit_value(const cv_value *value, visit see, void *context) {
  if (see(context, value->guard)) return true;
  for (int d = 0; d < value->rank; d++)
    if (see(context, value->dims[d])) return true;
  return false;
}

/* Shows `see` each expression that planning step `s` evaluates; true as soon as it says true. */
static bool visit_step(const cpu_runner *runner, uint32_t s, visit see, void *context) {
  const cpu_step *step = &runner->steps[s];
  const cv_value *values = runner->program->values;
  if (see(context, step->step->guard)) return true;
  for (uint32_t i = 0; i < step->step->n_outs; i++)
    if (visit_value(&values[step->step->outs[i]], see, context)) return true;
  for (uint32_t i = 0; i < step->step->n_ins; i++)
    if (step->step->ins[i] != CV_NONE && visit_value(&values[step->step->ins[i]], see, context))
      return true;
  for (uint32_t d = 0; step->rendering && d < step->rendering->n_dims; d++)
    if (see(context, step->rendering->dims[d])) return true;
  return step->step->flops != CV_EXPR_NONE && see(context, step->step->flops);
}

/* ---- where segments begin ---- */

typedef struct {
  const cv_exprs *pool;
  cv_vec(cv_sym) bound; /* by steps of the segment so far */
} boundary;

static bool uses_bound(void *context, cv_expr e) {
  const boundary *b = context;
  for (size_t i = 0; i < b->bound.len; i++)
    if (cv_expr_uses(b->pool, e, b->bound.data[i])) return true;
  return false;
}

static bool add_bound(boundary *b, const cv_step *step) {
  for (uint32_t i = 0; i < step->n_binds; i++)
    if (!cv_vec_push(&b->bound, step->binds[i].sym)) return false;
  return true;
}

/* Sets `begins` where a segment begins. A loop stands alone. */
static cv_status find_boundaries(const cpu_runner *runner, bool *begins) {
  cv_status status = CV_OK;
  boundary b = {.pool = runner->program->exprs};
  bool after_loop = true;
  for (uint32_t s = 0; s < runner->n_steps; s++) {
    const cpu_step *step = &runner->steps[s];
    bool loop = step->step->kind == CV_STEP_LOOP;
    begins[s] = after_loop || loop || visit_step(runner, s, uses_bound, &b);
    if (begins[s]) b.bound.len = 0;
    if (!add_bound(&b, step->step)) CV_TRY(cv_error_nomem(sizeof(cv_sym)));
    after_loop = loop;
  }
out:
  cv_vec_deinit(&b.bound);
  return status;
}

/* ---- the symbols that a segment reads ---- */

typedef struct {
  const cv_exprs *pool;
  bool *used;  /* by symbol */
  cv_map seen; /* expressions */
  bool failed;
} collector;

static bool collect(void *context, cv_expr e) {
  collector *c = context;
  int64_t number;
  uint64_t found;
  if (e == CV_EXPR_NONE || cv_expr_is_const(c->pool, e, &number)) return false;
  if (cv_map_get(&c->seen, &e, sizeof e, &found)) return false;
  if (!cv_map_put(&c->seen, &e, sizeof e, 1)) c->failed = true;
  for (cv_sym sym = 0; sym < cv_exprs_symbols(c->pool); sym++)
    if (!c->used[sym] && cv_expr_uses(c->pool, e, sym)) c->used[sym] = true;
  return false;
}

static cv_status collect_symbols(cpu_runner *runner, cpu_segment *segment) {
  cv_status status = CV_OK;
  collector c = {.pool = runner->program->exprs};
  uint32_t n_syms = cv_exprs_symbols(c.pool);
  c.used = cv_alloc(n_syms + 1u, sizeof *c.used);
  if (!c.used) CV_TRY(cv_error_nomem(n_syms));
  for (uint32_t s = segment->first; s <= segment->last; s++) visit_step(runner, s, collect, &c);
  if (c.failed) CV_TRY(cv_error_nomem(n_syms));
  for (cv_sym sym = 0; sym < n_syms; sym++) segment->n_syms += c.used[sym];
  segment->syms = cv_arena_array(&runner->arena, cv_sym, segment->n_syms + 1u);
  if (!segment->syms) CV_TRY(cv_error_nomem(n_syms));
  for (cv_sym sym = 0, n = 0; sym < n_syms; sym++)
    if (c.used[sym]) segment->syms[n++] = sym;
out:
  cv_map_deinit(&c.seen);
  cv_free(c.used);
  return status;
}

/* ---- room and lives ---- */

static void count_room(cpu_runner *runner, cpu_segment *segment) {
  uint32_t number = (uint32_t)(segment - runner->segments);
  for (uint32_t s = segment->first; s <= segment->last; s++) {
    const cv_step *step = runner->steps[s].step;
    const cv_rendering *rendering = runner->steps[s].rendering;
    segment->n_ptrs += step->n_ins + step->n_outs + step->n_binds;
    if (rendering) {
      segment->n_ptrs += rendering->n_packs;
      segment->n_dims += rendering->n_dims;
    }
    segment->n_made += step->n_outs;
    for (uint32_t i = 0; i < step->n_outs; i++) runner->values[step->outs[i]].segment = number;
  }
  for (uint32_t o = 0; o < runner->n_outs; o++)
    segment->n_outs += runner->values[runner->outs[o]].segment == number;
}

static void find_lives(cpu_runner *runner) {
  for (uint32_t g = 0; g < runner->n_segments; g++)
    for (uint32_t s = runner->segments[g].first; s <= runner->segments[g].last; s++) {
      const cv_step *step = runner->steps[s].step;
      for (uint32_t i = 0; i < step->n_outs; i++) runner->values[step->outs[i]].last = s;
      for (uint32_t i = 0; i < step->n_ins; i++) {
        if (step->ins[i] == CV_NONE) continue;
        cpu_value *value = &runner->values[step->ins[i]];
        value->last = value->segment == g ? s : UINT32_MAX;
      }
    }
  for (uint32_t o = 0; o < runner->n_outs; o++) runner->values[runner->outs[o]].last = UINT32_MAX;
}

cv_status cpu_segments_make(cpu_runner *runner) {
  cv_status status = CV_OK;
  bool *begins = cv_alloc(runner->n_steps + 1u, sizeof *begins);
  uint32_t most = 0;
  if (!begins) CV_TRY(cv_error_nomem(runner->n_steps));
  CV_TRY(find_boundaries(runner, begins));
  uint32_t count = 0;
  for (uint32_t s = 0; s < runner->n_steps; s++) count += begins[s];
  runner->segments = cv_arena_array(&runner->arena, cpu_segment, count + 1u);
  if (!runner->segments) CV_TRY(cv_error_nomem(count * sizeof(cpu_segment)));
  for (uint32_t v = 0; v < runner->program->n_values; v++) runner->values[v].segment = UINT32_MAX;
  for (uint32_t s = 0; s < runner->n_steps; s++) {
    if (begins[s]) {
      runner->segments[runner->n_segments++] =
          (cpu_segment){.first = s, .loop = runner->steps[s].step->kind == CV_STEP_LOOP};
    }
    runner->segments[runner->n_segments - 1].last = s;
  }
  for (uint32_t g = 0; g < runner->n_segments; g++) {
    cpu_segment *segment = &runner->segments[g];
    CV_TRY(collect_symbols(runner, segment));
    count_room(runner, segment);
    if (segment->n_syms > most) most = segment->n_syms;
  }
  find_lives(runner);
  runner->key = cv_arena_array(&runner->arena, int64_t, most + 1u);
  if (!runner->key) CV_TRY(cv_error_nomem(most * sizeof(int64_t)));
out:
  cv_free(begins);
  return status;
}
