/* Two programs made by hand, with kernels that the system's compiler makes when the test begins.
 *
 * "pick": x f32[batch,4] -> fc (packed weight, raw bias) -> h f32[batch,3] -> flat (alias)
 *   f32[3*batch] -> count (binds n) -> pick (n > 0) or none (n == 0) -> join f32[n] -> double.
 *   Results: flat, double, x.
 * "sum": k i64, c f32[m], d f32[m] -> loop k times { c = c + d; item = c * iteration } -> final c,
 *   items f32[trips,m] -> total (sum over the trips) f32[m]. Results: final, items, total. */
#ifndef CV_TESTS_RUNTIME_SAMPLE_H
#define CV_TESTS_RUNTIME_SAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/artifact.h"
#include "runtime/cpu_features.h"
#include "runtime/device.h"
#include "runtime/file.h"
#include "runtime/kernel_abi.h"
#include "runtime/program.h"

enum { FC, COUNT, PICK, NONE_, DOUBLE, ADD, ITEM, TOTAL, FAIL };

static const char sample_source[] =
    "#include \"runtime/kernel_abi.h\"\n"
    "#define PLAN(n) *plan = (cv_kernel_plan){.phases = 1, .tasks = {n}}\n"
    "#define RUN(name) static int name##_run(int phase, int64_t begin, int64_t end, int thread,\\\n"
    "  void *const *ptrs, const int64_t *dims, void *scratch, void *shared)\n"
    "static int one(const int64_t *d, cv_kernel_plan *plan) { PLAN(1); return 0; }\n"
    "static int rows(const int64_t *d, cv_kernel_plan *plan) {\n"
    "  *plan = (cv_kernel_plan){.phases = 2, .tasks = {d[0], d[0]}, .scratch_thread = 100,\n"
    "    .scratch_shared = d[0] * 3 * 4};\n"
    "  return d[0] > 1000; }\n"
    "static int each(const int64_t *d, cv_kernel_plan *plan) { PLAN(d[0]); return 0; }\n"
    "static int fc_pack(int which, void *const *p, const int64_t *d, void *out) {\n"
    "  const float *w = p[1]; float *o = out;\n"
    "  for (int i = 0; i < 4; i++) for (int j = 0; j < 3; j++) o[j * 4 + i] = w[i * 3 + j];\n"
    "  return 0; }\n"
    "RUN(fc) { const float *x = ptrs[0], *b = ptrs[2], *w = ptrs[4]; float *y = ptrs[3], *s = "
    "shared;\n"
    "  ((char *)scratch)[99] = 1;\n"
    "  for (int64_t i = begin; i < end; i++) for (int j = 0; j < 3; j++) {\n"
    "    if (phase) { y[i * 3 + j] = s[i * 3 + j] + b[j]; continue; }\n"
    "    s[i * 3 + j] = 0;\n"
    "    for (int k = 0; k < 4; k++) s[i * 3 + j] += x[i * 4 + k] * w[j * 4 + k]; }\n"
    "  return ptrs[1] != 0; }\n"
    "RUN(count) { const float *x = ptrs[0]; int64_t n = 0;\n"
    "  for (int64_t i = 0; i < dims[0]; i++) n += x[i] > 0;\n"
    "  *(int64_t *)ptrs[1] = n; return 0; }\n"
    "RUN(pick) { const float *x = ptrs[0]; float *y = ptrs[1]; int64_t n = 0;\n"
    "  for (int64_t i = 0; i < dims[0]; i++) if (x[i] > 0) y[n++] = x[i];\n"
    "  return n == dims[1] ? 0 : 3; }\n"
    "RUN(none) { return dims[0] != 0; }\n"
    "RUN(twice) { const float *x = ptrs[0]; float *y = ptrs[1];\n"
    "  for (int64_t i = begin; i < end; i++) y[i] = 2 * x[i]; return 0; }\n"
    "RUN(add) { const float *x = ptrs[0], *z = ptrs[1]; float *y = ptrs[2];\n"
    "  for (int64_t i = begin; i < end; i++) y[i] = x[i] + z[i]; return 0; }\n"
    "RUN(item) { const float *x = ptrs[0]; float *y = ptrs[1];\n"
    "  for (int64_t i = begin; i < end; i++) y[i] = x[i] * (float)dims[1]; return 0; }\n"
    "RUN(total) { const float *x = ptrs[0]; float *y = ptrs[1];\n"
    "  for (int64_t i = begin; i < end; i++) { y[i] = 0;\n"
    "    for (int64_t k = 0; k < dims[1]; k++) y[i] += x[k * dims[0] + i]; } return 0; }\n"
    "RUN(fail) { return 1; }\n"
    "static const cv_kernel kernels[] = {{rows, fc_run, fc_pack}, {one, count_run}, {one, "
    "pick_run},\n"
    "  {one, none_run}, {each, twice_run}, {each, add_run}, {each, item_run}, {each, total_run},\n"
    "  {one, fail_run}};\n"
    "const cv_kernel_table cv_kernels = {SAMPLE_ABI, 9, kernels};\n";

