#include "base/schedule.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"

static cv_schedule *make(int n_in, int n_out, int slots, int out_buffers) {
  cv_schedule_in in[4] = {{slots, "stage 0"}, {slots, NULL}, {slots, "gateway"}, {slots, NULL}};
  cv_schedule_out out[4] = {{false, "stage 3"}, {false, NULL}, {false, NULL}, {false, NULL}};
  cv_schedule_config config = {n_in, n_out, in, out, out_buffers, 0, 0};
  cv_schedule *schedule;
  assert_int_equal(cv_schedule_create(&config, &schedule), CV_OK);
  return schedule;
}

static void expect(cv_schedule *s, cv_schedule_kind kind, int edge, int64_t seq) {
  cv_schedule_action action;
  assert_true(cv_schedule_next(s, &action));
  assert_int_equal(action.kind, kind);
  if (edge >= 0) assert_int_equal(action.edge, edge);
  assert_int_equal(action.seq, seq);
}

static void expect_nothing(cv_schedule *s) {
  cv_schedule_action action;
  assert_false(cv_schedule_next(s, &action));
}

static void receive(cv_schedule *s, int edge, int64_t seq) {
  int slot;
  assert_int_equal(cv_schedule_on_header(s, edge, seq, &slot), CV_OK);
  assert_int_equal(cv_schedule_on_complete(s, edge, seq), CV_OK);
}

static void test_one_micro_batch_passes_all_states(void **state) {
  (void)state;
  cv_schedule *s = make(1, 1, 2, 2);
  expect(s, CV_SCHEDULE_GRANT, 0, 2);
  expect_nothing(s);
  int slot;
  assert_int_equal(cv_schedule_state(s, 0), CV_SLOT_FREE);
  assert_int_equal(cv_schedule_on_header(s, 0, 0, &slot), CV_OK);
  assert_int_equal(slot, 0);
  assert_int_equal(cv_schedule_state(s, 0), CV_SLOT_RECEIVING);
  assert_int_equal(cv_schedule_lane(s), CV_LANE_BLOCKED_RECEIVE);
  assert_int_equal(cv_schedule_on_complete(s, 0, 0), CV_OK);
  assert_int_equal(cv_schedule_state(s, 0), CV_SLOT_READY);
  expect(s, CV_SCHEDULE_COMPUTE, -1, 0);
  assert_int_equal(cv_schedule_state(s, 0), CV_SLOT_COMPUTING);
  assert_int_equal(cv_schedule_lane(s), CV_LANE_COMPUTE);
  assert_int_equal(cv_schedule_on_computed(s, 0), CV_OK);
  assert_int_equal(cv_schedule_state(s, 0), CV_SLOT_SENDING);
  expect(s, CV_SCHEDULE_GRANT, 0, 3);
  expect_nothing(s);
  assert_int_equal(cv_schedule_on_grant(s, 0, 1), CV_OK);
  expect(s, CV_SCHEDULE_SEND, 0, 0);
  assert_false(cv_schedule_idle(s));
  assert_int_equal(cv_schedule_on_sent(s, 0, 0), CV_OK);
  assert_true(cv_schedule_idle(s));
  assert_int_equal(cv_schedule_done(s), 1);
  assert_int_equal(cv_schedule_lane(s), CV_LANE_STARVED);
  cv_schedule_destroy(s);
}

static void test_slot_is_seq_mod_slots(void **state) {
  (void)state;
  cv_schedule *s = make(1, 0, 3, 1);
  expect(s, CV_SCHEDULE_GRANT, 0, 3);
  for (int64_t seq = 0; seq < 20; seq++) {
    int slot;
    assert_int_equal(cv_schedule_on_header(s, 0, seq, &slot), CV_OK);
    assert_int_equal(slot, seq % 3);
    assert_int_equal(cv_schedule_on_complete(s, 0, seq), CV_OK);
    expect(s, CV_SCHEDULE_COMPUTE, -1, seq);
    assert_int_equal(cv_schedule_on_computed(s, seq), CV_OK);
    expect(s, CV_SCHEDULE_GRANT, 0, seq + 4);
    assert_int_equal(cv_schedule_done(s), seq + 1);
  }
  cv_schedule_destroy(s);
}

/* Messages are addressed, not ordered: a later one may be complete first and then computes first,
 * but the window moves only with the oldest. */
