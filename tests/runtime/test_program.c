#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "tests/each_fault.h"
#include "runtime/program.h"

/* A program of four steps:
 *   in0 -> s0 -> v1 -> s1 -> v2 -> s2 -> v3;  s3 reads v1, in1 and a constant -> v4; results v3, v4
 */
typedef struct {
  cv_program *program;
  cv_value values[7];
  cv_step steps[4];
  cv_const consts[1];
  cv_port inputs[2], outputs[2];
  uint32_t ids[4][4];
} fixture;

enum { IN0, IN1, CONST, V1, V2, V3, V4 };

static void add_step(fixture *f, uint32_t s, const char *name, uint32_t out) {
  f->steps[s] = (cv_step){.name = name,
                          .kind = CV_STEP_KERNEL,
                          .body = "text",
                          .pattern = "map",
                          .regions = "",
                          .nodes = "",
                          .n_outs = 1,
                          .ins = f->ids[s],
                          .outs = &f->ids[s][3]};
  f->steps[s].guard = cv_expr_const(f->program->exprs, 1);
  f->steps[s].flops = cv_expr_const(f->program->exprs, 0);
  f->ids[s][3] = out;
}

static void add_in(fixture *f, uint32_t s, uint32_t v) { f->ids[s][f->steps[s].n_ins++] = v; }

static void setup(fixture *f) {
  static const char *const names[] = {"in0", "in1", "w", "v1", "v2", "v3", "v4"};
  static const float weights[3];
  memset(f, 0, sizeof *f);
  cv_exprs *exprs = cv_exprs_create(false);
  f->program = cv_program_create(exprs, true, false);
  cv_program *p = f->program;
  for (uint32_t v = 0; v < 7; v++) {
    f->values[v] = (cv_value){.name = names[v], .dtype = CV_F32, .rank = 1, .fixed_width = true};
    f->values[v].dims[0] = cv_expr_const(exprs, 3);
    f->values[v].guard = cv_expr_const(exprs, 1);
    f->values[v].kind = v < 2 ? CV_VALUE_INPUT : v == CONST ? CV_VALUE_CONST : CV_VALUE_STEP;
    f->values[v].source = v < 2 ? v : v == CONST ? 0 : v - V1;
  }
  f->consts[0] = (cv_const){.dtype = CV_F32, .rank = 1, .dims = {3}, .bytes = 12, .data = weights};
  add_step(f, 0, "s0", V1);
  add_step(f, 1, "s1", V2);
  add_step(f, 2, "s2", V3);
  add_step(f, 3, "s3", V4);
  add_in(f, 0, IN0);
  add_in(f, 1, V1);
  add_in(f, 2, V2);
  add_in(f, 3, V1);
  add_in(f, 3, IN1);
  add_in(f, 3, CONST);
  f->inputs[0] = (cv_port){.value = IN0, .batch_axis = -1, .batch_factor = 1};
  f->inputs[1] = (cv_port){.value = IN1, .batch_axis = -1, .batch_factor = 1};
  f->outputs[0] = (cv_port){.value = V3, .batch_axis = -1, .batch_factor = 1};
  f->outputs[1] = (cv_port){.value = V4, .batch_axis = -1, .batch_factor = 1};
  p->values = f->values;
  p->n_values = 7;
  p->steps = f->steps;
  p->n_steps = 4;
  p->consts = f->consts;
  p->n_consts = 1;
  p->inputs = f->inputs;
  p->n_inputs = 2;
  p->outputs = f->outputs;
  p->n_outputs = 2;
  p->separable_why = "not asked";
}

static void expect_live(const cv_program *p, uint32_t position, uint32_t n, const uint32_t *ids) {
  uint32_t out[7];
  assert_int_equal(cv_program_live(p, position, out), n);
  assert_memory_equal(out, ids, n * sizeof *ids);
}

static void test_live(void **state) {
  (void)state;
  fixture f;
  setup(&f);
  expect_live(f.program, 0, 2, (uint32_t[]){IN0, IN1});
  expect_live(f.program, 1, 2, (uint32_t[]){IN1, V1});
  expect_live(f.program, 2, 3, (uint32_t[]){IN1, V1, V2});
  expect_live(f.program, 3, 3, (uint32_t[]){IN1, V1, V3});
  expect_live(f.program, 4, 2, (uint32_t[]){V3, V4});
  cv_program_destroy(f.program);
}

static void test_cut_legal(void **state) {
  (void)state;
  fixture f;
  setup(&f);
  assert_false(cv_program_cut_legal(f.program, 0));
  assert_false(cv_program_cut_legal(f.program, 4));
  for (uint32_t i = 1; i < 4; i++) assert_true(cv_program_cut_legal(f.program, i));
  f.values[V2].fixed_width = false; /* lives at cut 2 alone */
  assert_true(cv_program_cut_legal(f.program, 1));
  assert_false(cv_program_cut_legal(f.program, 2));
  assert_true(cv_program_cut_legal(f.program, 3));
  f.values[V3].fixed_width = false; /* a result */
  assert_false(cv_program_cut_legal(f.program, 3));
  cv_program_destroy(f.program);
}

