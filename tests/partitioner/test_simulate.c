#include "partitioner/simulate.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "partitioner/partitioner.h"
#include "tests/partitioner/instance.h"

static double period_of(int n_stages, const double *compute, int n_edges,
                        const cv_plan_edge *edges) {
  cv_simulation simulation = {n_stages, n_edges, compute, edges, 2, 0, 1000};
  cv_simulation_result result;
  if (cv_simulate(&simulation, &result) != CV_OK) fail_msg("%s", cv_error_text());
  for (int j = 0; j < n_stages; j++) {
    const cv_simulation_lane *lane = &result.lanes[j];
    double sum = lane->compute_us + lane->blocked_send_us + lane->waiting_us;
    assert_true(fabs(sum - lane->wall_us) < 1e-6 * lane->wall_us);
  }
  double period = result.period_us;
  cv_simulation_deinit(&result);
  return period;
}

static void test_chain_runs_at_its_slowest_stage(void **state) {
  (void)state;
  const double compute[] = {10, 25, 15};
  const cv_plan_edge edges[] = {
      {-1, 0, 1, 5, 0, 3}, {0, 1, 1, 20, 0, 3}, {1, 2, 1, 5, 0, 3}, {2, -1, 1, 5, 0, 3}};
  assert_true(fabs(period_of(3, compute, 4, edges) - 25) < 1e-9);
  const cv_plan_edge slow_wire[] = {
      {-1, 0, 1, 5, 0, 3}, {0, 1, 1, 40, 0, 3}, {1, 2, 1, 5, 0, 3}, {2, -1, 1, 5, 0, 3}};
  assert_true(fabs(period_of(3, compute, 4, slow_wire) - 40) < 1e-9);
}

static void test_one_slot_forbids_overlap(void **state) {
  (void)state;
  const double compute[] = {10, 10};
  cv_plan_edge edges[] = {{-1, 0, 1, 0, 0, 3}, {0, 1, 1, 10, 0, 1}, {1, -1, 1, 0, 0, 3}};
  assert_true(fabs(period_of(2, compute, 3, edges) - 20) < 1e-9);
  edges[1].slots = 2;
  assert_true(fabs(period_of(2, compute, 3, edges) - 10) < 1e-9);
}

/* A skip edge over four stages: two slots cost about half the rate, ceil(s (1 + t / c)) + 1 cost
 * nothing. */
static void test_skip_edge_needs_slots(void **state) {
  (void)state;
  const double compute[] = {10, 10, 10, 10, 10};
  cv_plan_edge edges[] = {{-1, 0, 1, 9, 0, 3}, {0, 1, 1, 8, 0, 3}, {1, 2, 1, 9, 0, 3},
                          {2, 3, 1, 9, 0, 3},  {3, 4, 1, 8, 0, 3}, {0, 4, 1, 1, 0, 2},
                          {4, -1, 1, 9, 0, 3}};
  double two = period_of(5, compute, 7, edges);
  assert_true(two > 18 && two < 25);
  edges[5].slots = 6;
  double six = period_of(5, compute, 7, edges);
  assert_true(six > 10 && six < two);
  edges[5].slots = (int)ceil(4 * (1 + 0.9)) + 1;
  assert_true(fabs(period_of(5, compute, 7, edges) - 10) < 1e-9);
}

static void test_latency_is_hidden_by_slots(void **state) {
  (void)state;
  const double compute[] = {10, 10};
  cv_plan_edge edges[] = {{-1, 0, 1, 0, 0, 3}, {0, 1, 1, 2, 100, 3}, {1, -1, 1, 0, 0, 3}};
  assert_true(period_of(2, compute, 3, edges) > 50);
  edges[1].slots = 23;
  assert_true(fabs(period_of(2, compute, 3, edges) - 10) < 1e-9);
}

static void test_late_inputs_and_early_outputs(void **state) {
  (void)state;
  const double compute[] = {10, 12, 9};
  const cv_plan_edge edges[] = {{-1, 0, 1, 1, 0, 3}, {0, 1, 1, 1, 0, 3},  {-1, 2, 1, 1, 0, 7},
                                {1, 2, 1, 1, 0, 3},  {0, -1, 1, 1, 0, 7}, {2, -1, 1, 1, 0, 3}};
  assert_true(fabs(period_of(3, compute, 6, edges) - 12) < 1e-9);
}

