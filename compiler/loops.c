/* Loops over an index space: which axes, and their text. */
#include "compiler/loops.h"

#include <string.h>

enum {
  TASK_ELEMENTS = 8192, /* of a task */
  BLOCK_ELEMENTS = 256, /* of a chunk of lanes where they walk across memory lines */
  BLOCK_ROWS = 64,
  MAX_SPLITS = 32
};

static bool is_const(const cv_emit *emit, cv_expr e, int64_t value) {
  int64_t known;
  return cv_expr_is_const(emit->pool, e, &known) && known == value;
}

const char *cv_loops_name(const cv_emit *emit, const cv_digit *axis) {
  cv_sym sym = CV_NONE;
  (void)cv_expr_is_symbol(emit->pool, axis->at, &sym);
  return emit->names.data[sym].text;
}

static void write_body(cv_emit *emit, const cv_loops *loops) {
  size_t mark = cv_emit_mark(emit);
  loops->body(emit, loops);
  cv_emit_release(emit, mark);
}

static void walk_dry(cv_emit *emit, const cv_loops *loops) {
  uint32_t ids = emit->n_ids;
  emit->dry = true;
  emit->uses.len = emit->splits.len = 0;
  write_body(emit, loops);
  emit->dry = false;
  emit->n_ids = ids;
}

/* ---- axes ---- */

static void add_axis(cv_emit *emit, const cv_type *type, int i, cv_loops *loops) {
  cv_place *place = &loops->at.axes[i];
  place->n = 0;
  if (is_const(emit, type->dims[i], 1)) return;
  cv_sym sym = cv_emit_axis(emit, cv_arena_format(emit->arena, "i%d", i), type->dims[i]);
  place->n = 1;
  place->digits[0] = (cv_digit){cv_expr_symbol(emit->pool, sym), type->dims[i]};
  loops->axes[loops->n++] = place->digits[0];
}

static void first_axes(cv_emit *emit, cv_val value, uint32_t inner, cv_loops *loops) {
  const cv_type *type = cv_type_of(emit->body, value);
  loops->at.rank = type->rank;
  loops->n = 0;
  for (int i = 0; i < type->rank; i++) {
    if ((inner >> i & 1) == 0) add_axis(emit, type, i, loops);
  }
  loops->kept = loops->n;
  for (int i = 0; i < type->rank; i++) {
    if ((inner >> i & 1) != 0) add_axis(emit, type, i, loops);
  }
}

/* Replaces a digit of the index by two. */
static bool split_digit(cv_place *place, cv_expr at, const cv_digit halves[2]) {
  for (int k = 0; k < place->n && place->n < CV_MAX_DIGITS; k++) {
    if (place->digits[k].at != at) continue;
    memmove(&place->digits[k + 2], &place->digits[k + 1],
            (size_t)(place->n - k - 1) * sizeof(cv_digit));
    memcpy(&place->digits[k], halves, 2 * sizeof(cv_digit));
    place->n++;
    return true;
  }
  return false;
}

static bool split_axis(cv_emit *emit, cv_loops *loops, const cv_digit *wanted) {
  for (int i = 0; i < loops->n && loops->n < CV_MAX_AXES; i++) {
    if (loops->axes[i].at != wanted->at) continue;
    cv_expr outer = cv_expr_div(emit->pool, loops->axes[i].extent, wanted->extent);
    /* a part of a concat is shorter than the axis: what divides the part need not divide the axis
     */
    if (cv_expr_mul(emit->pool, outer, wanted->extent) != loops->axes[i].extent) continue;
    const char *name = cv_loops_name(emit, &loops->axes[i]);
    const char *high = cv_arena_format(emit->arena, "%sh", name);
    const char *low = cv_arena_format(emit->arena, "%sl", name);
    cv_digit halves[2] = {
        {cv_expr_symbol(emit->pool, cv_emit_axis(emit, high, outer)), outer},
        {cv_expr_symbol(emit->pool, cv_emit_axis(emit, low, wanted->extent)), wanted->extent}};
    for (int axis = 0; axis < loops->at.rank; axis++) {
      if (!split_digit(&loops->at.axes[axis], wanted->at, halves)) continue;
      memmove(&loops->axes[i + 2], &loops->axes[i + 1],
              (size_t)(loops->n - i - 1) * sizeof(cv_digit));
      memcpy(&loops->axes[i], halves, sizeof halves);
      loops->n++;
      if (i < loops->kept) loops->kept++;
      return true;
    }
  }
  return false;
}

