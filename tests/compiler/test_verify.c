#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/graph.h"
#include "tests/compiler/op_cases.h"

static const char *const good =
    "region \"r\" \"Gelu\" \"\" 1\n"
    "graph \"g\" (%x: f32[n,2], %c: bool[]) {\n"
    "bind(%c) {exprs=[g]}\n"
    "%w: f32[2] = const {1, 2}\n"
    "%a: f32[n,2] = neg(%x) !0\n"
    "%b: f32[n,2] = exp(%a) when g\n"
    "%d: f32[n,2] = log(%a) when eq(g, 0)\n"
    "%e: f32[n,2] = join(%b, %d) {guard=g}\n"
    "%f: f32[n] = reduce(%e) {axes=[1], kind=\"sum\"}\n"
    "%i: f32[2] = if(%c) [block () {\n%s: f32[2] = neg(%w)\n} -> (%s)\nblock () {\n} -> (%w)]\n"
    "} -> (%f \"f\", %i \"i\")\n"
    "state 0 -> 0\n";

typedef struct {
  cv_graph *g;
  cv_node *nodes[7]; /* bind, neg, exp, log, join, reduce, if */
} fixture;

static fixture begin(void) {
  fixture f = {0};
  if (cv_graph_parse(good, NULL, NULL, NULL, &f.g) != CV_OK) fail_msg("%s", cv_error_text());
  assert_int_equal(f.g->body->nodes.len, 7);
  memcpy(f.nodes, f.g->body->nodes.data, sizeof f.nodes);
  return f;
}

/* One thing is broken; the sentence names the pass and it. */
typedef struct {
  void (*damage)(fixture *f);
  const char *error;
} break_case;

static void undefined_operand(fixture *f) { f->nodes[1]->ins[0] = 4000; }
static void later_operand(fixture *f) { f->nodes[1]->ins[0] = f->nodes[5]->outs[0]; }
static void swapped_order(fixture *f) {
  f->g->body->nodes.data[1] = f->nodes[2];
  f->g->body->nodes.data[2] = f->nodes[1];
}
static void inner_value_outside(fixture *f) {
  f->g->body->results.data[0] = f->nodes[6]->blocks[0]->results.data[0];
}
static void defined_twice(fixture *f) { f->nodes[2]->outs[0] = f->nodes[1]->outs[0]; }
static void wrong_dtype(fixture *f) { f->g->values.data[f->nodes[1]->outs[0]].type.dtype = CV_F64; }
static void wrong_dim(fixture *f) {
  f->g->values.data[f->nodes[5]->outs[0]].type.dims[0] = cv_expr_const(f->g->exprs, 5);
}
static void missing_dim(fixture *f) {
  f->g->values.data[f->nodes[5]->outs[0]].type.dims[0] = CV_EXPR_NONE;
}
static void missing_attr(fixture *f) { f->nodes[5]->n_attrs = 1; }
static void unsorted_attrs(fixture *f) {
  cv_attr first = f->nodes[5]->attrs[0];
  f->nodes[5]->attrs[0] = f->nodes[5]->attrs[1];
  f->nodes[5]->attrs[1] = first;
}
static void foreign_attr(fixture *f) { f->nodes[5]->attrs[1].key = CV_ATTR_TO; }
static void no_region(fixture *f) { f->nodes[1]->region = 7; }
static void lost_guard(fixture *f) { f->nodes[4]->op = CV_OP_add, f->nodes[4]->n_attrs = 0; }
static void missing_guard(fixture *f) { f->nodes[4]->guard = CV_EXPR_NONE; }
static void wrong_def(fixture *f) { f->g->values.data[f->nodes[1]->outs[0]].def = f->nodes[2]; }
static void same_name(fixture *f) { f->g->values.data[f->nodes[1]->outs[0]].name = "x"; }
static void lost_block(fixture *f) { f->nodes[6]->n_blocks = 1; }
static void lost_parent(fixture *f) { f->nodes[6]->blocks[0]->parent = NULL; }
static void lost_result(fixture *f) { f->nodes[6]->blocks[1]->results.len = 0; }
static void wrong_result(fixture *f) { f->g->body->results.data[0] = 4000; }
static void lost_name(fixture *f) { f->g->result_names.len = 1; }
static void wrong_state(fixture *f) { f->g->states.data[0].input = 9; }
static void short_const(fixture *f) {
  cv_val w = f->nodes[6]->blocks[1]->results.data[0];
  f->g->values.data[w].data.bytes = 4;
}
static void wrong_param(fixture *f) { f->g->values.data[f->g->body->params.data[0]].def_index = 1; }
static void no_op(fixture *f) { f->nodes[1]->op = CV_OP_COUNT; }

