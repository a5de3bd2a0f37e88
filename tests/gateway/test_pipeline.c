/* Pipelines in one process: splits, micro-batches, early outputs, late inputs, skip edges, state,
 * failures, rates.
 * ctest: timeout=300 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>

#include "base/log.h"
#include "gateway/pipeline.h"
#include "tests/each_fault.h"
#include "tests/gateway/fake.h"
#include "tests/runtime/sample.h"

static const char chain_path[] = "/tmp/cuvil-test-pipeline-chain.cuv";
static const char state_path[] = "/tmp/cuvil-test-pipeline-state.cuv";
static const char pick_path[] = "/tmp/cuvil-test-pipeline-pick.cuv";
static const char sum_path[] = "/tmp/cuvil-test-pipeline-sum.cuv";
static sample_code code;
static cv_artifact *chain, *stateful, *pick, *sum;

static int setup(void **state) {
  (void)state;
  code = sample_compile(TEST_DATA, CV_KERNEL_ABI);
  chain = fake_artifact(chain_program(false), chain_path);
  stateful = fake_artifact(chain_program(true), state_path);
  pick = fake_artifact(sample_pick(&code), pick_path);
  sum = fake_artifact(sample_sum(&code), sum_path);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  cv_artifact_close(chain);
  cv_artifact_close(stateful);
  cv_artifact_close(pick);
  cv_artifact_close(sum);
  sample_code_free(&code);
  unlink(chain_path);
  unlink(state_path);
  unlink(pick_path);
  unlink(sum_path);
  return 0;
}

/* ---- helpers ---- */

static cv_pipeline *create(cv_artifact *artifact) {
  cv_pipeline_options options = {.artifact = artifact, .find_device = fake_find};
  cv_pipeline *pipeline;
  assert_int_equal(cv_pipeline_create(&options, &pipeline), CV_OK);
  return pipeline;
}

typedef struct {
  cv_span spans[CV_PIPELINE_STAGES];
  cv_device_spec devices[CV_PIPELINE_STAGES];
} split;

static cv_status use(cv_pipeline *pipeline, cv_artifact *artifact, const uint32_t *cuts, int n_cuts,
                     int64_t micro_batch, cv_device_spec device) {
  split at;
  cv_status status = cv_spans_from_cuts(cv_artifact_program(artifact), cuts, n_cuts, at.spans);
  if (status != CV_OK) return status;
  for (int i = 0; i <= n_cuts; i++) at.devices[i] = device;
  cv_pipeline_plan plan = {
      .spans = at.spans, .n_stages = n_cuts + 1, .devices = at.devices, .micro_batch = micro_batch};
  return cv_pipeline_use(pipeline, &plan);
}

