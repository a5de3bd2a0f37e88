/* Contraction template, conv: an implicit matrix product over the padded copy of x. Depth is k =
 * (channel, kernel offsets...), pixels p are the flattened output positions. Two forms, chosen by
 * shape alone: pixel lanes    rows are output channels (weights packed [tile][k][rows]), columns
 * are pixels, gathered panel by panel channel lanes  for small maps: rows are pixels (read in place
 * for 1x1, else from a gathered [k][p]), columns are output channels (weights packed
 * [panel][k][columns]) Both go through depth in blocks, ascending, so the order of arithmetic is
 * the same. */
#include "compiler/render_conv.h"

#include <string.h>

enum { DEPTH_BLOCK = 256, SMALL_MAP = 256 };

typedef struct {
  cv_emit *emit;
  const cv_node *node;
  cv_val w, y;
  cv_padded x;
  cv_gemm gemm;
  int spatial;
  int64_t groups;
  int64_t kernel[CV_MAX_RANK], strides[CV_MAX_RANK], dilations[CV_MAX_RANK];
  cv_expr out[CV_MAX_RANK];
  cv_expr n, channels_in, channels_out; /* channels of a group */
  cv_expr depth, pixels;
  bool channel_lanes, in_place; /* in_place: rows of pixels need no gathering */
  bool weights;                 /* packed at load, else by a phase */
  int width;                    /* of a packed block of weights: rows or columns of the tile */
  int phases, pad_phase, pack_phase, gather_phase, gemm_phase;
} conv;

static const char *text_of(const conv *c, cv_expr e) { return cv_emit_expr(c->emit, e); }

/* C text of sum over axes of index_i * step_i * (padded extents behind i), `index` printing axis i.
 */
static const char *plane_offset(const conv *c, const char *const *index, const int64_t *step) {
  const char *text = "0";
  for (int i = 0; i < c->spatial; i++)
    text = cv_emit_format(c->emit, "(%s) * (%s) + %s * %lld", text, text_of(c, c->x.padded[i]),
                          index[i], (long long)step[i]);
  return text;
}

static void read_attrs(conv *c) {
  cv_emit *emit = c->emit;
  cv_exprs *pool = emit->pool;
  const cv_type *x = cv_type_of(emit->body, c->node->ins[0]), *w = cv_type_of(emit->body, c->w);
  const cv_type *y = cv_type_of(emit->body, c->y);
  c->spatial = x->rank - 2;
  c->groups = cv_node_int(c->node, CV_ATTR_GROUPS);
  c->n = y->dims[0];
  c->channels_in = w->dims[1];
  c->channels_out = cv_expr_div(pool, w->dims[0], cv_expr_const(pool, c->groups));
  c->depth = cv_emit_product(emit, w->dims + 1, w->rank - 1);
  c->pixels = cv_emit_product(emit, y->dims + 2, c->spatial);
  for (int i = 0; i < c->spatial; i++) {
    c->strides[i] = cv_node_attr(c->node, CV_ATTR_STRIDES)->ints[i];
    c->dilations[i] = cv_node_attr(c->node, CV_ATTR_DILATIONS)->ints[i];
    c->out[i] = y->dims[i + 2];
    if (!cv_expr_is_const(pool, w->dims[i + 2], &c->kernel[i]))
      cv_emit_fail(emit, CV_UNSUPPORTED, "conv %s: kernel sizes that are not known before the run",
                   c->node->source);
  }
}

/* Which form; depends on the shape of the weights and of the output map only. */
static void choose_form(conv *c) {
  int64_t pixels = 0, channels = 0;
  bool known = cv_expr_is_const(c->emit->pool, c->pixels, &pixels);
  cv_expr_is_const(c->emit->pool, c->channels_out, &channels);
  cv_gemm_init(c->emit->target, c->gemm.acc, 0, &c->gemm);
  c->channel_lanes = known && pixels <= SMALL_MAP && channels >= c->gemm.lanes;
  cv_gemm_init(c->emit->target, c->gemm.acc, c->channel_lanes ? channels : pixels, &c->gemm);
  c->width = c->channel_lanes ? c->gemm.columns : c->gemm.rows;
  c->in_place = c->channel_lanes;
  for (int i = 0; i < c->spatial; i++) c->in_place &= c->kernel[i] == 1 && c->strides[i] == 1;
  c->pad_phase = c->x.copied ? c->phases++ : -1;
  c->pack_phase = c->weights ? -1 : c->phases++;
  c->gather_phase = c->channel_lanes && !c->in_place ? c->phases++ : -1;
  c->gemm_phase = c->phases++;
}

