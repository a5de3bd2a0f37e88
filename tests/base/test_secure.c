#include "base/secure.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "tests/each_fault.h"

#define HEX16 "00112233445566778899aabbccddeeff"
#define HEX HEX16 HEX16
#define OTHER_HEX HEX16 "00112233445566778899aabbccddeefe"

static cv_secure_key key(const char *identity, const char *hex) {
  cv_secure_key made;
  assert_int_equal(cv_secret_parse(identity, hex, &made), CV_OK);
  return made;
}

/* A client and a server, and how many bytes at once travel between them. */
typedef struct {
  cv_secure *context[2];
  cv_secure_session *end[2];
  size_t piece;
} pair;

static cv_status open_pair(pair *both, const cv_secure_key *client) {
  const cv_secure_key keys[2] = {key("worker", HEX), key("operator", OTHER_HEX HEX16)};
  cv_status status = cv_secure_client_create(client, &both->context[0]);
  if (status == CV_OK) status = cv_secure_server_create(keys, 2, &both->context[1]);
  for (int i = 0; i < 2 && status == CV_OK; i++)
    status = cv_secure_session_create(both->context[i], &both->end[i]);
  return status;
}

static void close_pair(pair *both) {
  for (int i = 0; i < 2; i++) {
    cv_secure_session_destroy(both->end[i]);
    cv_secure_destroy(both->context[i]);
  }
}

/* Carries all that waits from `from` to the other end; the first failure there. */
static cv_status carry(pair *both, int from) {
  uint8_t bytes[4096];
  size_t size, taken;
  cv_status status = CV_OK;
  while (status == CV_OK && (size = cv_secure_take(both->end[from], bytes, both->piece)) > 0) {
    status = cv_secure_feed(both->end[!from], bytes, size, &taken);
    if (status == CV_OK) assert_int_equal(taken, size);
  }
  return status;
}

static cv_status shake(pair *both) {
  cv_status status = CV_OK;
  for (int i = 0; i < 4; i++) {
    cv_status carried = carry(both, i % 2);
    if (status == CV_OK) status = carried;
  }
  return status;
}

static bool ready(const pair *both) {
  return cv_secure_session_state(both->end[0]) == CV_SECURE_READY &&
         cv_secure_session_state(both->end[1]) == CV_SECURE_READY;
}

/* ---- secrets ---- */

static void secrets_are_of_hex_digits(void **state) {
  (void)state;
  cv_secure_key made = key("worker", HEX);
  assert_int_equal(made.secret_bytes, 32);
  assert_int_equal(made.secret[1], 0x11);
  assert_int_equal(made.secret[15], 0xff);
  assert_int_equal(key("w", HEX HEX).secret_bytes, 64);
  assert_memory_equal(key("w", "0011AABB" HEX).secret, "\x00\x11\xaa\xbb", 4);
  static const char *const bad[] = {"", HEX16, HEX "0", HEX HEX "00", "g0" HEX, " 0" HEX};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(cv_secret_parse("worker", bad[i], &made), CV_INVALID);
    assert_int_equal(made.secret_bytes, 0);
    if (bad[i][0] != 0) assert_null(strstr(cv_error_text(), bad[i]));
  }
  assert_int_equal(cv_secret_parse("", HEX, &made), CV_INVALID);
  assert_int_equal(cv_secret_parse("123456789012345678901234567890123", HEX, &made), CV_INVALID);
}

static void write_file(const char *path, const char *text, mode_t mode) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  assert_int_equal(chmod(path, mode), 0);
}

static void refuse_file(const char *path, cv_status code, const char *sentence) {
  cv_secure_key made;
  assert_int_equal(cv_secret_read(path, "worker", &made), code);
  if (!strstr(cv_error_text(), sentence)) fail_msg("%s | %s", cv_error_text(), sentence);
  assert_non_null(strstr(cv_error_text(), path));
}

