/* Loads and stores of lanes, and the ranges that guard them. */
#include "compiler/emit_internal.h"

/* ---- ranges ---- */

static bool at_least(cv_emit *emit, cv_expr a, cv_expr b, int64_t margin) {
  int64_t lo, hi;
  cv_expr difference = cv_expr_sub(emit->pool, a, b);
  if (difference == CV_EXPR_NONE) return false;
  cv_expr_bounds(emit->pool, difference, &lo, &hi);
  return lo >= margin;
}

bool emit_range_holds(cv_emit *emit, const cv_range *range) {
  return at_least(emit, range->at, range->lo, 0) && at_least(emit, range->hi, range->at, 1);
}

bool emit_range_fails(cv_emit *emit, const cv_range *range) {
  return at_least(emit, range->lo, range->at, 1) || at_least(emit, range->at, range->hi, 0);
}

static void add_condition(cv_emit *emit, cv_str *text, const cv_range *range, bool lane) {
  const char *(*print)(cv_emit *, cv_expr) = lane ? cv_emit_lane_expr : cv_emit_expr;
  const char *at = print(emit, range->at);
  if (!at_least(emit, range->at, range->lo, 0)) {
    cv_str_add(text, "%s%s >= %s", text->len > 0 ? " && " : "", at, print(emit, range->lo));
  }
  if (!at_least(emit, range->hi, range->at, 1)) {
    cv_str_add(text, "%s%s < %s", text->len > 0 ? " && " : "", at, print(emit, range->hi));
  }
}

static const char *conditions(cv_emit *emit, const cv_range *ranges, size_t n, bool lane) {
  cv_str text = {.may_die = true};
  for (size_t i = 0; i < n; i++) {
    if (lane || cv_emit_uniform(emit, ranges[i].at)) add_condition(emit, &text, &ranges[i], lane);
  }
  const char *copy = text.len == 0 ? "1" : cv_emit_format(emit, "(%s)", cv_str_text(&text));
  cv_str_deinit(&text);
  return copy;
}

const char *emit_conditions(cv_emit *emit, bool lane) {
  return conditions(emit, emit->ranges.data, emit->ranges.len, lane);
}

static bool all_uniform(const cv_emit *emit, const cv_range *ranges, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!cv_emit_uniform(emit, ranges[i].at)) return false;
  }
  return true;
}

const char *emit_mask(cv_emit *emit, const cv_range *ranges, int n) {
  const char *id = cv_emit_id(emit, "m");
  if (all_uniform(emit, ranges, (size_t)n)) {
    cv_emit_line(emit, "const mask%d %s = cv_splat_boolx%d(-%s);", emit->lanes, id, emit->lanes,
                 conditions(emit, ranges, (size_t)n, false));
  } else {
    cv_emit_line(emit, "mask%d %s;", emit->lanes, id);
    cv_emit_line(emit, "for (int l = 0; l < %d; l++) %s[l] = -%s;", emit->lanes, id,
                 conditions(emit, ranges, (size_t)n, true));
  }
  return id;
}

/* ---- loads ---- */

/* e as rest + stride * lane, both the same for all lanes. */
static bool lane_stride(cv_emit *emit, cv_expr e, cv_expr *out_stride, cv_expr *out_rest) {
  if (cv_emit_uniform(emit, e)) {
    *out_stride = cv_expr_const(emit->pool, 0);
    *out_rest = e;
    return true;
  }
  return emit->lane != CV_NONE && cv_expr_linear(emit->pool, e, emit->lane, out_stride, out_rest) &&
         cv_emit_uniform(emit, *out_stride) && cv_emit_uniform(emit, *out_rest);
}

static bool is_stride(const cv_emit *emit, cv_expr stride, int64_t value) {
  int64_t known;
  return cv_expr_is_const(emit->pool, stride, &known) && known == value;
}

/* Lanes one by one. */
static const char *load_lanes(cv_emit *emit, cv_dtype dtype, const char *pointer, cv_expr offset) {
  const char *array = cv_emit_id(emit, "a");
  cv_emit_line(emit, "%s %s[%d] = {0};", cv_storage_type(dtype), array, emit->lanes);
  cv_emit_line(emit, "for (int l = 0; l < %s; l++) if (%s) %s[l] = %s[%s];", emit->count,
               emit_conditions(emit, true), array, pointer, cv_emit_lane_expr(emit, offset));
  return emit_var(
      emit, dtype,
      cv_emit_format(emit, "cv_load_%s(%s, %d)", cv_suffix(emit, dtype), array, emit->lanes));
}

