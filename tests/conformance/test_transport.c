/* One suite over every transport row, both ends in one process; test_transport_processes.c has two
 * processes and two threads. */
#include "tests/conformance/messages.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static int count_fds(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

static int setup(void **state) {
  pair *both = calloc(1, sizeof *both);
  both->row = *state;
  *state = both;
  alarm(60);
  return open_transports(both) == CV_OK ? 0 : -1;
}

static int teardown(void **state) {
  pair *both = *state;
  close_transports(both);
  free(both);
  alarm(0);
  return 0;
}

static void window_is_respected_out_of_order(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  open_pair(both, &params);
  cv_slot slot;
  assert_int_equal(acquire(&both->producer, 0, 10, &slot), CV_AGAIN);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  assert_int_equal(acquire(&both->producer, 4, 10, &slot), CV_AGAIN);
  static const uint64_t order[] = {2, 0, 3, 1};
  for (int i = 0; i < 4; i++)
    assert_int_equal(send_bytes(&both->producer, order[i], 100 + order[i]), CV_OK);
  assert_int_equal(send_bytes(&both->producer, 1, 5), CV_INVALID);
  pump_until(both, both->consumer.received == 4);
  settle(both);
  for (uint64_t seq = 0; seq < 4; seq++) {
    assert_true(holds_pattern(&both->consumer, seq, 100 + seq));
    assert_int_equal(both->producer.sent[seq], 1);
    assert_int_equal(both->producer.sent_status[seq], CV_OK);
  }
  assert_int_equal(acquire(&both->producer, 4, 10, &slot), CV_AGAIN);
  assert_int_equal(grant(&both->consumer, 3), CV_INVALID);
  assert_int_equal(grant(&both->consumer, 6), CV_OK);
  pump_until(both, both->producer.limit == 6);
  assert_int_equal(acquire(&both->producer, 6, 10, &slot), CV_AGAIN);
  assert_int_equal(acquire(&both->producer, 1, 10, &slot), CV_INVALID);
  assert_int_equal(send_bytes(&both->producer, 5, 4096), CV_OK);
  pump_until(both, both->consumer.received == 5);
  assert_true(holds_pattern(&both->consumer, 5, 4096));
  assert_true(holds_pattern(&both->consumer, 2, 102)); /* not freed: untouched */
  assert_true(holds_pattern(&both->consumer, 3, 103));
  /* 4 is left out for good */
  assert_int_equal(grant(&both->consumer, 1000), CV_OK);
  pump_until(both, both->producer.limit == 1000);
  assert_int_equal(send_bytes(&both->producer, 999, 1), CV_OK);
  pump_until(both, both->consumer.received == 6);
  close_pair(both);
}

static void grant_before_open_and_a_late_first_seq(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  params.role = CV_CONSUMER;
  assert_int_equal(open_end(both, &params, &both->consumer), CV_OK);
  assert_int_equal(grant(&both->consumer, 1004), CV_OK);
  settle(both);
  params.role = CV_PRODUCER;
  assert_int_equal(open_end(both, &params, &both->producer), CV_OK);
  pump_until(both, both->producer.limit == 1004);
  cv_slot slot;
  assert_int_equal(acquire(&both->producer, 999, 1, &slot), CV_INVALID);
  assert_int_equal(send_bytes(&both->producer, 1000, 1), CV_OK);
  pump_until(both, both->consumer.received == 1);
  close_pair(both);
}

static void producer_may_come_first(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  params.role = CV_PRODUCER;
  assert_int_equal(open_end(both, &params, &both->producer), CV_OK);
  settle(both);
  assert_int_equal(both->producer.opened, 0);
  cv_slot slot;
  assert_int_equal(acquire(&both->producer, 0, 1, &slot), CV_AGAIN);
  params.role = CV_CONSUMER;
  assert_int_equal(open_end(both, &params, &both->consumer), CV_OK);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  assert_int_equal(both->producer.opened, 1);
  assert_int_equal(both->consumer.opened, 1);
  close_pair(both);
}