#define assert_ok(expression)                                               \
  do {                                                                      \
    cv_status status_ = (expression);                                       \
    if (status_ != CV_OK) fail_msg("%s: %s", #expression, cv_error_text()); \
  } while (0)

enum { MOST = 64 };

typedef struct {
  size_t count;
  cv_status status[MOST];
  char text[MOST][128];
  uint64_t stream[MOST];
  void *context[MOST];
  cv_tensor outputs[MOST][3];
  int n_outputs;
} answers;

static void keep(void *arg, const cv_answer *answer) {
  answers *all = arg;
  size_t i = all->count++;
  assert_true(i < MOST);
  all->status[i] = answer->status;
  snprintf(all->text[i], sizeof all->text[i], "%s", answer->text);
  all->stream[i] = answer->stream;
  all->context[i] = answer->context;
  for (int k = 0; answer->outputs && k < all->n_outputs; k++) {
    all->outputs[i][k] = answer->outputs[k];
    answer->outputs[k] = (cv_tensor){0};
  }
}

static void drop(answers *all) {
  for (size_t i = 0; i < all->count; i++)
    for (int k = 0; k < 3; k++) cv_tensor_deinit(&all->outputs[i][k]);
}

static cv_tensor floats(int64_t rows, float first) {
  cv_tensor tensor;
  int64_t dims[2] = {rows, CHAIN_WIDTH};
  assert_int_equal(cv_tensor_create(CV_F32, 2, dims, &tensor), CV_OK);
  for (int64_t i = 0; i < rows * CHAIN_WIDTH; i++) ((float *)tensor.data)[i] = first + (float)i;
  return tensor;
}

static float shared_y[CHAIN_WIDTH] = {1000, 2000, 3000, 4000};

static void chain_inputs(cv_tensor inputs[2], int64_t rows, float first) {
  inputs[0] = floats(rows, first);
  inputs[1] = (cv_tensor){.dtype = CV_F32,
                          .rank = 1,
                          .dims = {CHAIN_WIDTH},
                          .data = shared_y,
                          .bytes = sizeof shared_y};
}

static void check_chain(const answers *all, size_t i, int64_t rows, float first) {
  if (all->status[i] != CV_OK) fail_msg("request %zu: %s", i, all->text[i]);
  const cv_tensor *out = all->outputs[i];
  for (int k = 0; k < 3; k++) {
    assert_int_equal(out[k].dims[0], rows);
    assert_int_equal(out[k].bytes, rows * CHAIN_WIDTH * 4);
  }
  for (int64_t e = 0; e < rows * CHAIN_WIDTH; e++) {
    float x = first + (float)e;
    assert_true(((float *)out[0].data)[e] == chain_result(x, shared_y[e % CHAIN_WIDTH]));
    assert_true(((float *)out[1].data)[e] == x + 2);
    assert_true(((float *)out[2].data)[e] == x);
  }
}

/* ---- tests ---- */

static void run_chain(cv_pipeline *pipeline) {
  static int64_t rows[] = {7, 1, 0, 3, 4, 9};
  enum { N = sizeof rows / sizeof *rows };
  cv_tensor inputs[N][2];
  cv_request requests[N];
  answers all = {.n_outputs = 3};
  for (int i = 0; i < N; i++) {
    chain_inputs(inputs[i], rows[i], (float)(100 * i));
    requests[i] = (cv_request){.stream = (uint64_t)i % 2, .inputs = inputs[i], .context = &rows[i]};
  }
  assert_ok(cv_pipeline_run(pipeline, requests, N, keep, &all));
  assert_int_equal(all.count, N);
  int64_t last[2] = {-1, -1};
  for (size_t i = 0; i < N; i++) {
    int64_t k = (int64_t *)all.context[i] - rows;
    check_chain(&all, i, rows[k], (float)(100 * k));
    assert_true(k > last[k % 2]); /* in order per stream */
    last[k % 2] = k;
  }
  drop(&all);
}

static void test_every_cut(void **state) {
  (void)state;
  cv_pipeline *pipeline = create(chain);
  static const int64_t micro[] = {0, 1, 3, 4, 100};
  for (uint32_t cut = 1; cut < CHAIN_STEPS; cut++)
    for (size_t m = 0; m < sizeof micro / sizeof *micro; m++) {
      assert_ok(use(pipeline, chain, &cut, 1, micro[m], fake_spec(0)));
      run_chain(pipeline);
    }
  cv_pipeline_destroy(pipeline);
}

static void test_many_stages(void **state) {
  (void)state;
  cv_pipeline *pipeline = create(chain);
  assert_ok(use(pipeline, chain, NULL, 0, 2, fake_spec(0)));
  run_chain(pipeline);
  assert_ok(use(pipeline, chain, (uint32_t[]){1, 2, 3, 4, 5, 6, 7}, 7, 2, fake_spec(0)));
  run_chain(pipeline);
  run_chain(pipeline);
  assert_ok(use(pipeline, chain, (uint32_t[]){2, 4, 6}, 3, 1, fake_spec(0)));
  run_chain(pipeline);
  cv_pipeline_destroy(pipeline);
}

static void test_state(void **state) {
  (void)state;
  enum { N = 6 };
  cv_pipeline *pipeline = create(stateful);
  cv_tensor inputs[N][2];
  cv_request requests[N];
  answers all = {.n_outputs = 3};
  for (int i = 0; i < N; i++) {
    inputs[i][0] = floats(1, (float)i);
    inputs[i][1] =
        i < 2 ? floats(1, 0) : (cv_tensor){.dtype = CV_F32, .rank = 2, .dims = {1, 4}, .bytes = 16};
    requests[i] = (cv_request){.stream = (uint64_t)(i % 2), .inputs = inputs[i]};
  }
  assert_ok(use(pipeline, stateful, (uint32_t[]){3, 6}, 2, 1, fake_spec(0)));
  assert_ok(cv_pipeline_run(pipeline, requests, N, keep, &all));
  float carried[2] = {0, 0};
  for (size_t i = 0; i < N; i++) {
    uint64_t stream = all.stream[i];
    float x = (float)(i / 2 * 2 + stream), out = ((float *)all.outputs[i][0].data)[0];
    assert_int_equal(all.status[i], CV_OK);
    (void)x;
    /* both streams advance in order: i-th answer of a stream is its i-th request */
    static int seen[2];
    if (i < 2) seen[stream] = 0;
    x = (float)(2 * seen[stream]++ + (int)stream);
    assert_true(out == chain_result(x, carried[stream]));
    carried[stream] = out;
  }
  drop(&all);
  /* without a state and without data: an answer that says so */
  answers none = {.n_outputs = 3};
  cv_tensor lone[2] = {floats(1, 0), {.dtype = CV_F32, .rank = 2, .dims = {1, 4}, .bytes = 16}};
  cv_request request = {.stream = 9, .inputs = lone};
  assert_ok(cv_pipeline_run(pipeline, &request, 1, keep, &none));
  assert_int_equal(none.status[0], CV_INVALID);
  assert_non_null(strstr(none.text[0], "no state"));
  cv_pipeline_destroy(pipeline);
}

static void test_failed_requests(void **state) {
  (void)state;
  enum { N = 5 };
  cv_pipeline *pipeline = create(chain);
  cv_tensor inputs[N][2];
  cv_request requests[N];
  answers all = {.n_outputs = 3};
  for (int i = 0; i < N; i++) {
    chain_inputs(inputs[i], 3, (float)(10 * i));
    requests[i] = (cv_request){.inputs = inputs[i]};
  }
  ((float *)inputs[2][0].data)[5] = FAKE_POISON - 3; /* found by the fourth step */
  assert_ok(use(pipeline, chain, (uint32_t[]){2, 5}, 2, 1, fake_spec(0)));
  assert_ok(cv_pipeline_run(pipeline, requests, N, keep, &all));
  assert_int_equal(all.count, N);
  for (size_t i = 0; i < N; i++) {
    if (i == 2) {
      assert_int_equal(all.status[i], CV_INVALID);
      assert_non_null(strstr(all.text[i], "poisoned"));
      assert_non_null(strstr(all.text[i], "stage 1"));
    } else {
      check_chain(&all, i, 3, (float)(10 * i));
    }
  }
  drop(&all);
  run_chain(pipeline); /* it goes on */
  /* a request that does not fit is refused, with its shapes */
  cv_tensor wrong[2];
  chain_inputs(wrong, 2, 0);
  wrong[0].dims[1] = 2;
  wrong[0].dims[0] = 4;
  cv_request request = {.inputs = wrong};
  answers none = {0};
  assert_int_equal(cv_pipeline_run(pipeline, &request, 1, keep, &none), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "x"));
  assert_int_equal(none.count, 0);
  run_chain(pipeline);
  cv_pipeline_destroy(pipeline);
}

