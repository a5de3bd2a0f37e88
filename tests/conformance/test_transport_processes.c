/* Every row with its two ends where they are in life: two threads, or (shm, ucx) two processes, of
 * which one is killed. The communication loop here is the executor's: cv_transport_wait. */
#include "tests/conformance/messages.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { MESSAGES = 2000, SLOTS = 3, NOTICE_MS = 1000 };

static int64_t in_ms(int64_t ms) { return cv_clock_ns() + ms * 1000000; }

static void wait_for(cv_transport *transport, int64_t deadline) {
  cv_status status = cv_transport_wait(&transport, 1, -1, deadline, 20000);
  assert_true(status == CV_OK || status == CV_TIMEOUT);
}

/* Sizes from none to rendezvous, so that slots grow on the way. */
static uint64_t size_of(uint64_t seq) {
  if (seq % 7 == 0) return 0;
  if (seq % 501 == 500) return 1000000 + seq;
  return seq * 37 % 5000;
}

typedef struct {
  cv_transport *transport;
  end side;
  cv_role role;
  uint64_t slot_bytes; /* at start */
  uint64_t checked;
  const void *peer;
  size_t peer_size;
} runner;

static void open_side(runner *run) {
  cv_channel_params params = usual_params();
  cv_channel_events events = events_of(&run->side);
  params.role = run->role;
  params.slots = SLOTS;
  params.slot_bytes = run->slot_bytes;
  params.events = &events;
  run->side.slots = SLOTS;
  assert_int_equal(
      cv_channel_open(run->transport, &params, run->peer, run->peer_size, &run->side.channel),
      CV_OK);
}

static void *produce(void *arg) {
  runner *run = arg;
  int64_t deadline = in_ms(60000);
  open_side(run);
  for (uint64_t seq = 0; seq < MESSAGES && run->side.errors == 0;) {
    if (send_bytes(&run->side, seq, size_of(seq)) == CV_OK)
      seq++;
    else
      wait_for(run->transport, deadline);
    assert_true(cv_clock_ns() < deadline);
  }
  cv_channel_close(run->side.channel);
  while (run->side.closed == 0 && cv_clock_ns() < deadline) wait_for(run->transport, deadline);
  return NULL;
}

/* Consumes in order; reads each message in place, then frees it. */
static void *consume(void *arg) {
  runner *run = arg;
  int64_t deadline = in_ms(60000);
  open_side(run);
  assert_int_equal(cv_channel_grant(run->side.channel, SLOTS), CV_OK);
  while (run->checked < MESSAGES) {
    uint64_t seq = run->checked;
    int times = (int)(seq / SEQS) + 1; /* a large message may complete behind the next ones */
    while (run->side.completed[seq % SEQS] < times && run->side.errors == 0) {
      wait_for(run->transport, deadline);
      assert_true(cv_clock_ns() < deadline);
    }
    assert_int_equal(run->side.completed[seq % SEQS], times);
    assert_true(holds_pattern(&run->side, seq, size_of(seq)));
    run->checked++;
    if (run->side.errors == 0)
      assert_int_equal(cv_channel_grant(run->side.channel, seq + 1 + SLOTS), CV_OK);
  }
  while (run->side.errors == 0 && cv_clock_ns() < deadline) wait_for(run->transport, deadline);
  assert_int_equal(run->side.error, CV_CANCELED);
  cv_channel_close(run->side.channel);
  while (run->side.closed == 0 && cv_clock_ns() < deadline) wait_for(run->transport, deadline);
  return NULL;
}

static void two_threads(void **state) {
  const cv_transport_row *row = *state;
  cv_hub *hub = NULL;
  uint8_t address[2][CV_ADDRESS_MAX];
  runner runs[2] = {{.role = CV_PRODUCER, .slot_bytes = 100},
                    {.role = CV_CONSUMER, .slot_bytes = 100}};
  alarm(120);
  assert_int_equal(cv_hub_create(&hub), CV_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(cv_transport_open(row, hub, &runs[i].transport), CV_OK);
    runs[!i].peer = address[i];
    assert_int_equal(
        cv_transport_address(runs[i].transport, address[i], CV_ADDRESS_MAX, &runs[!i].peer_size),
        CV_OK);
  }
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, produce, &runs[0]), 0);
  consume(&runs[1]);
  pthread_join(thread, NULL);
  assert_int_equal(runs[1].checked, MESSAGES);
  for (int i = 0; i < 2; i++) cv_transport_close(runs[i].transport);
  cv_hub_destroy(hub);
  alarm(0);
}

