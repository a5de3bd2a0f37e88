/* Values: walking back from a value at an index to what is in memory or was given, and emitting the
 * C text that computes its lanes. Loads and stores are in emit_access.c, MAP ops in emit_op.c. */
#include <string.h>

#include "compiler/emit_internal.h"

size_t cv_emit_mark(const cv_emit *emit) { return emit->known.len; }

void cv_emit_release(cv_emit *emit, size_t mark) { emit->known.len = mark; }

static bool same_index(cv_emit *emit, const cv_index *a, const cv_index *b) {
  for (int i = 0; i < a->rank; i++) {
    if (cv_index_axis(emit, a, i) != cv_index_axis(emit, b, i)) return false;
  }
  return a->rank == b->rank;
}

static const cv_known *find_known(cv_emit *emit, cv_val value, const cv_index *at) {
  for (size_t i = emit->known.len; i-- > 0;) {
    const cv_known *known = &emit->known.data[i];
    if (known->value == value && known->text != NULL && same_index(emit, &known->at, at))
      return known;
  }
  return NULL;
}

/* The same for an index read from `value`; its check and what negative ones mean depend on the
 * extent. */
static const cv_known *find_index(cv_emit *emit, cv_val value, const cv_index *at, cv_expr extent) {
  for (size_t i = emit->known.len; i-- > 0;) {
    const cv_known *known = &emit->known.data[i];
    bool fits = known->value == value && known->text == NULL &&
                emit->names.data[known->sym].extent == extent;
    if (fits && same_index(emit, &known->at, at)) return known;
  }
  return NULL;
}

void cv_emit_give(cv_emit *emit, cv_val value, const cv_index *at, const char *text) {
  cv_emit_push(&emit->known, (cv_known){value, *at, text, CV_NONE});
}

void cv_emit_give_buffer(cv_emit *emit, cv_val value, const char *pointer, cv_expr base,
                         bool compute_form) {
  cv_emit_push(&emit->buffers, (cv_buffer){value, pointer, base, compute_form});
}

static const char *keep(cv_emit *emit, cv_val value, const cv_index *at, const char *text) {
  cv_emit_give(emit, value, at, text);
  return text;
}

const char *emit_var(cv_emit *emit, cv_dtype dtype, const char *text) {
  const char *id = cv_emit_id(emit, "t");
  cv_emit_line(emit, "const %s %s = %s;", cv_vector_type(emit, dtype), id, text);
  return id;
}

void emit_use(cv_emit *emit, cv_expr e) {
  if (emit->dry) cv_emit_push(&emit->uses, e);
}

/* ---- leaves ---- */

static const char *constant_value(cv_emit *emit, cv_val value, const cv_index *at) {
  const cv_value_info *info = cv_value_of(emit->body, value);
  cv_dtype dtype = info->type.dtype;
  static const uint64_t nothing; /* no lane reads a constant without elements */
  const void *one = info->data.bytes > 0 ? info->data.data : &nothing;
  if (info->data.splat || info->data.bytes <= cv_dtype_size(dtype)) {
    return emit_var(
        emit, dtype,
        cv_emit_format(emit, "cv_splat_%s(%s)", cv_suffix(emit, cv_compute_dtype(dtype)),
                       cv_literal(emit, dtype, one)));
  }
  const char *pointer = cv_emit_format(emit, "%s_c%u", emit->name, value);
  return emit_load(emit, dtype, pointer, cv_index_offset(emit, value, at));
}

static const char *buffer_value(cv_emit *emit, const cv_buffer *buffer, const cv_index *at) {
  cv_dtype dtype = cv_type_of(emit->body, buffer->value)->dtype;
  cv_expr offset = cv_index_offset(emit, buffer->value, at);
  if (buffer->compute_form) dtype = cv_compute_dtype(dtype);
  return emit_load(emit, dtype, buffer->text, cv_expr_sub(emit->pool, offset, buffer->base));
}

static const char *leaf_value(cv_emit *emit, cv_val value, const cv_index *at) {
  const cv_value_info *info = cv_value_of(emit->body, value);
  for (size_t i = 0; i < emit->buffers.len; i++) {
    if (emit->buffers.data[i].value == value) {
      return buffer_value(emit, &emit->buffers.data[i], at);
    }
  }
  if (info->def != NULL) return NULL;
  if (info->is_const && info->data.data != NULL) return constant_value(emit, value, at);
  if (info->block == NULL) {
    cv_emit_fail(emit, CV_UNSUPPORTED, "kernel %s: a constant without its data", emit->name);
    return "0";
  }
  return emit_load(emit, info->type.dtype, cv_emit_format(emit, "p%u", info->def_index),
                   cv_index_offset(emit, value, at));
}

/* ---- pad and concat ---- */

