/* The row and reduce templates: for each outer position, passes over its row, each with the reduces
 * that the passes before made possible; the last one writes the results that are rows. Lanes run
 * along the row (partial accumulators, combined by a fixed tree) or, where memory runs that way,
 * along an outer axis. Long rows are summed by chunks, so that rounding does not add up. */
#include <string.h>

#include "compiler/rows.h"

enum { CHUNK_VECTORS = 256, VERTICAL_VECTORS = 4 };

/* ---- kinds ---- */

static const char *kind_of(const cv_node *reduce) { return cv_node_text(reduce, CV_ATTR_KIND); }

static const char *identity(cv_emit *emit, const cv_node *reduce) {
  cv_dtype dtype = cv_type_of(emit->body, reduce->ins[0])->dtype;
  const char *kind = kind_of(reduce), *suffix = cv_suffix(emit, cv_compute_dtype(dtype));
  char type = cv_dtype_kind(dtype);
  bool max = strcmp(kind, "max") == 0, min = strcmp(kind, "min") == 0;
  const char *text = strcmp(kind, "prod") == 0 ? "1" : strcmp(kind, "all") == 0 ? "-1" : "0";
  if ((max || min) && type == 'f') {
    text = max ? "-__builtin_inf()" : "__builtin_inf()";
  } else if (max || min) {
    int bits = 8 * (int)cv_dtype_size(dtype) - (type == 'i');
    uint64_t high = type == 'b' ? 1 : ~(uint64_t)0 >> (64 - bits);
    uint64_t low = type == 'i' ? ~high : 0, bytes = max ? low : high;
    text = type == 'b' ? (max ? "0" : "-1") : cv_literal(emit, dtype, &bytes);
  }
  return cv_emit_format(emit, "cv_splat_%s(%s)", suffix, text);
}

/* Of masks: any and max, else all and min. */
static bool is_any(const cv_node *reduce) {
  return strcmp(kind_of(reduce), "any") == 0 || strcmp(kind_of(reduce), "max") == 0;
}

/* a op b on vectors. */
static const char *join_text(cv_emit *emit, const cv_node *reduce, const char *a, const char *b) {
  cv_dtype dtype = cv_type_of(emit->body, reduce->ins[0])->dtype;
  const char *kind = kind_of(reduce);
  if (dtype == CV_BOOL) return cv_emit_format(emit, "%s %s %s", a, is_any(reduce) ? "|" : "&", b);
  if (strcmp(kind, "sum") == 0) return cv_emit_format(emit, "%s + %s", a, b);
  if (strcmp(kind, "prod") == 0) return cv_emit_format(emit, "%s * %s", a, b);
  return cv_emit_format(emit, "cv_%s_%s(%s, %s)", kind, cv_suffix(emit, cv_compute_dtype(dtype)), a,
                        b);
}

/* The accumulator's lanes combined, in all lanes. */
static const char *whole_text(cv_emit *emit, const cv_node *reduce, const char *sum) {
  cv_dtype dtype = cv_type_of(emit->body, reduce->ins[0])->dtype;
  const char *suffix = cv_suffix(emit, cv_compute_dtype(dtype)), *kind = kind_of(reduce);
  if (dtype == CV_BOOL && is_any(reduce)) {
    return cv_emit_format(emit, "cv_splat_%s(-cv_any_%s(%s))", suffix, suffix, sum);
  }
  if (dtype == CV_BOOL) {
    return cv_emit_format(emit, "cv_splat_%s(-!cv_any_%s(~%s))", suffix, suffix, sum);
  }
  return cv_emit_format(emit, "cv_splat_%s(cv_h%s_%s(%s))", suffix, kind, suffix, sum);
}

/* ---- indices ---- */

/* Of a reduce's result: the domain's index without the row's axes. */
static void outer_index(const cv_rows *rows, const cv_index *at, cv_index *out) {
  out->rank = 0;
  for (int i = 0; i < at->rank; i++) {
    if ((rows->inner >> i & 1) == 0) out->axes[out->rank++] = at->axes[i];
  }
}

