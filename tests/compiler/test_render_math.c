/* The functions of the prelude against libm, over all magnitudes, with NaN, infinities, denormals
 * and very large arguments. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/kernel_set.h"

enum { COUNT = 1 << 16 };

static const struct {
  const char *name;
  double (*function)(double);
  double least; /* absolute error that is always allowed, in f32 */
} functions[] = {
    {"exp", exp, 2e-38}, {"log", log, 1e-7}, {"sin", sin, 1e-7}, {"cos", cos, 1e-7},
    {"atan", atan, 0},   {"tanh", tanh, 0},  {"erf", erf, 0},    {"sqrt", sqrt, 0},
    {"floor", floor, 0}, {"ceil", ceil, 0},  {"round", rint, 0}, {"abs", fabs, 0},
};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0] };

/* Bit patterns spread over all of them, then moderate values, then special ones. */
static void fill_f32(float *x) {
  static const float special[] = {0.0f,    -0.0f,  INFINITY, -INFINITY, NAN,       1.0f,
                                  -1.0f,   88.7f,  -87.3f,   131071.9f, 131072.1f, 1e30f,
                                  3.4e38f, 1e-40f, 0.5f,     1.5f,      2.5f};
  for (uint32_t i = 0; i < COUNT; i++) {
    uint32_t bits = i * 2 * 65521;
    memcpy(&x[i], &bits, sizeof bits);
    if (i >= COUNT / 2) x[i] = ((float)i - 0.75f * COUNT) * (i % 2 ? 1e-3f : 3.7e-2f);
  }
  memcpy(x, special, sizeof special);
}

static bool near(double have, double want, double relative, double least) {
  if (isnan(want)) return isnan(have);
  if (isinf(want) || isinf(have)) return have == want;
  return fabs(have - want) <= relative * fabs(want) + least;
}

static void run(kernel_set *set, size_t i, const void *in, void *out) {
  void *ptrs[2];
  cv_kernel_plan plan;
  memcpy(&ptrs[0], &in, sizeof in);
  ptrs[1] = out;
  assert_int_equal(set->kernels->kernels[i].prepare(NULL, &plan), 0);
  assert_int_equal(set->kernels->kernels[i].run(0, 0, plan.tasks[0], 0, ptrs, NULL, NULL, NULL), 0);
}

static void compare_f32(size_t f, const float *x, const float *y) {
  for (size_t i = 0; i < COUNT; i++) {
    double want = (double)(float)functions[f].function((double)x[i]);
    if (!near((double)y[i], want, 3e-7, functions[f].least + 1e-44)) {
      fail_msg("%s(%a) in f32 is %a, not %a", functions[f].name, (double)x[i], (double)y[i], want);
    }
  }
}

static void compare_f64(size_t f, const double *x, const double *y) {
  for (size_t i = 0; i < COUNT; i++) {
    double want = functions[f].function(x[i]);
    if (!near(y[i], want, 4e-15, functions[f].least > 0 ? 1e-15 : 1e-320)) {
      fail_msg("%s(%a) in f64 is %a, not %a", functions[f].name, x[i], y[i], want);
    }
  }
}

static void functions_on(const char *target) {
  kernel_set set = {
      .arena = {.may_die = true}, .code = {.may_die = true}, .table = {.may_die = true}};
  float *x = cv_alloc_or_die(COUNT, sizeof *x), *y = cv_alloc_or_die(COUNT, sizeof *y);
  double *xd = cv_alloc_or_die(COUNT, sizeof *xd), *yd = cv_alloc_or_die(COUNT, sizeof *yd);
  if (cv_target_find(target, &set.target) != CV_OK) fail_msg("%s", cv_error_text());
  for (size_t i = 0; i < 2 * N_FUNCTIONS; i++) {
    kernel_case c = {.text = cv_arena_format(
                         &set.arena, "graph \"t\" (%%x: %s[%d]) { %%y: %s[%d] = %s(%%x) } -> (%%y)",
                         i % 2 ? "f64" : "f32", COUNT, i % 2 ? "f64" : "f32", COUNT,
                         functions[i / 2].name)};
    check_add(&set, &c);
  }
  check_compile(&set);
  fill_f32(x);
  for (size_t i = 0; i < COUNT; i++) xd[i] = (double)x[i] * (1 + 1e-9);
  for (size_t f = 0; f < N_FUNCTIONS; f++) {
    run(&set, 2 * f, x, y);
    run(&set, 2 * f + 1, xd, yd);
    compare_f32(f, x, y);
    compare_f64(f, xd, yd);
  }
  check_close(&set);
  cv_free(x);
  cv_free(y);
  cv_free(xd);
  cv_free(yd);
}

