#include "runtime/program.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "runtime/tensor.h"

enum { MAX_LOOP_DEPTH = 16 };

cv_program *cv_program_create(cv_exprs *exprs, bool owns_exprs, bool may_die) {
  cv_program *program =
      may_die ? cv_alloc_or_die(1, sizeof *program) : cv_alloc(1, sizeof *program);
  if (!program) return NULL;
  program->arena.may_die = may_die;
  program->exprs = exprs;
  program->owns_exprs = owns_exprs;
  program->batch = CV_NONE;
  return program;
}

void cv_program_destroy(cv_program *program) {
  if (!program) return;
  for (uint32_t s = 0; program->steps && s < program->n_steps; s++)
    if (program->steps[s].loop) cv_program_destroy(program->steps[s].loop->body);
  if (program->owns_exprs && program->exprs) cv_exprs_destroy(program->exprs);
  cv_arena_deinit(&program->arena);
  cv_free(program);
}

/* Made before the step at `position`: an input, or the result of an earlier step. */
static bool made_before(const cv_value *value, uint32_t position) {
  return value->kind == CV_VALUE_INPUT ||
         (value->kind == CV_VALUE_STEP && value->source < position);
}

/* Sets marks[v] for the inputs of steps [first, last). */
static void mark_read(const cv_program *program, uint32_t first, uint32_t last, uint32_t *marks) {
  for (uint32_t s = first; s < last; s++)
    for (uint32_t i = 0; i < program->steps[s].n_ins; i++)
      if (program->steps[s].ins[i] != CV_NONE) marks[program->steps[s].ins[i]] = 1;
}

static void mark_results(const cv_program *program, uint32_t *marks) {
  for (uint32_t i = 0; i < program->n_outputs; i++) marks[program->outputs[i].value] = 1;
}

uint32_t cv_program_live(const cv_program *program, uint32_t position, uint32_t *out_ids) {
  memset(out_ids, 0, program->n_values * sizeof *out_ids);
  mark_read(program, position, program->n_steps, out_ids);
  mark_results(program, out_ids);
  uint32_t n = 0;
  for (uint32_t v = 0; v < program->n_values; v++) /* in place: n never passes v */
    if (out_ids[v] && made_before(&program->values[v], position)) out_ids[n++] = v;
  return n;
}

bool cv_program_cut_legal(const cv_program *program, uint32_t position) {
  if (position < 1 || position >= program->n_steps) return false;
  for (uint32_t s = position; s < program->n_steps; s++)
    for (uint32_t i = 0; i < program->steps[s].n_ins; i++) {
      if (program->steps[s].ins[i] == CV_NONE) continue;
      const cv_value *value = &program->values[program->steps[s].ins[i]];
      if (made_before(value, position) && !value->fixed_width) return false;
    }
  for (uint32_t i = 0; i < program->n_outputs; i++) {
    const cv_value *value = &program->values[program->outputs[i].value];
    if (made_before(value, position) && !value->fixed_width) return false;
  }
  return true;
}

void cv_program_slice_ports(const cv_program *program, uint32_t first, uint32_t last,
                            uint32_t *out_ins, uint32_t *out_n_ins, uint32_t *out_outs,
                            uint32_t *out_n_outs) {
  memset(out_ins, 0, program->n_values * sizeof *out_ins);
  memset(out_outs, 0, program->n_values * sizeof *out_outs);
  mark_read(program, first, last + 1, out_ins);
  mark_read(program, last + 1, program->n_steps, out_outs);
  for (uint32_t v = 0; v < program->n_values; v++) /* late inputs do not pass through here */
    if (program->values[v].kind != CV_VALUE_STEP) out_outs[v] = 0;
  for (uint32_t i = 0; i < program->n_outputs; i++) {
    uint32_t v = program->outputs[i].value;
    if (program->values[v].kind == CV_VALUE_STEP) out_outs[v] = 1;
    if (program->values[v].kind == CV_VALUE_INPUT && first == 0) out_ins[v] = out_outs[v] = 1;
  }
  uint32_t n_ins = 0, n_outs = 0;
  for (uint32_t v = 0; v < program->n_values; v++) { /* in place: the counts never pass v */
    const cv_value *value = &program->values[v];
    bool read = out_ins[v], wanted = out_outs[v];
    bool inside =
        value->kind == CV_VALUE_INPUT || (value->source >= first && value->source <= last);
    if (read && made_before(value, first)) out_ins[n_ins++] = v;
    if (wanted && inside) out_outs[n_outs++] = v;
  }
  *out_n_ins = n_ins;
  *out_n_outs = n_outs;
}

