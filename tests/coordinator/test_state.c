/* The course of a job as a table of events and the actions that they lead to. */
#include "coordinator/state.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define SECOND ((int64_t)1000000000)
enum { WORKERS = 2, GATEWAY = WORKERS, CONN = 10 /* of member 0 */ };

/* What is tested: the state, the time, what the last step wanted. */
typedef struct {
  cv_state state;
  int64_t now;
  cv_actions actions;
} table;

static void begin(table *t, uint32_t plans) {
  *t = (table){.now = SECOND};
  cv_job job = {.workers = WORKERS,
                .plans = plans,
                .token = "secret",
                .artifact = "abcd",
                .folders = plans > 1};
  assert_int_equal(cv_state_init(&t->state, &job, t->now), CV_OK);
}

static void end(table *t) {
  cv_vec_deinit(&t->actions);
  cv_state_deinit(&t->state);
}

static void give(table *t, cv_event event) {
  t->actions.len = 0;
  event.now_ns = t->now;
  assert_int_equal(cv_state_step(&t->state, &event, &t->actions), CV_OK);
}

static void give_msg(table *t, int member, cv_msg msg) {
  give(t, (cv_event){.kind = CV_EVENT_MESSAGE, .conn = CONN + member, .msg = &msg});
}

/* How many actions of this kind the last step wanted (SEND: of this message). */
static int count(const table *t, cv_action_kind kind, cv_msg_kind msg) {
  int n = 0;
  for (size_t i = 0; i < t->actions.len; i++)
    n += t->actions.data[i].kind == kind &&
         (kind != CV_ACTION_SEND || t->actions.data[i].msg.kind == msg);
  return n;
}

static cv_msg hello(int member) {
  return (cv_msg){.kind = CV_MSG_HELLO,
                  .hello = {.protocol = CV_MSG_PROTOCOL,
                            .token = "secret",
                            .member = (uint32_t)member,
                            .size = WORKERS,
                            .host = "h",
                            .pid = 100 + (uint32_t)member,
                            .artifact = "abcd",
                            .version = CUVIL_VERSION}};
}

/* Answers pings until the member's clock is known; its clock is an hour ahead. */
static void answer_pings(table *t, int member) {
  for (int i = 0; i < CV_JOB_FIRST_PINGS; i++) {
    const cv_member *m = &t->state.members[member];
    int64_t sent = m->asked_ns, theirs = sent + 3600 * SECOND + 500;
    assert_true(m->ping_open);
    t->now += 1000;
    give_msg(t, member, (cv_msg){.kind = CV_MSG_PONG, .pong = {m->ping_id, sent, theirs, theirs}});
  }
}

static void join(table *t, int member) {
  give_msg(t, member, hello(member));
  assert_int_equal(count(t, CV_ACTION_KEEP, 0), 1);
  assert_int_equal(count(t, CV_ACTION_SEND, CV_MSG_PING), 1);
  answer_pings(t, member);
}

static void gather(table *t) {
  for (int i = 0; i <= WORKERS; i++) {
    assert_int_equal(t->state.phase, CV_PHASE_GATHER);
    join(t, i);
  }
  assert_int_equal(t->state.phase, CV_PHASE_PLAN);
  assert_int_equal(count(t, CV_ACTION_PLAN, 0), 1);
}

static void prepare(table *t) {
  give(t, (cv_event){.kind = CV_EVENT_PLANNED, .status = CV_OK, .text = ""});
  assert_int_equal(count(t, CV_ACTION_SEND_PREPARE, 0), WORKERS + 1);
  uint32_t number = t->state.plan + 1;
  for (int i = 0; i <= WORKERS; i++) {
    assert_int_equal(t->state.phase, CV_PHASE_PREPARE);
    give_msg(t, i, (cv_msg){.kind = CV_MSG_PREPARED, .prepared = {number}});
  }
  assert_int_equal(t->state.phase, CV_PHASE_RUN);
  assert_int_equal(count(t, CV_ACTION_SEND, CV_MSG_RUN), 1);
}

