/* The address of the ucx row: versions that do not speak to each other are refused by name. */
#include "tests/conformance/pair.h"

#include <xxhash.h>

enum { CHECKSUM_AT = 8, BODY_AT = 16 };

static void other_version_is_named(void **state) {
  (void)state;
  const cv_transport_row *row = cv_transport_find("ucx");
  cv_transport *transport;
  cv_channel *channel;
  uint8_t address[CV_ADDRESS_MAX];
  size_t size;
  if (row == NULL) skip();
  assert_int_equal(cv_transport_open(row, NULL, &transport), CV_OK);
  assert_int_equal(cv_transport_address(transport, address, sizeof address, &size), CV_OK);
  assert_int_equal(cv_transport_reach(transport, address, size), CV_OK);
  address[BODY_AT] = '9';
  assert_int_equal(cv_transport_reach(transport, address, size), CV_UNSUPPORTED); /* damaged */
  uint64_t sum = XXH3_64bits(address + BODY_AT, size - BODY_AT);
  memcpy(address + CHECKSUM_AT, &sum, sizeof sum);
  assert_int_equal(cv_transport_reach(transport, address, size), CV_VERSION);
  assert_non_null(strstr(cv_error_text(), "use one version"));
  assert_non_null(strstr(cv_error_text(), ", 9."));
  cv_channel_params params = usual_params();
  assert_int_equal(cv_channel_open(transport, &params, address, size, &channel), CV_VERSION);
  cv_transport_close(transport);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(other_version_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