static void test_refused_plans(void **state) {
  (void)state;
  cv_pipeline *pipeline = create(chain);
  cv_request none;
  assert_int_equal(cv_pipeline_run(pipeline, &none, 0, keep, NULL), CV_INVALID);
  assert_ok(use(pipeline, chain, (uint32_t[]){4}, 1, 1, fake_spec(0)));
  cv_device_spec small = fake_spec(0), unknown = fake_spec(0);
  small.memory = 10;
  unknown.kind = "abacus";
  assert_int_equal(use(pipeline, chain, (uint32_t[]){4}, 1, 1, small), CV_INFEASIBLE);
  assert_non_null(strstr(cv_error_text(), "100 bytes needed"));
  assert_int_equal(use(pipeline, chain, (uint32_t[]){4}, 1, 1, unknown), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "abacus"));
  assert_int_equal(use(pipeline, chain, (uint32_t[]){8}, 1, 1, small), CV_INVALID);
  assert_int_equal(use(pipeline, chain, (uint32_t[]){4, 4}, 2, 1, small), CV_INVALID);
  run_chain(pipeline); /* the plan before stays */
  cv_pipeline_destroy(pipeline);
}

/* ---- the CPU device: shapes and guards that a step decides ---- */

static cv_device_spec cpu(int threads) {
  return (cv_device_spec){.name = "cpu", .kind = "cpu", .threads = threads};
}