/* Consecutive elements where ranges bound the lanes on both sides. */
static const char *load_part(cv_emit *emit, cv_dtype dtype, const char *pointer, cv_expr offset) {
  const char *from = cv_emit_id(emit, "l"), *to = cv_emit_id(emit, "l");
  cv_emit_line(emit, "int64_t %s = 0, %s = %s ? %s : 0;", from, to, emit_conditions(emit, false),
               emit->count);
  for (size_t i = 0; i < emit->ranges.len; i++) {
    const cv_range *range = &emit->ranges.data[i];
    if (cv_emit_uniform(emit, range->at)) continue;
    cv_emit_line(emit, "%s = cv_max(%s, %s); %s = cv_min(%s, %s);", from, from,
                 cv_emit_expr(emit, cv_expr_sub(emit->pool, range->lo, range->at)), to, to,
                 cv_emit_expr(emit, cv_expr_sub(emit->pool, range->hi, range->at)));
  }
  return emit_var(
      emit, dtype,
      cv_emit_format(emit, "cv_part_%s(%s + (%s), (int)%s, (int)%s)", cv_suffix(emit, dtype),
                     pointer, cv_emit_expr(emit, offset), from, to));
}

/* True if each open range is the same for all lanes or moves with them one by one. */
static bool ranges_move(cv_emit *emit) {
  for (size_t i = 0; i < emit->ranges.len; i++) {
    const cv_range *range = &emit->ranges.data[i];
    cv_expr stride, rest;
    if (!lane_stride(emit, range->at, &stride, &rest)) return false;
    if (!is_stride(emit, stride, 0) && !is_stride(emit, stride, 1)) return false;
  }
  return true;
}

const char *emit_load(cv_emit *emit, cv_dtype dtype, const char *pointer, cv_expr offset) {
  cv_expr stride, rest;
  const char *suffix = cv_suffix(emit, dtype);
  bool fixed = all_uniform(emit, emit->ranges.data, emit->ranges.len);
  emit_use(emit, offset);
  if (emit->dry) return cv_emit_id(emit, "t");
  if (!lane_stride(emit, offset, &stride, &rest)) return load_lanes(emit, dtype, pointer, offset);
  if (is_stride(emit, stride, 1) && !fixed && ranges_move(emit)) {
    return load_part(emit, dtype, pointer, offset);
  }
  if (!fixed) return load_lanes(emit, dtype, pointer, offset);
  const char *inside = emit_conditions(emit, false), *at = cv_emit_expr(emit, offset);
  bool always = inside[0] == '1';
  const char *count =
      always ? emit->count : cv_emit_format(emit, "(%s ? %s : 0)", inside, emit->count);
  if (is_stride(emit, stride, 1)) {
    return emit_var(emit, dtype,
                    cv_emit_format(emit, "cv_load_%s(%s + (%s), %s)", suffix, pointer, at, count));
  }
  if (!is_stride(emit, stride, 0)) {
    return emit_var(emit, dtype,
                    cv_emit_format(emit, "cv_stride_%s(%s + (%s), %s, %s)", suffix, pointer, at,
                                   cv_emit_expr(emit, stride), count));
  }
  if (always) {
    return emit_var(emit, dtype,
                    cv_emit_format(emit, "cv_bcast_%s(%s + (%s))", suffix, pointer, at));
  }
  return emit_var(emit, dtype,
                  cv_emit_format(emit, "%s ? cv_bcast_%s(%s + (%s)) : (%s){0}", inside, suffix,
                                 pointer, at, cv_vector_type(emit, dtype)));
}

const char *emit_positions(cv_emit *emit, cv_dtype dtype, cv_expr e) {
  const char *array = cv_emit_id(emit, "a");
  const char *type = cv_element_type(dtype);
  cv_emit_line(emit, "%s %s[%d];", type, array, emit->lanes);
  cv_emit_line(emit, "for (int l = 0; l < %d; l++) %s[l] = (%s)(%s);", emit->lanes, array, type,
               cv_emit_lane_expr(emit, e));
  const char *loaded = cv_emit_format(emit, "cv_load_%s(%s, %d)",
                                      cv_suffix(emit, cv_compute_dtype(dtype)), array, emit->lanes);
  if (dtype != cv_compute_dtype(dtype)) {
    loaded = cv_emit_format(emit, "cv_round_%s(%s)", cv_suffix(emit, dtype), loaded);
  }
  return emit_var(emit, dtype, loaded);
}

/* ---- stores ---- */

void cv_emit_store(cv_emit *emit, cv_val value, const char *pointer, const cv_index *at,
                   const char *text) {
  cv_dtype dtype = cv_type_of(emit->body, value)->dtype;
  cv_expr offset = cv_index_offset(emit, value, at), stride, rest;
  const char *suffix = cv_suffix(emit, dtype);
  emit_use(emit, offset);
  if (emit->dry) return;
  bool linear = lane_stride(emit, offset, &stride, &rest);
  if (linear && (is_stride(emit, stride, 1) || is_stride(emit, stride, 0))) {
    cv_emit_line(emit, "cv_store_%s(%s + (%s), %s, %s);", suffix, pointer,
                 cv_emit_expr(emit, offset), is_stride(emit, stride, 1) ? emit->count : "1", text);
    return;
  }
  const char *array = cv_emit_id(emit, "a");
  cv_emit_line(emit, "%s %s[%d];", cv_storage_type(dtype), array, emit->lanes);
  cv_emit_line(emit, "cv_store_%s(%s, %d, %s);", suffix, array, emit->lanes, text);
  cv_emit_line(emit, "for (int l = 0; l < %s; l++) %s[%s] = %s[l];", emit->count, pointer,
               cv_emit_lane_expr(emit, offset), array);
}
