/* Every rule fires on its case, and what it makes computes the same: to the bit for exact rules. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "compiler/simplify.h"
#include "tests/compiler/run_program.h"

typedef struct {
  const char *rule;
  const char *params; /* of the graph */
  const char *body;   /* the last value is %y */
} rule_case;

#define X23 "%x: f32[2,3]"
#define SPLAT(value) "%c: f32[2,3] = splat " value "\n"

static const rule_case cases[] = {
    {"cast-chain", "%x: u8[4]", "%a: i32[4] = cast(%x) {to=i32}\n%y: f32[4] = cast(%a) {to=f32}\n"},
    {"cast-none", X23, "%y: f32[2,3] = cast(%x) {to=f32}\n"},
    {"neg-neg", X23, "%a: f32[2,3] = neg(%x)\n%y: f32[2,3] = neg(%a)\n"},
    {"not-not", "%x: bool[4]", "%a: bool[4] = not(%x)\n%y: bool[4] = not(%a)\n"},
    {"mul-one", X23, SPLAT("1") "%y: f32[2,3] = mul(%c, %x)\n"},
    {"div-one", X23, SPLAT("1") "%y: f32[2,3] = div(%x, %c)\n"},
    {"add-neutral", X23, SPLAT("-0.0") "%y: f32[2,3] = add(%x, %c)\n"},
    {"sub-zero", X23, SPLAT("0") "%y: f32[2,3] = sub(%x, %c)\n"},
    {"and-true", "%x: bool[4]", "%c: bool[4] = splat 1\n%y: bool[4] = and(%x, %c)\n"},
    {"or-false", "%x: bool[4]", "%c: bool[4] = splat 0\n%y: bool[4] = or(%x, %c)\n"},
    {"max-infinity", X23, SPLAT("-inf") "%y: f32[2,3] = max(%x, %c)\n"},
    {"min-infinity", X23, SPLAT("inf") "%y: f32[2,3] = min(%x, %c)\n"},
    {"add-zero", X23, SPLAT("0") "%y: f32[2,3] = add(%x, %c)\n"},
    {"mul-zero", "%x: i32[4]", "%c: i32[4] = splat 0\n%y: i32[4] = mul(%x, %c)\n"},
    {"max-max", X23,
     SPLAT("0.25") "%d: f32[2,3] = splat 0.5\n%a: f32[2,3] = max(%x, %c)\n"
                   "%y: f32[2,3] = max(%a, %d)\n"},
    {"min-min", X23,
     SPLAT("0.25") "%d: f32[2,3] = splat 0.5\n%a: f32[2,3] = min(%x, %c)\n"
                   "%y: f32[2,3] = min(%d, %a)\n"},
    {"select-known", X23 ", %z: f32[2,3]",
     "%c: bool[2,3] = splat 1\n%y: f32[2,3] = select(%c, %x, %z)\n"},
    {"div-exact", X23, SPLAT("8") "%y: f32[2,3] = div(%x, %c)\n"},
    {"div-reciprocal", X23, SPLAT("3") "%y: f32[2,3] = div(%x, %c)\n"},
    {"pow-one", X23, SPLAT("1") "%y: f32[2,3] = pow(%x, %c)\n"},
    {"pow-known", X23, SPLAT("3") "%y: f32[2,3] = pow(%x, %c)\n"},
    {"reshape-none", X23, "%y: f32[2,3] = reshape(%x) {dims=[2,3]}\n"},
    {"transpose-none", X23, "%y: f32[2,3] = transpose(%x) {perm=[0,1]}\n"},
    {"broadcast-none", X23, "%y: f32[2,3] = broadcast(%x) {dims=[2,3]}\n"},
    {"slice-none", X23, "%y: f32[2,3] = slice(%x) {starts=[0,0], dims=[2,3], steps=[1,1]}\n"},
    {"pad-none", X23, "%c: f32[] = const {0}\n%y: f32[2,3] = pad(%x, %c) {lo=[0,0], hi=[0,0]}\n"},
    {"concat-one", X23, "%y: f32[2,3] = concat(%x) {axis=0}\n"},
    {"reshape-reshape", X23,
     "%a: f32[6] = reshape(%x) {dims=[6]}\n%y: f32[3,2] = reshape(%a) {dims=[3,2]}\n"},
    {"transpose-transpose", "%x: f32[2,3,4]",
     "%a: f32[3,4,2] = transpose(%x) {perm=[1,2,0]}\n"
     "%y: f32[4,3,2] = transpose(%a) {perm=[1,0,2]}\n"},
    {"broadcast-broadcast", "%x: f32[1,3,1]",
     "%a: f32[2,3,1] = broadcast(%x) {dims=[2,3,1]}\n"
     "%y: f32[2,3,4] = broadcast(%a) {dims=[2,3,4]}\n"},
    {"slice-slice", "%x: f32[9,3]",
     "%a: f32[4,3] = slice(%x) {starts=[1,0], dims=[4,3], steps=[2,1]}\n"
     "%y: f32[2,2] = slice(%a) {starts=[3,1], dims=[2,2], steps=[-2,1]}\n"},
    {"transpose-is-reshape", "%x: f32[1,3,1,2]",
     "%y: f32[3,1,2,1] = transpose(%x) {perm=[1,0,3,2]}\n"},
    {"reshape-of-broadcast", "%x: f32[2,1,1,4]",
     "%a: f32[2,3,5,4] = broadcast(%x) {dims=[2,3,5,4]}\n"
     "%y: f32[2,15,2,2] = reshape(%a) {dims=[2,15,2,2]}\n"},
    {"slice-of-concat", "%x: f32[2,3], %z: f32[2,4]",
     "%a: f32[2,7] = concat(%x, %z) {axis=1}\n"
     "%y: f32[2,2] = slice(%a) {starts=[0,4], dims=[2,2], steps=[1,1]}\n"},
    {"concat-of-concat", "%x: f32[2,3], %z: f32[2,4]",
     "%a: f32[2,7] = concat(%x, %z) {axis=1}\n%y: f32[2,10] = concat(%a, %x) {axis=1}\n"},
    {"gather-one", "%x: f32[2,3,4]",
     "%c: i64[] = const {-1}\n%y: f32[2,4] = gather(%x, %c) {axis=1}\n"},
    {"gather-own-item", "%x: f32[n,3]",
     "%r: i64[n] = iota() {dims=[n], axis=0, to=i64}\n%s: i64[n,1,1] = reshape(%r) {dims=[n,1,1]}\n"
     "%t: i64[n,2,1] = broadcast(%s) {dims=[n,2,1]}\n%c: i64[1,2,1] = const {2, 0}\n"
     "%d: i64[n,2,1] = broadcast(%c) {dims=[n,2,1]}\n%i: i64[n,2,2] = concat(%t, %d) {axis=2}\n"
     "%y: f32[n,2] = gather_nd(%x, %i) {batch_dims=0}\n"},
    {"reduce-ones", "%x: f32[2,1,3]", "%y: f32[2] = reduce(%x) {kind=\"sum\", axes=[1,2]}\n"},
    {"pad-into-conv", "%x: f32[1,2,4,4], %w: f32[3,2,3,3]",
     "%c: f32[] = const {0}\n"
     "%a: f32[1,2,6,5] = pad(%x, %c) {lo=[0,0,1,0], hi=[0,0,1,1]}\n"
     "%y: f32[1,3,6,3] = conv(%a, %w) {strides=[1,1], dilations=[1,1], lo=[1,0], hi=[1,0], "
     "groups=1, lhs_dilation=[1,1], to=f32}\n"},
    {"pad-into-window", "%x: f32[1,2,4,4]",
     "%c: f32[] = const {0}\n"
     "%a: f32[1,2,6,6] = pad(%x, %c) {lo=[0,0,1,1], hi=[0,0,1,1]}\n"
     "%y: f32[1,2,3,3] = window(%a) {kind=\"sum\", kernel=[2,2], strides=[2,2], dilations=[1,1], "
     "lo=[0,0], hi=[0,0]}\n"},
    {"sub-const", X23, SPLAT("0.75") "%y: f32[2,3] = sub(%x, %c)\n"},
    {"scale-into-conv", "%x: f32[1,2,4,4]",
     "%w: f32[2,2,1,1] = const {1, 2, 3, 4}\n%s: f32[1,2,1,1] = const {0.5, -3}\n"
     "%a: f32[1,2,4,4] = conv(%x, %w) {strides=[1,1], dilations=[1,1], lo=[0,0], hi=[0,0], "
     "groups=1, lhs_dilation=[1,1], to=f32}\n%b: f32[1,2,4,4] = broadcast(%s) {dims=[1,2,4,4]}\n"
     "%y: f32[1,2,4,4] = mul(%a, %b)\n"},
    {"scale-into-matmul", X23,
     "%w: f32[3,2] = const {1, 2, 3, 4, 5, 6}\n%s: f32[1,2] = const {0.5, -3}\n"
     "%a: f32[2,2] = matmul(%x, %w) {to=f32}\n%b: f32[2,2] = broadcast(%s) {dims=[2,2]}\n"
     "%y: f32[2,2] = mul(%a, %b)\n"},
    {"scale-of-sum", X23,
     "%w: f32[3,2] = const {1, 2, 3, 4, 5, 6}\n%s: f32[1,2] = const {0.5, -3}\n"
     "%o: f32[1,2] = const {7, 8}\n%a: f32[2,2] = matmul(%x, %w) {to=f32}\n"
     "%p: f32[2,2] = broadcast(%o) {dims=[2,2]}\n%q: f32[2,2] = add(%p, %a)\n"
     "%b: f32[2,2] = broadcast(%s) {dims=[2,2]}\n%y: f32[2,2] = mul(%q, %b)\n"},
    {"mul-mul", X23,
     SPLAT("3") "%d: f32[1,3] = const {1, 2, 5}\n%e: f32[2,3] = broadcast(%d) {dims=[2,3]}\n"
                "%a: f32[2,3] = mul(%x, %c)\n%y: f32[2,3] = mul(%a, %e)\n"},
    {"add-add", X23,
     SPLAT("3") "%d: f32[1,3] = const {1, 2, 5}\n%e: f32[2,3] = broadcast(%d) {dims=[2,3]}\n"
                "%a: f32[2,3] = add(%x, %c)\n%y: f32[2,3] = add(%a, %e)\n"},
    {"add-of-broadcasts", "%x: f32[1,3], %z: f32[1,3]",
     "%a: f32[2,3] = broadcast(%x) {dims=[2,3]}\n%b: f32[2,3] = broadcast(%z) {dims=[2,3]}\n"
     "%y: f32[2,3] = add(%a, %b)\n"},
    {"sub-of-broadcasts", "%x: f32[1,3]",
     SPLAT("2") "%a: f32[2,3] = broadcast(%x) {dims=[2,3]}\n%y: f32[2,3] = sub(%c, %a)\n"},
    {"mul-of-broadcasts", "%x: f32[1,3], %z: f32[1,3]",
     "%a: f32[2,3] = broadcast(%x) {dims=[2,3]}\n%b: f32[2,3] = broadcast(%z) {dims=[2,3]}\n"
     "%y: f32[2,3] = mul(%a, %b)\n"},
    {"select-of-broadcasts", "%x: bool[1,3], %z: f32[1,3]",
     SPLAT("2") "%a: bool[2,3] = broadcast(%x) {dims=[2,3]}\n"
                "%b: f32[2,3] = broadcast(%z) {dims=[2,3]}\n%y: f32[2,3] = select(%a, %b, %c)\n"},
    {"cast-of-broadcast", "%x: i32[1,3]",
     "%a: i32[2,3] = broadcast(%x) {dims=[2,3]}\n%y: f32[2,3] = cast(%a) {to=f32}\n"},
};

