#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/manifest_internal.h"
#include "runtime/msgpack.h"

/* What reading needs: sticky failures in `in`; `exprs` is the table of the section being read. */
typedef struct {
  cv_mp_reader in;
  cv_program *program; /* the outermost */
  cv_expr *exprs;
  uint32_t n_exprs;
  bool out_of_memory;
} source;

/* `count` elements of an arena array; NULL, and a failure, when out of memory. */
static void *array_of(source *s, cv_arena *arena, uint32_t count, size_t size) {
  if (s->in.failed) return NULL;
  void *memory = cv_arena_alloc(arena, (size_t)count + !count, size);
  if (!memory) {
    s->out_of_memory = true;
    cv_mp_fail(&s->in, "memory");
  }
  return memory;
}

static uint32_t read_u32(source *s) {
  uint64_t value = cv_mp_uint(&s->in);
  if (value >= UINT32_MAX) cv_mp_fail(&s->in, "a number below 2^32 - 1");
  return s->in.failed ? 0 : (uint32_t)value;
}

static uint32_t read_id(source *s) { return cv_mp_nil(&s->in) ? CV_NONE : read_u32(s); }

/* NUL-terminated, in the arena. */
static const char *read_text(source *s, cv_arena *arena) {
  uint32_t length;
  const char *text = cv_mp_text(&s->in, &length);
  char *copy = array_of(s, arena, length + 1, 1);
  if (!copy) return "";
  memcpy(copy, text, length);
  return copy;
}

static const char *read_optional_text(source *s, cv_arena *arena) {
  return cv_mp_nil(&s->in) ? NULL : read_text(s, arena);
}

static cv_expr read_expr(source *s) {
  if (cv_mp_nil(&s->in)) return CV_EXPR_NONE;
  uint64_t number = cv_mp_uint(&s->in);
  if (s->in.failed || number >= s->n_exprs) {
    cv_mp_fail(&s->in, "the number of an expression");
    return CV_EXPR_NONE;
  }
  return s->exprs[number];
}

static cv_dtype read_dtype(source *s) {
  cv_dtype dtype = CV_F32;
  uint64_t number = cv_mp_uint(&s->in);
  if (number > INT32_MAX || !cv_dtype_from_onnx((int)number, &dtype))
    cv_mp_fail(&s->in, "the number of a data type");
  return dtype;
}

static uint8_t read_rank(source *s) {
  uint32_t rank = cv_mp_array(&s->in);
  if (rank > CV_MAX_RANK) cv_mp_fail(&s->in, "at most 8 dims");
  return s->in.failed ? 0 : (uint8_t)rank;
}

static uint32_t *read_ids(source *s, cv_arena *arena, uint32_t *out_count) {
  *out_count = cv_mp_array(&s->in);
  uint32_t *ids = array_of(s, arena, *out_count, sizeof *ids);
  for (uint32_t i = 0; ids && i < *out_count; i++) ids[i] = read_id(s);
  return ids;
}

static cv_bind *read_binds(source *s, cv_arena *arena, uint32_t *out_count) {
  *out_count = cv_mp_array(&s->in);
  cv_bind *binds = array_of(s, arena, *out_count, sizeof *binds);
  for (uint32_t i = 0; binds && i < *out_count; i++) {
    cv_mp_expect_array(&s->in, 3);
    binds[i].sym = read_u32(s);
    binds[i].value = read_u32(s);
    binds[i].element = read_u32(s);
  }
  return binds;
}

static cv_port *read_ports(source *s, cv_arena *arena, uint32_t *out_count) {
  *out_count = cv_mp_array(&s->in);
  cv_port *ports = array_of(s, arena, *out_count, sizeof *ports);
  for (uint32_t i = 0; ports && i < *out_count; i++) {
    cv_mp_expect_array(&s->in, 3);
    ports[i].value = read_u32(s);
    int64_t axis = cv_mp_int(&s->in);
    if (axis < -1 || axis >= CV_MAX_RANK) cv_mp_fail(&s->in, "a batch axis");
    ports[i].batch_axis = (int32_t)axis;
    ports[i].batch_factor = cv_mp_int(&s->in);
  }
  return ports;
}

static void read_value(source *s, cv_arena *arena, cv_value *value) {
  cv_mp_expect_array(&s->in, 7);
  value->name = read_text(s, arena);
  uint64_t kind = cv_mp_uint(&s->in);
  if (kind > CV_VALUE_STEP) cv_mp_fail(&s->in, "a kind of value");
  value->kind = (cv_value_kind)kind;
  value->dtype = read_dtype(s);
  value->rank = read_rank(s);
  for (int d = 0; d < value->rank; d++) value->dims[d] = read_expr(s);
  value->guard = read_expr(s);
  value->source = read_u32(s);
  value->fixed_width = cv_mp_bool(&s->in);
}