static void functions_native(void **state) {
  (void)state;
  functions_on("native");
}

static void functions_avx2(void **state) {
  (void)state;
  const cv_target *native;
  assert_int_equal(cv_target_find("native", &native), CV_OK);
  if (strcmp(native->arch, "x86-64") != 0) skip();
  functions_on("x86-64-v3");
}

static void every_half(kernel_set *set, size_t kernel, cv_dtype dtype, const uint16_t *h,
                       float *x) {
  run(set, kernel, h, x);
  for (uint32_t i = 0; i < 65536; i++) {
    assert_true(near((double)x[i], cv_element_to_double(dtype, &h[i]), 0, 0));
  }
}

/* What lies `part` of the way from each pattern to the next, as f32 or f64, rounded. */
static void between_halves(kernel_set *set, size_t kernel, cv_dtype dtype, double part, bool wide) {
  uint16_t *back = cv_alloc_or_die(65536, sizeof *back);
  float *x = cv_alloc_or_die(65536, sizeof *x);
  double *d = cv_alloc_or_die(65536, sizeof *d);
  for (uint32_t i = 0; i < 65536; i++) {
    uint16_t this = (uint16_t)i, next = (uint16_t)(i + 1);
    double a = cv_element_to_double(dtype, &this), b = cv_element_to_double(dtype, &next);
    d[i] = a + (b - a) * part;
    x[i] = (float)d[i];
  }
  run(set, kernel, wide ? (const void *)d : x, back);
  for (uint32_t i = 0; i < 65536; i++) {
    double value = wide ? d[i] : (double)x[i];
    uint16_t want;
    cv_element_from_double(dtype, value, &want);
    if (!isnan(value) && back[i] != want) fail_msg("%a becomes %x, not %x", value, back[i], want);
  }
  cv_free(back);
  cv_free(x);
  cv_free(d);
}

/* Every pattern of f16 and bf16, and what lies between them. */
static void halves(void **state) {
  (void)state;
  kernel_set set = {
      .arena = {.may_die = true}, .code = {.may_die = true}, .table = {.may_die = true}};
  static const char *const texts[] = {
      "graph \"t\" (%x: f16[65536]) { %y: f32[65536] = cast(%x) {to=f32} } -> (%y)",
      "graph \"t\" (%x: bf16[65536]) { %y: f32[65536] = cast(%x) {to=f32} } -> (%y)",
      "graph \"t\" (%x: f32[65536]) { %y: f16[65536] = cast(%x) {to=f16} } -> (%y)",
      "graph \"t\" (%x: f32[65536]) { %y: bf16[65536] = cast(%x) {to=bf16} } -> (%y)",
      "graph \"t\" (%x: f64[65536]) { %y: f16[65536] = cast(%x) {to=f16} } -> (%y)",
      "graph \"t\" (%x: f64[65536]) { %y: bf16[65536] = cast(%x) {to=bf16} } -> (%y)"};
  static const double parts[] = {0, 0.25, 0.5, 0.5000000001, 0.75};
  assert_int_equal(cv_target_find("native", &set.target), CV_OK);
  for (int i = 0; i < 6; i++) check_add(&set, &(kernel_case){.text = texts[i]});
  check_compile(&set);
  uint16_t *h = cv_alloc_or_die(65536, sizeof *h);
  float *x = cv_alloc_or_die(65536, sizeof *x);
  for (uint32_t i = 0; i < 65536; i++) h[i] = (uint16_t)i;
  every_half(&set, 0, CV_F16, h, x);
  every_half(&set, 1, CV_BF16, h, x);
  for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
    between_halves(&set, 2, CV_F16, parts[p], false);
    between_halves(&set, 3, CV_BF16, parts[p], false);
    between_halves(&set, 4, CV_F16, parts[p], true);
    between_halves(&set, 5, CV_BF16, parts[p], true);
  }
  check_close(&set);
  cv_free(h);
  cv_free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions_native),
                                     cmocka_unit_test(functions_avx2), cmocka_unit_test(halves)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