static void finish_plan(table *t) {
  uint32_t number = t->state.plan + 1;
  give_msg(t, GATEWAY, (cv_msg){.kind = CV_MSG_DONE, .done = {.number = number, .requests = 1}});
  assert_int_equal(count(t, CV_ACTION_KEEP, 0), 1);
  assert_int_equal(count(t, CV_ACTION_SEND, CV_MSG_UNLOAD), WORKERS + 1);
  for (int i = 0; i <= WORKERS; i++) {
    give_msg(t, i, (cv_msg){.kind = CV_MSG_TIMES, .times = {.number = number}});
    assert_int_equal(count(t, CV_ACTION_KEEP, 0), 1);
    give_msg(t, i, (cv_msg){.kind = CV_MSG_UNLOADED, .unloaded = {number}});
  }
  assert_int_equal(count(t, CV_ACTION_RESULTS, 0), 1);
}

/* All leave after STOP. */
static void leave(table *t) {
  assert_int_equal(t->state.phase, CV_PHASE_STOP);
  for (int i = 0; i <= WORKERS; i++) give(t, (cv_event){.kind = CV_EVENT_LEFT, .conn = CONN + i});
  assert_int_equal(t->state.phase, CV_PHASE_END);
  assert_int_equal(count(t, CV_ACTION_END, 0), 1);
}

static void expect_verdict(const table *t, cv_status status, const char *part) {
  assert_int_equal(t->state.verdict, status);
  if (!strstr(t->state.text, part)) fail_msg("\"%s\" is not in \"%s\"", part, t->state.text);
}

static void test_two_plans(void **state) {
  (void)state;
  table t;
  begin(&t, 2);
  gather(&t);
  prepare(&t);
  assert_string_equal(t.actions.data[0].msg.run.folder, "plan_0");
  finish_plan(&t);
  assert_int_equal(count(&t, CV_ACTION_PLAN, 0), 1);
  prepare(&t);
  assert_string_equal(t.actions.data[0].msg.run.folder, "plan_1");
  finish_plan(&t);
  assert_int_equal(count(&t, CV_ACTION_SEND, CV_MSG_STOP), WORKERS + 1);
  leave(&t);
  assert_int_equal(t.state.verdict, CV_OK);
  cv_clock_offset clock;
  assert_int_equal(cv_clock_estimate(t.state.members[1].ring, CV_JOB_FIRST_PINGS, &clock), CV_OK);
  assert_int_equal(clock.offset_ns, 3600 * SECOND);
  end(&t);
}

static void test_strangers(void **state) {
  (void)state;
  table t;
  begin(&t, 1);
  cv_msg msg = hello(0);
  const char *const wrong[] = {"", "secreT", "secret1", "secre"};
  for (size_t i = 0; i < 4; i++) {
    msg.hello.token = wrong[i];
    give_msg(&t, 0, msg);
    assert_int_equal(count(&t, CV_ACTION_DROP, 0), 1);
    assert_int_equal(t.actions.len, 1);
  }
  give_msg(&t, 0, (cv_msg){.kind = CV_MSG_DONE});
  assert_int_equal(count(&t, CV_ACTION_DROP, 0), 1);
  msg = hello(WORKERS + 1);
  give_msg(&t, 0, msg);
  assert_int_equal(count(&t, CV_ACTION_DROP, 0), 1);
  join(&t, 0);
  give_msg(&t, 5, hello(0)); /* twice the same */
  assert_int_equal(count(&t, CV_ACTION_DROP, 0), 1);
  assert_int_equal(t.state.verdict, CV_OK);
  end(&t);
}

