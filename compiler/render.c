/* From a program's steps to a target's code: bodies are rendered, kernels with equal text stand
 * once, texts become translation units, and the system's compiler makes the blob. */
#include "compiler/render.h"

#include <string.h>
#include <xxhash.h>

#include "base/map.h"
#include "compiler/equal.h"
#include "compiler/gemm_internal.h"
#include "compiler/render_internal.h"
#include "runtime/kernel_abi.h"
#include "compiler/toolchain.h"

/* runtime/kernel_abi.h without its comments; the tests compare the two. */
const char cv_abi_text[] =
    "#include <stdint.h>\n"
    "enum { CV_KERNEL_ABI = 1, CV_KERNEL_MAX_PHASES = 4 };\n"
    "typedef struct {\n"
    "  int32_t phases;\n"
    "  int64_t tasks[CV_KERNEL_MAX_PHASES];\n"
    "  int64_t scratch_thread;\n"
    "  int64_t scratch_shared;\n"
    "} cv_kernel_plan;\n"
    "typedef struct {\n"
    "  int (*prepare)(const int64_t *dims, cv_kernel_plan *plan);\n"
    "  int (*run)(int phase, int64_t begin, int64_t end, int thread, void *const *ptrs,\n"
    "             const int64_t *dims, void *scratch_thread, void *scratch_shared);\n"
    "  int (*pack)(int which, void *const *ptrs, const int64_t *dims, void *out);\n"
    "} cv_kernel;\n"
    "typedef struct {\n"
    "  int32_t abi;\n"
    "  int32_t count;\n"
    "  const cv_kernel *kernels;\n"
    "} cv_kernel_table;\n";

cv_status cv_render_step(const cv_target *target, cv_graph *body, const char *name, cv_arena *arena,
                         cv_str *code, cv_rendered *out_rendered) {
  static cv_status (*const templates[])(cv_emit *, cv_rendered *) = {
      [CV_PATTERN_MAP] = cv_render_map,       [CV_PATTERN_ROW] = cv_render_row,
      [CV_PATTERN_REDUCE] = cv_render_reduce, [CV_PATTERN_CONTRACTION] = cv_render_contraction,
      [CV_PATTERN_WINDOW] = cv_render_window, [CV_PATTERN_ROUTINE] = cv_render_routine,
  };
  cv_pattern pattern;
  cv_emit emit;
  *out_rendered = (cv_rendered){0};
  cv_status status = cv_pattern_of(body, &pattern);
  if (status != CV_OK) return status;
  cv_equal_apply(body);
  cv_emit_init(&emit, target, body, name, arena, code);
  status = templates[pattern](&emit, out_rendered);
  if (status == CV_OK) status = cv_graph_status(body);
  cv_emit_deinit(&emit);
  return status;
}

/* ---- sources ---- */

typedef struct {
  const char *text; /* with NAME for its name */
  bool packs;
} kernel;

typedef cv_vec(kernel) kernels;
#define NAME "CV_NAME"

static void add_named(cv_str *out, const char *text, const char *name) {
  for (const char *at = strstr(text, NAME); at != NULL; at = strstr(text, NAME)) {
    cv_str_append(out, text, (size_t)(at - text));
    cv_str_puts(out, name);
    text = at + strlen(NAME);
  }
  cv_str_puts(out, text);
}

static void add_table(const kernels *list, cv_str *out) {
  for (size_t i = 0; i < list->len; i++) {
    cv_str_add(out,
               "int k%zu_prepare(const int64_t *, cv_kernel_plan *);\n"
               "int k%zu_run(int, int64_t, int64_t, int, void *const *, const int64_t *, void *, "
               "void *);\n",
               i, i);
    if (list->data[i].packs) {
      cv_str_add(out, "int k%zu_pack(int, void *const *, const int64_t *, void *);\n", i);
    }
  }
  cv_str_add(out, "static const cv_kernel all[%zu] = {\n", list->len + 1);
  for (size_t i = 0; i < list->len; i++) {
    cv_str_add(out, "  {k%zu_prepare, k%zu_run, ", i, i);
    if (list->data[i].packs)
      cv_str_add(out, "k%zu_pack},\n", i);
    else
      cv_str_puts(out, "0},\n");
  }
  cv_str_add(out,
             "  {0, 0, 0}};\n__attribute__((visibility(\"default\"))) const cv_kernel_table "
             "cv_kernels = {%d, %zu, all};\n",
             CV_KERNEL_ABI, list->len);
}

void cv_unit_source(const cv_target *target, const char *kernels_text, cv_str *out) {
  cv_str code = {.may_die = true};
  cv_gemm_prelude(target, kernels_text, &code);
  cv_str_puts(&code, kernels_text);
  cv_str_puts(out, cv_abi_text);
  cv_prelude(target, cv_str_text(&code), out);
  cv_str_puts(out, cv_str_text(&code));
  cv_str_deinit(&code);
}

