#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/runtime/sample.h"

static const char pick_path[] = "/tmp/cuvil-test-device-pick.cuv";
static const char sum_path[] = "/tmp/cuvil-test-device-sum.cuv";
static sample_code code;
static cv_artifact *pick, *sum;

static int setup(void **state) {
  (void)state;
  code = sample_compile(TEST_DATA, CV_KERNEL_ABI);
  cv_program *a = sample_pick(&code), *b = sample_sum(&code);
  if (sample_open(a, pick_path, &pick) != CV_OK || sample_open(b, sum_path, &sum) != CV_OK)
    return 1;
  cv_program_destroy(a);
  cv_program_destroy(b);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  cv_artifact_close(pick);
  cv_artifact_close(sum);
  sample_code_free(&code);
  unlink(pick_path);
  unlink(sum_path);
  return 0;
}

static cv_status open_device(const char *kind, int threads, uint64_t memory,
                             cv_device **out_device) {
  cv_device_spec spec = {.name = "edge", .kind = kind, .threads = threads, .memory = memory};
  return cv_device_open(&spec, out_device);
}

/* ---- running ---- */

enum { MAX_OUTS = 8 };

typedef struct {
  cv_tensor outs[MAX_OUTS];
  uint32_t placed;
} results;

static cv_status place(void *context, uint32_t index, cv_tensor *tensor) {
  results *r = context;
  r->placed |= 1u << index;
  tensor->data = cv_alloc_aligned(64, tensor->bytes ? tensor->bytes : 64);
  tensor->owned = true;
  return tensor->data ? CV_OK : cv_error_nomem(tensor->bytes);
}

static void free_results(results *r) {
  for (int i = 0; i < MAX_OUTS; i++) cv_tensor_deinit(&r->outs[i]);
  r->placed = 0;
}

static cv_status run(cv_slice *slice, const cv_tensor *ins, int64_t *symbols, results *r,
                     cv_step_time *times) {
  memset(r, 0, sizeof *r);
  cv_run job = {.symbols = symbols,
                .ins = ins,
                .outs = r->outs,
                .place = place,
                .context = r,
                .times = times};
  return cv_slice_run(slice, &job);
}

static cv_tensor tensor_of(cv_dtype dtype, int rank, int64_t d0, int64_t d1, const void *data) {
  cv_tensor t = {.dtype = dtype, .rank = (uint8_t)rank, .dims = {d0, d1}};
  t.data = (void *)(uintptr_t)data;
  t.bytes = cv_dtype_size(dtype) * (uint64_t)((rank > 0 ? d0 : 1) * (rank > 1 ? d1 : 1));
  return t;
}

enum { BATCH = 70 };

/* x and what "pick" makes of it. */
typedef struct {
  float x[BATCH * 4], flat[BATCH * 3], twice[BATCH * 3];
  int64_t n;
} case_;

static void make_case(case_ *c, int batch, bool positive) {
  c->n = 0;
  for (int i = 0; i < batch * 4; i++) {
    c->x[i] = positive && i / 4 % 5 == 0 ? (float)(i % 7) : (float)(-10 - i % 7);
    if (!positive) c->x[i] = (float)(-20 - i % 3);
  }
  for (int i = 0; i < batch; i++)
    for (int j = 0; j < 3; j++) {
      float y = 0;
      for (int k = 0; k < 4; k++) y += c->x[i * 4 + k] * sample_w[k * 3 + j];
      y += sample_b[j];
      c->flat[i * 3 + j] = y;
      if (y > 0) c->twice[c->n++] = 2 * y;
    }
}

static void check_pick(cv_slice *slice, int batch, bool positive) {
  case_ c;
  make_case(&c, batch, positive);
  results r;
  int64_t symbols[2];
  cv_tensor x = tensor_of(CV_F32, 2, batch, 4, c.x);
  assert_int_equal(cv_program_bind_inputs(cv_artifact_program(pick), &x, symbols), CV_OK);
  assert_int_equal(symbols[0], batch);
  assert_true(symbols[1] == CV_UNBOUND);
  cv_status status = run(slice, &x, symbols, &r, NULL);
  if (status != CV_OK) print_message("%s\n", cv_error_text());
  assert_int_equal(status, CV_OK);
  assert_int_equal(slice->n_outs, 3);
  assert_int_equal(r.placed, 7);
  assert_int_equal(symbols[1], c.n);
  /* by value id: x, flat, double */
  assert_memory_equal(r.outs[0].data, c.x, sizeof(float) * (size_t)batch * 4);
  assert_int_equal(r.outs[1].dims[0], batch * 3);
  assert_memory_equal(r.outs[1].data, c.flat, sizeof(float) * (size_t)batch * 3);
  assert_int_equal(r.outs[2].dims[0], c.n);
  assert_memory_equal(r.outs[2].data, c.twice, sizeof(float) * (size_t)c.n);
  free_results(&r);
}

