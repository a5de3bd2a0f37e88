#include "gateway/batch.h"

#include <string.h>

cv_status cv_batch_resize(const cv_port *port, const cv_tensor *tensor, int64_t items,
                          cv_tensor *out_tensor) {
  *out_tensor = *tensor;
  out_tensor->owned = false;
  out_tensor->data = NULL;
  if (port->batch_axis < 0 || tensor->absent) return CV_OK;
  int64_t *dim = &out_tensor->dims[port->batch_axis], count;
  if (__builtin_mul_overflow(port->batch_factor, items, dim) ||
      !cv_dims_count(tensor->rank, out_tensor->dims, &count) ||
      __builtin_mul_overflow((uint64_t)count, cv_dtype_size(tensor->dtype), &out_tensor->bytes))
    return cv_error(CV_INVALID, "%s with a batch of %lld is too large",
                    cv_tensor_shape_text(tensor).text, (long long)items);
  return CV_OK;
}

void cv_batch_copy(const cv_port *port, const cv_tensor *from, int64_t from_at, cv_tensor *to,
                   int64_t to_at, int64_t count) {
  if (from->absent || from->bytes == 0 || to->bytes == 0) return;
  int axis = port->batch_axis;
  if (axis < 0) {
    memcpy(to->data, from->data, from->bytes);
    return;
  }
  size_t outer = 1, inner = cv_dtype_size(from->dtype) * (size_t)port->batch_factor;
  for (int d = 0; d < axis; d++) outer *= (size_t)from->dims[d];
  for (int d = axis + 1; d < from->rank; d++) inner *= (size_t)from->dims[d];
  size_t from_row = (size_t)(from->dims[axis] / port->batch_factor) * inner;
  size_t to_row = (size_t)(to->dims[axis] / port->batch_factor) * inner;
  const char *source = (const char *)from->data + (size_t)from_at * inner;
  char *target = (char *)to->data + (size_t)to_at * inner;
  for (size_t o = 0; o < outer && count > 0; o++)
    memcpy(target + o * to_row, source + o * from_row, (size_t)count * inner);
}

bool cv_batch_mergeable(const cv_port *port, const cv_tensor *a, const cv_tensor *b) {
  if (a->dtype != b->dtype || a->rank != b->rank || a->absent != b->absent) return false;
  for (int d = 0; d < a->rank; d++)
    if (d != port->batch_axis && a->dims[d] != b->dims[d]) return false;
  if (port->batch_axis >= 0 || a->absent || a->bytes == 0) return true;
  return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}