/* Position in the row. */
static const char *row_position(cv_emit *emit, const cv_loops *loops) {
  cv_expr at = cv_expr_const(emit->pool, 0);
  for (int i = loops->kept; i < loops->n; i++) {
    at = cv_expr_mul(emit->pool, at, loops->axes[i].extent);
    at = cv_expr_add(emit->pool, at, loops->axes[i].at);
  }
  return cv_emit_expr(emit, at);
}

static const char *row_length(cv_emit *emit, const cv_loops *loops) {
  cv_expr count = cv_expr_const(emit->pool, 1);
  for (int i = loops->kept; i < loops->n; i++) {
    count = cv_expr_mul(emit->pool, count, loops->axes[i].extent);
  }
  return cv_emit_expr(emit, count);
}

/* ---- values ---- */

static bool is_scalar(const cv_rows *rows, cv_val v) {
  return rows->level[v] > 0 && !cv_rows_is_row(rows, v);
}

/* Index of a value that hangs on a reduce's result; false if it hangs on none. */
static bool scalar_index(const cv_rows *rows, const cv_index *outer, cv_val v, cv_index *out) {
  const cv_block *block = rows->emit->body->body;
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    if (node->op != CV_OP_reduce) continue;
    if (cv_index_forward(rows->emit, node->outs[0], outer, v, out)) return true;
  }
  return false;
}

/* Evaluates what is one value a row and known before the pass. */
static void write_scalars(const cv_rows *rows, const cv_index *outer, int pass) {
  const cv_block *block = rows->emit->body->body;
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    cv_val v = node->outs[0];
    cv_index at;
    bool map = cv_op_get(node->op)->class_ == CV_CLASS_MAP;
    if (!map || !is_scalar(rows, v) || rows->level[v] > pass) continue;
    if (scalar_index(rows, outer, v, &at)) (void)cv_emit_value(rows->emit, v, &at);
  }
}

static void store_scalar_results(const cv_rows *rows, const cv_index *outer) {
  const cv_block *block = rows->emit->body->body;
  for (size_t i = 0; i < block->results.len; i++) {
    cv_val v = block->results.data[i], base = cv_rows_base(rows, v);
    cv_index at, made;
    if (cv_rows_is_row(rows, base)) continue;
    if (!scalar_index(rows, outer, v, &at) || !scalar_index(rows, outer, base, &made)) {
      cv_emit_fail(rows->emit, CV_UNSUPPORTED, "kernel %s: result %zu hangs on no reduce",
                   rows->emit->name, i);
      return;
    }
    cv_emit_store(rows->emit, v, cv_emit_format(rows->emit, "q%zu", i), &at,
                  cv_emit_value(rows->emit, base, &made));
  }
}

static bool has_row_results(const cv_rows *rows) {
  const cv_block *block = rows->emit->body->body;
  for (size_t i = 0; i < block->results.len; i++) {
    if (cv_rows_is_row(rows, cv_rows_base(rows, block->results.data[i]))) return true;
  }
  return false;
}

static void store_row_results(const cv_rows *rows, const cv_index *at) {
  const cv_block *block = rows->emit->body->body;
  for (size_t i = 0; i < block->results.len; i++) {
    cv_val v = block->results.data[i], base = cv_rows_base(rows, v);
    cv_index to;
    if (!cv_rows_is_row(rows, base)) continue;
    if (!cv_index_forward(rows->emit, base, at, v, &to)) continue;
    cv_emit_store(rows->emit, v, cv_emit_format(rows->emit, "q%zu", i), &to,
                  cv_emit_value(rows->emit, base, at));
  }
}

/* ---- one pass ---- */

typedef struct {
  const cv_node *reduce;
  const char *sum, *part; /* of the row, of a chunk */
} accumulator;

/* Lanes of a row in scratch: the row's elements, or a vector for each. */
static const char *cache_place(const cv_rows *rows, const cv_loops *loops,
                               const cv_row_cache *cache, const char **out_count) {
  cv_emit *emit = rows->emit;
  const char *position = row_position(emit, loops);
  *out_count = rows->vertical ? cv_emit_format(emit, "%d", emit->lanes) : "n";
  if (!rows->vertical) return cv_emit_format(emit, "%s + (%s)", cache->text, position);
  return cv_emit_format(emit, "%s + (%s) * %d", cache->text, position, emit->lanes);
}

