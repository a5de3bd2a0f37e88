#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/graph.h"
#include "tests/compiler/op_cases.h"

static cv_graph *parse_with(const char *text, cv_const_find find, void *context) {
  cv_graph *graph = NULL;
  if (cv_graph_parse(text, NULL, find, context, &graph) != CV_OK) {
    fail_msg("%s\n%s", cv_error_text(), text);
  }
  return graph;
}

static void print(const cv_graph *graph, cv_str *out) {
  cv_str_deinit(out);
  *out = (cv_str){0};
  cv_graph_print(graph, out);
}

/* print(parse(print(g))) == print(g) */
static void assert_stable(const cv_graph *graph) {
  cv_str first = {0}, second = {0};
  print(graph, &first);
  cv_graph *again = parse_with(cv_str_text(&first), NULL, NULL);
  print(again, &second);
  assert_string_equal(cv_str_text(&first), cv_str_text(&second));
  cv_graph_destroy(again);
  cv_str_deinit(&first);
  cv_str_deinit(&second);
}

static void test_every_op_prints_and_parses_back(void **state) {
  (void)state;
  for (int i = 0; i < OP_CASES; i++) {
    char *text = op_case_text(&op_cases[i]);
    cv_graph *graph = parse_with(text, NULL, NULL);
    assert_stable(graph);
    cv_graph_destroy(graph);
    cv_free(text);
  }
}

/* The whole grammar, in its printed form. */
static const char *const whole =
    "symbol batch [1, 64]\n"
    "symbol g [0, 1]\n"
    "symbol `odd name` [0, 9]\n"
    "symbol trips [0, 10]\n"
    "region \"ln\" \"LayerNormalization\" \"\" 17\n"
    "region \"a\\\"b\\\\c\\nd\\x01\" \"Gelu\" \"com.microsoft\" 1\n"
    "graph \"model\" by \"tool 1.0\" (%x: f32[batch,3], %\"odd name\": f32[3] const, "
    "%c: bool[], %late: f32[batch,3] when g) {\n"
    "  %0: f32[batch,3] = splat 0x1p-1\n"
    "  %k: f32[2] = const {nan:7fc00001, -inf}\n"
    "  %/w/big: f32[100] = const#0123456789abcdef\n"
    "  %1: f16[1] = const\n"
    "  %2: i64[] = const {4}\n"
    "  bind(%c) {exprs=[g]}\n"
    "  %3: f32[batch,3] = add(%x, %0) @\"fc\\\\1\" !0\n"
    "  %y: f32[1,3] = reshape(%\"odd name\") {dims=[1,3]} !1\n"
    "  %4: f32[batch,3] = broadcast(%y) {dims=[batch,3]} when g\n"
    "  %5: f32[batch,3] = add(%4, %late) when g\n"
    "  %6: f32[batch,3] = join(%5, %3) {guard=g}\n"
    "  %7: f32[2] = neg(%k)\n"
    "  %8: f32[100] = exp(%/w/big)\n"
    "  %9: f32[1] = cast(%1) {to=f32}\n"
    "  %10: f32[batch,3], %11: f32[trips,2] = loop(%2, %c, %6) {symbol=trips, max=10} [\n"
    "    block (%12: i64[], %13: bool[], %14: f32[batch,3]) {\n"
    "      %15: f32[2] = if(%13) [\n"
    "        block () {\n"
    "          %16: f32[2] = neg(%7)\n"
    "        } -> (%16)\n"
    "        block () {\n"
    "        } -> (%k)\n"
    "      ] @\"inner\"\n"
    "      %17: f32[batch,3] = neg(%14)\n"
    "    } -> (%13, %17, %15)\n"
    "  ] @\"loop\"\n"
    "} -> (%10 \"y\", %11 \"z\")\n"
    "state 0 -> 0\n"
    "equal 2*batch, `odd name` @\"fc\" when g\n";

static void test_whole_grammar(void **state) {
  (void)state;
  cv_graph *graph = parse_with(whole, NULL, NULL);
  cv_str out = {0};
  print(graph, &out);
  assert_string_equal(cv_str_text(&out), whole);
  assert_stable(graph);
  assert_true(cv_value_of(graph, graph->body->params.data[1])->is_const);
  assert_null(cv_value_of(graph, graph->body->params.data[1])->data.data);
  assert_string_equal(graph->result_names.data[1], "z");
  assert_int_equal(graph->states.len, 1);
  assert_int_equal(graph->equalities.len, 1);
  assert_int_equal(graph->regions.len, 2);
  cv_str_deinit(&out);
  cv_graph_destroy(graph);
}