static void secret_files_are_private(void **state) {
  (void)state;
  char folder[] = "/tmp/cuvil-secret-XXXXXX", path[64];
  struct stat about;
  cv_secure_key made, again;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/secret", folder);
  refuse_file(path, CV_IO, "No such file");
  assert_int_equal(cv_secret_make(path), CV_OK);
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0600);
  assert_int_equal(cv_secret_read(path, "worker", &made), CV_OK);
  assert_int_equal(made.secret_bytes, 32);
  assert_string_equal(made.identity, "worker");
  assert_int_equal(cv_secret_make(path), CV_IO); /* there already */
  assert_int_equal(cv_secret_read(path, "worker", &again), CV_OK);
  assert_memory_equal(made.secret, again.secret, 32);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(cv_secret_make(path), CV_OK);
  assert_int_equal(cv_secret_read(path, "worker", &again), CV_OK);
  assert_memory_not_equal(made.secret, again.secret, 32);
  assert_int_equal(chmod(path, 0640), 0);
  refuse_file(path, CV_INVALID, "chmod 600");
  assert_int_equal(chmod(path, 0604), 0);
  refuse_file(path, CV_INVALID, "chmod 600");
  write_file(path, HEX "\n", 0400);
  assert_int_equal(cv_secret_read(path, "worker", &made), CV_OK);
  assert_int_equal(unlink(path), 0);
  static const char *const bad[] = {"", "\n", HEX16 "\n", HEX "\n\n", HEX "\r\n", HEX "zz\n"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_file(path, bad[i], 0600);
    refuse_file(path, CV_INVALID, "hex digits");
  }
  write_file(path, HEX HEX HEX "\n", 0600);
  refuse_file(path, CV_INVALID, "too long");
  refuse_file(folder, CV_INVALID, "not a file");
  unlink(path);
  rmdir(folder);
}

static cv_status make_and_read(void *path) {
  cv_secure_key made;
  cv_status status = cv_secret_make(path);
  if (status != CV_OK) {
    assert_int_not_equal(access(path, F_OK), 0);
    return status;
  }
  status = cv_secret_read(path, "worker", &made);
  assert_int_equal(made.secret_bytes, status == CV_OK ? 32 : 0);
  unlink(path);
  return status;
}

static void failing_files_are_a_status(void **state) {
  (void)state;
  char folder[] = "/tmp/cuvil-secret-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/secret", folder);
  assert_true(each_fault(make_and_read, path) >= 5);
  rmdir(folder);
}

/* ---- sessions ---- */

static void each_identity_with_its_secret(void **state) {
  (void)state;
  const cv_secure_key keys[2] = {key("worker", HEX), key("operator", OTHER_HEX HEX16)};
  for (int i = 0; i < 2; i++)
    for (size_t piece = 1; piece < 3000; piece = piece * 3 + 1) {
      pair both = {.piece = piece};
      assert_int_equal(open_pair(&both, &keys[i]), CV_OK);
      assert_null(cv_secure_identity(both.end[1]));
      assert_int_equal(shake(&both), CV_OK);
      assert_true(ready(&both));
      assert_string_equal(cv_secure_identity(both.end[1]), keys[i].identity);
      assert_string_equal(cv_secure_identity(both.end[0]), keys[i].identity);
      char got[8];
      size_t size;
      for (int from = 0; from < 2; from++) {
        assert_int_equal(cv_secure_write(both.end[from], "hello", 5, &size), CV_OK);
        assert_int_equal(size, 5);
        assert_int_equal(cv_secure_read(both.end[!from], got, sizeof got, &size), CV_AGAIN);
        assert_int_equal(carry(&both, from), CV_OK);
        assert_true(cv_secure_holds(both.end[!from]));
        assert_int_equal(cv_secure_read(both.end[!from], got, 2, &size), CV_OK);
        assert_int_equal(size, 2);
        assert_true(cv_secure_holds(both.end[!from]));
        assert_int_equal(cv_secure_read(both.end[!from], got + 2, 6, &size), CV_OK);
        assert_int_equal(size, 3);
        assert_memory_equal(got, "hello", 5);
        assert_false(cv_secure_holds(both.end[!from]));
      }
      close_pair(&both);
    }
}

