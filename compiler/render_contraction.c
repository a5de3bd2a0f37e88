/* Contraction template, matmul: y[b..., m, n] = sum over k of a[b..., m, k] * b[b..., k, n], with
 * an epilogue. The right operand is read as panels of NR columns, [panel][k][NR]: packed at load
 * where it is a weight that all batches share, else by the task that needs the panel. The left one
 * is read in place where its index chain is linear in row and k, else copied row by row. Rows are
 * tiled by registers; the epilogue runs over each finished tile. */
#include <string.h>

#include "compiler/gemm_internal.h"
#include "compiler/render_conv.h"

enum { ROW_BLOCK = 64 }; /* rows of one task where a panel is a weight's */

typedef struct {
  cv_emit *emit;
  cv_val a, b, y;
  int batch_rank;            /* batch axes that are loops; the others are merged into the rows */
  int rank;                  /* of y */
  cv_expr dims[CV_MAX_RANK]; /* of the loops over batches */
  cv_sym batch[CV_MAX_RANK];
  cv_sym row, col, red;
  cv_expr rows, cols, depth;
  bool merged;    /* rows are all of b..., m */
  bool weights;   /* b is packed at load */
  bool direct;    /* a is read in place */
  cv_access a_at; /* direct: of row, red */
  cv_expr a_row, a_red, a_rest;
  cv_gemm gemm;
} matmul;

/* The index of an operand or of the result whose last two positions are `second` and `last`. */
static void place(const matmul *mm, cv_val value, cv_expr second, cv_expr last,
                  cv_index *out_index) {
  cv_emit *emit = mm->emit;
  const cv_type *type = cv_type_of(emit->body, value);
  cv_expr at[CV_MAX_RANK] = {0};
  if (!mm->merged) {
    for (int i = 0; i < mm->batch_rank; i++) at[i] = cv_expr_symbol(emit->pool, mm->batch[i]);
    at[type->rank - 2] = second;
    at[type->rank - 1] = last;
    cv_index_init(emit, value, at, out_index);
    return;
  }
  cv_expr flat_dims[2] = {mm->rows, type->dims[type->rank - 1]};
  cv_index flat = {.rank = 2};
  flat.axes[0] = (cv_place){.n = 1, .digits = {{second, flat_dims[0]}}};
  flat.axes[1] = (cv_place){.n = 1, .digits = {{last, flat_dims[1]}}};
  cv_index_reshape(emit, &flat, type->dims, type->rank, out_index);
}

/* b's index does not go through the rows; with merged rows every batch reads the same b. */
static void place_b(const matmul *mm, cv_expr red, cv_expr col, cv_index *out_index) {
  cv_emit *emit = mm->emit;
  const cv_type *type = cv_type_of(emit->body, mm->b);
  cv_expr at[CV_MAX_RANK] = {0};
  for (int i = 0; i < type->rank - 2; i++)
    at[i] = mm->merged || mm->weights ? cv_expr_const(emit->pool, 0)
                                      : cv_expr_symbol(emit->pool, mm->batch[i]);
  at[type->rank - 2] = red;
  at[type->rank - 1] = col;
  cv_index_init(emit, mm->b, at, out_index);
}

static cv_expr symbol(const matmul *mm, cv_sym sym) { return cv_expr_symbol(mm->emit->pool, sym); }

/* True if no batch index matters to what b reads. */
static bool shared_b(matmul *mm) {
  cv_emit *emit = mm->emit;
  const cv_type *type = cv_type_of(emit->body, mm->b);
  cv_expr at[CV_MAX_RANK];
  for (int i = 0; i < mm->batch_rank; i++) at[i] = symbol(mm, mm->batch[i]);
  at[type->rank - 2] = symbol(mm, mm->red);
  at[type->rank - 1] = symbol(mm, mm->col);
  cv_index index;
  cv_index_init(emit, mm->b, at, &index);
  size_t mark = cv_emit_mark(emit);
  bool was_dry = emit->dry;
  emit->dry = true;
  emit->uses.len = 0;
  emit->lane = mm->col;
  emit->count = "1";
  cv_emit_value(emit, mm->b, &index);
  bool shared = true;
  for (size_t u = 0; u < emit->uses.len; u++)
    for (int i = 0; i < mm->batch_rank; i++)
      shared &= !cv_expr_uses(emit->pool, emit->uses.data[u], mm->batch[i]);
  emit->uses.len = 0;
  emit->splits.len = 0;
  emit->dry = was_dry;
  cv_emit_release(emit, mark);
  return shared;
}