typedef struct {
  void *data;
  size_t bytes;
} sample_code;

/* Compiles the kernels, stating this ABI version. Freed by sample_code_free. */
static inline sample_code sample_compile(int abi) {
  sample_code code;
  char folder[] = "/tmp/cuvil-sample-XXXXXX", source[64], object[64], command[512];
  if (!mkdtemp(folder)) abort();
  snprintf(source, sizeof source, "%s/k.c", folder);
  snprintf(object, sizeof object, "%s/k.so", folder);
  if (cv_file_write(source, sample_source, sizeof sample_source - 1) != CV_OK) abort();
  snprintf(command, sizeof command, "cc -shared -fPIC -O1 -w -I%s/../.. -DSAMPLE_ABI=%d %s -o %s",
           TEST_DATA, abi, source, object);
  if (system(command) != 0 || cv_file_read(object, &code.data, &code.bytes) != CV_OK) abort();
  unlink(source);
  unlink(object);
  rmdir(folder);
  return code;
}

static inline void sample_code_free(sample_code *code) { cv_free(code->data); }

/* ---- builders ---- */

static inline cv_expr sample_const(cv_program *p, int64_t value) {
  return cv_expr_const(p->exprs, value);
}

static inline uint32_t sample_value(cv_program *p, const char *name, cv_value_kind kind,
                                    uint32_t source, cv_dtype dtype, int rank, cv_expr d0,
                                    cv_expr d1) {
  cv_value *value = &p->values[p->n_values];
  *value = (cv_value){.name = name,
                      .kind = kind,
                      .dtype = dtype,
                      .rank = (uint8_t)rank,
                      .dims = {d0, d1},
                      .guard = sample_const(p, 1),
                      .source = source,
                      .fixed_width = true};
  return p->n_values++;
}

static inline uint32_t *sample_ids(cv_program *p, uint32_t n, const uint32_t *ids) {
  return cv_arena_copy(&p->arena, ids, n * sizeof *ids);
}

static inline cv_step *sample_step(cv_program *p, const char *name, cv_step_kind kind,
                                   uint32_t n_ins, const uint32_t *ins, uint32_t n_outs,
                                   const uint32_t *outs) {
  cv_step *step = &p->steps[p->n_steps++];
  *step = (cv_step){.name = name,
                    .kind = kind,
                    .n_ins = n_ins,
                    .n_outs = n_outs,
                    .ins = sample_ids(p, n_ins, ins),
                    .outs = sample_ids(p, n_outs, outs),
                    .guard = sample_const(p, 1),
                    .body = kind == CV_STEP_KERNEL ? "body" : NULL,
                    .pattern = kind == CV_STEP_KERNEL ? "map" : NULL,
                    .regions = "",
                    .nodes = name,
                    .flops = CV_EXPR_NONE};
  return step;
}

static inline void sample_lists(cv_program *p) {
  p->values = cv_arena_array(&p->arena, cv_value, 16);
  p->steps = cv_arena_array(&p->arena, cv_step, 16);
  p->inputs = cv_arena_array(&p->arena, cv_port, 8);
  p->outputs = cv_arena_array(&p->arena, cv_port, 8);
  p->consts = cv_arena_array(&p->arena, cv_const, 4);
  p->targets = cv_arena_array(&p->arena, cv_target_code, 4);
  p->separable_why = "made by hand";
  p->model_name = "sample";
  p->producer = "test";
}

