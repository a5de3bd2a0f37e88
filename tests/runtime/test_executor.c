/* One executor on its own: its life, its watchdog, what its owner hears. The pipelines of
 * tests/gateway run it in earnest. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>

#include "gateway/gateway.h"
#include "tests/gateway/fake.h"

static const char path[] = "/tmp/cuvil-test-executor.cuv";
static const char *const rows[] = {"inproc"};
static cv_artifact *chain;

static int setup(void **state) {
  (void)state;
  chain = fake_artifact(chain_program(false), path);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  cv_artifact_close(chain);
  unlink(path);
  return 0;
}

/* What one stage's owner hears. */
typedef struct {
  pthread_mutex_t lock;
  int loaded, failed, stalled, unloaded;
  cv_status load_status, fail_status;
  char load_text[512], fail_text[512], stall_text[512];
} owner;

static void on_loaded(void *arg, cv_stage *stage, cv_status status, const char *text) {
  owner *own = arg;
  (void)stage;
  pthread_mutex_lock(&own->lock);
  own->loaded++;
  own->load_status = status;
  snprintf(own->load_text, sizeof own->load_text, "%s", text);
  pthread_mutex_unlock(&own->lock);
}

static void on_failed(void *arg, cv_stage *stage, cv_status status, const char *text) {
  owner *own = arg;
  (void)stage;
  pthread_mutex_lock(&own->lock);
  own->failed++;
  own->fail_status = status;
  snprintf(own->fail_text, sizeof own->fail_text, "%s", text);
  pthread_mutex_unlock(&own->lock);
}

static void on_stalled(void *arg, cv_stage *stage, const char *text) {
  owner *own = arg;
  (void)stage;
  pthread_mutex_lock(&own->lock);
  own->stalled++;
  snprintf(own->stall_text, sizeof own->stall_text, "%s", text);
  pthread_mutex_unlock(&own->lock);
}

static void on_unloaded(void *arg, cv_stage *stage) {
  owner *own = arg;
  (void)stage;
  pthread_mutex_lock(&own->lock);
  own->unloaded++;
  pthread_mutex_unlock(&own->lock);
}

static int get(owner *own, const int *field) {
  pthread_mutex_lock(&own->lock);
  int value = *field;
  pthread_mutex_unlock(&own->lock);
  return value;
}

static void answered(void *arg, const cv_answer *answer) {
  (void)answer;
  (*(int *)arg)++;
}

/* Two executors of one stage each, and the gateway on this thread. */
typedef struct {
  cv_hub *hub;
  cv_executor *executors[2];
  cv_gateway *gateway;
  cv_edges edges;
  cv_stage *stages[2];
  owner owners[2];
  int answers;
  uint8_t addresses[3][CV_ADDRESS_MAX]; /* the gateway's is the last */
  size_t sizes[3];
} rig;

static cv_edge_peer peer_of(rig *r, int stage) {
  static const char *const names[] = {"stage 0 here", "stage 1 there", "the gateway"};
  int i = stage < 0 ? 2 : stage;
  return (cv_edge_peer){names[i], 100 + (uint64_t)i, rows[0], r->addresses[i], r->sizes[i]};
}

static void make(rig *r, int64_t watchdog_ns) {
  *r = (rig){0};
  assert_int_equal(cv_hub_create(&r->hub), CV_OK);
  for (int i = 0; i < 2; i++) {
    pthread_mutex_init(&r->owners[i].lock, NULL);
    cv_executor_options options = {.name = "a worker",
                                   .incarnation = 100 + (uint64_t)i,
                                   .rows = rows,
                                   .n_rows = 1,
                                   .hub = r->hub,
                                   .watchdog_ns = watchdog_ns,
                                   .find_device = fake_find};
    assert_int_equal(cv_executor_create(&options, &r->executors[i]), CV_OK);
    assert_int_equal(
        cv_executor_address(r->executors[i], 0, r->addresses[i], CV_ADDRESS_MAX, &r->sizes[i]),
        CV_OK);
  }
  cv_gateway_options options = {.incarnation = 102,
                                .program = cv_artifact_program(chain),
                                .rows = rows,
                                .n_rows = 1,
                                .hub = r->hub,
                                .events = {.arg = &r->answers, .on_answer = answered}};
  assert_int_equal(cv_gateway_create(&options, &r->gateway), CV_OK);
  assert_int_equal(cv_gateway_address(r->gateway, 0, r->addresses[2], CV_ADDRESS_MAX, &r->sizes[2]),
                   CV_OK);
  cv_span spans[2] = {{0, 3}, {4, 7}};
  assert_int_equal(cv_edges_derive(cv_artifact_program(chain), spans, 2, NULL, &r->edges), CV_OK);
}

