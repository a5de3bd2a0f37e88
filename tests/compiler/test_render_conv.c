/* Convolution, depthwise and pooling templates against the interpreter: strides, dilations, pads,
 * widths that leave part of a vector. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/kernel_check.h"

#define CONV2(x, w, y, pads, strides, dilations, groups)                               \
  {                                                                                    \
    "graph \"t\" (%x: f32[" x "], %w: f32[" w "] const) { %y: f32[" y                  \
    "] = conv(%x, %w) {to=f32, " pads ", strides=[" strides "], dilations=[" dilations \
    "], lhs_dilation=[1,1], groups=" groups "} } -> (%y)",                             \
        1, 2e-5, {0}, 0                                                                \
  }
#define POOL(x, y, kind, kernel, pads, strides)                                          \
  {                                                                                      \
    "graph \"t\" (%x: f32[" x "]) { %y: f32[" y "] = window(%x) {kernel=[" kernel        \
    "], strides=[" strides "], dilations=[1,1], " pads ", kind=\"" kind "\"} } -> (%y)", \
        0, 1e-5, {0}, 0                                                                  \
  }
#define NO_PADS "lo=[0,0], hi=[0,0]"
#define PADS_1 "lo=[1,1], hi=[1,1]"
#define PADS_2 "lo=[2,2], hi=[2,2]"

static const kernel_case cases[] = {
    /* gathers of pixels: one stride, two, three; rows shorter and longer than a vector */
    CONV2("1,3,9,9", "5,3,3,3", "1,5,9,9", PADS_1, "1,1", "1,1", "1"),
    CONV2("1,3,64,64", "8,3,3,3", "1,8,32,32", PADS_1, "2,2", "1,1", "1"),
    CONV2("2,3,41,77", "8,3,3,3", "2,8,20,38", NO_PADS, "2,2", "1,1", "1"),
    CONV2("1,4,33,35", "6,4,1,1", "1,6,17,18", NO_PADS, "2,2", "1,1", "1"),
    CONV2("1,2,40,50", "4,2,3,3", "1,4,13,16", NO_PADS, "3,3", "1,1", "1"),
    CONV2("1,2,21,22", "4,2,3,3", "1,4,9,9", NO_PADS, "2,2", "2,2", "1"),
    CONV2("1,4,20,20", "6,2,3,3", "1,6,10,10", PADS_1, "2,2", "1,1", "2"),
    /* depthwise */
    CONV2("1,5,14,14", "5,1,3,3", "1,5,14,14", PADS_1, "1,1", "1,1", "5"),
    CONV2("2,5,28,28", "5,1,3,3", "2,5,14,14", PADS_1, "2,2", "1,1", "5"),
    CONV2("1,3,57,67", "3,1,5,5", "1,3,29,34", PADS_2, "2,2", "1,1", "3"),
    CONV2("1,3,41,77", "3,1,3,3", "1,3,20,38", NO_PADS, "2,2", "1,1", "3"),
    CONV2("1,3,40,50", "3,1,3,3", "1,3,13,16", NO_PADS, "3,3", "1,1", "3"),
    /* pools */
    POOL("1,3,33,65", "1,3,16,32", "max", "2,2", NO_PADS, "2,2"),
    POOL("1,2,32,70", "1,2,16,35", "max", "3,3", PADS_1, "2,2"),
    POOL("1,2,30,31", "1,2,15,16", "sum", "3,3", PADS_1, "2,2"),
};

/* A residual add over dims that are equal for some heights alone: one form for both, and heights
 * that do not fit are refused by the step. */
#define UPSAMPLED                                                                         \
  "graph \"t\" (%a: f32[floordiv(h + 7, 8),6], %b: f32[floordiv(h + 15, 16),6]) {\n"      \
  "%r: f32[floordiv(h + 15, 16),1,6] = reshape(%b) {dims=[floordiv(h + 15, 16),1,6]}\n"   \
  "%u: f32[floordiv(h + 15, 16),2,6] = broadcast(%r) {dims=[floordiv(h + 15, 16),2,6]}\n" \
  "%f: f32[2*floordiv(h + 15, 16),6] = reshape(%u) {dims=[2*floordiv(h + 15, 16),6]}\n"   \
  "%s: f32[floordiv(h + 7, 8),6] = reshape(%f) {dims=[floordiv(h + 7, 8),6]}\n"           \
  "%y: f32[floordiv(h + 7, 8),6] = add(%a, %s) } -> (%y)\n"                               \
  "equal floordiv(h + 7, 8), 2*floordiv(h + 15, 16)\n"

static const kernel_case equal_cases[] = {{UPSAMPLED, 0, 0, {64}, 0}, {UPSAMPLED, 0, 0, {57}, 0}};

static void convolutions(void **state) {
  (void)state;
  check_cases("native", cases, sizeof cases / sizeof cases[0]);
}

static void convolutions_on_avx2(void **state) {
  (void)state;
  check_cases_on_avx2(cases, sizeof cases / sizeof cases[0]);
}

static void dims_assumed_equal(void **state) {
  (void)state;
  check_cases("native", equal_cases, sizeof equal_cases / sizeof equal_cases[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions),
                                     cmocka_unit_test(convolutions_on_avx2),
                                     cmocka_unit_test(dims_assumed_equal)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