/* True if lanes outside of the ranges of a pad or concat come out as zero bits by themselves. */
static bool zero_outside(const cv_emit *emit, cv_val value) {
  const cv_value_info *info = cv_value_of(emit->body, value);
  if (info->def == NULL) return !info->is_const || info->data.data == NULL;
  bool moves = info->def->op == CV_OP_reshape || info->def->op == CV_OP_transpose ||
               info->def->op == CV_OP_broadcast || info->def->op == CV_OP_slice;
  return moves && zero_outside(emit, info->def->ins[0]);
}

static bool is_zero(const cv_emit *emit, cv_val value) {
  static const char zeros[8];
  const cv_value_info *info = cv_value_of(emit->body, value);
  size_t size = cv_dtype_size(info->type.dtype);
  bool one =
      info->is_const && info->data.data != NULL && (info->data.splat || info->data.bytes == size);
  return one && memcmp(info->data.data, zeros, size) == 0;
}

static const char *value_inside(cv_emit *emit, cv_val value, const cv_index *at,
                                const cv_range *ranges, int n) {
  size_t mark = cv_emit_mark(emit), held = emit->ranges.len;
  for (int i = 0; i < n; i++) cv_emit_push(&emit->ranges, ranges[i]);
  const char *text = cv_emit_value(emit, value, at);
  emit->ranges.len = held;
  cv_emit_release(emit, mark);
  return text;
}

static const char *select_var(cv_emit *emit, cv_dtype dtype, const char *mask, const char *a,
                              const char *b) {
  return emit_var(emit, dtype,
                  cv_emit_format(emit, "cv_sel_%s(%s, %s, %s)",
                                 cv_suffix(emit, cv_compute_dtype(dtype)), mask, a, b));
}

static const char *pad_value(cv_emit *emit, const cv_node *node, const cv_index *at) {
  cv_range ranges[CV_MAX_RANK];
  cv_index inner, scalar = {0};
  int n = cv_index_unpad(emit, node, at, &inner, ranges), open = 0;
  for (int i = 0; i < n; i++) {
    emit_use(emit, ranges[i].at);
    if (!emit_range_holds(emit, &ranges[i])) ranges[open++] = ranges[i];
  }
  if (open == 0) return cv_emit_value(emit, node->ins[0], &inner);
  const char *text = value_inside(emit, node->ins[0], &inner, ranges, open);
  if (is_zero(emit, node->ins[1]) && zero_outside(emit, node->ins[0])) return text;
  const char *fill = cv_emit_value(emit, node->ins[1], &scalar);
  const char *mask = emit_mask(emit, ranges, open);
  return select_var(emit, cv_type_of(emit->body, node->ins[0])->dtype, mask, text, fill);
}

static const char *concat_value(cv_emit *emit, const cv_node *node, const cv_index *at) {
  int axis = (int)cv_node_int(node, CV_ATTR_AXIS);
  cv_expr at_axis = cv_index_axis(emit, at, axis), start = cv_expr_const(emit->pool, 0);
  const char *text = NULL;
  emit_use(emit, at_axis);
  for (uint32_t i = 0; i < node->n_ins; i++) {
    const cv_type *type = cv_type_of(emit->body, node->ins[i]);
    cv_expr inner_at = cv_expr_sub(emit->pool, at_axis, start);
    cv_range range = {inner_at, cv_expr_const(emit->pool, 0), type->dims[axis]};
    cv_index inner = *at;
    inner.axes[axis].n = 1;
    inner.axes[axis].digits[0] = (cv_digit){inner_at, type->dims[axis]};
    start = cv_expr_add(emit->pool, start, type->dims[axis]);
    if (emit_range_holds(emit, &range)) return cv_emit_value(emit, node->ins[i], &inner);
    if (emit_range_fails(emit, &range)) continue;
    const char *part = value_inside(emit, node->ins[i], &inner, &range, 1);
    text =
        text == NULL ? part : select_var(emit, type->dtype, emit_mask(emit, &range, 1), part, text);
  }
  if (text != NULL) return text;
  /* within no part: a pad around reads nothing of it */
  cv_dtype dtype = cv_type_of(emit->body, node->outs[0])->dtype;
  return emit_var(emit, dtype, cv_emit_format(emit, "(%s){0}", cv_vector_type(emit, dtype)));
}

/* ---- gather ---- */

/* True if all lanes are at one place. */
static bool uniform_index(const cv_emit *emit, const cv_index *at) {
  for (int axis = 0; axis < at->rank; axis++)
    for (int k = 0; k < at->axes[axis].n; k++)
      if (!cv_emit_uniform(emit, at->axes[axis].digits[k].at)) return false;
  return true;
}

/* The lanes of an index. One for all lanes is there whatever lane may be outside: only the ranges
 * that are the same for all of them guard its load. */
