/* The interpreter's reductions, scans and arg. Floats accumulate in double, integers wrap. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/interp_internal.h"
#include "runtime/half.h"

double interp_join_float(const char *kind, double a, double b) {
  if (kind[0] == 's' || kind[0] == 'a') return a + b;
  if (strcmp(kind, "max") == 0) return isnan(a) || a > b ? a : b;
  if (strcmp(kind, "min") == 0) return isnan(a) || a < b ? a : b;
  return a * b;
}

int64_t interp_join_int(const char *kind, cv_dtype dtype, int64_t a, int64_t b) {
  bool less = dtype == CV_U64 ? (uint64_t)a < (uint64_t)b : a < b;
  if (strcmp(kind, "any") == 0) return a | b;
  if (strcmp(kind, "all") == 0) return a & b;
  if (kind[0] == 's' || kind[0] == 'a') return wrap_add(a, b);
  if (strcmp(kind, "max") == 0) return less ? b : a;
  if (strcmp(kind, "min") == 0) return less ? a : b;
  return wrap_mul(a, b);
}

static double float_start(const char *kind) {
  if (strcmp(kind, "max") == 0) return -INFINITY;
  if (strcmp(kind, "min") == 0) return INFINITY;
  return kind[0] == 's' ? 0 : 1;
}

/* An integer's lowest or highest, as its bits in int64. */
static int64_t int_end(cv_dtype dtype, bool highest) {
  int bits = 8 * (int)cv_dtype_size(dtype);
  if (cv_dtype_kind(dtype) == 'u') {
    return !highest ? 0 : bits == 64 ? -1 : (int64_t)(((uint64_t)1 << bits) - 1);
  }
  int64_t high = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
  return highest ? high : -high - 1;
}

static int64_t int_start(const char *kind, cv_dtype dtype) {
  if (strcmp(kind, "max") == 0) return int_end(dtype, false);
  if (strcmp(kind, "min") == 0) return int_end(dtype, true);
  return kind[0] == 's' || strcmp(kind, "any") == 0 ? 0 : 1;
}

cv_status interp_reduce(const interp_call *call) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  const cv_attr *axes = cv_node_attr(call->node, CV_ATTR_AXES);
  const char *kind = cv_node_text(call->node, CV_ATTR_KIND);
  int64_t strides[CV_MAX_RANK] = {0}, index[CV_MAX_RANK] = {0}, stride = 1;
  int64_t n = interp_count(x), count = interp_count(y);
  uint32_t reduced = 0;
  bool is_float = cv_dtype_is_float(x->dtype);
  for (uint32_t i = 0; i < axes->count; i++) reduced |= 1U << axes->ints[i];
  for (int i = x->rank - 1; i >= 0; i--) {
    if ((reduced >> i & 1) != 0) continue;
    strides[i] = stride;
    stride *= x->dims[i] > 0 ? x->dims[i] : 1;
  }
  union {
    double f;
    int64_t i;
  } *sums = cv_alloc_or_die((size_t)count + 1, sizeof *sums);
  for (int64_t i = 0; i < count; i++) {
    if (is_float) {
      sums[i].f = float_start(kind);
    } else {
      sums[i].i = int_start(kind, x->dtype);
    }
  }
  for (int64_t i = 0; i < n; i++, interp_next(x->rank, x->dims, index)) {
    int64_t at = 0;
    for (int k = 0; k < x->rank; k++) at += index[k] * strides[k];
    if (is_float) {
      sums[at].f =
          interp_join_float(kind, sums[at].f, cv_element_to_double(x->dtype, interp_at(x, i)));
    } else {
      int64_t value = cv_element_to_int(x->dtype, interp_at(x, i));
      sums[at].i = interp_join_int(kind, x->dtype, sums[at].i, value);
    }
  }
  for (int64_t i = 0; i < count; i++) {
    if (is_float) {
      cv_element_from_double(y->dtype, sums[i].f, interp_out(y, i));
    } else {
      cv_element_from_int(y->dtype, sums[i].i, interp_out(y, i));
    }
  }
  cv_free(sums);
  return CV_OK;
}

/* ---- along one axis ---- */

/* x as [outer, extent, inner]. */
typedef struct {
  int64_t outer, extent, inner;
} rows;

static rows rows_of(const cv_tensor *x, int64_t axis) {
  rows r = {.outer = 1, .extent = x->dims[axis], .inner = 1};
  for (int i = 0; i < axis; i++) r.outer *= x->dims[i];
  for (int i = (int)axis + 1; i < x->rank; i++) r.inner *= x->dims[i];
  return r;
}

static void scan_row(const interp_call *call, const char *kind, int64_t first, const rows *r) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  bool exclusive = cv_node_int(call->node, CV_ATTR_EXCLUSIVE) != 0;
  bool reverse = cv_node_int(call->node, CV_ATTR_REVERSE) != 0;
  double f = float_start(kind);
  int64_t i = int_start(kind, x->dtype);
  for (int64_t k = 0; k < r->extent; k++) {
    int64_t at = first + (reverse ? r->extent - 1 - k : k) * r->inner;
    double next_f = f;
    int64_t next_i = i;
    if (cv_dtype_is_float(x->dtype)) {
      next_f = interp_join_float(kind, f, cv_element_to_double(x->dtype, interp_at(x, at)));
      cv_element_from_double(y->dtype, exclusive ? f : next_f, interp_out(y, at));
    } else {
      next_i = interp_join_int(kind, x->dtype, i, cv_element_to_int(x->dtype, interp_at(x, at)));
      cv_element_from_int(y->dtype, exclusive ? i : next_i, interp_out(y, at));
    }
    f = next_f;
    i = next_i;
  }
}

/* The extremum's position; a NaN is above all. */
static int64_t arg_row(const interp_call *call, bool largest, int64_t first, const rows *r) {
  const cv_tensor *x = &call->ins[0];
  bool last = cv_node_int(call->node, CV_ATTR_LAST) != 0;
  int64_t best = 0;
  for (int64_t k = 1; k < r->extent; k++) {
    int order = interp_order(x->dtype, interp_at(x, first + k * r->inner),
                             interp_at(x, first + best * r->inner));
    if (!largest) order = -order;
    if (order > 0 || (order == 0 && last)) best = k;
  }
  return best;
}

cv_status interp_scan(const interp_call *call) {
  const cv_tensor *x = &call->ins[0];
  const char *kind = cv_node_text(call->node, CV_ATTR_KIND);
  rows r = rows_of(x, cv_node_int(call->node, CV_ATTR_AXIS));
  bool arg = call->node->op == CV_OP_arg;
  int64_t *positions = call->outs[0].data;
  if (arg && r.extent == 0 && interp_count(call->outs) > 0) {
    return interp_fail(call, "there is no extremum of no elements");
  }
  for (int64_t o = 0; o < r.outer; o++) {
    for (int64_t i = 0; i < r.inner; i++) {
      int64_t first = o * r.extent * r.inner + i;
      if (arg) {
        positions[o * r.inner + i] = arg_row(call, strcmp(kind, "max") == 0, first, &r);
      } else {
        scan_row(call, kind, first, &r);
      }
    }
  }
  return CV_OK;
}
