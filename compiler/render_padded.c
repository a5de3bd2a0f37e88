/* The padded copy of a conv's or window's input. */
#include "compiler/render_conv.h"

static const cv_expr *expr_list(const cv_node *node, cv_attr_key key) {
  return cv_node_attr(node, key)->exprs;
}

static bool is_int(const cv_emit *emit, cv_expr e, int64_t wanted) {
  int64_t value;
  return cv_expr_is_const(emit->pool, e, &value) && value == wanted;
}

void cv_padded_init(cv_emit *emit, const cv_node *node, cv_val x_value, cv_dtype dtype,
                    const char *fill, cv_padded *out_padded) {
  cv_exprs *pool = emit->pool;
  const cv_type *x = cv_type_of(emit->body, x_value);
  *out_padded = (cv_padded){.x = x_value,
                            .spatial = x->rank - 2,
                            .n = x->dims[0],
                            .c = x->dims[1],
                            .dtype = dtype,
                            .fill = fill};
  const cv_expr *lo = expr_list(node, CV_ATTR_LO), *hi = expr_list(node, CV_ATTR_HI);
  const cv_attr *dilation = cv_node_attr(node, CV_ATTR_LHS_DILATION);
  const cv_value_info *info = cv_value_of(emit->body, x_value);
  bool plain = !info->def;
  for (int i = 0; i < out_padded->spatial; i++) {
    int64_t d = dilation ? dilation->ints[i] : 1;
    out_padded->in[i] = x->dims[i + 2];
    out_padded->lo[i] = lo[i];
    out_padded->dilation[i] = d;
    plain &= d == 1 && is_int(emit, lo[i], 0) && is_int(emit, hi[i], 0);
    cv_expr spread = cv_expr_sub(pool, cv_expr_mul(pool, x->dims[i + 2], cv_expr_const(pool, d)),
                                 cv_expr_const(pool, d - 1));
    if (d != 1) spread = cv_expr_max(pool, spread, cv_expr_const(pool, 0));
    out_padded->padded[i] = cv_expr_add(pool, spread, cv_expr_add(pool, lo[i], hi[i]));
  }
  out_padded->copied = !plain;
}

cv_expr cv_padded_plane(cv_emit *emit, const cv_padded *padded) {
  return cv_emit_product(emit, padded->padded, padded->spatial);
}

cv_expr cv_padded_count(cv_emit *emit, const cv_padded *padded) {
  cv_exprs *pool = emit->pool;
  return cv_expr_mul(pool, cv_expr_mul(pool, padded->n, padded->c), cv_padded_plane(emit, padded));
}

/* The innermost row of x: lanes along it, stored `dilation` elements apart. */
static void print_row(cv_emit *emit, const cv_padded *padded, cv_sym *axes, cv_sym n, cv_sym c) {
  int last = padded->spatial - 1;
  int64_t d = padded->dilation[last];
  const char *t = cv_dtype_name(padded->dtype);
  cv_emit_open(emit, "for (int64_t x%d = 0; x%d < %s; x%d += %d)", last, last,
               cv_emit_expr(emit, padded->in[last]), last, emit->lanes);
  cv_emit_line(emit, "const int64_t left = %s - x%d;", cv_emit_expr(emit, padded->in[last]), last);
  cv_emit_line(emit, "const int count = (int)(left < %d ? left : %d);", emit->lanes, emit->lanes);
  size_t mark = cv_emit_mark(emit);
  emit->lane = axes[last];
  emit->count = "count";
  cv_expr at[CV_MAX_RANK];
  at[0] = cv_expr_symbol(emit->pool, n);
  at[1] = cv_expr_symbol(emit->pool, c);
  for (int i = 0; i < padded->spatial; i++) at[i + 2] = cv_expr_symbol(emit->pool, axes[i]);
  cv_index index;
  cv_index_init(emit, padded->x, at, &index);
  const char *text = cv_emit_value(emit, padded->x, &index);
  if (d == 1) {
    cv_emit_line(emit, "cv_store_%sx%d(row + x%d, count, %s);", t, emit->lanes, last, text);
  } else {
    cv_emit_line(emit, "for (int l = 0; l < count; l++) row[(x%d + l) * %lld] = %s[l];", last,
                 (long long)d, text);
  }
  cv_emit_release(emit, mark);
  cv_emit_close(emit);
}

void cv_padded_print(cv_emit *emit, const cv_padded *padded, const char *to) {
  const char *e = cv_element_type(padded->dtype);
  cv_sym axes[CV_MAX_RANK];
  cv_sym n = cv_emit_axis(emit, "n", padded->n), c = cv_emit_axis(emit, "c", padded->c);
  for (int i = 0; i < padded->spatial; i++)
    axes[i] = cv_emit_axis(emit, cv_emit_format(emit, "x%d", i), padded->in[i]);
  const char *plane = cv_emit_expr(emit, cv_padded_plane(emit, padded));
  cv_emit_open(emit, "for (int64_t task = begin; task < end; task++)");
  cv_emit_line(emit, "const int64_t n = task / (%s), c = task %% (%s);",
               cv_emit_expr(emit, padded->c), cv_emit_expr(emit, padded->c));
  cv_emit_line(emit, "%s *to = %s + task * (%s);", e, to, plane);
  cv_emit_line(emit, "for (int64_t i = 0; i < %s; i++) to[i] = %s;", plane, padded->fill);
  for (int i = 0; i < padded->spatial - 1; i++)
    cv_emit_open(emit, "for (int64_t x%d = 0; x%d < %s; x%d++)", i, i,
                 cv_emit_expr(emit, padded->in[i]), i);
  const char *offset = "0";
  for (int i = 0; i < padded->spatial; i++) {
    const char *at = i == padded->spatial - 1
                         ? "0"
                         : cv_emit_format(emit, "x%d * %lld", i, (long long)padded->dilation[i]);
    offset = cv_emit_format(emit, "(%s) * (%s) + %s + (%s)", offset,
                            cv_emit_expr(emit, padded->padded[i]), at,
                            cv_emit_expr(emit, padded->lo[i]));
  }
  cv_emit_line(emit, "%s *row = to + %s;", e, offset);
  print_row(emit, padded, axes, n, c);
  for (int i = 0; i < padded->spatial - 1; i++) cv_emit_close(emit);
  cv_emit_close(emit);
}
