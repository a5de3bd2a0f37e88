/* Window template: pooling and depthwise convolution over the padded copy of x. A task is one plane
 * (image, channel) of the result; lanes run along the innermost output axis; the taps of a
 * depthwise kernel are loaded once a task. */
#include <string.h>

#include "compiler/render_conv.h"

enum { MAX_TAPS = 4096 };

typedef struct {
  cv_emit *emit;
  const cv_node *node;
  cv_val y;
  cv_padded x;
  cv_dtype acc;
  bool conv, max;
  int spatial;
  int64_t kernel[CV_MAX_RANK], strides[CV_MAX_RANK], dilations[CV_MAX_RANK], taps;
  cv_expr out[CV_MAX_RANK];
  cv_sym n, channel, o[CV_MAX_RANK];
} window;

static const char *lowest(cv_dtype dtype) {
  switch (dtype) {
    case CV_F32: return "-__builtin_inff()";
    case CV_F64: return "-__builtin_inf()";
    case CV_I8: return "INT8_MIN";
    case CV_I16: return "INT16_MIN";
    case CV_I32: return "INT32_MIN";
    case CV_I64: return "INT64_MIN";
    default: return "0";
  }
}

static void setup(window *w, cv_emit *emit, cv_node *node) {
  const cv_type *x = cv_type_of(emit->body, node->ins[0]),
                *y = cv_type_of(emit->body, node->outs[0]);
  *w = (window){.emit = emit, .node = node, .spatial = x->rank - 2, .taps = 1};
  w->conv = node->op == CV_OP_conv;
  w->max = !w->conv && strcmp(cv_node_text(node, CV_ATTR_KIND), "max") == 0;
  w->acc = w->conv                                     ? cv_gemm_acc(x->dtype, y->dtype)
           : x->dtype == CV_F16 || x->dtype == CV_BF16 ? CV_F32
                                                       : x->dtype;
  for (int i = 0; i < w->spatial; i++) {
    w->strides[i] = cv_node_attr(node, CV_ATTR_STRIDES)->ints[i];
    w->dilations[i] = cv_node_attr(node, CV_ATTR_DILATIONS)->ints[i];
    w->out[i] = y->dims[i + 2];
    if (!w->conv)
      w->kernel[i] = cv_node_attr(node, CV_ATTR_KERNEL)->ints[i];
    else if (!cv_expr_is_const(emit->pool, cv_type_of(emit->body, node->ins[1])->dims[i + 2],
                               &w->kernel[i]))
      cv_emit_fail(emit, CV_UNSUPPORTED, "conv %s: kernel sizes that are not known before the run",
                   node->source);
    w->taps *= w->kernel[i];
  }
  if (w->conv && w->taps > MAX_TAPS)
    cv_emit_fail(emit, CV_UNSUPPORTED,
                 "depthwise conv %s: a kernel of %lld taps, at most %d are taken", node->source,
                 (long long)w->taps, MAX_TAPS);
  w->y = cv_gemm_result(emit, node, w->acc);
  cv_padded_init(emit, node, cv_gemm_operand(emit, node->ins[0], w->acc), w->acc,
                 w->max ? lowest(w->acc) : "0", &w->x);
}

static const char *offset(const window *w, const char *const *index, const int64_t *step) {
  const char *text = "0";
  for (int i = 0; i < w->spatial; i++)
    text = cv_emit_format(w->emit, "(%s) * (%s) + %s * %lld", text,
                          cv_emit_expr(w->emit, w->x.padded[i]), index[i], (long long)step[i]);
  return text;
}

static void print_prepare(const window *w) {
  cv_emit *emit = w->emit;
  const cv_type *y = cv_type_of(emit->body, w->y);
  cv_emit_begin_prepare(emit);
  const char *planes = cv_emit_expr(emit, cv_expr_mul(emit->pool, y->dims[0], y->dims[1]));
  int phase = w->x.copied ? 1 : 0;
  cv_emit_line(emit, "plan->phases = %d;", phase + 1);
  if (phase) {
    cv_emit_line(emit, "plan->tasks[0] = (%s) * (%s);", cv_emit_expr(emit, w->x.n),
                 cv_emit_expr(emit, w->x.c));
    cv_emit_line(emit, "plan->scratch_shared = (%s) * %d + 64;",
                 cv_emit_expr(emit, cv_padded_count(emit, &w->x)), (int)cv_dtype_size(w->acc));
  }
  cv_emit_line(emit, "plan->tasks[%d] = %s;", phase, planes);
  cv_emit_end(emit, "0");
}