cv_val cv_gemm_operand(cv_emit *emit, cv_val value, cv_dtype acc) {
  emit->body->at = emit->body->body;
  return cv_cast(emit->body, value, acc);
}

cv_val cv_gemm_result(cv_emit *emit, cv_node *node, cv_dtype acc) {
  cv_graph *body = emit->body;
  cv_val y = node->outs[0];
  cv_type type = *cv_type_of(body, y);
  if (type.dtype == acc) return y;
  cv_dtype dtype = type.dtype;
  type.dtype = acc;
  cv_value_info sum = {.type = type, .def = node};
  cv_val s = (cv_val)body->values.len;
  if (!cv_vec_push(&body->values, sum)) {
    cv_emit_fail(emit, CV_NOMEM, "out of memory: a value of a step's body");
    return y;
  }
  body->at = body->body;
  cv_val cast = cv_cast(body, s, dtype);
  cv_node *convert = cv_value_of(body, cast)->def;
  cv_value_of(body, y)->def = convert;
  convert->outs[0] = y;
  node->outs[0] = s;
  return s;
}

const char *cv_gemm_pointer(cv_emit *emit, cv_val param) {
  return cv_emit_format(emit, "p%u", cv_value_of(emit->body, param)->def_index);
}

bool cv_gemm_is_weight(const cv_graph *body, cv_val value) {
  const cv_value_info *info = cv_value_of(body, value);
  if (info->is_const) return true;
  if (!info->def) return false;
  for (uint32_t i = 0; i < info->def->n_ins; i++)
    if (!cv_gemm_is_weight(body, info->def->ins[i])) return false;
  return info->def->n_ins > 0 || info->def->op == CV_OP_iota;
}

/* Tries to read a in place: its offset must be linear in row and k, without ranges. */
static bool find_direct(matmul *mm) {
  cv_emit *emit = mm->emit;
  cv_index index;
  place(mm, mm->a, symbol(mm, mm->row), symbol(mm, mm->red), &index);
  if (!cv_index_access(emit, mm->a, &index, &mm->a_at)) return false;
  if (mm->a_at.n_ranges || cv_type_of(emit->body, mm->a_at.param)->dtype != mm->gemm.acc)
    return false;
  cv_expr rest;
  if (!cv_expr_linear(emit->pool, mm->a_at.offset, mm->row, &mm->a_row, &rest)) return false;
  return cv_expr_linear(emit->pool, rest, mm->red, &mm->a_red, &mm->a_rest) &&
         !cv_expr_uses(emit->pool, mm->a_row, mm->red) &&
         !cv_expr_uses(emit->pool, mm->a_rest, mm->row);
}

static void setup(matmul *mm, cv_emit *emit, cv_node *node) {
  cv_graph *body = emit->body;
  cv_dtype acc =
      cv_gemm_acc(cv_type_of(body, node->ins[0])->dtype, cv_type_of(body, node->outs[0])->dtype);
  *mm = (matmul){.emit = emit};
  mm->a = cv_gemm_operand(emit, node->ins[0], acc);
  mm->b = cv_gemm_operand(emit, node->ins[1], acc);
  mm->y = cv_gemm_result(emit, node, acc);
  const cv_type *y = cv_type_of(body, mm->y), *a = cv_type_of(body, mm->a);
  mm->rank = y->rank;
  mm->batch_rank = y->rank - 2;
  for (int i = 0; i < mm->batch_rank; i++) {
    mm->dims[i] = y->dims[i];
    mm->batch[i] = cv_emit_axis(emit, cv_emit_format(emit, "batch%d", i), y->dims[i]);
  }
  mm->rows = y->dims[y->rank - 2];
  mm->cols = y->dims[y->rank - 1];
  mm->depth = a->dims[a->rank - 1];
  mm->col = cv_emit_axis(emit, "col", mm->cols);
  mm->red = cv_emit_axis(emit, "red", mm->depth);
  bool shared = shared_b(mm);
  mm->weights = shared && cv_gemm_is_weight(body, mm->b);
  int64_t columns = 0;
  cv_expr_is_const(emit->pool, mm->cols, &columns);
  cv_gemm_init(emit->target, acc, columns, &mm->gemm);
  mm->merged = shared && mm->batch_rank > 0;
  if (mm->merged) {
    mm->rows = cv_emit_product(emit, y->dims, y->rank - 1);
    mm->row = cv_emit_axis(emit, "row", mm->rows);
    mm->direct = find_direct(mm);
    if (mm->direct) {
      mm->batch_rank = 0;
      return;
    }
    mm->merged = false;
    mm->rows = y->dims[y->rank - 2];
  }
  mm->row = cv_emit_axis(emit, "row", mm->rows);
  mm->direct = find_direct(mm);
}