static void test_members_that_do_not_fit(void **state) {
  (void)state;
  const struct {
    const char *artifact, *version;
    uint32_t size;
    cv_status status;
    const char *text;
  } rows[] = {{"efgh", CUVIL_VERSION, WORKERS, CV_INVALID, "efgh"},
              {"abcd", "9.9.9", WORKERS, CV_VERSION, "9.9.9"},
              {"abcd", CUVIL_VERSION, 5, CV_INVALID, "5 workers"}};
  for (size_t i = 0; i < 3; i++) {
    table t;
    begin(&t, 1);
    cv_msg msg = hello(1);
    msg.hello.artifact = rows[i].artifact;
    msg.hello.version = rows[i].version;
    msg.hello.size = rows[i].size;
    give_msg(&t, 1, msg);
    expect_verdict(&t, rows[i].status, rows[i].text);
    expect_verdict(&t, rows[i].status, "rank 1 on h");
    assert_int_equal(count(&t, CV_ACTION_SEND, CV_MSG_STOP), 1);
    end(&t);
  }
}

static void test_one_that_cannot_take_part(void **state) {
  (void)state;
  table t;
  begin(&t, 1);
  join(&t, 0);
  cv_msg msg = {.kind = CV_MSG_ABSENT, .absent = {"wrong", 1, "h2", CV_IO, "m.cuv: not there"}};
  give_msg(&t, 1, msg);
  assert_int_equal(t.state.verdict, CV_OK);
  msg.absent.token = "secret";
  give_msg(&t, 1, msg);
  expect_verdict(&t, CV_IO, "rank 1 on h2: m.cuv: not there");
  assert_int_equal(count(&t, CV_ACTION_SEND, CV_MSG_STOP), 2); /* heard, and the other one too */
  give_msg(&t, 2, hello(2));                                   /* comes late */
  assert_int_equal(count(&t, CV_ACTION_SEND, CV_MSG_STOP), 1);
  give(&t, (cv_event){.kind = CV_EVENT_LEFT, .conn = CONN});
  assert_int_equal(t.state.phase, CV_PHASE_STOP);
  give(&t, (cv_event){.kind = CV_EVENT_LEFT, .conn = CONN + 2});
  assert_int_equal(t.state.phase, CV_PHASE_END);
  end(&t);
}

/* Who has not joined when the job fails is told so when it comes; it is not waited for long. */
static void test_who_comes_when_all_is_over(void **state) {
  (void)state;
  for (int comes = 0; comes < 3; comes++) {
    table t;
    begin(&t, 1);
    cv_msg absent = {.kind = CV_MSG_ABSENT, .absent = {"secret", GATEWAY, "h", CV_IO, "no input"}};
    give_msg(&t, GATEWAY, absent);
    give_msg(&t, 0, hello(0));
    assert_int_equal(count(&t, CV_ACTION_SEND, CV_MSG_STOP), 1);
    give(&t, (cv_event){.kind = CV_EVENT_LEFT, .conn = CONN});
    assert_int_equal(t.state.phase, CV_PHASE_STOP); /* rank 1 has still to come */
    absent.absent.member = 1;
    absent.absent.code = CV_INVALID;
    if (comes > 0) give_msg(&t, 1, comes == 1 ? hello(1) : absent);
    assert_int_equal(count(&t, CV_ACTION_SEND, CV_MSG_STOP), comes > 0);
    if (comes == 1) give(&t, (cv_event){.kind = CV_EVENT_LEFT, .conn = CONN + 1});
    t.now += comes == 0 ? 4 * SECOND : 0;
    if (comes == 0) give(&t, (cv_event){.kind = CV_EVENT_TICK});
    assert_int_equal(t.state.phase, CV_PHASE_END);
    expect_verdict(&t, CV_IO, "the gateway on h: no input");
    end(&t);
  }
}