static const char *index_lanes(cv_emit *emit, cv_val idx, const cv_index *at, bool uniform) {
  size_t n = emit->ranges.len, kept = 0;
  if (!uniform || n == 0) return cv_emit_value(emit, idx, at);
  cv_range *held = cv_arena_copy(emit->arena, emit->ranges.data, n * sizeof *held);
  for (size_t i = 0; i < n; i++)
    if (cv_emit_uniform(emit, held[i].at)) emit->ranges.data[kept++] = held[i];
  emit->ranges.len = kept;
  const char *text = cv_emit_value(emit, idx, at);
  memcpy(emit->ranges.data, held, n * sizeof *held);
  emit->ranges.len = n;
  return text;
}

/* The index that idx holds at `at`, as a symbol below `extent`. */
static cv_sym read_index(cv_emit *emit, cv_val idx, const cv_index *at, cv_expr extent) {
  const cv_known *known = find_index(emit, idx, at, extent);
  if (known != NULL) return known->sym;
  bool uniform = uniform_index(emit, at);
  const char *lanes = index_lanes(emit, idx, at, uniform), *text = cv_emit_id(emit, "g");
  const char *limit = cv_emit_expr(emit, extent);
  const char *inside = emit_conditions(emit, false);
  if (uniform) {
    cv_emit_line(emit, "const int64_t %s = %s ? cv_index(%s[0], %s, &bad) : 0;", text, inside,
                 lanes, limit);
  } else {
    cv_emit_line(emit, "int64_t %s[%d] = {0};", text, emit->lanes);
    cv_emit_line(emit, "for (int l = 0; l < %s; l++) if (%s) %s[l] = cv_index(%s[l], %s, &bad);",
                 emit->count, emit_conditions(emit, true), text, lanes, limit);
  }
  cv_sym sym = cv_emit_index_symbol(emit, text, uniform, extent);
  cv_emit_push(&emit->known, (cv_known){idx, *at, NULL, sym});
  return sym;
}

static cv_digit index_digit(cv_emit *emit, cv_val idx, const cv_index *at, cv_expr extent) {
  cv_digit digit = {cv_expr_symbol(emit->pool, read_index(emit, idx, at, extent)), extent};
  return digit;
}

/* The value at `inner`, whose digits hold indices read from tensors: there may be nothing to read
 * where an extent is 0. */
static const char *gathered(cv_emit *emit, cv_val value, const cv_index *inner,
                            const cv_digit *digits, int n) {
  cv_range ranges[CV_MAX_RANK];
  int open = 0;
  for (int i = 0; i < n; i++) {
    cv_range range = {digits[i].at, cv_expr_const(emit->pool, 0), digits[i].extent};
    int64_t lo, hi;
    cv_expr_bounds(emit->pool, digits[i].extent, &lo, &hi);
    if (lo < 1) ranges[open++] = range;
  }
  return open > 0 ? value_inside(emit, value, inner, ranges, open)
                  : cv_emit_value(emit, value, inner);
}

static const char *gather_value(cv_emit *emit, const cv_node *node, const cv_index *at) {
  const cv_type *x = cv_type_of(emit->body, node->ins[0]);
  int axis = (int)cv_node_int(node, CV_ATTR_AXIS);
  int rank = cv_type_of(emit->body, node->ins[1])->rank;
  cv_index where = {.rank = rank}, inner = {.rank = x->rank};
  for (int i = 0; i < rank; i++) where.axes[i] = at->axes[axis + i];
  cv_digit digit = index_digit(emit, node->ins[1], &where, x->dims[axis]);
  for (int i = 0; i < x->rank; i++) {
    inner.axes[i] = at->axes[i < axis ? i : i + rank - 1 >= 0 ? i + rank - 1 : 0];
  }
  inner.axes[axis].n = 1;
  inner.axes[axis].digits[0] = digit;
  return gathered(emit, node->ins[0], &inner, &digit, 1);
}

static const char *gather_nd_value(cv_emit *emit, const cv_node *node, const cv_index *at) {
  const cv_type *x = cv_type_of(emit->body, node->ins[0]);
  const cv_type *idx = cv_type_of(emit->body, node->ins[1]);
  int batch = (int)cv_node_int(node, CV_ATTR_BATCH_DIMS), lead = idx->rank - 1;
  cv_index where = {.rank = idx->rank}, inner = {.rank = x->rank};
  cv_digit digits[CV_MAX_RANK];
  int64_t depth = 0;
  if (!cv_expr_is_const(emit->pool, idx->dims[lead], &depth) || batch + depth > x->rank) {
    cv_emit_fail(emit, CV_UNSUPPORTED, "gather_nd: the length of its indices is not constant");
    return "0";
  }
  for (int i = 0; i < lead; i++) where.axes[i] = at->axes[i];
  for (int i = 0; i < batch; i++) inner.axes[i] = at->axes[i];
  for (int64_t k = 0; k < depth; k++) {
    where.axes[lead].n = 1;
    where.axes[lead].digits[0] = (cv_digit){cv_expr_const(emit->pool, k), idx->dims[lead]};
    digits[k] = index_digit(emit, node->ins[1], &where, x->dims[batch + k]);
    inner.axes[batch + k].n = 1;
    inner.axes[batch + k].digits[0] = digits[k];
  }
  for (int i = batch + (int)depth; i < x->rank; i++) {
    inner.axes[i] = at->axes[i - batch - (int)depth + lead];
  }
  return gathered(emit, node->ins[0], &inner, digits, (int)depth);
}

