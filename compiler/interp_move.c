/* The interpreter's MOVE, GATHER and SHAPE ops. */
#include <inttypes.h>
#include <string.h>

#include "compiler/interp_internal.h"
#include "runtime/half.h"

void interp_strides(int rank, const int64_t *dims, int64_t *out_strides) {
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    out_strides[i] = stride;
    stride *= dims[i] > 0 ? dims[i] : 1;
  }
}

bool interp_next(int rank, const int64_t *dims, int64_t *index) {
  for (int i = rank - 1; i >= 0; i--) {
    if (++index[i] < dims[i]) return true;
    index[i] = 0;
  }
  return false;
}

void interp_copy(int rank, const int64_t *dims, const interp_box *to, const interp_box *from,
                 size_t size) {
  int64_t index[CV_MAX_RANK] = {0}, width = rank > 0 ? dims[rank - 1] : 1, bytes = (int64_t)size;
  int64_t to_step = rank > 0 ? to->strides[rank - 1] : 1;
  int64_t from_step = rank > 0 ? from->strides[rank - 1] : 1;
  for (int i = 0; i < rank; i++) {
    if (dims[i] == 0) return;
  }
  do {
    int64_t t = 0, f = 0;
    for (int i = 0; i < rank - 1; i++) {
      t += index[i] * to->strides[i];
      f += index[i] * from->strides[i];
    }
    if (to_step == 1 && from_step == 1) {
      memcpy(to->data + t * bytes, from->data + f * bytes, (size_t)width * size);
      continue;
    }
    for (int64_t k = 0; k < width; k++) {
      memcpy(to->data + (t + k * to_step) * bytes, from->data + (f + k * from_step) * bytes, size);
    }
  } while (interp_next(rank - 1, dims, index));
}

/* The tensor's elements from the first on. */
static interp_box box_of(const cv_tensor *tensor) {
  interp_box box = {.data = tensor->data};
  interp_strides(tensor->rank, tensor->dims, box.strides);
  return box;
}

static cv_status move_slice(const interp_call *call, size_t size) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  const cv_attr *steps = cv_node_attr(call->node, CV_ATTR_STEPS);
  int64_t starts[CV_MAX_RANK], offset = 0;
  interp_box from = box_of(x), to = box_of(y);
  cv_status status = interp_eval_list(call, CV_ATTR_STARTS, starts);
  if (status != CV_OK) return status;
  if (interp_count(y) == 0) return CV_OK;
  for (int i = 0; i < x->rank; i++) {
    int64_t last, way;
    bool inside = !__builtin_mul_overflow(y->dims[i] - 1, steps->ints[i], &way) &&
                  !__builtin_add_overflow(starts[i], way, &last) && starts[i] >= 0 &&
                  starts[i] < x->dims[i] && last >= 0 && last < x->dims[i];
    if (!inside) {
      return interp_fail(call,
                         "dim %d from %" PRId64 " by step %" PRId64 " leaves the extent %" PRId64,
                         i, starts[i], steps->ints[i], x->dims[i]);
    }
    offset += starts[i] * from.strides[i];
    from.strides[i] = y->dims[i] == 1 ? 0 : from.strides[i] * steps->ints[i];
  }
  from.data = interp_out(x, offset);
  interp_copy(y->rank, y->dims, &to, &from, size);
  return CV_OK;
}

static cv_status move_pad(const interp_call *call, size_t size) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  int64_t lo[CV_MAX_RANK], hi[CV_MAX_RANK], offset = 0;
  interp_box from = box_of(x), to = box_of(y);
  cv_status status = interp_eval_list(call, CV_ATTR_LO, lo);
  if (status == CV_OK) status = interp_eval_list(call, CV_ATTR_HI, hi);
  if (status != CV_OK) return status;
  int64_t n = interp_count(y);
  for (int64_t i = 0; i < n; i++) memcpy(interp_out(y, i), call->ins[1].data, size);
  for (int i = 0; i < x->rank; i++) {
    if (lo[i] < 0 || hi[i] < 0) {
      return interp_fail(call, "dim %d is padded by %" PRId64 " and %" PRId64, i, lo[i], hi[i]);
    }
    offset += lo[i] * to.strides[i];
  }
  if (interp_count(x) == 0) return CV_OK;
  to.data = interp_out(y, offset);
  interp_copy(x->rank, x->dims, &to, &from, size);
  return CV_OK;
}

static void move_concat(const interp_call *call, size_t size) {
  const cv_tensor *y = &call->outs[0];
  interp_box to = box_of(y);
  int64_t axis = cv_node_int(call->node, CV_ATTR_AXIS), at = 0;
  for (uint32_t i = 0; i < call->node->n_ins; i++) {
    const cv_tensor *x = &call->ins[i];
    interp_box from = box_of(x);
    if (interp_count(x) > 0) {
      to.data = interp_out(y, at * to.strides[axis]);
      interp_copy(x->rank, x->dims, &to, &from, size);
    }
    at += x->dims[axis];
  }
}

