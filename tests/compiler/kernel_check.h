/* Renders graphs given as text, compiles them in one go, and runs the kernels in many ways: results
 * must be the interpreter's within a tolerance, and their bits the same however the tasks are
 * split. */
#ifndef TESTS_COMPILER_KERNEL_CHECK_H
#define TESTS_COMPILER_KERNEL_CHECK_H

#include "tests/compiler/kernel_set.h"

/* ---- tensors ---- */

static void check_dims(const cv_graph *graph, cv_val v, const int64_t *symbols, cv_tensor *out) {
  const cv_type *type = cv_type_of(graph, v);
  int64_t dims[CV_MAX_RANK];
  for (int i = 0; i < type->rank; i++) {
    assert_int_equal(cv_expr_eval(graph->exprs, type->dims[i], symbols, &dims[i]), CV_OK);
  }
  assert_int_equal(cv_tensor_create(type->dtype, type->rank, dims, out), CV_OK);
}

static void check_fill(cv_tensor *t, const char *name, double limit) {
  int64_t n = 0;
  size_t size = cv_dtype_size(t->dtype);
  bool index = name != NULL && name[0] == 'i';
  if (limit == 0) limit = 3;
  assert_true(cv_dims_count(t->rank, t->dims, &n));
  for (int64_t i = 0; i < n; i++) {
    void *element = (char *)t->data + (size_t)i * size;
    double x = (2 * check_random() - 1) * limit;
    if (index) x = floor(x);
    if (t->dtype == CV_BOOL)
      *(uint8_t *)element = check_random() < 0.5;
    else if (cv_dtype_kind(t->dtype) == 'f')
      cv_element_from_double(t->dtype, x, element);
    else if (cv_dtype_kind(t->dtype) == 'u')
      cv_element_from_int(t->dtype, (int64_t)fabs(x), element);
    else
      cv_element_from_int(t->dtype, (int64_t)x, element);
  }
}

static bool check_close_to(double a, double b, double tolerance) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (isinf(a) || isinf(b)) return a == b;
  return fabs(a - b) <= tolerance * (fabs(b) > 1 ? fabs(b) : 1);
}

static double check_tolerance(cv_dtype dtype, double wanted) {
  double least = dtype == CV_F16    ? 2e-3
                 : dtype == CV_BF16 ? 1.6e-2
                 : dtype == CV_F64  ? 1e-12
                                    : 2e-6;
  return wanted > least ? wanted : least;
}

static void check_equal(const kernel_case *c, const cv_tensor *have, const cv_tensor *want) {
  int64_t n = 0;
  assert_true(cv_dims_count(want->rank, want->dims, &n));
  size_t size = cv_dtype_size(want->dtype);
  for (int64_t i = 0; i < n; i++) {
    const void *a = (const char *)have->data + (size_t)i * size;
    const void *b = (const char *)want->data + (size_t)i * size;
    if (cv_dtype_kind(want->dtype) == 'f') {
      double x = cv_element_to_double(want->dtype, a), y = cv_element_to_double(want->dtype, b);
      if (check_close_to(x, y, check_tolerance(want->dtype, c->tolerance))) continue;
      fail_msg("element %lld: %.9g, wanted %.9g\n%s", (long long)i, x, y, c->text);
    } else if (memcmp(a, b, size) != 0) {
      fail_msg("element %lld: %lld, wanted %lld\n%s", (long long)i,
               (long long)cv_element_to_int(want->dtype, a),
               (long long)cv_element_to_int(want->dtype, b), c->text);
    }
  }
}

/* ---- running ---- */

typedef struct {
  uint32_t n_ptrs;
  void *ptrs[32];
  int64_t dims[16];
} kernel_call;

