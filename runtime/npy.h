/* numpy's .npy, versions 1 to 3, and .npz (zip of .npy, stored or deflated). Written from numpy's
 * format description and the zip application note. */
#ifndef CV_RUNTIME_NPY_H
#define CV_RUNTIME_NPY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "base/vec.h"
#include "runtime/tensor.h"

/* A tensor with a name (owned; NULL if it has none). */
typedef struct {
  char *name;
  cv_tensor tensor;
} cv_named_tensor;
typedef cv_vec(cv_named_tensor) cv_tensor_list;
/* Frees names, tensors and list. */
void cv_tensor_list_deinit(cv_tensor_list *list);

/* Parses the bytes of a .npy: an owned tensor, row-major, this machine's byte order. `where` begins
 * sentences. CV_INVALID, CV_UNSUPPORTED (a dtype we do not have), CV_NOMEM. */
CV_NODISCARD cv_status cv_npy_parse(const char *where, const void *data, size_t bytes,
                                    cv_tensor *out_tensor);
/* Appends the bytes of a .npy (version 1). */
void cv_npy_print(const cv_tensor *tensor, cv_str *out);

/* Appends the arrays of a .npz, in the order of its directory, named without ".npy". CV_INVALID,
 * CV_UNSUPPORTED, CV_NOMEM. The list is freed by the caller in any case. */
CV_NODISCARD cv_status cv_npz_parse(const char *where, const void *data, size_t bytes,
                                    cv_tensor_list *list);
/* Appends the bytes of a .npz of the tensors, deflated if asked for. CV_INVALID (4 GiB or more),
 * CV_NOMEM. */
CV_NODISCARD cv_status cv_npz_print(const cv_tensor_list *list, bool deflated, cv_str *out);

#endif