static cv_status load(rig *r, int index, double pace_us) {
  cv_edge_peer peers[16];
  for (uint32_t e = 0; e < r->edges.n_edges; e++)
    peers[e] =
        peer_of(r, r->edges.edges[e].to == index ? r->edges.edges[e].from : r->edges.edges[e].to);
  cv_stage_spec spec = {.name = index ? "stage 1 of 2" : "stage 0 of 2",
                        .epoch = {1, 1},
                        .index = index,
                        .artifact = chain,
                        .edges = &r->edges,
                        .peers = peers,
                        .span = {(uint32_t)index * 4, (uint32_t)index * 4 + 3},
                        .device = fake_spec(pace_us)};
  cv_stage_events events = {&r->owners[index], on_loaded, on_failed, NULL, on_stalled, on_unloaded};
  return cv_executor_load(r->executors[index], &spec, &events, &r->stages[index]);
}

static void open_route(rig *r) {
  cv_edge_peer peers[16];
  for (uint32_t e = 0; e < r->edges.n_edges; e++)
    peers[e] = peer_of(
        r, r->edges.edges[e].to == CV_EDGE_GATEWAY ? r->edges.edges[e].from : r->edges.edges[e].to);
  cv_route_spec route = {.epoch = {1, 1}, .edges = &r->edges, .peers = peers};
  assert_int_equal(cv_gateway_open(r->gateway, &route), CV_OK);
}

static void turn(rig *r) {
  if (r->gateway) {
    cv_status status = cv_gateway_wait(r->gateway, -1, cv_clock_ns() + 2000000);
    assert_true(status == CV_OK || status == CV_TIMEOUT);
  } else {
    cv_clock_sleep_until(cv_clock_ns() + 1000000);
  }
}

#define until(r, condition)                                         \
  for (int64_t end_ = cv_clock_ns() + 20000000000; !(condition);) { \
    turn(r);                                                        \
    if (cv_clock_ns() > end_) fail_msg("never: %s", #condition);    \
  }

static void submit(rig *r) {
  static float x[CHAIN_WIDTH], y[CHAIN_WIDTH];
  cv_tensor inputs[2] = {
      {.dtype = CV_F32, .rank = 2, .dims = {1, CHAIN_WIDTH}, .data = x, .bytes = sizeof x},
      {.dtype = CV_F32, .rank = 1, .dims = {CHAIN_WIDTH}, .data = y, .bytes = sizeof y}};
  uint64_t id;
  assert_int_equal(cv_gateway_submit(r->gateway, &(cv_request){.inputs = inputs}, &id), CV_OK);
}

static void begin(rig *r, double pace_us) {
  open_route(r);
  for (int i = 0; i < 2; i++) assert_int_equal(load(r, i, pace_us), CV_OK);
  for (int i = 0; i < 2; i++) until(r, get(&r->owners[i], &r->owners[i].loaded));
  until(r, cv_gateway_use(r->gateway, (cv_epoch){1, 1}) == CV_OK);
}

static void end(rig *r) {
  for (int i = 0; i < 2; i++) cv_executor_destroy(r->executors[i]);
  cv_gateway_destroy(r->gateway);
  cv_hub_destroy(r->hub);
  cv_edges_deinit(&r->edges);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(r->owners[i].unloaded, r->stages[i] != NULL);
    assert_int_equal(r->owners[i].loaded, r->stages[i] != NULL);
    assert_true(r->owners[i].failed <= 1);
    pthread_mutex_destroy(&r->owners[i].lock);
  }
}

static void test_life(void **state) {
  (void)state;
  rig r;
  make(&r, 0);
  begin(&r, 0);
  uint64_t before = cv_executor_progress(r.executors[1]);
  for (int i = 0; i < 10; i++) submit(&r);
  until(&r, r.answers == 10);
  assert_true(cv_executor_progress(r.executors[1]) > before);
  cv_stage_report report;
  until(&r, (cv_stage_read(r.stages[1], &report), report.times.micro_batches == 10));
  assert_int_equal(report.memory.weights, 1);
  assert_true(report.slot_bytes > 0);
  cv_gateway_close(r.gateway, (cv_epoch){1, 1}, CV_CLOSE_DRAIN);
  for (int i = 0; i < 2; i++) cv_stage_unload(r.stages[i], false);
  for (int i = 0; i < 2; i++) until(&r, get(&r.owners[i], &r.owners[i].unloaded));
  end(&r);
}