/* A member is lost in every phase; the others are stopped. */
static void test_lost_member(void **state) {
  (void)state;
  for (int phase = 0; phase < 4; phase++) {
    table t;
    begin(&t, 1);
    if (phase == 0)
      for (int i = 0; i < WORKERS; i++) join(&t, i);
    if (phase > 0) gather(&t);
    if (phase > 1) prepare(&t);
    if (phase > 2) give_msg(&t, GATEWAY, (cv_msg){.kind = CV_MSG_DONE, .done = {.number = 1}});
    give(&t, (cv_event){.kind = CV_EVENT_LEFT, .conn = CONN + 1, .text = "its process has ended"});
    expect_verdict(&t, CV_PEER_LOST, "rank 1 on h (process 101) is gone: its process has ended");
    assert_int_equal(count(&t, CV_ACTION_SEND, CV_MSG_STOP), phase == 0 ? 1 : WORKERS);
    give(&t, (cv_event){.kind = CV_EVENT_LEFT, .conn = CONN}); /* the verdict stays */
    expect_verdict(&t, CV_PEER_LOST, "rank 1");
    t.now += 10 * SECOND; /* who does not leave is not waited for */
    give(&t, (cv_event){.kind = CV_EVENT_TICK});
    assert_int_equal(t.state.phase, CV_PHASE_END);
    end(&t);
  }
}

/* Neighbours see a lost member, before its own link says so: the cause is named, not the echo. */
static void test_echo_of_a_lost_member(void **state) {
  (void)state;
  for (int phase = 0; phase < 2; phase++) {
    table t;
    cv_msg echo = {.kind = CV_MSG_FAILED, .failed = {CV_PEER_LOST, "rank 1 on h was lost"}};
    if (phase == 0)
      echo = (cv_msg){.kind = CV_MSG_REFUSED, .refused = {1, CV_PEER_LOST, "rank 1 on h was lost"}};
    for (int cause = 0; cause < 3; cause++) {
      begin(&t, 1);
      gather(&t);
      if (phase == 0)
        give(&t, (cv_event){.kind = CV_EVENT_PLANNED, .status = CV_OK, .text = ""});
      else
        prepare(&t);
      give_msg(&t, 0, echo);
      t.now += SECOND / 10;
      give(&t, (cv_event){.kind = CV_EVENT_TICK});
      assert_int_equal(t.state.verdict, CV_OK);
      give_msg(&t, GATEWAY,
               (cv_msg){.kind = CV_MSG_FAILED, .failed = {CV_PEER_LOST, "rank 0 on h was lost"}});
      if (cause == 1)
        give(&t, (cv_event){.kind = CV_EVENT_LEFT, .conn = CONN + 1, .text = "its process ended"});
      if (cause == 2)
        give_msg(&t, 1, (cv_msg){.kind = CV_MSG_FAILED, .failed = {CV_NOMEM, "no memory"}});
      if (cause == 0) { /* none comes: a link that was cut */
        t.now += SECOND;
        give(&t, (cv_event){.kind = CV_EVENT_TICK});
      }
      static const char *const verdicts[] = {"rank 0 on h: rank 1 on h was lost",
                                             "rank 1 on h (process 101) is gone: its process ended",
                                             "rank 1 on h: no memory"};
      expect_verdict(&t, cause == 2 ? CV_NOMEM : CV_PEER_LOST, verdicts[cause]);
      assert_int_equal(count(&t, CV_ACTION_SEND, CV_MSG_STOP), WORKERS + (cause != 1));
      end(&t);
    }
  }
}

static void test_silence(void **state) {
  (void)state;
  table t;
  begin(&t, 1);
  gather(&t);
  prepare(&t);
  t.now += 2 * SECOND;
  give(&t, (cv_event){.kind = CV_EVENT_TICK});
  assert_int_equal(count(&t, CV_ACTION_SEND, CV_MSG_PING), WORKERS + 1);
  for (int i = 0; i <= WORKERS; i++) {
    if (i == 1) continue;
    const cv_member *m = &t.state.members[i];
    give_msg(&t, i, (cv_msg){.kind = CV_MSG_PONG, .pong = {m->ping_id, m->asked_ns, 1, 1}});
  }
  t.now += 21 * SECOND;
  give(&t, (cv_event){.kind = CV_EVENT_TICK});
  expect_verdict(&t, CV_PEER_LOST, "rank 1 on h (process 101) has not answered");
  end(&t);
}

