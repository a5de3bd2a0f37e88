/* The interpreter's routines: scatter, top-k, nonzero, unique, random. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/interp_internal.h"
#include "runtime/half.h"
#include "runtime/random.h"

int interp_order(cv_dtype dtype, const void *a, const void *b) {
  if (cv_dtype_is_float(dtype)) {
    double x = cv_element_to_double(dtype, a), y = cv_element_to_double(dtype, b);
    if (isnan(x) || isnan(y)) return (int)isnan(x) - (int)isnan(y);
    return (x > y) - (x < y);
  }
  int64_t x = cv_element_to_int(dtype, a), y = cv_element_to_int(dtype, b);
  if (dtype == CV_U64) return ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y);
  return (x > y) - (x < y);
}

/* ---- scatter_nd ---- */

static void put(const char *kind, cv_dtype dtype, void *to, const void *from) {
  if (strcmp(kind, "set") == 0) {
    memcpy(to, from, cv_dtype_size(dtype));
  } else if (cv_dtype_is_float(dtype)) {
    double a = cv_element_to_double(dtype, to), b = cv_element_to_double(dtype, from);
    cv_element_from_double(dtype, interp_join_float(kind, a, b), to);
  } else {
    int64_t a = cv_element_to_int(dtype, to), b = cv_element_to_int(dtype, from);
    cv_element_from_int(dtype, interp_join_int(kind[1] == 'u' ? "prod" : kind, dtype, a, b), to);
  }
}

static cv_status scatter_nd(const interp_call *call) {
  const cv_tensor *x = &call->ins[0], *idx = &call->ins[1], *updates = &call->ins[2];
  const cv_tensor *y = &call->outs[0];
  const char *kind = cv_node_text(call->node, CV_ATTR_KIND);
  int64_t strides[CV_MAX_RANK], inner = 1, k = idx->dims[idx->rank - 1];
  interp_strides(x->rank, x->dims, strides);
  if (x->bytes > 0) memcpy(y->data, x->data, x->bytes);
  for (int i = (int)k; i < x->rank; i++) inner *= x->dims[i];
  int64_t rows = inner > 0 ? interp_count(updates) / inner : 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t offset = 0;
    for (int64_t c = 0; c < k; c++) {
      int64_t at = cv_element_to_int(idx->dtype, interp_at(idx, r * k + c)), extent = x->dims[c];
      int64_t place = at < 0 ? at + extent : at;
      if (place < 0 || place >= extent) {
        return interp_fail(call, "index %" PRId64 " is outside of the extent %" PRId64, at, extent);
      }
      offset += place * strides[c];
    }
    for (int64_t i = 0; i < inner; i++) {
      put(kind, x->dtype, interp_out(y, offset + i), interp_at(updates, r * inner + i));
    }
  }
  return CV_OK;
}

/* ---- sorting ---- */

typedef struct {
  const cv_tensor *x;
  int64_t first, step;
  int sign; /* 1 rising, -1 falling */
} sorting;

static int order_positions(const void *a, const void *b, void *context) {
  const sorting *s = context;
  int64_t i, k;
  memcpy(&i, a, sizeof i);
  memcpy(&k, b, sizeof k);
  int order = s->sign * interp_order(s->x->dtype, interp_at(s->x, s->first + i * s->step),
                                     interp_at(s->x, s->first + k * s->step));
  return order != 0 ? order : (i > k) - (i < k);
}

/* Positions 0..n-1 of a row in sorted order, ties by lower position. Freed with cv_free. */
static int64_t *sorted(const cv_tensor *x, int64_t first, int64_t step, int64_t n, int sign) {
  sorting s = {.x = x, .first = first, .step = step, .sign = sign};
  int64_t *positions = cv_alloc_or_die((size_t)n + 1, sizeof *positions);
  for (int64_t i = 0; i < n; i++) positions[i] = i;
  if (n > 1) qsort_r(positions, (size_t)n, sizeof *positions, order_positions, &s);
  return positions;
}

static cv_status topk(const interp_call *call) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  int axis = (int)cv_node_int(call->node, CV_ATTR_AXIS);
  int sign = cv_node_int(call->node, CV_ATTR_LARGEST) != 0 ? -1 : 1;
  int64_t outer = 1, inner = 1, n = x->dims[axis], k = y->dims[axis];
  int64_t *indices = call->outs[1].data;
  for (int i = 0; i < axis; i++) outer *= x->dims[i];
  for (int i = axis + 1; i < x->rank; i++) inner *= x->dims[i];
  if (k > n) return interp_fail(call, "k is %" PRId64 " of %" PRId64 " elements", k, n);
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t i = 0; i < inner; i++) {
      int64_t *order = sorted(x, o * n * inner + i, inner, n, sign);
      for (int64_t c = 0; c < k; c++) {
        int64_t at = (o * k + c) * inner + i;
        memcpy(interp_out(y, at), interp_at(x, (o * n + order[c]) * inner + i),
               cv_dtype_size(x->dtype));
        indices[at] = order[c];
      }
      cv_free(order);
    }
  }
  return CV_OK;
}

