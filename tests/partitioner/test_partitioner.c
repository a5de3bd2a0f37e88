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

/* A chain of steps with one value between neighbours. */
enum { CHAIN = 8 };
typedef struct {
  double us[CHAIN];
  int readers[CHAIN + 1], step[CHAIN], size;
  cv_plan_value values[CHAIN + 1];
  cv_plan_weight weights[CHAIN];
  cv_plan_kind kind;
  cv_plan_device devices[4];
  cv_plan_link links[25];
  cv_plan_input in;
} chain;

static void make_chain(chain *c, int n_devices, double bytes_per_us) {
  static const char *const names[] = {"w0", "w1", "w2", "w3"};
  memset(c, 0, sizeof *c);
  c->size = 1;
  for (int i = 0; i <= CHAIN; i++) {
    c->readers[i] = i;
    c->values[i] = (cv_plan_value){i - 1, 1, &c->readers[i], 0, 100};
  }
  for (int i = 0; i < CHAIN; i++) {
    c->us[i] = 10;
    c->step[i] = i;
    c->weights[i] = (cv_plan_weight){1000, 1, &c->step[i]};
  }
  c->kind = (cv_plan_kind){"cpu", c->us, NULL, NULL, NULL};
  for (int d = 0; d < n_devices; d++)
    c->devices[d] = (cv_plan_device){names[d], NULL, 0, 1, 0, 0, 0, 0};
  cv_plan_link link = {bytes_per_us, 0, 0, 0};
  cv_plan_links_default(c->devices, n_devices, NULL, &link, &link, c->links);
  c->in = (cv_plan_input){.n_steps = CHAIN,
                          .n_values = CHAIN + 1,
                          .n_weights = CHAIN,
                          .n_kinds = 1,
                          .n_devices = n_devices,
                          .n_sizes = 1,
                          .sizes = &c->size,
                          .values = c->values,
                          .weights = c->weights,
                          .kinds = &c->kind,
                          .devices = c->devices,
                          .links = c->links,
                          .micro_batch = 1,
                          .threads = 1};
}

static void expect_reason(const cv_plan_input *in, double bottleneck, int stages,
                          const char *part) {
  cv_plan plan;
  if (cv_partition(in, &plan) != CV_OK) fail_msg("%s", cv_error_text());
  assert_true(near(plan.bottleneck_us, bottleneck));
  assert_int_equal(plan.n_stages, stages);
  assert_true(plan.exact);
  assert_true(near(plan.rate, in->micro_batch * 1e6 / bottleneck));
  if (!strstr(plan.reason, part)) fail_msg("%s | wanted: %s", plan.reason, part);
  cv_plan_deinit(&plan);
}

static void test_number_of_stages_is_kept_and_reasons_given(void **state) {
  (void)state;
  chain c;
  make_chain(&c, 4, 1000);
  expect_reason(&c.in, 20, 4, "no split is faster");
  c.in.stages = 3;
  expect_reason(&c.in, 30, 3, "left out: w3");
  make_chain(&c, 4, 100.0 / 35); /* 35 us a hop */
  expect_reason(&c.in, 35, 3, "receiving 35 us, and no split is faster; left out: w3 (the pipe is");
  c.in.stages = 4;
  expect_reason(&c.in, 35, 4, "3 stages would be as fast (35 us), but 4 were asked");
  make_chain(&c, 4, 1); /* 100 us a hop, the gateway's too: one device is enough */
  expect_reason(&c.in, 100, 1, "one device is enough");
  c.in.stages = 2;
  expect_reason(&c.in, 100, 2, "1 stage would be as fast (100 us), but 2 were asked");
  make_chain(&c, 2, 1);
  for (int i = 0; i < 9; i++)
    if (i / 3 == 2 || i % 3 == 2) c.links[i].bytes_per_us = INFINITY;
  c.in.stages = 2;
  expect_reason(&c.in, 100, 2, "1 stage would be faster (80 us), but 2 were asked");
}

static void test_weak_devices_are_left_out(void **state) {
  (void)state;
  chain c;
  make_chain(&c, 3, 1000);
  c.devices[1].pace_us = 1000;
  expect_reason(&c.in, 40, 2, "left out: w1 (the pipe is not faster with them)");
  c.devices[1].pace_us = 0;
  c.devices[1].speed = 0.01;
  expect_reason(&c.in, 40, 2, "left out: w1");
  c.devices[1].speed = 2;
  expect_reason(&c.in, 20, 3, "3 stages");
}

static void refuse(const cv_plan_input *in, cv_status wanted, const char *sentence) {
  cv_plan plan;
  assert_int_equal(cv_partition(in, &plan), wanted);
  assert_null(plan.stages);
  if (!strstr(cv_error_text(), sentence)) fail_msg("%s | wanted: %s", cv_error_text(), sentence);
}

