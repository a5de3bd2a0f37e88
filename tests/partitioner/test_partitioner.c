#include "partitioner/partitioner.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "tests/partitioner/instance.h"

static bool near(double a, double b) { return fabs(a - b) <= 1e-8 * fmax(fabs(a), fabs(b)); }

/* What a plan claims of itself must be what the definition says of its split. */
static void check_plan(const cv_plan_input *in, const cv_plan *plan, uint64_t seed) {
  split s = {.n = plan->n_stages};
  for (int j = 0; j < s.n; j++) {
    s.cut[j] = plan->stages[j].last + 1;
    s.device[j] = plan->stages[j].device_index;
    assert_int_equal(plan->stages[j].first, j ? s.cut[j - 1] : 0);
    assert_string_equal(plan->stages[j].device, in->devices[s.device[j]].name);
    for (int i = 0; i < j; i++) assert_true(s.device[i] != s.device[j]);
    if (in->ordered && j) assert_true(s.device[j] > s.device[j - 1]);
  }
  assert_int_equal(s.cut[s.n - 1], in->n_steps);
  double cost = split_cost(in, &s);
  if (!near(cost, plan->bottleneck_us))
    fail_msg("seed %llu: plan says %.12g, its split costs %.12g", (unsigned long long)seed,
             plan->bottleneck_us, cost);
  if (in->stages) assert_int_equal(plan->n_stages, in->stages);
  assert_non_null(plan->reason);
  cv_plan again;
  assert_int_equal(cv_plan_predict(in, s.n, s.cut, s.device, &again), CV_OK);
  assert_true(near(again.bottleneck_us, plan->bottleneck_us));
  assert_true(near(again.latency_us, plan->latency_us));
  assert_int_equal(again.n_edges, plan->n_edges);
  cv_plan_deinit(&again);
}

static void check_against_brute_force(uint64_t seed, int steps, int devices, int *feasible) {
  instance t;
  draw_instance(seed, steps, devices, &t);
  double best = brute_force(&t.in);
  cv_plan plan;
  cv_status status = cv_partition(&t.in, &plan);
  if (isinf(best)) {
    if (status != CV_INFEASIBLE)
      fail_msg("seed %llu: a plan where none is", (unsigned long long)seed);
    assert_null(plan.stages);
    return;
  }
  ++*feasible;
  if (status != CV_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, cv_error_text());
  if (!near(plan.bottleneck_us, best) || !plan.exact || !near(plan.bound_us, best))
    fail_msg("seed %llu: bottleneck %.12g, bound %.12g, exact %d, but the best is %.12g",
             (unsigned long long)seed, plan.bottleneck_us, plan.bound_us, plan.exact, best);
  check_plan(&t.in, &plan, seed);
  cv_plan_deinit(&plan);
}

static void test_exact_on_random_instances(void **state) {
  (void)state;
  int feasible = 0;
  for (uint64_t seed = 1; seed <= 6000; seed++) check_against_brute_force(seed, 7, 4, &feasible);
  for (uint64_t seed = 1; seed <= 300; seed++) check_against_brute_force(seed, 9, 5, &feasible);
  assert_true(feasible > 4000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exact_on_random_instances),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