enum { N_CASES = sizeof cases / sizeof *cases, MAX_RULES = 128 };

static cv_graph *parse_case(const rule_case *c) {
  cv_str text = {0};
  cv_graph *graph = NULL;
  cv_str_add(&text, "graph \"%s\" (%s) {\n%s} -> (%%y)\n", c->rule, c->params, c->body);
  if (cv_graph_parse(text.data, NULL, NULL, NULL, &graph) != CV_OK)
    fail_msg("%s: %s", c->rule, cv_error_text());
  cv_str_deinit(&text);
  return graph;
}

static size_t rule_index(const char *name) {
  const cv_simplify_rule *rules = cv_simplify_rules();
  size_t i = 0;
  while (rules[i].name && strcmp(rules[i].name, name) != 0) i++;
  if (!rules[i].name) fail_msg("no rule is named '%s'", name);
  return i;
}

static void make_inputs(cv_graph *graph, cv_tensor *ins) {
  uint64_t seed = 5;
  for (size_t i = 0; i < graph->body->params.len; i++) {
    const cv_type *type = cv_type_of(graph, graph->body->params.data[i]);
    int64_t dims[CV_MAX_RANK];
    for (int d = 0; d < type->rank; d++)
      if (!cv_expr_is_const(graph->exprs, type->dims[d], &dims[d])) dims[d] = 3;
    assert_int_equal(cv_tensor_create(type->dtype, type->rank, dims, &ins[i]), CV_OK);
    fill_tensor(&ins[i], &seed, 2);
  }
}

