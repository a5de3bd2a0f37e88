/* The contraction template on products against the interpreter: batch dims that are expressions,
 * results behind reshapes that divide them otherwise. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/kernel_check.h"

#define BATCHED(b)                                                      \
  {                                                                     \
    "graph \"t\" (%x: f32[" b ",3,4], %w: f32[" b ",4,5]) { %y: f32[" b \
    ",3,5] = matmul(%x, %w) {to=f32} } -> (%y)",                        \
        1, 2e-6, {5}, 0                                                 \
  }

static const kernel_case cases[] = {
    {"graph \"t\" (%x: f32[7,4], %w: f32[4,19] const) { %y: f32[7,19] = matmul(%x, %w) {to=f32} } "
     "-> (%y)",
     1,
     2e-6,
     {0},
     0},
    BATCHED("m"),
    BATCHED("2*m"),
    BATCHED("m + 2"),
    BATCHED("m,m + 1"),
    {"graph \"t\" (%x: f32[m,4], %w: f32[4,3] const, %b: f32[1,3]) { %p: f32[m,3] = matmul(%x, %w) "
     "{to=f32} %c: f32[m,3] = broadcast(%b) {dims=[m,3]} %s: f32[m,3] = add(%p, %c) %y: f32[3,m] = "
     "reshape(%s) {dims=[3,m]} } -> (%y)",
     1,
     2e-6,
     {7},
     0},
    {"graph \"t\" (%x: f32[m,6,4], %w: f32[m,4,m]) { %p: f32[m,6,m] = matmul(%x, %w) {to=f32} %r: "
     "f32[3,2*m*m] = reshape(%p) {dims=[3,2*m*m]} %y: f32[2*m*m,3] = transpose(%r) {perm=[1,0]} } "
     "-> (%y)",
     1,
     2e-6,
     {4},
     0},
};

static void products(void **state) {
  (void)state;
  check_cases("native", cases, sizeof cases / sizeof cases[0]);
}

static void products_on_avx2(void **state) {
  (void)state;
  check_cases_on_avx2(cases, sizeof cases / sizeof cases[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products),
                                     cmocka_unit_test(products_on_avx2)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
