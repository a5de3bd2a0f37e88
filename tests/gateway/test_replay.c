/* Routes that change and break while requests flow: every request is answered once, rightly, in
 * order. Each plan has executors of its own, so that ending them is a death. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gateway/gateway.h"
#include "tests/gateway/fake.h"

static const char *const rows[] = {"inproc"};
enum { REQUESTS = 24, PLANS = 8, GATEWAY = 7 };
static const char chain_path[] = "/tmp/cuvil-test-replay-chain.cuv";
static const char state_path[] = "/tmp/cuvil-test-replay-state.cuv";

/* Two stages on two executors; the first number that is free gives the epoch. */
typedef struct {
  cv_epoch epoch;
  cv_executor *executors[2];
  cv_stage *stages[2];
  int failed; /* the route's failures that were told */
  bool open, closed;
} plan;

typedef struct {
  cv_artifact *artifact;
  cv_hub *hub;
  cv_gateway *gateway;
  cv_edges edges;
  plan plans[PLANS];
  uint32_t n_plans;
  uint64_t submitted, answered, failures;
  float y; /* the stream's state, as it must be */
  char text[512];
} rig;

static plan *find(rig *r, cv_epoch epoch) { return &r->plans[epoch.number - 1]; }

static void on_route(void *arg, cv_epoch epoch, cv_status status, const char *text) {
  if (status != CV_OK) fail_msg("%s", text);
  find(arg, epoch)->open = true;
}

static void on_failed(void *arg, cv_epoch epoch, cv_status status, const char *text) {
  (void)status;
  (void)text;
  find(arg, epoch)->failed++;
}

static void on_closed(void *arg, cv_epoch epoch) { find(arg, epoch)->closed = true; }

/* Request k has x = k; of a state program, y is h7 of the request before. */
static void on_answer(void *arg, const cv_answer *answer) {
  rig *r = arg;
  uint64_t k = r->answered++;
  assert_int_equal((uint64_t)(uintptr_t)answer->context, k); /* in order, each once */
  if (answer->status != CV_OK) {
    r->failures++;
    snprintf(r->text, sizeof r->text, "%s", answer->text);
    return;
  }
  float expected = chain_result((float)k, r->y), got = *(const float *)answer->outputs[0].data;
  if (got != expected) fail_msg("request %d: %g, not %g", (int)k, got, expected);
  if (cv_artifact_program(r->artifact)->n_states) r->y = got;
}

static void make(rig *r, cv_program *program, const char *path) {
  *r = (rig){.artifact = fake_artifact(program, path)};
  const cv_program *p = cv_artifact_program(r->artifact);
  assert_int_equal(cv_hub_create(&r->hub), CV_OK);
  cv_gateway_options options = {.incarnation = GATEWAY,
                                .program = p,
                                .rows = rows,
                                .n_rows = 1,
                                .hub = r->hub,
                                .events = {.arg = r,
                                           .on_answer = on_answer,
                                           .on_route = on_route,
                                           .on_failed = on_failed,
                                           .on_closed = on_closed}};
  assert_int_equal(cv_gateway_create(&options, &r->gateway), CV_OK);
  cv_span spans[2] = {{0, 3}, {4, 7}};
  assert_int_equal(cv_edges_derive(p, spans, 2, NULL, &r->edges), CV_OK);
}

static void turn(rig *r) {
  cv_status status = cv_gateway_wait(r->gateway, -1, cv_clock_ns() + 2000000);
  assert_true(status == CV_OK || status == CV_TIMEOUT);
}

