/* The decoder of message headers takes any bytes; what it accepts, it writes again as it was. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transport/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { SYMBOLS = 64, TENSORS = 64 };
  int64_t symbols[SYMBOLS];
  cv_tensor_header tensors[TENSORS];
  cv_header header = {.symbols = symbols, .tensors = tensors};
  if (cv_header_decode(data, size, SYMBOLS, TENSORS, &header) != CV_OK) return 0;
  size_t again;
  uint8_t *copy = malloc(size);
  if (copy == NULL) return 0;
  if (cv_header_encode(&header, copy, size, &again) != CV_OK) abort();
  if (again != size || memcmp(copy, data, size) != 0) abort();
  free(copy);
  return 0;
}