/* ---- verification ---- */

#define BAD(...) cv_error(CV_CORRUPT, "program: " __VA_ARGS__)

static bool known_pattern(const char *pattern) {
  static const char *const names[] = {"map", "row", "reduce", "contraction", "window", "routine"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(pattern, names[i]) == 0) return true;
  return false;
}

/* Puts a name in the map; says so if it is missing or there already. */
static cv_status check_name(cv_map *names, const char *name, const char *what, uint32_t i) {
  if (!name || !*name) return BAD("%s %" PRIu32 " has no name", what, i);
  uint64_t other;
  if (cv_map_get_str(names, name, &other))
    return BAD("%ss %" PRIu64 " and %" PRIu32 " are both named '%s'", what, other, i, name);
  return cv_map_put_str(names, name, i) ? CV_OK : cv_error_nomem(strlen(name));
}

static cv_status check_source(const cv_program *p, const cv_value *value) {
  uint32_t limit = 0;
  switch (value->kind) {
    case CV_VALUE_INPUT: limit = p->n_inputs; break;
    case CV_VALUE_CONST: limit = p->n_consts; break;
    case CV_VALUE_STEP: limit = p->n_steps; break;
    default: return BAD("value '%s' is of no known kind (%d)", value->name, (int)value->kind);
  }
  if (value->source >= limit)
    return BAD("value '%s' has source %" PRIu32 " of %" PRIu32, value->name, value->source, limit);
  return CV_OK;
}

static cv_status check_value(const cv_program *p, const cv_value *value) {
  if ((unsigned)value->dtype >= CV_DTYPE_COUNT)
    return BAD("value '%s' has no known dtype (%d)", value->name, (int)value->dtype);
  if (value->rank > CV_MAX_RANK)
    return BAD("value '%s' has rank %d, at most %d is known", value->name, value->rank,
               CV_MAX_RANK);
  if (value->guard == CV_EXPR_NONE) return BAD("value '%s' has no guard", value->name);
  for (int d = 0; d < value->rank; d++)
    if (value->dims[d] == CV_EXPR_NONE) return BAD("value '%s' lacks dim %d", value->name, d);
  cv_status status = check_source(p, value);
  if (status != CV_OK || value->kind != CV_VALUE_CONST) return status;
  const cv_const *constant = &p->consts[value->source];
  if (constant->dtype != value->dtype || constant->rank != value->rank)
    return BAD("value '%s' and its constant differ in type", value->name);
  for (int d = 0; d < value->rank; d++) {
    int64_t dim;
    if (!cv_expr_is_const(p->exprs, value->dims[d], &dim) || dim != constant->dims[d])
      return BAD("value '%s' and its constant differ in dim %d", value->name, d);
  }
  return CV_OK;
}

static cv_status check_consts(const cv_program *p) {
  for (uint32_t i = 0; i < p->n_consts; i++) {
    const cv_const *constant = &p->consts[i];
    if ((unsigned)constant->dtype >= CV_DTYPE_COUNT || constant->rank > CV_MAX_RANK)
      return BAD("constant %" PRIu32 " has no known type", i);
    int64_t count;
    uint64_t bytes;
    if (!cv_dims_count(constant->rank, constant->dims, &count) ||
        __builtin_mul_overflow((uint64_t)count, cv_dtype_size(constant->dtype), &bytes))
      return BAD("constant %" PRIu32 " has impossible dims", i);
    if (bytes != constant->bytes)
      return BAD("constant %" PRIu32 " has %" PRIu64 " bytes, its dims need %" PRIu64, i,
                 constant->bytes, bytes);
  }
  return CV_OK;
}

static cv_status check_bind(const cv_program *p, const cv_bind *bind, const char *where) {
  if (bind->sym >= cv_exprs_symbols(p->exprs))
    return BAD("%s binds symbol %" PRIu32 ", there are %" PRIu32, where, bind->sym,
               cv_exprs_symbols(p->exprs));
  if (bind->value >= p->n_values)
    return BAD("%s binds from value %" PRIu32 " of %" PRIu32, where, bind->value, p->n_values);
  const cv_value *value = &p->values[bind->value];
  if (value->dtype != CV_I64 && value->dtype != CV_I32 && value->dtype != CV_BOOL)
    return BAD("%s binds from '%s', which holds %s", where, value->name,
               cv_dtype_name(value->dtype));
  int64_t dims[CV_MAX_RANK], count;
  for (int d = 0; d < value->rank; d++)
    if (!cv_expr_is_const(p->exprs, value->dims[d], &dims[d]))
      return BAD("%s binds from '%s', whose dim %d is not constant", where, value->name, d);
  if (!cv_dims_count(value->rank, dims, &count) || bind->element >= (uint64_t)count)
    return BAD("%s binds from element %" PRIu32 " of '%s', which has not that many", where,
               bind->element, value->name);
  return CV_OK;
}