static void setup(conv *c, cv_emit *emit, cv_node *node) {
  cv_dtype acc = cv_gemm_acc(cv_type_of(emit->body, node->ins[0])->dtype,
                             cv_type_of(emit->body, node->outs[0])->dtype);
  *c = (conv){.emit = emit, .node = node, .gemm.acc = acc};
  cv_val x = cv_gemm_operand(emit, node->ins[0], acc);
  c->w = cv_gemm_operand(emit, node->ins[1], acc);
  c->y = cv_gemm_result(emit, node, acc);
  read_attrs(c);
  cv_padded_init(emit, node, x, acc, "0", &c->x);
  c->weights = cv_gemm_is_weight(emit->body, c->w);
  choose_form(c);
}

static cv_expr blocks_of(const conv *c, cv_expr extent, int width) {
  cv_exprs *pool = c->emit->pool;
  return cv_expr_div(pool, cv_expr_add(pool, extent, cv_expr_const(pool, width - 1)),
                     cv_expr_const(pool, width));
}

/* Elements of the packed weights. */
static cv_expr packed_count(const conv *c) {
  cv_exprs *pool = c->emit->pool;
  cv_expr blocks = cv_expr_mul(pool, blocks_of(c, c->channels_out, c->width),
                               cv_expr_const(pool, c->groups * c->width));
  return cv_expr_mul(pool, blocks, c->depth);
}

static void print_counts(const conv *c) {
  cv_emit *emit = c->emit;
  cv_emit_line(emit, "const int64_t count_n = %s, channels_in = %s, channels_out = %s;",
               text_of(c, c->n), text_of(c, c->channels_in), text_of(c, c->channels_out));
  cv_emit_line(emit, "const int64_t depth = %s, pixels = %s, plane = %s;", text_of(c, c->depth),
               text_of(c, c->pixels), text_of(c, cv_padded_plane(emit, &c->x)));
  cv_emit_line(emit, "const int64_t blocks = %s;",
               text_of(c, blocks_of(c, c->channels_out, c->width)));
  cv_emit_line(emit, "const int64_t panels = %s;",
               c->channel_lanes ? "blocks" : text_of(c, blocks_of(c, c->pixels, c->gemm.columns)));
  cv_emit_line(emit,
               "(void)count_n, (void)channels_in, (void)channels_out, (void)depth, (void)pixels, "
               "(void)plane, "
               "(void)blocks, (void)panels;");
}

/* Shared scratch, in order: padded x, packed weights, gathered columns; each with a vector of
 * slack, 64-byte aligned. */
static void print_shared(const conv *c) {
  cv_emit *emit = c->emit;
  int size = (int)cv_dtype_size(c->gemm.acc);
  cv_emit_line(emit, "const int64_t padded_bytes = %s;",
               c->x.copied ? cv_emit_format(emit, "((%s) * %d + 127) & ~INT64_C(63)",
                                            text_of(c, cv_padded_count(emit, &c->x)), size)
                           : "0");
  cv_emit_line(emit, "const int64_t packed_bytes = %s;",
               c->weights ? "0"
                          : cv_emit_format(emit, "((%s) * %d + 127) & ~INT64_C(63)",
                                           text_of(c, packed_count(c)), size));
  cv_emit_line(
      emit, "const int64_t gathered_bytes = %s;",
      c->gather_phase < 0
          ? "0"
          : cv_emit_format(emit, "(count_n * %lld * depth * pixels * %d + 127) & ~INT64_C(63)",
                           (long long)c->groups, size));
  cv_emit_line(emit, "(void)padded_bytes, (void)packed_bytes, (void)gathered_bytes;");
}