static void test_out_of_order_arrival(void **state) {
  (void)state;
  cv_schedule *s = make(1, 1, 3, 2);
  expect(s, CV_SCHEDULE_GRANT, 0, 3);
  assert_int_equal(cv_schedule_on_grant(s, 0, 100), CV_OK);
  receive(s, 0, 1);
  receive(s, 0, 2);
  expect(s, CV_SCHEDULE_COMPUTE, -1, 1);
  assert_int_equal(cv_schedule_on_computed(s, 1), CV_OK);
  expect(s, CV_SCHEDULE_SEND, 0, 1);
  assert_int_equal(cv_schedule_on_sent(s, 0, 1), CV_OK);
  expect_nothing(s); /* 2 needs the output buffer of 0 */
  assert_int_equal(cv_schedule_lane(s), CV_LANE_BLOCKED_SEND);
  int slot;
  assert_int_equal(cv_schedule_on_header(s, 0, 1, &slot), CV_CORRUPT);
  receive(s, 0, 0);
  expect(s, CV_SCHEDULE_COMPUTE, -1, 0);
  assert_int_equal(cv_schedule_on_computed(s, 0), CV_OK);
  expect(s, CV_SCHEDULE_GRANT, 0, 5);
  expect(s, CV_SCHEDULE_SEND, 0, 0);
  assert_int_equal(cv_schedule_on_sent(s, 0, 0), CV_OK);
  assert_int_equal(cv_schedule_done(s), 2);
  expect(s, CV_SCHEDULE_COMPUTE, -1, 2);
  cv_schedule_destroy(s);
}

static void test_several_in_edges_and_explain(void **state) {
  (void)state;
  cv_schedule *s = make(3, 1, 2, 2);
  for (int e = 0; e < 3; e++) expect(s, CV_SCHEDULE_GRANT, e, 2);
  char text[160];
  receive(s, 1, 0);
  cv_schedule_explain_text(s, text, sizeof text);
  assert_string_equal(text, "micro-batch 0 waits for its input from stage 0");
  receive(s, 0, 0);
  int slot;
  assert_int_equal(cv_schedule_on_header(s, 2, 0, &slot), CV_OK);
  expect_nothing(s);
  cv_schedule_wait wait;
  cv_schedule_explain(s, &wait);
  assert_int_equal(wait.kind, CV_WAIT_PAYLOAD);
  assert_int_equal(wait.edge, 2);
  assert_int_equal(cv_schedule_on_complete(s, 2, 0), CV_OK);
  cv_schedule_explain(s, &wait);
  assert_int_equal(wait.kind, CV_WAIT_TURN);
  expect(s, CV_SCHEDULE_COMPUTE, -1, 0);
  cv_schedule_explain(s, &wait);
  assert_int_equal(wait.kind, CV_WAIT_COMPUTE);
  assert_int_equal(cv_schedule_on_computed(s, 0), CV_OK);
  cv_schedule_explain_text(s, text, sizeof text);
  assert_string_equal(text, "micro-batch 0 waits for a slot at stage 3");
  assert_int_equal(cv_schedule_on_grant(s, 0, 1), CV_OK);
  for (int e = 0; e < 3; e++) expect(s, CV_SCHEDULE_GRANT, e, 3);
  expect(s, CV_SCHEDULE_SEND, 0, 0);
  cv_schedule_explain_text(s, text, sizeof text);
  assert_string_equal(text, "micro-batch 0 is being sent to stage 3");
  cv_schedule_destroy(s);
}

static void test_direct_edge_waits_for_the_grant_before_computing(void **state) {
  (void)state;
  cv_schedule_in in = {2, NULL};
  cv_schedule_out out[2] = {{false, NULL}, {true, NULL}};
  cv_schedule *s;
  assert_int_equal(cv_schedule_create(&(cv_schedule_config){1, 2, &in, out, 2, 7, 0}, &s), CV_OK);
  expect(s, CV_SCHEDULE_GRANT, 0, 9);
  receive(s, 0, 7);
  expect_nothing(s);
  cv_schedule_wait wait;
  cv_schedule_explain(s, &wait);
  assert_int_equal(wait.kind, CV_WAIT_GRANT);
  assert_int_equal(wait.edge, 1);
  assert_int_equal(wait.seq, 7);
  assert_int_equal(cv_schedule_on_grant(s, 1, 8), CV_OK);
  expect(s, CV_SCHEDULE_COMPUTE, -1, 7);
  cv_schedule_destroy(s);
}