/* Each phase's tasks in pieces of `piece`, from the last to the first if `back`. */
static int check_run(const cv_kernel *kernel, const kernel_call *call, int64_t piece, bool back) {
  cv_kernel_plan plan;
  memset(&plan, 0xff, sizeof plan);
  int code = kernel->prepare(call->dims, &plan);
  if (code != 0) return code;
  assert_true(plan.phases >= 1 && plan.phases <= CV_KERNEL_MAX_PHASES);
  char *own = cv_alloc_aligned(64, (size_t)plan.scratch_thread + 64);
  char *shared = cv_alloc_aligned(64, (size_t)plan.scratch_shared + 64);
  for (int phase = 0; phase < plan.phases && code == 0; phase++) {
    int64_t pieces = (plan.tasks[phase] + piece - 1) / piece;
    for (int64_t k = 0; k < pieces && code == 0; k++) {
      int64_t first = (back ? pieces - 1 - k : k) * piece, last = first + piece;
      if (last > plan.tasks[phase]) last = plan.tasks[phase];
      code = kernel->run(phase, first, last, 0, call->ptrs, call->dims, own, shared);
    }
  }
  cv_free(own);
  cv_free(shared);
  return code;
}

static void check_pack(kernel_set *set, size_t i, const kernel_case *c, kernel_call *call) {
  const cv_rendered *r = &set->rendered[i];
  for (uint32_t k = 0; k < r->n_packs; k++) {
    int64_t bytes = 0;
    assert_int_equal(cv_expr_eval(set->graphs[i]->exprs, r->packs[k].bytes, c->symbols, &bytes),
                     CV_OK);
    void *packed = cv_alloc_aligned(64, (size_t)bytes + 64);
    assert_int_equal(set->kernels->kernels[i].pack((int)k, call->ptrs, call->dims, packed), 0);
    call->ptrs[call->n_ptrs++] = packed;
  }
}

static bool check_leads(const cv_graph *graph, cv_val v, cv_sym *batch) {
  const cv_type *type = cv_type_of(graph, v);
  return type->rank > 0 && cv_expr_is_symbol(graph->exprs, type->dims[0], batch) &&
         strcmp(cv_symbol_name(graph->exprs, *batch), "b") == 0;
}

/* Where all results have the batch "b" in front: each item alone gives the bits it has in the
 * batch.
 */
static void check_items(kernel_set *set, size_t i, const kernel_case *c, const kernel_call *all,
                        const cv_tensor *have) {
  cv_graph *graph = set->graphs[i];
  const cv_block *block = graph->body;
  size_t n_ins = block->params.len, n_outs = block->results.len;
  cv_sym batch = 0;
  int64_t symbols[64];
  for (size_t k = 0; k < n_outs; k++) {
    if (!check_leads(graph, block->results.data[k], &batch)) return;
  }
  for (int k = 0; k < 64; k++) symbols[k] = CV_UNBOUND;
  memcpy(symbols, c->symbols, sizeof c->symbols);
  int64_t items = symbols[batch];
  symbols[batch] = 1;
  for (int64_t item = 0; item < items; item++) {
    kernel_call call = *all;
    for (uint32_t k = 0; k < set->rendered[i].n_dims; k++) {
      assert_int_equal(cv_expr_eval(graph->exprs, set->rendered[i].dims[k], symbols, &call.dims[k]),
                       CV_OK);
    }
    for (size_t k = 0; k < n_ins; k++) {
      cv_tensor one;
      if (!check_leads(graph, block->params.data[k], &batch)) continue;
      check_dims(graph, block->params.data[k], symbols, &one);
      call.ptrs[k] = (char *)call.ptrs[k] + (uint64_t)item * one.bytes;
      cv_tensor_deinit(&one);
    }
    cv_tensor outs[4] = {0};
    for (size_t k = 0; k < n_outs; k++) {
      check_dims(graph, block->results.data[k], symbols, &outs[k]);
      call.ptrs[n_ins + k] = outs[k].data;
    }
    assert_int_equal(check_run(&set->kernels->kernels[i], &call, 1 << 30, false), 0);
    for (size_t k = 0; k < n_outs; k++) {
      const char *want = (const char *)have[k].data + (uint64_t)item * outs[k].bytes;
      if (outs[k].bytes > 0 && memcmp(outs[k].data, want, outs[k].bytes) != 0) {
        fail_msg("item %lld alone gives other bits\n%s", (long long)item, c->text);
      }
      cv_tensor_deinit(&outs[k]);
    }
  }
}