static const break_case broken[] = {
    {undefined_operand, "an operand is value 4000, which does not exist"},
    {later_operand, "not defined before"},
    {swapped_order, "which is not defined before"},
    {inner_value_outside, "a result is value"},
    {defined_twice, "is defined twice"},
    {wrong_dtype, "output 0 is f64[n,2], the rule says f32[n,2]"},
    {wrong_dim, "output 0 is f32[5], the rule says f32[n]"},
    {missing_dim, "is missing"},
    {missing_attr, "attribute kind is missing"},
    {unsorted_attrs, "not sorted"},
    {foreign_attr, "attribute"},
    {no_region, "region 7 does not exist"},
    {lost_guard, "which is present where g, but it is read where 1"},
    {missing_guard, "its guard is missing"},
    {wrong_def, "does not name the node as its definition"},
    {same_name, "two values are named \"x\""},
    {lost_block, "1 blocks, must be 2"},
    {lost_parent, "does not know the block it stands in"},
    {lost_result, "block 1 gives 0 results, 1 wanted"},
    {wrong_result, "a result is value 4000"},
    {lost_name, "1 names for 2 results"},
    {wrong_state, "state 0 names input 9"},
    {short_const, "has 4 bytes"},
    {wrong_param, "does not name its block"},
    {no_op, "has no op"},
};

static void test_good(void **state) {
  (void)state;
  fixture f = begin();
  assert_int_equal(cv_graph_verify(f.g, "test"), CV_OK);
  cv_graph_destroy(f.g);
  for (int i = 0; i < OP_CASES; i++) {
    char *text = op_case_text(&op_cases[i]);
    cv_graph *graph = NULL;
    assert_int_equal(cv_graph_parse(text, NULL, NULL, NULL, &graph), CV_OK);
    assert_int_equal(cv_graph_verify(graph, "test"), CV_OK);
    cv_graph_destroy(graph);
    cv_free(text);
  }
}

static void test_each_damage_is_found(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    fixture f = begin();
    broken[i].damage(&f);
    assert_int_equal(cv_graph_verify(f.g, "fuse"), CV_INTERNAL);
    if (strstr(cv_error_text(), broken[i].error) == NULL ||
        strncmp(cv_error_text(), "after fuse: ", 12) != 0) {
      fail_msg("case %zu says \"%s\", not \"%s\"", i, cv_error_text(), broken[i].error);
    }
    cv_graph_destroy(f.g);
  }
}

/* Dims that were built under wider bounds stay right when the bounds narrow. */
static void test_narrowed_bounds(void **state) {
  (void)state;
  cv_graph *g = NULL;
  assert_int_equal(cv_graph_parse("symbol n [0, 100]\ngraph \"\" (%x: f32[n,2]) {\n"
                                  "%y: f32[max(1, n),2] = reshape(%x) {dims=[max(1, n),2]}\n"
                                  "%z: f32[max(1, n),2] = neg(%y)\n} -> (%z)\n",
                                  NULL, NULL, NULL, &g),
                   CV_OK);
  cv_symbol_set_bounds(g->exprs, 0, 1, 100);
  assert_int_equal(cv_graph_verify(g, "test"), CV_OK);
  cv_graph_destroy(g);
}

static void test_sticky_error(void **state) {
  (void)state;
  fixture f = begin();
  cv_graph_fail(f.g, CV_UNSUPPORTED, "node \"%s\" is not supported", "x");
  assert_int_equal(cv_graph_verify(f.g, "import"), CV_UNSUPPORTED);
  assert_string_equal(cv_error_text(), "node \"x\" is not supported");
  cv_graph_destroy(f.g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good),
      cmocka_unit_test(test_each_damage_is_found),
      cmocka_unit_test(test_narrowed_bounds),
      cmocka_unit_test(test_sticky_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
