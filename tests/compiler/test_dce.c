#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/pass_case.h"

static void test_nodes(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[3]) {\n%a: f32[3] = neg(%x)\n%b: f32[3] = exp(%x)\n"
      "%i: i64[3], %j: i64[3], %k: i64[3], %c: i64[] = unique(%x) {sorted=1}\n} -> (%a \"a\", %k "
      "\"k\")\n");
  run_pass(g, cv_pass_dce);
  assert_int_equal(g->body->nodes.len, 2); /* unique stays whole for one output */
  assert_int_equal(count_op(g, CV_OP_exp), 0);
  cv_graph_destroy(g);
}

/* A bind lives while a dim that lives has its symbol; what it reads lives with it. */
static void test_binds(void **state) {
  (void)state;
#define SIZED(results)                                                                \
  "graph \"g\" (%x: f32[3]) {\n%c: i64[] = nonzero_count(%x)\nbind(%c) {exprs=[k]}\n" \
  "%i: i64[1,k] = nonzero(%x) {k=k}\n%a: f32[3] = neg(%x)\n} -> (" results ")\n"
  cv_graph *g = graph_of(SIZED("%i \"i\""));
  run_pass(g, cv_pass_dce);
  assert_int_equal(g->body->nodes.len, 3);
  cv_graph_destroy(g);
  g = graph_of(SIZED("%a \"a\""));
  run_pass(g, cv_pass_dce);
  assert_int_equal(g->body->nodes.len, 1);
  cv_graph_destroy(g);
}

static void test_loops(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[2], %t: i64[]) {\n%on: bool[] = const {1}\n%e: f32[2] = exp(%x)\n"
      "%f: f32[2] = sin(%x)\n"
      "%o: f32[2] = loop(%t, %on, %x) {symbol=trips, max=9} [\n"
      "block (%i: i64[], %c: bool[], %v: f32[2]) {\n%p: f32[2] = add(%v, %e)\n"
      "%q: f32[2] = cos(%f)\n} -> (%c, %p)]\n} -> (%o \"o\")\n");
  run_pass(g, cv_pass_dce);
  assert_int_equal(count_op(g, CV_OP_exp), 1); /* captured */
  assert_int_equal(count_op(g, CV_OP_cos), 0);
  assert_int_equal(count_op(g, CV_OP_sin), 0);
  cv_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nodes), cmocka_unit_test(test_binds),
                                     cmocka_unit_test(test_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
