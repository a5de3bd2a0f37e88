/* Indices as mixed-radix digits, and what MOVE nodes do to them. */
#include <string.h>

#include "compiler/render_internal.h"

static bool is_const(const cv_emit *emit, cv_expr e, int64_t value) {
  int64_t known;
  return cv_expr_is_const(emit->pool, e, &known) && known == value;
}

static cv_expr constant(cv_emit *emit, int64_t value) { return cv_expr_const(emit->pool, value); }

/* a / b where that is exact for all values of the symbols. */
static bool exact_quotient(cv_emit *emit, cv_expr a, cv_expr b, cv_expr *out) {
  if (is_const(emit, b, 0)) return false;
  *out = cv_expr_div(emit->pool, a, b);
  return cv_expr_mul(emit->pool, *out, b) == a;
}

/* ---- lists of digits ---- */

/* Two neighbours that once were one digit become it again. */
static bool rejoin(cv_emit *emit, const cv_digit *high, const cv_digit *low, cv_digit *out) {
  for (size_t i = 0; i < emit->cuts.len; i++) {
    const cv_split *cut = &emit->cuts.data[i];
    if (cut->high == high->at && cut->low == low->at && cut->low_extent == low->extent) {
      *out = (cv_digit){cut->whole, cv_expr_mul(emit->pool, high->extent, low->extent)};
      return true;
    }
  }
  return false;
}

typedef struct {
  int n;
  cv_digit d[CV_MAX_RANK * CV_MAX_DIGITS];
} digit_list;

static void append(cv_emit *emit, digit_list *list, cv_digit digit) {
  while (list->n > 0 && rejoin(emit, &list->d[list->n - 1], &digit, &digit)) list->n--;
  if (list->n < (int)(sizeof list->d / sizeof list->d[0])) list->d[list->n++] = digit;
}

static void flatten(cv_emit *emit, const cv_index *index, const cv_expr *dims, digit_list *out) {
  out->n = 0;
  for (int axis = 0; axis < index->rank; axis++) {
    const cv_place *place = &index->axes[axis];
    if (place->n == 0 && !is_const(emit, dims[axis], 1)) {
      append(emit, out, (cv_digit){constant(emit, 0), dims[axis]});
    }
    for (int k = 0; k < place->n; k++) {
      if (!is_const(emit, place->digits[k].extent, 1)) append(emit, out, place->digits[k]);
    }
  }
}

static cv_expr position(cv_emit *emit, const cv_digit *digits, int n) {
  cv_expr at = constant(emit, 0);
  for (int i = 0; i < n; i++) {
    at = cv_expr_add(emit->pool, cv_expr_mul(emit->pool, at, digits[i].extent), digits[i].at);
  }
  return at;
}

void cv_index_init(cv_emit *emit, cv_val value, const cv_expr *at, cv_index *out_index) {
  const cv_type *type = cv_type_of(emit->body, value);
  out_index->rank = type->rank;
  for (int i = 0; i < type->rank; i++) {
    out_index->axes[i].n = is_const(emit, type->dims[i], 1) ? 0 : 1; /* one form for each index */
    out_index->axes[i].digits[0] = (cv_digit){at[i], type->dims[i]};
  }
}

cv_expr cv_index_axis(cv_emit *emit, const cv_index *index, int axis) {
  digit_list list = {0};
  const cv_place *place = &index->axes[axis];
  for (int i = 0; i < place->n; i++) append(emit, &list, place->digits[i]);
  return position(emit, list.d, list.n);
}

cv_expr cv_index_offset(cv_emit *emit, cv_val value, const cv_index *index) {
  digit_list list;
  flatten(emit, index, cv_type_of(emit->body, value)->dims, &list);
  return position(emit, list.d, list.n);
}

/* ---- reshape ---- */

/* Where nothing else helps: divisions of the whole position. */
static void reshape_by_division(cv_emit *emit, cv_expr whole, const cv_expr *dims, int rank,
                                cv_index *out) {
  for (int axis = rank - 1; axis >= 0; axis--) {
    cv_expr at = axis == 0 ? whole : cv_expr_mod(emit->pool, whole, dims[axis]);
    whole = cv_expr_div(emit->pool, whole, dims[axis]);
    out->axes[axis].n = 1;
    out->axes[axis].digits[0] = (cv_digit){at, dims[axis]};
  }
}