/* The taps of this channel into `taps`. */
static void print_taps(const window *w) {
  cv_emit *emit = w->emit;
  cv_val weight = cv_gemm_operand(emit, w->node->ins[1], w->acc);
  const cv_type *type = cv_type_of(emit->body, weight);
  cv_expr count = cv_expr_const(emit->pool, w->taps);
  cv_sym tap = cv_emit_axis(emit, "tap", count);
  cv_emit_line(emit, "%s taps[%lld];", cv_element_type(w->acc), (long long)w->taps);
  cv_emit_open(emit, "for (int tap = 0; tap < %lld; tap += %d)", (long long)w->taps, emit->lanes);
  cv_emit_line(emit, "const int count = %lld - tap < %d ? %lld - tap : %d;", (long long)w->taps,
               emit->lanes, (long long)w->taps, emit->lanes);
  size_t mark = cv_emit_mark(emit);
  emit->lane = tap;
  emit->count = "count";
  cv_index flat = {.rank = 2}, index;
  flat.axes[0] =
      (cv_place){.n = 1, .digits = {{cv_expr_symbol(emit->pool, w->channel), type->dims[0]}}};
  flat.axes[1] = (cv_place){.n = 1, .digits = {{cv_expr_symbol(emit->pool, tap), count}}};
  cv_index_reshape(emit, &flat, type->dims, type->rank, &index);
  const char *text = cv_emit_value(emit, weight, &index);
  cv_emit_line(emit, "for (int l = 0; l < count; l++) taps[tap + l] = %s[l];", text);
  cv_emit_release(emit, mark);
  cv_emit_close(emit);
}

/* One vector of outputs: the kernel's offsets in order, then the epilogue. */
static void print_vector(const window *w) {
  cv_emit *emit = w->emit;
  const char *d = cv_dtype_name(w->acc);
  int n = emit->lanes, last = w->spatial - 1;
  int64_t stride = w->strides[last];
  const char *sum = cv_emit_id(emit, "sum"), *index[CV_MAX_RANK];
  cv_emit_line(emit, "%sx%d %s = cv_splat_%sx%d(%s);", d, n, sum, d, n, w->max ? w->x.fill : "0");
  if (w->conv) cv_emit_line(emit, "const %s *weight = taps;", cv_element_type(w->acc));
  for (int i = 0; i < w->spatial; i++) {
    index[i] = cv_emit_format(emit, "r%d", i);
    cv_emit_open(emit, "for (int64_t r%d = 0; r%d < %lld; r%d++)", i, i, (long long)w->kernel[i],
                 i);
  }
  cv_emit_line(emit, "const %s *at = row + o%d * %lld + %s;", cv_element_type(w->acc), last,
               (long long)stride, offset(w, index, w->dilations));
  if (stride == 1) {
    cv_emit_line(emit, "const %sx%d x = cv_load_%sx%d(at, count);", d, n, d, n);
  } else {
    cv_emit_line(emit, "const %sx%d x = cv_stride_%sx%d(at, %lld, count);", d, n, d, n,
                 (long long)stride);
  }
  if (w->conv && cv_dtype_kind(w->acc) == 'f')
    cv_emit_line(emit, "%s = cv_fma_%sx%d(x, cv_splat_%sx%d(*weight++), %s);", sum, d, n, d, n,
                 sum);
  else if (w->conv)
    cv_emit_line(emit, "%s += x * cv_splat_%sx%d(*weight++);", sum, d, n);
  else if (w->max)
    cv_emit_line(emit, "%s = cv_max_%sx%d(%s, x);", sum, d, n, sum);
  else
    cv_emit_line(emit, "%s += x;", sum);
  for (int i = 0; i < w->spatial; i++) cv_emit_close(emit);
  cv_expr at[CV_MAX_RANK] = {cv_expr_symbol(emit->pool, w->n),
                             cv_expr_symbol(emit->pool, w->channel)};
  for (int i = 0; i < w->spatial; i++) at[i + 2] = cv_expr_symbol(emit->pool, w->o[i]);
  cv_index place;
  cv_index_init(emit, w->y, at, &place);
  cv_emit_give(emit, w->y, &place, sum);
  cv_emit_results(emit, w->y, &place);
}