static void read_block(source *s, cv_program *program, int depth);

static cv_loop *read_loop(source *s, cv_arena *arena, int depth) {
  cv_loop *loop = array_of(s, arena, 1, sizeof *loop);
  if (depth >= CV_MANIFEST_MAX_DEPTH) cv_mp_fail(&s->in, "loops that are not nested so deep");
  if (!loop || s->in.failed) return NULL;
  cv_mp_expect_array(&s->in, 6);
  loop->carried = read_u32(s);
  loop->stacked = read_u32(s);
  loop->captured = read_u32(s);
  loop->trips = read_id(s);
  loop->max_trips = cv_mp_int(&s->in);
  loop->body = cv_program_create(s->program->exprs, false, false);
  if (!loop->body) {
    s->out_of_memory = true;
    cv_mp_fail(&s->in, "memory");
    return loop;
  }
  loop->body->consts = s->program->consts;
  loop->body->n_consts = s->program->n_consts;
  read_block(s, loop->body, depth + 1);
  return loop;
}

static void read_step(source *s, cv_arena *arena, cv_step *step, int depth) {
  cv_mp_expect_array(&s->in, 12);
  step->name = read_text(s, arena);
  uint64_t kind = cv_mp_uint(&s->in);
  if (kind > CV_STEP_LOOP) cv_mp_fail(&s->in, "a kind of step");
  step->kind = (cv_step_kind)kind;
  step->ins = read_ids(s, arena, &step->n_ins);
  step->outs = read_ids(s, arena, &step->n_outs);
  step->binds = read_binds(s, arena, &step->n_binds);
  step->guard = read_expr(s);
  step->body = read_optional_text(s, arena);
  step->pattern = read_optional_text(s, arena);
  step->regions = read_optional_text(s, arena);
  step->nodes = read_optional_text(s, arena);
  step->flops = read_expr(s);
  if (!cv_mp_nil(&s->in)) step->loop = read_loop(s, arena, depth);
  if ((step->loop != NULL) != (step->kind == CV_STEP_LOOP)) cv_mp_fail(&s->in, "a loop's body");
}

static void read_checks(source *s, cv_program *program) {
  uint32_t count = cv_mp_array(&s->in);
  program->checks = array_of(s, &program->arena, count, sizeof *program->checks);
  if (!program->checks) return;
  program->n_checks = count;
  for (uint32_t i = 0; i < count; i++) {
    cv_mp_expect_array(&s->in, 4);
    program->checks[i].a = read_expr(s);
    program->checks[i].b = read_expr(s);
    program->checks[i].guard = read_expr(s);
    program->checks[i].source = read_text(s, &program->arena);
  }
}

static void read_states(source *s, cv_program *program) {
  uint32_t count = cv_mp_array(&s->in);
  program->states = array_of(s, &program->arena, count, sizeof *program->states);
  if (!program->states) return;
  program->n_states = count;
  for (uint32_t i = 0; i < count; i++) {
    cv_mp_expect_array(&s->in, 2);
    program->states[i].input = read_u32(s);
    program->states[i].output = read_u32(s);
  }
}

static void read_block(source *s, cv_program *program, int depth) {
  cv_arena *arena = &program->arena;
  cv_mp_expect_array(&s->in, 10);
  uint32_t count = cv_mp_array(&s->in);
  program->values = array_of(s, arena, count, sizeof *program->values);
  if (!program->values) return;
  program->n_values = count;
  for (uint32_t i = 0; i < count; i++) read_value(s, arena, &program->values[i]);
  count = cv_mp_array(&s->in);
  program->steps = array_of(s, arena, count, sizeof *program->steps);
  if (!program->steps) return;
  program->n_steps = count;
  for (uint32_t i = 0; i < count && !s->in.failed; i++)
    read_step(s, arena, &program->steps[i], depth);
  program->inputs = read_ports(s, arena, &program->n_inputs);
  program->outputs = read_ports(s, arena, &program->n_outputs);
  program->binds = read_binds(s, arena, &program->n_binds);
  read_checks(s, program);
  read_states(s, program);
  program->separable = cv_mp_bool(&s->in);
  program->batch = read_id(s);
  program->separable_why = read_optional_text(s, arena);
}

