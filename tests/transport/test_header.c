#include "transport/header.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static int64_t symbols[2] = {3, -1};
static cv_tensor_header tensors[4] = {
    {.dtype = 1, .rank = 2, .dims = {3, 5}, .bytes = 60},
    {.dtype = 7, .rank = 0, .bytes = 8},
    {.dtype = 7, .rank = 1, .dims = {0}},
    {.dtype = 1, .rank = 8, .dims = {1, 2, 3, 4, 5, 6, 7, 8}, .absent = true},
};

static cv_header sample(void) {
  return (cv_header){.incarnation = 1,
                     .deployment = UINT64_MAX,
                     .epoch_term = 3,
                     .epoch_number = 4,
                     .edge = 5,
                     .seq = 6,
                     .session = 7,
                     .position = 8,
                     .flags = CV_HEADER_LAST | CV_HEADER_USER,
                     .checksum = 9,
                     .symbol_count = 2,
                     .tensor_count = 4,
                     .symbols = symbols,
                     .tensors = tensors};
}

/* The encoded sample in memory of just its size. */
static uint8_t *encoded(size_t *out_size) {
  cv_header header = sample();
  uint64_t payload;
  uint8_t wide[1024];
  assert_int_equal(cv_header_layout(&header, &payload), CV_OK);
  assert_int_equal(payload, 64 + 8);
  assert_int_equal(cv_header_payload(&header), payload);
  assert_int_equal(cv_header_encode(&header, wide, sizeof wide, out_size), CV_OK);
  assert_true(*out_size <= cv_header_bound(2, 4));
  uint8_t *data = malloc(*out_size);
  memcpy(data, wide, *out_size);
  return data;
}

/* Field by field: the bytes between fields say nothing. */
static void assert_header_equal(const cv_header *got, const cv_header *want) {
#define SAME(field) assert_int_equal(got->field, want->field)
  SAME(incarnation);
  SAME(deployment);
  SAME(epoch_term);
  SAME(epoch_number);
  SAME(edge);
  SAME(seq);
  SAME(session);
  SAME(position);
  SAME(flags);
  SAME(checksum);
  SAME(symbol_count);
  SAME(tensor_count);
  assert_memory_equal(got->symbols, want->symbols, want->symbol_count * sizeof *want->symbols);
  for (uint32_t i = 0; i < want->tensor_count; i++) {
    SAME(tensors[i].dtype);
    SAME(tensors[i].rank);
    SAME(tensors[i].absent);
    SAME(tensors[i].bytes);
    SAME(tensors[i].offset);
    assert_memory_equal(got->tensors[i].dims, want->tensors[i].dims,
                        want->tensors[i].rank * sizeof *want->tensors[i].dims);
  }
#undef SAME
}

static void round_trip(void **state) {
  (void)state;
  size_t size;
  uint8_t *data = encoded(&size);
  int64_t got_symbols[2];
  cv_tensor_header got_tensors[4];
  cv_header got = {.symbols = got_symbols, .tensors = got_tensors}, want = sample();
  assert_int_equal(cv_header_decode(data, size, 2, 4, &got), CV_OK);
  assert_header_equal(&got, &want);
  free(data);
}

static void small_room_and_agreed_counts(void **state) {
  (void)state;
  size_t size, again;
  uint8_t *data = encoded(&size);
  cv_header header = sample();
  uint8_t room[1024];
  assert_int_equal(cv_header_encode(&header, room, size - 1, &again), CV_INVALID);
  assert_int_equal(cv_header_encode(&header, room, size, &again), CV_OK);
  assert_int_equal(again, size);
  int64_t got_symbols[2];
  cv_tensor_header got_tensors[4];
  cv_header got = {.symbols = got_symbols, .tensors = got_tensors};
  assert_int_equal(cv_header_decode(data, size, 1, 4, &got), CV_CORRUPT);
  assert_int_equal(cv_header_decode(data, size, 2, 3, &got), CV_CORRUPT);
  assert_int_equal(got.tensor_count, 0);
  free(data);
}