static void no_plain_bytes_on_the_wire(void **state) {
  (void)state;
  const cv_secure_key own = key("worker", HEX);
  pair both = {.piece = 4096};
  uint8_t wire[4096];
  size_t size;
  assert_int_equal(open_pair(&both, &own), CV_OK);
  assert_int_equal(cv_secure_write(both.end[0], "x", 1, &size), CV_AGAIN); /* no early data */
  assert_int_equal(shake(&both), CV_OK);
  assert_int_equal(cv_secure_write(both.end[0], "a plain sentence", 16, &size), CV_OK);
  size = cv_secure_take(both.end[0], wire, sizeof wire);
  assert_int_equal(size, 5 + 16 + 1 + 16);
  assert_null(memmem(wire, size, "plain", 5));
  close_pair(&both);
}

static void many_bytes_both_ways(void **state) {
  (void)state;
  const cv_secure_key own = key("operator", OTHER_HEX HEX16);
  enum { BYTES = 3000000 };
  pair both = {.piece = 4096};
  assert_int_equal(open_pair(&both, &own), CV_OK);
  assert_int_equal(shake(&both), CV_OK);
  uint8_t *data = malloc(BYTES), *got = malloc(BYTES);
  for (size_t i = 0; i < BYTES; i++) data[i] = (uint8_t)(i * 31 + (i >> 9));
  for (int from = 0; from < 2; from++) {
    size_t wrote = 0, read = 0, size;
    while (read < BYTES) {
      cv_status status = cv_secure_write(both.end[from], data + wrote, BYTES - wrote, &size);
      assert_true(status == CV_OK || status == CV_AGAIN);
      wrote += size;
      size_t have, taken;
      const uint8_t *wire = cv_secure_waiting(both.end[from], &have);
      assert_true(have <= 80000);
      assert_int_equal(cv_secure_feed(both.end[!from], wire, have, &taken), CV_OK);
      cv_secure_taken(both.end[from], taken);
      while (cv_secure_read(both.end[!from], got + read, BYTES - read, &size) == CV_OK)
        read += size;
    }
    assert_memory_equal(data, got, BYTES);
    memset(got, 0, BYTES);
  }
  free(data);
  free(got);
  close_pair(&both);
}

static void wrong_secrets_are_named(void **state) {
  (void)state;
  const cv_secure_key wrong[] = {key("worker", OTHER_HEX), key("operator", HEX),
                                 key("stranger", HEX), key("worke", HEX)};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    pair both = {.piece = 100};
    assert_int_equal(open_pair(&both, &wrong[i]), CV_OK);
    assert_int_equal(shake(&both), CV_INVALID);
    for (int end = 0; end < 2; end++) {
      assert_int_equal(cv_secure_session_state(both.end[end]), CV_SECURE_FAILED);
      assert_null(cv_secure_identity(both.end[end]));
      if (!strstr(cv_secure_text(both.end[end]), "secret"))
        fail_msg("%s", cv_secure_text(both.end[end]));
      size_t size;
      assert_int_equal(cv_secure_write(both.end[end], "x", 1, &size), CV_INVALID);
      assert_int_equal(cv_secure_read(both.end[end], &size, 1, &size), CV_INVALID);
      assert_int_equal(cv_secure_feed(both.end[end], "x", 1, &size), CV_INVALID);
    }
    if (i < 2) assert_non_null(strstr(cv_secure_text(both.end[1]), wrong[i].identity));
    assert_non_null(strstr(cv_secure_text(both.end[0]), wrong[i].identity));
    close_pair(&both);
  }
}