/* Signed zeros, infinities and NaN in the first float input, where exactness must hold too. */
static void put_specials(cv_tensor *ins) {
  static const float specials[] = {-0.0f, 0.0f, INFINITY, -INFINITY, NAN};
  if (ins[0].dtype != CV_F32 || ins[0].bytes < sizeof specials) return;
  memcpy(ins[0].data, specials, sizeof specials);
}

static void compare(const rule_case *c, cv_graph *before, cv_graph *after, bool exact) {
  cv_tensor ins[4] = {0}, want = {0}, have = {0};
  for (int round = 0; round < (exact ? 2 : 1); round++) {
    make_inputs(before, ins);
    if (round == 1 && !strstr(c->body, "conv") && !strstr(c->body, "window")) put_specials(ins);
    if (run_graph(before, ins, &want) != CV_OK || run_graph(after, ins, &have) != CV_OK)
      fail_msg("%s: %s", c->rule, cv_error_text());
    assert_int_equal(want.bytes, have.bytes);
    if (exact && memcmp(want.data, have.data, want.bytes) != 0 && difference(&have, &want) != 0)
      fail_msg("%s is not exact", c->rule);
    if (!(difference(&have, &want) < 1e-6)) fail_msg("%s: %g", c->rule, difference(&have, &want));
    cv_tensor_deinit(&want);
    cv_tensor_deinit(&have);
    for (int i = 0; i < 4; i++) cv_tensor_deinit(&ins[i]);
  }
}