static void test_whole(void **state) {
  (void)state;
  for (int threads = 1; threads <= 3; threads++) {
    cv_device *device;
    cv_slice *slice;
    assert_int_equal(open_device("cpu", threads, 0, &device), CV_OK);
    assert_int_equal(cv_device_load(device, pick, 0, 6, &slice), CV_OK);
    assert_int_equal(slice->n_ins, 1);
    for (int round = 0; round < 3; round++) {
      check_pick(slice, 5, true);
      check_pick(slice, 1, false);
      check_pick(slice, 60, true);
      for (int batch = 1; batch < 20; batch++) check_pick(slice, batch, batch % 3 != 0);
    }
    cv_slice_memory memory;
    cv_slice_memory_used(slice, &memory);
    assert_int_equal(memory.weights, 48 + 12);
    assert_true(memory.scratch >= (uint64_t)(100 * threads + 60 * 12));
    assert_true(memory.arena > 0);
    cv_slice_unload(slice);
    cv_device_close(device);
  }
}

/* A shape that was seen needs no memory: a fault would show each point. */
static void test_known_shape_allocates_nothing(void **state) {
  (void)state;
  cv_device *device;
  cv_slice *slice;
  assert_int_equal(open_device("cpu", 1, 0, &device), CV_OK);
  assert_int_equal(cv_device_load(device, pick, 0, 6, &slice), CV_OK);
  check_pick(slice, 5, true);
  check_pick(slice, 10, true);
  case_ c;
  make_case(&c, 5, true);
  results r;
  int64_t symbols[2] = {5, CV_UNBOUND};
  cv_tensor x = tensor_of(CV_F32, 2, 5, 4, c.x);
  cv_fault_arm(4); /* the three results are allocated by `place` */
  cv_status status = run(slice, &x, symbols, &r, NULL);
  bool fired = cv_fault_fired();
  cv_fault_arm(0);
  assert_int_equal(status, CV_OK);
  assert_false(fired);
  free_results(&r);
  cv_slice_unload(slice);
  cv_device_close(device);
}

/* Every cut in two gives the same bits; absent values and symbols cross it. */
static void test_cuts(void **state) {
  (void)state;
  const cv_program *program = cv_artifact_program(pick);
  cv_device *device;
  assert_int_equal(open_device("cpu", 1, 0, &device), CV_OK);
  for (uint32_t cut = 1; cut < program->n_steps; cut++)
    for (int positive = 0; positive < 2; positive++) {
      cv_slice *a, *b;
      case_ c;
      results first, second;
      int64_t symbols[2] = {7, CV_UNBOUND};
      make_case(&c, 7, positive != 0);
      cv_tensor x = tensor_of(CV_F32, 2, 7, 4, c.x), ins[16];
      assert_int_equal(cv_device_load(device, pick, 0, cut - 1, &a), CV_OK);
      assert_int_equal(cv_device_load(device, pick, cut, program->n_steps - 1, &b), CV_OK);
      assert_int_equal(run(a, &x, symbols, &first, NULL), CV_OK);
      for (uint32_t i = 0; i < b->n_ins; i++) {
        uint32_t o = 0;
        while (o < a->n_outs && a->outs[o] != b->ins[i]) o++;
        assert_true(o < a->n_outs);
        ins[i] = first.outs[o];
      }
      cv_status status = run(b, ins, symbols, &second, NULL);
      if (status != CV_OK) print_message("cut %u: %s\n", cut, cv_error_text());
      assert_int_equal(status, CV_OK);
      const cv_tensor *twice = &second.outs[b->n_outs - 1];
      assert_int_equal(twice->bytes, c.n * 4);
      assert_memory_equal(twice->data, c.twice, twice->bytes);
      free_results(&first);
      free_results(&second);
      cv_slice_unload(a);
      cv_slice_unload(b);
    }
  cv_device_close(device);
}

static void test_step_times(void **state) {
  (void)state;
  cv_device *device;
  cv_slice *slice;
  cv_step_time times[7];
  case_ c;
  results r;
  int64_t symbols[2] = {5, CV_UNBOUND};
  make_case(&c, 5, true);
  cv_tensor x = tensor_of(CV_F32, 2, 5, 4, c.x);
  assert_int_equal(open_device("cpu", 1, 0, &device), CV_OK);
  assert_int_equal(cv_device_load(device, pick, 0, 6, &slice), CV_OK);
  assert_int_equal(run(slice, &x, symbols, &r, times), CV_OK);
  for (int s = 0; s < 7; s++) {
    if (s == 4) { /* guarded out */
      assert_int_equal(times[s].begin_ns, 0);
      continue;
    }
    assert_true(times[s].begin_ns > 0 && times[s].end_ns >= times[s].begin_ns);
  }
  free_results(&r);
  cv_slice_unload(slice);
  cv_device_close(device);
}

