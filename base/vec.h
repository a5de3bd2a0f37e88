/* Growable arrays: `cv_vec(int) v = {0}; cv_vec_push(&v, 3)`. Zero-initialise; free with
 * cv_vec_deinit. */
#ifndef CV_BASE_VEC_H
#define CV_BASE_VEC_H

#include <stddef.h>

#include "base/alloc.h"

#define cv_vec(type) \
  struct {           \
    type *data;      \
    size_t len, cap; \
  }

/* Makes room for `extra` more elements: true, or false when out of memory (the vector is
 * unchanged). */
#define cv_vec_reserve(v, extra) \
  cv_vec_grow((void **)(void *)&(v)->data, &(v)->cap, (v)->len + (extra), sizeof *(v)->data)
/* Appends: true, or false when out of memory. */
#define cv_vec_push(v, ...) \
  (cv_vec_reserve(v, 1) ? ((v)->data[(v)->len++] = (__VA_ARGS__), true) : false)
#define cv_vec_deinit(v) (cv_free((v)->data), (v)->data = NULL, (v)->len = (v)->cap = 0)

CV_NODISCARD bool cv_vec_grow(void **data, size_t *cap, size_t need, size_t size);

#endif