/* Scalar, zero-size, absent, rank 8, copied and in place, symbols, checksum. */
static void tensors_of_all_kinds(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  open_pair(both, &params);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  int64_t symbols[2] = {-5, INT64_MAX};
  float scalar = 1.5f;
  uint8_t wide[256], word[8] = "in place";
  for (int i = 0; i < 256; i++) wide[i] = (uint8_t)(255 - i);
  cv_tensor_header tensors[] = {
      {.dtype = 1, .rank = 0, .bytes = 4},
      {.dtype = 1, .rank = 3, .dims = {2, 0, INT64_MAX}},
      {.dtype = 9, .rank = 2, .dims = {1000000, 1000000}, .absent = true},
      {.dtype = 2, .rank = 8, .dims = {2, 2, 2, 2, 2, 2, 2, 2}, .bytes = 256},
      {.dtype = 2, .rank = 1, .dims = {8}, .bytes = 8},
  };
  cv_segment segments[] = {{&scalar}, {NULL}, {NULL}, {wide}, {NULL}};
  cv_header header = {.seq = 1,
                      .session = UINT64_MAX,
                      .flags = CV_HEADER_LAST | CV_HEADER_CHECKSUM | 1u << 20,
                      .symbols = symbols,
                      .symbol_count = 2,
                      .tensors = tensors,
                      .tensor_count = 5};
  uint64_t bytes;
  cv_slot slot, again;
  assert_int_equal(cv_header_layout(&header, &bytes), CV_OK);
  assert_int_equal(acquire(&both->producer, 1, bytes, &slot), CV_OK);
  assert_int_equal((uintptr_t)slot.data % CV_SLOT_ALIGN, 0);
  assert_int_equal(acquire(&both->producer, 1, bytes, &again), CV_OK);
  assert_ptr_equal(slot.data, again.data);
  memcpy(slot.data + tensors[4].offset, word, 8);
  assert_int_equal(cv_channel_send(both->producer.channel, &header, segments), CV_OK);
  pump_until(both, both->consumer.received == 1);
  assert_int_equal(both->consumer.status[1], CV_OK);
  const cv_header *got = both->consumer.header[1];
  const uint8_t *data = both->consumer.slot[1].data;
  assert_int_equal(got->flags, header.flags);
  assert_int_equal(got->session, UINT64_MAX);
  assert_memory_equal(got->symbols, symbols, sizeof symbols);
  assert_int_equal(got->tensor_count, 5);
  assert_memory_equal(got->tensors, tensors, sizeof tensors);
  assert_memory_equal(data + tensors[0].offset, &scalar, 4);
  assert_memory_equal(data + tensors[3].offset, wide, 256);
  assert_memory_equal(data + tensors[4].offset, word, 8);
  /* a message with nothing in it */
  cv_header empty = {.seq = 0};
  assert_int_equal(acquire(&both->producer, 0, 0, &slot), CV_OK);
  assert_int_equal(cv_channel_send(both->producer.channel, &empty, NULL), CV_OK);
  pump_until(both, both->consumer.received == 2);
  assert_int_equal(both->consumer.header[0]->tensor_count, 0);
  close_pair(both);
}

static void large_payload(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  params.slots = 2;
  params.slot_bytes = 16u << 20;
  open_pair(both, &params);
  both->consumer.automatic = true;
  assert_int_equal(grant(&both->consumer, 2), CV_OK);
  for (uint64_t seq = 0; seq < 5; seq++) {
    pump_until(both, both->producer.limit > seq);
    pump_until(both, seq < 2 || both->producer.sent[seq - 2] == 1);
    assert_int_equal(send_bytes(&both->producer, seq, (16u << 20) - seq), CV_OK);
    pump_until(both, both->consumer.received == seq + 1);
    assert_true(holds_pattern(&both->consumer, seq, (16u << 20) - seq));
  }
  close_pair(both);
}