static void every_cut_and_flipped_byte_is_survived(void **state) {
  (void)state;
  size_t size;
  uint8_t *data = encoded(&size);
  int64_t got_symbols[2];
  cv_tensor_header got_tensors[4];
  cv_header got = {.symbols = got_symbols, .tensors = got_tensors};
  for (size_t cut = 0; cut < size; cut++) {
    uint8_t *part = malloc(cut + 1);
    memcpy(part, data, cut);
    assert_int_equal(cv_header_decode(part, cut, 2, 4, &got), CV_CORRUPT);
    free(part);
  }
  for (size_t i = 0; i < size; i++)
    for (int bit = 0; bit < 8; bit++) {
      data[i] ^= (uint8_t)(1 << bit);
      cv_status status = cv_header_decode(data, size, 2, 4, &got);
      assert_true(status == CV_OK || status == CV_CORRUPT || status == CV_VERSION);
      if (i < 4) assert_int_equal(status, CV_CORRUPT);
      if (i == 4) assert_int_equal(status, CV_VERSION);
      data[i] ^= (uint8_t)(1 << bit);
    }
  free(data);
}

static void refused(cv_tensor_header tensor) {
  cv_header header = {.tensors = &tensor, .tensor_count = 1};
  uint8_t room[256];
  size_t size;
  assert_int_equal(cv_header_encode(&header, room, sizeof room, &size), CV_INVALID);
}

static void values_out_of_range(void **state) {
  (void)state;
  uint64_t big = CV_PAYLOAD_MAX;
  refused((cv_tensor_header){.rank = 9, .bytes = 1});
  refused((cv_tensor_header){.rank = 1, .dims = {-1}, .bytes = 1});
  refused((cv_tensor_header){.rank = 2, .dims = {INT64_MAX, 2}, .bytes = 1});
  refused((cv_tensor_header){.rank = 1, .dims = {0}, .bytes = 1});
  refused((cv_tensor_header){.rank = 1, .dims = {1}, .bytes = 0});
  refused((cv_tensor_header){.rank = 1, .dims = {1}, .bytes = 4, .absent = true});
  refused((cv_tensor_header){.rank = 1, .dims = {1}, .bytes = big + 1});
  refused((cv_tensor_header){.rank = 1, .dims = {1}, .bytes = 4, .offset = 32});
  refused((cv_tensor_header){.rank = 1, .dims = {1}, .bytes = 4, .offset = big});
  refused((cv_tensor_header){.rank = 1, .dims = {1}, .bytes = 4, .offset = UINT64_MAX - 63});
  cv_tensor_header two[2] = {{.bytes = 100}, {.bytes = 4, .offset = 64}};
  cv_header header = {.tensors = two, .tensor_count = 2};
  uint8_t room[256];
  size_t size;
  uint64_t payload;
  assert_int_equal(cv_header_encode(&header, room, sizeof room, &size), CV_INVALID);
  assert_int_equal(cv_header_layout(&header, &payload), CV_OK);
  assert_int_equal(two[1].offset, 128);
  assert_int_equal(payload, 132);
  header.flags = 1u << 7;
  assert_int_equal(cv_header_encode(&header, room, sizeof room, &size), CV_INVALID);
  header.flags = 0;
  header.symbol_count = CV_HEADER_SYMBOLS + 1;
  assert_int_equal(cv_header_encode(&header, room, sizeof room, &size), CV_INVALID);
  header.symbol_count = 0;
  two[1].bytes = CV_PAYLOAD_MAX;
  assert_int_equal(cv_header_layout(&header, &payload), CV_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(small_room_and_agreed_counts),
      cmocka_unit_test(every_cut_and_flipped_byte_is_survived),
      cmocka_unit_test(values_out_of_range),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
