#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/pass_case.h"

/* Of two symbols that must be equal one is left; one that must be 3 becomes 3. */
static void test_unify(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[n,2], %y: f32[m,2], %z: f32[k,2]) {\n%c: f32[3,2] = splat 1\n"
      "} -> (%x \"x\")\n");
  const cv_val *params = g->body->params.data;
  cv_binary_bc(g, CV_OP_add, params[0], params[1]);
  cv_val three =
      cv_graph_splat(g,
                     &(cv_type){.dtype = CV_F32,
                                .rank = 2,
                                .dims = {cv_expr_const(g->exprs, 3), cv_expr_const(g->exprs, 2)}},
                     &(float){1});
  cv_binary_bc(g, CV_OP_add, params[2], three);
  assert_int_equal(g->equalities.len, 2);
  run_pass(g, cv_pass_unify);
  assert_int_equal(g->equalities.len, 0);
  assert_int_equal(cv_type_of(g, params[0])->dims[0], cv_type_of(g, params[1])->dims[0]);
  assert_int_equal(cv_type_of(g, params[2])->dims[0], cv_expr_const(g->exprs, 3));
  cv_graph_destroy(g);
}

/* A symbol that a step binds keeps its name: the other gives way, or the assumption stays. */
static void test_bound(void **state) {
  (void)state;
  cv_graph *g = graph_of(
      "graph \"g\" (%x: f32[n], %y: f32[5]) {\n%c: i64[] = nonzero_count(%y)\n"
      "bind(%c) {exprs=[k]}\n%i: i64[1,k] = nonzero(%y) {k=k}\n%f: i64[k] = reshape(%i) "
      "{dims=[k]}\n"
      "%h: f32[k] = cast(%f) {to=f32}\n} -> (%h \"h\")\n");
  cv_val x = g->body->params.data[0], h = g->body->results.data[0];
  cv_binary_bc(g, CV_OP_add, x, h);
  run_pass(g, cv_pass_unify);
  assert_int_equal(count_op(g, CV_OP_bind), 1);
  assert_int_equal(cv_type_of(g, x)->dims[0], cv_type_of(g, h)->dims[0]);
  cv_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_unify), cmocka_unit_test(test_bound)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