static void print_planes(window *w) {
  cv_emit *emit = w->emit;
  const char *e = cv_element_type(w->acc), *index[CV_MAX_RANK];
  const char *plane = cv_emit_expr(emit, cv_padded_plane(emit, &w->x));
  int last = w->spatial - 1;
  cv_emit_open(emit, "for (int64_t task = begin; task < end; task++)");
  cv_emit_line(emit, "const int64_t n = task / (%s), channel = task %% (%s);",
               cv_emit_expr(emit, w->x.c), cv_emit_expr(emit, w->x.c));
  cv_emit_line(emit, "(void)n, (void)channel;");
  if (w->conv) print_taps(w);
  for (int i = 0; i < last; i++) {
    index[i] = cv_emit_format(emit, "o%d", i);
    cv_emit_open(emit, "for (int64_t o%d = 0; o%d < %s; o%d++)", i, i,
                 cv_emit_expr(emit, w->out[i]), i);
  }
  index[last] = "0";
  cv_emit_line(emit, "const %s *row = source + task * (%s) + %s;", e, plane,
               offset(w, index, w->strides));
  const char *width = cv_emit_expr(emit, w->out[last]);
  cv_emit_open(emit, "for (int64_t o%d = 0; o%d < %s; o%d += %d)", last, last, width, last,
               emit->lanes);
  cv_emit_line(emit, "const int count = (int)(%s - o%d < %d ? %s - o%d : %d);", width, last,
               emit->lanes, width, last, emit->lanes);
  size_t mark = cv_emit_mark(emit);
  emit->lane = w->o[last];
  emit->count = "count";
  print_vector(w);
  cv_emit_release(emit, mark);
  for (int i = 0; i < w->spatial; i++) cv_emit_close(emit);
  cv_emit_close(emit);
}

static void print_run(window *w) {
  cv_emit *emit = w->emit;
  const char *e = cv_element_type(w->acc);
  cv_emit_begin_run(emit, 0);
  w->n = cv_emit_axis(emit, "n", w->x.n);
  w->channel = cv_emit_axis(emit, "channel", w->x.c);
  for (int i = 0; i < w->spatial; i++)
    w->o[i] = cv_emit_axis(emit, cv_emit_format(emit, "o%d", i), w->out[i]);
  if (w->x.copied) {
    cv_emit_line(emit, "%s *source = scratch_shared;", e);
    cv_emit_open(emit, "if (phase == 0)");
    cv_padded_print(emit, &w->x, "source");
    cv_emit_line(emit, "return bad;");
    cv_emit_close(emit);
  } else {
    cv_emit_line(emit, "const %s *source = %s;", e, cv_gemm_pointer(emit, w->x.x));
  }
  print_planes(w);
  cv_emit_end(emit, "bad");
}

cv_status cv_render_window(cv_emit *emit, cv_rendered *out_rendered) {
  cv_node *node = cv_body_anchor(emit->body, CV_CLASS_WINDOW);
  if (!node) node = cv_body_anchor(emit->body, CV_CLASS_CONTRACT);
  if (!node) {
    cv_emit_fail(emit, CV_INTERNAL, "a window body without window or conv");
    return emit->status;
  }
  window w;
  setup(&w, emit, node);
  if (emit->status != CV_OK) return emit->status;
  const char *variant = cv_emit_format(emit, "%s %s%s",
                                       w.conv  ? "depthwise"
                                       : w.max ? "max pool"
                                               : "sum pool",
                                       cv_dtype_name(w.acc), w.x.copied ? " padded copy" : "");
  cv_emit_comment(emit, variant);
  print_prepare(&w);
  print_run(&w);
  cv_emit_rendered(emit, variant, out_rendered);
  return emit->status;
}
