#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/pass_case.h"

typedef struct {
  const char *name, *text;
  bool separable;
  const char *why;
  int32_t in_axis, out_axis; /* of the first input and output */
  int64_t out_factor;
} proof_case;

static const proof_case cases[] = {
    {"elementwise", "(%x: f32[n,3]) {\n%y: f32[n,3] = neg(%x)\n", true, "", 0, 0, 1},
    {"a reduce over the batch",
     "(%x: f32[n,3]) {\n%y: f32[3] = reduce(%x) {kind=\"sum\", axes=[0]}\n", false,
     "reduces over the batch", 0, 0, 0},
    {"a reduce beside it",
     "(%x: f32[3,n,2]) {\n%y: f32[n,2] = reduce(%x) {kind=\"sum\", axes=[0]}\n", false,
     "no input has a symbol as its dim 0", 0, 0, 0},
    {"a scale of the whole tensor",
     "(%x: f32[n,3]) {\n%m: f32[] = reduce(%x) {kind=\"max\", axes=[0,1]}\n"
     "%a: f32[1,1] = reshape(%m) {dims=[1,1]}\n%b: f32[n,3] = broadcast(%a) {dims=[n,3]}\n"
     "%y: f32[n,3] = div(%x, %b)\n",
     false, "reduces over the batch", 0, 0, 0},
    {"a product of weights, merged and split",
     "(%x: f32[n,5,3], %w: f32[3,4]) {\n%a: f32[5*n,3] = reshape(%x) {dims=[5*n,3]}\n"
     "%b: f32[5*n,4] = matmul(%a, %w) {to=f32}\n%y: f32[n,5,4] = reshape(%b) {dims=[n,5,4]}\n",
     true, "", 0, 0, 1},
    {"several rows an item", "(%x: f32[n,5,3]) {\n%y: f32[5*n,3] = reshape(%x) {dims=[5*n,3]}\n",
     true, "", 0, 0, 5},
    {"attention: batch and heads as batch dims",
     "(%x: f32[n,2,5,3]) {\n%t: f32[n,2,3,5] = transpose(%x) {perm=[0,1,3,2]}\n"
     "%y: f32[n,2,5,5] = matmul(%x, %t) {to=f32}\n",
     true, "", 0, 0, 1},
    {"the batch summed over by a product",
     "(%x: f32[n,3]) {\n%t: f32[3,n] = transpose(%x) {perm=[1,0]}\n"
     "%y: f32[3,3] = matmul(%t, %x) {to=f32}\n",
     false, "sums over the batch", 0, 0, 0},
    {"each item with each other",
     "(%x: f32[n,3]) {\n%t: f32[3,n] = transpose(%x) {perm=[1,0]}\n"
     "%y: f32[n,n] = matmul(%x, %t) {to=f32}\n",
     false, "each item of the batch with each other", 0, 0, 0},
    {"items of the batch interleaved",
     "(%x: f32[n,5]) {\n%t: f32[5,n] = transpose(%x) {perm=[1,0]}\n"
     "%y: f32[5*n] = reshape(%t) {dims=[5*n]}\n",
     false, "do not lie one after the other", 0, 0, 0},
    {"interleaved and back",
     "(%x: f32[n,5]) {\n%t: f32[5,n] = transpose(%x) {perm=[1,0]}\n"
     "%f: f32[5*n] = reshape(%t) {dims=[5*n]}\n%b: f32[5,n] = reshape(%f) {dims=[5,n]}\n"
     "%y: f32[n,5] = transpose(%b) {perm=[1,0]}\n",
     true, "", 0, 0, 1},
    {"a shared input",
     "(%x: f32[n,3], %w: f32[3]) {\n%a: f32[1,3] = reshape(%w) {dims=[1,3]}\n"
     "%b: f32[n,3] = broadcast(%a) {dims=[n,3]}\n%y: f32[n,3] = add(%x, %b)\n",
     true, "", 0, 0, 1},
    {"joined along the batch", "(%x: f32[n,3]) {\n%y: f32[2*n,3] = concat(%x, %x) {axis=0}\n",
     false, "joins along the batch", 0, 0, 0},
    {"some items of the batch",
     "(%x: f32[n,3]) {\n%y: f32[1,3] = slice(%x) {starts=[0,0], dims=[1,3], steps=[1,1]}\n", false,
     "takes some items", 0, 0, 0},
    {"the batch turned round",
     "(%x: f32[n,3]) {\n%y: f32[n,3] = slice(%x) {starts=[n-1,0], dims=[n,3], steps=[-1,1]}\n",
     false, "takes some items", 0, 0, 0},
    {"picked along the batch",
     "(%x: f32[n,3], %i: i64[2]) {\n%y: f32[2,3] = gather(%x, %i) {axis=0}\n", false,
     "picks along the batch", 0, 0, 0},
    {"looked up in a table",
     "(%x: i64[n,3], %t: f32[9,4]) {\n%y: f32[n,3,4] = gather(%t, %x) "
     "{axis=0}\n",
     true, "", 0, 0, 1},
    {"a size that comes from data",
     "(%x: f32[n,3]) {\n%c: i64[] = nonzero_count(%x)\nbind(%c) {exprs=[k]}\n"
     "%y: i64[2,k] = nonzero(%x) {k=k}\n",
     false, "all items of the batch at once", 0, 0, 0},
    {"numbered items",
     "(%x: f32[n]) {\n%i: f32[n] = iota() {dims=[n], axis=0, to=f32}\n%y: f32[n] = add(%x, %i)\n",
     false, "numbers the items", 0, 0, 0},
    {"the size of the batch as a value", "(%x: f32[n]) {\n%y: i64[1] = extents() {exprs=[n]}\n",
     false, "size of the batch", 0, 0, 0},
    {"drawn numbers",
     "(%x: f32[n]) {\n%y: f32[3] = random() {kind=\"normal\", dims=[3], seed=1, to=f32}\n", false,
     "draws anew", 0, 0, 0},
    {"a convolution with a fixed start value",
     "(%x: f32[n,2,4], %w: f32[2,2,3]) {\n%y: f32[n,2,4] = conv(%x, %w) {strides=[1], "
     "dilations=[1], lo=[1], hi=[1], groups=1, lhs_dilation=[1], to=f32}\n",
     true, "", 0, 0, 1},
    {"a loop that carries items",
     "(%x: f32[n,2], %t: i64[]) {\n%on: bool[] = const {1}\n"
     "%o: f32[n,2], %y: f32[trips,n,2] = loop(%t, %on, %x) {symbol=trips, max=9} [\n"
     "block (%i: i64[], %c: bool[], %v: f32[n,2]) {\n%p: f32[n,2] = add(%v, %x)\n"
     "} -> (%c, %p, %p)]\n",
     true, "", 0, 1, 1},
    {"a loop that runs until an item says",
     "(%x: f32[n,2]) {\n%on: bool[] = const {1}\n%t: i64[] = const {5}\n"
     "%o: f32[n,2], %y: f32[trips,n,2] = loop(%t, %on, %x) {symbol=trips, max=9} [\n"
     "block (%i: i64[], %c: bool[], %v: f32[n,2]) {\n%b: bool[n,2] = cast(%v) {to=bool}\n"
     "%p: bool[] = reduce(%b) {kind=\"any\", axes=[0,1]}\n} -> (%p, %v, %v)]\n",
     false, "reduces over the batch", 0, 0, 0},
};

static void test_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cv_str text = {0};
    cv_str_add(&text, "graph \"g\" %s} -> (%%y \"y\")\n", cases[i].text);
    cv_graph *g = graph_of(text.data);
    cv_separability verdict;
    cv_prove_separable(g, &verdict);
    if (verdict.separable != cases[i].separable) fail_msg("%s: %s", cases[i].name, verdict.why);
    if (!strstr(verdict.why, cases[i].why)) fail_msg("%s: '%s'", cases[i].name, verdict.why);
    if (cases[i].separable) {
      assert_int_equal(verdict.input_axis[0], cases[i].in_axis);
      assert_int_equal(verdict.output_axis[0], cases[i].out_axis);
      assert_int_equal(verdict.output_factor[0], cases[i].out_factor);
      for (size_t k = 1; k < g->body->params.len; k++) assert_int_equal(verdict.input_axis[k], -1);
    }
    cv_graph_destroy(g);
    cv_str_deinit(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
