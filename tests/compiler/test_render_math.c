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
    for (size_t i = 0; i < COUNT; i++) {
      double want = (double)(float)functions[f].function((double)x[i]);
      if (!near((double)y[i], want, 3e-7, functions[f].least + 1e-44)) {
        fail_msg("%s(%a) in f32 is %a, not %a", functions[f].name, (double)x[i], (double)y[i],
                 want);
      }
      want = functions[f].function(xd[i]);
      if (!near(yd[i], want, 4e-15, functions[f].least > 0 ? 1e-15 : 1e-320)) {
        fail_msg("%s(%a) in f64 is %a, not %a", functions[f].name, xd[i], yd[i], want);
      }
    }
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

/* f16 and back: every pattern, and every f32 between two of them rounds to the nearer one. */
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
  assert_int_equal(cv_target_find("native", &set.target), CV_OK);
  for (int i = 0; i < 6; i++) check_add(&set, &(kernel_case){.text = texts[i]});
  check_compile(&set);
  uint16_t *h = cv_alloc_or_die(65536, 2), *back = cv_alloc_or_die(65536, 2);
  float *x = cv_alloc_or_die(65536, 4);
  double *d = cv_alloc_or_die(65536, 8);
  for (uint32_t i = 0; i < 65536; i++) h[i] = (uint16_t)i;
  for (size_t k = 0; k < 2; k++) {
    cv_dtype dtype = k == 0 ? CV_F16 : CV_BF16;
    run(&set, k, h, x);
    for (uint32_t i = 0; i < 65536; i++) {
      double want = cv_element_to_double(dtype, &h[i]);
      assert_true(near((double)x[i], want, 0, 0));
    }
    for (int step = 0; step < 4; step++) {
      for (uint32_t i = 0; i < 65536; i++) {
        uint16_t next = (uint16_t)(i + 1);
        double a = cv_element_to_double(dtype, &h[i]), b = cv_element_to_double(dtype, &next);
        x[i] = (float)(step == 0 ? a : a + (b - a) * 0.25 * step);
        d[i] = a + (b - a) * (step == 0 ? 0.5000000001 : 0.25 * step);
      }
      for (int wide = 0; wide < 2; wide++) {
        run(&set, 2 + k + 2 * (size_t)wide, wide ? (const void *)d : x, back);
        for (uint32_t i = 0; i < 65536; i++) {
          uint16_t want;
          double value = wide ? d[i] : (double)x[i];
          if (isnan(value)) continue;
          cv_element_from_double(dtype, value, &want);
          if (back[i] != want) fail_msg("%a becomes %x, not %x", value, back[i], want);
        }
      }
    }
  }
  check_close(&set);
  cv_free(h);
  cv_free(back);
  cv_free(x);
  cv_free(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions_native),
                                     cmocka_unit_test(functions_avx2), cmocka_unit_test(halves)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