static const void *find_block(void *context, uint64_t hash, uint64_t bytes) {
  assert_int_equal(bytes, 400);
  assert_true(hash != 0);
  return context;
}

static void test_large_constants_go_by_hash(void **state) {
  (void)state;
  float data[100] = {0};
  for (int i = 0; i < 100; i++) data[i] = (float)i;
  cv_graph *graph = cv_graph_create(NULL);
  int64_t dims[1] = {100};
  cv_val c = cv_graph_const_borrowed(graph, CV_F32, 1, dims, data);
  cv_val y = cv_unary(graph, CV_OP_neg, c);
  if (graph->body->results.cap == 0) assert_true(cv_vec_push(&graph->body->results, y));
  cv_str first = {0}, second = {0};
  print(graph, &first);
  assert_non_null(strstr(cv_str_text(&first), "const#"));
  cv_graph *again = parse_with(cv_str_text(&first), find_block, data);
  print(again, &second);
  assert_string_equal(cv_str_text(&first), cv_str_text(&second));
  uint64_t n;
  cv_val held = again->body->nodes.data[0]->ins[0];
  assert_true(cv_graph_doubles(again, held, &n)[99] == 99);
  cv_graph_destroy(again);
  assert_stable(graph);
  cv_graph_destroy(graph);
  cv_str_deinit(&first);
  cv_str_deinit(&second);
}

/* A symbol that the pool has keeps its bounds: bodies share their program's pool. */
static void test_shared_pool(void **state) {
  (void)state;
  cv_exprs *exprs = cv_exprs_create(true);
  cv_sym n = cv_exprs_symbol(exprs, "n", 2, 5);
  cv_graph *graph = NULL;
  assert_int_equal(cv_graph_parse("symbol n [0, 99]\ngraph \"\" (%x: f32[n]) {\n} -> (%x)\n", exprs,
                                  NULL, NULL, &graph),
                   CV_OK);
  int64_t lo, hi;
  cv_symbol_bounds(exprs, n, &lo, &hi);
  assert_int_equal(lo, 2);
  assert_int_equal(hi, 5);
  assert_int_equal(cv_exprs_symbols(exprs), 1);
  cv_graph_destroy(graph);
  cv_exprs_destroy(exprs);
}

