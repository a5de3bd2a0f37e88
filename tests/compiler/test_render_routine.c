/* Routines against the interpreter. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/kernel_check.h"

#define TOPK(d, axis, dims, out, largest)                                               \
  "graph \"t\" (%x: " d dims ") { %v: " d out ", %i: i64" out " = topk(%x) {axis=" axis \
  ", k=3, largest=" largest "} } -> (%v, %i)"
#define UNIQUE(d, sorted)                                                  \
  "graph \"t\" (%x: " d                                                    \
  "[60]) { %f: i64[60], %v: i64[60], %c: i64[60], %n: i64[] = unique(%x) " \
  "{sorted=" sorted "} } -> (%f, %v, %c, %n)"
#define SCATTER(d, kind)                                                    \
  "graph \"t\" (%x: " d "[5,6,7], %i: i64[11,2], %u: " d "[11,7]) { %y: " d \
  "[5,6,7] = scatter_nd(%x, %i, %u) {kind=\"" kind "\"} } -> (%y)"
#define NMS(center)                                                                           \
  "graph \"t\" (%b: f32[2,40,4], %s: f32[2,3,40]) { %m: i64[] = const {7} %o: f32[] = const " \
  "{0x1p-2} %l: f32[] = const {-0x1p-1} %y: i64[240,3], %n: i64[] = nms(%b, %s, %m, %o, %l) " \
  "{center=" center "} } -> (%y, %n)"

static const kernel_case cases[] = {
    {"graph \"t\" (%x: f32[4,50]) { %y: i64[4] = arg(%x) {kind=\"max\", axis=1, last=0} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: i32[4,50,3]) { %y: i64[4,3] = arg(%x) {kind=\"min\", axis=1, last=1} } -> "
     "(%y)",
     3,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f16[4,50]) { %y: i64[50] = arg(%x) {kind=\"min\", axis=0, last=0} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[4,0]) { %y: i64[4] = arg(%x) {kind=\"max\", axis=1, last=0} } -> (%y)",
     0,
     0,
     {0},
     3},
    {"graph \"t\" () { %x: f32[5] = const {1, nan, 3, nan, 2} %y: i64[] = arg(%x) {kind=\"max\", "
     "axis=0, last=0} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" () { %x: f32[5] = const {1, nan, 1, nan, 2} %y: i64[] = arg(%x) {kind=\"min\", "
     "axis=0, last=1} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[4,50]) { %y: f32[4,50] = scan(%x) {kind=\"sum\", axis=1, exclusive=0, "
     "reverse=0} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f16[4,5,6]) { %y: f16[4,5,6] = scan(%x) {kind=\"sum\", axis=1, exclusive=1, "
     "reverse=1} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: i32[9,2]) { %y: i32[9,2] = scan(%x) {kind=\"prod\", axis=0, exclusive=0, "
     "reverse=1} } -> (%y)",
     5,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f64[9,2]) { %y: f64[9,2] = scan(%x) {kind=\"prod\", axis=0, exclusive=1, "
     "reverse=0} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[2,3,9,10]) { %y: i64[2,3,4,5] = window_arg(%x) {kernel=[3,2], "
     "strides=[2,2], dilations=[1,1], lo=[0,0], hi=[0,0]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"symbol n [0, 100]\ngraph \"t\" (%x: i8[n,3,9]) { %y: i64[n,3,9] = window_arg(%x) "
     "{kernel=[3], "
     "strides=[1], dilations=[2], lo=[2], hi=[2]} } -> (%y)",
     0,
     0,
     {4, 0, 0, 0},
     0},
    {SCATTER("f32", "set"), 5, 0, {0}, 0},
    {SCATTER("f32", "add"), 5, 0, {0}, 0},
    {SCATTER("f16", "mul"), 5, 0, {0}, 0},
    {SCATTER("i8", "max"), 5, 0, {0}, 0},
    {SCATTER("f64", "min"), 5, 0, {0}, 0},
    {SCATTER("bool", "set"), 5, 0, {0}, 0},
    {SCATTER("u32", "set"), 50, 0, {0}, 1},
    {"symbol n [0, 100]\ngraph \"t\" (%i: i64[11,1], %u: f32[11]) { %x: f32[n] = splat 0x0p+0 %y: "
     "f32[n] = scatter_nd(%x, %i, %u) {kind=\"add\"} } -> (%y)",
     30,
     0,
     {31, 0, 0, 0},
     0},
    {TOPK("f32", "1", "[4,50]", "[4,3]", "1"), 0, 0, {0}, 0},
    {TOPK("i8", "0", "[20,4]", "[3,4]", "0"), 0, 0, {0}, 0},
    {TOPK("f16", "1", "[2,3,5]", "[2,3,5]", "1"), 0, 0, {0}, 0},
    {TOPK("u64", "0", "[3]", "[3]", "0"), 0, 0, {0}, 0},
    {"graph \"t\" (%x: f32[4,50]) { %v: f32[4,3], %i: i64[4,3] = topk(%x) {axis=1, k=3, largest=1} "
     "} -> (%i)",
     0,
     0,
     {0},
     0},
    {"symbol k [0, 100]\ngraph \"t\" (%x: f32[9]) { %v: f32[k], %i: i64[k] = topk(%x) {axis=0, "
     "k=k, "
     "largest=1} } -> (%v, %i)",
     0,
     0,
     {0, 0, 0, 0},
     0},
    {"graph \"t\" (%x: i8[4,50]) { %y: i64[] = nonzero_count(%x) } -> (%y)", 3, 0, {0}, 0},
    {"graph \"t\" (%x: bool[4,50]) { %y: i64[] = nonzero_count(%x) } -> (%y)", 3, 0, {0}, 0},
    {"graph \"t\" (%x: f16[4,50]) { %y: i64[] = nonzero_count(%x) } -> (%y)", 3, 0, {0}, 0},
    {"symbol k [0, 100]\ngraph \"t\" () { %x: i32[2,3] = const {0, 5, 0, -1, 2, 0} %y: i64[2,k] = "
     "nonzero(%x) {k=k} } -> (%y)",
     0,
     0,
     {3, 0, 0, 0},
     0},
    {"symbol k [0, 100]\ngraph \"t\" () { %x: i32[2,3] = const {0, 5, 0, -1, 2, 0} %y: i64[2,k] = "
     "nonzero(%x) {k=k} } -> (%y)",
     0,
     0,
     {2, 0, 0, 0},
     3},
    {"graph \"t\" () { %x: f32[] = const {2} %y: i64[0,1] = nonzero(%x) {k=1} } -> (%y)",
     0,
     0,
     {0},
     0},
    {UNIQUE("i32", "1"), 9, 0, {0}, 0},
    {UNIQUE("f32", "0"), 9, 0, {0}, 0},
    {UNIQUE("u8", "0"), 9, 0, {0}, 0},
    {UNIQUE("bool", "1"), 9, 0, {0}, 0},
    {UNIQUE("bf16", "1"), 1, 0, {0}, 0},
    {NMS("0"), 0, 0, {0}, 0},
    {NMS("1"), 2, 0, {0}, 0},
    {"graph \"t\" () { %y: f32[50,100] = random() {kind=\"uniform\", dims=[50,100], seed=7, "
     "to=f32} "
     "} -> (%y)",
     0,
     0,
     {0},
     0},
    {"symbol n [0, 10000]\ngraph \"t\" () { %y: f16[n] = random() {kind=\"normal\", dims=[n], "
     "seed=-3, to=f16} } -> (%y)",
     0,
     0,
     {5000, 0, 0, 0},
     0},
};

static void routines(void **state) {
  (void)state;
  check_cases("native", cases, sizeof cases / sizeof cases[0]);
}

/* A new routine without a line above fails here. */
static void all_routines_have_cases(void **state) {
  (void)state;
  for (int op = 0; op < CV_OP_COUNT; op++) {
    const cv_op_info *info = cv_op_get((cv_op)op);
    char call[64];
    bool found = info->class_ != CV_CLASS_ROUTINE;
    (void)snprintf(call, sizeof call, "= %s(", info->name);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      found = found || strstr(cases[i].text, call) != NULL;
    }
    if (!found) fail_msg("no case for %s", info->name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_routines_have_cases),
                                     cmocka_unit_test(routines)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
