#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "compiler/templates.h"
#include "tests/compiler/op_cases.h"
#include "tests/compiler/pass_case.h"

typedef struct {
  const char *text;
  const char *pattern; /* NULL: none */
} pattern_case;

#define CONV(groups) \
  "{strides=[1], dilations=[1], lo=[0], hi=[0], groups=" groups ", lhs_dilation=[1], to=f32}"

static const pattern_case cases[] = {
    {"(%x: f32[n,3]) {\n%a: f32[n,3] = exp(%x)\n%b: f32[3*n] = reshape(%a) {dims=[3*n]}\n"
     "} -> (%a, %b)\n",
     "map"},
    {"(%x: f32[n,3]) {\n%a: f32[n,3] = exp(%x)\n%b: f32[3,n] = transpose(%a) {perm=[1,0]}\n"
     "} -> (%a, %b)\n",
     NULL}, /* the results come in different orders */
    {"(%x: f32[n,3]) {\n%a: f32[n] = reduce(%x) {kind=\"sum\", axes=[1]}\n%b: f32[n] = neg(%a)\n"
     "} -> (%b)\n",
     "reduce"},
    {"(%x: f32[n,3]) {\n%a: f32[n] = reduce(%x) {kind=\"sum\", axes=[1]}\n"
     "%b: f32[n,1] = reshape(%a) {dims=[n,1]}\n%c: f32[n,3] = broadcast(%b) {dims=[n,3]}\n"
     "%d: f32[n,3] = sub(%x, %c)\n} -> (%d)\n",
     "row"},
    {"(%x: f32[3,n]) {\n%a: f32[n] = reduce(%x) {kind=\"sum\", axes=[0]}\n"
     "%b: f32[1,n] = reshape(%a) {dims=[1,n]}\n%c: f32[3,n] = broadcast(%b) {dims=[3,n]}\n"
     "%d: f32[3,n] = sub(%x, %c)\n} -> (%d)\n",
     NULL}, /* not the trailing dims */
    {"(%x: f32[n,3], %w: f32[3,4] const, %r: f32[n,4]) {\n%a: f32[n,4] = matmul(%x, %w) {to=f32}\n"
     "%e: f32[n,4] = exp(%r)\n%b: f32[n,4] = add(%a, %e)\n"
     "%c: f32[4,n] = transpose(%b) {perm=[1,0]}\n} -> (%b, %c)\n",
     "contraction"},
    {"(%x: f32[n,3], %w: f32[3,4] const) {\n%a: f32[n,4] = matmul(%x, %w) {to=f32}\n"
     "%b: f32[2*n,2] = reshape(%a) {dims=[2*n,2]}\n} -> (%b)\n",
     "contraction"},
    {"(%x: f32[n,3], %w: f32[3,4] const) {\n%a: f32[n,4] = matmul(%x, %w) {to=f32}\n"
     "%b: f32[m,2] = reshape(%a) {dims=[m,2]}\n} -> (%b)\n",
     NULL}, /* the counts are equal for some n and m alone */
    {"(%x: f32[n,3], %w: f32[3,4] const) {\n%e: f32[n,3] = exp(%x)\n"
     "%a: f32[n,4] = matmul(%e, %w) {to=f32}\n} -> (%a)\n",
     NULL}, /* a float prologue */
    {"(%x: u8[n,3], %w: i8[3,4] const, %s: f32[1,4] const) {\n%e: i32[n,3] = cast(%x) {to=i32}\n"
     "%c: f32[3,4] = cast(%w) {to=f32}\n%t: f32[3,4] = broadcast(%s) {dims=[3,4]}\n"
     "%m: f32[3,4] = mul(%c, %t)\n%f: f32[n,3] = cast(%e) {to=f32}\n"
     "%a: f32[n,4] = matmul(%f, %m) {to=f32}\n} -> (%a)\n",
     "contraction"},
    {"(%x: f32[n,3], %w: f32[3,3] const) {\n%a: f32[n,3] = matmul(%x, %w) {to=f32}\n"
     "%b: f32[n,3] = matmul(%a, %w) {to=f32}\n} -> (%b)\n",
     NULL},
    {"(%x: f32[n,3], %w: f32[3,4] const) {\n%a: f32[n,4] = matmul(%x, %w) {to=f32}\n"
     "%b: f32[4,n] = transpose(%a) {perm=[1,0]}\n%c: f32[4,n] = exp(%b)\n} -> (%c)\n",
     NULL}, /* computing behind a final move */
    {"(%x: f32[n,4,9], %w: f32[4,1,3] const) {\n%a: f32[n,4,7] = conv(%x, %w) " CONV(
         "4") "\n"
              "} -> (%a)\n",
     "window"},
    {"(%x: f32[n,4,9], %w: f32[8,1,3] const) {\n%a: f32[n,8,7] = conv(%x, %w) " CONV(
         "4") "\n"
              "} -> (%a)\n",
     "contraction"},
    {"(%x: f32[n,4,9]) {\n%a: f32[n,4,3] = window(%x) {kind=\"max\", kernel=[3], strides=[3], "
     "dilations=[1], lo=[0], hi=[0]}\n%b: f32[n,4,3] = neg(%a)\n} -> (%b)\n",
     "window"},
    {"(%x: f32[n,3]) {\n%a: f32[n,3] = scan(%x) {kind=\"sum\", axis=1, exclusive=0, reverse=0}\n"
     "} -> (%a)\n",
     "routine"},
    {"(%x: f32[n,3]) {\n%a: f32[n,3] = scan(%x) {kind=\"sum\", axis=1, exclusive=0, reverse=0}\n"
     "%b: f32[n,3] = neg(%a)\n} -> (%b)\n",
     NULL},
};

static void test_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cv_str text = {0};
    cv_str_add(&text, "graph \"g\" %s", cases[i].text);
    cv_graph *g = graph_of(text.data);
    cv_pattern pattern;
    cv_status status = cv_pattern_of(g, &pattern);
    if (!cases[i].pattern) {
      if (status != CV_UNSUPPORTED) fail_msg("case %zu has pattern %d", i, (int)pattern);
    } else if (status != CV_OK) {
      fail_msg("case %zu: %s", i, cv_error_text());
    } else {
      assert_string_equal(cv_pattern_name(pattern), cases[i].pattern);
    }
    cv_graph_destroy(g);
    cv_str_deinit(&text);
  }
}

/* A body of any one core op outside of BIND and CONTROL has a template: all that the op cases hold.
 */
static void test_any_op(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof op_cases / sizeof *op_cases; i++) {
    cv_str text = {0};
    cv_str_add(&text, "graph \"g\" () {\n%s} -> (%s)\n", op_cases[i].body, op_cases[i].results);
    cv_graph *g = graph_of(text.data);
    const cv_node *node = g->body->nodes.len == 1 ? g->body->nodes.data[0] : NULL;
    cv_pattern pattern;
    cv_op_class class = node ? cv_class_of(node) : CV_CLASS_CONTROL;
    if (class != CV_CLASS_CONTROL && class != CV_CLASS_BIND && cv_pattern_of(g, &pattern) != CV_OK)
      fail_msg("%s: %s", cv_op_get(node->op)->name, cv_error_text());
    cv_graph_destroy(g);
    cv_str_deinit(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_any_op)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
