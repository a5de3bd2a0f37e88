#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/graph.h"

/* Lines over i64 and bool values; what is known of %y, "?" for nothing. The graph has an input
 * %x: f32[n,c,4], and these values: %s = [n, c, 4], %n = n (scalar). */
static const struct {
  const char *body, *elems;
} cases[] = {
    {"%y: i64[3] = reshape(%s) {dims=[3]}\n", "n c 4"},
    {"%y: i64[1] = slice(%s) {dims=[1], starts=[1], steps=[1]}\n", "c"},
    {"%y: i64[3] = slice(%s) {dims=[3], starts=[2], steps=[-1]}\n", "4 c n"},
    {"%i: i64[2] = const {-1, 0}\n%y: i64[2] = gather(%s, %i) {axis=0}\n", "4 n"},
    {"%i: i32[] = const {1}\n%y: i64[] = gather(%s, %i) {axis=0}\n", "c"},
    {"%i: i64[1] = const {5}\n%y: i64[1] = gather(%s, %i) {axis=0}\n", "?"},
    {"%k: i64[1] = const {-1}\n%y: i64[4] = concat(%s, %k) {axis=0}\n", "n c 4 -1"},
    {"%a: i64[1,3] = reshape(%s) {dims=[1,3]}\n%b: i64[2,3] = concat(%a, %a) {axis=0}\n"
     "%t: i64[3,2] = transpose(%b) {perm=[1,0]}\n%y: i64[3] = reduce(%t) {axes=[1], "
     "kind=\"sum\"}\n",
     "2*n 2*c 8"},
    {"%a: i64[3,1] = reshape(%s) {dims=[3,1]}\n%b: i64[3,2] = concat(%a, %a) {axis=1}\n"
     "%y: i64[6] = reshape(%b) {dims=[6]}\n",
     "n n c c 4 4"},
    {"%y: i64[3] = add(%s, %s)\n", "2*n 2*c 8"},
    {"%y: i64[3] = sub(%s, %s)\n", "0 0 0"},
    {"%y: i64[3] = mul(%s, %s)\n", "n*n c*c 16"},
    {"%y: i64[3] = neg(%s)\n", "-n -c -4"},
    {"%d: i64[3] = const {2, -2, 3}\n%y: i64[3] = div(%s, %d)\n", "?"},
    {"%d: i64[3] = const {2, 3, 3}\n%y: i64[3] = div(%s, %d)\n", "floordiv(n, 2) floordiv(c, 3) 1"},
    {"%d: i64[3] = const {2, 3, 3}\n%y: i64[3] = rem(%s, %d)\n", "mod(n, 2) mod(c, 3) 1"},
    {"%a: i64[2] = const {-7, 7}\n%b: i64[2] = const {2, -2}\n%y: i64[2] = div(%a, %b)\n", "-3 -3"},
    {"%a: i64[2] = const {-7, 7}\n%b: i64[2] = const {2, 0}\n%y: i64[2] = rem(%a, %b)\n", "-1 0"},
    {"%a: i64[1] = const {-9223372036854775808}\n%b: i64[1] = const {-1}\n"
     "%y: i64[1] = rem(%a, %b)\n",
     "0"},
    {"%z: i64[3] = const {0, 0, 9}\n%y: i64[3] = max(%s, %z)\n", "n c 9"},
    {"%z: i64[3] = const {0, 0, 9}\n%y: i64[3] = min(%s, %z)\n", "0 0 4"},
    {"%z: i64[3] = const {0, 0, 4}\n%y: bool[3] = eq(%s, %z)\n", "0 0 1"},
    {"%z: i64[3] = const {3, 0, 4}\n%y: bool[3] = lt(%s, %z)\n", "lt(n, 3) 0 0"},
    {"%z: i64[3] = const {3, 0, 4}\n%y: bool[3] = le(%s, %z)\n", "-lt(3, n) + 1 0 1"},
    {"%z: i64[3] = const {3, 0, 4}\n%l: bool[3] = lt(%s, %z)\n%m: bool[3] = not(%l)\n"
     "%a: bool[3] = and(%l, %m)\n%o: bool[3] = or(%l, %m)\n%x2: bool[3] = xor(%l, %l)\n"
     "%p: bool[6] = concat(%a, %o) {axis=0}\n%y: bool[9] = concat(%p, %x2) {axis=0}\n",
     "0 0 0 1 1 1 0 0 0"},
    {"%z: i64[3] = const {3, 0, 4}\n%l: bool[3] = lt(%s, %z)\n%y: i64[3] = select(%l, %z, %s)\n",
     "select(lt(n, 3), 3, n) c 4"},
    {"%y: i32[3] = cast(%s) {to=i32}\n", "n c 4"},
    {"%y: i8[3] = cast(%s) {to=i8}\n", "?"},
    {"%y: bool[3] = cast(%s) {to=bool}\n", "1 1 1"},
    {"%f: f32[3] = cast(%s) {to=f32}\n%y: i64[3] = cast(%f) {to=i64}\n", "?"},
    {"%a: i64[1] = slice(%s) {dims=[1], starts=[0], steps=[1]}\n"
     "%y: i64[3] = broadcast(%a) {dims=[3]}\n",
     "n n n"},
    {"%y: i64[] = reduce(%s) {axes=[0], kind=\"prod\"}\n", "4*c*n"},
    {"%y: i64[] = reduce(%s) {axes=[0], kind=\"max\"}\n", "max(4, max(c, n))"},
    {"%y: i64[] = reduce(%s) {axes=[0], kind=\"min\"}\n", "min(4, min(c, n))"},
    {"%y: i64[3] = iota() {dims=[3], axis=0, to=i64}\n", "0 1 2"},
    {"%y: i64[2,2] = iota() {dims=[2,2], axis=1, to=i64}\n", "0 1 0 1"},
    {"%y: i8[200] = iota() {dims=[200], axis=0, to=i8}\n", "?"},
    {"%y: i64[2000] = iota() {dims=[2000], axis=0, to=i64}\n", "?"},
    {"%y: u8[2] = const {255, 0}\n", "255 0"},
    {"%y: i64[3] = splat -2\n", "-2 -2 -2"},
    {"%a: i32[1] = const {2147483647}\n%y: i32[1] = add(%a, %a)\n", "?"},
};