static cv_status check_ins(const cv_program *p, const cv_step *step, uint32_t s) {
  for (uint32_t i = 0; i < step->n_ins; i++) {
    uint32_t v = step->ins[i];
    if (v == CV_NONE && step->kind == CV_STEP_LOOP && i < 2) continue;
    if (v >= p->n_values)
      return BAD("step '%s' reads value %" PRIu32 " of %" PRIu32, step->name, v, p->n_values);
    if (p->values[v].kind == CV_VALUE_STEP && p->values[v].source >= s)
      return BAD("step '%s' reads '%s' before it is made", step->name, p->values[v].name);
  }
  return CV_OK;
}

/* `made`: marks the values that some step gave out already. */
static cv_status check_outs(const cv_program *p, const cv_step *step, uint32_t s, bool *made) {
  for (uint32_t i = 0; i < step->n_outs; i++) {
    uint32_t v = step->outs[i];
    if (v >= p->n_values)
      return BAD("step '%s' makes value %" PRIu32 " of %" PRIu32, step->name, v, p->n_values);
    if (p->values[v].kind != CV_VALUE_STEP || p->values[v].source != s || made[v])
      return BAD("step '%s' makes '%s', which is not its own", step->name, p->values[v].name);
    made[v] = true;
  }
  return CV_OK;
}

static bool same_type(const cv_value *a, const cv_value *b) {
  return a->dtype == b->dtype && a->rank == b->rank;
}

/* The body's ports against the loop's: counts, and types of carried and captured values. */
static cv_status check_loop_ports(const cv_program *p, const cv_step *step) {
  const cv_loop *loop = step->loop;
  const cv_program *body = loop->body;
  uint64_t carried = loop->carried, captured = loop->captured, stacked = loop->stacked;
  if (step->n_ins != 2 + carried + captured || step->n_outs != carried + stacked ||
      body->n_inputs != step->n_ins || body->n_outputs != 1 + carried + stacked)
    return BAD("loop '%s' and its body differ in inputs or outputs", step->name);
  for (uint32_t i = 2; i < step->n_ins; i++)
    if (!same_type(&p->values[step->ins[i]], &body->values[body->inputs[i].value]))
      return BAD("loop '%s': input %" PRIu32 " and the body's differ in type", step->name, i);
  for (uint32_t i = 0; i < step->n_outs; i++) {
    const cv_value *out = &p->values[step->outs[i]];
    const cv_value *item = &body->values[body->outputs[1 + i].value];
    int extra = i < carried ? 0 : 1;
    if (out->dtype != item->dtype || out->rank != item->rank + extra)
      return BAD("loop '%s': output %" PRIu32 " and the body's differ in type", step->name, i);
  }
  return CV_OK;
}

static cv_status verify(const cv_program *p, int depth);

static cv_status check_loop(const cv_program *p, const cv_step *step, int depth) {
  const cv_loop *loop = step->loop;
  if (!loop || !loop->body) return BAD("loop '%s' has no body", step->name);
  if (depth >= MAX_LOOP_DEPTH)
    return BAD("loop '%s' is nested more than %d deep", step->name, MAX_LOOP_DEPTH);
  if (loop->body->exprs != p->exprs || loop->body->consts != p->consts ||
      loop->body->n_consts != p->n_consts)
    return BAD("the body of loop '%s' has expressions or constants of its own", step->name);
  if (loop->trips != CV_NONE && loop->trips >= cv_exprs_symbols(p->exprs))
    return BAD("loop '%s' binds its trips to symbol %" PRIu32, step->name, loop->trips);
  if (loop->max_trips < 0) return BAD("loop '%s' has a negative bound", step->name);
  cv_status status = verify(loop->body, depth + 1);
  if (status != CV_OK) return cv_error_context(status, "loop '%s'", step->name);
  return check_loop_ports(p, step);
}