static void run_pick(cv_pipeline *pipeline, int rows, bool positive, answers *all) {
  cv_tensor input = floats(rows, positive ? -9 : -1000);
  cv_request request = {.inputs = &input};
  assert_ok(cv_pipeline_run(pipeline, &request, 1, keep, all));
  if (all->status[0] != CV_OK) fail_msg("%s", all->text[0]);
}

static void check_same(const answers *a, const answers *b) {
  for (int k = 0; k < 3; k++) {
    const cv_tensor *x = &a->outputs[0][k], *y = &b->outputs[0][k];
    assert_int_equal(x->bytes, y->bytes);
    assert_int_equal(x->rank, y->rank);
    assert_memory_equal(x->dims, y->dims, sizeof *x->dims * x->rank);
    if (x->bytes) assert_memory_equal(x->data, y->data, x->bytes);
  }
}

static void test_pick(void **state) {
  (void)state;
  cv_pipeline *pipeline = create(pick);
  for (int positive = 0; positive < 2; positive++) {
    answers whole = {.n_outputs = 3};
    assert_ok(use(pipeline, pick, NULL, 0, 0, cpu(1)));
    run_pick(pipeline, 3, positive, &whole);
    for (uint32_t a = 1; a < 7; a++)
      for (uint32_t b = a; b < 7; b++) {
        answers part = {.n_outputs = 3};
        assert_ok(use(pipeline, pick, (uint32_t[]){a, b}, a == b ? 1 : 2, 0, cpu(1)));
        run_pick(pipeline, 3, positive, &part);
        check_same(&whole, &part);
        drop(&part);
      }
    drop(&whole);
  }
  cv_pipeline_destroy(pipeline);
}

static void test_growing_shapes(void **state) {
  (void)state;
  cv_pipeline *one = create(pick), *two = create(pick);
  assert_ok(use(one, pick, NULL, 0, 0, cpu(1)));
  assert_ok(use(two, pick, (uint32_t[]){1, 4, 6}, 3, 0, cpu(1)));
  for (int rows = 1; rows < 14; rows += 3) {
    answers a = {.n_outputs = 3}, b = {.n_outputs = 3};
    run_pick(one, rows, true, &a);
    run_pick(two, rows, true, &b);
    check_same(&a, &b);
    drop(&a);
    drop(&b);
  }
  cv_pipeline_destroy(one);
  cv_pipeline_destroy(two);
}

static void test_loop(void **state) {
  (void)state;
  cv_pipeline *pipeline = create(sum);
  answers all[2] = {{.n_outputs = 3}, {.n_outputs = 3}};
  for (int split_it = 0; split_it < 2; split_it++) {
    int64_t trips = 5, m = 3;
    cv_tensor inputs[3];
    assert_ok(use(pipeline, sum, (uint32_t[]){1}, split_it, 0, cpu(2)));
    assert_ok(cv_tensor_create(CV_I64, 0, NULL, &inputs[0]));
    *(int64_t *)inputs[0].data = trips;
    for (int k = 1; k < 3; k++) {
      assert_ok(cv_tensor_create(CV_F32, 1, &m, &inputs[k]));
      for (int i = 0; i < m; i++) ((float *)inputs[k].data)[i] = (float)(k + i);
    }
    cv_request request = {.inputs = inputs};
    assert_ok(cv_pipeline_run(pipeline, &request, 1, keep, &all[split_it]));
    if (all[split_it].status[0] != CV_OK) fail_msg("%s", all[split_it].text[0]);
  }
  assert_int_equal(all[0].outputs[0][1].dims[0], 5);
  check_same(&all[0], &all[1]);
  drop(&all[0]);
  drop(&all[1]);
  cv_pipeline_destroy(pipeline);
}

/* ---- rates, memory, lanes ---- */

typedef struct {
  size_t count;
  int64_t *at_ns;
  size_t memory[2]; /* in use at an early and at the last answer */
  size_t early, last;
} arrivals;

static void arrive(void *arg, const cv_answer *answer) {
  arrivals *all = arg;
  assert_int_equal(answer->status, CV_OK);
  if (all->count == all->early || all->count == all->last)
    all->memory[all->count == all->last] = mallinfo2().uordblks;
  all->at_ns[all->count++] = cv_clock_ns();
}