static void test_every_rule(void **state) {
  (void)state;
  uint64_t total[MAX_RULES] = {0};
  for (size_t i = 0; i < N_CASES; i++) {
    uint64_t fired[MAX_RULES] = {0};
    const cv_pass_options options = {0};
    cv_graph *before = parse_case(&cases[i]), *after = parse_case(&cases[i]);
    size_t rule = rule_index(cases[i].rule);
    cv_simplify(after, &options, fired);
    if (cv_graph_verify(after, cases[i].rule) != CV_OK) fail_msg("%s", cv_error_text());
    if (fired[rule] == 0) fail_msg("rule %s did not fire on its case", cases[i].rule);
    bool exact = true;
    for (size_t r = 0; cv_simplify_rules()[r].name; r++) {
      total[r] += fired[r];
      if (fired[r] && cv_simplify_rules()[r].class_ != CV_RULE_EXACT) exact = false;
    }
    compare(&cases[i], before, after, exact);
    cv_graph_destroy(before);
    cv_graph_destroy(after);
  }
  for (size_t r = 0; cv_simplify_rules()[r].name; r++)
    if (total[r] == 0) fail_msg("rule %s has no case", cv_simplify_rules()[r].name);
}

/* --exact: no rule of another class fires. */
static void test_exact_only(void **state) {
  (void)state;
  const cv_pass_options options = {.exact = true};
  for (size_t i = 0; i < N_CASES; i++) {
    uint64_t fired[MAX_RULES] = {0};
    cv_graph *graph = parse_case(&cases[i]);
    cv_simplify(graph, &options, fired);
    for (size_t r = 0; cv_simplify_rules()[r].name; r++)
      if (fired[r]) assert_int_equal(cv_simplify_rules()[r].class_, CV_RULE_EXACT);
    cv_graph_destroy(graph);
  }
}