/* The server's first flight, answered by a client without its secret: every byte of both flights
 * changed once ends in a failure, never in a session. */
static void changed_bytes_open_nothing(void **state) {
  (void)state;
  const cv_secure_key own = key("worker", HEX);
  for (int flight = 0; flight < 3; flight++)
    for (size_t at = 0;; at++) {
      pair both = {.piece = 4096};
      uint8_t bytes[4096];
      size_t size = 0, taken;
      assert_int_equal(open_pair(&both, &own), CV_OK);
      for (int i = 0; i < flight; i++) assert_int_equal(carry(&both, i % 2), CV_OK);
      size = cv_secure_take(both.end[flight % 2], bytes, sizeof bytes);
      if (at < size) {
        bytes[at] ^= 0x55;
        (void)!cv_secure_feed(both.end[!(flight % 2)], bytes, size, &taken);
        (void)!shake(&both);
        /* one byte says nothing: the version in the head of a record */
        bool head = at == 1 || at == 2;
        if (!head && cv_secure_session_state(both.end[!(flight % 2)]) == CV_SECURE_READY)
          fail_msg("flight %d, byte %zu", flight, at);
      }
      close_pair(&both);
      if (at >= size) break;
    }
}

static void garbage_is_refused_early(void **state) {
  (void)state;
  static const char *const words[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\xff\xff",
                                      "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x40\x00\x0e"};
  const cv_secure_key own = key("worker", HEX);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    pair both = {.piece = 4096};
    size_t taken, fed = 0;
    uint8_t zeros[1000] = {0};
    assert_int_equal(open_pair(&both, &own), CV_OK);
    cv_status status = cv_secure_feed(both.end[1], words[i], strlen(words[i]), &taken);
    while (status == CV_OK) {
      status = cv_secure_feed(both.end[1], zeros, sizeof zeros, &taken);
      fed += taken;
      assert_true(fed <= CV_SECURE_HELLO + sizeof zeros);
    }
    assert_int_equal(status, CV_CORRUPT);
    close_pair(&both);
  }
}

/* A reader that does not read makes the session take less, not more. */
static void held_bytes_are_bounded(void **state) {
  (void)state;
  const cv_secure_key own = key("worker", HEX);
  pair both = {.piece = 4096};
  uint8_t data[8192] = {1};
  size_t size, total = 0, taken = 1;
  assert_int_equal(open_pair(&both, &own), CV_OK);
  assert_int_equal(shake(&both), CV_OK);
  while (taken > 0) {
    assert_int_equal(cv_secure_write(both.end[0], data, sizeof data, &size), CV_OK);
    size_t have;
    const void *wire = cv_secure_waiting(both.end[0], &have);
    assert_int_equal(cv_secure_feed(both.end[1], wire, have, &taken), CV_OK);
    cv_secure_taken(both.end[0], taken);
    total += taken;
    assert_true(total <= CV_SECURE_HELD);
    if (taken < have) break;
  }
  size_t read = 0;
  while (cv_secure_read(both.end[1], data, sizeof data, &size) == CV_OK) read += size;
  assert_true(read > CV_SECURE_HELD - 2 * sizeof data);
  cv_secure_room(both.end[1], &size);
  assert_true(size > 0);
  close_pair(&both);
}

static void the_end_is_told(void **state) {
  (void)state;
  const cv_secure_key own = key("worker", HEX);
  pair both = {.piece = 7};
  char got[8];
  size_t size;
  assert_int_equal(open_pair(&both, &own), CV_OK);
  cv_secure_finish(both.end[0]); /* too early: nothing */
  assert_int_equal(shake(&both), CV_OK);
  assert_int_equal(cv_secure_write(both.end[0], "last", 4, &size), CV_OK);
  cv_secure_finish(both.end[0]);
  assert_int_equal(carry(&both, 0), CV_OK);
  assert_int_equal(cv_secure_read(both.end[1], got, sizeof got, &size), CV_OK);
  assert_int_equal(size, 4);
  assert_int_equal(cv_secure_read(both.end[1], got, sizeof got, &size), CV_CANCELED);
  assert_int_equal(cv_secure_session_state(both.end[1]), CV_SECURE_ENDED);
  assert_string_equal(cv_secure_identity(both.end[1]), "worker");
  assert_int_equal(cv_secure_read(both.end[1], got, sizeof got, &size), CV_CANCELED);
  close_pair(&both);
}