static const struct {
  const char *text, *error; /* part of the sentence */
} bad[] = {
    {"", "line 1, column 1: \"graph\" expected"},
    {"graph", "'\"' expected"},
    {"graph \"x", "closing quote"},
    {"graph \"\\q\" () {} -> ()", "an escape is"},
    {"graph \"\" (%x: f33[2]) {} -> ()", "\"f33\" is no dtype"},
    {"graph \"\" (%x: f32[1,1,1,1,1,1,1,1,1]) {} -> ()", "more than 8 dims"},
    {"graph \"\" (%x: f32[n +]) {} -> ()", "in an expression"},
    {"graph \"\" (%x: f32[2], %x: f32[2]) {} -> ()", "defined twice"},
    {"graph \"\" () {\n} -> (%x)", "line 2, column 9: value \"x is not defined before"},
    {"graph \"\" (%x: f32[2]) {\n%y: f32[2] = nope(%x)\n} -> ()", "\"nope\" is no op"},
    {"graph \"\" (%x: f32[2]) {\n%y: f32[3] = neg(%x)\n} -> ()",
     "output 0 is f32[2], stated is f32[3]"},
    {"graph \"\" (%x: f32[2]) {\nneg(%x)\n} -> ()", "has 1 outputs, 0 are named"},
    {"graph \"\" (%x: f32[2]) {\n%y: f32[2] = neg(%x) {kind=\"a\"}\n} -> ()",
     "not on the op's list"},
    {"graph \"\" (%x: f32[2]) {\n%y: f32[2] = neg(%x) {kinds=1}\n} -> ()", "is no attribute"},
    {"graph \"\" (%x: f32[2]) {\n%y: f32[2] = neg(%x) !3\n} -> ()", "region 3 does not exist"},
    {"graph \"\" (%x: f32[2]) {\n%y: f32[2] = neg(%x) [block () {} -> ()]\n} -> ()",
     "has no blocks"},
    {"graph \"\" () {\n%y: f32[2] = const {1}\n} -> ()", "',' expected"},
    {"graph \"\" () {\n%y: f32[9999999] = const {1}\n} -> ()", "elements expected"},
    {"graph \"\" () {\n%y: f32[n] = const {1}\n} -> ()", "constant needs constant dims"},
    {"graph \"\" () {\n%y: u8[1] = const {256}\n} -> ()", "does not fit u8"},
    {"graph \"\" () {\n%y: u8[1] = const {-1}\n} -> ()", "does not fit u8"},
    {"graph \"\" () {\n%y: bool[1] = const {2}\n} -> ()", "does not fit bool"},
    {"graph \"\" () {\n%y: i64[1] = const {9223372036854775808}\n} -> ()", "does not fit i64"},
    {"graph \"\" () {\n%y: f32[1] = const#12\n} -> ()", "a hash of 16 digits"},
    {"symbol n [3, 1]\ngraph \"\" () {} -> ()", "lo <= hi"},
    {"symbol 3 [3, 1]\ngraph \"\" () {} -> ()", "a symbol's name"},
    {"graph \"\" () {} -> ()\nstate 0 -> 0", "does not exist"},
    {"graph \"\" (%x: f32[1]) {} -> (%x \"a\", %x)", "all results have names"},
    {"graph \"\" () {} -> () x", "the end expected"},
    /* scope: what a block makes is not seen outside */
    {"graph \"\" (%c: bool[]) {\n%y: bool[] = if(%c) [block () {\n%z: bool[] = not(%c)\n} -> (%z)\n"
     "block () {} -> (%c)]\n%w: bool[] = not(%z)\n} -> (%w)",
     "not defined before"},
    {"graph \"\" (%c: bool[]) {\nbind(%c) {exprs=[g]}\n%y: bool[] = not(%c) when g\n"
     "%z: bool[] = not(%y)\n} -> (%z)",
     "which is present where g, but it is read where 1"},
};

static void test_bad_text(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cv_graph *graph = NULL;
    assert_int_equal(cv_graph_parse(bad[i].text, NULL, NULL, NULL, &graph), CV_INVALID);
    assert_null(graph);
    if (strstr(cv_error_text(), bad[i].error) == NULL) {
      fail_msg("\"%s\" says \"%s\", not \"%s\"", bad[i].text, cv_error_text(), bad[i].error);
    }
  }
}

static void test_deep_nesting(void **state) {
  (void)state;
  cv_str text = {0};
  cv_graph *graph = NULL;
  cv_str_puts(&text, "graph \"\" (%c: bool[]) {\n");
  for (int i = 0; i < 1000; i++) cv_str_add(&text, "%%v%d: bool[] = if(%%c) [block () {\n", i);
  assert_int_equal(cv_graph_parse(cv_str_text(&text), NULL, NULL, NULL, &graph), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "nested deeper"));
  cv_str_deinit(&text);
}

/* Every prefix of a good text, and every text with a byte changed, is parsed or refused. */
static void test_damaged_text(void **state) {
  (void)state;
  size_t n = strlen(whole);
  char *text = cv_strdup(whole);
  for (size_t i = 0; i < n; i++) {
    cv_graph *graph = NULL;
    char kept = text[i];
    text[i] = '\0';
    if (cv_graph_parse(text, NULL, NULL, NULL, &graph) == CV_OK) cv_graph_destroy(graph);
    graph = NULL;
    text[i] = (char)(kept ^ (char)(1 << (i % 7)));
    if (cv_graph_parse(text, NULL, NULL, NULL, &graph) == CV_OK) cv_graph_destroy(graph);
    text[i] = kept;
  }
  cv_free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_op_prints_and_parses_back),
      cmocka_unit_test(test_whole_grammar),
      cmocka_unit_test(test_large_constants_go_by_hash),
      cmocka_unit_test(test_shared_pool),
      cmocka_unit_test(test_bad_text),
      cmocka_unit_test(test_deep_nesting),
      cmocka_unit_test(test_damaged_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