static int order_ints(const void *a, const void *b) {
  int64_t x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

static void unique(const interp_call *call) {
  const cv_tensor *x = &call->ins[0];
  int64_t n = x->dims[0], groups = 0;
  int64_t *firsts = call->outs[0].data, *inverse = call->outs[1].data;
  int64_t *counts = call->outs[2].data, *count = call->outs[3].data;
  int64_t *order = sorted(x, 0, 1, n, 1);
  int64_t *group_of_first = cv_alloc_or_die((size_t)n + 1, sizeof *group_of_first);
  /* The first occurrence of each element stands at its position in `inverse`. */
  for (int64_t i = 0, head = 0; i < n; i++) {
    bool same = i > 0 && interp_order(x->dtype, interp_at(x, order[i]), interp_at(x, head)) == 0;
    if (!same) {
      head = order[i];
      firsts[groups++] = head;
    }
    inverse[order[i]] = head;
  }
  if (cv_node_int(call->node, CV_ATTR_SORTED) == 0) {
    qsort(firsts, (size_t)groups, sizeof *firsts, order_ints);
  }
  for (int64_t g = 0; g < groups; g++) group_of_first[firsts[g]] = g;
  for (int64_t i = 0; i < n; i++) {
    inverse[i] = group_of_first[inverse[i]];
    counts[inverse[i]]++;
  }
  for (int64_t g = groups; g < n; g++) firsts[g] = -1;
  *count = groups;
  cv_free(order);
  cv_free(group_of_first);
}

/* ---- nonzero ---- */

static bool is_nonzero(const cv_tensor *x, int64_t i) {
  if (cv_dtype_is_float(x->dtype)) return cv_element_to_double(x->dtype, interp_at(x, i)) != 0;
  return cv_element_to_int(x->dtype, interp_at(x, i)) != 0;
}

static cv_status nonzero(const interp_call *call) {
  const cv_tensor *x = &call->ins[0], *y = &call->outs[0];
  int64_t n = interp_count(x), found = 0, index[CV_MAX_RANK] = {0}, *out = y->data;
  int64_t k = call->node->op == CV_OP_nonzero ? y->dims[1] : 0;
  for (int64_t i = 0; i < n; i++, interp_next(x->rank, x->dims, index)) {
    if (!is_nonzero(x, i)) continue;
    for (int d = 0; d < x->rank && found < k; d++) out[d * k + found] = index[d];
    found++;
  }
  if (call->node->op == CV_OP_nonzero_count) {
    *out = found;
  } else if (found != k) {
    return interp_fail(call, "%" PRId64 " elements are not zero, k says %" PRId64, found, k);
  }
  return CV_OK;
}

/* ---- random ---- */

/* As of request 0. */
static void fill_random(const interp_call *call) {
  const cv_tensor *y = &call->outs[0];
  uint64_t seed = (uint64_t)cv_node_int(call->node, CV_ATTR_SEED);
  bool normal = cv_node_text(call->node, CV_ATTR_KIND)[0] == 'n';
  int64_t n = interp_count(y);
  for (int64_t i = 0; i < n; i++) {
    uint32_t words[4];
    float u, v;
    cv_philox(seed, 0, (uint64_t)i, words);
    cv_random_pair(words, &u, &v);
    double value = (double)cv_random_uniform(words);
    if (normal) value = sqrt(-2 * log((double)u)) * cos(2 * M_PI * (double)v);
    cv_element_from_double(y->dtype, value, interp_out(y, i));
  }
}

cv_status interp_routine(const interp_call *call) {
  switch (call->node->op) {
    case CV_OP_arg:
    case CV_OP_scan: return interp_scan(call);
    case CV_OP_window_arg: return interp_window(call);
    case CV_OP_scatter_nd: return scatter_nd(call);
    case CV_OP_topk: return topk(call);
    case CV_OP_nonzero_count:
    case CV_OP_nonzero: return nonzero(call);
    case CV_OP_unique: unique(call); return CV_OK;
    case CV_OP_nms: return interp_nms(call);
    case CV_OP_random: fill_random(call); return CV_OK;
    default: return interp_fail(call, "the interpreter has no routine for it");
  }
}
