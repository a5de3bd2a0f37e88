#include "coordinator/messages.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/each_fault.h"

/* Encodes, decodes into `arena`, encodes again: the same bytes. */
static cv_msg again(const cv_msg *msg, cv_arena *arena) {
  cv_str first = {0}, second = {0};
  cv_msg out;
  size_t length;
  assert_int_equal(cv_msg_encode(msg, &first), CV_OK);
  assert_int_equal(cv_msg_length(first.data, first.len, CV_MSG_MAX, &length), CV_OK);
  assert_int_equal(length + CV_MSG_PREFIX, first.len);
  if (cv_msg_decode(first.data + CV_MSG_PREFIX, length, arena, &out) != CV_OK)
    fail_msg("%s", cv_error_text());
  assert_int_equal(out.kind, msg->kind);
  assert_int_equal(cv_msg_encode(&out, &second), CV_OK);
  assert_int_equal(second.len, first.len);
  assert_memory_equal(second.data, first.data, first.len);
  cv_str_deinit(&first);
  cv_str_deinit(&second);
  return out;
}

static const cv_msg_address addresses[] = {{"shm", "\0\1\2", 3}, {"ucx", "", 0}};

static cv_msg a_hello(void) {
  return (cv_msg){.kind = CV_MSG_HELLO,
                  .hello = {.protocol = CV_MSG_PROTOCOL,
                            .token = "secret",
                            .member = 3,
                            .size = 4,
                            .host = "h1",
                            .pid = 77,
                            .incarnation = UINT64_MAX,
                            .artifact = "0123456789abcdef",
                            .version = "0.1.0",
                            .cpu = "x86-64",
                            .cores = 2,
                            .memory = 1ull << 40,
                            .addresses = (cv_msg_address *)(uintptr_t)addresses,
                            .n_addresses = 2}};
}

static void test_hello(void **state) {
  (void)state;
  cv_arena arena = {0};
  cv_msg hello = a_hello(), out = again(&hello, &arena);
  assert_string_equal(out.hello.token, "secret");
  assert_string_equal(out.hello.host, "h1");
  assert_true(out.hello.incarnation == UINT64_MAX);
  assert_int_equal(out.hello.n_addresses, 2);
  assert_string_equal(out.hello.addresses[1].row, "ucx");
  assert_int_equal(out.hello.addresses[0].address_bytes, 3);
  assert_memory_equal(out.hello.addresses[0].address, "\0\1\2", 3);
  cv_arena_deinit(&arena);
}

static void test_plan(void **state) {
  (void)state;
  cv_arena arena = {0};
  cv_msg_member members[2] = {{.name = "rank 0 on h1", .incarnation = 5}, {.name = "the gateway"}};
  members[0].addresses = (cv_msg_address *)(uintptr_t)addresses;
  members[0].n_addresses = 1;
  cv_msg_stage stages[1] = {
      {.first = 0, .last = 8, .device = "w0", .kind = "paced", .threads = 2, .pace_us = 1.5}};
  cv_msg_edge edges[2] = {{-1, 0, 3, "shm"}, {0, -1, 3, "shm"}};
  cv_msg msg = {.kind = CV_MSG_PREPARE,
                .prepare = {.term = 1ull << 33,
                            .number = 2,
                            .micro_batch = 4,
                            .members = members,
                            .n_members = 2,
                            .stages = stages,
                            .n_stages = 1,
                            .edges = edges,
                            .n_edges = 2}};
  cv_msg out = again(&msg, &arena);
  assert_true(out.prepare.stages[0].pace_us == 1.5);
  assert_int_equal(out.prepare.edges[0].from, -1);
  assert_int_equal(out.prepare.edges[1].to, -1);
  assert_string_equal(out.prepare.members[1].name, "the gateway");
  assert_int_equal(out.prepare.members[1].n_addresses, 0);
  cv_arena_deinit(&arena);
}

/* Every kind, all fields zero: also what lists and texts that are not there become. */
static void test_every_kind(void **state) {
  (void)state;
  for (int kind = 0; kind < CV_MSG_KINDS; kind++) {
    cv_arena arena = {0};
    cv_msg msg = {.kind = (cv_msg_kind)kind};
    if (kind == CV_MSG_HELLO) msg.hello.protocol = CV_MSG_PROTOCOL;
    again(&msg, &arena);
    assert_string_not_equal(cv_msg_name((cv_msg_kind)kind), "?");
    cv_arena_deinit(&arena);
  }
  assert_string_equal(cv_msg_name(CV_MSG_KINDS), "?");
}