static void test_ports(void **state) {
  (void)state;
  fixture f;
  setup(&f);
  uint32_t ins[7], outs[7], n_ins, n_outs;
  cv_program_slice_ports(f.program, 0, 1, ins, &n_ins, outs, &n_outs);
  assert_int_equal(n_ins, 1);
  assert_int_equal(ins[0], IN0);
  assert_int_equal(n_outs, 2);
  assert_int_equal(outs[0], V1);
  assert_int_equal(outs[1], V2);
  cv_program_slice_ports(f.program, 2, 3, ins, &n_ins, outs, &n_outs);
  assert_int_equal(n_ins, 3);
  assert_int_equal(ins[0], IN1); /* a late input */
  assert_int_equal(ins[1], V1);
  assert_int_equal(ins[2], V2);
  assert_int_equal(n_outs, 2);
  cv_program_slice_ports(f.program, 0, 3, ins, &n_ins, outs, &n_outs);
  assert_int_equal(n_ins, 2);
  assert_int_equal(n_outs, 2);
  f.outputs[1].value = IN1; /* an input that is a result passes through the first slice */
  cv_program_slice_ports(f.program, 0, 0, ins, &n_ins, outs, &n_outs);
  assert_int_equal(n_ins, 2);
  assert_int_equal(ins[1], IN1);
  assert_int_equal(n_outs, 2);
  assert_int_equal(outs[0], IN1);
  assert_int_equal(outs[1], V1);
  cv_program_slice_ports(f.program, 1, 2, ins, &n_ins, outs, &n_outs);
  assert_int_equal(n_outs, 1);
  assert_int_equal(outs[0], V3);
  cv_program_destroy(f.program);
}

static void expect_bad(const fixture *f, const char *what) {
  assert_int_equal(cv_program_verify(f->program), CV_CORRUPT);
  if (!strstr(cv_error_text(), what)) fail_msg("'%s' lacks '%s'", cv_error_text(), what);
}

/* Each row breaks one thing. */
static void test_verify_checks(void **state) {
  (void)state;
  fixture f;
  setup(&f);
  cv_expr one = cv_expr_const(f.program->exprs, 1);
  cv_check check = {one, one, one, ""};
  f.program->checks = &check;
  f.program->n_checks = 1;
  assert_int_equal(cv_program_verify(f.program), CV_OK);
  check.a = CV_EXPR_NONE;
  expect_bad(&f, "check 0");
  check = (cv_check){one, one, one, NULL};
  expect_bad(&f, "check 0");
  cv_program_destroy(f.program);
}

static void test_verify(void **state) {
  (void)state;
  fixture f;
  setup(&f);
  assert_int_equal(cv_program_verify(f.program), CV_OK);
#define BREAK(place, wrong, what)      \
  do {                                 \
    __typeof__(place) right = (place); \
    (place) = wrong;                   \
    expect_bad(&f, what);              \
    (place) = right;                   \
  } while (0)
  BREAK(f.values[V1].name, "in0", "both named");
  BREAK(f.values[V1].name, NULL, "no name");
  BREAK(f.values[V1].dtype, (cv_dtype)99, "dtype");
  BREAK(f.values[V1].rank, 9, "rank");
  BREAK(f.values[V1].dims[0], CV_EXPR_NONE, "lacks dim");
  BREAK(f.values[V1].guard, CV_EXPR_NONE, "guard");
  BREAK(f.values[V1].kind, (cv_value_kind)7, "kind");
  BREAK(f.values[V1].source, 4, "source");
  BREAK(f.values[CONST].dims[0], f.program->exprs ? cv_expr_const(f.program->exprs, 4) : 0,
        "dim 0");
  BREAK(f.values[CONST].dtype, CV_I32, "type");
  BREAK(f.consts[0].bytes, 13, "bytes");
  BREAK(f.consts[0].dims[0], -1, "impossible");
  BREAK(f.consts[0].dims[0], INT64_MAX, "impossible");
  BREAK(f.steps[1].name, "s0", "both named");
  BREAK(f.ids[1][0], V3, "before it is made");
  BREAK(f.ids[1][0], 7, "of 7");
  BREAK(f.ids[1][0], CV_NONE, "of 7");
  BREAK(f.ids[1][3], V3, "not its own");
  BREAK(f.steps[1].n_outs, 0, "made by no step");
  BREAK(f.steps[1].body, NULL, "no body");
  BREAK(f.steps[1].pattern, "fancy", "pattern");
  BREAK(f.steps[1].kind, (cv_step_kind)5, "kind");
  BREAK(f.steps[1].kind, CV_STEP_LOOP, "no body");
  BREAK(f.steps[1].guard, CV_EXPR_NONE, "guard");
  BREAK(f.inputs[0].value, IN1, "input 0");
  BREAK(f.inputs[0].value, 70, "of 7");
  BREAK(f.inputs[0].batch_axis, 1, "batch axis");
  BREAK(f.outputs[0].value, 70, "of 7");
  BREAK(f.outputs[0].batch_axis, -2, "batch axis");
  BREAK(f.program->separable, true, "no batch");
  BREAK(f.program->batch, 3, "symbol");
  cv_bind bind = {0, V1, 0};
  cv_exprs_symbol(f.program->exprs, "n", 0, 10);
  f.steps[0].binds = &bind;
  f.steps[0].n_binds = 1;
  expect_bad(&f, "holds f32");
  f.values[V1].dtype = CV_I64;
  assert_int_equal(cv_program_verify(f.program), CV_OK);
  BREAK(bind.element, 3, "not that many");
  BREAK(bind.sym, 1, "symbol");
  BREAK(bind.value, 9, "of 7");
  BREAK(bind.value, V2, "holds f32");
  f.steps[0].n_binds = 0;
  cv_state_pair pair = {0, 2};
  f.program->states = &pair;
  f.program->n_states = 1;
  expect_bad(&f, "state");
  f.program->n_states = 0;
  cv_target_code target = {.name = "t", .arch = "a", .features = "", .toolchain = ""};
  f.program->targets = &target;
  f.program->n_targets = 1;
  expect_bad(&f, "layouts");
  uint32_t layouts[7] = {0};
  target.layouts = layouts;
  expect_bad(&f, "no rendering");
  cv_program_destroy(f.program);
}