static void read_caches(const cv_rows *rows, const cv_loops *loops, int pass) {
  cv_emit *emit = rows->emit;
  for (int i = 0; i < rows->n_caches; i++) {
    const cv_row_cache *cache = &rows->caches[i];
    cv_dtype dtype = cv_compute_dtype(cv_type_of(emit->body, cache->value)->dtype);
    const char *id, *count, *place;
    if (cache->pass >= pass || !rows->needed[pass][cache->value]) continue;
    id = cv_emit_id(emit, "t");
    place = cache_place(rows, loops, cache, &count);
    cv_emit_line(emit, "const %s %s = cv_load_%s(%s, %s);", cv_vector_type(emit, dtype), id,
                 cv_suffix(emit, dtype), place, count);
    cv_emit_give(emit, cache->value, &loops->at, id);
  }
}

static void fill_caches(const cv_rows *rows, const cv_loops *loops, int pass) {
  cv_emit *emit = rows->emit;
  for (int i = 0; i < rows->n_caches; i++) {
    const cv_row_cache *cache = &rows->caches[i];
    cv_dtype dtype = cv_compute_dtype(cv_type_of(emit->body, cache->value)->dtype);
    const char *count, *place, *text;
    if (cache->pass != pass) continue;
    text = cv_emit_value(emit, cache->value, &loops->at);
    place = cache_place(rows, loops, cache, &count);
    cv_emit_line(emit, "cv_store_%s(%s, %s, %s);", cv_suffix(emit, dtype), place, count, text);
  }
}

static void add_to_parts(const cv_rows *rows, const cv_loops *loops, const accumulator *list,
                         int n) {
  cv_emit *emit = rows->emit;
  for (int i = 0; i < n; i++) {
    const cv_node *reduce = list[i].reduce;
    cv_dtype dtype = cv_type_of(emit->body, reduce->ins[0])->dtype;
    const char *text = cv_emit_value(emit, reduce->ins[0], &loops->at);
    if (!rows->vertical && loops->n > loops->kept) {
      const char *all = cv_emit_id(emit, "t");
      cv_emit_line(emit, "%s %s = %s;", cv_vector_type(emit, dtype), all, text);
      cv_emit_line(emit, "if (n < %d) %s = cv_sel_%s(cv_first_boolx%d(n), %s, %s);", emit->lanes,
                   all, cv_suffix(emit, cv_compute_dtype(dtype)), emit->lanes, all,
                   identity(emit, reduce));
      text = all;
    }
    cv_emit_line(emit, "%s = %s;", list[i].part, join_text(emit, reduce, list[i].part, text));
  }
}

static void write_content(const cv_rows *rows, const cv_loops *loops, int pass,
                          const accumulator *list, int n) {
  size_t mark = cv_emit_mark(rows->emit);
  read_caches(rows, loops, pass);
  fill_caches(rows, loops, pass);
  add_to_parts(rows, loops, list, n);
  if (pass == rows->n_passes) store_row_results(rows, &loops->at);
  cv_emit_release(rows->emit, mark);
}

static void declare(cv_emit *emit, const accumulator *list, int n, bool part) {
  for (int i = 0; i < n; i++) {
    cv_dtype dtype = cv_type_of(emit->body, list[i].reduce->ins[0])->dtype;
    cv_emit_line(emit, "%s %s = %s;", cv_vector_type(emit, dtype),
                 part ? list[i].part : list[i].sum, identity(emit, list[i].reduce));
  }
}

static void join_parts(cv_emit *emit, const accumulator *list, int n) {
  for (int i = 0; i < n; i++) {
    cv_emit_line(emit, "%s = %s;", list[i].sum,
                 join_text(emit, list[i].reduce, list[i].sum, list[i].part));
  }
}