static void test_source_and_its_offers(void **state) {
  (void)state;
  cv_schedule *s = make(0, 2, 0, 2);
  char text[160];
  cv_schedule_explain_text(s, text, sizeof text);
  assert_string_equal(text, "micro-batch 0 waits to be offered: the source has no more");
  expect_nothing(s);
  assert_int_equal(cv_schedule_offer(s, 3), CV_OK);
  for (int64_t seq = 0; seq < 2; seq++) {
    expect(s, CV_SCHEDULE_COMPUTE, -1, seq);
    assert_int_equal(cv_schedule_on_computed(s, seq), CV_OK);
  }
  expect_nothing(s);
  assert_int_equal(cv_schedule_on_grant(s, 0, 1), CV_OK);
  assert_int_equal(cv_schedule_on_grant(s, 1, 1), CV_OK);
  expect(s, CV_SCHEDULE_SEND, 0, 0);
  expect(s, CV_SCHEDULE_SEND, 1, 0);
  assert_int_equal(cv_schedule_on_sent(s, 1, 0), CV_OK);
  expect_nothing(s);
  assert_int_equal(cv_schedule_on_sent(s, 0, 0), CV_OK);
  expect(s, CV_SCHEDULE_COMPUTE, -1, 2);
  cv_schedule_destroy(s);
}

static void test_impossible_events_are_refused(void **state) {
  (void)state;
  cv_schedule *s = make(1, 1, 2, 2);
  int slot;
  assert_int_equal(cv_schedule_on_header(s, 0, 0, &slot), CV_CORRUPT); /* not granted yet */
  expect(s, CV_SCHEDULE_GRANT, 0, 2);
  assert_int_equal(cv_schedule_on_header(s, 1, 0, &slot), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_header(s, -1, 0, &slot), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_header(s, 0, 2, &slot), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_header(s, 0, -1, &slot), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_header(s, 0, INT64_MIN, &slot), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_complete(s, 0, 0), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_header(s, 0, 0, &slot), CV_OK);
  assert_int_equal(cv_schedule_on_header(s, 0, 0, &slot), CV_CORRUPT);
  assert_non_null(strstr(cv_error_text(), "second header"));
  assert_int_equal(cv_schedule_on_complete(s, 0, 0), CV_OK);
  assert_int_equal(cv_schedule_on_complete(s, 0, 0), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_computed(s, 0), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_computed(s, -1), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_sent(s, 0, 0), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_grant(s, 5, 1), CV_CORRUPT);
  assert_int_equal(cv_schedule_offer(s, 1), CV_INVALID);
  assert_int_equal(cv_schedule_on_grant(s, 0, 4), CV_OK);
  assert_int_equal(cv_schedule_on_grant(s, 0, 1), CV_OK); /* stale: ignored */
  expect(s, CV_SCHEDULE_COMPUTE, -1, 0);
  assert_int_equal(cv_schedule_on_computed(s, 0), CV_OK);
  expect(s, CV_SCHEDULE_GRANT, 0, 3);
  expect(s, CV_SCHEDULE_SEND, 0, 0);
  assert_int_equal(cv_schedule_on_sent(s, 0, 0), CV_OK);
  assert_int_equal(cv_schedule_on_sent(s, 0, 0), CV_CORRUPT);
  cv_schedule_destroy(s);
  cv_schedule_in bad = {0, NULL};
  assert_int_equal(cv_schedule_create(&(cv_schedule_config){1, 0, &bad, NULL, 1, 0, 0}, &s),
                   CV_INVALID);
  assert_null(s);
  assert_int_equal(cv_schedule_create(&(cv_schedule_config){0, 0, NULL, NULL, 0, 0, 0}, &s),
                   CV_INVALID);
  cv_schedule_destroy(NULL);
}

/* Random orders of events on one stage: every micro-batch passes exactly once, the windows hold,
 * and there is always something that can happen. */
