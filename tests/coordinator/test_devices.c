#include "coordinator/devices.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"

static const cv_plan_link *link_of(const cv_devices *d, int from, int to) {
  return &d->links[from * (d->n_devices + 1) + to];
}

static void test_example_file(void **state) {
  (void)state;
  cv_devices d;
  if (cv_devices_load(TEST_DATA "/../../configs/devices.yaml", &d) != CV_OK)
    fail_msg("%s", cv_error_text());
  assert_int_equal(d.n_devices, 3);
  assert_int_equal(d.n_kinds, 1);
  assert_string_equal(d.kinds[0], "cpu");
  assert_string_equal(d.devices[0].name, "edge");
  assert_int_equal(d.devices[0].memory, 512u << 20);
  assert_int_equal(d.devices[1].cores, 16);
  assert_true(d.devices[0].speed == 0.5 && d.devices[1].speed == 1);
  assert_true(d.devices[2].pace_us == 2000);
  assert_true(link_of(&d, 0, 1)->bytes_per_us == 2.5);
  assert_true(link_of(&d, 1, 0)->bytes_per_us == 10);
  assert_true(link_of(&d, 2, 0)->latency_us == 20000);
  assert_true(link_of(&d, 1, 2)->bytes_per_us > 1000); /* one host */
  assert_true(link_of(&d, 3, 0)->bytes_per_us > 1000); /* the gateway's host */
  assert_true(link_of(&d, 3, 1)->bytes_per_us < 1000);
  cv_devices_deinit(&d);
}

static void test_gateway_links_and_kinds(void **state) {
  (void)state;
  const char text[] =
      "devices:\n"
      "  - {name: a, kind: cuda}\n"
      "  - {name: b, kind: cpu, host: far}\n"
      "  - {name: c, kind: paced, pace_us_per_step: 5}\n"
      "links:\n"
      "  - {a: gateway, b: b, MBps: 1, us: 3}\n";
  cv_devices d;
  assert_int_equal(cv_devices_parse("d.yaml", text, sizeof text - 1, &d), CV_OK);
  assert_int_equal(d.n_kinds, 2);
  assert_int_equal(d.devices[2].kind, d.devices[1].kind);
  assert_string_equal(d.kinds[d.devices[0].kind], "cuda");
  assert_true(link_of(&d, 3, 1)->bytes_per_us == 1 && link_of(&d, 1, 3)->latency_us == 3);
  cv_devices_deinit(&d);
  cv_devices_deinit(&d);
}

static void test_equal_devices(void **state) {
  (void)state;
  cv_devices d;
  assert_int_equal(cv_devices_equal(3, "cpu", 2, &d), CV_OK);
  assert_int_equal(d.n_devices, 3);
  assert_string_equal(d.devices[2].name, "w2");
  assert_int_equal(d.devices[2].cores, 2);
  cv_devices_deinit(&d);
  assert_int_equal(cv_devices_equal(0, "cpu", 2, &d), CV_INVALID);
}

static void test_bad_files(void **state) {
  (void)state;
  static const struct {
    const char *text, *sentence;
  } bad[] = {
      {"", "d.yaml:1: devices is missing"},
      {"devices: []\n", "d.yaml:1: key devices: the list is empty"},
      {"devices: x\n", "d.yaml:1: key devices: must be a list"},
      {"device:\n", "d.yaml:1: key device: is not known here"},
      {"devices:\n  - {kind: cpu}\n", "d.yaml:2: name is missing"},
      {"devices:\n  - {name: a}\n", "d.yaml:2: kind is missing"},
      {"devices:\n  - {name: a, kind: tpu}\n", "d.yaml:2: key kind: \"tpu\" is not known"},
      {"devices:\n  - {name: a, kind: cpu}\n  - {name: a, kind: cpu}\n",
       "d.yaml:3: key name: \"a\" is taken"},
      {"devices:\n  - {name: gateway, kind: cpu}\n", "gateway is the gateway's"},
      {"devices:\n  - {name: a, kind: paced}\n", "kind paced needs pace_us"},
      {"devices:\n  - {name: a, kind: cpu, pace_us: 3}\n", "a pace is for kind paced only"},
      {"devices:\n  - {name: a, kind: cpu, speed: 0}\n", "d.yaml:2: key speed"},
      {"devices:\n  - {name: a, kind: cpu, memory: lots}\n", "d.yaml:2: key memory"},
      {"devices:\n  - {name: a, kind: cpu, colour: red}\n", "d.yaml:2: key colour: is not known"},
      {"devices:\n  - {name: a, kind: cpu}\nlinks:\n  - {a: a, b: z, MBps: 1}\n",
       "d.yaml:4: key b: no device is named \"z\""},
      {"devices:\n  - {name: a, kind: cpu}\nlinks:\n  - {a: a, b: a, MBps: 1}\n",
       "a link from a device to itself"},
      {"devices:\n  - {name: a, kind: cpu}\nlinks:\n  - {a: a, b: gateway}\n", "MBps is missing"},
      {"devices:\n  - {name: a, kind: cpu}\nlinks:\n  - {a: a, b: gateway, MBps: 0}\n",
       "d.yaml:4: key MBps"},
      {"devices:\n  - {name: a, kind: cpu}\nlinks:\n  - {a: a, b: gateway, MBps: 1}\n"
       "  - {a: gateway, b: a, MBps: 1}\n",
       "d.yaml:5: this link was given before"},
      {"devices:\n  - {name: a, kind: cpu}\ngateway: h1\n", "d.yaml:3: key gateway: must be a map"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cv_devices d;
    assert_int_equal(cv_devices_parse("d.yaml", bad[i].text, strlen(bad[i].text), &d), CV_INVALID);
    if (!strstr(cv_error_text(), bad[i].sentence))
      fail_msg("%s | wanted: %s", cv_error_text(), bad[i].sentence);
    assert_null(d.devices);
  }
  cv_devices d;
  assert_int_equal(cv_devices_load("/nonexistent.yaml", &d), CV_IO);
}

static void test_every_failure(void **state) {
  (void)state;
  for (long n = 1;; n++) {
    cv_devices d;
    cv_fault_arm(n);
    cv_status status = cv_devices_load(TEST_DATA "/../../configs/devices.yaml", &d);
    bool fired = cv_fault_fired();
    cv_fault_arm(0);
    assert_true(fired ? status == CV_NOMEM || status == CV_IO : status == CV_OK);
    cv_devices_deinit(&d);
    if (!fired) break;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_example_file),  cmocka_unit_test(test_gateway_links_and_kinds),
      cmocka_unit_test(test_equal_devices), cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_every_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