static void print_prepare(const conv *c) {
  cv_emit *emit = c->emit;
  int size = (int)cv_dtype_size(c->gemm.acc);
  cv_emit_begin_prepare(emit);
  print_counts(c);
  print_shared(c);
  cv_emit_line(emit, "plan->phases = %d;", c->phases);
  if (c->pad_phase >= 0)
    cv_emit_line(emit, "plan->tasks[%d] = (%s) * (%s);", c->pad_phase, text_of(c, c->x.n),
                 text_of(c, c->x.c));
  if (c->pack_phase >= 0) cv_emit_line(emit, "plan->tasks[%d] = 1;", c->pack_phase);
  if (c->gather_phase >= 0)
    cv_emit_line(emit, "plan->tasks[%d] = count_n * channels_in * %lld;", c->gather_phase,
                 (long long)c->groups);
  cv_emit_line(emit, "plan->tasks[%d] = count_n * %lld * panels;", c->gemm_phase,
               (long long)c->groups);
  cv_emit_line(emit, "plan->scratch_shared = padded_bytes + packed_bytes + gathered_bytes;");
  if (c->channel_lanes)
    cv_emit_line(emit, "plan->scratch_thread = pixels * %d;", c->gemm.columns * size);
  else
    cv_emit_line(emit, "plan->scratch_thread = (%d + blocks * %d) * %d;",
                 DEPTH_BLOCK * c->gemm.columns + c->gemm.lanes, c->gemm.rows * c->gemm.columns,
                 size);
  cv_emit_end(emit, "0");
}

/* Weights [oc][k] to blocks of `width` channels, [group][block][k][width], zeros behind the last
 * channel of a group. */
static void print_pack_body(const conv *c, const char *to) {
  cv_emit *emit = c->emit;
  const cv_type *w = cv_type_of(emit->body, c->w);
  cv_sym oc = cv_emit_axis(emit, "oc", w->dims[0]), k = cv_emit_axis(emit, "k", c->depth);
  cv_emit_line(emit, "for (int64_t i = 0; i < blocks * %lld * depth; i++) %s[i] = 0;",
               (long long)c->groups * c->width, to);
  cv_emit_open(emit, "for (int64_t oc = 0; oc < %s; oc++)", text_of(c, w->dims[0]));
  cv_emit_line(emit, "const int64_t in_group = oc %% channels_out;");
  cv_emit_line(emit,
               "%s *block = %s + (oc / channels_out * blocks + in_group / %d) * depth * %d + "
               "in_group %% %d;",
               c->gemm.element, to, c->width, c->width, c->width);
  cv_emit_open(emit, "for (int64_t k = 0; k < depth; k += %d)", emit->lanes);
  cv_emit_line(emit, "const int count = (int)(depth - k < %d ? depth - k : %d);", emit->lanes,
               emit->lanes);
  size_t mark = cv_emit_mark(emit);
  emit->lane = k;
  emit->count = "count";
  cv_index flat = {.rank = 2};
  flat.axes[0] = (cv_place){.n = 1, .digits = {{cv_expr_symbol(emit->pool, oc), w->dims[0]}}};
  flat.axes[1] = (cv_place){.n = 1, .digits = {{cv_expr_symbol(emit->pool, k), c->depth}}};
  cv_index index;
  cv_index_reshape(emit, &flat, w->dims, w->rank, &index);
  const char *text = cv_emit_value(emit, c->w, &index);
  cv_emit_line(emit, "for (int l = 0; l < count; l++) block[(k + l) * %d] = %s[l];", c->width,
               text);
  cv_emit_release(emit, mark);
  cv_emit_close(emit);
  cv_emit_close(emit);
}

/* Text of the element of x (padded) for the first pixel of image n, channel `channel` (over all
 * groups). */
static void print_source(const conv *c) {
  cv_emit *emit = c->emit;
  if (c->x.copied)
    cv_emit_line(emit, "const %s *source = (const %s *)scratch_shared;", c->gemm.element,
                 c->gemm.element);
  else
    cv_emit_line(emit, "const %s *source = %s;", c->gemm.element, cv_gemm_pointer(emit, c->x.x));
}