static cv_status check_step(const cv_program *p, uint32_t s, int depth) {
  const cv_step *step = &p->steps[s];
  if (step->guard == CV_EXPR_NONE) return BAD("step '%s' has no guard", step->name);
  if (!step->regions || !step->nodes) return BAD("step '%s' lacks its names", step->name);
  for (uint32_t i = 0; i < step->n_binds; i++) {
    cv_status status = check_bind(p, &step->binds[i], step->name);
    if (status != CV_OK) return status;
    const cv_value *value = &p->values[step->binds[i].value];
    if (value->kind != CV_VALUE_STEP || value->source != s)
      return BAD("step '%s' binds from '%s', which it does not make", step->name, value->name);
  }
  switch (step->kind) {
    case CV_STEP_KERNEL:
      if (!step->body || !step->pattern || !known_pattern(step->pattern))
        return BAD("step '%s' has no body or no known pattern", step->name);
      if (step->n_outs == 0) return BAD("step '%s' makes nothing", step->name);
      return CV_OK;
    case CV_STEP_ALIAS:
      if (step->n_ins == 0 || step->n_outs != 1)
        return BAD("alias '%s' has %" PRIu32 " inputs and %" PRIu32 " outputs", step->name,
                   step->n_ins, step->n_outs);
      for (uint32_t i = 0; i < step->n_ins; i++)
        if (p->values[step->ins[i]].dtype != p->values[step->outs[0]].dtype)
          return BAD("alias '%s' changes the dtype", step->name);
      return CV_OK;
    case CV_STEP_LOOP: return check_loop(p, step, depth);
    default: return BAD("step '%s' is of no known kind (%d)", step->name, (int)step->kind);
  }
}

static cv_status check_checks(const cv_program *p) {
  for (uint32_t i = 0; i < p->n_checks; i++) {
    const cv_check *check = &p->checks[i];
    if (check->a == CV_EXPR_NONE || check->b == CV_EXPR_NONE || check->guard == CV_EXPR_NONE ||
        !check->source)
      return BAD("check %" PRIu32 " lacks a part", i);
  }
  return CV_OK;
}

static cv_status check_ports(const cv_program *p) {
  for (uint32_t i = 0; i < p->n_inputs + p->n_outputs; i++) {
    bool is_input = i < p->n_inputs;
    uint32_t k = is_input ? i : i - p->n_inputs;
    const cv_port *port = is_input ? &p->inputs[k] : &p->outputs[k];
    const char *what = is_input ? "input" : "output";
    if (port->value >= p->n_values)
      return BAD("%s %" PRIu32 " is value %" PRIu32 " of %" PRIu32, what, k, port->value,
                 p->n_values);
    const cv_value *value = &p->values[port->value];
    if (is_input && (value->kind != CV_VALUE_INPUT || value->source != k))
      return BAD("input %" PRIu32 " is '%s', which is none", k, value->name);
    if (port->batch_axis < -1 || port->batch_axis >= value->rank ||
        (port->batch_axis >= 0 && port->batch_factor < 1))
      return BAD("%s '%s' has batch axis %d, factor %" PRId64, what, value->name, port->batch_axis,
                 port->batch_factor);
  }
  for (uint32_t i = 0; i < p->n_binds; i++) {
    cv_status status = check_bind(p, &p->binds[i], "the program");
    if (status != CV_OK) return status;
    if (p->values[p->binds[i].value].kind != CV_VALUE_INPUT)
      return BAD("the program binds from '%s', which is no input",
                 p->values[p->binds[i].value].name);
  }
  for (uint32_t i = 0; i < p->n_states; i++) {
    const cv_state_pair *pair = &p->states[i];
    if (pair->input >= p->n_inputs || pair->output >= p->n_outputs ||
        !same_type(&p->values[p->inputs[pair->input].value],
                   &p->values[p->outputs[pair->output].value]))
      return BAD("state %" PRIu32 " pairs ports that do not fit", i);
  }
  if (p->batch != CV_NONE && p->batch >= cv_exprs_symbols(p->exprs))
    return BAD("the batch is symbol %" PRIu32, p->batch);
  if (p->separable && p->batch == CV_NONE) return BAD("separable along no batch");
  return p->separable_why ? CV_OK : BAD("no verdict of separability");
}