static inline void sample_target(cv_program *p, const sample_code *code, const char *name) {
  cv_target_code *target = &p->targets[p->n_targets++];
  *target = (cv_target_code){.name = name,
                             .arch = cv_cpu_arch(),
                             .features = "",
                             .toolchain = "cc -O1",
                             .n_renderings = p->n_steps,
                             .renderings = cv_arena_array(&p->arena, cv_rendering, p->n_steps),
                             .layouts = cv_arena_array(&p->arena, uint32_t, p->n_values)};
  if (code) {
    target->code = code->data;
    target->code_bytes = code->bytes;
  }
  for (uint32_t s = 0; s < p->n_steps; s++) {
    cv_rendering *r = &target->renderings[s];
    *r = (cv_rendering){.first = s, .last = s, .kernel = CV_NONE, .variant = "by hand"};
    r->reads_raw = cv_arena_array(&p->arena, bool, p->steps[s].n_ins + 1u);
    for (uint32_t i = 0; i < p->steps[s].n_ins; i++) r->reads_raw[i] = true;
    r->dims = cv_arena_array(&p->arena, cv_expr, 4);
    r->packs = cv_arena_array(&p->arena, cv_pack, 4);
  }
}

static inline cv_rendering *sample_kernel(cv_program *p, uint32_t step, uint32_t kernel,
                                          uint32_t n_dims, cv_expr d0, cv_expr d1) {
  cv_rendering *r = &p->targets[p->n_targets - 1].renderings[step];
  r->kernel = kernel;
  r->n_dims = n_dims;
  r->dims[0] = d0;
  r->dims[1] = d1;
  return r;
}

static const float sample_w[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1};
static const float sample_b[3] = {0.5f, -0.5f, 0.25f};

static inline void sample_pick_target(cv_program *p, const sample_code *code, const char *name) {
  cv_expr batch = cv_expr_symbol(p->exprs, 0), n = cv_expr_symbol(p->exprs, 1);
  cv_expr flat = cv_expr_mul(p->exprs, sample_const(p, 3), batch);
  sample_target(p, code, name);
  cv_rendering *fc = sample_kernel(p, 0, FC, 1, batch, 0);
  fc->reads_raw[1] = false;
  fc->n_packs = 1;
  fc->packs[0].bytes = sample_const(p, 48);
  sample_kernel(p, 2, COUNT, 1, flat, 0);
  sample_kernel(p, 3, PICK, 2, flat, n);
  sample_kernel(p, 4, NONE_, 1, n, 0);
  sample_kernel(p, 6, DOUBLE, 1, n, 0);
}

