/* The decoder of control messages takes any bytes; what it accepts can be sent again, and read
 * again as the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  cv_arena arena = {0};
  cv_str first = {0}, second = {0};
  cv_msg msg;
  if (cv_msg_decode(data, size, &arena, &msg) == CV_OK) {
    /* numbers may come in longer forms than ours, so only the second round must be equal */
    if (cv_msg_encode(&msg, &first) != CV_OK) abort();
    if (cv_msg_decode(first.data + CV_MSG_PREFIX, first.len - CV_MSG_PREFIX, &arena, &msg) != CV_OK)
      abort();
    if (cv_msg_encode(&msg, &second) != CV_OK) abort();
    if (first.len != second.len || memcmp(first.data, second.data, first.len) != 0) abort();
  }
  cv_arena_deinit(&arena);
  cv_str_deinit(&first);
  cv_str_deinit(&second);
  return 0;
}
