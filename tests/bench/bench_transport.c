/* One-way latency and throughput of each transport row: half a round trip of a small message, and
 * a stream of large ones that the producer copies into its slots. Prints a table. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/transport.h"

enum { SLOTS = 4, ROUNDS = 2000 };

static const uint64_t sizes[] = {1024, 65536, 1u << 20, 16u << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* What the two ends publish for each other. */
typedef struct {
  _Atomic size_t size[2];
  uint8_t address[2][CV_ADDRESS_MAX];
} board;

/* One end: a channel out, a channel in. */
typedef struct {
  const cv_transport_row *row;
  cv_hub *hub;
  board *shared;
  int me; /* 0 starts, 1 answers */
  int64_t spin_ns;
  cv_transport *transport;
  cv_channel *out, *in;
  uint64_t limit, received, next;
  int closed;
} side;

static void check(cv_status status) {
  if (status == CV_OK) return;
  fprintf(stderr, "%s\n", cv_error_text());
  exit(1);
}

static void on_grant(void *arg, cv_channel *channel, uint64_t limit) {
  (void)channel;
  ((side *)arg)->limit = limit;
}

static void on_complete(void *arg, cv_channel *channel, uint64_t seq, cv_status status) {
  check(status);
  ((side *)arg)->received++;
  status = cv_channel_grant(channel, seq + 1 + SLOTS);
  if (status != CV_CANCELED) check(status); /* the last one may come with the producer's close */
}

static void on_error(void *arg, cv_channel *channel, cv_status status, const char *text) {
  (void)arg;
  (void)channel;
  if (status == CV_CANCELED) return;
  fprintf(stderr, "%s\n", text);
  exit(1);
}

static void on_closed(void *arg, cv_channel *channel) {
  (void)channel;
  ((side *)arg)->closed++;
}

static void turn(side *self) {
  cv_status status = cv_transport_wait(&self->transport, 1, -1, INT64_MAX, self->spin_ns);
  if (status != CV_TIMEOUT) check(status);
}

static cv_channel *open_one(side *self, uint32_t edge, cv_role role) {
  const cv_channel_events events = {.arg = self,
                                    .on_grant = on_grant,
                                    .on_complete = on_complete,
                                    .on_error = on_error,
                                    .on_closed = on_closed};
  cv_channel_params params = {.id = {.deployment = 1, .edge = edge},
                              .role = role,
                              .slots = SLOTS,
                              .slot_bytes = sizes[SIZES - 1],
                              .max_slot_bytes = sizes[SIZES - 1],
                              .max_tensors = 1,
                              .events = &events};
  cv_channel *channel;
  check(cv_channel_open(self->transport, &params, self->shared->address[!self->me],
                        self->shared->size[!self->me], &channel));
  return channel;
}

static void start(side *self) {
  size_t size;
  check(cv_transport_open(self->row, self->hub, &self->transport));
  check(cv_transport_address(self->transport, self->shared->address[self->me], CV_ADDRESS_MAX,
                             &size));
  self->shared->size[self->me] = size;
  while (self->shared->size[!self->me] == 0) usleep(100);
  self->in = open_one(self, (uint32_t)!self->me, CV_CONSUMER);
  self->out = open_one(self, (uint32_t)self->me, CV_PRODUCER);
  check(cv_channel_grant(self->in, SLOTS));
}

/* Sends the next message, from `data` or as the slot is. */
static void send_next(side *self, uint64_t bytes, const void *data) {
  cv_slot slot;
  cv_status status;
  while ((status = cv_channel_acquire(self->out, self->next, bytes, &slot)) == CV_AGAIN) turn(self);
  check(status);
  cv_tensor_header tensor = {.rank = 1, .dims = {(int64_t)bytes}, .bytes = bytes};
  cv_header header = {.seq = self->next++, .tensors = &tensor, .tensor_count = 1};
  check(cv_channel_send(self->out, &header, &(cv_segment){data}));
}

static void await(side *self, uint64_t count) {
  while (self->received < count) turn(self);
}

static int rounds_of(uint64_t bytes) {
  return bytes <= 65536 ? ROUNDS : (int)((512u << 20) / bytes);
}

/* The same steps at both ends; the starter prints. */
static void *run(void *arg) {
  side *self = arg;
  uint64_t expected = 0;
  int64_t begin = 0;
  uint8_t *data = malloc(sizes[SIZES - 1]);
  memset(data, 1, sizes[SIZES - 1]);
  start(self);
  for (int round = 0; round < 2 * ROUNDS; round++) { /* the first half warms up */
    if (round == ROUNDS && self->me == 0) begin = cv_clock_ns();
    if (self->me == 0) send_next(self, 8, data);
    await(self, ++expected);
    if (self->me == 1) send_next(self, 8, data);
    if (round == 2 * ROUNDS - 1 && self->me == 0)
      printf("%-7s %5.0f %9.1f", cv_transport_row_name(self->row), (double)self->spin_ns / 1e3,
             (double)(cv_clock_ns() - begin) / 2e3 / ROUNDS);
  }
  for (int i = 0; i < SIZES; i++) {
    int rounds = rounds_of(sizes[i]);
    begin = cv_clock_ns();
    for (int round = 0; self->me == 0 && round < rounds; round++) send_next(self, sizes[i], data);
    if (self->me == 1) {
      await(self, expected += (uint64_t)rounds);
      send_next(self, 8, data);
    } else {
      await(self, ++expected);
      printf(" %7.2f", (double)sizes[i] * rounds / (double)(cv_clock_ns() - begin));
    }
  }
  if (self->me == 0) printf("\n");
  fflush(stdout);
  cv_channel_close(self->in);
  cv_channel_close(self->out);
  while (self->closed < 2) turn(self);
  cv_transport_close(self->transport);
  free(data);
  return NULL;
}

static void measure(const cv_transport_row *row, int64_t spin_ns) {
  board *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  side sides[2] = {{.row = row, .shared = shared, .me = 0, .spin_ns = spin_ns},
                   {.row = row, .shared = shared, .me = 1, .spin_ns = spin_ns}};
  fflush(stdout);
  if (strcmp(cv_transport_row_name(row), "inproc") == 0) {
    pthread_t thread;
    check(cv_hub_create(&sides[0].hub));
    sides[1].hub = sides[0].hub;
    if (pthread_create(&thread, NULL, run, &sides[1]) != 0) exit(1);
    run(&sides[0]);
    pthread_join(thread, NULL);
    cv_hub_destroy(sides[0].hub);
  } else {
    pid_t children[2];
    for (int i = 0; i < 2; i++)
      if ((children[i] = fork()) == 0) {
        run(&sides[i]);
        _exit(0);
      }
    for (int i = 0; i < 2; i++) waitpid(children[i], NULL, 0);
  }
  munmap(shared, sizeof *shared);
}

int main(int argc, char **argv) {
  if (argc > 2 || (argc == 2 && strcmp(argv[1], "--help") == 0)) {
    fprintf(stderr, "usage: bench_transport [ROW]\n");
    return 2;
  }
  printf("row      spin   latency  GB/s one way, copied into the slot, messages of\n");
  printf("           us   us, 8 B    1 KiB  64 KiB   1 MiB  16 MiB\n");
  for (size_t i = 0; cv_transport_at(i) != NULL; i++)
    for (int64_t spin = 0; spin <= 50000; spin += 50000)
      if (argc == 1 || strcmp(argv[1], cv_transport_row_name(cv_transport_at(i))) == 0)
        measure(cv_transport_at(i), spin);
  return 0;
}