static void test_refusals(void **state) {
  (void)state;
  chain c;
  make_chain(&c, 4, 1000);
  uint8_t legal[CHAIN + 1] = {0, 0, 0, 1, 0, 0, 0, 0, 0};
  c.in.legal = legal;
  c.in.stages = 3;
  refuse(&c.in, CV_INFEASIBLE, "3 stages asked but the program has 8 steps (1 legal cuts)");
  c.in.legal = NULL;
  c.in.stages = 5;
  refuse(&c.in, CV_INFEASIBLE, "5 stages asked but there are 4 devices");
  c.in.stages = 0;
  for (int d = 0; d < 4; d++) c.devices[d].memory = 2000;
  refuse(&c.in, CV_INFEASIBLE, "stage 3 on w3 needs 5500 bytes for steps 3 to 7, has 2000");
  for (int d = 0; d < 4; d++) c.devices[d].memory = 1000;
  refuse(&c.in, CV_INFEASIBLE, "stage 0 on w0 needs 1500 bytes for steps 0 to 0, has 1000");
}

static void test_contradictions_are_refused(void **state) {
  (void)state;
  chain c;
#define BAD(change, sentence)            \
  do {                                   \
    make_chain(&c, 2, 1000);             \
    change;                              \
    refuse(&c.in, CV_INVALID, sentence); \
  } while (0)
  int back[] = {3, 2}, beyond[] = {CHAIN}, falling[] = {2, 2};
  BAD(c.in.n_steps = 0, "0 steps");
  BAD(c.in.n_devices = 0, "0 devices");
  BAD(c.in.micro_batch = 0, "micro-batch 0");
  BAD(c.in.stages = -1, "stages -1");
  BAD(c.size = 0, "micro-batch sizes");
  BAD(c.us[3] = NAN, "device kind cpu: step 3");
  BAD(c.us[3] = -1, "device kind cpu: step 3");
  BAD(c.devices[1].kind = 7, "device w1: kind 7");
  BAD(c.devices[1].speed = 0, "device w1: speed 0");
  BAD(c.devices[1].pace_us = -1, "device w1: pace");
  BAD(c.links[1].bytes_per_us = 0, "link w0 -> w1: 0 bytes/us");
  BAD(c.links[2].latency_us = NAN, "link w0 -> gateway");
  BAD(c.values[1].producer = CHAIN, "value 1: producer 8");
  BAD(c.values[1].producer = 1, "value 1: reader 0 is step 1");
  BAD((c.values[1].readers = back, c.values[1].n_readers = 2), "value 1: reader 1 is step 2");
  BAD(c.weights[2].readers = beyond, "weight 2: reader 0 is step 8");
  BAD((c.weights[2].readers = falling, c.weights[2].n_readers = 2), "weight 2: reader 1 is step 2");
  BAD(c.values[1].bytes_per_item = UINT64_MAX / 2, "too large");
#undef BAD
}

static void test_given_splits(void **state) {
  (void)state;
  chain c;
  make_chain(&c, 3, 10);
  cv_plan plan;
  const int cuts[] = {3, CHAIN}, devices[] = {2, 0}, twice[] = {1, 1}, none[] = {0, 3},
            early[] = {3, 7}, falling[] = {3, 3};
  assert_int_equal(cv_plan_predict(&c.in, 2, cuts, devices, &plan), CV_OK);
  assert_true(near(plan.bottleneck_us, 50) && near(plan.latency_us, 110));
  assert_string_equal(plan.stages[0].device, "w2");
  assert_int_equal(plan.n_edges, 3);
  assert_true(plan.edges[1].from == 0 && plan.edges[1].to == 1 && plan.edges[1].bytes == 100);
  assert_int_equal(plan.edges[1].slots, 3);
  assert_int_equal(plan.stages[1].memory_bytes, 5000 + 3 * 100 + 2 * 100);
  cv_plan_deinit(&plan);
  assert_int_equal(cv_plan_predict(&c.in, 2, cuts, twice, &plan), CV_INVALID);
  assert_int_equal(cv_plan_predict(&c.in, 2, none, devices, &plan), CV_INVALID);
  assert_int_equal(cv_plan_predict(&c.in, 2, early, devices, &plan), CV_INVALID);
  assert_int_equal(cv_plan_predict(&c.in, 2, falling, devices, &plan), CV_INVALID);
  assert_int_equal(cv_plan_predict(&c.in, 4, cuts, devices, &plan), CV_INVALID);
  c.devices[0].memory = 5000;
  assert_int_equal(cv_plan_predict(&c.in, 2, cuts, devices, &plan), CV_INFEASIBLE);
  assert_non_null(
      strstr(cv_error_text(), "stage 1 on w0 needs 5500 bytes for steps 3 to 7, has 5000"));
  uint8_t legal[CHAIN + 1] = {0};
  c.in.legal = legal;
  assert_int_equal(cv_plan_predict(&c.in, 2, cuts, devices, &plan), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "a cut before step 3 is not legal"));
}