static void slots_grow_when_asked(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  params.slot_bytes = 0;
  params.max_slot_bytes = 1u << 20;
  open_pair(both, &params);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  assert_int_equal(send_bytes(&both->producer, 0, 0), CV_OK);
  cv_slot slot;
  assert_int_equal(acquire(&both->producer, 1, (1u << 20) + 1, &slot), CV_INVALID);
  assert_int_equal(acquire(&both->producer, 1, 1000, &slot), CV_AGAIN);
  pump_until(both, both->producer.resized == 1);
  assert_int_equal(both->consumer.resized, 1);
  assert_int_equal(send_bytes(&both->producer, 1, 1000), CV_OK);
  pump_until(both, both->consumer.received == 2);
  /* the consumer grows: the message in the old slots stays readable */
  assert_int_equal(cv_channel_resize(both->consumer.channel, 900), CV_OK);
  assert_int_equal(cv_channel_resize(both->consumer.channel, 5000), CV_OK);
  assert_int_equal(cv_channel_resize(both->consumer.channel, (1u << 20) + 1), CV_INVALID);
  pump_until(both, both->producer.resized == 2);
  assert_int_equal(both->producer.slot_bytes, 5000);
  assert_int_equal(cv_channel_resize(both->producer.channel, 1u << 20), CV_OK);
  pump_until(both, both->producer.resized == 3);
  assert_int_equal(send_bytes(&both->producer, 2, 1u << 20), CV_OK);
  pump_until(both, both->consumer.received == 3);
  assert_true(holds_pattern(&both->consumer, 1, 1000));
  assert_true(holds_pattern(&both->consumer, 2, 1u << 20));
  assert_int_equal(grant(&both->consumer, 8), CV_OK); /* frees 0 to 3 and with them old slots */
  pump_until(both, both->producer.limit == 8);
  assert_int_equal(send_bytes(&both->producer, 7, 1u << 20), CV_OK);
  pump_until(both, both->consumer.received == 4);
  assert_true(holds_pattern(&both->consumer, 7, 1u << 20));
  close_pair(both);
}

/* An acquired slot moves into larger ones, and can be given back. */
static void acquired_slot_grows_and_is_released(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  params.slot_bytes = 64;
  open_pair(both, &params);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  cv_slot slot;
  assert_int_equal(acquire(&both->producer, 0, 64, &slot), CV_OK);
  assert_int_equal(acquire(&both->producer, 0, 128, &slot), CV_AGAIN);
  pump_until(both, both->producer.resized == 1);
  assert_int_equal(acquire(&both->producer, 0, 128, &slot), CV_OK);
  assert_true(slot.bytes >= 128);
  cv_channel_release(both->producer.channel, 0);
  cv_channel_release(both->producer.channel, 0);
  assert_int_equal(send_bytes(&both->producer, 0, 128), CV_OK);
  pump_until(both, both->consumer.received == 1);
  assert_true(holds_pattern(&both->consumer, 0, 128));
  close_pair(both);
}

/* The payload changes behind the sender's back: the sum tells. */
static void damage_is_noticed_by_the_checksum(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  open_pair(both, &params);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  cv_tensor_header tensor = {.rank = 1, .dims = {100}, .bytes = 100};
  for (uint64_t seq = 0; seq < 2; seq++) {
    cv_header header = {
        .seq = seq, .flags = CV_HEADER_CHECKSUM, .tensors = &tensor, .tensor_count = 1};
    cv_slot slot;
    assert_int_equal(acquire(&both->producer, seq, 100, &slot), CV_OK);
    memset(slot.data, 7, 100);
    assert_int_equal(cv_channel_send(both->producer.channel, &header, NULL), CV_OK);
    if (seq == 1) slot.data[99] = 8;
    pump_until(both, both->consumer.received == seq + 1);
  }
  assert_int_equal(both->consumer.status[0], CV_OK);
  assert_int_equal(both->consumer.status[1], CV_CORRUPT);
  assert_int_equal(both->consumer.errors, 0);
  close_pair(both);
}