static void test_who_is_waited_for(void **state) {
  (void)state;
  table t;
  cv_str text = {0};
  begin(&t, 1);
  join(&t, 0);
  cv_state_describe(&t.state, &text);
  assert_string_equal(cv_str_text(&text),
                      "waiting for the members of the job; waits for: rank 1, "
                      "the gateway");
  cv_str_deinit(&text);
  for (int s = 0; s < 70 && t.state.phase == CV_PHASE_GATHER; s++) {
    const cv_member *m = &t.state.members[0];
    t.now += SECOND;
    if (m->ping_open)
      give_msg(&t, 0, (cv_msg){.kind = CV_MSG_PONG, .pong = {m->ping_id, m->asked_ns, 1, 1}});
    give(&t, (cv_event){.kind = CV_EVENT_TICK});
  }
  expect_verdict(&t, CV_TIMEOUT, "after 60 s rank 1, the gateway is not there");
  end(&t);
}

static void test_refused_and_failed(void **state) {
  (void)state;
  table t;
  begin(&t, 1);
  gather(&t);
  give(&t, (cv_event){.kind = CV_EVENT_PLANNED, .status = CV_OK, .text = ""});
  give_msg(&t, 1,
           (cv_msg){.kind = CV_MSG_REFUSED, .refused = {1, CV_INFEASIBLE, "needs 5 bytes, has 3"}});
  expect_verdict(&t, CV_INFEASIBLE, "rank 1 on h: needs 5 bytes, has 3");
  leave(&t);
  end(&t);
  begin(&t, 1);
  gather(&t);
  prepare(&t);
  give_msg(&t, GATEWAY, (cv_msg){.kind = CV_MSG_FAILED, .failed = {12345, "?"}});
  expect_verdict(&t, CV_FAILED, "the gateway on h"); /* a number that is no status */
  end(&t);
  begin(&t, 1);
  gather(&t);
  give(&t, (cv_event){.kind = CV_EVENT_PLANNED, .status = CV_INFEASIBLE, .text = "no plan"});
  expect_verdict(&t, CV_INFEASIBLE, "no plan");
  end(&t);
}

static void test_messages_out_of_turn(void **state) {
  (void)state;
  const struct {
    int member;
    cv_msg msg;
  } rows[] = {{1, {.kind = CV_MSG_DONE}},
              {1, {.kind = CV_MSG_UNLOADED, .unloaded = {1}}},
              {1, {.kind = CV_MSG_PREPARED, .prepared = {1}}}, /* they run already */
              {1, {.kind = CV_MSG_TIMES}},
              {1, {.kind = CV_MSG_HELLO}},
              {GATEWAY, {.kind = CV_MSG_RUN}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    table t;
    begin(&t, 1);
    gather(&t);
    prepare(&t);
    give_msg(&t, rows[i].member, rows[i].msg);
    expect_verdict(&t, CV_CORRUPT, cv_msg_name(rows[i].msg.kind));
    end(&t);
  }
}

static void test_jobs_that_cannot_be(void **state) {
  (void)state;
  cv_state s;
  cv_job job = {.workers = 0, .plans = 1};
  assert_int_equal(cv_state_init(&s, &job, 0), CV_INVALID);
  job = (cv_job){.workers = CV_JOB_WORKERS + 1, .plans = 1};
  assert_int_equal(cv_state_init(&s, &job, 0), CV_INVALID);
  job = (cv_job){.workers = 1, .plans = 0};
  assert_int_equal(cv_state_init(&s, &job, 0), CV_INVALID);
  cv_state_deinit(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_plans),
      cmocka_unit_test(test_strangers),
      cmocka_unit_test(test_members_that_do_not_fit),
      cmocka_unit_test(test_one_that_cannot_take_part),
      cmocka_unit_test(test_who_comes_when_all_is_over),
      cmocka_unit_test(test_lost_member),
      cmocka_unit_test(test_echo_of_a_lost_member),
      cmocka_unit_test(test_silence),
      cmocka_unit_test(test_who_is_waited_for),
      cmocka_unit_test(test_refused_and_failed),
      cmocka_unit_test(test_messages_out_of_turn),
      cmocka_unit_test(test_jobs_that_cannot_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