static cv_graph *graph_of(const char *body) {
  char *text = cv_format(
      "symbol c [1, 1000]\nsymbol n [1, 1000]\n"
      "graph \"\" (%%x: f32[n,c,4]) {\n%%s: i64[3] = extents() {exprs=[n,c,4]}\n"
      "%s} -> (%%x)\n",
      body);
  cv_graph *graph = NULL;
  if (cv_graph_parse(text, NULL, NULL, NULL, &graph) != CV_OK) {
    fail_msg("%s\n%s", cv_error_text(), text);
  }
  cv_free(text);
  return graph;
}

static cv_val named(const cv_graph *graph, const char *name) {
  for (size_t v = 0; v < graph->values.len; v++) {
    const char *own = graph->values.data[v].name;
    if (own != NULL && strcmp(own, name) == 0) return (cv_val)v;
  }
  return CV_POISON;
}

static void test_what_is_known(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cv_graph *graph = graph_of(cases[i].body);
    const cv_expr *elems;
    uint32_t n;
    cv_str text = {0};
    cv_val y = named(graph, "y");
    if (!cv_graph_elems(graph, y, &elems, &n)) {
      cv_str_puts(&text, "?");
    } else {
      for (uint32_t k = 0; k < n; k++) {
        if (k > 0) cv_str_puts(&text, " ");
        cv_expr_print(graph->exprs, elems[k], &text);
      }
    }
    if (strcmp(cv_str_text(&text), cases[i].elems) != 0) {
      fail_msg("%s gives %s, not %s", cases[i].body, cv_str_text(&text), cases[i].elems);
    }
    cv_str_deinit(&text);
    cv_graph_destroy(graph);
  }
}

static void test_bind_elems(void **state) {
  (void)state;
  cv_graph *graph = graph_of("%k: i64[] = nonzero_count(%x)\n%u: u8[2] = const\n");
  const cv_expr *elems, *again;
  uint32_t n;
  size_t nodes = graph->body->nodes.len;
  assert_false(cv_graph_elems(graph, named(graph, "k"), &elems, &n));
  assert_true(cv_graph_bind_elems(graph, named(graph, "k"), "n", 0, 77, &elems, &n));
  assert_int_equal(n, 1);
  assert_int_equal(graph->body->nodes.len, nodes + 1);
  cv_sym sym;
  int64_t lo, hi;
  assert_true(cv_expr_is_symbol(graph->exprs, elems[0], &sym));
  assert_string_equal(cv_symbol_name(graph->exprs, sym), "n.2"); /* n is taken */
  cv_symbol_bounds(graph->exprs, sym, &lo, &hi);
  assert_true(lo == 0 && hi == 77);
  assert_true(cv_graph_bind_elems(graph, named(graph, "k"), "m", 0, 9, &again, &n));
  assert_ptr_equal(again, elems);
  /* Known ones need no node. */
  assert_true(cv_graph_bind_elems(graph, named(graph, "s"), "m", 0, 9, &again, &n));
  assert_int_equal(n, 3);
  assert_int_equal(graph->body->nodes.len, nodes + 1);
  /* Other integers go through i64. */
  assert_true(cv_graph_bind_elems(graph, named(graph, "u"), "m", 0, 9, &again, &n));
  assert_int_equal(n, 2);
  assert_int_equal(graph->body->nodes.len, nodes + 3);
  assert_int_equal(cv_graph_verify(graph, "test"), CV_OK);
  assert_false(cv_graph_bind_elems(graph, named(graph, "x"), "m", 0, 9, &again, &n));
  assert_int_equal(graph->status, CV_UNSUPPORTED);
  cv_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_known),
      cmocka_unit_test(test_bind_elems),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
