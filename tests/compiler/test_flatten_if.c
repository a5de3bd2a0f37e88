#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/pass_case.h"

#define TWO_IFS                                                                                \
  "graph \"g\" (%x: f32[2], %c: bool[], %d: bool[]) {\n"                                       \
  "%y: f32[2] = if(%c) [block () {\n%a: f32[2] = neg(%x)\n%b: f32[2] = if(%d) [block () {\n"   \
  "%e: f32[2] = exp(%a)\n} -> (%e)\nblock () {\n%f: f32[2] = sin(%a)\n} -> (%f)]\n} -> (%b)\n" \
  "block () {\n} -> (%x)]\n} -> (%y \"y\")\n"

/* Guards are products of what stands around; the name of the result moves to the join. */
static void test_nested(void **state) {
  (void)state;
  cv_graph *g = graph_of(TWO_IFS);
  run_pass(g, cv_pass_flatten_if);
  assert_int_equal(count_op(g, CV_OP_if), 0);
  assert_int_equal(count_op(g, CV_OP_join), 2);
  assert_int_equal(count_op(g, CV_OP_bind), 2);
  int64_t symbols[8], value;
  for (size_t i = 0; i < g->body->nodes.len; i++) {
    const cv_node *node = g->body->nodes.data[i];
    for (int c = 0; c < 2; c++)
      for (int d = 0; d < 2; d++) {
        /* symbols in the order in which they were made: the inner If first */
        symbols[0] = d, symbols[1] = c;
        assert_int_equal(cv_expr_eval(g->exprs, node->guard, symbols, &value), CV_OK);
        if (node->op == CV_OP_exp) assert_int_equal(value, c && d);
        if (node->op == CV_OP_sin) assert_int_equal(value, c && !d);
        if (node->op == CV_OP_neg) assert_int_equal(value, c);
      }
  }
  cv_graph_destroy(g);
}

static void test_known(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[2]) {\n%c: bool[] = const {0}\n%y: f32[2] = if(%c) [block () {\n"
      "%a: f32[2] = neg(%x)\n} -> (%a)\nblock () {\n%b: f32[2] = exp(%x)\n} -> (%b)]\n"
      "} -> (%y \"y\")\n");
  run_pass(g, cv_pass_flatten_if);
  assert_int_equal(g->body->nodes.len, 1);
  expect_text(g, "exp(%x)");
  cv_graph_destroy(g);
}

/* A loop inside a branch keeps its body and runs under the guard; an If inside a loop flattens
 * there. */
static void test_loops(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[2], %c: bool[], %t: i64[]) {\n%on: bool[] = const {1}\n"
      "%y: f32[2] = if(%c) [block () {\n"
      "%o: f32[2] = loop(%t, %on, %x) {symbol=trips, max=9} [\n"
      "block (%i: i64[], %g: bool[], %v: f32[2]) {\n%p: f32[2] = if(%c) [block () {\n"
      "%q: f32[2] = neg(%v)\n} -> (%q)\nblock () {\n} -> (%v)]\n} -> (%g, %p)]\n} -> (%o)\n"
      "block () {\n} -> (%x)]\n} -> (%y \"y\")\n");
  run_pass(g, cv_pass_flatten_if);
  assert_int_equal(count_op(g, CV_OP_if), 0);
  assert_int_equal(count_op(g, CV_OP_loop), 1);
  assert_int_equal(count_op(g, CV_OP_join), 2);
  cv_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nested), cmocka_unit_test(test_known),
                                     cmocka_unit_test(test_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