/* Nobody comes to meet it: the watchdog names who is awaited, unloading answers on_loaded. */
static void test_alone(void **state) {
  (void)state;
  rig r;
  make(&r, 50000000);
  assert_int_equal(load(&r, 1, 0), CV_OK);
  until(&r, get(&r.owners[1], &r.owners[1].stalled) >= 2); /* again, as long as it goes on */
  assert_string_equal(r.owners[1].stall_text, "stage 1 of 2: it has not met the gateway");
  cv_stage_unload(r.stages[1], true);
  until(&r, get(&r.owners[1], &r.owners[1].unloaded));
  assert_int_equal(r.owners[1].load_status, CV_CANCELED);
  end(&r);
}

static void test_stall_names_who_waits(void **state) {
  (void)state;
  rig r;
  make(&r, 50000000);
  begin(&r, 400000);
  submit(&r);
  until(&r, get(&r.owners[0], &r.owners[0].stalled));
  assert_string_equal(r.owners[0].stall_text, "stage 0 of 2: micro-batch 0 is computing");
  cv_stage_report report;
  cv_stage_read(r.stages[0], &report);
  assert_true(report.computing_ns > 40000000);
  until(&r, get(&r.owners[1], &r.owners[1].stalled));
  assert_non_null(strstr(r.owners[1].stall_text, "stage 1 of 2: micro-batch 0"));
  end(&r); /* while it computes */
}

/* One ends in the middle: the other hears of it, once, by name. */
static void test_peer_ends(void **state) {
  (void)state;
  rig r;
  make(&r, 0);
  begin(&r, 20000);
  for (int i = 0; i < 6; i++) submit(&r);
  until(&r, r.answers == 1);
  cv_executor_destroy(r.executors[1]);
  r.executors[1] = NULL;
  until(&r, get(&r.owners[0], &r.owners[0].failed));
  assert_int_equal(r.owners[0].fail_status, CV_CANCELED);
  assert_non_null(strstr(r.owners[0].fail_text, "stage 0 of 2: "));
  cv_gateway_close(r.gateway, (cv_epoch){1, 1}, CV_CLOSE_FORCE);
  until(&r, cv_gateway_waiting(r.gateway) == 0); /* each request has an answer all the same */
  assert_int_equal(r.answers, 6);
  end(&r);
}

static void test_refusals(void **state) {
  (void)state;
  rig r;
  cv_executor *executor;
  make(&r, 0);
  static const char *const unknown[] = {"pigeons"};
  cv_executor_options options = {.rows = unknown, .n_rows = 1};
  assert_int_equal(cv_executor_create(&options, &executor), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "pigeons"));
  options.n_rows = 0;
  assert_int_equal(cv_executor_create(&options, &executor), CV_INVALID);
  r.edges.edges[0].values[0] = 3; /* no port of stage 0 */
  assert_int_equal(load(&r, 0, 0), CV_INVALID);
  assert_null(r.stages[0]);
  size_t size;
  assert_int_equal(cv_executor_address(r.executors[0], 7, NULL, 0, &size), CV_INVALID);
  assert_int_equal(cv_executor_address(r.executors[0], 0, NULL, 0, &size), CV_INVALID);
  end(&r);
}

static void reached(void *arg, cv_status status, const char *text) {
  owner *own = arg;
  on_loaded(own, NULL, status, text);
}

static void test_reach(void **state) {
  (void)state;
  rig r;
  owner own = {0};
  pthread_mutex_init(&own.lock, NULL);
  make(&r, 0);
  assert_int_equal(cv_executor_reach(r.executors[0], 0, r.addresses[1], r.sizes[1], reached, &own),
                   CV_OK);
  until(&r, get(&own, &own.loaded) == 1);
  assert_int_equal(own.load_status, CV_OK);
  assert_int_equal(cv_executor_reach(r.executors[0], 0, "nonsense", 8, reached, &own), CV_OK);
  until(&r, get(&own, &own.loaded) == 2);
  assert_int_not_equal(own.load_status, CV_OK);
  assert_true(own.load_text[0] != '\0');
  assert_int_equal(cv_executor_reach(r.executors[0], 3, "", 0, reached, &own), CV_INVALID);
  pthread_mutex_destroy(&own.lock);
  end(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_life),
                                     cmocka_unit_test(test_alone),
                                     cmocka_unit_test(test_stall_names_who_waits),
                                     cmocka_unit_test(test_peer_ends),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_reach)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