/* Nanoseconds between micro-batches, over the second half. */
static double run_paced(cv_pipeline *pipeline, size_t count, arrivals *all) {
  cv_tensor(*inputs)[2] = calloc(count, sizeof *inputs);
  cv_request *requests = calloc(count, sizeof *requests);
  static float row[CHAIN_WIDTH];
  *all = (arrivals){.at_ns = calloc(count, sizeof(int64_t)), .early = count / 4, .last = count - 1};
  for (size_t i = 0; i < count; i++) {
    inputs[i][0] = (cv_tensor){
        .dtype = CV_F32, .rank = 2, .dims = {1, CHAIN_WIDTH}, .data = row, .bytes = sizeof row};
    inputs[i][1] = (cv_tensor){.dtype = CV_F32,
                               .rank = 1,
                               .dims = {CHAIN_WIDTH},
                               .data = shared_y,
                               .bytes = sizeof shared_y};
    requests[i] = (cv_request){.inputs = inputs[i]};
  }
  assert_ok(cv_pipeline_run(pipeline, requests, count, arrive, all));
  assert_int_equal(all->count, count);
  double ns =
      (double)(all->at_ns[count - 1] - all->at_ns[count / 2]) / (double)(count - 1 - count / 2);
  free(inputs);
  free(requests);
  free(all->at_ns);
  return ns;
}

static void use_paced(cv_pipeline *pipeline, double slow_us) {
  split at;
  assert_ok(cv_spans_from_cuts(cv_artifact_program(chain), (uint32_t[]){2, 4, 6}, 3, at.spans));
  for (int i = 0; i < 4; i++) at.devices[i] = fake_spec(i == 2 ? slow_us : slow_us / 4);
  cv_pipeline_plan plan = {
      .spans = at.spans, .n_stages = 4, .devices = at.devices, .micro_batch = 1};
  assert_ok(cv_pipeline_use(pipeline, &plan));
}

/* Sleeping decides here, so the rate may be asserted: against the slow stage's own time, since a
 * sleep on a busy machine takes longer than it should. */
static void test_rate_and_memory(void **state) {
  (void)state;
  cv_pipeline *pipeline = create(chain);
  enum { MICRO = 200 };
  arrivals all;
  use_paced(pipeline, 10000);
  double ns = run_paced(pipeline, MICRO, &all);
  cv_stage_report slow;
  assert_ok(cv_pipeline_read(pipeline, 2, &slow));
  double limit = (double)slow.times.compute_ns[CV_TIME_COMPUTE] / MICRO;
  printf("between micro-batches: %.1f us; the slow stage: 10000 us by its pace, %.1f measured\n",
         ns / 1000, limit / 1000);
  assert_true(limit >= 10000e3);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const double most = 1.15;
#else
  const double most = 1.03;
#endif
  assert_true(ns < limit * most);
  for (int i = 0; i < 4; i++) {
    cv_stage_report report;
    assert_ok(cv_pipeline_read(pipeline, i, &report));
    const cv_stage_times *t = &report.times;
    int64_t compute = 0, comm = 0;
    for (int k = 0; k < CV_COMPUTE_LANE; k++) compute += t->compute_ns[k];
    for (int k = 0; k < CV_COMM_LANE; k++) comm += t->comm_ns[k];
    assert_int_equal(t->micro_batches, MICRO);
    assert_true(compute > t->wall_ns * 98 / 100 && compute < t->wall_ns * 102 / 100);
    assert_true(comm > t->wall_ns * 98 / 100 && comm < t->wall_ns * 102 / 100);
    double idle = cv_report_idle(t);
    printf("stage %d: idle %.3f, blocked on send %.3f, starved %.3f\n", i, idle,
           (double)t->compute_ns[CV_TIME_BLOCKED_SEND] / (double)t->wall_ns,
           (double)t->compute_ns[CV_TIME_STARVED] / (double)t->wall_ns);
    assert_true(i == 2 ? idle < 0.15 : idle > 0.6 && idle < 0.85);
  }
  use_paced(pipeline, 1);
  run_paced(pipeline, 10000, &all);
  printf("memory in use after 2500 and 10000 micro-batches: %zu, %zu bytes\n", all.memory[0],
         all.memory[1]);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  assert_true(all.memory[1] < all.memory[0] + 65536);
#endif
  cv_pipeline_destroy(pipeline);
}