/* ---- loops ---- */

static void check_sum(cv_slice *slice, int64_t k, int m) {
  float c[16], d[16], final[16], items[50 * 16], total[16] = {0};
  for (int i = 0; i < m; i++) {
    c[i] = (float)i;
    d[i] = (float)(2 * i + 1);
    final[i] = c[i];
  }
  for (int t = 0; t < k; t++)
    for (int i = 0; i < m; i++) {
      final[i] += d[i];
      items[t * m + i] = final[i] * (float)t;
      total[i] += items[t * m + i];
    }
  cv_tensor ins[3] = {tensor_of(CV_I64, 0, 0, 0, &k), tensor_of(CV_F32, 1, m, 0, c),
                      tensor_of(CV_F32, 1, m, 0, d)};
  int64_t symbols[3];
  results r;
  assert_int_equal(cv_program_bind_inputs(cv_artifact_program(sum), ins, symbols), CV_OK);
  cv_status status = run(slice, ins, symbols, &r, NULL);
  if (status != CV_OK) print_message("%s\n", cv_error_text());
  assert_int_equal(status, CV_OK);
  assert_int_equal(symbols[2], k);
  assert_int_equal(r.placed, 7);
  assert_int_equal(r.outs[1].dims[0], k);
  assert_int_equal(r.outs[1].dims[1], m);
  assert_memory_equal(r.outs[0].data, final, r.outs[0].bytes);
  assert_memory_equal(r.outs[1].data, items, r.outs[1].bytes);
  assert_memory_equal(r.outs[2].data, total, r.outs[2].bytes);
  free_results(&r);
}

static void test_loop(void **state) {
  (void)state;
  cv_device *device;
  cv_slice *slice;
  assert_int_equal(open_device("cpu", 2, 0, &device), CV_OK);
  assert_int_equal(cv_device_load(device, sum, 0, 1, &slice), CV_OK);
  for (int64_t k = 0; k < 12; k++) check_sum(slice, k, 3);
  check_sum(slice, 50, 16);
  check_sum(slice, 2, 1);
  check_sum(slice, 2, 0);
  float v[1] = {1};
  int64_t k = 51, symbols[3];
  results r;
  cv_tensor ins[3] = {tensor_of(CV_I64, 0, 0, 0, &k), tensor_of(CV_F32, 1, 1, 0, v),
                      tensor_of(CV_F32, 1, 1, 0, v)};
  assert_int_equal(cv_program_bind_inputs(cv_artifact_program(sum), ins, symbols), CV_OK);
  assert_int_equal(run(slice, ins, symbols, &r, NULL), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "50 times"));
  free_results(&r);
  check_sum(slice, 4, 2);
  cv_slice_unload(slice);
  cv_device_close(device);
}

/* ---- weights, budget ---- */

static void test_shared_weights(void **state) {
  (void)state;
  cv_device *device;
  cv_slice *a, *b;
  assert_int_equal(open_device("cpu", 1, 64 + 12, &device), CV_OK); /* once, nothing more */
  assert_int_equal(cv_device_load(device, pick, 0, 6, &a), CV_OK);
  assert_int_equal(cv_device_load(device, pick, 0, 2, &b), CV_OK);
  cv_slice_unload(a);
  cv_slice_memory memory;
  cv_slice_memory_used(b, &memory);
  assert_int_equal(memory.weights, 48 + 12);
  cv_slice_unload(b);
  assert_int_equal(cv_device_load(device, pick, 0, 6, &a), CV_OK);
  cv_slice_unload(a);
  cv_device_close(device);
}

static void test_budget(void **state) {
  (void)state;
  cv_device *device;
  cv_slice *slice;
  assert_int_equal(open_device("cpu", 1, 70, &device), CV_OK);
  assert_int_equal(cv_device_load(device, pick, 0, 6, &slice), CV_INFEASIBLE);
  assert_non_null(strstr(cv_error_text(), "edge"));
  assert_non_null(strstr(cv_error_text(), "76 bytes"));
  assert_null(slice);
  cv_device_close(device);
  assert_int_equal(open_device("cpu", 1, 400, &device), CV_OK); /* weights, but no activations */
  assert_int_equal(cv_device_load(device, pick, 0, 6, &slice), CV_OK);
  case_ c;
  results r;
  int64_t symbols[2] = {60, CV_UNBOUND};
  make_case(&c, 60, true);
  cv_tensor x = tensor_of(CV_F32, 2, 60, 4, c.x);
  assert_int_equal(run(slice, &x, symbols, &r, NULL), CV_INFEASIBLE);
  free_results(&r);
  cv_slice_unload(slice);
  cv_device_close(device);
}