static void *count_alloc(void *arg, size_t bytes) {
  ++*(int *)arg;
  return cv_alloc_aligned(CV_SLOT_ALIGN, bytes);
}

static void count_free(void *arg, void *memory) {
  --*(int *)arg;
  cv_free(memory);
}

/* Slots of a device's memory, which also grow; shm has its own alone. */
static void slots_from_an_allocator(void **state) {
  pair *both = *state;
  int alive = 0;
  cv_slot_memory memory = {CV_MEMORY_PINNED, count_alloc, count_free, &alive};
  cv_channel_params params = usual_params();
  params.memory = &memory;
  if (strcmp(cv_transport_row_name(both->row), "shm") == 0) {
    assert_int_equal(open_end(both, &params, &both->producer), CV_UNSUPPORTED);
    return;
  }
  open_pair(both, &params);
  both->consumer.automatic = true;
  assert_int_equal(cv_channel_memory(both->consumer.channel), CV_MEMORY_PINNED);
  assert_true(alive > 0);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  for (uint64_t seq = 0; seq < 6; seq++) {
    cv_status status = CV_AGAIN;
    pump_until(both, (status = send_bytes(&both->producer, seq, 3000 * seq)) != CV_AGAIN);
    assert_int_equal(status, CV_OK);
    pump_until(both, both->consumer.received == seq + 1);
    assert_true(holds_pattern(&both->consumer, seq, 3000 * seq));
  }
  close_pair(both);
  assert_int_equal(alive, 0);
}