cv_status interp_move(const interp_call *call) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  const cv_node *node = call->node;
  size_t size = cv_dtype_size(y->dtype);
  if (node->op == CV_OP_slice) return move_slice(call, size);
  if (node->op == CV_OP_pad) return move_pad(call, size);
  if (node->op == CV_OP_concat) {
    move_concat(call, size);
    return CV_OK;
  }
  if (node->op == CV_OP_reshape) {
    if (x->bytes != y->bytes) {
      return interp_fail(call, "%s has not the number of elements of %s",
                         cv_tensor_shape_text(x).text, cv_tensor_shape_text(y).text);
    }
    if (y->bytes > 0) memcpy(y->data, x->data, y->bytes);
    return CV_OK;
  }
  interp_box own = box_of(x), from = own, to = box_of(y);
  for (int i = 0; i < x->rank; i++) {
    if (node->op == CV_OP_transpose) {
      from.strides[i] = own.strides[cv_node_attr(node, CV_ATTR_PERM)->ints[i]];
    } else {
      if (x->dims[i] != 1 && x->dims[i] != y->dims[i]) {
        return interp_fail(call, "%s cannot be broadcast to %s", cv_tensor_shape_text(x).text,
                           cv_tensor_shape_text(y).text);
      }
      from.strides[i] = x->dims[i] == 1 ? 0 : own.strides[i];
    }
  }
  interp_copy(y->rank, y->dims, &to, &from, size);
  return CV_OK;
}

/* ---- GATHER ---- */

/* Index i of `idx` within an extent; negative ones count from the end. */
static cv_status index_at(const interp_call *call, int64_t i, int64_t extent, int64_t *out) {
  const cv_tensor *idx = &call->ins[1];
  int64_t at = cv_element_to_int(idx->dtype, interp_at(idx, i));
  *out = at < 0 ? at + extent : at;
  if (*out >= 0 && *out < extent) return CV_OK;
  return interp_fail(call, "index %" PRId64 " is outside of the extent %" PRId64, at, extent);
}

static cv_status gather_axis(const interp_call *call, size_t size) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  int axis = (int)cv_node_int(call->node, CV_ATTR_AXIS);
  int64_t outer = 1, inner = 1, n = interp_count(&call->ins[1]), extent = x->dims[axis];
  for (int i = 0; i < axis; i++) outer *= x->dims[i];
  for (int i = axis + 1; i < x->rank; i++) inner *= x->dims[i];
  if (interp_count(y) == 0) return CV_OK;
  for (int64_t k = 0; k < n; k++) {
    int64_t at;
    cv_status status = index_at(call, k, extent, &at);
    if (status != CV_OK) return status;
    for (int64_t o = 0; o < outer; o++) {
      memcpy(interp_out(y, (o * n + k) * inner), interp_at(x, (o * extent + at) * inner),
             (size_t)inner * size);
    }
  }
  return CV_OK;
}

static cv_status gather_nd(const interp_call *call, size_t size) {
  const cv_tensor *x = &call->ins[0], *idx = &call->ins[1], *y = &call->outs[0];
  int batch_dims = (int)cv_node_int(call->node, CV_ATTR_BATCH_DIMS);
  int64_t strides[CV_MAX_RANK], batches = 1, inner = 1, k = idx->dims[idx->rank - 1];
  interp_strides(x->rank, x->dims, strides);
  for (int i = 0; i < batch_dims; i++) batches *= x->dims[i];
  for (int i = batch_dims + (int)k; i < x->rank; i++) inner *= x->dims[i];
  if (interp_count(y) == 0) return CV_OK;
  int64_t rows = interp_count(y) / inner, a_batch = rows / batches;
  int64_t stride = batch_dims > 0 ? strides[batch_dims - 1] : 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t offset = r / a_batch * stride;
    for (int64_t c = 0; c < k; c++) {
      int64_t at;
      cv_status status = index_at(call, r * k + c, x->dims[batch_dims + c], &at);
      if (status != CV_OK) return status;
      offset += at * strides[batch_dims + c];
    }
    memcpy(interp_out(y, r * inner), interp_at(x, offset), (size_t)inner * size);
  }
  return CV_OK;
}

cv_status interp_gather(const interp_call *call) {
  size_t size = cv_dtype_size(call->outs[0].dtype);
  return call->node->op == CV_OP_gather ? gather_axis(call, size) : gather_nd(call, size);
}

/* ---- SHAPE ---- */

cv_status interp_shape(const interp_call *call) {
  const cv_tensor *y = &call->outs[0];
  if (call->node->op == CV_OP_extents) return interp_eval_list(call, CV_ATTR_EXPRS, y->data);
  int64_t axis = cv_node_int(call->node, CV_ATTR_AXIS), index[CV_MAX_RANK] = {0};
  int64_t n = interp_count(y);
  for (int64_t i = 0; i < n; i++) {
    cv_element_from_int(y->dtype, index[axis], interp_out(y, i));
    interp_next(y->rank, y->dims, index);
  }
  return CV_OK;
}