/* Copies of row tiles, where a is not read in place, have this many elements a row. */
static const char *depth_text(const matmul *mm) { return cv_emit_expr(mm->emit, mm->depth); }

static void print_counts(const matmul *mm) {
  cv_emit *emit = mm->emit;
  cv_emit_line(emit, "const int64_t rows = %s, cols = %s, depth = %s;",
               cv_emit_expr(emit, mm->rows), cv_emit_expr(emit, mm->cols), depth_text(mm));
  cv_emit_line(emit, "const int64_t panels = (cols + %d) / %d;", mm->gemm.columns - 1,
               mm->gemm.columns);
  if (mm->weights)
    cv_emit_line(emit, "const int64_t blocks = (rows + %d) / %d;", ROW_BLOCK - 1, ROW_BLOCK);
  else
    cv_emit_line(emit, "const int64_t blocks = 1;");
}

static void print_prepare(const matmul *mm) {
  cv_emit *emit = mm->emit;
  cv_emit_begin_prepare(emit);
  print_counts(mm);
  cv_emit_line(emit, "plan->tasks[0] = panels * blocks * (%s);",
               cv_emit_expr(emit, cv_emit_product(emit, mm->dims, mm->batch_rank)));
  int size = (int)cv_dtype_size(mm->gemm.acc);
  int tile = mm->gemm.rows * mm->gemm.columns * size;
  cv_emit_line(
      emit, "plan->scratch_thread = %d%s%s;", tile,
      mm->weights ? "" : cv_emit_format(emit, " + depth * %d", mm->gemm.columns * size),
      mm->direct ? ""
                 : cv_emit_format(emit, " + (depth + %d) * %d", emit->lanes, mm->gemm.rows * size));
  cv_emit_end(emit, "0");
}

/* Writes columns [panel * NR, ...) of b to `to`, [k][NR], zeros behind the last column. */
static void print_panel(const matmul *mm, const char *to) {
  cv_emit *emit = mm->emit;
  const char *d = cv_dtype_name(mm->gemm.acc);
  cv_emit_open(emit, "for (int64_t red = 0; red < depth; red++)");
  cv_emit_open(emit, "for (int64_t col = panel * %d; col < (panel + 1) * %d; col += %d)",
               mm->gemm.columns, mm->gemm.columns, emit->lanes);
  cv_emit_line(emit, "const int count = (int)(cols - col < %d ? cols - col : %d);", emit->lanes,
               emit->lanes);
  size_t mark = cv_emit_mark(emit);
  emit->lane = mm->col;
  emit->count = "count";
  cv_index index;
  place_b(mm, symbol(mm, mm->red), symbol(mm, mm->col), &index);
  const char *text = cv_emit_value(emit, mm->b, &index);
  cv_emit_line(emit, "cv_store_%sx%d(%s + red * %d + (col - panel * %d), %d, %s);", d, emit->lanes,
               to, mm->gemm.columns, mm->gemm.columns, emit->lanes, text);
  cv_emit_release(emit, mark);
  cv_emit_close(emit);
  cv_emit_close(emit);
}

static void print_pack(const matmul *mm) {
  cv_emit *emit = mm->emit;
  cv_emit_begin_pack(emit);
  print_counts(mm);
  cv_emit_line(emit, "(void)rows, (void)blocks;");
  cv_emit_open(emit, "for (int64_t panel = 0; panel < panels; panel++)");
  cv_emit_line(emit, "%s *to = (%s *)out + panel * depth * %d;", mm->gemm.element, mm->gemm.element,
               mm->gemm.columns);
  print_panel(mm, "to");
  cv_emit_close(emit);
  cv_emit_end(emit, "bad");
}

/* Takes the task apart: panel, block (of rows), batch indices. */
static void print_task(const matmul *mm) {
  cv_emit *emit = mm->emit;
  cv_emit_line(emit, "int64_t rest = task;");
  if (mm->weights) {
    cv_emit_line(emit, "const int64_t block = rest %% blocks;");
    cv_emit_line(emit, "rest /= blocks;");
  } else {
    cv_emit_line(emit, "const int64_t panel = rest %% panels;");
    cv_emit_line(emit, "rest /= panels;");
  }
  for (int i = mm->batch_rank - 1; i >= 0; i--) {
    cv_emit_line(emit, "const int64_t batch%d = rest %% (%s);", i, cv_emit_expr(emit, mm->dims[i]));
    cv_emit_line(emit, "rest /= %s;", cv_emit_expr(emit, mm->dims[i]));
  }
  if (mm->weights) cv_emit_line(emit, "const int64_t panel = rest;");
}

