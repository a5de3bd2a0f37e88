/* The row and reduce templates against the interpreter. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/kernel_check.h"

#define SOFTMAX(d, dims, outer, kept, axis)                                                       \
  "graph \"t\" (%x: " d dims ") { %m: " d outer " = reduce(%x) {kind=\"max\", axes=[" axis        \
  "]} %mr: " d kept " = reshape(%m) {dims=" kept "} %mb: " d dims " = broadcast(%mr) {dims=" dims \
  "} %c: " d dims " = sub(%x, %mb) %e: " d dims " = exp(%c) %s: " d outer                         \
  " = reduce(%e) {kind=\"sum\", axes=[" axis "]} %sr: " d kept " = reshape(%s) {dims=" kept       \
  "} %sb: " d dims " = broadcast(%sr) {dims=" dims "} %y: " d dims " = div(%e, %sb) } -> (%y)"

static const kernel_case cases[] = {
    /* reduces */
    {"graph \"t\" (%x: f32[5,100]) { %y: f32[5] = reduce(%x) {kind=\"sum\", axes=[1]} } -> (%y)",
     0,
     1e-5,
     {0},
     0},
    {"graph \"t\" (%x: f32[5,100]) { %y: f32[100] = reduce(%x) {kind=\"sum\", axes=[0]} } -> (%y)",
     0,
     1e-5,
     {0},
     0},
    {"graph \"t\" (%x: f32[3,7,4,5]) { %y: f32[3,4] = reduce(%x) {kind=\"max\", axes=[1,3]} } -> "
     "(%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[3,7,4,5]) { %y: f32[] = reduce(%x) {kind=\"min\", axes=[0,1,2,3]} } -> "
     "(%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f64[3,40]) { %y: f64[3] = reduce(%x) {kind=\"prod\", axes=[1]} } -> (%y)",
     1.1,
     1e-11,
     {0},
     0},
    {"graph \"t\" (%x: f16[3,200]) { %y: f16[3] = reduce(%x) {kind=\"sum\", axes=[1]} } -> (%y)",
     1,
     0,
     {0},
     0},
    {"graph \"t\" (%x: bf16[30,20]) { %y: bf16[20] = reduce(%x) {kind=\"max\", axes=[0]} } -> (%y)",
     1,
     0,
     {0},
     0},
    {"graph \"t\" (%x: i8[3,200]) { %y: i8[3] = reduce(%x) {kind=\"sum\", axes=[1]} } -> (%y)",
     100,
     0,
     {0},
     0},
    {"graph \"t\" (%x: i64[3,200]) { %y: i64[3] = reduce(%x) {kind=\"max\", axes=[1]} } -> (%y)",
     100,
     0,
     {0},
     0},
    {"graph \"t\" (%x: u8[3,0]) { %y: u8[3] = reduce(%x) {kind=\"min\", axes=[1]} } -> (%y)",
     100,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[3,0]) { %y: f32[3] = reduce(%x) {kind=\"max\", axes=[1]} } -> (%y)",
     100,
     0,
     {0},
     0},
    {"graph \"t\" (%x: bool[3,50]) { %y: bool[3] = reduce(%x) {kind=\"any\", axes=[1]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: bool[2,20]) { %y: bool[20] = reduce(%x) {kind=\"all\", axes=[0]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: u16[9,20]) { %y: u16[9] = reduce(%x) {kind=\"prod\", axes=[1]} } -> (%y)",
     9,
     0,
     {0},
     0},
    {"symbol b [0, 100]\ngraph \"t\" (%x: f32[b,8,7,7]) { %s: f32[b,8] = reduce(%x) {kind=\"sum\", "
     "axes=[2,3]} %k: f32[b,8] = splat 0x1p-3 %m: f32[b,8] = mul(%s, %k) %y: f32[b,8,1,1] = "
     "reshape(%m) {dims=[b,8,1,1]} } -> (%y)",
     0,
     1e-5,
     {3, 0, 0, 0},
     0},
    {"graph \"t\" (%x: f32[6,100], %w: f32[6]) { %q: f32[6,100] = mul(%x, %x) %s: f32[6] = "
     "reduce(%q) {kind=\"sum\", axes=[1]} %m: f32[6] = mul(%s, %w) %y: f32[2,3] = reshape(%m) "
     "{dims=[2,3]} %z: f32[3,2] = transpose(%y) {perm=[1,0]} } -> (%z)",
     0,
     1e-4,
     {0},
     0},
    {"graph \"t\" (%x: f32[1,70000]) { %y: f32[1] = reduce(%x) {kind=\"sum\", axes=[1]} } -> (%y)",
     1,
     1e-4,
     {0},
     0},
    {"graph \"t\" (%x: f32[5,1]) { %y: f32[5] = reduce(%x) {kind=\"sum\", axes=[1]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[5,6]) { %y: f32[5,6] = reduce(%x) {kind=\"sum\", axes=[]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"symbol b [0, 100]\ngraph \"t\" (%x: f32[b,8,6,6], %z: f32[b,8,3,3]) { %p: f32[b,8,36] = "
     "reshape(%x) {dims=[b,8,36]} %q: f32[b,8,9] = reshape(%z) {dims=[b,8,9]} %c: f32[b,8,45] = "
     "concat(%p, %q) {axis=2} %r: f32[b,4,2,45] = reshape(%c) {dims=[b,4,2,45]} %y: f32[b,4,45] = "
     "reduce(%r) {kind=\"max\", axes=[2]} } -> (%y)",
     0,
     0,
     {3, 0, 0, 0},
     0},
    /* results behind a reshape that divides them otherwise */
    {"symbol m [0, 100]\ngraph \"t\" (%x: f32[m,3,20]) { %s: f32[m,3] = reduce(%x) {kind=\"sum\", "
     "axes=[2]} %n: f32[m,3] = neg(%s) %y: f32[3,m] = reshape(%n) {dims=[3,m]} } -> (%y)",
     0,
     0,
     {7, 0, 0, 0},
     0},
    {"symbol m [0, 100]\ngraph \"t\" (%x: f32[m,3]) { %s: f32[m] = reduce(%x) {kind=\"max\", "
     "axes=[1]} %r: f32[m,1] = reshape(%s) {dims=[m,1]} %b: f32[m,3] = broadcast(%r) {dims=[m,3]} "
     "%d: f32[m,3] = sub(%x, %b) %t: f32[m] = reduce(%d) {kind=\"sum\", axes=[1]} %y: f32[3,m] = "
     "reshape(%d) {dims=[3,m]} } -> (%y, %t)",
     0,
     1e-5,
     {7, 0, 0, 0},
     0},
    /* rows */
    {SOFTMAX("f32", "[4,50]", "[4]", "[4,1]", "1"), 5, 0, {0}, 0},
    {SOFTMAX("f16", "[4,50]", "[4]", "[4,1]", "1"), 5, 0, {0}, 0},
    {SOFTMAX("f64", "[2,3,50]", "[2,3]", "[2,3,1]", "2"), 5, 0, {0}, 0},
    {SOFTMAX("f32", "[3,4,6]", "[3]", "[3,1,1]", "1,2"), 5, 0, {0}, 0},
    {SOFTMAX("f32", "[5,1]", "[5]", "[5,1]", "1"), 5, 0, {0}, 0},
    {"graph \"t\" (%p: f32[3,20,40]) { %x: f32[3,40,20] = transpose(%p) {perm=[0,2,1]} %m: "
     "f32[3,40] "
     "= reduce(%x) {kind=\"max\", axes=[2]} %mr: f32[3,40,1] = reshape(%m) {dims=[3,40,1]} %mb: "
     "f32[3,40,20] = broadcast(%mr) {dims=[3,40,20]} %c: f32[3,40,20] = sub(%x, %mb) %e: "
     "f32[3,40,20] = exp(%c) %s: f32[3,40] = reduce(%e) {kind=\"sum\", axes=[2]} %sr: f32[3,40,1] "
     "= "
     "reshape(%s) {dims=[3,40,1]} %sb: f32[3,40,20] = broadcast(%sr) {dims=[3,40,20]} %y: "
     "f32[3,40,20] = div(%e, %sb) %z: f32[3,20,40] = transpose(%y) {perm=[0,2,1]} } -> (%z)",
     5,
     0,
     {0},
     0},
    {"symbol b [0, 100] symbol s [0, 100]\n"
     "graph \"t\" (%x: f32[b,s,48], %r: f32[b,s,48], %g: f32[48] const, %h: f32[48] const) {\n"
     "%a: f32[b,s,48] = add(%x, %r) %s1: f32[b,s] = reduce(%a) {kind=\"sum\", axes=[2]}\n"
     "%n: f32[b,s] = splat 0x1.5555555555555p-6 %m: f32[b,s] = mul(%s1, %n) %mr: f32[b,s,1] = "
     "reshape(%m) {dims=[b,s,1]} %mb: f32[b,s,48] = broadcast(%mr) {dims=[b,s,48]}\n"
     "%d: f32[b,s,48] = sub(%a, %mb) %q: f32[b,s,48] = mul(%d, %d) %v: f32[b,s] = reduce(%q) "
     "{kind=\"sum\", axes=[2]} %w: f32[b,s] = mul(%v, %n) %eps: f32[b,s] = splat 0x1p-10 %we: "
     "f32[b,s] = add(%w, %eps) %sd: f32[b,s] = sqrt(%we) %sr: f32[b,s,1] = reshape(%sd) "
     "{dims=[b,s,1]} %sb: f32[b,s,48] = broadcast(%sr) {dims=[b,s,48]} %o: f32[b,s,48] = div(%d, "
     "%sb)\n"
     "%g1: f32[1,1,48] = reshape(%g) {dims=[1,1,48]} %gb: f32[b,s,48] = broadcast(%g1) "
     "{dims=[b,s,48]} %h1: f32[1,1,48] = reshape(%h) {dims=[1,1,48]} %hb: f32[b,s,48] = "
     "broadcast(%h1) {dims=[b,s,48]} %og: f32[b,s,48] = mul(%o, %gb) %y: f32[b,s,48] = add(%og, "
     "%hb) } -> (%y, %a, %sd)",
     0,
     1e-5,
     {2, 5, 0, 0},
     0},
    {"graph \"t\" (%p: f32[2,6,5,7], %g: f32[6]) { %x: f32[2,3,2,35] = reshape(%p) "
     "{dims=[2,3,2,35]} %s: f32[2,3] = reduce(%x) {kind=\"sum\", axes=[2,3]} %sr: f32[2,3,1,1] = "
     "reshape(%s) {dims=[2,3,1,1]} %sb: f32[2,3,2,35] = broadcast(%sr) {dims=[2,3,2,35]} %d: "
     "f32[2,3,2,35] = sub(%x, %sb) %g1: f32[1,3,2,1] = reshape(%g) {dims=[1,3,2,1]} %gb: "
     "f32[2,3,2,35] = broadcast(%g1) {dims=[2,3,2,35]} %o: f32[2,3,2,35] = mul(%d, %gb) %y: "
     "f32[2,6,5,7] = reshape(%o) {dims=[2,6,5,7]} } -> (%y)",
     0,
     1e-4,
     {0},
     0},
};

static void rows(void **state) {
  (void)state;
  check_cases("native", cases, sizeof cases / sizeof cases[0]);
}

static void rows_on_avx2(void **state) {
  (void)state;
  check_cases_on_avx2(cases, sizeof cases / sizeof cases[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(rows_on_avx2)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