static void random_run(unsigned seed) {
  srand(seed);
  int n_in = 1 + rand() % 3, n_out = rand() % 3, slots = 1 + rand() % 4, buffers = 1 + rand() % 3;
  cv_schedule *s = make(n_in, n_out, slots, buffers);
  enum { COUNT = 60 };
  int64_t limit_in[4] = {0}, limit_out[4] = {0}, computing = -1;
  uint8_t arrived[4][COUNT] = {{0}}, sent[4][COUNT] = {{0}}, computed[COUNT] = {0};
  int idle_rounds = 0;
  while (cv_schedule_done(s) < COUNT) {
    cv_schedule_action action;
    while (cv_schedule_next(s, &action)) {
      idle_rounds = 0;
      if (action.kind == CV_SCHEDULE_GRANT) {
        assert_true(action.seq > limit_in[action.edge]);
        limit_in[action.edge] = action.seq;
      } else if (action.kind == CV_SCHEDULE_COMPUTE) {
        assert_int_equal(computing, -1);
        assert_int_equal(computed[action.seq]++, 0);
        computing = action.seq;
      } else {
        assert_true(action.seq < limit_out[action.edge]);
        assert_int_equal(sent[action.edge][action.seq]++, 0);
      }
    }
    assert_true(idle_rounds++ < 10000);
    int edge = rand() % 4, what = rand() % 5, slot;
    int64_t seq = cv_schedule_done(s) + rand() % (slots + buffers);
    if (seq >= COUNT) continue;
    if (what == 0 && edge < n_in && seq < limit_in[edge] && arrived[edge][seq] == 0) {
      assert_int_equal(cv_schedule_on_header(s, edge, seq, &slot), CV_OK);
      arrived[edge][seq] = 1;
    } else if (what == 1 && edge < n_in && arrived[edge][seq] == 1) {
      assert_int_equal(cv_schedule_on_complete(s, edge, seq), CV_OK);
      arrived[edge][seq] = 2;
    } else if (what == 2 && computing >= 0) {
      assert_int_equal(cv_schedule_on_computed(s, computing), CV_OK);
      computing = -1;
    } else if (what == 3 && edge < n_out && sent[edge][seq] == 1) {
      assert_int_equal(cv_schedule_on_sent(s, edge, seq), CV_OK);
      sent[edge][seq] = 2;
    } else if (what == 4 && edge < n_out) {
      limit_out[edge] += rand() % 2;
      assert_int_equal(cv_schedule_on_grant(s, edge, limit_out[edge]), CV_OK);
    }
  }
  assert_true(cv_schedule_idle(s));
  for (int i = 0; i < COUNT; i++) assert_int_equal(computed[i], 1);
  cv_schedule_destroy(s);
}

static void test_random_events(void **state) {
  (void)state;
  for (unsigned seed = 1; seed <= 400; seed++) random_run(seed);
}

static void test_every_allocation_may_fail(void **state) {
  (void)state;
  cv_schedule_in in[2] = {{2, "a"}, {2, "b"}};
  cv_schedule_out out[1] = {{false, "c"}};
  cv_schedule_config config = {2, 1, in, out, 2, 0, 0};
  for (long n = 1;; n++) {
    cv_schedule *s;
    cv_fault_arm(n);
    cv_status status = cv_schedule_create(&config, &s);
    bool fired = cv_fault_fired();
    cv_fault_arm(0);
    assert_int_equal(status, fired ? CV_NOMEM : CV_OK);
    cv_schedule_destroy(s);
    if (!fired) break;
  }
}

static void test_computing_ahead(void **state) {
  (void)state;
  cv_schedule_in in = {3, "before"};
  cv_schedule *s;
  cv_schedule_action action;
  int slot;
  assert_int_equal(
      cv_schedule_create(
          &(cv_schedule_config){.n_in = 1, .in = &in, .out_buffers = 3, .compute_ahead = 2}, &s),
      CV_OK);
  assert_true(cv_schedule_next(s, &action));
  assert_int_equal(action.kind, CV_SCHEDULE_GRANT);
  for (int64_t seq = 0; seq < 3; seq++) {
    assert_int_equal(cv_schedule_on_header(s, 0, seq, &slot), CV_OK);
    assert_int_equal(cv_schedule_on_complete(s, 0, seq), CV_OK);
  }
  for (int64_t seq = 0; seq < 2; seq++) {
    assert_true(cv_schedule_next(s, &action));
    assert_int_equal(action.kind, CV_SCHEDULE_COMPUTE);
    assert_int_equal(action.seq, seq);
  }
  assert_false(cv_schedule_next(s, &action)); /* two at once, not three */
  assert_int_equal(cv_schedule_on_computed(s, 2), CV_CORRUPT);
  assert_int_equal(cv_schedule_on_computed(s, 0), CV_OK);
  assert_int_equal(cv_schedule_lane(s), CV_LANE_COMPUTE);
  assert_true(cv_schedule_next(s, &action));
  assert_int_equal(action.kind, CV_SCHEDULE_GRANT);
  assert_true(cv_schedule_next(s, &action));
  assert_int_equal(action.seq, 2);
  cv_schedule_destroy(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_computing_ahead),
      cmocka_unit_test(test_one_micro_batch_passes_all_states),
      cmocka_unit_test(test_slot_is_seq_mod_slots),
      cmocka_unit_test(test_out_of_order_arrival),
      cmocka_unit_test(test_several_in_edges_and_explain),
      cmocka_unit_test(test_direct_edge_waits_for_the_grant_before_computing),
      cmocka_unit_test(test_source_and_its_offers),
      cmocka_unit_test(test_impossible_events_are_refused),
      cmocka_unit_test(test_random_events),
      cmocka_unit_test(test_every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