static void many_edges_both_ways(void **state) {
  pair *both = *state;
  enum { EDGES = 64 };
  end *ends = calloc(2 * EDGES, sizeof *ends);
  uint8_t address[2][CV_ADDRESS_MAX];
  size_t size[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(
        cv_transport_address(both->transports[i], address[i], CV_ADDRESS_MAX, &size[i]), CV_OK);
  for (uint32_t i = 0; i < 2 * EDGES; i++) {
    cv_channel_params params = usual_params();
    cv_channel_events events = events_of(&ends[i]);
    int at = (int)(i + i / EDGES) % 2; /* odd edges go the other way */
    params.events = &events;
    params.id.edge = i % EDGES;
    params.role = i < EDGES ? CV_PRODUCER : CV_CONSUMER;
    ends[i].slots = params.slots;
    assert_int_equal(
        cv_channel_open(both->transports[at], &params, address[!at], size[!at], &ends[i].channel),
        CV_OK);
    if (i >= EDGES) assert_int_equal(grant(&ends[i], 4), CV_OK);
  }
  for (uint64_t seq = 0; seq < 4; seq++)
    for (uint32_t i = 0; i < EDGES; i++) {
      pump_until(both, ends[i].limit == 4);
      assert_int_equal(send_bytes(&ends[i], seq, 10 * i + seq), CV_OK);
    }
  for (uint32_t i = 0; i < EDGES; i++) {
    pump_until(both, ends[EDGES + i].received == 4);
    for (uint64_t seq = 0; seq < 4; seq++)
      assert_true(holds_pattern(&ends[EDGES + i], seq, 10 * i + seq));
  }
  for (uint32_t i = 0; i < 2 * EDGES; i++) cv_channel_close(ends[i].channel);
  for (uint32_t i = 0; i < 2 * EDGES; i++) pump_until(both, ends[i].closed == 1);
  free(ends);
}

static void last_message_arrives_before_the_close(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  params.slot_bytes = 1u << 20;
  open_pair(both, &params);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  for (uint64_t seq = 0; seq < 4; seq++)
    assert_int_equal(send_bytes(&both->producer, seq, 1u << 20), CV_OK);
  cv_channel_close(both->producer.channel);
  cv_slot slot;
  assert_int_equal(acquire(&both->producer, 5, 1, &slot), CV_CANCELED);
  pump_until(both, both->producer.closed == 1);
  pump_until(both, both->consumer.errors == 1);
  assert_int_equal(both->consumer.error, CV_CANCELED);
  assert_int_equal(both->consumer.received, 4);
  for (uint64_t seq = 0; seq < 4; seq++) {
    assert_int_equal(both->producer.sent[seq], 1);
    assert_true(holds_pattern(&both->consumer, seq, 1u << 20));
  }
  close_pair(both);
  assert_int_equal(both->consumer.errors, 1);
  assert_int_equal(both->producer.errors, 0);
}

static void consumer_closes_first(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  open_pair(both, &params);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  assert_int_equal(send_bytes(&both->producer, 0, 10), CV_OK);
  cv_channel_close(both->consumer.channel);
  pump_until(both, both->producer.errors == 1 && both->producer.sent[0] == 1);
  assert_int_equal(both->producer.error, CV_CANCELED);
  cv_slot slot;
  assert_int_equal(acquire(&both->producer, 1, 10, &slot), CV_CANCELED);
  assert_int_equal(send_bytes(&both->producer, 1, 10), CV_CANCELED);
  close_pair(both);
}

static void close_with_much_in_flight(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  params.slot_bytes = 16u << 20;
  open_pair(both, &params);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  for (uint64_t seq = 0; seq < 4; seq++)
    assert_int_equal(send_bytes(&both->producer, seq, 16u << 20), CV_OK);
  turn(both);
  close_pair(both);
  for (uint64_t seq = 0; seq < 4; seq++) assert_int_equal(both->producer.sent[seq], 1);
}

static void abort_with_much_in_flight(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  params.slot_bytes = 16u << 20;
  open_pair(both, &params);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  for (uint64_t seq = 0; seq < 4; seq++)
    assert_int_equal(send_bytes(&both->producer, seq, 16u << 20), CV_OK);
  turn(both);
  cv_transport_abort(both->transports[0], 7, 1234567890123, 3); /* another epoch */
  assert_int_equal(both->producer.errors, 0);
  cv_transport_abort(both->transports[0], 7, 1234567890123, 2);
  pump_until(both, both->producer.errors == 1 && both->consumer.errors == 1);
  assert_int_equal(both->producer.error, CV_CANCELED);
  assert_int_equal(both->consumer.error, CV_CANCELED);
  close_pair(both);
  for (uint64_t seq = 0; seq < 4; seq++) {
    assert_int_equal(both->producer.sent[seq], 1);
    assert_int_equal(both->consumer.completed[seq], both->consumer.headers[seq]);
  }
}

static void transport_closes_with_open_channels(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  open_pair(both, &params);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  assert_int_equal(send_bytes(&both->producer, 0, 10), CV_OK);
  cv_transport_close(both->transports[0]);
  both->transports[0] = NULL;
  assert_int_equal(both->producer.closed, 1);
  assert_int_equal(both->producer.sent[0], 1);
  int64_t end_ns = cv_clock_ns() + 5000000000;
  while (both->consumer.errors == 0 && cv_clock_ns() < end_ns)
    cv_transport_progress(both->transports[1]);
  assert_int_equal(both->consumer.errors, 1);
}

static void unequal_plans_are_refused(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  params.role = CV_CONSUMER;
  assert_int_equal(open_end(both, &params, &both->consumer), CV_OK);
  params.role = CV_PRODUCER;
  params.slots = 5;
  assert_int_equal(open_end(both, &params, &both->producer), CV_OK);
  pump_until(both, both->producer.errors == 1 && both->consumer.errors == 1);
  assert_int_equal(both->producer.error, CV_INVALID);
  assert_non_null(strstr(both->producer.text, "5 slots"));
  assert_int_equal(both->consumer.error, CV_INVALID);
  close_pair(both);
}

static void wrong_use_is_a_status(void **state) {
  pair *both = *state;
  cv_channel_params params = usual_params();
  cv_slot_memory device = {.kind = CV_MEMORY_DEVICE};
  cv_channel_params bad[5] = {params, params, params, params, params};
  bad[0].slots = 0;
  bad[1].slot_bytes = bad[1].max_slot_bytes + 1;
  bad[2].max_tensors = CV_HEADER_TENSORS + 1;
  bad[3].max_slot_bytes = UINT64_MAX;
  bad[4].role = (cv_role)7;
  for (int i = 0; i < 5; i++)
    assert_int_equal(open_end(both, &bad[i], &both->producer), CV_INVALID);
  if (strcmp(cv_transport_row_name(both->row), "inproc") != 0) {
    bad[0] = params;
    bad[0].memory = &device;
    assert_int_equal(open_end(both, &bad[0], &both->producer), CV_UNSUPPORTED);
  }
  open_pair(both, &params);
  assert_int_equal(grant(&both->producer, 4), CV_INVALID);
  cv_slot slot;
  assert_int_equal(acquire(&both->consumer, 0, 1, &slot), CV_INVALID);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->producer.limit == 4);
  int64_t symbols[9] = {0};
  cv_header header = {.seq = 0, .symbols = symbols, .symbol_count = 9};
  assert_int_equal(cv_channel_send(both->producer.channel, &header, NULL), CV_INVALID);
  assert_int_equal(acquire(&both->producer, 0, 1, &slot), CV_OK);
  assert_int_equal(cv_channel_send(both->producer.channel, &header, NULL), CV_INVALID);
  cv_tensor_header tensor = {.rank = 1, .dims = {5000}, .bytes = 5000};
  header = (cv_header){.seq = 0, .tensors = &tensor, .tensor_count = 1};
  assert_int_equal(cv_channel_send(both->producer.channel, &header, NULL), CV_INVALID);
  tensor.bytes = 100;
  tensor.offset = 1;
  assert_int_equal(cv_channel_send(both->producer.channel, &header, NULL), CV_INVALID);
  cv_channel_release(both->producer.channel, 0);
  assert_int_equal(send_bytes(&both->producer, 0, 10), CV_OK);
  assert_int_equal(grant(&both->consumer, 4), CV_OK);
  pump_until(both, both->consumer.received == 1);
  close_pair(both);
}