/* ---- bad input ---- */

static void test_bad_inputs(void **state) {
  (void)state;
  const cv_program *program = cv_artifact_program(pick);
  int64_t symbols[2];
  float x[8] = {0};
  cv_tensor wrong_dim = tensor_of(CV_F32, 2, 1, 5, x), wrong_type = tensor_of(CV_I32, 2, 2, 4, x),
            wrong_rank = tensor_of(CV_F32, 1, 4, 0, x), empty = tensor_of(CV_F32, 2, 0, 4, x),
            short_ = tensor_of(CV_F32, 2, 2, 4, x);
  short_.bytes = 4;
  assert_int_equal(cv_program_bind_inputs(program, &wrong_dim, symbols), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "'x' must be f32[batch,4], given is f32[1,5]"));
  assert_int_equal(cv_program_bind_inputs(program, &wrong_type, symbols), CV_INVALID);
  assert_int_equal(cv_program_bind_inputs(program, &wrong_rank, symbols), CV_INVALID);
  assert_int_equal(cv_program_bind_inputs(program, &short_, symbols), CV_INVALID);
  assert_int_equal(cv_program_bind_inputs(program, &empty, symbols), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "batch is 0, outside of its bounds [1, 2000]"));

  cv_device *device;
  cv_slice *slice;
  results r;
  assert_int_equal(open_device("cpu", 1, 0, &device), CV_OK);
  assert_int_equal(cv_device_load(device, pick, 0, 6, &slice), CV_OK);
  symbols[0] = 1;
  assert_int_equal(run(slice, &wrong_dim, symbols, &r, NULL), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "input 'x' must be f32[1,4]"));
  /* more positives than the symbol's bound */
  float many[50 * 4];
  for (int i = 0; i < 200; i++) many[i] = 3;
  cv_tensor x50 = tensor_of(CV_F32, 2, 50, 4, many);
  symbols[0] = 50;
  assert_int_equal(run(slice, &x50, symbols, &r, NULL), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "counter: n is 150, outside of its bounds [0, 40]"));
  free_results(&r);
  /* shapes that the kernel refuses */
  cv_tensor large = {.dtype = CV_F32, .rank = 2, .dims = {1001, 4}, .bytes = 1001 * 16};
  large.data = cv_alloc_aligned(64, large.bytes);
  symbols[0] = 1001;
  assert_int_equal(run(slice, &large, symbols, &r, NULL), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "step fc"));
  free_results(&r);
  cv_free(large.data);
  check_pick(slice, 3, true);
  cv_slice_unload(slice);
  assert_int_equal(cv_device_load(device, pick, 3, 7, &slice), CV_INVALID);
  assert_int_equal(cv_device_load(device, pick, 3, 2, &slice), CV_INVALID);
  cv_device_close(device);
}

static void test_kernel_codes(void **state) {
  (void)state;
  static const char path[] = "/tmp/cuvil-test-device-fail.cuv";
  cv_program *made = sample_pick(&code);
  made->targets[0].renderings[6].kernel = FAIL;
  cv_artifact *artifact;
  cv_device *device;
  cv_slice *slice;
  case_ c;
  results r;
  int64_t symbols[2] = {5, CV_UNBOUND};
  make_case(&c, 5, true);
  cv_tensor x = tensor_of(CV_F32, 2, 5, 4, c.x);
  assert_int_equal(sample_open(made, path, &artifact), CV_OK);
  assert_int_equal(open_device("cpu", 1, 0, &device), CV_OK);
  assert_int_equal(cv_device_load(device, artifact, 0, 6, &slice), CV_OK);
  assert_int_equal(run(slice, &x, symbols, &r, NULL), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "step doubler: an index is out of range"));
  free_results(&r);
  cv_slice_unload(slice);
  cv_artifact_close(artifact);
  made->targets[0].renderings[6].kernel = 99;
  assert_int_equal(sample_open(made, path, &artifact), CV_OK);
  assert_int_equal(cv_device_load(device, artifact, 0, 6, &slice), CV_CORRUPT);
  assert_non_null(strstr(cv_error_text(), "doubler"));
  cv_artifact_close(artifact);
  made->targets[0].layouts[3] = 2;
  assert_int_equal(sample_open(made, path, &artifact), CV_OK);
  assert_int_equal(cv_device_load(device, artifact, 0, 6, &slice), CV_UNSUPPORTED);
  assert_non_null(strstr(cv_error_text(), "layout 2"));
  cv_artifact_close(artifact);
  cv_device_close(device);
  cv_program_destroy(made);
  unlink(path);
}