static void test_in_flight_limit(void **state) {
  (void)state;
  const double compute[] = {10, 10, 10};
  const cv_plan_edge edges[] = {
      {-1, 0, 1, 0, 0, 3}, {0, 1, 1, 0, 0, 3}, {1, 2, 1, 0, 0, 3}, {2, -1, 1, 0, 0, 3}};
  cv_simulation simulation = {3, 4, compute, edges, 2, 1, 50};
  cv_simulation_result result;
  assert_int_equal(cv_simulate(&simulation, &result), CV_OK);
  assert_true(fabs(result.period_us - 30) < 1e-9);
  assert_true(fabs(result.latency_us - 30) < 1e-9);
  assert_true(fabs(result.wall_us - 1500) < 1e-6);
  assert_true(fabs(result.lanes[1].compute_us - 500) < 1e-6);
  cv_simulation_deinit(&result);
}

/* A stage that nothing feeds can never compute: the sentence says who waits for whom. */
static void test_a_stop_is_explained(void **state) {
  (void)state;
  const double compute[] = {10, 10};
  const cv_plan_edge edges[] = {{-1, 1, 1, 0, 0, 3}, {0, 1, 1, 0, 0, 3}, {1, -1, 1, 0, 0, 3}};
  cv_simulation simulation = {2, 3, compute, edges, 2, 0, 10};
  cv_simulation_result result;
  assert_int_equal(cv_simulate(&simulation, &result), CV_FAILED);
  assert_non_null(
      strstr(cv_error_text(), "stage 1: micro-batch 0 waits for its input from stage 0"));
}

static void test_bad_input(void **state) {
  (void)state;
  const double compute[] = {10, -1}, good[] = {10, 10};
  const cv_plan_edge back[] = {{1, 0, 1, 0, 0, 3}}, none[] = {{-1, 0, 1, 0, 0, 0}},
                     self[] = {{-1, -1, 1, 0, 0, 3}};
  cv_simulation_result result;
  const cv_simulation bad[] = {{2, 1, good, back, 2, 0, 10}, {2, 1, good, none, 2, 0, 10},
                               {2, 1, good, self, 2, 0, 10}, {2, 1, compute, back, 2, 0, 10},
                               {2, 1, good, back, 0, 0, 10}, {2, 1, good, back, 2, 0, 1}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(cv_simulate(&bad[i], &result), CV_INVALID);
  cv_simulation_deinit(NULL);
}

/* The rate a plan predicts is the rate its windows reach. */
static void test_plans_reach_their_rate(void **state) {
  (void)state;
  int checked = 0;
  for (uint64_t seed = 1; seed <= 1000; seed++) {
    instance t;
    draw_instance(seed, MOST_STEPS, MOST_DEVICES, &t);
    if (t.in.out_buffers == 1) t.in.out_buffers = 2; /* one forbids sending while computing */
    for (int i = 0; i < (t.in.n_devices + 1) * (t.in.n_devices + 1) && seed % 3 == 0; i++)
      t.links[i].latency_us = draw(300);
    cv_plan plan;
    if (cv_partition(&t.in, &plan) != CV_OK) continue;
    if (plan.bottleneck_us > 0) {
      double compute[MOST_DEVICES];
      cv_simulation simulation;
      cv_simulation_of_plan(&plan, 1000, compute, &simulation);
      double period = period_of(plan.n_stages, compute, plan.n_edges, plan.edges);
      if (fabs(period - plan.bottleneck_us) > 0.01 * plan.bottleneck_us)
        fail_msg("seed %llu: predicted %g, simulated %g", (unsigned long long)seed,
                 plan.bottleneck_us, period);
      checked++;
    }
    cv_plan_deinit(&plan);
  }
  assert_true(checked > 600);
}

static void test_every_allocation_may_fail(void **state) {
  (void)state;
  const double compute[] = {10, 25};
  const cv_plan_edge edges[] = {{-1, 0, 1, 5, 0, 3}, {0, 1, 1, 20, 0, 3}, {1, -1, 1, 5, 0, 3}};
  cv_simulation simulation = {2, 3, compute, edges, 2, 0, 20};
  for (long n = 1;; n++) {
    cv_simulation_result result;
    cv_fault_arm(n);
    cv_status status = cv_simulate(&simulation, &result);
    bool fired = cv_fault_fired();
    cv_fault_arm(0);
    assert_int_equal(status, fired ? CV_NOMEM : CV_OK);
    cv_simulation_deinit(&result);
    if (!fired) break;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chain_runs_at_its_slowest_stage),
      cmocka_unit_test(test_one_slot_forbids_overlap),
      cmocka_unit_test(test_skip_edge_needs_slots),
      cmocka_unit_test(test_latency_is_hidden_by_slots),
      cmocka_unit_test(test_late_inputs_and_early_outputs),
      cmocka_unit_test(test_in_flight_limit),
      cmocka_unit_test(test_a_stop_is_explained),
      cmocka_unit_test(test_bad_input),
      cmocka_unit_test(test_plans_reach_their_rate),
      cmocka_unit_test(test_every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
