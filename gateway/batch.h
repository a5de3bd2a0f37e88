/* Splitting and merging tensors along the batch axis of a port: an axis that holds factor x batch
 * elements, the items of the batch one behind the other. Pure; any thread. */
#ifndef CV_GATEWAY_BATCH_H
#define CV_GATEWAY_BATCH_H

#include "base/status.h"
#include "runtime/program.h"
#include "runtime/tensor.h"

/* The type of this tensor with another number of items in its batch; without data. A port without
 * batch axis keeps its type. CV_INVALID: too large. */
CV_NODISCARD cv_status cv_batch_resize(const cv_port *port, const cv_tensor *tensor, int64_t items,
                                       cv_tensor *out_tensor);
/* Copies `count` items from item `from_at` of one tensor to item `to_at` of another; types are
 * alike but for the items. A port without batch axis: the whole. */
void cv_batch_copy(const cv_port *port, const cv_tensor *from, int64_t from_at, cv_tensor *to,
                   int64_t to_at, int64_t count);
/* Whether two requests' tensors may share a micro-batch at this port: alike but for the items, or,
 * without batch axis, equal to the last byte. */
bool cv_batch_mergeable(const cv_port *port, const cv_tensor *a, const cv_tensor *b);

#endif