static inline cv_program *sample_pick(const sample_code *code) {
  cv_exprs *e = cv_exprs_create(true);
  cv_program *p = cv_program_create(e, true, true);
  sample_lists(p);
  cv_expr batch = cv_expr_symbol(e, cv_exprs_symbol(e, "batch", 1, 2000));
  cv_sym n_sym = cv_exprs_symbol(e, "n", 0, 40);
  cv_expr n = cv_expr_symbol(e, n_sym), zero = sample_const(p, 0);
  cv_expr flat = cv_expr_mul(e, sample_const(p, 3), batch);
  p->consts[0] =
      (cv_const){.dtype = CV_F32, .rank = 2, .dims = {4, 3}, .bytes = 48, .data = sample_w};
  p->consts[1] = (cv_const){.dtype = CV_F32, .rank = 1, .dims = {3}, .bytes = 12, .data = sample_b};
  p->n_consts = 2;
  uint32_t x = sample_value(p, "x", CV_VALUE_INPUT, 0, CV_F32, 2, batch, sample_const(p, 4));
  uint32_t w =
      sample_value(p, "w", CV_VALUE_CONST, 0, CV_F32, 2, sample_const(p, 4), sample_const(p, 3));
  uint32_t b = sample_value(p, "b", CV_VALUE_CONST, 1, CV_F32, 1, sample_const(p, 3), 0);
  uint32_t h = sample_value(p, "h", CV_VALUE_STEP, 0, CV_F32, 2, batch, sample_const(p, 3));
  uint32_t hf = sample_value(p, "flat", CV_VALUE_STEP, 1, CV_F32, 1, flat, 0);
  uint32_t c = sample_value(p, "count", CV_VALUE_STEP, 2, CV_I64, 0, 0, 0);
  uint32_t some = sample_value(p, "some", CV_VALUE_STEP, 3, CV_F32, 1, n, 0);
  uint32_t none = sample_value(p, "none", CV_VALUE_STEP, 4, CV_F32, 1, n, 0);
  uint32_t j = sample_value(p, "joined", CV_VALUE_STEP, 5, CV_F32, 1, n, 0);
  uint32_t d = sample_value(p, "double", CV_VALUE_STEP, 6, CV_F32, 1, n, 0);
  sample_step(p, "fc", CV_STEP_KERNEL, 3, (uint32_t[]){x, w, b}, 1, &h)->flops =
      cv_expr_mul(e, sample_const(p, 24), batch);
  sample_step(p, "flatten", CV_STEP_ALIAS, 1, &h, 1, &hf);
  cv_step *count = sample_step(p, "counter", CV_STEP_KERNEL, 1, &hf, 1, &c);
  count->n_binds = 1;
  count->binds = cv_arena_copy(&p->arena, &(cv_bind){.sym = n_sym, .value = c}, sizeof(cv_bind));
  cv_step *pick = sample_step(p, "picker", CV_STEP_KERNEL, 1, &hf, 1, &some);
  p->values[some].guard = pick->guard = cv_expr_lt(e, zero, n);
  cv_step *no = sample_step(p, "nothing", CV_STEP_KERNEL, 1, &hf, 1, &none);
  p->values[none].guard = no->guard = cv_expr_eq(e, zero, n);
  sample_step(p, "join", CV_STEP_ALIAS, 2, (uint32_t[]){some, none}, 1, &j);
  sample_step(p, "doubler", CV_STEP_KERNEL, 1, &j, 1, &d);
  p->inputs[0] = (cv_port){.value = x, .batch_axis = 0, .batch_factor = 1};
  p->n_inputs = 1;
  p->outputs[0] = (cv_port){.value = hf, .batch_axis = -1};
  p->outputs[1] = (cv_port){.value = d, .batch_axis = -1};
  p->outputs[2] = (cv_port){.value = x, .batch_axis = -1};
  p->n_outputs = 3;
  p->batch = 0;
  sample_pick_target(p, code, "native");
  return p;
}

static inline cv_program *sample_body(cv_program *outer, cv_expr m, cv_expr i) {
  cv_program *p = cv_program_create(outer->exprs, false, true);
  sample_lists(p);
  p->consts = outer->consts;
  p->n_consts = outer->n_consts;
  uint32_t it = sample_value(p, "it", CV_VALUE_INPUT, 0, CV_I64, 0, 0, 0);
  uint32_t go = sample_value(p, "go", CV_VALUE_INPUT, 1, CV_BOOL, 0, 0, 0);
  uint32_t c = sample_value(p, "c", CV_VALUE_INPUT, 2, CV_F32, 1, m, 0);
  uint32_t d = sample_value(p, "d", CV_VALUE_INPUT, 3, CV_F32, 1, m, 0);
  uint32_t next = sample_value(p, "next", CV_VALUE_STEP, 0, CV_F32, 1, m, 0);
  uint32_t item = sample_value(p, "item", CV_VALUE_STEP, 1, CV_F32, 1, m, 0);
  sample_step(p, "adder", CV_STEP_KERNEL, 2, (uint32_t[]){c, d}, 1, &next);
  sample_step(p, "scaler", CV_STEP_KERNEL, 1, &next, 1, &item);
  for (uint32_t k = 0; k < 4; k++) p->inputs[k] = (cv_port){.value = k, .batch_axis = -1};
  p->n_inputs = 4;
  p->outputs[0] = (cv_port){.value = go, .batch_axis = -1};
  p->outputs[1] = (cv_port){.value = next, .batch_axis = -1};
  p->outputs[2] = (cv_port){.value = item, .batch_axis = -1};
  p->n_outputs = 3;
  cv_sym i_sym;
  if (!cv_expr_is_symbol(p->exprs, i, &i_sym)) abort();
  p->binds = cv_arena_copy(&p->arena, &(cv_bind){.sym = i_sym, .value = it}, sizeof(cv_bind));
  p->n_binds = 1;
  sample_target(p, NULL, "native");
  sample_kernel(p, 0, ADD, 1, m, 0);
  sample_kernel(p, 1, ITEM, 2, m, i);
  return p;
}

