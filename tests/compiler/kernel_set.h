/* Graphs given as text, rendered and compiled in one go. */
#ifndef TESTS_COMPILER_KERNEL_SET_H
#define TESTS_COMPILER_KERNEL_SET_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "compiler/render_internal.h"
#include "compiler/toolchain.h"
#include "runtime/half.h"
#include "runtime/kernel_abi.h"
#include "runtime/tensor.h"

typedef struct {
  const char *text; /* of the graph */
  double
      limit; /* params named i...: indices in [-limit, limit); others: values in that range; 0: 3 */
  double tolerance; /* relative; 0: 2e-6 for f32, exact for integers */
  int64_t symbols[4];
  int fails; /* the code that run returns; outputs are not looked at */
} kernel_case;

typedef struct {
  const cv_target *target;
  cv_arena arena;
  cv_str code, table;
  size_t n;
  cv_graph *graphs[512];
  cv_rendered rendered[512];
  void *library;
  const cv_kernel_table *kernels;
} kernel_set;

static uint64_t check_seed = 1;

static inline double check_random(void) {
  check_seed = check_seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(check_seed >> 11) * 0x1p-53;
}

static inline void check_add(kernel_set *set, const kernel_case *c) {
  char name[32];
  cv_graph *graph = NULL;
  size_t i = set->n++;
  assert_true(i < sizeof set->graphs / sizeof set->graphs[0]);
  if (cv_graph_parse(c->text, NULL, NULL, NULL, &graph) != CV_OK) {
    fail_msg("%s\n%s", cv_error_text(), c->text);
  }
  (void)snprintf(name, sizeof name, "k%zu", i);
  if (cv_render_step(set->target, graph, name, &set->arena, &set->code, &set->rendered[i]) !=
      CV_OK) {
    fail_msg("%s\n%s", cv_error_text(), c->text);
  }
  cv_str_add(&set->table, "{%s_prepare, %s_run, ", name, name);
  if (set->rendered[i].n_packs > 0)
    cv_str_add(&set->table, "%s_pack},\n", name);
  else
    cv_str_puts(&set->table, "0},\n");
  set->graphs[i] = graph;
}

static inline void check_compile(kernel_set *set) {
  cv_str all = {.may_die = true};
  cv_toolchain_result result;
  char path[] = "/tmp/cuvil-test-XXXXXX";
  cv_unit_source(set->target, cv_str_text(&set->code), &all);
  cv_str_add(&all,
             "static const cv_kernel all[] = {%s};\n__attribute__((visibility(\"default\"))) const "
             "cv_kernel_table cv_kernels = {%d, %zu, all};\n",
             cv_str_text(&set->table), CV_KERNEL_ABI, set->n);
  const char *source = cv_str_text(&all), *keep = getenv("KEEP");
  if (keep != NULL) {
    FILE *file = fopen(keep, "w");
    assert_non_null(file);
    (void)fputs(source, file);
    (void)fclose(file);
  }
  if (cv_toolchain_compile(set->target, &source, 1, NULL, &set->arena, &result) != CV_OK) {
    fail_msg("%s", cv_error_text());
  }
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal(write(file, result.code, result.bytes), (ssize_t)result.bytes);
  (void)close(file);
  set->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (set->library == NULL) fail_msg("%s", dlerror());
  (void)unlink(path);
  set->kernels = dlsym(set->library, "cv_kernels");
  assert_non_null(set->kernels);
  assert_int_equal(set->kernels->count, set->n);
  cv_str_deinit(&all);
}

static inline void check_close(kernel_set *set) {
  for (size_t i = 0; i < set->n; i++) cv_graph_destroy(set->graphs[i]);
  if (set->library != NULL) (void)dlclose(set->library);
  cv_str_deinit(&set->code);
  cv_str_deinit(&set->table);
  cv_arena_deinit(&set->arena);
}

#endif