/* The innermost axis of the row, by chunks. */
static void write_innermost(const cv_rows *rows, const cv_loops *loops, int pass,
                            const accumulator *list, int n) {
  cv_emit *emit = rows->emit;
  const cv_digit *axis = &loops->axes[loops->n - 1];
  const char *name = cv_loops_name(emit, axis), *extent = cv_emit_expr(emit, axis->extent);
  int step = rows->vertical ? 1 : emit->lanes, chunk = CHUNK_VECTORS * step;
  cv_sym outer_lane = emit->lane;
  if (!rows->vertical) (void)cv_expr_is_symbol(emit->pool, axis->at, &emit->lane);
  if (n > 0) {
    cv_emit_open(emit, "for (int64_t chunk = 0; chunk < %s; chunk += %d)", extent, chunk);
    cv_emit_line(emit, "const int64_t chunk_end = cv_min(chunk + %d, %s);", chunk, extent);
    declare(emit, list, n, true);
    cv_emit_open(emit, "for (int64_t %s = chunk; %s < chunk_end; %s += %d)", name, name, name,
                 step);
  } else {
    cv_emit_open(emit, "for (int64_t %s = 0; %s < %s; %s += %d)", name, name, extent, name, step);
  }
  if (!rows->vertical) {
    cv_emit_line(emit, "const int n = (int)cv_min(%s - %s, %d);", extent, name, emit->lanes);
  }
  write_content(rows, loops, pass, list, n);
  cv_emit_close(emit);
  if (n > 0) {
    join_parts(emit, list, n);
    cv_emit_close(emit);
  }
  emit->lane = outer_lane;
}

static void write_pass_loops(const cv_rows *rows, const cv_loops *loops, int pass,
                             const accumulator *list, int n) {
  cv_emit *emit = rows->emit;
  int last = loops->n - 1;
  for (int i = loops->kept; i < last; i++) {
    const char *name = cv_loops_name(emit, &loops->axes[i]);
    cv_emit_open(emit, "for (int64_t %s = 0; %s < %s; %s++)", name, name,
                 cv_emit_expr(emit, loops->axes[i].extent), name);
  }
  if (last >= loops->kept) {
    write_innermost(rows, loops, pass, list, n);
  } else {
    cv_emit_block(emit);
    declare(emit, list, n, true);
    write_content(rows, loops, pass, list, n);
    join_parts(emit, list, n);
    cv_emit_close(emit);
  }
  for (int i = loops->kept; i < last; i++) cv_emit_close(emit);
}

/* A pass with reduces: their results are given afterwards. */
static void write_pass(const cv_rows *rows, const cv_loops *loops, const cv_index *outer,
                       int pass) {
  cv_emit *emit = rows->emit;
  const cv_block *block = emit->body->body;
  accumulator *list = cv_arena_array(emit->arena, accumulator, block->nodes.len);
  int n = 0;
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    if (node->op != CV_OP_reduce || rows->level[node->ins[0]] != pass) continue;
    list[n++] = (accumulator){node, cv_emit_id(emit, "sum"), cv_emit_id(emit, "part")};
  }
  declare(emit, list, n, false);
  write_pass_loops(rows, loops, pass, list, n);
  for (int i = 0; i < n; i++) {
    cv_dtype dtype = cv_type_of(emit->body, list[i].reduce->outs[0])->dtype;
    bool across = !rows->vertical && loops->n > loops->kept;
    const char *text = across ? whole_text(emit, list[i].reduce, list[i].sum) : list[i].sum;
    const char *id = cv_emit_id(emit, "r");
    if (dtype != cv_compute_dtype(dtype)) {
      text = cv_emit_format(emit, "cv_round_%s(%s)", cv_suffix(emit, dtype), text);
    }
    cv_emit_line(emit, "const %s %s = %s;", cv_vector_type(emit, dtype), id, text);
    cv_emit_give(emit, list[i].reduce->outs[0], outer, id);
  }
}

