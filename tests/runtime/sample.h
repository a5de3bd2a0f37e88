/* Two programs made by hand, with kernels that the system's compiler makes when the test begins.
 *
 * "pick": x f32[batch,4] -> fc (packed weight, raw bias) -> h f32[batch,3] -> flat (alias)
 *   f32[3*batch] -> count (binds n) -> pick (n > 0) or none (n == 0) -> join f32[n] -> double.
 *   Results: flat, double, x.
 * "sum": k i64, c f32[m], d f32[m] -> loop k times { c = c + d; item = c * iteration } -> final c,
 *   items f32[trips,m] -> total (sum over the trips) f32[m]. Results: final, items, total. */
#ifndef CV_TESTS_RUNTIME_SAMPLE_H
#define CV_TESTS_RUNTIME_SAMPLE_H

#include "tests/runtime/sample_build.h"

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
  uint32_t x =
      sample_value(p, (sample_type){CV_F32, 2, batch, sample_const(p, 4)}, CV_VALUE_INPUT, 0, "x");
  uint32_t w = sample_value(p, (sample_type){CV_F32, 2, sample_const(p, 4), sample_const(p, 3)},
                            CV_VALUE_CONST, 0, "w");
  uint32_t b =
      sample_value(p, (sample_type){CV_F32, 1, sample_const(p, 3), 0}, CV_VALUE_CONST, 1, "b");
  uint32_t h =
      sample_value(p, (sample_type){CV_F32, 2, batch, sample_const(p, 3)}, CV_VALUE_STEP, 0, "h");
  uint32_t hf = sample_value(p, (sample_type){CV_F32, 1, flat, 0}, CV_VALUE_STEP, 1, "flat");
  uint32_t c = sample_value(p, (sample_type){CV_I64, 0, 0, 0}, CV_VALUE_STEP, 2, "count");
  uint32_t some = sample_value(p, (sample_type){CV_F32, 1, n, 0}, CV_VALUE_STEP, 3, "some");
  uint32_t none = sample_value(p, (sample_type){CV_F32, 1, n, 0}, CV_VALUE_STEP, 4, "none");
  uint32_t j = sample_value(p, (sample_type){CV_F32, 1, n, 0}, CV_VALUE_STEP, 5, "joined");
  uint32_t d = sample_value(p, (sample_type){CV_F32, 1, n, 0}, CV_VALUE_STEP, 6, "double");
  sample_step(p, "fc", CV_STEP_KERNEL, (sample_list){3, {x, w, b}}, (sample_list){1, {h}})->flops =
      cv_expr_mul(e, sample_const(p, 24), batch);
  sample_step(p, "flatten", CV_STEP_ALIAS, (sample_list){1, {h}}, (sample_list){1, {hf}});
  cv_step *count =
      sample_step(p, "counter", CV_STEP_KERNEL, (sample_list){1, {hf}}, (sample_list){1, {c}});
  count->n_binds = 1;
  count->binds = cv_arena_copy(&p->arena, &(cv_bind){.sym = n_sym, .value = c}, sizeof(cv_bind));
  cv_step *pick =
      sample_step(p, "picker", CV_STEP_KERNEL, (sample_list){1, {hf}}, (sample_list){1, {some}});
  p->values[some].guard = pick->guard = cv_expr_lt(e, zero, n);
  cv_step *no =
      sample_step(p, "nothing", CV_STEP_KERNEL, (sample_list){1, {hf}}, (sample_list){1, {none}});
  p->values[none].guard = no->guard = cv_expr_eq(e, zero, n);
  sample_step(p, "join", CV_STEP_ALIAS, (sample_list){2, {some, none}}, (sample_list){1, {j}});
  sample_step(p, "doubler", CV_STEP_KERNEL, (sample_list){1, {j}}, (sample_list){1, {d}});
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
  uint32_t it = sample_value(p, (sample_type){CV_I64, 0, 0, 0}, CV_VALUE_INPUT, 0, "it");
  uint32_t go = sample_value(p, (sample_type){CV_BOOL, 0, 0, 0}, CV_VALUE_INPUT, 1, "go");
  uint32_t c = sample_value(p, (sample_type){CV_F32, 1, m, 0}, CV_VALUE_INPUT, 2, "c");
  uint32_t d = sample_value(p, (sample_type){CV_F32, 1, m, 0}, CV_VALUE_INPUT, 3, "d");
  uint32_t next = sample_value(p, (sample_type){CV_F32, 1, m, 0}, CV_VALUE_STEP, 0, "next");
  uint32_t item = sample_value(p, (sample_type){CV_F32, 1, m, 0}, CV_VALUE_STEP, 1, "item");
  sample_step(p, "adder", CV_STEP_KERNEL, (sample_list){2, {c, d}}, (sample_list){1, {next}});
  sample_step(p, "scaler", CV_STEP_KERNEL, (sample_list){1, {next}}, (sample_list){1, {item}});
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
  uint32_t k = sample_value(p, (sample_type){CV_I64, 0, 0, 0}, CV_VALUE_INPUT, 0, "k");
  uint32_t c = sample_value(p, (sample_type){CV_F32, 1, m, 0}, CV_VALUE_INPUT, 1, "c");
  uint32_t d = sample_value(p, (sample_type){CV_F32, 1, m, 0}, CV_VALUE_INPUT, 2, "d");
  uint32_t final = sample_value(p, (sample_type){CV_F32, 1, m, 0}, CV_VALUE_STEP, 0, "final");
  uint32_t items = sample_value(p, (sample_type){CV_F32, 2, trips, m}, CV_VALUE_STEP, 0, "items");
  uint32_t total = sample_value(p, (sample_type){CV_F32, 1, m, 0}, CV_VALUE_STEP, 1, "total");
  cv_step *loop = sample_step(p, "loop", CV_STEP_LOOP, (sample_list){4, {k, CV_NONE, c, d}},
                              (sample_list){2, {final, items}});
  loop->loop = cv_arena_new(&p->arena, cv_loop);
  sample_step(p, "totaller", CV_STEP_KERNEL, (sample_list){1, {items}}, (sample_list){1, {total}});
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