static void test_times_between_micro_batch_sizes(void **state) {
  (void)state;
  chain c;
  make_chain(&c, 1, INFINITY);
  static double us[2 * CHAIN];
  static const int sizes[] = {1, 5};
  for (int i = 0; i < CHAIN; i++) us[i] = 10, us[CHAIN + i] = 30;
  c.kind.step_us = us;
  c.in.sizes = sizes;
  c.in.n_sizes = 2;
  c.in.micro_batch = 3;
  expect_reason(&c.in, 160, 1, "1 stage");
  c.in.micro_batch = 9;
  expect_reason(&c.in, 400, 1, "1 stage");
}

/* More unlike devices than every order can be tried for: a plan, and an honest bound. */
static void test_many_unlike_devices(void **state) {
  (void)state;
  enum { DEVICES = 20, STEPS = 60 };
  static double us[STEPS];
  static int readers[STEPS + 1];
  static cv_plan_value values[STEPS + 1];
  static cv_plan_device devices[DEVICES];
  static cv_plan_link links[(DEVICES + 1) * (DEVICES + 1)];
  int size = 1;
  for (int i = 0; i <= STEPS; i++) {
    if (i < STEPS) us[i] = 10 + i % 7;
    readers[i] = i;
    values[i] = (cv_plan_value){i - 1, 1, &readers[i], 0, 100};
  }
  for (int d = 0; d < DEVICES; d++)
    devices[d] = (cv_plan_device){"d", NULL, 0, 1 + 0.1 * d, 0, 0, 0, 0};
  cv_plan_link link = {1000, 0, 0, 0};
  cv_plan_links_default(devices, DEVICES, NULL, &link, &link, links);
  cv_plan_kind kind = {"cpu", us, NULL, NULL, NULL};
  cv_plan_input in = {.n_steps = STEPS,
                      .n_values = STEPS + 1,
                      .n_kinds = 1,
                      .n_devices = DEVICES,
                      .n_sizes = 1,
                      .sizes = &size,
                      .values = values,
                      .kinds = &kind,
                      .devices = devices,
                      .links = links,
                      .micro_batch = 1,
                      .threads = 1};
  cv_plan plan;
  assert_int_equal(cv_partition(&in, &plan), CV_OK);
  assert_true(!plan.exact && plan.bound_us <= plan.bottleneck_us);
  assert_true(plan.bound_us > 0.5 * plan.bottleneck_us);
  assert_non_null(strstr(plan.reason, "not every split was tried"));
  cv_plan_deinit(&plan);
}

static void test_deterministic(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 50; seed++) {
    instance t;
    draw_instance(seed, MOST_STEPS, MOST_DEVICES, &t);
    cv_plan a, b;
    if (cv_partition(&t.in, &a) != CV_OK) continue;
    assert_int_equal(cv_partition(&t.in, &b), CV_OK);
    assert_int_equal(a.n_stages, b.n_stages);
    for (int j = 0; j < a.n_stages; j++)
      assert_true(a.stages[j].last == b.stages[j].last &&
                  a.stages[j].device_index == b.stages[j].device_index);
    assert_string_equal(a.reason, b.reason);
    cv_plan_deinit(&a);
    cv_plan_deinit(&b);
  }
}

static void test_every_allocation_may_fail(void **state) {
  (void)state;
  for (uint64_t seed = 30; seed < 34; seed++) {
    instance t;
    draw_instance(seed, 6, 3, &t);
    for (long n = 1;; n++) {
      cv_plan plan;
      cv_fault_arm(n);
      cv_status status = cv_partition(&t.in, &plan);
      bool fired = cv_fault_fired();
      cv_fault_arm(0);
      if (fired) assert_int_equal(status, CV_NOMEM);
      cv_plan_deinit(&plan);
      if (!fired) break;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exact_on_random_instances),
      cmocka_unit_test(test_number_of_stages_is_kept_and_reasons_given),
      cmocka_unit_test(test_weak_devices_are_left_out),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_contradictions_are_refused),
      cmocka_unit_test(test_given_splits),
      cmocka_unit_test(test_times_between_micro_batch_sizes),
      cmocka_unit_test(test_many_unlike_devices),
      cmocka_unit_test(test_deterministic),
      cmocka_unit_test(test_every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