static void read_symbols(source *s, cv_exprs *pool) {
  uint32_t count = cv_mp_array(&s->in);
  for (uint32_t i = 0; i < count && !s->in.failed; i++) {
    cv_mp_expect_array(&s->in, 3);
    const char *name = read_text(s, &s->program->arena);
    int64_t lo = cv_mp_int(&s->in), hi = cv_mp_int(&s->in);
    if (lo > hi || !*name) cv_mp_fail(&s->in, "a symbol with a name and bounds");
    if (s->in.failed) return;
    cv_sym sym = cv_exprs_symbol(pool, name, lo, hi);
    if (cv_exprs_symbols(pool) == i + 1) continue;
    s->out_of_memory = sym == CV_EXPR_NONE;
    cv_mp_fail(&s->in, "symbols of different names");
  }
}

/* The texts of a section's expressions; they may only name the symbols that are there. */
static void read_exprs(source *s) {
  cv_exprs *pool = s->program->exprs;
  s->n_exprs = 0;
  uint32_t count = cv_mp_array(&s->in), symbols = cv_exprs_symbols(pool);
  s->exprs = array_of(s, &s->program->arena, count, sizeof *s->exprs);
  if (!s->exprs) return;
  for (uint32_t i = 0; i < count && !s->in.failed; i++) {
    const char *text = read_text(s, &s->program->arena), *end;
    if (s->in.failed) return;
    cv_status status = cv_expr_parse(pool, text, &end, &s->exprs[i]);
    s->out_of_memory = status == CV_NOMEM;
    if (status != CV_OK || *end || s->exprs[i] == CV_EXPR_NONE || cv_exprs_symbols(pool) != symbols)
      cv_mp_fail(&s->in, "an expression over the program's symbols");
  }
  s->n_exprs = count;
}

static void read_consts(source *s) {
  cv_program *program = s->program;
  uint32_t count = cv_mp_array(&s->in);
  program->consts = array_of(s, &program->arena, count, sizeof *program->consts);
  if (!program->consts) return;
  program->n_consts = count;
  for (uint32_t i = 0; i < count; i++) {
    cv_const *constant = &program->consts[i];
    cv_mp_expect_array(&s->in, 4);
    constant->dtype = read_dtype(s);
    constant->rank = read_rank(s);
    for (int d = 0; d < constant->rank; d++) constant->dims[d] = cv_mp_int(&s->in);
    constant->bytes = cv_mp_uint(&s->in);
    constant->hash = cv_mp_uint(&s->in);
  }
}

/* ---- targets ---- */

static void read_rendering(source *s, const cv_program *program, cv_arena *arena,
                           cv_rendering *rendering) {
  cv_mp_expect_array(&s->in, 7);
  rendering->first = read_u32(s);
  rendering->last = read_u32(s);
  rendering->kernel = read_id(s);
  rendering->n_dims = cv_mp_array(&s->in);
  rendering->dims = array_of(s, arena, rendering->n_dims, sizeof *rendering->dims);
  for (uint32_t i = 0; rendering->dims && i < rendering->n_dims; i++)
    rendering->dims[i] = read_expr(s);
  rendering->n_packs = cv_mp_array(&s->in);
  rendering->packs = array_of(s, arena, rendering->n_packs, sizeof *rendering->packs);
  for (uint32_t i = 0; rendering->packs && i < rendering->n_packs; i++)
    rendering->packs[i].bytes = read_expr(s);
  uint32_t n_reads = cv_mp_array(&s->in);
  if (s->in.failed || rendering->first >= program->n_steps) {
    cv_mp_fail(&s->in, "a rendering of a step");
    return;
  }
  bool one = rendering->first == rendering->last && rendering->kernel != CV_NONE;
  if (n_reads != (one ? program->steps[rendering->first].n_ins : 0))
    cv_mp_fail(&s->in, "what a kernel reads, an entry for each input");
  rendering->reads_raw = array_of(s, arena, n_reads, sizeof *rendering->reads_raw);
  for (uint32_t i = 0; rendering->reads_raw && i < n_reads; i++)
    rendering->reads_raw[i] = cv_mp_bool(&s->in);
  rendering->variant = read_optional_text(s, arena);
}

