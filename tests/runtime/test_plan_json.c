#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/plan_json.h"
#include "tests/each_fault.h"
#include "tests/runtime/sample.h"

static cv_status parse(const char *text, cv_plan_json *plan) {
  return cv_plan_json_parse("p.json", text, strlen(text), plan);
}

static const char full[] =
    "{\"artifact\": \"00\", \"order\": null, \"stages\": ["
    "{\"device\": \"edge\", \"first\": 0, \"last\": 2, \"predicted_us\": 12.5},"
    "{\"device\": [\"a\", \"b\"], \"weights\": [1, 2.5], \"first\": 3, \"last\": 6}],"
    "\"micro_batch\": 4, \"threads\": 2, \"predicted\": {\"rate\": 100.5, \"latency_us\": 20,"
    "\"bottleneck_us\": 9}, \"bound\": 8.5, \"reason\": \"because\", \"more\": [1]}";

static void test_read_and_write(void **state) {
  (void)state;
  cv_plan_json plan, again;
  assert_int_equal(parse(full, &plan), CV_OK);
  assert_int_equal(plan.n_stages, 2);
  assert_string_equal(plan.stages[0].devices[0], "edge");
  assert_true(plan.stages[0].predicted_us == 12.5 && plan.stages[0].weights[0] == 1);
  assert_int_equal(plan.stages[1].n_devices, 2);
  assert_true(plan.stages[1].weights[1] == 2.5);
  assert_int_equal(plan.stages[1].first, 3);
  assert_int_equal(plan.stages[1].last, 6);
  assert_int_equal(plan.micro_batch, 4);
  assert_int_equal(plan.threads, 2);
  assert_true(plan.rate == 100.5 && plan.bound_us == 8.5 && plan.bottleneck_us == 9);
  cv_str a = {0}, b = {0};
  assert_int_equal(cv_plan_json_print(&plan, &a), CV_OK);
  assert_int_equal(parse(cv_str_text(&a), &again), CV_OK);
  assert_int_equal(cv_plan_json_print(&again, &b), CV_OK);
  assert_string_equal(cv_str_text(&a), cv_str_text(&b));
  cv_str_deinit(&a);
  cv_str_deinit(&b);
  cv_plan_json_deinit(&plan);
  cv_plan_json_deinit(&again);
  assert_int_equal(parse("{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 0}]}", &plan),
                   CV_OK);
  assert_int_equal(plan.micro_batch, 1);
  assert_int_equal(plan.threads, 1);
  assert_null(plan.artifact);
  cv_plan_json_deinit(&plan);
}

static void test_bad_files(void **state) {
  (void)state;
  static const struct {
    const char *text, *named;
  } cases[] = {
      {"", "JSON"},
      {"[1]", "object"},
      {"{\"stages\": []}", "\"stages\""},
      {"{}", "\"stages\""},
      {"{\"stages\": [1]}", "stage 0"},
      {"{\"stages\": [{\"device\": \"d\", \"last\": 0}]}", "\"first\""},
      {"{\"stages\": [{\"device\": \"d\", \"first\": 3, \"last\": 2}]}", "\"last\""},
      {"{\"stages\": [{\"device\": \"d\", \"first\": -1, \"last\": 2}]}", "\"first\""},
      {"{\"stages\": [{\"device\": 3, \"first\": 0, \"last\": 2}]}", "\"device\""},
      {"{\"stages\": [{\"device\": [], \"first\": 0, \"last\": 2}]}", "\"device\""},
      {"{\"stages\": [{\"device\": [\"a\"], \"weights\": [0], \"first\": 0, \"last\": 2}]}",
       "\"weights\""},
      {"{\"stages\": [{\"device\": [\"a\"], \"weights\": [1, 2], \"first\": 0, \"last\": 2}]}",
       "\"weights\""},
      {"{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 2}], \"threads\": 0}",
       "\"threads\""},
      {"{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 2}], \"micro_batch\": 1.5}",
       "\"micro_batch\""},
      {"{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 2}], \"order\": [0, 2]}",
       "\"order\""},
      {"{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 2}], \"reason\": 2}",
       "\"reason\""},
      {"{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 2}], \"bound\": -2}",
       "\"bound\""},
      {"{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 2}], \"predicted\": 2}",
       "\"predicted\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cv_plan_json plan;
    assert_int_equal(parse(cases[i].text, &plan), CV_INVALID);
    assert_non_null(strstr(cv_error_text(), "p.json"));
    assert_non_null(strstr(cv_error_text(), cases[i].named));
  }
  assert_int_equal(cv_plan_json_read("/no/such/plan.json", &(cv_plan_json){0}), CV_IO);
}

static cv_status check(const char *text, const cv_program *program) {
  cv_plan_json plan;
  cv_status status = parse(text, &plan);
  assert_int_equal(status, CV_OK);
  status = cv_plan_json_check(&plan, "p.json", program);
  cv_plan_json_deinit(&plan);
  return status;
}

static void test_check(void **state) {
  (void)state;
  cv_program *program = sample_pick(NULL); /* 7 steps */
  snprintf(program->hash, sizeof program->hash, "%032d", 0);
  assert_int_equal(check("{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 6}]}", program),
                   CV_OK);
  assert_int_equal(check("{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 2},"
                         "{\"device\": \"e\", \"first\": 3, \"last\": 6}], \"artifact\":"
                         "\"00000000000000000000000000000000\"}",
                         program),
                   CV_OK);
  assert_int_equal(check(full, program), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "for artifact 00, this one is 0000"));
  assert_int_equal(check("{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 2},"
                         "{\"device\": \"e\", \"first\": 4, \"last\": 6}]}",
                         program),
                   CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "stage 1 begins at step 4"));
  assert_int_equal(check("{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 7}]}", program),
                   CV_INVALID);
  assert_int_equal(check("{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 5}]}", program),
                   CV_INVALID);
  assert_int_equal(check("{\"stages\": [{\"device\": \"d\", \"first\": 0, \"last\": 6}],"
                         "\"order\": [0,1,2,3,4,6,5]}",
                         program),
                   CV_UNSUPPORTED);
  cv_program_destroy(program);
}

static cv_status parse_full(void *arg) {
  (void)arg;
  cv_plan_json plan;
  cv_str text = {0};
  cv_status status = parse(full, &plan);
  if (status == CV_OK) status = cv_plan_json_print(&plan, &text);
  cv_plan_json_deinit(&plan);
  cv_str_deinit(&text);
  return status;
}

static void test_each_fault(void **state) {
  (void)state;
  assert_true(each_fault(parse_full, NULL) > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_read_and_write),
      cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_check),
      cmocka_unit_test(test_each_fault),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