/* for (r0..) for (r1..): kernel offsets. */
static const char *print_kernel_loops(const conv *c) {
  cv_emit *emit = c->emit;
  const char *index[CV_MAX_RANK];
  for (int i = 0; i < c->spatial; i++) {
    index[i] = cv_emit_format(emit, "r%d", i);
    cv_emit_open(emit, "for (int64_t r%d = 0; r%d < %lld; r%d++)", i, i, (long long)c->kernel[i],
                 i);
  }
  return plane_offset(c, index, c->dilations);
}

/* Gather phase: a task is one channel of one image; writes its kernel offsets' rows of
 * [n][group][k][pixels]. */
static void print_gather(const conv *c) {
  cv_emit *emit = c->emit;
  const char *e = c->gemm.element;
  cv_emit_line(emit, "%s *gathered = (%s *)((char *)scratch_shared + padded_bytes + packed_bytes);",
               e, e);
  cv_emit_open(emit, "for (int64_t task = begin; task < end; task++)");
  cv_emit_line(emit, "const %s *from = source + task * plane;", e);
  int64_t window = 1;
  for (int i = 0; i < c->spatial; i++) window *= c->kernel[i];
  cv_emit_line(emit, "%s *to = gathered + task * %lld * pixels;", e, (long long)window);
  const char *offset = print_kernel_loops(c);
  const char *index[CV_MAX_RANK];
  int last = c->spatial - 1;
  cv_emit_line(emit, "const int64_t at = %s;", offset);
  for (int i = 0; i < c->spatial; i++) {
    index[i] = cv_emit_format(emit, "o%d", i);
    if (i < last)
      cv_emit_open(emit, "for (int64_t o%d = 0; o%d < %s; o%d++)", i, i, text_of(c, c->out[i]), i);
  }
  index[last] = "0";
  cv_emit_line(emit, "const %s *row = from + at + %s;", e, plane_offset(c, index, c->strides));
  cv_emit_line(emit, "for (int64_t o = 0; o < %s; o++) to[o] = row[o * %lld];",
               text_of(c, c->out[last]), (long long)c->strides[last]);
  cv_emit_line(emit, "to += %s;", text_of(c, c->out[last]));
  for (int i = 0; i < c->spatial - 1; i++) cv_emit_close(emit);
  for (int i = 0; i < c->spatial; i++) cv_emit_close(emit);
  cv_emit_close(emit);
}

/* The epilogue for pixels [p, p + count) of channel `channel` of image n, whose accumulators are in
 * the vector `acc`. */
static void print_epilogue(const conv *c, cv_sym n, cv_sym channel, cv_sym p, const char *acc) {
  cv_emit *emit = c->emit;
  const cv_type *y = cv_type_of(emit->body, c->y);
  emit->lane = p;
  emit->count = "count";
  cv_index flat = {.rank = 3}, index;
  flat.axes[0] = (cv_place){.n = 1, .digits = {{cv_expr_symbol(emit->pool, n), c->n}}};
  flat.axes[1] = (cv_place){.n = 1, .digits = {{cv_expr_symbol(emit->pool, channel), y->dims[1]}}};
  flat.axes[2] = (cv_place){.n = 1, .digits = {{cv_expr_symbol(emit->pool, p), c->pixels}}};
  cv_index_reshape(emit, &flat, y->dims, y->rank, &index);
  cv_emit_give(emit, c->y, &index, acc);
  cv_emit_results(emit, c->y, &index);
}

typedef struct {
  cv_sym n, channel, p;
} axes;

static axes print_task(const conv *c) {
  cv_emit *emit = c->emit;
  const cv_type *y = cv_type_of(emit->body, c->y);
  axes a = {cv_emit_axis(emit, "n", c->n), cv_emit_axis(emit, "channel", y->dims[1]),
            cv_emit_axis(emit, "p", c->pixels)};
  cv_emit_line(emit,
               "const int64_t panel = task %% panels, group = task / panels %% %lld, n = task / "
               "panels / %lld;",
               (long long)c->groups, (long long)c->groups);
  cv_emit_line(emit, "const int64_t first = panel * %d;", c->gemm.columns);
  cv_emit_line(emit, "const int64_t left = %s - first;",
               c->channel_lanes ? "channels_out" : "pixels");
  cv_emit_line(emit, "const int width = (int)(left < %d ? left : %d);", c->gemm.columns,
               c->gemm.columns);
  return a;
}

