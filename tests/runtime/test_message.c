/* What comes on an edge may be anything. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "runtime/message.h"
#include "tests/each_fault.h"
#include "tests/gateway/fake.h"

static void test_round_trip_and_damage(void **state) {
  (void)state;
  cv_program *p = chain_program(false);
  cv_edges edges;
  cv_message message;
  cv_span spans[2] = {{0, 3}, {4, 7}};
  assert_int_equal(cv_edges_derive(p, spans, 2, NULL, &edges), CV_OK);
  const cv_edge *edge = cv_edges_find(&edges, 0, CV_EDGE_GATEWAY); /* x and h1 */
  float data[8] = {1, 2, 3};
  uint8_t memory[256];
  cv_slot slot = {memory, sizeof memory};
  cv_tensor tensor = {.dtype = CV_F32, .rank = 2, .dims = {2, 4}, .data = data, .bytes = 32}, back;
  assert_int_equal(cv_message_init(&message, edge), CV_OK);
  cv_message_set(&message, 0, &tensor);
  tensor.absent = true;
  cv_message_set(&message, 1, &tensor);
  assert_int_equal(cv_message_layout(&message), CV_OK);
  assert_int_equal(message.bytes, 32);
  assert_int_equal(cv_message_check(p, edge, &message.header, slot), CV_OK);
  back = cv_message_tensor(&message.header, slot, 0);
  assert_ptr_equal(back.data, memory);
  assert_int_equal(back.dims[1], 4);
  assert_true(cv_message_tensor(&message.header, slot, 1).absent);
  cv_tensor_header *first = &message.header.tensors[0], good = *first;
  first->dtype = CV_I64;
  assert_int_equal(cv_message_check(p, edge, &message.header, slot), CV_CORRUPT);
  *first = good;
  first->rank = 1;
  assert_int_equal(cv_message_check(p, edge, &message.header, slot), CV_CORRUPT);
  *first = good;
  first->dims[0] = 3; /* more elements than bytes */
  assert_int_equal(cv_message_check(p, edge, &message.header, slot), CV_CORRUPT);
  first->dims[0] = -1;
  assert_int_equal(cv_message_check(p, edge, &message.header, slot), CV_CORRUPT);
  *first = good;
  first->offset = 256; /* behind the slot */
  assert_int_equal(cv_message_check(p, edge, &message.header, slot), CV_CORRUPT);
  *first = good;
  assert_int_equal(cv_message_check(p, edge, &message.header, (cv_slot){memory, 16}), CV_CORRUPT);
  message.header.tensor_count = 1;
  assert_int_equal(cv_message_check(p, edge, &message.header, slot), CV_CORRUPT);
  message.header.tensor_count = 2;
  message.header.symbol_count = 5;
  assert_int_equal(cv_message_check(p, edge, &message.header, slot), CV_CORRUPT);
  cv_message_deinit(&message);
  cv_edges_deinit(&edges);
  cv_program_destroy(p);
}

static void test_failure_flags(void **state) {
  (void)state;
  uint32_t flags = cv_message_failure(CV_PEER_LOST, 17) | CV_HEADER_LAST;
  assert_int_equal(flags & ~(CV_HEADER_USER | CV_HEADER_LAST), 0);
  assert_int_equal(cv_message_status(flags), CV_PEER_LOST);
  assert_int_equal(cv_message_stage(flags), 17);
  assert_int_equal(cv_message_status(CV_HEADER_LAST), CV_OK);
}

static void test_describe(void **state) {
  (void)state;
  cv_program *p = chain_program(false);
  cv_tensor tensor;
  int64_t batch = 5;
  assert_int_equal(cv_message_describe(p, 2, &batch, &tensor), CV_OK);
  assert_int_equal(tensor.bytes, 80);
  batch = -4;
  assert_int_equal(cv_message_describe(p, 2, &batch, &tensor), CV_INVALID);
  p->values[2].guard = sample_const(p, 0);
  assert_int_equal(cv_message_describe(p, 2, &batch, &tensor), CV_OK);
  assert_true(tensor.absent);
  assert_int_equal(tensor.bytes, 0);
  cv_program_destroy(p);
}

static cv_status init(void *arg) {
  cv_message message;
  cv_status status = cv_message_init(&message, arg);
  cv_message_deinit(&message);
  return status;
}

static void test_each_fault(void **state) {
  (void)state;
  assert_int_equal(each_fault(init, &(cv_edge){.n_values = 2}), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip_and_damage), cmocka_unit_test(test_failure_flags),
      cmocka_unit_test(test_describe), cmocka_unit_test(test_each_fault)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