/* A step that runs a body: the same program as its own body, with ports that fit. */
static void test_verify_loop(void **state) {
  (void)state;
  fixture f;
  setup(&f);
  cv_exprs *exprs = f.program->exprs;
  cv_program body = {.exprs = exprs, .consts = f.consts, .n_consts = 1, .batch = CV_NONE};
  cv_value values[3] = {f.values[IN0], f.values[IN0], f.values[IN0]};
  cv_port inputs[3] = {{0, -1, 1}, {1, -1, 1}, {2, -1, 1}}, outputs[2] = {{1, -1, 1}, {2, -1, 1}};
  static const char *const names[] = {"iteration", "condition", "carried"};
  for (uint32_t i = 0; i < 3; i++) {
    values[i].name = names[i];
    values[i].source = i;
  }
  body.values = values;
  body.n_values = 3;
  body.inputs = inputs;
  body.n_inputs = 3;
  body.outputs = outputs;
  body.n_outputs = 2;
  body.separable_why = "";
  cv_loop loop = {.body = &body, .carried = 1, .trips = CV_NONE, .max_trips = 5};
  f.steps[1].kind = CV_STEP_LOOP;
  f.steps[1].loop = &loop;
  f.ids[1][0] = CV_NONE;
  f.ids[1][1] = CV_NONE;
  f.ids[1][2] = V1;
  f.steps[1].n_ins = 3;
  assert_int_equal(cv_program_verify(f.program), CV_OK);
  BREAK(loop.carried, 2, "differ");
  BREAK(loop.stacked, UINT32_MAX, "differ");
  BREAK(loop.max_trips, -1, "bound");
  BREAK(loop.trips, 8, "symbol");
  BREAK(body.n_outputs, 1, "differ");
  BREAK(body.consts, NULL, "of its own");
  BREAK(values[2].dtype, CV_F64, "type");
  BREAK(f.ids[1][2], CV_NONE, "reads value");
  f.steps[1].loop = NULL; /* not from the arena: not the program's to free */
  cv_program_destroy(f.program);
}

static cv_status verify_only(void *arg) { return cv_program_verify(((fixture *)arg)->program); }

static void test_faults(void **state) {
  (void)state;
  fixture f;
  setup(&f);
  assert_true(each_fault(verify_only, &f) > 0);
  cv_program_destroy(f.program);
}

static void test_destroy(void **state) {
  (void)state;
  cv_program_destroy(NULL);
  cv_program *half = cv_program_create(cv_exprs_create(false), true, false);
  half->n_steps = 3; /* arrays not there yet */
  cv_program_destroy(half);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_live),          cmocka_unit_test(test_cut_legal),
      cmocka_unit_test(test_ports),         cmocka_unit_test(test_verify),
      cmocka_unit_test(test_verify_checks), cmocka_unit_test(test_verify_loop),
      cmocka_unit_test(test_faults),        cmocka_unit_test(test_destroy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