static void read_part(source *s, cv_program *program, const cv_target_code *outer, uint32_t t) {
  cv_arena *arena = &program->arena;
  cv_target_code *target = &program->targets[t];
  if (outer) {
    target->name = outer->name;
    target->arch = outer->arch;
    target->features = outer->features;
    target->toolchain = outer->toolchain;
  }
  cv_mp_expect_array(&s->in, 3);
  uint32_t count;
  target->layouts = read_ids(s, arena, &count);
  if (count != program->n_values) cv_mp_fail(&s->in, "a layout for each value");
  count = cv_mp_array(&s->in);
  target->renderings = array_of(s, arena, count, sizeof *target->renderings);
  if (!target->renderings) return;
  target->n_renderings = count;
  for (uint32_t i = 0; i < count && !s->in.failed; i++)
    read_rendering(s, program, arena, &target->renderings[i]);
  count = cv_mp_array(&s->in);
  for (uint32_t i = 0; i < program->n_steps && !s->in.failed; i++) {
    if (!program->steps[i].loop) continue;
    if (count-- == 0) cv_mp_fail(&s->in, "renderings of each loop's body");
    read_part(s, program->steps[i].loop->body, target, t);
  }
  if (count) cv_mp_fail(&s->in, "renderings of as many bodies as there are");
}

/* Room for the targets in the program and in the bodies of its loops. */
static void make_targets(source *s, cv_program *program, uint32_t count) {
  program->targets = array_of(s, &program->arena, count, sizeof *program->targets);
  if (!program->targets) return;
  program->n_targets = count;
  for (uint32_t i = 0; i < program->n_steps; i++)
    if (program->steps[i].loop) make_targets(s, program->steps[i].loop->body, count);
}

static void read_targets(source *s) {
  cv_program *program = s->program;
  cv_arena *arena = &program->arena;
  uint32_t count = cv_mp_array(&s->in);
  if (count > 256) cv_mp_fail(&s->in, "at most 256 targets");
  if (s->in.failed) return;
  make_targets(s, program, count);
  for (uint32_t t = 0; t < count && !s->in.failed; t++) {
    cv_target_code *target = &program->targets[t];
    cv_mp_expect_array(&s->in, 9);
    target->name = read_text(s, arena);
    target->arch = read_text(s, arena);
    target->features = read_text(s, arena);
    target->toolchain = read_text(s, arena);
    target->code_offset = cv_mp_uint(&s->in);
    target->code_bytes = cv_mp_uint(&s->in);
    target->code_hash = cv_mp_uint(&s->in);
    read_exprs(s);
    read_part(s, program, NULL, t);
  }
}

static void read_blobs(source *s) {
  uint32_t count = cv_mp_array(&s->in);
  if (count != s->program->n_consts) cv_mp_fail(&s->in, "a blob for each constant");
  for (uint32_t i = 0; i < count && !s->in.failed; i++)
    s->program->consts[i].offset = cv_mp_uint(&s->in);
}

static void read_all(source *s) {
  cv_program *program = s->program;
  uint32_t length;
  if (cv_mp_map(&s->in) != 5) cv_mp_fail(&s->in, "a map of 5 parts");
  cv_mp_expect_text(&s->in, "hash");
  const char *hash = cv_mp_text(&s->in, &length);
  if (length == sizeof program->hash - 1)
    memcpy(program->hash, hash, length);
  else
    cv_mp_fail(&s->in, "a hash of 32 digits");
  cv_mp_expect_text(&s->in, "provenance");
  cv_mp_expect_array(&s->in, 2);
  program->model_name = read_optional_text(s, &program->arena);
  program->producer = read_optional_text(s, &program->arena);
  cv_mp_expect_text(&s->in, "program");
  cv_mp_expect_array(&s->in, 4);
  read_symbols(s, program->exprs);
  read_consts(s);
  read_exprs(s);
  if (!s->in.failed) read_block(s, program, 0);
  cv_mp_expect_text(&s->in, "blobs");
  read_blobs(s);
  cv_mp_expect_text(&s->in, "targets");
  read_targets(s);
  if (!s->in.failed && s->in.at != s->in.end) cv_mp_fail(&s->in, "nothing behind the targets");
}

cv_status cv_manifest_read(const void *data, uint64_t bytes, cv_program **out_program) {
  *out_program = NULL;
  cv_status status = CV_OK;
  const uint8_t *begin = data;
  cv_exprs *pool = cv_exprs_create(false);
  if (!pool) return cv_error_nomem(64);
  source s = {.in = {.at = begin, .end = begin + bytes}};
  s.program = cv_program_create(pool, true, false);
  if (!s.program) {
    cv_exprs_destroy(pool);
    return cv_error_nomem(sizeof *s.program);
  }
  read_all(&s);
  if (s.out_of_memory)
    status = cv_error_nomem(bytes);
  else if (s.in.failed)
    status = cv_error(CV_CORRUPT, "the manifest is damaged at byte %" PRIu64 ": wanted %s",
                      (uint64_t)(s.in.at - begin), s.in.what);
  if (status != CV_OK)
    cv_program_destroy(s.program);
  else
    *out_program = s.program;
  return status;
}
