/* A tensor at run time: plain row-major, fixed-width dtype. */
#ifndef CV_RUNTIME_TENSOR_H
#define CV_RUNTIME_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "runtime/dtype.h"

typedef struct {
  cv_dtype dtype;
  uint8_t rank;
  bool absent; /* the value of an untaken branch: no bytes */
  bool owned;  /* `data` is freed by cv_tensor_deinit */
  int64_t dims[CV_MAX_RANK];
  void *data; /* element 0; 64-byte aligned where we allocated it */
  uint64_t bytes;
} cv_tensor;

/* Elements; false on overflow or a negative dim. A scalar has 1. */
bool cv_dims_count(int rank, const int64_t *dims, int64_t *out_count);
/* An owned, zeroed tensor. CV_NOMEM; CV_INVALID on overflow. */
CV_NODISCARD cv_status cv_tensor_create(cv_dtype dtype, int rank, const int64_t *dims,
                                        cv_tensor *out_tensor);
/* An owned copy. */
CV_NODISCARD cv_status cv_tensor_copy(const cv_tensor *tensor, cv_tensor *out_tensor);
/* Frees if owned; zeroes; accepts zeroed. */
void cv_tensor_deinit(cv_tensor *tensor);
/* "f32[2,3]" into a static-size buffer. */
typedef struct {
  char text[128];
} cv_shape_text;
cv_shape_text cv_tensor_shape_text(const cv_tensor *tensor);

#endif
