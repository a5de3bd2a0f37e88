#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/pass_case.h"

static void test_nodes_and_consts(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[2]) {\n%c: f32[2] = const {1, 2}\n%d: f32[2] = const {1, 2}\n"
      "%e: f32[2] = const {1, 3}\n%a: f32[2] = add(%x, %c)\n%b: f32[2] = add(%x, %d)\n"
      "%f: f32[2] = add(%x, %e)\n%h: f32[2] = mul(%a, %b)\n%i: f32[2] = mul(%h, %f)\n"
      "} -> (%i \"i\")\n");
  run_pass(g, cv_pass_cse);
  assert_int_equal(count_op(g, CV_OP_add), 2);
  cv_graph_destroy(g);
}

/* Attributes, guards and random draws keep nodes apart. */
static void test_kept(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "symbol p [0, 1]\ngraph \"g\" (%x: f32[2,2], %c: bool[]) {\nbind(%c) {exprs=[p]}\n"
      "%a: f32[2] = reduce(%x) {kind=\"sum\", axes=[0]}\n"
      "%b: f32[2] = reduce(%x) {kind=\"sum\", axes=[1]}\n"
      "%d: f32[2] = reduce(%x) {kind=\"max\", axes=[0]}\n"
      "%e: f32[2,2] = neg(%x) when p\n%f: f32[2,2] = neg(%x) when 1 - p\n"
      "%h: f32[2,2] = join(%e, %f) {guard=p}\n"
      "%r: f32[2] = random() {kind=\"uniform\", dims=[2], seed=1, to=f32}\n"
      "%s: f32[2] = random() {kind=\"uniform\", dims=[2], seed=1, to=f32}\n"
      "} -> (%a \"a\", %b \"b\", %d \"d\", %h \"h\", %r \"r\", %s \"s\")\n");
  size_t before = g->body->nodes.len;
  run_pass(g, cv_pass_cse);
  assert_int_equal(g->body->nodes.len, before);
  cv_graph_destroy(g);
}

/* An inner block uses what the outer one has; not the other way round. */
static void test_blocks(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[2], %t: i64[]) {\n%on: bool[] = const {1}\n%a: f32[2] = exp(%x)\n"
      "%o: f32[2] = loop(%t, %on, %a) {symbol=trips, max=9} [\n"
      "block (%i: i64[], %c: bool[], %v: f32[2]) {\n%b: f32[2] = exp(%x)\n%d: f32[2] = sin(%x)\n"
      "%p: f32[2] = add(%v, %b)\n%q: f32[2] = add(%p, %d)\n} -> (%c, %q)]\n"
      "%e: f32[2] = sin(%x)\n%f: f32[2] = add(%o, %e)\n} -> (%f \"f\")\n");
  run_pass(g, cv_pass_cse);
  assert_int_equal(count_op(g, CV_OP_exp), 1);
  assert_int_equal(count_op(g, CV_OP_sin), 2);
  cv_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nodes_and_consts),
                                     cmocka_unit_test(test_kept), cmocka_unit_test(test_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
