/* Plans of a real program, and its profile on disk. */
#include "coordinator/plan_program.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/passes.h"
#include "coordinator/devices.h"
#include "runtime/file.h"

/* Four matrix products in a row, of equal size. */
static const char chain[] =
    "symbol batch [1, 64]\n"
    "graph \"chain\" (%x: f32[batch,64], %a: f32[64,64], %b: f32[64,64], %c: f32[64,64], "
    "%d: f32[64,64]) {\n"
    "  %1: f32[batch,64] = matmul(%x, %a) {to=f32}\n"
    "  %2: f32[batch,64] = matmul(%1, %b) {to=f32}\n"
    "  %3: f32[batch,64] = matmul(%2, %c) {to=f32}\n"
    "  %4: f32[batch,64] = matmul(%3, %d) {to=f32}\n"
    "} -> (%4)\n";

typedef struct {
  cv_graph *graph;
  cv_program *program;
} model;

static model make_model(void) {
  model m = {0};
  cv_pass_options options = {0};
  if (cv_graph_parse(chain, NULL, NULL, NULL, &m.graph) != CV_OK) fail_msg("%s", cv_error_text());
  if (cv_passes_run(m.graph, &options) != CV_OK) fail_msg("%s", cv_error_text());
  if (cv_lower(m.graph, &options, &m.program) != CV_OK) fail_msg("%s", cv_error_text());
  return m;
}

static void free_model(model *m) {
  cv_program_destroy(m->program);
  cv_graph_destroy(m->graph);
}

static cv_plan_request request_of(const cv_devices *devices, int stages) {
  return (cv_plan_request){.devices = devices->devices,
                           .n_devices = devices->n_devices,
                           .links = devices->links,
                           .kinds = devices->kinds,
                           .n_kinds = devices->n_kinds,
                           .stages = stages,
                           .micro_batch = 1,
                           .threads = 1};
}

static void test_exactly_the_stages_asked_for(void **state) {
  (void)state;
  model m = make_model();
  cv_devices devices;
  assert_int_equal(cv_devices_equal(3, "cpu", 1, &devices), CV_OK);
  cv_plan_request request = request_of(&devices, 3);
  cv_plan plan;
  assert_int_equal(cv_plan_program(m.program, &request, &plan), CV_OK);
  assert_int_equal(plan.n_stages, 3);
  assert_int_equal(plan.stages[0].first, 0);
  assert_int_equal(plan.stages[2].last, (int)m.program->n_steps - 1);
  assert_non_null(strstr(plan.reason, "roofline"));
  cv_plan_json json;
  assert_int_equal(cv_plan_to_json(&plan, &json), CV_OK);
  assert_int_equal(cv_plan_json_check(&json, "plan", m.program), CV_OK);
  assert_string_equal(json.artifact, m.program->hash);
  cv_plan_json_deinit(&json);
  cv_plan_deinit(&plan);
  cv_devices_deinit(&devices);
  free_model(&m);
}

static void test_more_stages_than_steps(void **state) {
  (void)state;
  model m = make_model();
  cv_devices devices;
  int stages = (int)m.program->n_steps + 1;
  assert_int_equal(cv_devices_equal(stages, "cpu", 1, &devices), CV_OK);
  cv_plan_request request = request_of(&devices, stages);
  cv_plan plan;
  assert_int_equal(cv_plan_program(m.program, &request, &plan), CV_INFEASIBLE);
  assert_non_null(strstr(cv_error_text(), "stages asked"));
  cv_devices_deinit(&devices);
  free_model(&m);
}

/* Writes a profile in which the last step takes nine tenths, reads it back and plans by it. */
static void test_a_profile_moves_the_cut(void **state) {
  (void)state;
  model m = make_model();
  uint32_t n = m.program->n_steps;
  double times[16];
  int size = 1;
  assert_true(n >= 3 && n <= 16);
  for (uint32_t i = 0; i < n; i++) times[i] = i + 1 == n ? 90 : 10.0 / (n - 1);
  cv_profile written = {.kind = (char[]){"cpu"},
                        .device = (char[]){"a CPU"},
                        .threads = 1,
                        .n_sizes = 1,
                        .n_steps = (int)n,
                        .sizes = &size,
                        .step_us = times};
  memcpy(written.artifact, "0123456789abcdef0123456789abcdef", 33);
  memcpy(m.program->hash, written.artifact, 33);
  char path[] = "/tmp/cuvil-profile-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(cv_profile_write(&written, path), CV_OK);
  cv_profile profile;
  assert_int_equal(cv_profile_read(path, m.program, &profile), CV_OK);
  cv_devices devices;
  assert_int_equal(cv_devices_equal(2, "cpu", 1, &devices), CV_OK);
  cv_plan_request request = request_of(&devices, 2);
  const cv_profile *by_kind[] = {&profile};
  request.profiles = by_kind;
  cv_plan plan;
  assert_int_equal(cv_plan_program(m.program, &request, &plan), CV_OK);
  assert_int_equal(plan.stages[1].first, (int)n - 1);
  assert_null(strstr(plan.reason, "roofline"));
  cv_plan_deinit(&plan);
  cv_devices_deinit(&devices);
  cv_profile_deinit(&profile);
  m.program->hash[0] = 'f';
  assert_int_equal(cv_profile_read(path, m.program, &profile), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "cuvil profile again"));
  unlink(path);
  free_model(&m);
}

static void test_damaged_profiles(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",
      "{}",
      "[1]",
      "{\"artifact\": \"00000000000000000000000000000000\", \"kind\": \"cpu\"}",
      "{\"artifact\": \"00000000000000000000000000000000\", \"kind\": \"cpu\", \"sizes\": [2, 1], "
      "\"step_us\": [[1], [1]]}",
      "{\"artifact\": \"00000000000000000000000000000000\", \"kind\": \"cpu\", \"sizes\": [1], "
      "\"step_us\": [[-1]]}",
      "{\"artifact\": \"00000000000000000000000000000000\", \"kind\": \"cpu\", \"sizes\": [1, 2], "
      "\"step_us\": [[1, 2], [1]]}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char path[] = "/tmp/cuvil-profile-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(cv_file_write(path, texts[i], strlen(texts[i])), CV_OK);
    cv_profile profile;
    assert_int_equal(cv_profile_read(path, NULL, &profile), CV_INVALID);
    assert_non_null(strstr(cv_error_text(), path));
    unlink(path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exactly_the_stages_asked_for),
      cmocka_unit_test(test_more_stages_than_steps),
      cmocka_unit_test(test_a_profile_moves_the_cut),
      cmocka_unit_test(test_damaged_profiles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
