/* Builders of small programs, and the kernels of sample.h. */
#ifndef CV_TESTS_RUNTIME_SAMPLE_BUILD_H
#define CV_TESTS_RUNTIME_SAMPLE_BUILD_H

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

/* Compiles the kernels, stating this ABI version; the headers lie two folders above `data_folder`.
 * Freed by sample_code_free. */
static inline sample_code sample_compile(const char *data_folder, int abi) {
  sample_code code;
  char folder[] = "/tmp/cuvil-sample-XXXXXX", source[64], object[64], command[512];
  if (!mkdtemp(folder)) abort();
  snprintf(source, sizeof source, "%s/k.c", folder);
  snprintf(object, sizeof object, "%s/k.so", folder);
  if (cv_file_write(source, sample_source, sizeof sample_source - 1) != CV_OK) abort();
  snprintf(command, sizeof command, "cc -shared -fPIC -O1 -w -I%s/../.. -DSAMPLE_ABI=%d %s -o %s",
           data_folder, abi, source, object);
  if (system(command) != 0 || cv_file_read(object, &code.data, &code.bytes) != CV_OK) abort();
  unlink(source);
  unlink(object);
  rmdir(folder);
  return code;
}

static inline void sample_code_free(sample_code *code) { cv_free(code->data); }

/* ---- builders ---- */

typedef struct {
  cv_dtype dtype;
  uint8_t rank;
  cv_expr d0, d1;
} sample_type;

/* Value ids. */
typedef struct {
  uint32_t n, ids[4];
} sample_list;

static inline cv_expr sample_const(cv_program *p, int64_t value) {
  return cv_expr_const(p->exprs, value);
}

/* Adds a value of up to two dims. */
static inline uint32_t sample_value(cv_program *p, sample_type type, cv_value_kind kind,
                                    uint32_t source, const char *name) {
  cv_value *value = &p->values[p->n_values];
  *value = (cv_value){.name = name,
                      .kind = kind,
                      .dtype = type.dtype,
                      .rank = type.rank,
                      .dims = {type.d0, type.d1},
                      .guard = sample_const(p, 1),
                      .source = source,
                      .fixed_width = true};
  return p->n_values++;
}

static inline uint32_t *sample_ids(cv_program *p, sample_list list) {
  return cv_arena_copy(&p->arena, list.ids, list.n * sizeof *list.ids);
}

static inline cv_step *sample_step(cv_program *p, const char *name, cv_step_kind kind,
                                   sample_list ins, sample_list outs) {
  cv_step *step = &p->steps[p->n_steps++];
  *step = (cv_step){.name = name,
                    .kind = kind,
                    .n_ins = ins.n,
                    .n_outs = outs.n,
                    .ins = sample_ids(p, ins),
                    .outs = sample_ids(p, outs),
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
    if (p->steps[s].kind == CV_STEP_KERNEL)
      r->reads_raw = cv_arena_array(&p->arena, bool, p->steps[s].n_ins + 1u);
    for (uint32_t i = 0; r->reads_raw && i < p->steps[s].n_ins; i++) r->reads_raw[i] = true;
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

#endif
