/* What strangers and a lying producer may send to the shm row. */
#include "tests/conformance/pair.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "transport/transport_internal.h"

enum { NAME_AT = 4, TOKEN_AT = 20 };

/* Connects to the published address as anyone on this host can. */
static int dial(const uint8_t *address) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  int at = 1;
  memcpy(name.sun_path + at, "cuvil-", 6);
  at += 6;
  for (int i = 0; i < 16; i++) {
    name.sun_path[at++] = "0123456789abcdef"[address[NAME_AT + i] >> 4];
    name.sun_path[at++] = "0123456789abcdef"[address[NAME_AT + i] & 15];
  }
  int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)at);
  assert_int_equal(connect(fd, (struct sockaddr *)&name, length), 0);
  return fd;
}

/* A pair of which only the consumer is ours. */
static pair *start(uint8_t *address) {
  pair *both = calloc(1, sizeof *both);
  size_t size;
  both->row = cv_transport_find("shm");
  alarm(60);
  assert_int_equal(open_transports(both), CV_OK);
  assert_int_equal(cv_transport_address(both->transports[1], address, CV_ADDRESS_MAX, &size),
                   CV_OK);
  cv_channel_params params = usual_params();
  params.role = CV_CONSUMER;
  assert_int_equal(open_end(both, &params, &both->consumer), CV_OK);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  settle(both);
  return both;
}

static void stop(pair *both) {
  close_transports(both);
  assert_int_equal(both->consumer.closed, 1);
  free(both);
  alarm(0);
}

static cv_record hello_record(const uint8_t *address) {
  cv_record record = {.magic = CV_RECORD_MAGIC, .type = CV_RECORD_HELLO};
  record.id = usual_params().id;
  memcpy(record.token, address + TOKEN_AT, sizeof record.token);
  return record;
}

static void put(int fd, const void *data, size_t size) {
  assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
}

static bool closed_by_peer(pair *both, int fd) {
  char byte;
  settle(both);
  return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void strangers_are_sent_away(void **state) {
  (void)state;
  uint8_t address[CV_ADDRESS_MAX], noise[300];
  pair *both = start(address);
  memset(noise, 0xa5, sizeof noise);
  int quiet = dial(address), noisy = dial(address), guess = dial(address), shorty = dial(address);
  put(noisy, noise, sizeof noise);
  cv_record record = hello_record(address);
  put(shorty, &record, sizeof record - 1);
  record.token[3] ^= 1;
  put(guess, &record, sizeof record);
  assert_true(closed_by_peer(both, noisy));
  assert_true(closed_by_peer(both, guess));
  assert_true(closed_by_peer(both, shorty));
  assert_false(closed_by_peer(both, quiet));
  assert_int_equal(both->consumer.opened + both->consumer.errors, 0);
  /* the true producer still gets in */
  cv_channel_params params = usual_params();
  params.role = CV_PRODUCER;
  assert_int_equal(open_end(both, &params, &both->producer), CV_OK);
  pump_until(both, both->producer.limit == 4);
  close_pair(both);
  int fds[] = {quiet, noisy, guess, shorty};
  for (int i = 0; i < 4; i++) close(fds[i]);
  stop(both);
}

/* Each forged record ends the channel with CV_CORRUPT and nothing else. */
static void lies_end_the_channel(void **state) {
  (void)state;
  const cv_record good = {.magic = CV_RECORD_MAGIC,
                          .type = CV_RECORD_MESSAGE,
                          .seq = 1,
                          .generation = 1,
                          .header_bytes = 88};
  cv_record lies[12];
  for (int i = 0; i < 12; i++) lies[i] = good;
  lies[0].seq = 4; /* outside the window */
  lies[1].seq = UINT64_MAX;
  lies[2].generation = 7; /* no such slots */
  lies[3].bytes = 4097;   /* larger than the slot */
  lies[4].header_bytes = 0;
  lies[5].header_bytes = UINT32_MAX;
  lies[6].magic = 1;
  lies[7].type = 77;
  lies[8].type = CV_RECORD_HELLO;   /* a second one */
  lies[9].type = CV_RECORD_GRANT;   /* the consumer's */
  lies[10].type = CV_RECORD_RESIZE; /* beyond the bound */
  lies[10].bytes = UINT64_MAX;
  lies[11] = good; /* a header of zeros lies in the slot */
  for (int i = 0; i < 12; i++) {
    uint8_t address[CV_ADDRESS_MAX];
    pair *both = start(address);
    int fd = dial(address);
    cv_record record = hello_record(address);
    put(fd, &record, sizeof record);
    pump_until(both, both->consumer.opened == 1);
    put(fd, &lies[i], sizeof lies[i]);
    pump_until(both, both->consumer.errors == 1);
    assert_int_equal(both->consumer.error, CV_CORRUPT);
    assert_int_equal(both->consumer.headers[1], 0);
    close(fd);
    stop(both);
  }
}

/* A hello before the channel is open here waits for it; its end is noticed. */
static void early_hello_may_leave_again(void **state) {
  (void)state;
  uint8_t address[CV_ADDRESS_MAX];
  pair *both = start(address);
  cv_record record = hello_record(address);
  record.id.edge = 1000;
  int fd = dial(address);
  put(fd, &record, sizeof record);
  settle(both);
  close(fd);
  settle(both);
  cv_channel_params params = usual_params();
  end late = {0};
  params.id.edge = 1000;
  params.role = CV_CONSUMER;
  assert_int_equal(open_end(both, &params, &late), CV_OK);
  settle(both);
  assert_int_equal(late.opened, 0);
  cv_channel_close(late.channel);
  pump_until(both, late.closed == 1);
  stop(both);
}

static void nothing_stays_in_dev_shm(void **state) {
  (void)state;
  uint8_t address[CV_ADDRESS_MAX];
  pair *both = start(address);
  DIR *folder = opendir("/dev/shm");
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
    assert_null(strstr(entry->d_name, "cuvil"));
  if (folder != NULL) closedir(folder);
  stop(both);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strangers_are_sent_away),
      cmocka_unit_test(lies_end_the_channel),
      cmocka_unit_test(early_hello_may_leave_again),
      cmocka_unit_test(nothing_stays_in_dev_shm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
