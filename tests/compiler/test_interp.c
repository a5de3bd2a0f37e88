#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/graph.h"
#include "tests/compiler/op_cases.h"
#include "runtime/half.h"

static cv_graph *parse(const char *text) {
  cv_graph *graph = NULL;
  if (cv_graph_parse(text, NULL, NULL, NULL, &graph) != CV_OK) {
    fail_msg("%s\n%s", cv_error_text(), text);
  }
  return graph;
}

static int64_t *unbound(const cv_graph *graph) {
  uint32_t n = cv_exprs_symbols(graph->exprs);
  int64_t *symbols = cv_alloc_or_die(n + 1, sizeof *symbols);
  for (uint32_t i = 0; i < n; i++) symbols[i] = CV_UNBOUND;
  return symbols;
}

static void print_tensor(const cv_tensor *t, cv_str *out) {
  cv_str_add(out, "%s:", cv_tensor_shape_text(t).text);
  size_t size = cv_dtype_size(t->dtype);
  for (uint64_t i = 0; i < t->bytes / size; i++) {
    const unsigned char *element = (const unsigned char *)t->data + i * size;
    if (cv_dtype_kind(t->dtype) == 'f') {
      double value = cv_element_to_double(t->dtype, element);
      if (isnan(value)) {
        cv_str_puts(out, " nan");
      } else {
        cv_str_add(out, " %g", value);
      }
    } else if (t->dtype == CV_U64) {
      cv_str_add(out, " %" PRIu64, (uint64_t)cv_element_to_int(t->dtype, element));
    } else {
      cv_str_add(out, " %" PRId64, cv_element_to_int(t->dtype, element));
    }
  }
}

/* Runs a text without inputs; the results as text. */
static cv_status run(const char *text, cv_str *out) {
  cv_graph *graph = parse(text);
  int64_t *symbols = unbound(graph);
  cv_tensor outs[8] = {0};
  cv_status status = cv_graph_interpret(graph, NULL, symbols, outs);
  for (size_t i = 0; i < graph->body->results.len && status == CV_OK; i++) {
    if (i > 0) cv_str_puts(out, "; ");
    print_tensor(&outs[i], out);
  }
  for (size_t i = 0; i < 8; i++) cv_tensor_deinit(&outs[i]);
  cv_free(symbols);
  cv_graph_destroy(graph);
  return status;
}

static void test_every_case(void **state) {
  (void)state;
  int wrong = 0;
  for (int i = 0; i < OP_CASES; i++) {
    char *text = op_case_text(&op_cases[i]);
    cv_str out = {0};
    if (run(text, &out) != CV_OK) cv_str_puts(&out, cv_error_text());
    if (strcmp(cv_str_text(&out), op_cases[i].expected) != 0) {
      print_error("%s gives %s\n not   %s\n", text, cv_str_text(&out), op_cases[i].expected);
      wrong++;
    }
    cv_str_deinit(&out);
    cv_free(text);
  }
  assert_int_equal(wrong, 0);
}

static void mark(const cv_block *block, bool *seen) {
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    seen[node->op] = true;
    for (uint32_t k = 0; k < node->n_blocks; k++) mark(node->blocks[k], seen);
  }
}

static void test_every_op_has_a_case(void **state) {
  (void)state;
  bool seen[CV_OP_COUNT] = {false};
  for (int i = 0; i < OP_CASES; i++) {
    char *text = op_case_text(&op_cases[i]);
    cv_graph *graph = parse(text);
    mark(graph->body, seen);
    cv_graph_destroy(graph);
    cv_free(text);
  }
  for (int op = 0; op < CV_OP_COUNT; op++) {
    if (!seen[op]) fail_msg("the op %s has no case in op_cases.h", cv_op_get((cv_op)op)->name);
  }
}

/* Wrong only at run time: an error, with the node's name. */
static const struct {
  const char *body, *results, *error;
} refused[] = {
    {"%x: f32[2] = const {1, 2}\n%i: i64[1] = const {2}\n"
     "%y: f32[1] = gather(%x, %i) {axis=0} @\"g\"\n",
     "%y", "gather of node \"g\": index 2 is outside of the extent 2"},
    {"%x: f32[2] = const {1, 2}\n%i: i64[1,1] = const {-3}\n%u: f32[1] = const {0}\n"
     "%y: f32[2] = scatter_nd(%x, %i, %u) {kind=\"set\"} @\"s\"\n",
     "%y", "scatter_nd of node \"s\": index -3 is outside of the extent 2"},
    {"%n: i64[] = const {3}\nbind(%n) {exprs=[k]}\n%x: f32[2] = const {1, 2}\n"
     "%y: f32[k] = reshape(%x) {dims=[k]} @\"r\"\n",
     "%y", "reshape of node \"r\": f32[2] has not the number of elements of f32[3]"},
    {"%x: f32[2] = const {1, 0}\n%y: i64[1,2] = nonzero(%x) {k=2} @\"z\"\n", "%y",
     "nonzero of node \"z\": 1 elements are not zero, k says 2"},
    {"%n: i64[] = const {-1}\nbind(%n) {exprs=[k]}\n%y: i64[1] = extents() {exprs=[k]}\n", "%y",
     "k is -1, must be in [0, 2147483647]"},
    {"%n: i64[] = const {9}\n%c: bool[] = const {1}\n"
     "%y: i64[trips] = loop(%n, %c) {symbol=trips, max=3} [\n"
     "block (%i: i64[], %go: bool[]) {\n} -> (%go, %i)\n] @\"l\"\n",
     "%y", "the loop \"l\" runs longer than its bound of 3 iterations"},
    {"%c: bool[] = const {0}\nbind(%c) {exprs=[g]}\n%a: f32[] = const {1}\n"
     "%y: f32[] = neg(%a) when g\n%z: f32[] = const\n",
     "%z", "constant \"z\" has no data"},
};

