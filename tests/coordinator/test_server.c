/* A job over real sockets: the server in a thread of its own, its members played here. */
#include "coordinator/server.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "coordinator/link.h"

#define SECOND ((int64_t)1000000000)
enum { WORKERS = 1, MEMBERS = WORKERS + 1 };

typedef struct {
  int fd;
  char address[64];
  pthread_t thread;
  cv_status verdict;
  char text[512];
  int kept[CV_MSG_KINDS], planned, results;
  cv_status fail_results;
} rig;

static cv_status keep(void *arg, uint32_t member, const cv_msg *msg) {
  rig *r = arg;
  assert_in_range(member, 0, WORKERS);
  r->kept[msg->kind]++;
  return CV_OK;
}

static cv_status plan(void *arg, const cv_state *state, uint32_t number,
                      const cv_msg_prepare **out_prepare) {
  static cv_msg_prepare prepare;
  rig *r = arg;
  (void)state;
  r->planned++;
  prepare = (cv_msg_prepare){.number = number + 1, .micro_batch = 7};
  *out_prepare = &prepare;
  return CV_OK;
}

static cv_status results(void *arg, const cv_state *state, uint32_t number) {
  rig *r = arg;
  (void)state;
  (void)number;
  r->results++;
  return r->fail_results == CV_OK ? CV_OK : cv_error(r->fail_results, "no room for the report");
}

static void *serve(void *arg) {
  rig *r = arg;
  cv_job job = {.workers = WORKERS, .plans = 1, .token = "secret", .artifact = "abcd"};
  cv_server_events events = {.arg = r, .keep = keep, .plan = plan, .results = results};
  r->verdict = cv_server_run(r->fd, &job, &events);
  if (r->verdict != CV_OK) snprintf(r->text, sizeof r->text, "%s", cv_error_text());
  return NULL;
}

static void begin(rig *r) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  *r = (rig){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  assert_int_equal(bind(r->fd, (const struct sockaddr *)&at, size), 0);
  assert_int_equal(listen(r->fd, 8), 0);
  assert_int_equal(getsockname(r->fd, (struct sockaddr *)&at, &size), 0);
  snprintf(r->address, sizeof r->address, "127.0.0.1:%u", ntohs(at.sin_port));
  assert_int_equal(cv_thread_start("server", serve, r, &r->thread), CV_OK);
}

static cv_link *open_link(const rig *r) {
  cv_link *link;
  if (cv_link_connect(r->address, cv_clock_ns() + 5 * SECOND, &link) != CV_OK)
    fail_msg("%s", cv_error_text());
  return link;
}

static void fill(cv_msg *msg, uint32_t member, char host[256]) {
  *msg = (cv_msg){.kind = CV_MSG_HELLO};
  cv_hello_fill(&msg->hello, host);
  msg->hello.token = "secret";
  msg->hello.artifact = "abcd";
  msg->hello.member = member;
  msg->hello.size = WORKERS;
}

static void say_hello(cv_link *link, uint32_t member) {
  char host[256];
  cv_msg msg;
  fill(&msg, member, host);
  assert_int_equal(cv_link_send(link, &msg), CV_OK);
}

/* A member that does what it is asked until STOP; the status that this brings. */
typedef struct {
  const rig *r;
  uint32_t number;
  cv_status stop;
  uint32_t micro_batch;
} member;

static void *play(void *arg) {
  member *m = arg;
  cv_link *link = open_link(m->r);
  cv_msg msg;
  say_hello(link, m->number);
  for (bool more = true; more;) {
    cv_msg answer = {.kind = CV_MSG_KINDS};
    if (cv_link_receive(link, cv_clock_ns() + 20 * SECOND, &msg) != CV_OK) break;
    switch (msg.kind) {
      case CV_MSG_PREPARE:
        m->micro_batch = msg.prepare.micro_batch;
        answer = (cv_msg){.kind = CV_MSG_PREPARED, .prepared = {msg.prepare.number}};
        break;
      case CV_MSG_RUN: answer = (cv_msg){.kind = CV_MSG_DONE, .done = {.number = 1}}; break;
      case CV_MSG_UNLOAD: answer = (cv_msg){.kind = CV_MSG_UNLOADED, .unloaded = {1}}; break;
      default:
        more = false;
        m->stop = msg.kind == CV_MSG_STOP ? (cv_status)msg.stop.code : CV_INTERNAL;
        break;
    }
    if (more && cv_link_send(link, &answer) != CV_OK) break;
  }
  cv_link_close(link);
  return NULL;
}

static void play_all(const rig *r, member members[MEMBERS]) {
  pthread_t threads[MEMBERS];
  for (uint32_t i = 0; i < MEMBERS; i++) {
    members[i] = (member){.r = r, .number = i, .stop = CV_AGAIN};
    assert_int_equal(cv_thread_start("member", play, &members[i], &threads[i]), CV_OK);
  }
  for (int i = 0; i < MEMBERS; i++) pthread_join(threads[i], NULL);
}