/* ---- two processes ---- */

/* The addresses, published by each process for the other. */
typedef struct {
  _Atomic size_t size[2];
  _Atomic int stage;
  uint8_t address[2][CV_ADDRESS_MAX];
} board;

static bool has_processes(const cv_transport_row *row) {
  return strcmp(cv_transport_row_name(row), "inproc") != 0;
}

static void publish(board *shared, runner *run, const cv_transport_row *row) {
  int mine = run->role == CV_PRODUCER ? 0 : 1;
  size_t size;
  int64_t deadline = in_ms(10000);
  assert_int_equal(cv_transport_open(row, NULL, &run->transport), CV_OK);
  assert_int_equal(
      cv_transport_address(run->transport, shared->address[mine], CV_ADDRESS_MAX, &size), CV_OK);
  shared->size[mine] = size;
  while (shared->size[!mine] == 0) {
    assert_true(cv_clock_ns() < deadline);
    usleep(200);
  }
  run->peer = shared->address[!mine];
  run->peer_size = shared->size[!mine];
}

static board *new_board(void) {
  board *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(shared, MAP_FAILED);
  return shared;
}

static void two_processes(void **state) {
  board *shared = new_board();
  alarm(120);
  pid_t child = fork();
  assert_true(child >= 0);
  runner run = {.role = child == 0 ? CV_CONSUMER : CV_PRODUCER, .slot_bytes = 100};
  publish(shared, &run, *state);
  if (child == 0)
    consume(&run);
  else
    produce(&run);
  cv_transport_close(run.transport);
  if (child == 0) _exit(run.checked == MESSAGES ? 0 : 1);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_int_equal(run.side.errors, 0);
  munmap(shared, sizeof *shared);
  alarm(0);
}

/* The child of the kill tests: opens its end and serves it, without an end. */
static void serve_for_ever(board *shared, cv_role role, const cv_transport_row *row, bool busy) {
  runner run = {.role = role, .slot_bytes = 16u << 20};
  alarm(60);
  publish(shared, &run, row);
  open_side(&run);
  if (role == CV_CONSUMER) {
    if (cv_channel_grant(run.side.channel, SLOTS) != CV_OK) _exit(1);
    run.side.automatic = true;
  }
  for (uint64_t seq = 0;;) {
    if (run.side.opened == 1) shared->stage = 1;
    if (role == CV_PRODUCER && busy && send_unwritten(&run.side, seq, 16u << 20) == CV_OK)
      seq++;
    else
      wait_for(run.transport, in_ms(100));
  }
}

/* The other end is killed, idle or with 16 MB messages under way; this end must hear of it soon. */
static void peer_is_killed(const cv_transport_row *row, cv_role role, bool busy) {
  board *shared = new_board();
  alarm(60);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    serve_for_ever(shared, role == CV_PRODUCER ? CV_CONSUMER : CV_PRODUCER, row, busy);
  runner run = {.role = role, .slot_bytes = 16u << 20};
  publish(shared, &run, row);
  open_side(&run);
  run.side.automatic = true;
  if (role == CV_CONSUMER) assert_int_equal(cv_channel_grant(run.side.channel, SLOTS), CV_OK);
  uint64_t seq = 0;
  int64_t killed = 0, kill_at = 0;
  while (run.side.errors == 0) {
    if (killed != 0 && cv_clock_ns() - killed > (int64_t)NOTICE_MS * 1000000) break;
    if (role == CV_PRODUCER && busy && send_unwritten(&run.side, seq, 16u << 20) == CV_OK)
      seq++;
    else
      wait_for(run.transport, in_ms(10));
    if (shared->stage == 1 && run.side.opened == 1 && kill_at == 0) kill_at = in_ms(60);
    if (kill_at != 0 && killed == 0 && cv_clock_ns() > kill_at) {
      killed = cv_clock_ns();
      kill(child, SIGKILL);
    }
  }
  int64_t noticed = cv_clock_ns();
  waitpid(child, NULL, 0);
  assert_int_equal(run.side.errors, 1);
  assert_int_equal(run.side.error, CV_PEER_LOST);
  print_message("  noticed after %.1f ms: %s\n", (double)(noticed - killed) / 1e6, run.side.text);
  cv_channel_close(run.side.channel);
  int64_t deadline = in_ms(5000);
  while (run.side.closed == 0 && cv_clock_ns() < deadline) wait_for(run.transport, in_ms(50));
  assert_int_equal(run.side.closed, 1);
  for (uint64_t i = 0; i < seq && i < SEQS; i++) assert_int_equal(run.side.sent[i] > 0, 1);
  cv_transport_close(run.transport);
  munmap(shared, sizeof *shared);
  alarm(0);
}