/* Divides the digit so that its low part has `extent`, if that is exact. */
static bool cut_digit(cv_emit *emit, const cv_digit *digit, cv_expr extent, cv_digit *out_high,
                      cv_digit *out_low) {
  cv_expr rest;
  cv_sym sym;
  if (!exact_quotient(emit, digit->extent, extent, &rest)) return false;
  bool axis = cv_expr_is_symbol(emit->pool, digit->at, &sym) && sym < emit->names.len &&
              emit->names.data[sym].extent == digit->extent;
  if (axis && emit->dry) {
    cv_emit_push(&emit->splits, (cv_digit){digit->at, extent});
  }
  *out_high = (cv_digit){cv_expr_div(emit->pool, digit->at, extent), rest};
  *out_low = (cv_digit){cv_expr_mod(emit->pool, digit->at, extent), extent};
  cv_split cut = {digit->at, out_high->at, out_low->at, extent};
  cv_emit_push(&emit->cuts, cut);
  return true;
}

/* Takes digits off the end of the list until they make up one axis of extent `dim`. */
static bool take_axis(cv_emit *emit, digit_list *list, cv_expr dim, cv_place *out) {
  cv_digit taken[CV_MAX_DIGITS];
  int n = 0;
  cv_expr have = constant(emit, 1), need, q;
  while (have != dim) {
    cv_digit high, low;
    if (list->n == 0 || n == CV_MAX_DIGITS || !exact_quotient(emit, dim, have, &need)) return false;
    cv_digit *last = &list->d[list->n - 1];
    if (exact_quotient(emit, need, last->extent, &q)) {
      taken[n++] = *last;
      have = cv_expr_mul(emit->pool, have, last->extent);
      list->n--;
    } else if (cut_digit(emit, last, need, &high, &low)) {
      *last = high;
      taken[n++] = low;
      have = dim;
    } else {
      return false;
    }
  }
  out->n = n;
  for (int i = 0; i < n; i++) out->digits[i] = taken[n - 1 - i];
  return true;
}

/* All that is left, for the outermost axis: counts are equal, though it may not show. */
static bool take_rest(digit_list *list, cv_place *out) {
  if (list->n > CV_MAX_DIGITS) return false;
  out->n = list->n;
  memcpy(out->digits, list->d, (size_t)list->n * sizeof(cv_digit));
  list->n = 0;
  return true;
}

static int outermost(const cv_emit *emit, const cv_expr *dims, int rank) {
  int axis = 0;
  while (axis < rank - 1 && is_const(emit, dims[axis], 1)) axis++;
  return axis;
}

void cv_index_reshape(cv_emit *emit, const cv_index *from, const cv_expr *dims, int rank,
                      cv_index *out_index) {
  digit_list list = {0}, whole;
  cv_index result = {.rank = rank};
  bool ok = true;
  for (int axis = 0; axis < from->rank; axis++) {
    for (int k = 0; k < from->axes[axis].n; k++) {
      cv_digit digit = from->axes[axis].digits[k];
      if (!is_const(emit, digit.extent, 1)) append(emit, &list, digit);
    }
  }
  whole = list;
  int first = outermost(emit, dims, rank);
  for (int axis = rank - 1; axis > first && ok; axis--) {
    ok = is_const(emit, dims[axis], 1) || take_axis(emit, &list, dims[axis], &result.axes[axis]);
  }
  if (ok && rank > 0) ok = take_rest(&list, &result.axes[first]);
  if (!ok || list.n > 0) {
    reshape_by_division(emit, position(emit, whole.d, whole.n), dims, rank, &result);
  }
  *out_index = result;
}

/* ---- forward through an epilogue ---- */

static bool forward(cv_emit *emit, cv_val from, const cv_index *at, cv_val to, bool *failed,
                    cv_index *out) {
  const cv_node *node = cv_value_of(emit->body, to)->def;
  const cv_type *type = cv_type_of(emit->body, to);
  if (to == from) {
    *out = *at;
    return true;
  }
  if (node == NULL || failed[to]) return false;
  bool map = cv_op_get(node->op)->class_ == CV_CLASS_MAP;
  for (uint32_t i = 0; map && i < node->n_ins; i++) {
    if (forward(emit, from, at, node->ins[i], failed, out)) return true;
  }
  cv_index inner;
  bool moves = node->op == CV_OP_reshape || node->op == CV_OP_transpose;
  if (!moves || !forward(emit, from, at, node->ins[0], failed, &inner)) {
    failed[to] = true;
    return false;
  }
  if (node->op == CV_OP_reshape) {
    cv_index_reshape(emit, &inner, type->dims, type->rank, out);
    return true;
  }
  const int64_t *perm = cv_node_attr(node, CV_ATTR_PERM)->ints;
  out->rank = inner.rank;
  for (int i = 0; i < inner.rank; i++) out->axes[i] = inner.axes[perm[i]];
  return true;
}