static void print_count(const conv *c, const char *extent) {
  int lanes = c->emit->lanes;
  cv_emit_line(c->emit, "const int count = (int)(%s - p < %d ? %s - p : %d);", extent, lanes,
               extent, lanes);
}

/* Channel lanes: all pixels by the panel's channels; accumulators [pixel][columns]. */
static void print_channel_lanes(const conv *c) {
  cv_emit *emit = c->emit;
  const char *e = c->gemm.element, *d = cv_dtype_name(c->gemm.acc);
  int columns = c->gemm.columns, rows = c->gemm.rows;
  cv_emit_line(emit, "%s *acc = scratch_thread;", e);
  cv_emit_open(emit, "for (int64_t task = begin; task < end; task++)");
  axes a = print_task(c);
  if (c->in_place)
    cv_emit_line(emit, "const %s *from = source + (n * %lld + group) * channels_in * plane;", e,
                 (long long)c->groups);
  else
    cv_emit_line(
        emit,
        "const %s *from = (const %s *)((char *)scratch_shared + padded_bytes + packed_bytes) + "
        "(n * %lld + group) * depth * pixels;",
        e, e, (long long)c->groups);
  cv_emit_line(emit, "const %s *right = weights + (group * blocks + panel) * depth * %d;", e,
               columns);
  cv_emit_line(emit, "const int64_t tiles = (pixels + %d) / %d;", rows - 1, rows);
  cv_emit_open(emit, "for (int64_t k = 0; k < depth; k += %d)", DEPTH_BLOCK);
  cv_emit_line(emit, "const int64_t some = depth - k < %d ? depth - k : %d;", DEPTH_BLOCK,
               DEPTH_BLOCK);
  cv_emit_open(emit, "for (int64_t t = 0; t < tiles; t++)");
  cv_emit_line(emit, "const int64_t p = pixels * t / tiles;");
  cv_emit_line(emit,
               "%s((int)(pixels * (t + 1) / tiles - p), width, from + k * pixels + p, 1, pixels, "
               "right + k * %d, some, "
               "acc + p * %d, %d, k > 0);",
               cv_gemm_name(emit, &c->gemm), columns, columns, columns);
  cv_emit_close(emit);
  cv_emit_close(emit);
  cv_emit_open(emit, "for (int j = 0; j < width; j++)");
  cv_emit_line(emit, "const int64_t channel = group * channels_out + first + j;");
  cv_emit_open(emit, "for (int64_t p = 0; p < pixels; p += %d)", emit->lanes);
  print_count(c, "pixels");
  size_t mark = cv_emit_mark(emit);
  const char *v = cv_emit_id(emit, "sum");
  cv_emit_line(emit, "%sx%d %s = {0};", d, emit->lanes, v);
  cv_emit_line(emit, "for (int l = 0; l < count; l++) %s[l] = acc[(p + l) * %d + j];", v, columns);
  print_epilogue(c, a.n, a.channel, a.p, v);
  cv_emit_release(emit, mark);
  cv_emit_close(emit);
  cv_emit_close(emit);
  cv_emit_close(emit);
}

/* Pixel lanes: where the pixels of the panel read x; runs of pixels that lie a stride apart there.
 */
static void print_runs(const conv *c) {
  cv_emit *emit = c->emit;
  const char *index[CV_MAX_RANK];
  cv_emit_line(emit, "int64_t run_at[%d];", c->gemm.columns);
  cv_emit_line(emit, "int run_first[%d], runs = 0;", c->gemm.columns + 1);
  cv_emit_open(emit, "for (int j = 0; j < width; j++)");
  cv_emit_line(emit, "int64_t rest = first + j;");
  for (int i = c->spatial - 1; i >= 0; i--) {
    index[i] = cv_emit_format(emit, "o%d", i);
    cv_emit_line(emit, "const int64_t o%d = %s;", i,
                 i ? cv_emit_format(emit, "rest %% (%s)", text_of(c, c->out[i])) : "rest");
    if (i) cv_emit_line(emit, "rest /= %s;", text_of(c, c->out[i]));
  }
  cv_emit_line(emit, "const int64_t at = %s;", plane_offset(c, index, c->strides));
  cv_emit_line(emit,
               "if (runs && at == run_at[runs - 1] + (j - run_first[runs - 1]) * %lld) continue;",
               (long long)c->strides[c->spatial - 1]);
  cv_emit_line(emit, "run_at[runs] = at;");
  cv_emit_line(emit, "run_first[runs++] = j;");
  cv_emit_close(emit);
  cv_emit_line(emit, "run_first[runs] = width;");
}

