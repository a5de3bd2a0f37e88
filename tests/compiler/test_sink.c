#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/pass_case.h"

/* The op and type of the node that makes result i. */
static void expect_result(const cv_graph *g, size_t i, cv_op op, const char *type) {
  cv_val v = g->body->results.data[i];
  assert_int_equal(cv_value_of(g, v)->def->op, op);
  assert_string_equal(cv_type_text((cv_graph *)(uintptr_t)g, cv_type_of(g, v)), type);
}

static void test_past_elementwise(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[5*n,3], %w: f32[3,4], %r: f32[n,5,4]) {\n"
      "%a: f32[5*n,4] = matmul(%x, %w) {to=f32}\n%b: f32[n,5,4] = reshape(%a) {dims=[n,5,4]}\n"
      "%c: f32[n,5,4] = add(%b, %r)\n%y: f32[n,5,4] = exp(%c)\n} -> (%y \"y\")\n");
  run_pass(g, cv_pass_sink);
  expect_result(g, 0, CV_OP_reshape, "f32[n,5,4]");
  expect_text(g, "f32[5*n,4] = exp");
  cv_graph_destroy(g);
}

static void test_past_reduce(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[5*n,3], %w: f32[3,4]) {\n%a: f32[5*n,4] = matmul(%x, %w) {to=f32}\n"
      "%b: f32[n,5,4] = reshape(%a) {dims=[n,5,4]}\n"
      "%y: f32[n,5] = reduce(%b) {kind=\"sum\", axes=[2]}\n} -> (%y \"y\")\n");
  run_pass(g, cv_pass_sink);
  expect_text(g, "f32[5*n] = reduce");
  expect_result(g, 0, CV_OP_reshape, "f32[n,5]");
  cv_graph_destroy(g);
}

/* Groups of channels: the common refinement of both shapes. */
static void test_refines(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[n,6,h,2]) {\n%b: f32[n,2,6*h] = reshape(%x) {dims=[n,2,6*h]}\n"
      "%y: f32[n,2] = reduce(%b) {kind=\"sum\", axes=[2]}\n} -> (%y \"y\")\n");
  run_pass(g, cv_pass_sink);
  expect_text(g, "f32[n,2,3,h,2] = reshape");
  expect_text(g, "axes=[2,3,4]");
  cv_graph_destroy(g);
}

/* An operand with the anchor's own dims decides; a reshape of an input stays. */
static void test_stays(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[6], %w: f32[3,2], %v: f32[2,3]) {\n"
      "%a: f32[2,3] = reshape(%x) {dims=[2,3]}\n%y: f32[2,3] = neg(%a)\n"
      "%p: f32[2,2] = matmul(%v, %w) {to=f32}\n%q: f32[4] = reshape(%p) {dims=[4]}\n"
      "%r: f32[2,2] = reshape(%q) {dims=[2,2]}\n%z: f32[2,2] = add(%p, %r)\n"
      "} -> (%y \"y\", %z \"z\")\n");
  run_pass(g, cv_pass_sink);
  expect_result(g, 0, CV_OP_neg, "f32[2,3]");
  expect_result(g, 1, CV_OP_add, "f32[2,2]");
  cv_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_past_elementwise),
                                     cmocka_unit_test(test_past_reduce),
                                     cmocka_unit_test(test_refines), cmocka_unit_test(test_stays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