/* Copies rows [row0, row0 + count) of a to `left`, [row][depth]. */
static void print_copy_rows(const matmul *mm) {
  cv_emit *emit = mm->emit;
  cv_emit_open(emit, "for (int64_t row = row0; row < row0 + height; row++)");
  cv_emit_open(emit, "for (int64_t red = 0; red < depth; red += %d)", emit->lanes);
  cv_emit_line(emit, "const int count = (int)(depth - red < %d ? depth - red : %d);", emit->lanes,
               emit->lanes);
  size_t mark = cv_emit_mark(emit);
  emit->lane = mm->red;
  emit->count = "count";
  cv_index index;
  place(mm, mm->a, symbol(mm, mm->row), symbol(mm, mm->red), &index);
  const char *text = cv_emit_value(emit, mm->a, &index);
  cv_emit_line(emit, "cv_store_%sx%d(left + (row - row0) * depth + red, count, %s);",
               cv_dtype_name(mm->gemm.acc), emit->lanes, text);
  cv_emit_release(emit, mark);
  cv_emit_close(emit);
  cv_emit_close(emit);
}

/* The epilogue over a finished tile: rows [row0, row0 + height), the panel's columns. */
static void print_epilogue(const matmul *mm) {
  cv_emit *emit = mm->emit;
  cv_emit_open(emit, "for (int64_t row = row0; row < row0 + height; row++)");
  cv_emit_open(emit, "for (int64_t col = panel * %d; col < panel * %d + width; col += %d)",
               mm->gemm.columns, mm->gemm.columns, emit->lanes);
  cv_emit_line(emit, "const int count = (int)(cols - col < %d ? cols - col : %d);", emit->lanes,
               emit->lanes);
  size_t mark = cv_emit_mark(emit);
  emit->lane = mm->col;
  emit->count = "count";
  const char *acc = cv_emit_id(emit, "acc");
  const char *d = cv_dtype_name(mm->gemm.acc);
  cv_emit_line(
      emit, "const %sx%d %s = *(const %sx%d_u *)(tile + (row - row0) * %d + (col - panel * %d));",
      d, emit->lanes, acc, d, emit->lanes, mm->gemm.columns, mm->gemm.columns);
  cv_index index;
  place(mm, mm->y, symbol(mm, mm->row), symbol(mm, mm->col), &index);
  cv_emit_give(emit, mm->y, &index, acc);
  cv_emit_results(emit, mm->y, &index);
  cv_emit_release(emit, mark);
  cv_emit_close(emit);
  cv_emit_close(emit);
}

static void print_run(const matmul *mm) {
  cv_emit *emit = mm->emit;
  const char *e = mm->gemm.element;
  cv_emit_begin_run(emit, mm->weights ? 1 : 0);
  print_counts(mm);
  cv_emit_line(emit, "%s *tile = scratch_thread;", e);
  const char *next = cv_emit_format(emit, "tile + %d", mm->gemm.rows * mm->gemm.columns);
  if (!mm->weights) {
    cv_emit_line(emit, "%s *right = %s;", e, next);
    next = cv_emit_format(emit, "right + depth * %d", mm->gemm.columns);
  }
  if (!mm->direct) cv_emit_line(emit, "%s *left = %s;", e, next);
  cv_emit_open(emit, "for (int64_t task = begin; task < end; task++)");
  print_task(mm);
  if (mm->weights)
    cv_emit_line(emit, "const %s *right = (const %s *)w0 + panel * depth * %d;", e, e,
                 mm->gemm.columns);
  else
    print_panel(mm, "right");
  cv_emit_line(emit, "const int width = (int)(cols - panel * %d < %d ? cols - panel * %d : %d);",
               mm->gemm.columns, mm->gemm.columns, mm->gemm.columns, mm->gemm.columns);
  cv_emit_line(emit, "const int64_t first = %s;",
               mm->weights ? cv_emit_format(emit, "block * %d", ROW_BLOCK) : "0");
  cv_emit_line(emit, "const int64_t some = %s;",
               mm->weights ? cv_emit_format(emit, "rows - first < %d ? rows - first : %d",
                                            ROW_BLOCK, ROW_BLOCK)
                           : "rows");
  cv_emit_line(emit, "const int64_t tiles = (some + %d) / %d;", mm->gemm.rows - 1, mm->gemm.rows);
  cv_emit_open(emit, "for (int64_t t = 0; t < tiles; t++)");
  cv_emit_line(emit, "const int64_t row0 = first + some * t / tiles;");
  cv_emit_line(emit, "const int height = (int)(first + some * (t + 1) / tiles - row0);");
  const char *gemm = cv_gemm_name(emit, &mm->gemm);
  if (mm->direct) {
    cv_emit_line(emit,
                 "%s(height, width, %s + (%s) + row0 * (%s), %s, %s, right, depth, tile, %d, 0);",
                 gemm, cv_gemm_pointer(emit, mm->a_at.param), cv_emit_expr(emit, mm->a_rest),
                 cv_emit_expr(emit, mm->a_row), cv_emit_expr(emit, mm->a_row),
                 cv_emit_expr(emit, mm->a_red), mm->gemm.columns);
  } else {
    print_copy_rows(mm);
    cv_emit_line(emit, "%s(height, width, left, depth, 1, right, depth, tile, %d, 0);", gemm,
                 mm->gemm.columns);
  }
  print_epilogue(mm);
  cv_emit_close(emit);
  cv_emit_close(emit);
  cv_emit_end(emit, "bad");
}