static void print_copy_runs(const conv *c) {
  cv_emit *emit = c->emit;
  const char *d = cv_dtype_name(c->gemm.acc);
  int n = c->gemm.lanes;
  int64_t stride = c->strides[c->spatial - 1];
  const char *part = cv_emit_format(emit, "length - j < %d ? length - j : %d", n, n);
  cv_emit_open(emit, "for (int run = 0; run < runs; run++)");
  cv_emit_line(emit, "const int length = run_first[run + 1] - run_first[run];");
  cv_emit_line(emit, "const %s *x = row + run_at[run];", c->gemm.element);
  cv_emit_open(emit, "for (int j = 0; j < length; j += %d)", n);
  cv_emit_line(emit, "%sx%d_u *block = (%sx%d_u *)(to + run_first[run] + j);", d, n, d, n);
  if (stride != 1)
    cv_emit_line(emit, "*block = cv_stride_%sx%d(x + j * %lld, %lld, %s);", d, n, (long long)stride,
                 (long long)stride, part);
  else if (c->x.copied)
    cv_emit_line(emit, "*block = *(const %sx%d_u *)(x + j);", d, n);
  else
    cv_emit_line(emit, "*block = cv_load_%sx%d(x + j, %s);", d, n, part);
  cv_emit_close(emit);
  cv_emit_close(emit);
}

/* Fills panel rows k .. k + some from x: the run's elements, whole vectors where the copy of x
 * allows reading behind them. */
static void print_fill(const conv *c) {
  cv_emit *emit = c->emit;
  cv_emit_open(emit, "for (int64_t q = 0; q < some; q++)");
  cv_emit_line(emit, "const int64_t at = k + q;");
  const char *index[CV_MAX_RANK];
  cv_emit_line(emit, "int64_t rest = at;");
  for (int i = c->spatial - 1; i >= 0; i--) {
    index[i] = cv_emit_format(emit, "r%d", i);
    cv_emit_line(emit, "const int64_t r%d = rest %% %lld;", i, (long long)c->kernel[i]);
    cv_emit_line(emit, "rest /= %lld;", (long long)c->kernel[i]);
  }
  cv_emit_line(emit, "const %s *row = from + rest * plane + %s;", c->gemm.element,
               plane_offset(c, index, c->dilations));
  cv_emit_line(emit, "%s *to = right + q * %d;", c->gemm.element, c->gemm.columns);
  print_copy_runs(c);
  cv_emit_close(emit);
}