static void test_what_is_too_long_is_not_sent(void **state) {
  (void)state;
  char host[300];
  memset(host, 'h', sizeof host - 1);
  host[sizeof host - 1] = 0;
  cv_str out = {0};
  cv_msg msg = a_hello();
  msg.hello.host = host;
  assert_int_equal(cv_msg_encode(&msg, &out), CV_INVALID);
  assert_non_null(strstr(cv_error_text(), "host"));
  assert_int_equal(out.len, 0);
  msg = a_hello();
  msg.hello.n_addresses = 9;
  assert_int_equal(cv_msg_encode(&msg, &out), CV_INVALID);
  cv_str_deinit(&out);
}

/* Each beginning of a message, and each message with a byte changed, is refused or read whole. */
static void test_damaged(void **state) {
  (void)state;
  cv_str bytes = {0};
  cv_msg msg = a_hello(), out;
  assert_int_equal(cv_msg_encode(&msg, &bytes), CV_OK);
  uint8_t *data = (uint8_t *)bytes.data + CV_MSG_PREFIX;
  size_t size = bytes.len - CV_MSG_PREFIX;
  for (size_t n = 0; n < size; n++) {
    cv_arena arena = {0};
    assert_int_equal(cv_msg_decode(data, n, &arena, &out), CV_CORRUPT);
    cv_arena_deinit(&arena);
    for (int bit = 0; bit < 8; bit++) {
      data[n] ^= (uint8_t)(1 << bit);
      cv_status status = cv_msg_decode(data, size, &arena, &out);
      assert_true(status == CV_OK || status == CV_CORRUPT || status == CV_VERSION);
      data[n] ^= (uint8_t)(1 << bit);
      cv_arena_deinit(&arena);
    }
  }
  cv_str_append(&bytes, "x", 1);
  cv_arena arena = {0};
  assert_int_equal(cv_msg_decode(bytes.data + CV_MSG_PREFIX, size + 1, &arena, &out), CV_CORRUPT);
  cv_arena_deinit(&arena);
  cv_str_deinit(&bytes);
}

static void test_other_protocol_is_named(void **state) {
  (void)state;
  cv_arena arena = {0};
  cv_msg out;
  const uint8_t bytes[] = {0x93, CV_MSG_HELLO, 99, 0xc0}; /* fields that we do not know */
  assert_int_equal(cv_msg_decode(bytes, sizeof bytes, &arena, &out), CV_VERSION);
  assert_non_null(strstr(cv_error_text(), "99"));
  assert_non_null(strstr(cv_error_text(), CUVIL_VERSION));
  cv_arena_deinit(&arena);
}

static void test_length(void **state) {
  (void)state;
  size_t length;
  assert_int_equal(cv_msg_length("\1\0\0", 3, 10, &length), CV_AGAIN);
  assert_int_equal(cv_msg_length("\x0a\0\0\0", 4, 10, &length), CV_OK);
  assert_int_equal(length, 10);
  assert_int_equal(cv_msg_length("\x0b\0\0\0", 4, 10, &length), CV_CORRUPT);
  assert_int_equal(cv_msg_length("\xff\xff\xff\xff", 4, CV_MSG_MAX, &length), CV_CORRUPT);
}

static cv_status round_trip(void *arg) {
  (void)arg;
  cv_arena arena = {0};
  cv_str bytes = {0};
  cv_msg msg = a_hello(), out;
  cv_status status = cv_msg_encode(&msg, &bytes);
  if (status == CV_OK)
    status = cv_msg_decode(bytes.data + CV_MSG_PREFIX, bytes.len - CV_MSG_PREFIX, &arena, &out);
  cv_str_deinit(&bytes);
  cv_arena_deinit(&arena);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  assert_true(each_fault(round_trip, NULL) > 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hello),      cmocka_unit_test(test_plan),
      cmocka_unit_test(test_every_kind), cmocka_unit_test(test_what_is_too_long_is_not_sent),
      cmocka_unit_test(test_damaged),    cmocka_unit_test(test_other_protocol_is_named),
      cmocka_unit_test(test_length),     cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