static void bad_addresses_are_refused(void **state) {
  pair *both = *state;
  uint8_t address[CV_ADDRESS_MAX], copy[CV_ADDRESS_MAX];
  size_t size;
  assert_int_equal(cv_transport_address(both->transports[1], address, 3, &size), CV_INVALID);
  assert_int_equal(cv_transport_address(both->transports[1], address, sizeof address, &size),
                   CV_OK);
  assert_int_equal(cv_transport_reach(both->transports[0], address, size), CV_OK);
  for (size_t cut = 0; cut < size; cut++)
    assert_int_equal(cv_transport_reach(both->transports[0], address, cut), CV_UNSUPPORTED);
  for (size_t i = 0; i < size; i++) {
    memcpy(copy, address, size);
    copy[i] ^= 0x41;
    cv_channel_params params = usual_params();
    cv_channel *channel = NULL;
    if (cv_transport_reach(both->transports[0], copy, size) == CV_OK) continue; /* shm: a token */
    assert_int_not_equal(cv_channel_open(both->transports[0], &params, copy, size, &channel),
                         CV_OK);
    assert_null(channel);
  }
  settle(both);
}

/* ---- each call fails once ---- */

/* One turn; the status of the end that failed, CV_TIMEOUT behind the deadline. */
static cv_status step(pair *both, int64_t deadline) {
  turn(both);
  if (both->producer.errors) return both->producer.error;
  if (both->consumer.errors) return both->consumer.error;
  return cv_clock_ns() > deadline ? CV_TIMEOUT : CV_OK;
}