/* A unit's text; the first one has the table too. */
static const char *unit_text(const cv_target *target, const kernels *list, const uint32_t *unit_of,
                             uint32_t unit, cv_arena *arena) {
  cv_str code = {.may_die = true}, all = {.may_die = true};
  for (size_t i = 0; i < list->len; i++) {
    if (unit_of[i] == unit) {
      add_named(&code, list->data[i].text, cv_arena_format(arena, "k%zu", i));
    }
  }
  cv_unit_source(target, cv_str_text(&code), &all);
  if (unit == 0) add_table(list, &all);
  const char *text = cv_arena_strdup(arena, cv_str_text(&all));
  cv_str_deinit(&code);
  cv_str_deinit(&all);
  return text;
}

enum { UNIT_BYTES = 24 << 10, MAX_UNITS = 8 };

/* Spreads the kernels over units of about equal text; how many depends on the text alone. */
static uint32_t spread(const kernels *list, uint32_t *unit_of) {
  size_t total = 0, filled[MAX_UNITS] = {0};
  for (size_t i = 0; i < list->len; i++) total += strlen(list->data[i].text);
  size_t n = 1 + total / UNIT_BYTES;
  if (n > MAX_UNITS) n = MAX_UNITS;
  if (n > list->len && list->len > 0) n = list->len;
  for (size_t i = 0; i < list->len; i++) {
    uint32_t least = 0;
    for (uint32_t u = 1; u < n; u++) {
      if (filled[u] < filled[least]) least = u;
    }
    unit_of[i] = least;
    filled[least] += strlen(list->data[i].text) + 1;
  }
  return (uint32_t)n;
}

/* ---- programs ---- */

typedef struct {
  cv_program *program; /* outermost */
  const cv_target *target;
  const cv_render_options *options;
  cv_arena arena; /* of the work */
  kernels list;
  cv_map by_text;
  uint32_t done, total;
} renderer;

static const void *find_const(void *context, uint64_t hash, uint64_t bytes) {
  const cv_program *program = context;
  for (uint32_t i = 0; i < program->n_consts; i++) {
    const cv_const *known = &program->consts[i];
    if (known->hash == hash && known->bytes == bytes) return known->data;
  }
  return NULL;
}

/* The number of the kernel with this text, which is added where it is new. */
static uint32_t intern(renderer *r, const char *text, bool packs) {
  uint64_t index;
  if (cv_map_get_str(&r->by_text, text, &index)) return (uint32_t)index;
  index = r->list.len;
  cv_emit_push(&r->list, (kernel){cv_arena_strdup(&r->arena, text), packs});
  if (!cv_map_put_str(&r->by_text, text, index)) (void)cv_alloc_or_die(SIZE_MAX, 1);
  return (uint32_t)index;
}

/* What a body's rendering says, in the program's pool and arena. */
static cv_status import_rendered(renderer *r, cv_program *program, const cv_graph *body,
                                 const cv_rendered *from, cv_rendering *to) {
  cv_arena *arena = &program->arena;
  size_t n_params = body->body->params.len;
  to->n_dims = from->n_dims;
  to->n_packs = from->n_packs;
  to->dims = cv_arena_array(arena, cv_expr, from->n_dims + 1);
  to->packs = cv_arena_array(arena, cv_pack, from->n_packs + 1);
  to->reads_raw = cv_arena_array(arena, bool, n_params + 1);
  to->variant = cv_arena_strdup(arena, from->variant);
  if (to->dims == NULL || to->packs == NULL || to->reads_raw == NULL || to->variant == NULL) {
    return cv_error_nomem(n_params);
  }
  for (uint32_t i = 0; i < from->n_dims; i++) {
    to->dims[i] = cv_expr_import(r->program->exprs, body->exprs, from->dims[i]);
  }
  for (uint32_t i = 0; i < from->n_packs; i++) {
    to->packs[i].bytes = cv_expr_import(r->program->exprs, body->exprs, from->packs[i].bytes);
  }
  memcpy(to->reads_raw, from->reads_raw, n_params * sizeof *to->reads_raw);
  return CV_OK;
}

static cv_status render_kernel(renderer *r, cv_program *program, const cv_step *step,
                               cv_rendering *out) {
  cv_status status = CV_OK;
  cv_graph *body = NULL;
  cv_str code = {.may_die = true};
  cv_rendered rendered;
  CV_TRY(cv_graph_parse(step->body, NULL, find_const, program, &body));
  CV_TRY(cv_render_step(r->target, body, NAME, &r->arena, &code, &rendered));
  CV_TRY(import_rendered(r, program, body, &rendered, out));
  out->kernel = intern(r, cv_str_text(&code), rendered.n_packs > 0);
out:
  cv_str_deinit(&code);
  cv_graph_destroy(body);
  return cv_error_context(status, "step '%s'", step->name);
}

static uint32_t count_steps(const cv_program *program) {
  uint32_t n = program->n_steps;
  for (uint32_t i = 0; i < program->n_steps; i++) {
    if (program->steps[i].loop != NULL) n += count_steps(program->steps[i].loop->body);
  }
  return n;
}

