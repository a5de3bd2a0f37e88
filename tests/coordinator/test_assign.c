/* Who runs which stage of a plan. */
#include "coordinator/assign.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/link.h"
#include "runtime/file.h"
#include "tests/each_fault.h"
#include "tests/gateway/fake.h"

enum { WORKERS = 3 };

static cv_msg_address shm = {"shm", "s", 1};
static cv_msg_address both[2] = {{"shm", "s", 1}, {"ucx", "u", 1}};

/* Three workers and the gateway, all on h1 but those that a test moves. */
static void make_hellos(cv_msg_hello hellos[WORKERS + 1]) {
  for (int i = 0; i <= WORKERS; i++)
    hellos[i] = (cv_msg_hello){.host = "h1",
                               .cores = 2,
                               .incarnation = 10 + (uint64_t)i,
                               .addresses = both,
                               .n_addresses = 2};
}

/* A text in a file of its own; removed with its folder by the caller. */
static char *file_of(const char *text) {
  char *path = cv_strdup("/tmp/cuvil-assign-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  close(fd);
  return path;
}

static void done_with(char *path) {
  unlink(path);
  cv_free(path);
}

static cv_status assign(const cv_msg_hello *hellos, const cv_assign_options *options,
                        cv_assigned *out) {
  cv_program *p = chain_program(false);
  cv_assign_members members = {.hellos = hellos, .workers = WORKERS};
  cv_status status = cv_assign(p, options, &members, out);
  cv_program_destroy(p);
  return status;
}

static void test_a_plan_is_made(void **state) {
  (void)state;
  cv_msg_hello hellos[WORKERS + 1];
  cv_assigned a;
  make_hellos(hellos);
  if (assign(hellos, &(cv_assign_options){.micro_batch = 4, .threads = 2}, &a) != CV_OK)
    fail_msg("%s", cv_error_text());
  assert_int_equal(a.prepare.n_stages, WORKERS); /* one a worker */
  assert_int_equal(a.prepare.micro_batch, 4);
  assert_int_equal(a.prepare.n_members, WORKERS + 1);
  assert_string_equal(a.prepare.members[WORKERS].name, "the gateway on h1");
  for (uint32_t i = 0; i < WORKERS; i++) {
    assert_int_equal(a.prepare.stages[i].member, i);
    assert_int_equal(a.prepare.stages[i].threads, 2);
    assert_string_equal(a.prepare.stages[i].kind, "cpu");
    assert_true(a.plan.stages[i].predicted_us > 0);
  }
  for (uint32_t e = 0; e < a.prepare.n_edges; e++)
    assert_string_equal(a.prepare.edges[e].row, "shm");
  cv_assigned_deinit(&a);
  assert_int_equal(assign(hellos, &(cv_assign_options){.stages = 4}, &a), CV_INFEASIBLE);
  assert_non_null(strstr(cv_error_text(), "mpirun -n"));
  cv_assigned_deinit(&a);
  assert_int_equal(assign(hellos, &(cv_assign_options){.stages = 9}, &a), CV_INFEASIBLE);
  cv_assigned_deinit(&a);
}

static void test_devices_and_hosts(void **state) {
  (void)state;
  cv_msg_hello hellos[WORKERS + 1];
  cv_assigned a;
  make_hellos(hellos);
  hellos[2].host = "h2";
  char *devices = file_of(
      "devices:\n  - {name: far, kind: cpu, host: h2, memory: 1GiB}\n"
      "  - {name: near, kind: paced, host: h1, pace_us: 2000}\n");
  char *plan = file_of(
      "{\"stages\": [{\"device\": \"far\", \"first\": 0, \"last\": 3}, {\"device\": \"near\", "
      "\"first\": 4, \"last\": 7}], \"micro_batch\": 3}");
  if (assign(hellos, &(cv_assign_options){.path = plan, .devices = devices}, &a) != CV_OK)
    fail_msg("%s", cv_error_text());
  assert_int_equal(a.prepare.stages[0].member, 2);
  assert_int_equal(a.prepare.stages[1].member, 0);
  assert_int_equal(a.prepare.stages[0].memory, 1 << 30);
  assert_string_equal(a.prepare.stages[1].kind, "paced");
  assert_true(a.prepare.stages[1].pace_us == 2000);
  assert_true(a.plan.stages[1].predicted_us >= 2000); /* predicted here: the file does not */
  for (uint32_t e = 0; e < a.prepare.n_edges; e++) {
    const cv_msg_edge *edge = &a.prepare.edges[e];
    bool crosses = edge->from == 0 || edge->to == 0; /* stage 0 is on another host than all else */
    assert_string_equal(edge->row, crosses ? "ucx" : "shm");
  }
  cv_assigned_deinit(&a);
  hellos[2].n_addresses = 1; /* no ucx */
  assert_int_equal(assign(hellos, &(cv_assign_options){.path = plan, .devices = devices}, &a),
                   CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "ucx"));
  cv_assigned_deinit(&a);
  hellos[2].host = "h3";
  assert_int_equal(assign(hellos, &(cv_assign_options){.path = plan, .devices = devices}, &a),
                   CV_INFEASIBLE);
  assert_non_null(strstr(cv_error_text(), "host h2"));
  cv_assigned_deinit(&a);
  done_with(plan);
  plan = file_of("{\"stages\": [{\"device\": \"other\", \"first\": 0, \"last\": 7}]}");
  assert_int_equal(assign(hellos, &(cv_assign_options){.path = plan, .devices = devices}, &a),
                   CV_INVALID);
  cv_assigned_deinit(&a);
  done_with(plan);
  done_with(devices);
}