static void killed_peers_are_noticed(void **state) {
  for (int busy = 0; busy < 2; busy++) {
    peer_is_killed(*state, CV_PRODUCER, busy);
    peer_is_killed(*state, CV_CONSUMER, busy);
  }
}

/* A peer that stands still says nothing: whoever gives up on it aborts, and the close still ends.
 */
static void hung_peer_is_aborted(void **state) {
  board *shared = new_board();
  alarm(60);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) serve_for_ever(shared, CV_CONSUMER, *state, true);
  runner run = {.role = CV_PRODUCER, .slot_bytes = 16u << 20};
  publish(shared, &run, *state);
  open_side(&run);
  while (run.side.limit == 0) wait_for(run.transport, in_ms(10));
  kill(child, SIGSTOP);
  int64_t quiet = in_ms(200);
  uint64_t seq = 0;
  while (cv_clock_ns() < quiet)
    if (send_unwritten(&run.side, seq, 16u << 20) == CV_OK)
      seq++;
    else
      wait_for(run.transport, in_ms(10));
  assert_int_equal(run.side.errors, 0);
  int64_t begin = cv_clock_ns();
  cv_channel_abort(run.side.channel);
  cv_channel_close(run.side.channel);
  while (run.side.closed == 0 && cv_clock_ns() - begin < 5000000000)
    wait_for(run.transport, in_ms(500));
  print_message("  closed after %.1f ms\n", (double)(cv_clock_ns() - begin) / 1e6);
  assert_int_equal(run.side.closed, 1);
  for (uint64_t i = 0; i < seq; i++) assert_int_equal(run.side.sent[i % SEQS] > 0, 1);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  cv_transport_close(run.transport);
  munmap(shared, sizeof *shared);
  alarm(0);
}

/* The peer died before the channel is opened: a status at once, or an error soon. */
static void dead_before_open(void **state) {
  for (int role = 0; role < 2; role++) {
    board *shared = new_board();
    alarm(60);
    pid_t child = fork();
    assert_true(child >= 0);
    runner run = {.role = (cv_role)role};
    if (child == 0) {
      run.role = !run.role;
      publish(shared, &run, *state);
      for (;;) pause();
    }
    publish(shared, &run, *state);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    cv_channel_params params = usual_params();
    cv_channel_events events = events_of(&run.side);
    params.role = run.role;
    params.events = &events;
    cv_status status =
        cv_channel_open(run.transport, &params, run.peer, run.peer_size, &run.side.channel);
    int64_t deadline = in_ms(5000);
    while (status == CV_OK && run.side.errors == 0 && cv_clock_ns() < deadline)
      wait_for(run.transport, in_ms(50));
    assert_int_equal(status == CV_OK ? run.side.error : status, CV_PEER_LOST);
    cv_transport_close(run.transport);
    munmap(shared, sizeof *shared);
    alarm(0);
  }
}

int main(int argc, char **argv) {
  int failed = 0;
  for (size_t i = 0; cv_transport_at(i) != NULL; i++) {
    const char *name = cv_transport_row_name(cv_transport_at(i));
    void *row = (void *)(uintptr_t)cv_transport_at(i);
    if (argc > 1 && strcmp(argv[1], name) != 0) continue;
    const struct CMUnitTest processes[] = {
        {"two_processes", two_processes, NULL, NULL, row},
        {"killed_peers_are_noticed", killed_peers_are_noticed, NULL, NULL, row},
        {"hung_peer_is_aborted", hung_peer_is_aborted, NULL, NULL, row},
        {"dead_before_open", dead_before_open, NULL, NULL, row},
    };
    const struct CMUnitTest threads[] = {{"two_threads", two_threads, NULL, NULL, row}};
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    if (has_processes(row)) /* these fork: before those that start UCX here */
      failed += cmocka_run_group_tests_name(name, processes, NULL, NULL);
    failed += cmocka_run_group_tests_name(name, threads, NULL, NULL);
  }
  return failed;
}