/* True if e walks axis `outer` as `inner` goes on beyond its extent. */
static bool walks_as_one(cv_emit *emit, cv_expr e, const cv_digit *outer, const cv_digit *inner) {
  cv_sym a, b;
  cv_expr fa, fb, rest;
  if (!cv_expr_is_symbol(emit->pool, outer->at, &a) ||
      !cv_expr_is_symbol(emit->pool, inner->at, &b)) {
    return false;
  }
  if (!cv_expr_uses(emit->pool, e, a) && !cv_expr_uses(emit->pool, e, b)) return true;
  return cv_expr_linear(emit->pool, e, a, &fa, &rest) &&
         cv_expr_linear(emit->pool, rest, b, &fb, &rest) && !cv_expr_uses(emit->pool, fa, b) &&
         fa == cv_expr_mul(emit->pool, fb, inner->extent);
}

/* Puts `joined` for `inner` and 0 for `outer`, everywhere. */
static void substitute_joined(cv_emit *emit, cv_loops *loops, cv_sym outer, cv_sym inner,
                              cv_expr joined) {
  size_t n = cv_exprs_symbols(emit->pool);
  cv_expr *map = cv_alloc_or_die(n, sizeof *map);
  for (size_t i = 0; i < n; i++) map[i] = CV_EXPR_NONE;
  map[outer] = cv_expr_const(emit->pool, 0);
  map[inner] = joined;
  for (size_t i = 0; i < emit->uses.len; i++) {
    emit->uses.data[i] = cv_expr_substitute(emit->pool, emit->uses.data[i], map);
  }
  for (int axis = 0; axis < loops->at.rank; axis++) {
    for (int k = 0; k < loops->at.axes[axis].n; k++) {
      cv_digit *digit = &loops->at.axes[axis].digits[k];
      digit->at = cv_expr_substitute(emit->pool, digit->at, map);
    }
  }
  cv_free(map);
}

/* Whether the work at the joined axis uses what was found for the two: within one dim an index may
 * have been simpler (a repeated tensor's remainder) than it is beyond that dim's end. */
static bool uses_are(cv_emit *emit, const cv_loops *loops) {
  size_t n = emit->uses.len;
  cv_expr *found = cv_alloc_or_die(n + 1, sizeof *found);
  if (n) memcpy(found, emit->uses.data, n * sizeof *found);
  walk_dry(emit, loops);
  bool same = emit->uses.len == n && (!n || memcmp(found, emit->uses.data, n * sizeof *found) == 0);
  cv_free(found);
  return same;
}

/* Makes one of axis i and the next. */
static void join_two(cv_emit *emit, cv_loops *loops, int i) {
  cv_digit *outer = &loops->axes[i], *inner = &loops->axes[i + 1];
  cv_sym a = CV_NONE, b = CV_NONE;
  (void)cv_expr_is_symbol(emit->pool, outer->at, &a);
  (void)cv_expr_is_symbol(emit->pool, inner->at, &b);
  cv_expr extent = cv_expr_mul(emit->pool, outer->extent, inner->extent);
  cv_sym joined = cv_emit_axis(emit, emit->names.data[b].text, extent);
  cv_expr at = cv_expr_symbol(emit->pool, joined);
  substitute_joined(emit, loops, a, b, at);
  *outer = (cv_digit){at, extent};
  memmove(inner, inner + 1, (size_t)(loops->n - i - 2) * sizeof(cv_digit));
  loops->n--;
  if (i < loops->kept) loops->kept--;
}