static void print_pixel_lanes(const conv *c) {
  cv_emit *emit = c->emit;
  const char *e = c->gemm.element, *d = cv_dtype_name(c->gemm.acc);
  int columns = c->gemm.columns, rows = c->gemm.rows;
  cv_emit_line(emit, "%s *right = scratch_thread, *acc = right + %d;", e,
               DEPTH_BLOCK * columns + c->gemm.lanes);
  cv_emit_open(emit, "for (int64_t task = begin; task < end; task++)");
  axes a = print_task(c);
  cv_emit_line(emit, "const %s *from = source + (n * %lld + group) * channels_in * plane;", e,
               (long long)c->groups);
  print_runs(c);
  cv_emit_open(emit, "for (int64_t k = 0; k < depth; k += %d)", DEPTH_BLOCK);
  cv_emit_line(emit, "const int64_t some = depth - k < %d ? depth - k : %d;", DEPTH_BLOCK,
               DEPTH_BLOCK);
  print_fill(c);
  cv_emit_open(emit, "for (int64_t t = 0; t < blocks; t++)");
  cv_emit_line(emit,
               "const int64_t height = channels_out - t * %d < %d ? channels_out - t * %d : %d;",
               rows, rows, rows, rows);
  cv_emit_line(emit,
               "%s((int)height, width, weights + ((group * blocks + t) * depth + k) * %d, 1, %d, "
               "right, some, "
               "acc + t * %d, %d, k > 0);",
               cv_gemm_name(emit, &c->gemm), rows, rows, rows * columns, columns);
  cv_emit_close(emit);
  cv_emit_close(emit);
  cv_emit_open(emit, "for (int64_t j = 0; j < channels_out; j++)");
  cv_emit_line(emit, "const int64_t channel = group * channels_out + j;");
  cv_emit_open(emit, "for (int64_t p = first; p < first + width; p += %d)", emit->lanes);
  print_count(c, "(first + width)");
  size_t mark = cv_emit_mark(emit);
  const char *v = cv_emit_id(emit, "sum");
  cv_emit_line(emit, "const %sx%d %s = *(const %sx%d_u *)(acc + j * %d + (p - first));", d,
               emit->lanes, v, d, emit->lanes, columns);
  print_epilogue(c, a.n, a.channel, a.p, v);
  cv_emit_release(emit, mark);
  cv_emit_close(emit);
  cv_emit_close(emit);
  cv_emit_close(emit);
}

static void print_phase(const conv *c, int phase) {
  if (phase == c->pad_phase) {
    cv_padded_print(c->emit, &c->x,
                    cv_emit_format(c->emit, "((%s *)scratch_shared)", c->gemm.element));
  } else if (phase == c->pack_phase) {
    cv_emit_line(c->emit, "%s *to = (%s *)((char *)scratch_shared + padded_bytes);",
                 c->gemm.element, c->gemm.element);
    print_pack_body(c, "to");
  } else if (phase == c->gather_phase) {
    print_gather(c);
  } else if (c->channel_lanes) {
    print_channel_lanes(c);
  } else {
    print_pixel_lanes(c);
  }
}

static void print_run(const conv *c) {
  cv_emit *emit = c->emit;
  const char *e = c->gemm.element;
  cv_emit_begin_run(emit, c->weights ? 1 : 0);
  print_counts(c);
  print_shared(c);
  print_source(c);
  if (c->weights)
    cv_emit_line(emit, "const %s *weights = (const %s *)w0;", e, e);
  else
    cv_emit_line(emit, "const %s *weights = (const %s *)((char *)scratch_shared + padded_bytes);",
                 e, e);
  cv_emit_line(emit, "(void)source, (void)weights, (void)scratch_thread, (void)scratch_shared;");
  for (int phase = 0; phase < c->phases; phase++) {
    cv_emit_open(emit, "if (phase == %d)", phase);
    print_phase(c, phase);
    cv_emit_close(emit);
  }
  cv_emit_end(emit, "bad");
}

cv_status cv_render_conv(cv_emit *emit, cv_node *node, cv_rendered *out_rendered) {
  conv c;
  setup(&c, emit, node);
  if (emit->status != CV_OK) return emit->status;
  const char *variant =
      cv_emit_format(emit, "conv %s %dx%d %s lanes%s%s", cv_dtype_name(c.gemm.acc), c.gemm.rows,
                     c.gemm.columns, c.channel_lanes ? "channel" : "pixel",
                     c.x.copied ? " padded copy" : "", c.weights ? "" : " weights packed each run");
  cv_emit_comment(emit, variant);
  print_prepare(&c);
  if (c.weights) {
    cv_emit_begin_pack(emit);
    print_counts(&c);
    cv_emit_line(emit, "%s *to = out;", c.gemm.element);
    print_pack_body(&c, "to");
    cv_emit_end(emit, "bad");
  }
  print_run(&c);
  cv_emit_rendered(emit, variant, out_rendered);
  if (c.weights)
    cv_gemm_weight(emit, node, c.w,
                   cv_expr_mul(emit->pool, packed_count(&c),
                               cv_expr_const(emit->pool, (int64_t)cv_dtype_size(c.gemm.acc))),
                   out_rendered);
  return emit->status;
}