/* Stages of one device share its worker; the member's side makes the same edges of it. */
static void test_a_device_twice(void **state) {
  (void)state;
  cv_msg_hello hellos[WORKERS + 1];
  cv_assigned a;
  cv_edges edges;
  cv_edge_peer peers[32] = {0};
  make_hellos(hellos);
  char *plan = file_of(
      "{\"stages\": [{\"device\": \"a\", \"first\": 0, \"last\": 1}, {\"device\": \"b\", "
      "\"first\": 2, \"last\": 5}, {\"device\": \"a\", \"first\": 6, \"last\": 7}]}");
  if (assign(hellos, &(cv_assign_options){.path = plan}, &a) != CV_OK)
    fail_msg("%s", cv_error_text());
  assert_int_equal(a.prepare.stages[0].member, 0);
  assert_int_equal(a.prepare.stages[1].member, 1);
  assert_int_equal(a.prepare.stages[2].member, 0);
  cv_program *p = chain_program(false);
  assert_int_equal(cv_prepare_edges(&a.prepare, p, &edges), CV_OK);
  assert_int_equal(edges.n_edges, a.prepare.n_edges);
  assert_int_equal(cv_prepare_peers(&a.prepare, 1, peers), CV_OK);
  for (uint32_t e = 0; e < edges.n_edges; e++) {
    if (edges.edges[e].from != 1 && edges.edges[e].to != 1) continue;
    int other = edges.edges[e].from == 1 ? edges.edges[e].to : edges.edges[e].from;
    assert_int_equal(peers[e].incarnation, other == CV_EDGE_GATEWAY ? 10 + WORKERS : 10);
    assert_string_equal(peers[e].row, "shm");
  }
  cv_edges_deinit(&edges);
  a.prepare.edges[0].to = 2; /* another program's */
  assert_int_equal(cv_prepare_edges(&a.prepare, p, &edges), CV_CORRUPT);
  a.prepare.stages[0].member = 99;
  assert_int_equal(cv_prepare_edges(&a.prepare, p, &edges), CV_CORRUPT);
  cv_program_destroy(p);
  cv_assigned_deinit(&a);
  done_with(plan);
}

static void test_transport_of_the_user(void **state) {
  (void)state;
  cv_msg_hello hellos[WORKERS + 1];
  cv_assigned a;
  make_hellos(hellos);
  assert_int_equal(assign(hellos, &(cv_assign_options){.transport = "ucx"}, &a), CV_OK);
  assert_string_equal(a.prepare.edges[0].row, "ucx");
  cv_assigned_deinit(&a);
  hellos[0].addresses = &shm;
  hellos[0].n_addresses = 1;
  assert_int_equal(assign(hellos, &(cv_assign_options){.transport = "ucx"}, &a), CV_INVALID);
  cv_assigned_deinit(&a);
}

static cv_status assign_once(void *arg) {
  cv_msg_hello hellos[WORKERS + 1];
  cv_assigned a;
  make_hellos(hellos);
  cv_assign_members members = {.hellos = hellos, .workers = WORKERS};
  cv_status status = cv_assign(arg, &(cv_assign_options){.stages = 2}, &members, &a);
  cv_assigned_deinit(&a);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  cv_program *p = chain_program(false);
  assert_true(each_fault(assign_once, p) > 20);
  cv_program_destroy(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_plan_is_made), cmocka_unit_test(test_devices_and_hosts),
      cmocka_unit_test(test_a_device_twice), cmocka_unit_test(test_transport_of_the_user),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