/* ---- values from shapes ---- */

static const char *iota_value(cv_emit *emit, const cv_node *node, const cv_index *at) {
  cv_dtype dtype = cv_type_of(emit->body, node->outs[0])->dtype;
  cv_expr e = cv_index_axis(emit, at, (int)cv_node_int(node, CV_ATTR_AXIS));
  emit_use(emit, e);
  return emit_positions(emit, dtype, e);
}

static const char *extents_value(cv_emit *emit, const cv_node *node, const cv_index *at) {
  const cv_attr *exprs = cv_node_attr(node, CV_ATTR_EXPRS);
  const char *table = cv_emit_id(emit, "e");
  cv_str text = {.may_die = true};
  for (uint32_t i = 0; i < exprs->count; i++) {
    cv_str_add(&text, "%s%s", i > 0 ? ", " : "", cv_emit_expr(emit, exprs->exprs[i]));
  }
  cv_emit_line(emit, "const int64_t %s[%u] = {%s};", table, exprs->count, cv_str_text(&text));
  cv_str_deinit(&text);
  return emit_load(emit, CV_I64, table, cv_index_offset(emit, node->outs[0], at));
}

/* ---- all ---- */

static const char *node_value(cv_emit *emit, const cv_node *node, cv_val value,
                              const cv_index *at) {
  cv_index inner;
  switch (node->op) {
    case CV_OP_pad: return pad_value(emit, node, at);
    case CV_OP_concat: return concat_value(emit, node, at);
    case CV_OP_gather: return gather_value(emit, node, at);
    case CV_OP_gather_nd: return gather_nd_value(emit, node, at);
    case CV_OP_iota: return iota_value(emit, node, at);
    case CV_OP_extents: return extents_value(emit, node, at);
    default: break;
  }
  if (cv_op_get(node->op)->class_ == CV_CLASS_MAP) return emit_map_op(emit, node, at);
  if (cv_index_back(emit, node, at, &inner)) return cv_emit_value(emit, node->ins[0], &inner);
  cv_emit_fail(emit, CV_UNSUPPORTED,
               "kernel %s: %s cannot be computed element by element (value %u)", emit->name,
               cv_op_get(node->op)->name, value);
  return "0";
}

const char *cv_emit_value(cv_emit *emit, cv_val value, const cv_index *at) {
  if (emit->status != CV_OK) return "0";
  const cv_known *known = find_known(emit, value, at);
  if (known != NULL) return known->text;
  const char *text = leaf_value(emit, value, at);
  if (text == NULL) text = node_value(emit, cv_value_of(emit->body, value)->def, value, at);
  return text == NULL ? "0" : keep(emit, value, at, text);
}

/* What a result is behind its final moves, and its index there: it is computed where it was made,
 * and only stored by the index behind the moves, which may divide it otherwise. */
static cv_val before_moves(cv_emit *emit, cv_val from, const cv_index *at, cv_val result,
                           cv_index *out_index) {
  cv_val made = result;
  const cv_node *def = cv_value_of(emit->body, made)->def;
  while (made != from && def != NULL && (def->op == CV_OP_reshape || def->op == CV_OP_transpose)) {
    made = def->ins[0];
    def = cv_value_of(emit->body, made)->def;
  }
  (void)cv_index_forward(emit, from, at, made, out_index);
  return made;
}

void cv_emit_results(cv_emit *emit, cv_val from, const cv_index *at) {
  const cv_block *block = emit->body->body;
  for (size_t i = 0; i < block->results.len; i++) {
    cv_val result = block->results.data[i];
    const cv_type *type = cv_type_of(emit->body, result);
    cv_val made = result;
    cv_index index, inner;
    if (cv_index_forward(emit, from, at, result, &index)) {
      made = before_moves(emit, from, at, result, &inner);
    } else {
      cv_index_reshape(emit, at, type->dims, type->rank, &index);
      inner = index;
    }
    const char *text = cv_emit_value(emit, made, &inner);
    cv_emit_store(emit, result, cv_emit_format(emit, "q%zu", i), &index, text);
  }
}