/* The program's entry for the target: the one of that name, else a new one at `index`. */
static cv_target_code *target_entry(cv_program *program, const cv_target *target,
                                    uint32_t *out_index) {
  for (uint32_t i = 0; i < program->n_targets; i++) {
    if (strcmp(program->targets[i].name, target->name) == 0) {
      *out_index = i;
      return &program->targets[i];
    }
  }
  uint32_t n = program->n_targets;
  cv_target_code *targets = cv_arena_array(&program->arena, cv_target_code, n + 1);
  if (targets == NULL) return NULL;
  for (uint32_t i = 0; i < n; i++) targets[i] = program->targets[i];
  program->targets = targets;
  program->n_targets = n + 1;
  *out_index = n;
  return &targets[n];
}

static cv_status fill_entry(cv_program *program, const cv_target *target, cv_rendering *renderings,
                            cv_target_code *out) {
  cv_arena *arena = &program->arena;
  *out = (cv_target_code){.name = cv_arena_strdup(arena, target->name),
                          .arch = cv_arena_strdup(arena, target->arch),
                          .features = cv_arena_strdup(arena, target->features),
                          .toolchain = "",
                          .n_renderings = program->n_steps,
                          .renderings = renderings,
                          .layouts = cv_arena_array(arena, uint32_t, program->n_values + 1)};
  if (out->name == NULL || out->arch == NULL || out->features == NULL || out->layouts == NULL) {
    return cv_error_nomem(sizeof *out);
  }
  return CV_OK;
}

/* What stands for a step without a kernel: it reads all its inputs. */
static cv_status blank_rendering(cv_program *program, uint32_t step, cv_rendering *out) {
  uint32_t n = program->steps[step].n_ins;
  *out = (cv_rendering){.first = step, .last = step, .kernel = CV_NONE, .variant = ""};
  out->reads_raw = cv_arena_array(&program->arena, bool, n + 1);
  if (out->reads_raw == NULL) return cv_error_nomem(n);
  for (uint32_t i = 0; i < n; i++) out->reads_raw[i] = true;
  return CV_OK;
}

/* Renders the steps of a program and of its loops' bodies, and enters the target in each. */
static cv_status render_steps(renderer *r, cv_program *program, cv_target_code **out_entry) {
  uint32_t index;
  cv_status status = CV_OK;
  cv_rendering *renderings = cv_arena_array(&program->arena, cv_rendering, program->n_steps + 1);
  if (renderings == NULL) return cv_error_nomem(sizeof *renderings);
  for (uint32_t i = 0; i < program->n_steps && status == CV_OK; i++) {
    const cv_step *step = &program->steps[i];
    cv_target_code *inner;
    status = blank_rendering(program, i, &renderings[i]);
    if (status != CV_OK) break;
    if (step->kind == CV_STEP_KERNEL) status = render_kernel(r, program, step, &renderings[i]);
    if (step->kind == CV_STEP_LOOP) status = render_steps(r, step->loop->body, &inner);
    r->done++;
    if (r->options != NULL && r->options->progress != NULL) {
      r->options->progress(r->options->context, r->done, r->total);
    }
  }
  if (status != CV_OK) return status;
  *out_entry = target_entry(program, r->target, &index);
  if (*out_entry == NULL) return cv_error_nomem(sizeof **out_entry);
  return fill_entry(program, r->target, renderings, *out_entry);
}

static cv_status compile(renderer *r, cv_toolchain_result *out_result) {
  const char *sources[MAX_UNITS];
  uint32_t *unit_of = cv_arena_array(&r->arena, uint32_t, r->list.len + 1);
  uint32_t n = spread(&r->list, unit_of);
  for (uint32_t u = 0; u < n; u++) {
    sources[u] = unit_text(r->target, &r->list, unit_of, u, &r->arena);
  }
  return cv_toolchain_compile(r->target, sources, n, r->options, &r->arena, out_result);
}

cv_status cv_render_target(cv_program *program, const cv_target *target,
                           const cv_render_options *options) {
  renderer r = {.program = program,
                .target = target,
                .options = options,
                .arena = {.may_die = true},
                .total = count_steps(program)};
  cv_status status = CV_OK;
  cv_target_code *entry = NULL;
  cv_toolchain_result result;
  CV_TRY(render_steps(&r, program, &entry));
  CV_TRY(compile(&r, &result));
  entry->code_bytes = result.bytes;
  entry->code_hash = XXH3_64bits(result.code, result.bytes);
  entry->code = cv_arena_copy(&program->arena, result.code, result.bytes);
  entry->toolchain = cv_arena_strdup(&program->arena, result.toolchain);
  if (entry->code == NULL || entry->toolchain == NULL) status = cv_error_nomem(result.bytes);
out:
  cv_vec_deinit(&r.list);
  cv_map_deinit(&r.by_text);
  cv_arena_deinit(&r.arena);
  return cv_error_context(status, "target %s", target->name);
}