static void test_refused_at_run_time(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    cv_str out = {0};
    char *text =
        cv_format("graph \"bad\" () {\n%s} -> (%s)\n", refused[i].body, refused[i].results);
    assert_int_equal(run(text, &out), CV_INVALID);
    assert_string_equal(cv_error_text(), refused[i].error);
    cv_str_deinit(&out);
    cv_free(text);
  }
}

static void test_inputs_bind_symbols(void **state) {
  (void)state;
  cv_graph *graph = parse(
      "symbol n [1, 9]\n"
      "graph \"g\" (%x: f32[n,2], %y: f32[n]) {\n"
      "%s: f32[n] = reduce(%x) {axes=[1], kind=\"sum\"}\n"
      "%z: f32[n] = add(%s, %y)\n} -> (%z)\n");
  int64_t *symbols = unbound(graph);
  float x[4] = {1, 2, 3, 4}, y[3] = {10, 20, 30};
  cv_tensor ins[2] = {{.dtype = CV_F32, .rank = 2, .dims = {2, 2}, .data = x, .bytes = sizeof x},
                      {.dtype = CV_F32, .rank = 1, .dims = {2}, .data = y, .bytes = 8}};
  cv_tensor out;
  assert_int_equal(cv_graph_interpret(graph, ins, symbols, &out), CV_OK);
  assert_int_equal(symbols[0], 2);
  assert_true(((float *)out.data)[0] == 13 && ((float *)out.data)[1] == 27);
  cv_tensor_deinit(&out);
  symbols[0] = CV_UNBOUND;
  ins[1].dims[0] = 3;
  ins[1].bytes = 12;
  assert_int_equal(cv_graph_interpret(graph, ins, symbols, &out), CV_INVALID);
  assert_string_equal(cv_error_text(), "dim 0 of \"y\" is 3, must be 2");
  ins[1].dtype = CV_I32;
  assert_int_equal(cv_graph_interpret(graph, ins, symbols, &out), CV_INVALID);
  cv_free(symbols);
  cv_graph_destroy(graph);
}

static void test_assumed_equalities_are_checked(void **state) {
  (void)state;
  cv_graph *graph = parse(
      "graph \"g\" (%x: f32[n], %y: f32[m]) {\n"
      "%z: f32[n] = reshape(%y) {dims=[n]}\n"
      "%w: f32[n] = add(%x, %z)\n} -> (%x)\nequal m, n @\"add\"\n");
  int64_t *symbols = unbound(graph);
  float x[2] = {0};
  cv_tensor ins[2] = {{.dtype = CV_F32, .rank = 1, .dims = {2}, .data = x, .bytes = 8},
                      {.dtype = CV_F32, .rank = 1, .dims = {1}, .data = x, .bytes = 4}};
  cv_tensor out;
  assert_int_equal(cv_graph_interpret(graph, ins, symbols, &out), CV_INVALID);
  cv_free(symbols);
  cv_graph_destroy(graph);
}

static void test_absent_results(void **state) {
  (void)state;
  cv_graph *graph = parse(
      "graph \"g\" (%c: bool[], %x: f32[2]) {\nbind(%c) {exprs=[g]}\n"
      "%y: f32[2] = neg(%x) when g\n} -> (%y)\n");
  int64_t *symbols = unbound(graph);
  unsigned char no = 0;
  float x[2] = {0};
  cv_tensor ins[2] = {{.dtype = CV_BOOL, .data = &no, .bytes = 1},
                      {.dtype = CV_F32, .rank = 1, .dims = {2}, .data = x, .bytes = 8}};
  cv_tensor out;
  assert_int_equal(cv_graph_interpret(graph, ins, symbols, &out), CV_OK);
  assert_true(out.absent && out.data == NULL);
  cv_free(symbols);
  cv_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_case),
      cmocka_unit_test(test_every_op_has_a_case),
      cmocka_unit_test(test_refused_at_run_time),
      cmocka_unit_test(test_inputs_bind_symbols),
      cmocka_unit_test(test_assumed_equalities_are_checked),
      cmocka_unit_test(test_absent_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