/* Code that is none, code of another ABI. */
static void test_bad_code(void **state) {
  (void)state;
  static const char path[] = "/tmp/cuvil-test-device-code.cuv";
  sample_code other = sample_compile(TEST_DATA, 77),
              none = {.data = (void *)(uintptr_t) "no code", .bytes = 7};
  const sample_code *codes[] = {&other, &none};
  const cv_status wanted[] = {CV_VERSION, CV_CORRUPT};
  cv_device *device;
  assert_int_equal(open_device("cpu", 1, 0, &device), CV_OK);
  for (int i = 0; i < 2; i++) {
    cv_program *made = sample_pick(codes[i]);
    cv_artifact *artifact;
    cv_slice *slice;
    assert_int_equal(sample_open(made, path, &artifact), CV_OK);
    assert_int_equal(cv_device_load(device, artifact, 0, 6, &slice), wanted[i]);
    assert_non_null(strstr(cv_error_text(), path));
    cv_artifact_close(artifact);
    cv_program_destroy(made);
  }
  cv_device_close(device);
  sample_code_free(&other);
  unlink(path);
}

static void test_table(void **state) {
  (void)state;
  cv_device *device;
  assert_non_null(cv_device_find("cpu"));
  assert_non_null(cv_device_find("paced"));
  assert_null(cv_device_find("gpu"));
  assert_int_equal(open_device("gpu", 1, 0, &device), CV_INVALID);
  assert_int_equal(open_device("cpu", 0, 0, &device), CV_INVALID);
  cv_device_close(NULL);
  cv_slice_unload(NULL);
}

static void test_paced(void **state) {
  (void)state;
  cv_device_spec spec = {.name = "slow", .kind = "paced", .threads = 1, .pace_us = 3000};
  cv_device *device;
  cv_slice *slice;
  assert_int_equal(cv_device_open(&spec, &device), CV_OK);
  assert_int_equal(cv_device_load(device, pick, 0, 6, &slice), CV_OK);
  int64_t begin = cv_clock_ns();
  check_pick(slice, 5, true);
  check_pick(slice, 2, true);
  assert_true(cv_clock_ns() - begin >= 6000000);
  cv_slice_unload(slice);
  cv_device_close(device);
  spec.pace_us_per_step = -1;
  assert_int_equal(cv_device_open(&spec, &device), CV_INVALID);
}

/* ---- the n-th failure ---- */

static cv_status load_and_run(void *arg) {
  cv_artifact *artifact = arg;
  cv_device *device = NULL;
  cv_slice *slice = NULL;
  results r = {0};
  case_ c;
  make_case(&c, 5, true);
  int64_t k = 3, symbols[3] = {5, CV_UNBOUND, CV_UNBOUND};
  cv_tensor ins[3] = {tensor_of(CV_F32, 2, 5, 4, c.x)};
  uint32_t last = 6;
  if (artifact == sum) {
    ins[0] = tensor_of(CV_I64, 0, 0, 0, &k);
    ins[1] = ins[2] = tensor_of(CV_F32, 1, 5, 0, c.x);
    last = 1;
  }
  cv_status status = CV_OK;
  CV_TRY(open_device("paced", 2, 0, &device));
  CV_TRY(cv_device_load(device, artifact, 0, last, &slice));
  CV_TRY(run(slice, ins, symbols, &r, NULL));
out:
  free_results(&r);
  cv_slice_unload(slice);
  cv_device_close(device);
  return status;
}

static void test_each_fault(void **state) {
  (void)state;
  assert_true(sample_each_fault(load_and_run, pick) > 30);
  assert_true(sample_each_fault(load_and_run, sum) > 30);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole),        cmocka_unit_test(test_known_shape_allocates_nothing),
      cmocka_unit_test(test_cuts),         cmocka_unit_test(test_step_times),
      cmocka_unit_test(test_loop),         cmocka_unit_test(test_shared_weights),
      cmocka_unit_test(test_budget),       cmocka_unit_test(test_bad_inputs),
      cmocka_unit_test(test_kernel_codes), cmocka_unit_test(test_bad_code),
      cmocka_unit_test(test_table),        cmocka_unit_test(test_paced),
      cmocka_unit_test(test_each_fault),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