#define until(r, condition)                                         \
  for (int64_t end_ = cv_clock_ns() + 20000000000; !(condition);) { \
    turn(r);                                                        \
    if (cv_clock_ns() > end_) fail_msg("never: %s", #condition);    \
  }

static uint64_t incarnation(const plan *p, int stage) {
  return 100 + 2 * (uint64_t)p->epoch.number + (uint64_t)stage;
}

/* Opens the next plan; micro-batches take `pace_us` in each of its stages. */
static plan *open_plan(rig *r, double pace_us, int64_t micro_batch) {
  static uint8_t addresses[3][CV_ADDRESS_MAX];
  size_t sizes[3];
  plan *p = &r->plans[r->n_plans];
  p->epoch = (cv_epoch){1, ++r->n_plans};
  for (int i = 0; i < 2; i++) {
    cv_executor_options options = {.name = "a worker",
                                   .incarnation = incarnation(p, i),
                                   .rows = rows,
                                   .n_rows = 1,
                                   .hub = r->hub,
                                   .find_device = fake_find};
    assert_int_equal(cv_executor_create(&options, &p->executors[i]), CV_OK);
    assert_int_equal(
        cv_executor_address(p->executors[i], 0, addresses[i], CV_ADDRESS_MAX, &sizes[i]), CV_OK);
  }
  assert_int_equal(cv_gateway_address(r->gateway, 0, addresses[2], CV_ADDRESS_MAX, &sizes[2]),
                   CV_OK);
  for (int side = 0; side < 3; side++) {
    int self = side < 2 ? side : CV_EDGE_GATEWAY;
    cv_edge_peer peers[16];
    for (uint32_t e = 0; e < r->edges.n_edges; e++) {
      const cv_edge *edge = &r->edges.edges[e];
      int other = edge->to == self ? edge->from : edge->to, at = other < 0 ? 2 : other;
      uint64_t who = other < 0 ? GATEWAY : incarnation(p, other);
      peers[e] = (cv_edge_peer){"a peer", who, rows[0], addresses[at], sizes[at]};
    }
    cv_route_spec route = {
        .epoch = p->epoch, .edges = &r->edges, .peers = peers, .micro_batch = micro_batch};
    cv_stage_spec spec = {.name = "a stage",
                          .epoch = p->epoch,
                          .index = side,
                          .artifact = r->artifact,
                          .edges = &r->edges,
                          .peers = peers,
                          .span = {(uint32_t)side * 4, (uint32_t)side * 4 + 3},
                          .device = fake_spec(pace_us)};
    if (side == 2)
      assert_int_equal(cv_gateway_open(r->gateway, &route), CV_OK);
    else
      assert_int_equal(
          cv_executor_load(p->executors[side], &spec, &(cv_stage_events){0}, &p->stages[side]),
          CV_OK);
  }
  until(r, p->open);
  return p;
}

static void kill_plan(plan *p) {
  for (int i = 0; i < 2; i++) {
    cv_executor_destroy(p->executors[i]);
    p->executors[i] = NULL;
  }
}

static void end(rig *r, const char *path) {
  for (uint32_t i = 0; i < r->n_plans; i++) kill_plan(&r->plans[i]);
  cv_gateway_destroy(r->gateway);
  cv_hub_destroy(r->hub);
  cv_edges_deinit(&r->edges);
  cv_artifact_close(r->artifact);
  unlink(path);
}

static void submit(rig *r, int count) {
  bool state = cv_artifact_program(r->artifact)->n_states > 0;
  for (int i = 0; i < count; i++) {
    cv_tensor inputs[2];
    int64_t dims[2] = {1, CHAIN_WIDTH};
    for (int k = 0; k < 2; k++)
      assert_int_equal(cv_tensor_create(CV_F32, k == 0 || state ? 2 : 1,
                                        k == 0 || state ? dims : dims + 1, &inputs[k]),
                       CV_OK);
    for (int e = 0; e < CHAIN_WIDTH; e++) {
      ((float *)inputs[0].data)[e] = (float)r->submitted;
      ((float *)inputs[1].data)[e] = 0;
    }
    cv_request request = {.inputs = inputs, .context = (void *)(uintptr_t)r->submitted};
    uint64_t id;
    assert_int_equal(cv_gateway_submit(r->gateway, &request, &id), CV_OK);
    r->submitted++;
  }
}

static void use(rig *r, const plan *p) {
  assert_int_equal(cv_gateway_use(r->gateway, p->epoch), CV_OK);
}

/* New micro-batches go the new way while the old ones drain; nothing goes while there is none. */
static void test_switch_and_hold(void **state) {
  (void)state;
  rig r;
  make(&r, chain_program(false), chain_path);
  plan *one = open_plan(&r, 5000, 1), *two = open_plan(&r, 1000, 2);
  submit(&r, REQUESTS);
  for (int i = 0; i < 5; i++) turn(&r);
  assert_int_equal(r.answered, 0); /* no route is in use yet */
  use(&r, one);
  until(&r, r.answered >= 3);
  use(&r, two);
  cv_gateway_close(r.gateway, one->epoch, CV_CLOSE_DRAIN);
  uint32_t left = cv_gateway_in_flight(r.gateway, one->epoch);
  assert_true(left > 0);
  until(&r, cv_gateway_in_flight(r.gateway, two->epoch) > 0 || r.answered == REQUESTS);
  assert_true(cv_gateway_in_flight(r.gateway, one->epoch) <= left); /* it gets no more */
  until(&r, one->closed && r.answered == REQUESTS);
  cv_gateway_hold(r.gateway);
  submit(&r, 3);
  for (int i = 0; i < 5; i++) turn(&r);
  assert_int_equal(r.answered, REQUESTS);
  assert_int_equal(cv_gateway_use(r.gateway, one->epoch), CV_INVALID); /* closed, and older */
  use(&r, two);
  until(&r, r.answered == REQUESTS + 3);
  assert_int_equal(r.failures, 0);
  end(&r, chain_path);
}

/* Some requests of the plan in use are answered, then its processes die. */
static plan *break_one(rig *r, plan *one, const plan *next) {
  submit(r, REQUESTS);
  use(r, one);
  until(r, r->answered >= 3);
  if (next) use(r, next);
  kill_plan(one);
  return one;
}

/* The route in use breaks with micro-batches in it: they are kept, and go with the next one. */
static void test_break_in_use(void **state) {
  (void)state;
  rig r;
  make(&r, chain_program(false), chain_path);
  plan *one = break_one(&r, open_plan(&r, 3000, 3), NULL);
  until(&r, one->failed);
  uint64_t before = r.answered;
  assert_true(cv_gateway_in_flight(r.gateway, one->epoch) > 0);
  for (int i = 0; i < 5; i++) turn(&r);
  assert_int_equal(r.answered, before);
  cv_gateway_close(r.gateway, one->epoch, CV_CLOSE_REPLAY);
  until(&r, one->closed);
  use(&r, open_plan(&r, 0, 1));
  until(&r, r.answered == REQUESTS);
  assert_int_equal(r.failures, 0);
  end(&r, chain_path);
}

/* One breaks that drains: what is left in it goes with the one in use, at once. */
static void test_break_while_draining(void **state) {
  (void)state;
  rig r;
  make(&r, chain_program(false), chain_path);
  plan *one = open_plan(&r, 3000, 3), *two = open_plan(&r, 0, 1);
  break_one(&r, one, two);
  cv_gateway_close(r.gateway, one->epoch, CV_CLOSE_REPLAY);
  until(&r, r.answered == REQUESTS);
  assert_int_equal(r.failures, 0);
  end(&r, chain_path);
}

/* With state, the request that was lost gets the state it had. */
static void test_state(void **state) {
  (void)state;
  rig r;
  make(&r, chain_program(true), state_path);
  plan *p = open_plan(&r, 1000, 0);
  submit(&r, REQUESTS);
  use(&r, p);
  for (uint64_t k = 1; k <= 4; k++) {
    until(&r, r.answered >= 4 * k);
    kill_plan(p);
    cv_gateway_close(r.gateway, p->epoch, k % 2 ? CV_CLOSE_REPLAY : CV_CLOSE_BLAME);
    p = open_plan(&r, 1000, 0);
    use(&r, p);
  }
  until(&r, r.answered == REQUESTS);
  assert_int_equal(r.failures, 0);
  end(&r, state_path);
}

/* One that ends its workers each time: after two deaths it goes alone, after the third it has
 * failed, and those beside it have not. */
static void test_the_third_death(void **state) {
  (void)state;
  rig r;
  make(&r, chain_program(false), chain_path);
  submit(&r, 6);
  for (int deaths = 0; deaths < 3; deaths++) {
    plan *p = open_plan(&r, 20000, 6);
    use(&r, p);
    until(&r, cv_gateway_in_flight(r.gateway, p->epoch) > 0);
    assert_int_equal(cv_gateway_in_flight(r.gateway, p->epoch), 1);
    kill_plan(p);
    cv_gateway_close(r.gateway, p->epoch, CV_CLOSE_BLAME);
    assert_int_equal(r.failures, 0);
  }
  use(&r, open_plan(&r, 0, 6));
  until(&r, r.answered == 6);
  assert_int_equal(r.failures, 1); /* the one that was alone */
  assert_non_null(strstr(r.text, "three times"));
  end(&r, chain_path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_switch_and_hold), cmocka_unit_test(test_break_in_use),
      cmocka_unit_test(test_break_while_draining), cmocka_unit_test(test_state),
      cmocka_unit_test(test_the_third_death)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
