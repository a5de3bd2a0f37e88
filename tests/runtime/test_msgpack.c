/* Our msgpack is msgpack: what we write, msgpack-c reads, and the other way round. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <msgpack.h>
#include <string.h>

#include "runtime/msgpack.h"

static const uint64_t naturals[] = {
    0, 1, 127, 128, 255, 256, 65535, 65536, UINT32_MAX, UINT32_MAX + 1ull, INT64_MAX, UINT64_MAX};
static const int64_t integers[] = {
    -1, -32, -33, -128, -129, -32768, -32769, -65536, INT32_MIN, INT32_MIN - 1ll, INT64_MIN, 5};
static const uint32_t lengths[] = {0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536};
enum { NATURALS = 12, INTEGERS = 12, LENGTHS = 10 };

static char filler[65536 + 1];

/* A text of this length, which is in `filler` until the next call. */
static const char *text_of(uint32_t length) {
  memset(filler, 'x', sizeof filler);
  filler[length] = 0;
  return filler;
}

static void msgpack_c_reads_ours(void **state) {
  (void)state;
  cv_str out = {0};
  for (int i = 0; i < NATURALS; i++) cv_mp_put_uint(&out, naturals[i]);
  for (int i = 0; i < INTEGERS; i++) cv_mp_put_int(&out, integers[i]);
  for (int i = 0; i < LENGTHS; i++) cv_mp_put_text(&out, text_of(lengths[i]));
  for (int i = 0; i < LENGTHS; i++) cv_mp_put_bytes(&out, filler, lengths[i]);
  for (int i = 0; i < LENGTHS; i++) {
    cv_mp_put_array(&out, lengths[i]);
    for (uint32_t k = 0; k < lengths[i]; k++) cv_mp_put_nil(&out);
  }
  cv_mp_put_map(&out, 1);
  cv_mp_put_double(&out, -2.5);
  cv_mp_put_bool(&out, true);
  assert_false(out.failed);
  msgpack_unpacked got;
  msgpack_unpacked_init(&got);
  size_t at = 0;
#define NEXT(kind)                                                                              \
  (assert_int_equal(msgpack_unpack_next(&got, out.data, out.len, &at), MSGPACK_UNPACK_SUCCESS), \
   assert_int_equal(got.data.type, MSGPACK_OBJECT_##kind))
  for (int i = 0; i < NATURALS; i++) {
    NEXT(POSITIVE_INTEGER);
    assert_true(got.data.via.u64 == naturals[i]);
  }
  for (int i = 0; i < INTEGERS; i++) {
    if (integers[i] < 0)
      NEXT(NEGATIVE_INTEGER);
    else
      NEXT(POSITIVE_INTEGER);
    assert_true(got.data.via.i64 == integers[i]);
  }
  for (int i = 0; i < LENGTHS; i++) {
    NEXT(STR);
    assert_int_equal(got.data.via.str.size, lengths[i]);
  }
  for (int i = 0; i < LENGTHS; i++) {
    NEXT(BIN);
    assert_int_equal(got.data.via.bin.size, lengths[i]);
  }
  for (int i = 0; i < LENGTHS; i++) {
    NEXT(ARRAY);
    assert_int_equal(got.data.via.array.size, lengths[i]);
  }
  NEXT(MAP);
  assert_true(got.data.via.map.ptr[0].key.via.f64 == -2.5);
  assert_true(got.data.via.map.ptr[0].val.via.boolean);
  assert_int_equal(at, out.len);
  msgpack_unpacked_destroy(&got);
  cv_str_deinit(&out);
}

static void we_read_msgpack_c(void **state) {
  (void)state;
  msgpack_sbuffer buffer;
  msgpack_packer packer;
  msgpack_sbuffer_init(&buffer);
  msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
  for (int i = 0; i < NATURALS; i++) msgpack_pack_uint64(&packer, naturals[i]);
  for (int i = 0; i < INTEGERS; i++) msgpack_pack_int64(&packer, integers[i]);
  for (int i = 0; i < LENGTHS; i++)
    msgpack_pack_str_with_body(&packer, text_of(lengths[i]), lengths[i]);
  for (int i = 0; i < LENGTHS; i++) msgpack_pack_bin_with_body(&packer, filler, lengths[i]);
  msgpack_pack_map(&packer, 1);
  msgpack_pack_double(&packer, 0.1);
  msgpack_pack_array(&packer, 2);
  msgpack_pack_false(&packer);
  msgpack_pack_nil(&packer);
  cv_mp_reader in = {.at = (const uint8_t *)buffer.data,
                     .end = (const uint8_t *)buffer.data + buffer.size};
  uint32_t length;
  for (int i = 0; i < NATURALS; i++) assert_true(cv_mp_uint(&in) == naturals[i]);
  for (int i = 0; i < INTEGERS; i++) assert_true(cv_mp_int(&in) == integers[i]);
  for (int i = 0; i < LENGTHS; i++) {
    cv_mp_text(&in, &length);
    assert_int_equal(length, lengths[i]);
  }
  for (int i = 0; i < LENGTHS; i++) {
    cv_mp_bytes(&in, &length);
    assert_int_equal(length, lengths[i]);
  }
  assert_int_equal(cv_mp_map(&in), 1);
  assert_true(cv_mp_double(&in) == 0.1);
  cv_mp_expect_array(&in, 2);
  assert_false(cv_mp_bool(&in));
  assert_true(cv_mp_nil(&in));
  assert_false(in.failed);
  assert_ptr_equal(in.at, in.end);
  msgpack_sbuffer_destroy(&buffer);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(msgpack_c_reads_ours),
                                     cmocka_unit_test(we_read_msgpack_c)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
