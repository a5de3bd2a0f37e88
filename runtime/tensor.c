#include "runtime/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

bool cv_dims_count(int rank, const int64_t *dims, int64_t *out_count) {
  *out_count = 0;
  bool empty = false;
  int64_t count = 1;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, dims[i], &count)) {
      return false;
    }
  }
  *out_count = empty ? 0 : count;
  return true;
}

cv_status cv_tensor_create(cv_dtype dtype, int rank, const int64_t *dims, cv_tensor *out_tensor) {
  *out_tensor = (cv_tensor){0};
  cv_tensor tensor = {.dtype = dtype, .owned = true};
  size_t size = cv_dtype_size(dtype);
  int64_t count = 0, bytes = 0;
  if (rank < 0 || rank > CV_MAX_RANK) {
    return cv_error(CV_INVALID, "a tensor of rank %d: at most %d dims are supported", rank,
                    CV_MAX_RANK);
  }
  if (size == 0) return cv_error(CV_INVALID, "a tensor of unknown dtype %d", (int)dtype);
  tensor.rank = (uint8_t)rank;
  for (int i = 0; i < rank; i++) tensor.dims[i] = dims[i];
  if (!cv_dims_count(rank, dims, &count) || __builtin_mul_overflow(count, (int64_t)size, &bytes)) {
    return cv_error(CV_INVALID, "the tensor %s has a negative or too large size",
                    cv_tensor_shape_text(&tensor).text);
  }
  tensor.bytes = (uint64_t)bytes;
  /* At least one vector of slack, so that `data` is never NULL. */
  size_t room = bytes == 0 ? 64 : (size_t)bytes;
  tensor.data = cv_alloc_aligned(64, room);
  if (tensor.data == NULL) {
    return cv_error(CV_NOMEM, "out of memory: %zu bytes needed for a tensor %s", room,
                    cv_tensor_shape_text(&tensor).text);
  }
  *out_tensor = tensor;
  return CV_OK;
}

cv_status cv_tensor_copy(const cv_tensor *tensor, cv_tensor *out_tensor) {
  if (tensor->absent) {
    *out_tensor = *tensor;
    out_tensor->owned = false;
    out_tensor->data = NULL;
    out_tensor->bytes = 0;
    return CV_OK;
  }
  cv_status status = cv_tensor_create(tensor->dtype, tensor->rank, tensor->dims, out_tensor);
  if (status != CV_OK) return status;
  if (tensor->bytes > 0) memcpy(out_tensor->data, tensor->data, out_tensor->bytes);
  return CV_OK;
}

void cv_tensor_deinit(cv_tensor *tensor) {
  if (tensor->owned) cv_free(tensor->data);
  *tensor = (cv_tensor){0};
}

cv_shape_text cv_tensor_shape_text(const cv_tensor *tensor) {
  cv_shape_text out;
  size_t size = sizeof out.text, at = 0;
  at += (size_t)snprintf(out.text, size, "%s[", cv_dtype_name(tensor->dtype));
  for (int i = 0; i < tensor->rank && i < CV_MAX_RANK && at + 24 < size; i++) {
    at += (size_t)snprintf(out.text + at, size - at, "%s%lld", i > 0 ? "," : "",
                           (long long)tensor->dims[i]);
  }
  snprintf(out.text + at, size - at, "%s]", tensor->absent ? " absent" : "");
  return out;
}
