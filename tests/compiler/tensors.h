/* Tensors made up for tests, and how far two are apart. */
#ifndef CV_TESTS_TENSORS_H
#define CV_TESTS_TENSORS_H

#include <math.h>
#include <string.h>

#include "runtime/half.h"
#include "runtime/tensor.h"

/* Largest |a - b| / (scale + |b|) where scale is 2 % of b's largest magnitude; integers must be
 * equal, or infinity is given. NaN equals NaN. */
static inline double difference(const cv_tensor *a, const cv_tensor *b) {
  if (a->dtype != b->dtype || a->rank != b->rank || a->bytes != b->bytes ||
      memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) != 0)
    return INFINITY;
  size_t size = cv_dtype_size(a->dtype), n = a->bytes / size;
  double most = 0, worst = 0;
  for (size_t i = 0; i < n; i++) {
    double y = fabs(cv_element_to_double(b->dtype, (const char *)b->data + i * size));
    if (y > most && isfinite(y)) most = y;
  }
  for (size_t i = 0; i < n; i++) {
    double x = cv_element_to_double(a->dtype, (const char *)a->data + i * size);
    double y = cv_element_to_double(b->dtype, (const char *)b->data + i * size);
    if (x == y || (isnan(x) && isnan(y))) continue;
    double off = fabs(x - y) / (0.02 * most + fabs(y));
    if (cv_dtype_kind(a->dtype) != 'f' || !(off <= worst)) worst = off;
    if (cv_dtype_kind(a->dtype) != 'f') return INFINITY;
  }
  return worst;
}

/* Fills a tensor from a small generator: floats in [-1, 1), integers in [0, below), bools. */
static inline void fill_tensor(cv_tensor *t, uint64_t *seed, int64_t below) {
  size_t size = cv_dtype_size(t->dtype);
  for (size_t i = 0; i < t->bytes / size; i++) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = *seed >> 33;
    char *at = (char *)t->data + i * size;
    if (cv_dtype_kind(t->dtype) == 'f')
      cv_element_from_double(t->dtype, (double)bits / (1u << 30) - 1, at);
    else
      cv_element_from_int(t->dtype, (int64_t)(bits % (uint64_t)below), at);
  }
}

#endif