typedef struct {
  int computes, sends, receives, steps;
} trace_counts;

/* Adds what the file holds, and removes it. */
static void count_events(const char *path, trace_counts *n) {
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  char line[1024];
  while (fgets(line, sizeof line, file)) {
    n->computes += strstr(line, "\"cat\":\"compute\"") != NULL;
    n->sends += strstr(line, "\"cat\":\"send\"") != NULL;
    n->receives += strstr(line, "\"cat\":\"receive\"") != NULL;
    n->steps += strstr(line, "\"cat\":\"step\"") != NULL;
  }
  fclose(file);
  unlink(path);
}

static void test_trace(void **state) {
  (void)state;
  static const char path[] = "/tmp/cuvil-test-pipeline-trace.json";
  cv_pipeline_options options = {.artifact = chain, .find_device = fake_find, .trace_events = 4096};
  cv_pipeline *pipeline;
  assert_ok(cv_pipeline_create(&options, &pipeline));
  assert_ok(use(pipeline, chain, (uint32_t[]){2, 5}, 2, 1, fake_spec(0)));
  run_chain(pipeline);
  trace_counts n = {0};
  /* An answer may be here before the sender of its last piece was told that it is sent. */
  for (int tries = 0; tries < 500 && (tries == 0 || n.sends != n.receives); tries++) {
    if (tries > 0) usleep(10000);
    assert_ok(cv_pipeline_write_trace(pipeline, path));
    count_events(path, &n);
  }
  assert_true(n.computes > 0 && n.computes % 3 == 0);
  assert_int_equal(n.steps, n.computes / 3 * CHAIN_STEPS);
  assert_true(n.sends > 0);
  assert_int_equal(n.sends, n.receives);
  cv_pipeline_destroy(pipeline);
}

/* ---- every failure ---- */

static cv_status whole_life(void *arg) {
  (void)arg;
  cv_pipeline_options options = {.artifact = chain, .find_device = fake_find, .trace_events = 64};
  cv_pipeline *pipeline = NULL;
  answers all = {.n_outputs = 3};
  cv_tensor inputs[2] = {{0}, {0}};
  int64_t dims[2] = {3, CHAIN_WIDTH};
  cv_request request = {.inputs = inputs};
  cv_status status = cv_pipeline_create(&options, &pipeline);
  if (status == CV_OK) status = use(pipeline, chain, (uint32_t[]){2, 5}, 2, 2, fake_spec(0));
  if (status == CV_OK) status = cv_tensor_create(CV_F32, 2, dims, &inputs[0]);
  if (status == CV_OK) {
    inputs[1] = (cv_tensor){.dtype = CV_F32,
                            .rank = 1,
                            .dims = {CHAIN_WIDTH},
                            .data = shared_y,
                            .bytes = sizeof shared_y};
    status = cv_pipeline_run(pipeline, &request, 1, keep, &all);
    if (status == CV_OK) status = all.status[0];
  }
  if (status == CV_OK) status = use(pipeline, chain, (uint32_t[]){4}, 1, 2, fake_spec(0));
  cv_pipeline_destroy(pipeline);
  drop(&all);
  return status;
}

static void test_each_fault(void **state) {
  (void)state;
  cv_log_set_level(CV_LOG_ERROR);
  long points = 0;
  for (long n = 1;; n++) {
    cv_fault_arm(n);
    cv_status status = whole_life(NULL);
    bool fired = cv_fault_fired();
    cv_fault_arm(0);
    if (!fired) {
      assert_int_equal(status, CV_OK);
      break;
    }
    points = n;
  }
  printf("%ld fault points\n", points);
  cv_log_set_level(CV_LOG_WARN);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_cut),       cmocka_unit_test(test_many_stages),
      cmocka_unit_test(test_state),           cmocka_unit_test(test_failed_requests),
      cmocka_unit_test(test_refused_plans),   cmocka_unit_test(test_pick),
      cmocka_unit_test(test_growing_shapes),  cmocka_unit_test(test_loop),
      cmocka_unit_test(test_rate_and_memory), cmocka_unit_test(test_trace),
      cmocka_unit_test(test_each_fault)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
