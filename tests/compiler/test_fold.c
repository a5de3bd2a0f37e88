#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/pass_case.h"

static void folds_to(const char *body, const char *params, const char *part) {
  cv_str text = {0};
  cv_str_add(&text, "graph \"g\" (%s) {\n%s} -> (%%y \"y\")\n", params, body);
  cv_graph *g = graph_of(text.data);
  run_pass(g, cv_pass_fold);
  run_pass(g, cv_pass_dce);
  expect_text(g, part);
  cv_graph_destroy(g);
  cv_str_deinit(&text);
}

static void test_constants(void **state) {
  (void)state;
  folds_to("%a: f32[2] = const {1, 2}\n%y: f32[2] = neg(%a)\n", "", "const {-0x1p+0, -0x1p+1}");
  folds_to("%a: f32[2,2] = const {1, 2, 3, 4}\n%y: f32[2,2] = matmul(%a, %a) {to=f32}\n", "",
           "const {0x1.cp+2, 0x1.4p+3, 0x1.ep+3, 0x1.6p+4}");
  folds_to("%a: i64[2] = extents() {exprs=[3,4]}\n%y: i64[2] = add(%a, %a)\n", "", "const {6, 8}");
  folds_to("%y: i64[3] = iota() {dims=[3], axis=0, to=i64}\n", "", "const {0, 1, 2}");
}

/* What has no elements is a constant, whatever it would be computed from. */
static void test_empty(void **state) {
  (void)state;
  folds_to("%y: f32[0] = reduce(%x) {kind=\"sum\", axes=[0,2]}\n", "%x: f32[2,0,4]",
           "f32[0] = splat 0x0p+0");
  folds_to("%y: f32[n,0] = exp(%x)\n", "%x: f32[n,0]", "f32[n,0] = splat 0x0p+0");
  folds_to("%y: f32[4] = reduce(%x) {kind=\"sum\", axes=[0]}\n", "%x: f32[0,4]", "reduce");
}

/* A splat stays one, also under symbolic dims. */
static void test_splats(void **state) {
  (void)state;
  folds_to("%a: f32[n,2] = splat 2\n%b: f32[n,2] = splat 3\n%y: f32[n,2] = mul(%a, %b)\n",
           "%x: f32[n]", "f32[n,2] = splat 0x1.8p+2");
  folds_to("%a: f32[n,2] = splat 2\n%y: f32[2*n] = reshape(%a) {dims=[2*n]}\n", "%x: f32[n]",
           "f32[2*n] = splat 0x1p+1");
  folds_to(
      "%a: f32[] = const {2}\n%b: f32[1] = reshape(%a) {dims=[1]}\n"
      "%y: f32[n] = broadcast(%b) {dims=[n]}\n",
      "%x: f32[n]", "f32[n] = splat 0x1p+1");
  folds_to("%a: f32[n] = splat 2\n%b: f32[3] = splat 2\n%y: f32[n + 3] = concat(%a, %b) {axis=0}\n",
           "%x: f32[n]", "splat 0x1p+1");
}

/* What would grow stays, and so does what cannot be computed. */
static void test_kept(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[n]) {\n%a: i8[2] = const {1, 2}\n"
      "%b: i8[1,2] = reshape(%a) {dims=[1,2]}\n%c: i8[5000,2] = broadcast(%b) {dims=[5000,2]}\n"
      "%d: i64[] = const {9}\n%e: i8[] = gather(%a, %d) {axis=0}\n"
      "} -> (%c \"c\", %e \"e\")\n");
  run_pass(g, cv_pass_fold);
  run_pass(g, cv_pass_dce);
  assert_int_equal(count_op(g, CV_OP_broadcast), 1);
  assert_int_equal(count_op(g, CV_OP_gather), 1); /* out of range: an error at run time */
  assert_int_equal(count_op(g, CV_OP_reshape), 0);
  cv_graph_destroy(g);
}

/* A bind of what is constant: the symbol becomes it everywhere. */
static void test_bind(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[4]) {\n%c: f32[3] = const {1, 0, 2}\n%k: i64[] = nonzero_count(%c)\n"
      "bind(%k) {exprs=[k]}\n%y: f32[k] = slice(%x) {starts=[0], dims=[k], steps=[1]}\n"
      "} -> (%y \"y\")\n");
  run_pass(g, cv_pass_fold);
  assert_int_equal(count_op(g, CV_OP_bind), 0);
  expect_text(g, "f32[2] = slice");
  cv_graph_destroy(g);
}

static void test_join(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "symbol p [0, 1]\ngraph \"g\" (%x: f32[4]) {\n%c: bool[] = const {0}\nbind(%c) {exprs=[p]}\n"
      "%a: f32[4] = neg(%x) when p\n%b: f32[4] = exp(%x) when 1 - p\n"
      "%y: f32[4] = join(%a, %b) {guard=p}\n} -> (%y \"y\")\n");
  run_pass(g, cv_pass_fold);
  run_pass(g, cv_pass_dce);
  assert_int_equal(g->body->nodes.len, 1);
  assert_int_equal(count_op(g, CV_OP_exp), 1);
  cv_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_constants), cmocka_unit_test(test_empty), cmocka_unit_test(test_splats),
      cmocka_unit_test(test_kept),      cmocka_unit_test(test_bind),  cmocka_unit_test(test_join),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