/* What the loops over rows do at one outer position (or vector of them). */
static void write_row(cv_emit *emit, const cv_loops *loops) {
  const cv_rows *rows = loops->context;
  const cv_block *block = emit->body->body;
  cv_index outer;
  outer_index(rows, &loops->at, &outer);
  if (emit->dry) {
    for (size_t i = 0; i < block->nodes.len; i++) {
      const cv_node *node = block->nodes.data[i];
      if (node->op != CV_OP_reduce) continue;
      (void)cv_emit_value(emit, node->ins[0], &loops->at);
      cv_emit_give(emit, node->outs[0], &outer, "r");
    }
    store_row_results(rows, &loops->at);
    store_scalar_results(rows, &outer);
    return;
  }
  for (int pass = 0; pass < rows->n_passes; pass++) {
    write_scalars(rows, &outer, pass);
    write_pass(rows, loops, &outer, pass);
  }
  write_scalars(rows, &outer, rows->n_passes);
  store_scalar_results(rows, &outer);
  if (has_row_results(rows)) write_pass_loops(rows, loops, rows->n_passes, NULL, 0);
}

/* ---- the templates ---- */

static bool choose_vertical(cv_emit *emit, const cv_loops *loops) {
  int64_t extent;
  if (loops->kept == 0) return false;
  if (loops->n == loops->kept) return true;
  const cv_digit *outer = &loops->axes[loops->kept - 1], *inner = &loops->axes[loops->n - 1];
  bool narrow = cv_expr_is_const(emit->pool, outer->extent, &extent) && extent < emit->lanes / 2;
  return !narrow && cv_loops_contiguous(emit, outer) > cv_loops_contiguous(emit, inner);
}

static const char *cache_bytes(const cv_rows *rows, const cv_loops *loops,
                               const cv_row_cache *cache) {
  cv_emit *emit = rows->emit;
  cv_dtype dtype = cv_compute_dtype(cv_type_of(emit->body, cache->value)->dtype);
  size_t size = cv_dtype_size(dtype) * (rows->vertical ? (size_t)emit->lanes : 1);
  return cv_emit_format(emit, "((%s) * %zu + 63) / 64 * 64", row_length(emit, loops), size);
}

static void write_run(cv_rows *rows, const cv_loops *loops) {
  cv_emit *emit = rows->emit;
  cv_emit_begin_run(emit, 0);
  cv_emit_line(emit, "int64_t base = 0;");
  if (rows->n_caches > 0) cv_emit_line(emit, "char *scratch = scratch_thread;");
  for (int i = 0; i < rows->n_caches; i++) {
    cv_row_cache *cache = &rows->caches[i];
    const char *type = cv_element_type(cv_type_of(emit->body, cache->value)->dtype);
    cache->text = cv_emit_format(emit, "s%d", i);
    cv_emit_line(emit, "%s *restrict %s = (%s *)scratch;", type, cache->text, type);
    cv_emit_line(emit, "scratch += %s;", cache_bytes(rows, loops, cache));
  }
  cv_loops_write(emit, loops);
  cv_emit_end(emit, "bad");
}

static cv_status render(cv_emit *emit, const char *pattern, cv_rendered *out_rendered) {
  cv_rows rows;
  cv_loops loops = {.body = write_row, .context = &rows};
  cv_rows_find(emit, &rows);
  if (emit->status != CV_OK) return emit->status;
  cv_loops_plan(emit, rows.domain, rows.inner, &loops);
  rows.vertical = choose_vertical(emit, &loops);
  loops.chunk = VERTICAL_VECTORS * emit->lanes;
  if (!rows.vertical) loops.lane_axis = -1;
  const char *variant = cv_emit_format(emit, "%s, %d lanes %s, %d passes", pattern, emit->lanes,
                                       rows.vertical ? "over rows" : "along the row",
                                       rows.n_passes + (has_row_results(&rows) ? 1 : 0));
  cv_emit_comment(emit, variant);
  cv_emit_begin_prepare(emit);
  cv_loops_tasks(emit, &loops, "plan->tasks[0]");
  for (int i = 0; i < rows.n_caches; i++) {
    cv_emit_line(emit, "plan->scratch_thread += %s;", cache_bytes(&rows, &loops, &rows.caches[i]));
  }
  cv_emit_end(emit, "0");
  write_run(&rows, &loops);
  cv_emit_rendered(emit, variant, out_rendered);
  return emit->status;
}

cv_status cv_render_row(cv_emit *emit, cv_rendered *out_rendered) {
  return render(emit, "row", out_rendered);
}

cv_status cv_render_reduce(cv_emit *emit, cv_rendered *out_rendered) {
  return render(emit, "reduce", out_rendered);
}