static void test_job(void **state) {
  (void)state;
  rig r;
  member members[MEMBERS];
  begin(&r);
  play_all(&r, members);
  pthread_join(r.thread, NULL);
  assert_int_equal(r.verdict, CV_OK);
  for (int i = 0; i < MEMBERS; i++) {
    assert_int_equal(members[i].stop, CV_OK);
    assert_int_equal(members[i].micro_batch, 7);
  }
  assert_int_equal(r.planned, 1);
  assert_int_equal(r.results, 1);
  assert_int_equal(r.kept[CV_MSG_HELLO], MEMBERS);
  assert_int_equal(r.kept[CV_MSG_DONE], 1);
}

static void test_results_that_cannot_be_written(void **state) {
  (void)state;
  rig r;
  member members[MEMBERS];
  begin(&r);
  r.fail_results = CV_IO;
  play_all(&r, members);
  pthread_join(r.thread, NULL);
  /* members may have been told to stop well by then; the job has failed all the same */
  assert_int_equal(r.verdict, CV_IO);
  assert_string_equal(r.text, "no room for the report");
}

static void send_raw(const rig *r, const void *data, size_t size) {
  cv_link *link = open_link(r);
  cv_msg msg;
  assert_int_equal(send(cv_link_fd(link), data, size, MSG_NOSIGNAL), size);
  /* refused by a STOP or by the end of the link */
  cv_status status = cv_link_receive(link, cv_clock_ns() + 5 * SECOND, &msg);
  assert_true(status == CV_PEER_LOST || (status == CV_OK && msg.kind == CV_MSG_STOP));
  cv_link_close(link);
}

/* Strangers with wrong bytes, wrong secrets and huge lengths do not hurt the job. */
static void test_strangers(void **state) {
  (void)state;
  rig r;
  begin(&r);
  send_raw(&r, "GET / HTTP/1.1\r\n\r\n", 18);
  send_raw(&r, "\xff\xff\xff\xff", 4);
  send_raw(&r, "\1\0\0\0\xc1", 5);
  send_raw(&r, "\4\0\0\0\x93\0\x63\xc0", 8); /* a HELLO of protocol 99 */
  char host[256];
  cv_msg msg;
  cv_str bytes = {0};
  fill(&msg, 0, host);
  msg.hello.token = "wrong";
  assert_int_equal(cv_msg_encode(&msg, &bytes), CV_OK);
  send_raw(&r, bytes.data, bytes.len);
  cv_str_deinit(&bytes);
  cv_link *silent = open_link(&r); /* says nothing, and leaves */
  cv_link_close(silent);
  member members[MEMBERS];
  play_all(&r, members);
  pthread_join(r.thread, NULL);
  assert_int_equal(r.verdict, CV_OK);
}

static void test_a_member_dies(void **state) {
  (void)state;
  rig r;
  begin(&r);
  cv_link *worker = open_link(&r), *gateway = open_link(&r);
  cv_msg msg;
  say_hello(worker, 0);
  assert_int_equal(cv_link_receive(worker, cv_clock_ns() + SECOND / 5, &msg), CV_TIMEOUT);
  cv_link_close(worker);
  (void)gateway; /* never joins */
  pthread_join(r.thread, NULL);
  assert_int_equal(r.verdict, CV_PEER_LOST);
  assert_non_null(strstr(r.text, "rank 0 on "));
  assert_int_equal(cv_link_receive(gateway, cv_clock_ns() + SECOND, &msg), CV_PEER_LOST);
  cv_link_close(gateway);
}

static void test_giving_up(void **state) {
  (void)state;
  rig r;
  char host[256];
  cv_msg msg;
  begin(&r);
  fill(&msg, 0, host);
  cv_status status = cv_error(CV_IO, "m.cuv: not there");
  assert_true(cv_link_give_up(NULL, r.address, &msg.hello, status));
  assert_string_equal(cv_error_text(), "m.cuv: not there");
  pthread_join(r.thread, NULL);
  assert_int_equal(r.verdict, CV_IO);
  assert_non_null(strstr(r.text, "m.cuv: not there"));
  assert_false(cv_link_give_up(NULL, r.address, &msg.hello, status)); /* nobody there any more */
}

static void test_addresses(void **state) {
  (void)state;
  cv_link *link;
  const char *const wrong[] = {"", "1.2.3.4", "1.2.3.4:0", "1.2.3.4:70000", "here:4000", ":4"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(cv_link_connect(wrong[i], cv_clock_ns(), &link), CV_INVALID);
  assert_int_equal(cv_link_connect("127.0.0.1:1", cv_clock_ns(), &link), CV_PEER_LOST);
  assert_null(link);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_job),       cmocka_unit_test(test_results_that_cannot_be_written),
      cmocka_unit_test(test_strangers), cmocka_unit_test(test_a_member_dies),
      cmocka_unit_test(test_giving_up), cmocka_unit_test(test_addresses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
