#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/pass_case.h"

#define LOOP(trips, on, more)                                                      \
  "graph \"g\" (%x: f32[n,2], %d: i64[], %b: bool[]) {\n%on: bool[] = const {1}\n" \
  "%t: i64[] = const {3}\n%o: f32[n,2], %s: f32[trips,n,2] = loop(" trips ", " on  \
  ", %x) {symbol=trips, max=9} [\nblock (%i: i64[], %c: bool[], %v: f32[n,2]) {\n" \
  "%p: f32[n,2] = add(%v, %x)\n" more "} -> (%c, %p, %p)]\n} -> (%o \"o\", %s \"s\")\n"

static void test_unrolled(void **state) {
  (void)state;
  cv_graph *g = graph_of(LOOP("%t", "%on", ""));
  run_pass(g, cv_pass_unroll);
  assert_int_equal(count_op(g, CV_OP_loop), 0);
  assert_int_equal(count_op(g, CV_OP_add), 3);
  expect_text(g, "f32[3,n,2] = concat"); /* the trips are known now */
  cv_graph_destroy(g);
}

static void test_kept(void **state) {
  (void)state;
  static const char *const texts[] = {
      LOOP("%d", "%on", ""), /* trips from data */
      LOOP("%t", "%b", ""),  /* a condition from data */
      LOOP("%t", "%on", "%k: i64[] = nonzero_count(%v)\nbind(%k) {exprs=[k]}\n"), /* binds */
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    cv_graph *g = graph_of(texts[i]);
    run_pass(g, cv_pass_unroll);
    assert_int_equal(count_op(g, CV_OP_loop), 1);
    cv_graph_destroy(g);
  }
}

static void test_known_trips(void **state) {
  (void)state;
  cv_graph *g = graph_of(LOOP("%t", "%on", ""));
  assert_int_equal(cv_loop_known_trips(g, g->body->nodes.data[0]), 3);
  cv_graph_destroy(g);
  g = graph_of(LOOP("%d", "%on", ""));
  assert_int_equal(cv_loop_known_trips(g, g->body->nodes.data[0]), -1);
  cv_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_unrolled), cmocka_unit_test(test_kept),
                                     cmocka_unit_test(test_known_trips)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