static void test_fuel(void **state) {
  (void)state;
  const cv_pass_options options = {.rewrite_fuel = 1};
  const rule_case twice = {"neg-neg", X23,
                           "%a: f32[2,3] = neg(%x)\n%b: f32[2,3] = neg(%a)\n"
                           "%d: f32[2,3] = cast(%b) {to=f32}\n%y: f32[2,3] = cast(%d) {to=f32}\n"};
  uint64_t fired[MAX_RULES] = {0}, sum = 0;
  cv_graph *graph = parse_case(&twice);
  cv_simplify(graph, &options, fired);
  for (size_t r = 0; r < MAX_RULES; r++) sum += fired[r];
  assert_int_equal(sum, 1);
  cv_graph_destroy(graph);
}

/* Where a rule must hold back. */
static void test_not_fired(void **state) {
  (void)state;
  static const rule_case held[] = {
      {"add-neutral", X23, SPLAT("0") "%y: f32[2,3] = add(%x, %c)\n"},
      {"mul-zero", X23, SPLAT("0") "%y: f32[2,3] = mul(%x, %c)\n"},
      {"cast-chain", "%x: f32[4]",
       "%a: i32[4] = cast(%x) {to=i32}\n%y: f32[4] = cast(%a) {to=f32}\n"},
      {"cast-chain", "%x: i32[4]",
       "%a: f64[4] = cast(%x) {to=f64}\n%y: i8[4] = cast(%a) {to=i8}\n"},
      {"div-reciprocal", X23, SPLAT("3") "%a: f32[2,3] = div(%x, %c)\n%y: f32[2,3] = round(%a)\n"},
      {"div-exact", X23, SPLAT("3") "%y: f32[2,3] = div(%x, %c)\n"},
      {"slice-of-concat", "%x: f32[2,3], %z: f32[2,4]",
       "%a: f32[2,7] = concat(%x, %z) {axis=1}\n"
       "%y: f32[2,2] = slice(%a) {starts=[0,2], dims=[2,2], steps=[1,1]}\n"},
      {"reshape-of-broadcast", "%x: f32[2,1]",
       "%a: f32[2,3] = broadcast(%x) {dims=[2,3]}\n%y: f32[6] = reshape(%a) {dims=[6]}\n"},
      {"gather-one", "%x: f32[n,3]",
       "%c: i64[] = const {5}\n%y: f32[3] = gather(%x, %c) {axis=0}\n"},
      {"pad-into-window", "%x: f32[1,2,4,4]",
       "%c: f32[] = const {0}\n"
       "%a: f32[1,2,6,6] = pad(%x, %c) {lo=[0,0,1,1], hi=[0,0,1,1]}\n"
       "%y: f32[1,2,3,3] = window(%a) {kind=\"max\", kernel=[2,2], strides=[2,2], "
       "dilations=[1,1], lo=[0,0], hi=[0,0]}\n"},
      {"transpose-is-reshape", "%x: f32[1,3,2]", "%y: f32[2,3,1] = transpose(%x) {perm=[2,1,0]}\n"},
  };
  const cv_pass_options options = {0};
  for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
    uint64_t fired[MAX_RULES] = {0};
    cv_graph *graph = parse_case(&held[i]);
    cv_simplify(graph, &options, fired);
    if (fired[rule_index(held[i].rule)]) fail_msg("rule %s fired on case %zu", held[i].rule, i);
    cv_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_rule),
      cmocka_unit_test(test_exact_only),
      cmocka_unit_test(test_fuel),
      cmocka_unit_test(test_not_fired),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