/* Params that only the packed weight reads. */
static void mark_raw(const cv_graph *body, cv_val weight, bool *reads_raw) {
  for (size_t i = 0; i < body->body->params.len; i++)
    if (body->body->params.data[i] == weight) reads_raw[i] = false;
  const cv_node *def = cv_value_of(body, weight)->def;
  for (uint32_t i = 0; def && i < def->n_ins; i++) mark_raw(body, def->ins[i], reads_raw);
}

/* A param read by the packed weight may be read elsewhere too: by any node that is not under it. */
static bool under(const cv_graph *body, cv_val top, cv_val value) {
  if (top == value) return true;
  const cv_node *def = cv_value_of(body, top)->def;
  for (uint32_t i = 0; def && i < def->n_ins; i++)
    if (under(body, def->ins[i], value)) return true;
  return false;
}

void cv_gemm_weight(cv_emit *emit, const cv_node *anchor, cv_val weight, cv_expr bytes,
                    cv_rendered *out) {
  const cv_graph *body = emit->body;
  out->n_packs = 1;
  out->packs = cv_arena_array(emit->arena, cv_pack, 1);
  out->packs[0].bytes = bytes;
  mark_raw(body, weight, out->reads_raw);
  for (size_t i = 0; i < body->body->params.len; i++) {
    cv_val param = body->body->params.data[i];
    for (size_t n = 0; n < body->body->nodes.len; n++) {
      const cv_node *node = body->body->nodes.data[n];
      for (uint32_t j = 0; j < node->n_ins; j++) {
        if (node->ins[j] != param || (node == anchor && param == weight)) continue;
        if (!under(body, weight, node->outs[0])) out->reads_raw[i] = true;
      }
    }
  }
}

static cv_status render_matmul(cv_emit *emit, cv_node *node, cv_rendered *out_rendered) {
  matmul mm;
  setup(&mm, emit, node);
  const char *variant =
      cv_emit_format(emit, "matmul %s %dx%d%s%s%s", cv_dtype_name(mm.gemm.acc), mm.gemm.rows,
                     mm.gemm.columns, mm.weights ? " packed" : "", mm.direct ? "" : " copied rows",
                     mm.merged ? " merged batch" : "");
  cv_emit_comment(emit, variant);
  print_prepare(&mm);
  if (mm.weights) print_pack(&mm);
  print_run(&mm);
  cv_emit_rendered(emit, variant, out_rendered);
  if (mm.weights) {
    cv_exprs *pool = emit->pool;
    cv_expr panels =
        cv_expr_div(pool, cv_expr_add(pool, mm.cols, cv_expr_const(pool, mm.gemm.columns - 1)),
                    cv_expr_const(pool, mm.gemm.columns));
    int64_t column_bytes = mm.gemm.columns * (int64_t)cv_dtype_size(mm.gemm.acc);
    cv_expr bytes =
        cv_expr_mul(pool, cv_expr_mul(pool, panels, mm.depth), cv_expr_const(pool, column_bytes));
    cv_gemm_weight(emit, node, mm.b, bytes, out_rendered);
  }
  return emit->status;
}

cv_status cv_render_contraction(cv_emit *emit, cv_rendered *out_rendered) {
  cv_node *node = cv_body_anchor(emit->body, CV_CLASS_CONTRACT);
  if (!node) {
    cv_emit_fail(emit, CV_INTERNAL, "a contraction body without matmul or conv");
    return emit->status;
  }
  return node->op == CV_OP_conv ? cv_render_conv(emit, node, out_rendered)
                                : render_matmul(emit, node, out_rendered);
}