/* The hello of one session, said again to another server: it waits for a proof that never comes. */
static void a_replayed_hello_opens_nothing(void **state) {
  (void)state;
  const cv_secure_key own = key("worker", HEX);
  uint8_t hello[4096], proof[4096];
  pair both = {.piece = 4096}, later = {.piece = 4096};
  assert_int_equal(open_pair(&both, &own), CV_OK);
  assert_int_equal(open_pair(&later, &own), CV_OK);
  size_t size = cv_secure_take(both.end[0], hello, sizeof hello), taken;
  assert_int_equal(cv_secure_feed(both.end[1], hello, size, &taken), CV_OK);
  assert_int_equal(carry(&both, 1), CV_OK);
  size_t proof_size = cv_secure_take(both.end[0], proof, sizeof proof);
  assert_int_equal(cv_secure_feed(later.end[1], hello, size, &taken), CV_OK);
  assert_int_equal(cv_secure_session_state(later.end[1]), CV_SECURE_HANDSHAKING);
  assert_int_equal(cv_secure_feed(later.end[1], proof, proof_size, &taken), CV_CORRUPT);
  close_pair(&both);
  close_pair(&later);
}

static void keys_are_checked(void **state) {
  (void)state;
  cv_secure *secure;
  cv_secure_key bad = key("worker", HEX);
  bad.secret_bytes = 31;
  assert_int_equal(cv_secure_client_create(&bad, &secure), CV_INVALID);
  bad = key("worker", HEX);
  bad.identity[0] = 0;
  assert_int_equal(cv_secure_server_create(&bad, 1, &secure), CV_INVALID);
  assert_null(secure);
}

static cv_status whole_life(void *arg) {
  const cv_secure_key *own = arg;
  pair both = {.piece = 4096};
  char got[8];
  size_t size;
  cv_status status = CV_OK;
  CV_TRY(open_pair(&both, own));
  CV_TRY(shake(&both));
  for (int from = 0; from < 2; from++) {
    CV_TRY(cv_secure_write(both.end[from], "hello", 5, &size));
    CV_TRY(carry(&both, from));
    CV_TRY(cv_secure_read(both.end[!from], got, sizeof got, &size));
  }
  cv_secure_finish(both.end[0]);
out:
  close_pair(&both);
  return status;
}

static void failing_calls_are_a_status(void **state) {
  (void)state;
  cv_secure_key own = key("worker", HEX);
  long points = each_fault(whole_life, &own);
  print_message("%ld calls failed one by one\n", points);
  assert_true(points > 25);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(secrets_are_of_hex_digits),
      cmocka_unit_test(secret_files_are_private),
      cmocka_unit_test(failing_files_are_a_status),
      cmocka_unit_test(each_identity_with_its_secret),
      cmocka_unit_test(no_plain_bytes_on_the_wire),
      cmocka_unit_test(many_bytes_both_ways),
      cmocka_unit_test(wrong_secrets_are_named),
      cmocka_unit_test(changed_bytes_open_nothing),
      cmocka_unit_test(garbage_is_refused_early),
      cmocka_unit_test(held_bytes_are_bounded),
      cmocka_unit_test(the_end_is_told),
      cmocka_unit_test(a_replayed_hello_opens_nothing),
      cmocka_unit_test(keys_are_checked),
      cmocka_unit_test(failing_calls_are_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