static void join_axes(cv_emit *emit, cv_loops *loops) {
  for (int i = loops->n - 2; i >= 0; i--) {
    bool ok = i + 1 != loops->kept;
    for (size_t u = 0; u < emit->uses.len && ok; u++) {
      ok = walks_as_one(emit, emit->uses.data[u], &loops->axes[i], &loops->axes[i + 1]);
    }
    if (!ok) continue;
    cv_loops apart = *loops;
    join_two(emit, loops, i);
    if (uses_are(emit, loops)) continue;
    *loops = apart;
    walk_dry(emit, loops);
  }
}

/* Lanes that walk across memory lines: the axis along which that access is contiguous becomes the
 * next one, so that a chunk of lines is used up while it is in cache. */
void cv_loops_block(cv_emit *emit, cv_loops *loops) {
  cv_sym lane, sym;
  cv_expr factor, rest;
  if (loops->n < 2) return;
  (void)cv_expr_is_symbol(emit->pool, loops->axes[loops->n - 1].at, &lane);
  for (size_t u = 0; u < emit->uses.len; u++) {
    cv_expr use = emit->uses.data[u];
    bool far =
        cv_expr_uses(emit->pool, use, lane) &&
        (!cv_expr_linear(emit->pool, use, lane, &factor, &rest) || !is_const(emit, factor, 1));
    for (int i = 0; far && i < loops->n - 1; i++) {
      cv_digit axis = loops->axes[i];
      (void)cv_expr_is_symbol(emit->pool, axis.at, &sym);
      if (!cv_expr_linear(emit->pool, use, sym, &factor, &rest) || !is_const(emit, factor, 1)) {
        continue;
      }
      memmove(&loops->axes[i], &loops->axes[i + 1], (size_t)(loops->n - 2 - i) * sizeof axis);
      loops->axes[loops->n - 2] = axis;
      loops->blocked = true;
      loops->chunk = BLOCK_ELEMENTS;
      return;
    }
  }
}

static bool split_one(cv_emit *emit, cv_loops *loops) {
  for (size_t i = 0; i < emit->splits.len; i++) {
    if (split_axis(emit, loops, &emit->splits.data[i])) return true;
  }
  return false;
}

void cv_loops_plan(cv_emit *emit, cv_val value, uint32_t inner, cv_loops *loops) {
  first_axes(emit, value, inner, loops);
  for (int i = 0; i < MAX_SPLITS && emit->status == CV_OK; i++) {
    walk_dry(emit, loops);
    if (!split_one(emit, loops)) break;
  }
  join_axes(emit, loops);
  loops->lane_axis = loops->kept - 1;
  loops->chunk = TASK_ELEMENTS;
}

int cv_loops_contiguous(cv_emit *emit, const cv_digit *axis) {
  cv_sym sym;
  cv_expr factor, rest;
  int n = 0;
  if (!cv_expr_is_symbol(emit->pool, axis->at, &sym)) return 0;
  for (size_t u = 0; u < emit->uses.len; u++) {
    n += cv_expr_linear(emit->pool, emit->uses.data[u], sym, &factor, &rest) &&
         is_const(emit, factor, 1);
  }
  return n;
}

/* ---- text ---- */

/* Kept axes that make up rows: those before the lane axis. */
static int row_axes(const cv_loops *loops) {
  return loops->lane_axis < 0 ? loops->kept : loops->lane_axis;
}

static cv_expr extents(cv_emit *emit, const cv_loops *loops, int from, int to) {
  cv_expr product = cv_expr_const(emit->pool, 1);
  for (int i = from; i < to; i++) {
    product = cv_expr_mul(emit->pool, product, loops->axes[i].extent);
  }
  return product;
}

/* rows, width, and how they are cut into tasks. */
static void write_sizes(cv_emit *emit, const cv_loops *loops) {
  const char *rows = cv_emit_expr(emit, extents(emit, loops, 0, row_axes(loops)));
  const char *inner = cv_emit_expr(emit, extents(emit, loops, loops->kept, loops->n));
  const char *width =
      loops->lane_axis < 0 ? "1" : cv_emit_expr(emit, loops->axes[loops->lane_axis].extent);
  cv_emit_line(emit, "const int64_t rows = %s, width = %s;", rows, width);
  cv_emit_line(emit, "const int64_t chunks = (width + %d) / %d;", loops->chunk - 1, loops->chunk);
  if (loops->blocked) {
    cv_emit_line(emit, "const int64_t grain = %d;", BLOCK_ROWS);
  } else {
    cv_emit_line(emit, "const int64_t grain = 1 + %d / (cv_min(width, %d) * (%s) + 1);",
                 TASK_ELEMENTS, loops->chunk, inner);
  }
  cv_emit_line(emit, "const int64_t blocks = (rows + grain - 1) / grain;");
}