static void check_case(kernel_set *set, size_t i, const kernel_case *c) {
  cv_graph *graph = set->graphs[i];
  const cv_block *block = graph->body;
  const cv_kernel *kernel = &set->kernels->kernels[i];
  cv_tensor ins[24] = {0}, want[4] = {0}, have[4] = {0}, again[4] = {0};
  size_t n_ins = block->params.len, n_outs = block->results.len;
  kernel_call call = {0};
  int64_t symbols[64];
  for (int k = 0; k < 64; k++) symbols[k] = CV_UNBOUND;
  memcpy(symbols, c->symbols, sizeof c->symbols);
  for (uint32_t k = 0; k < set->rendered[i].n_dims; k++) {
    assert_int_equal(cv_expr_eval(graph->exprs, set->rendered[i].dims[k], symbols, &call.dims[k]),
                     CV_OK);
  }
  for (size_t k = 0; k < n_ins; k++) {
    cv_val v = block->params.data[k];
    check_dims(graph, v, symbols, &ins[k]);
    check_fill(&ins[k], cv_value_of(graph, v)->name, c->limit);
    call.ptrs[call.n_ptrs++] = ins[k].data;
  }
  uint32_t first_out = call.n_ptrs;
  for (size_t k = 0; k < n_outs; k++) {
    check_dims(graph, block->results.data[k], symbols, &have[k]);
    check_dims(graph, block->results.data[k], symbols, &again[k]);
    call.ptrs[call.n_ptrs++] = have[k].data;
  }
  uint32_t first_pack = call.n_ptrs;
  check_pack(set, i, c, &call);
  int code = check_run(kernel, &call, 1 << 30, false);
  if (code != c->fails) fail_msg("run gives %d, wanted %d\n%s", code, c->fails, c->text);
  for (size_t k = 0; k < n_outs && code == 0; k++) call.ptrs[first_out + k] = again[k].data;
  for (int64_t piece = 1; piece <= 3 && code == 0; piece++) {
    assert_int_equal(check_run(kernel, &call, piece, piece != 2), 0);
    for (size_t k = 0; k < n_outs; k++) {
      if (again[k].bytes > 0 && memcmp(again[k].data, have[k].data, again[k].bytes) != 0) {
        fail_msg("tasks in pieces of %lld give other bits\n%s", (long long)piece, c->text);
      }
    }
  }
  if (code == 0) check_items(set, i, c, &call, have);
  cv_status status = cv_graph_interpret(graph, ins, symbols, want);
  if ((status == CV_OK) != (c->fails == 0)) fail_msg("%s\n%s", cv_error_text(), c->text);
  for (size_t k = 0; k < n_outs && code == 0; k++) check_equal(c, &have[k], &want[k]);
  for (size_t k = 0; k < n_ins; k++) cv_tensor_deinit(&ins[k]);
  for (size_t k = 0; k < n_outs; k++) {
    cv_tensor_deinit(&want[k]);
    cv_tensor_deinit(&have[k]);
    cv_tensor_deinit(&again[k]);
  }
  for (uint32_t k = first_pack; k < call.n_ptrs; k++) cv_free(call.ptrs[k]);
}

/* All cases on one target. */
static void check_cases(const char *target, const kernel_case *cases, size_t n) {
  kernel_set set = {
      .arena = {.may_die = true}, .code = {.may_die = true}, .table = {.may_die = true}};
  if (cv_target_find(target, &set.target) != CV_OK) fail_msg("%s", cv_error_text());
  for (size_t i = 0; i < n; i++) check_add(&set, &cases[i]);
  check_compile(&set);
  for (size_t i = 0; i < n; i++) check_case(&set, i, &cases[i]);
  check_close(&set);
}

/* The same for AVX2, where this CPU may have it. */
static inline void check_cases_on_avx2(const kernel_case *cases, size_t n) {
  const cv_target *native;
  assert_int_equal(cv_target_find("native", &native), CV_OK);
  if (strcmp(native->arch, "x86-64") != 0) skip();
  check_cases("x86-64-v3", cases, n);
}

#endif