bool cv_index_forward(cv_emit *emit, cv_val from, const cv_index *at, cv_val to,
                      cv_index *out_index) {
  bool *failed = cv_alloc_or_die(emit->body->values.len, sizeof *failed);
  bool ok = forward(emit, from, at, to, failed, out_index);
  cv_free(failed);
  return ok;
}

/* ---- backward through MOVE nodes ---- */

static cv_expr attr_expr(const cv_node *node, cv_attr_key key, int i) {
  return cv_node_attr(node, key)->exprs[i];
}

/* One axis of a slice: start + step * position. */
static void slice_axis(cv_emit *emit, const cv_node *node, int axis, const cv_index *at,
                       cv_index *out) {
  cv_expr start = attr_expr(node, CV_ATTR_STARTS, axis);
  int64_t step = cv_node_attr(node, CV_ATTR_STEPS)->ints[axis];
  cv_expr extent = cv_type_of(emit->body, node->ins[0])->dims[axis];
  if (step == 1 && is_const(emit, start, 0) && attr_expr(node, CV_ATTR_DIMS, axis) == extent) {
    out->axes[axis] = at->axes[axis];
    return;
  }
  cv_expr walked = cv_expr_mul(emit->pool, constant(emit, step), cv_index_axis(emit, at, axis));
  out->axes[axis].n = 1;
  out->axes[axis].digits[0] = (cv_digit){cv_expr_add(emit->pool, start, walked), extent};
}

bool cv_index_back(cv_emit *emit, const cv_node *node, const cv_index *at, cv_index *out_index) {
  const cv_type *in = cv_type_of(emit->body, node->ins[0]);
  cv_index result = {.rank = in->rank};
  const int64_t *perm;
  switch (node->op) {
    case CV_OP_reshape: cv_index_reshape(emit, at, in->dims, in->rank, &result); break;
    case CV_OP_transpose:
      perm = cv_node_attr(node, CV_ATTR_PERM)->ints;
      for (int i = 0; i < at->rank; i++) result.axes[perm[i]] = at->axes[i];
      break;
    case CV_OP_broadcast:
      for (int i = 0; i < in->rank; i++) {
        bool spread = is_const(emit, in->dims[i], 1);
        if (!spread) result.axes[i] = at->axes[i];
      }
      break;
    case CV_OP_slice:
      for (int i = 0; i < in->rank; i++) slice_axis(emit, node, i, at, &result);
      break;
    default: return false;
  }
  *out_index = result;
  return true;
}

int cv_index_unpad(cv_emit *emit, const cv_node *node, const cv_index *at, cv_index *out_index,
                   cv_range *out_ranges) {
  const cv_type *in = cv_type_of(emit->body, node->ins[0]);
  int n = 0;
  out_index->rank = in->rank;
  for (int i = 0; i < in->rank; i++) {
    cv_expr lo = attr_expr(node, CV_ATTR_LO, i), hi = attr_expr(node, CV_ATTR_HI, i);
    out_index->axes[i] = at->axes[i];
    if (is_const(emit, lo, 0) && is_const(emit, hi, 0)) continue;
    cv_expr inner = cv_expr_sub(emit->pool, cv_index_axis(emit, at, i), lo);
    out_ranges[n++] = (cv_range){inner, constant(emit, 0), in->dims[i]};
    out_index->axes[i].n = 1;
    out_index->axes[i].digits[0] = (cv_digit){inner, in->dims[i]};
  }
  return n;
}

bool cv_index_access(cv_emit *emit, cv_val value, const cv_index *at, cv_access *out_access) {
  cv_index index = *at;
  *out_access = (cv_access){.param = value, .fill = CV_POISON};
  for (;;) {
    const cv_node *node = cv_value_of(emit->body, value)->def;
    cv_index inner = {0};
    if (node == NULL) break;
    if (node->op == CV_OP_pad) {
      if (out_access->fill != CV_POISON) return false;
      out_access->fill = node->ins[1];
      out_access->n_ranges = cv_index_unpad(emit, node, &index, &inner, out_access->ranges);
    } else if (!cv_index_back(emit, node, &index, &inner)) {
      return false;
    }
    index = inner;
    value = node->ins[0];
  }
  out_access->param = value;
  out_access->offset = cv_index_offset(emit, value, &index);
  return !cv_value_of(emit->body, value)->is_const ||
         cv_value_of(emit->body, value)->data.data == NULL;
}