static cv_status send_six(pair *both) {
  int64_t deadline = cv_clock_ns() + 5000000000;
  cv_status status = CV_OK;
  for (uint64_t seq = 0; seq < 6 && status == CV_OK;) {
    uint64_t bytes = seq < 3 ? 60 : 700000; /* for ucx: eager and rendezvous */
    status = send_bytes(&both->producer, seq, bytes);
    if (status == CV_OK) seq++;
    if (status == CV_AGAIN) status = step(both, deadline);
  }
  return status;
}

static cv_status until(pair *both, const int *happened) {
  int64_t deadline = cv_clock_ns() + 5000000000;
  while (*happened == 0) {
    turn(both);
    if (cv_clock_ns() > deadline) return CV_TIMEOUT;
  }
  return CV_OK;
}

/* A short life of a channel, with growth; any failure ends it early and cleanly. */
static cv_status short_life(pair *both) {
  cv_channel_params params = usual_params();
  end *producer = &both->producer, *consumer = &both->consumer;
  cv_status status = CV_OK;
  params.slot_bytes = 64;
  params.max_slot_bytes = 1u << 20;
  CV_TRY(open_transports(both));
  params.role = CV_CONSUMER;
  CV_TRY(open_end(both, &params, consumer));
  consumer->automatic = true;
  CV_TRY(grant(consumer, 4));
  params.role = CV_PRODUCER;
  CV_TRY(open_end(both, &params, producer));
  CV_TRY(send_six(both));
  cv_channel_close(producer->channel);
  CV_TRY(until(both, &consumer->errors));
  status = consumer->received == 6 && consumer->error == CV_CANCELED ? CV_OK : consumer->error;
out:
  return status;
}

static void each_failing_call_is_a_status(void **state) {
  const cv_transport_row *row = ((pair *)*state)->row;
  int before = count_fds();
  long n = 1;
  for (bool fired = true; fired; n++) {
    pair *both = calloc(1, sizeof *both);
    both->row = row;
    alarm(60);
    cv_fault_arm(n);
    cv_status status = short_life(both);
    fired = cv_fault_fired();
    cv_fault_arm(0);
    /* a refused connection may leave one end waiting: the control link's watchdog is for that */
    if (status == CV_OK) assert_int_equal(both->consumer.received, 6);
    if (!fired) assert_int_equal(status, CV_OK);
    close_transports(both);
    assert_null(both->producer.channel);
    assert_null(both->consumer.channel);
    free(both);
  }
  assert_int_equal(count_fds(), before);
  assert_true(n > 20);
  print_message("%ld calls failed one by one\n", n - 2);
}

#define EACH_TEST(X)                        \
  X(window_is_respected_out_of_order)       \
  X(grant_before_open_and_a_late_first_seq) \
  X(producer_may_come_first)                \
  X(tensors_of_all_kinds)                   \
  X(large_payload)                          \
  X(slots_grow_when_asked)                  \
  X(acquired_slot_grows_and_is_released)    \
  X(damage_is_noticed_by_the_checksum)      \
  X(slots_from_an_allocator)                \
  X(many_edges_both_ways)                   \
  X(last_message_arrives_before_the_close)  \
  X(consumer_closes_first)                  \
  X(close_with_much_in_flight)              \
  X(abort_with_much_in_flight)              \
  X(transport_closes_with_open_channels)    \
  X(unequal_plans_are_refused)              \
  X(wrong_use_is_a_status)                  \
  X(bad_addresses_are_refused)              \
  X(each_failing_call_is_a_status)

int main(int argc, char **argv) {
  int failed = 0;
  for (size_t i = 0; cv_transport_at(i) != NULL; i++) {
    void *row = (void *)(uintptr_t)cv_transport_at(i);
    const char *name = cv_transport_row_name(cv_transport_at(i));
    if (argc > 1 && strcmp(argv[1], name) != 0) continue;
#define X(test) {#test, test, setup, teardown, row},
    struct CMUnitTest tests[] = {EACH_TEST(X)};
#undef X
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    print_message("row %s\n", name);
    failed += cmocka_run_group_tests_name(name, tests, NULL, NULL);
  }
  return failed;
}