static cv_status check_rendering(const cv_program *p, const cv_rendering *r, const char *target) {
  if (r->first > r->last || r->last >= p->n_steps)
    return BAD("target %s renders steps %" PRIu32 " to %" PRIu32 " of %" PRIu32, target, r->first,
               r->last, p->n_steps);
  bool one = r->first == r->last, kernel = p->steps[r->first].kind == CV_STEP_KERNEL;
  if ((one && kernel) == (r->kernel == CV_NONE))
    return BAD("target %s: step '%s' has a kernel too many or too few", target,
               p->steps[r->first].name);
  if (one && kernel && p->steps[r->first].n_ins && !r->reads_raw)
    return BAD("target %s does not say what step '%s' reads", target, p->steps[r->first].name);
  for (uint32_t i = 0; i < r->n_dims; i++)
    if (r->dims[i] == CV_EXPR_NONE)
      return BAD("target %s: step '%s' lacks dim %" PRIu32, target, p->steps[r->first].name, i);
  for (uint32_t i = 0; i < r->n_packs; i++)
    if (r->packs[i].bytes == CV_EXPR_NONE)
      return BAD("target %s: step '%s' lacks the size of pack %" PRIu32, target,
                 p->steps[r->first].name, i);
  return CV_OK;
}

/* `seen`: scratch, one for each step. */
static cv_status check_targets(const cv_program *p, bool *seen) {
  for (uint32_t t = 0; t < p->n_targets; t++) {
    const cv_target_code *target = &p->targets[t];
    if (!target->name || !target->arch || !target->features || !target->toolchain ||
        !target->layouts)
      return BAD("target %" PRIu32 " lacks its name, arch, features, toolchain or layouts", t);
    memset(seen, 0, p->n_steps * sizeof *seen);
    for (uint32_t i = 0; i < target->n_renderings; i++) {
      const cv_rendering *rendering = &target->renderings[i];
      cv_status status = check_rendering(p, rendering, target->name);
      if (status != CV_OK) return status;
      if (rendering->first == rendering->last) seen[rendering->first] = true;
    }
    for (uint32_t s = 0; s < p->n_steps; s++)
      if (!seen[s])
        return BAD("target %s has no rendering of step '%s'", target->name, p->steps[s].name);
  }
  return CV_OK;
}

static cv_status check_values(const cv_program *p) {
  cv_map names = {0};
  cv_status status = CV_OK;
  for (uint32_t v = 0; v < p->n_values && status == CV_OK; v++) {
    status = check_name(&names, p->values[v].name, "value", v);
    if (status == CV_OK) status = check_value(p, &p->values[v]);
  }
  cv_map_deinit(&names);
  return status;
}

/* Order: what steps read is there, what they make is theirs, and each value of a step is made. */
static cv_status check_flow(const cv_program *p) {
  cv_map names = {0};
  bool *made = cv_alloc((size_t)p->n_values + 1, sizeof *made);
  cv_status status = made ? CV_OK : cv_error_nomem(p->n_values);
  for (uint32_t s = 0; s < p->n_steps && status == CV_OK; s++) {
    status = check_name(&names, p->steps[s].name, "step", s);
    if (status == CV_OK) status = check_ins(p, &p->steps[s], s);
    if (status == CV_OK) status = check_outs(p, &p->steps[s], s, made);
  }
  for (uint32_t v = 0; v < p->n_values && status == CV_OK; v++)
    if (p->values[v].kind == CV_VALUE_STEP && !made[v])
      status = BAD("value '%s' is made by no step", p->values[v].name);
  cv_map_deinit(&names);
  cv_free(made);
  return status;
}

static cv_status verify(const cv_program *p, int depth) {
  static cv_status (*const checks[])(const cv_program *) = {
      check_consts, check_values, check_flow, check_checks,
      check_ports /* before the steps: loops look at their bodies' ports */};
  if ((uint64_t)p->n_inputs + p->n_outputs > UINT32_MAX) return BAD("too many ports");
  bool *seen = cv_alloc((size_t)p->n_steps + 1, sizeof *seen);
  cv_status status = seen ? CV_OK : cv_error_nomem(p->n_steps);
  for (size_t i = 0; i < sizeof checks / sizeof *checks && status == CV_OK; i++)
    status = checks[i](p);
  for (uint32_t s = 0; s < p->n_steps && status == CV_OK; s++) status = check_step(p, s, depth);
  if (status == CV_OK) status = check_targets(p, seen);
  cv_free(seen);
  return status;
}

cv_status cv_program_verify(const cv_program *program) { return verify(program, 0); }