static inline cv_program *sample_sum(const sample_code *code) {
  cv_exprs *e = cv_exprs_create(true);
  cv_program *p = cv_program_create(e, true, true);
  sample_lists(p);
  cv_expr m = cv_expr_symbol(e, cv_exprs_symbol(e, "m", 0, 1000));
  cv_expr i = cv_expr_symbol(e, cv_exprs_symbol(e, "i", 0, 1000));
  cv_sym t_sym = cv_exprs_symbol(e, "trips", 0, 1000);
  cv_expr trips = cv_expr_symbol(e, t_sym);
  uint32_t k = sample_value(p, "k", CV_VALUE_INPUT, 0, CV_I64, 0, 0, 0);
  uint32_t c = sample_value(p, "c", CV_VALUE_INPUT, 1, CV_F32, 1, m, 0);
  uint32_t d = sample_value(p, "d", CV_VALUE_INPUT, 2, CV_F32, 1, m, 0);
  uint32_t final = sample_value(p, "final", CV_VALUE_STEP, 0, CV_F32, 1, m, 0);
  uint32_t items = sample_value(p, "items", CV_VALUE_STEP, 0, CV_F32, 2, trips, m);
  uint32_t total = sample_value(p, "total", CV_VALUE_STEP, 1, CV_F32, 1, m, 0);
  cv_step *loop = sample_step(p, "loop", CV_STEP_LOOP, 4, (uint32_t[]){k, CV_NONE, c, d}, 2,
                              (uint32_t[]){final, items});
  loop->loop = cv_arena_new(&p->arena, cv_loop);
  sample_step(p, "totaller", CV_STEP_KERNEL, 1, &items, 1, &total);
  for (uint32_t a = 0; a < 3; a++) p->inputs[a] = (cv_port){.value = a, .batch_axis = -1};
  p->n_inputs = 3;
  p->outputs[0] = (cv_port){.value = final, .batch_axis = -1};
  p->outputs[1] = (cv_port){.value = items, .batch_axis = -1};
  p->outputs[2] = (cv_port){.value = total, .batch_axis = -1};
  p->n_outputs = 3;
  sample_target(p, code, "native");
  sample_kernel(p, 1, TOTAL, 2, m, trips);
  *loop->loop = (cv_loop){.body = sample_body(p, m, i),
                          .carried = 1,
                          .stacked = 1,
                          .captured = 1,
                          .trips = t_sym,
                          .max_trips = 50};
  return p;
}

/* Calls `run(arg)` with each fault point failing once; the run without a failure must be CV_OK.
 * Unlike each_fault it lets a run succeed all the same: an expression that could not be simplified
 * for lack of memory is as good as one that was. Returns the number of points, or -n. */
static inline long sample_each_fault(cv_status (*run)(void *), void *arg) {
  for (long n = 1;; n++) {
    cv_fault_arm(n);
    cv_status status = run(arg);
    bool fired = cv_fault_fired();
    cv_fault_arm(0);
    if (!fired) return status == CV_OK ? n - 1 : -n;
  }
}

/* Writes the program to `path` and opens it. */
static inline cv_status sample_open(const cv_program *program, const char *path,
                                    cv_artifact **out_artifact) {
  cv_status status = cv_artifact_write(program, path);
  return status == CV_OK ? cv_artifact_open(path, out_artifact) : status;
}

#endif