void cv_loops_tasks(cv_emit *emit, const cv_loops *loops, const char *target) {
  cv_emit_block(emit);
  write_sizes(emit, loops);
  cv_emit_line(emit, "%s += chunks * blocks;", target);
  cv_emit_close(emit);
}

/* The outer axes at row `row`. */
static void write_decode(cv_emit *emit, const cv_loops *loops) {
  cv_expr below = cv_expr_const(emit->pool, 1);
  for (int i = row_axes(loops) - 1; i >= 0; i--) {
    const char *extent = cv_emit_expr(emit, loops->axes[i].extent);
    const char *name = cv_loops_name(emit, &loops->axes[i]), *divisor = cv_emit_expr(emit, below);
    if (i == 0) {
      cv_emit_line(emit, "int64_t %s = row / (%s);", name, divisor);
    } else {
      cv_emit_line(emit, "int64_t %s = row / (%s) %% (%s);", name, divisor, extent);
    }
    below = cv_expr_mul(emit->pool, below, loops->axes[i].extent);
  }
}

/* The outer axes go on by one row. */
static void write_advance(cv_emit *emit, const cv_loops *loops) {
  int last = row_axes(loops) - 1;
  for (int i = last; i > 0; i--) {
    const char *name = cv_loops_name(emit, &loops->axes[i]);
    cv_emit_line(emit, "if (++%s < %s) continue;", name, cv_emit_expr(emit, loops->axes[i].extent));
    cv_emit_line(emit, "%s = 0;", name);
  }
  if (last >= 0) cv_emit_line(emit, "++%s;", cv_loops_name(emit, &loops->axes[0]));
}

static void write_lanes(cv_emit *emit, const cv_loops *loops) {
  if (loops->lane_axis < 0) {
    emit->lane = CV_NONE;
    cv_emit_line(emit, "const int n = 1;");
    write_body(emit, loops);
    return;
  }
  const cv_digit *axis = &loops->axes[loops->lane_axis];
  const char *name = cv_loops_name(emit, axis);
  (void)cv_expr_is_symbol(emit->pool, axis->at, &emit->lane);
  cv_emit_open(emit, "for (int64_t %s = from; %s < to; %s += %d)", name, name, name, emit->lanes);
  cv_emit_line(emit, "const int n = (int)cv_min(to - %s, %d);", name, emit->lanes);
  write_body(emit, loops);
  cv_emit_close(emit);
  emit->lane = CV_NONE;
}

void cv_loops_write(cv_emit *emit, const cv_loops *loops) {
  emit->count = "n";
  cv_emit_block(emit);
  write_sizes(emit, loops);
  cv_emit_line(emit, "const int64_t stop = cv_min(end - base, chunks * blocks);");
  cv_emit_open(emit, "for (int64_t task = cv_max(begin - base, 0); task < stop; task++)");
  if (loops->lane_axis >= 0) {
    cv_emit_line(emit, "const int64_t from = task / blocks * %d, to = cv_min(from + %d, width);",
                 loops->chunk, loops->chunk);
  }
  cv_emit_line(emit, "int64_t row = task %% blocks * grain;");
  cv_emit_line(emit, "const int64_t last = cv_min(row + grain, rows);");
  write_decode(emit, loops);
  cv_emit_open(emit, "for (; row < last; row++)");
  write_lanes(emit, loops);
  write_advance(emit, loops);
  cv_emit_close(emit);
  cv_emit_close(emit);
  cv_emit_line(emit, "base += chunks * blocks;");
  cv_emit_close(emit);
}
