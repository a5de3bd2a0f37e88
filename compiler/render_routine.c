/* Routines: plain C, filled in with dims and attributes. */
#include <inttypes.h>
#include <string.h>

#include "compiler/render_internal.h"
#include "compiler/routine_text.h"

enum { MAX_KEYS = 24 };
typedef struct {
  cv_emit *emit;
  const cv_node *node;
  int n;
  const char *keys[MAX_KEYS], *texts[MAX_KEYS];
  cv_str head; /* declarations at the top of prepare and run */
} routine;

static void set(routine *r, const char *key, const char *text) {
  if (r->n == MAX_KEYS) return;
  r->keys[r->n] = key;
  r->texts[r->n++] = text;
}

static void set_int(routine *r, const char *key, int64_t value) {
  set(r, key, cv_emit_format(r->emit, "%" PRId64, value));
}

static const char *text_of(const routine *r, const char *key, size_t n) {
  for (int i = 0; i < r->n; i++) {
    if (strlen(r->keys[i]) == n && memcmp(r->keys[i], key, n) == 0) return r->texts[i];
  }
  return "";
}

static void add_filled(const routine *r, const char *text) {
  cv_str *out = r->emit->out;
  for (const char *at = strstr(text, "${"); at != NULL; at = strstr(text, "${")) {
    size_t n = strcspn(at + 2, "}");
    cv_str_append(out, text, (size_t)(at - text));
    cv_str_puts(out, text_of(r, at + 2, n));
    text = at + 3 + n;
  }
  cv_str_puts(out, text);
}

static void declare(routine *r, const char *name, cv_expr e) {
  cv_str_add(&r->head, "  const int64_t %s = %s;\n", name, cv_emit_expr(r->emit, e));
}

static const cv_type *operand(const routine *r, uint32_t i) {
  return cv_type_of(r->emit->body, r->node->ins[i]);
}

static cv_expr product(routine *r, const cv_type *type, int from, int to) {
  return cv_emit_product(r->emit, type->dims + from, to - from);
}

/* ---- keys ---- */

static void set_element(routine *r, cv_dtype dtype) {
  cv_emit *emit = r->emit;
  const char *suffix = cv_suffix(emit, dtype);
  bool half = dtype == CV_F16 || dtype == CV_BF16;
  set(r, "N", emit->name);
  set(r, "S", cv_storage_type(dtype));
  set(r, "E", cv_element_type(dtype));
  set(r, "T", suffix);
  set(r, "get", half ? cv_emit_format(emit, "%s_get(", emit->name) : "*(");
  set(r, "put", cv_emit_format(emit, "%s_put(", emit->name));
}

/* get and put of one element. */
static void write_accessors(routine *r, cv_dtype dtype) {
  cv_emit *emit = r->emit;
  const char *suffix = cv_suffix(emit, dtype), *type = cv_element_type(dtype);
  const char *storage = cv_storage_type(dtype);
  bool half = dtype == CV_F16 || dtype == CV_BF16;
  if (!half) {
    cv_emit_line(emit, "CV_INLINE void %s_put(%s *p, %s v) { *p = v; }", emit->name, storage, type);
    return;
  }
  cv_emit_line(emit, "CV_INLINE %s %s_get(const %s *p) { return cv_bcast_%s(p)[0]; }", type,
               emit->name, storage, suffix);
  cv_emit_line(emit, "CV_INLINE void %s_put(%s *p, %s v) { cv_store_%s(p, 1, cv_splat_%s(v)); }",
               emit->name, storage, type, suffix, cv_suffix(emit, CV_F32));
}

static void set_rows(routine *r) {
  const cv_type *x = operand(r, 0);
  int axis = (int)cv_node_int(r->node, CV_ATTR_AXIS);
  declare(r, "outer", product(r, x, 0, axis));
  declare(r, "extent", x->dims[axis]);
  declare(r, "inner", product(r, x, axis + 1, x->rank));
}

static void set_extents(routine *r, const cv_type *type, int n) {
  cv_str text = {.may_die = true};
  for (int i = 0; i < n; i++) cv_str_add(&text, "%s, ", cv_emit_expr(r->emit, type->dims[i]));
  set(r, "extents", cv_arena_strdup(r->emit->arena, cv_str_text(&text)));
  cv_str_deinit(&text);
}

static void set_scan(routine *r) {
  cv_dtype dtype = operand(r, 0)->dtype;
  bool sum = strcmp(cv_node_text(r->node, CV_ATTR_KIND), "sum") == 0;
  set(r, "sum", cv_dtype_kind(dtype) == 'f' ? "double" : cv_storage_type(dtype));
  set(r, "start", sum ? "0" : "1");
  set(r, "sign", sum ? "+" : "*");
  set_int(r, "reverse", cv_node_int(r->node, CV_ATTR_REVERSE));
  set_int(r, "exclusive", cv_node_int(r->node, CV_ATTR_EXCLUSIVE));
}

static void set_scatter(routine *r) {
  const cv_type *x = operand(r, 0), *idx = operand(r, 1);
  const char *kind = cv_node_text(r->node, CV_ATTR_KIND), *value = NULL;
  int64_t depth = 0;
  (void)cv_expr_is_const(r->emit->pool, idx->dims[idx->rank - 1], &depth);
  declare(r, "count", product(r, x, 0, x->rank));
  declare(r, "inner", product(r, x, (int)depth, x->rank));
  declare(r, "rows", product(r, idx, 0, idx->rank - 1));
  set_extents(r, x, (int)depth);
  set_int(r, "depth", depth);
  if (strcmp(kind, "add") == 0) value = "a + b";
  if (strcmp(kind, "mul") == 0) value = "a * b";
  if (strcmp(kind, "max") == 0) value = "a > b || a != a ? a : b";
  if (strcmp(kind, "min") == 0) value = "a < b || a != a ? a : b";
  const char *get = text_of(r, "get", 3), *put = text_of(r, "put", 3);
  const char *type = cv_element_type(x->dtype);
  set(r, "update",
      value == NULL ? "*q = *p;"
                    : cv_emit_format(r->emit, "const %s a = %sq), b = %sp); %sq, (%s)(%s));", type,
                                     get, get, put, type, value));
}

/* The loops of window_arg over places and taps. */
static void set_window(routine *r) {
  const cv_type *x = operand(r, 0), *y = cv_type_of(r->emit->body, r->node->outs[0]);
  const int64_t *kernel = cv_node_attr(r->node, CV_ATTR_KERNEL)->ints;
  const int64_t *strides = cv_node_attr(r->node, CV_ATTR_STRIDES)->ints;
  const int64_t *dilations = cv_node_attr(r->node, CV_ATTR_DILATIONS)->ints;
  const cv_expr *lo = cv_node_attr(r->node, CV_ATTR_LO)->exprs;
  cv_str open = {.may_die = true}, taps = {.may_die = true}, at = {.may_die = true};
  cv_str close = {.may_die = true};
  int spatial = x->rank - 2;
  cv_str_puts(&at, "0");
  for (int i = 0; i < spatial; i++) {
    const char *in = cv_emit_expr(r->emit, x->dims[2 + i]);
    cv_str_add(&open, "    for (int64_t o%d = 0; o%d < %s; o%d++) {\n", i, i,
               cv_emit_expr(r->emit, y->dims[2 + i]), i);
    cv_str_add(&taps,
               "      for (int64_t k%d = 0; k%d < %" PRId64
               "; k%d++) {\n"
               "        const int64_t x%d = o%d * %" PRId64 " + k%d * %" PRId64
               " - (%s);\n"
               "        if (x%d < 0 || x%d >= %s) continue;\n",
               i, i, kernel[i], i, i, i, strides[i], i, dilations[i], cv_emit_expr(r->emit, lo[i]),
               i, i, in);
    char *inner = cv_arena_format(r->emit->arena, "(%s) * (%s) + x%d", cv_str_text(&at), in, i);
    cv_str_deinit(&at);
    cv_str_puts(&at, inner);
    if (i > 0) cv_str_puts(&close, "}");
  }
  cv_str_add(&taps, "        const int64_t at = %s;\n", cv_str_text(&at));
  cv_arena *arena = r->emit->arena;
  set(r, "open", cv_arena_strdup(arena, cv_str_text(&open)));
  set(r, "taps", cv_arena_strdup(arena, cv_str_text(&taps)));
  set(r, "close", cv_arena_strdup(arena, cv_str_text(&close)));
  set(r, "close_taps", cv_arena_strdup(arena, cv_str_text(&close)));
  declare(r, "planes", product(r, x, 0, 2));
  declare(r, "plane", product(r, x, 2, x->rank));
  declare(r, "places", product(r, y, 2, y->rank));
  cv_str_deinit(&open);
  cv_str_deinit(&taps);
  cv_str_deinit(&at);
  cv_str_deinit(&close);
}

static void set_random(routine *r, const cv_type *y) {
  cv_dtype dtype = y->dtype;
  declare(r, "count", product(r, y, 0, y->rank));
  set(r, "seed", cv_emit_format(r->emit, "%" PRIu64, (uint64_t)cv_node_int(r->node, CV_ATTR_SEED)));
  set(r, "normal", cv_node_text(r->node, CV_ATTR_KIND)[0] == 'n' ? "1" : "0");
  set(r, "narrow", dtype == CV_F64 ? "value" : "(float)value");
}

static void set_own(routine *r) {
  const cv_node *node = r->node;
  const cv_type *x = node->n_ins > 0 ? operand(r, 0) : NULL;
  bool max = false;
  switch (node->op) {
    case CV_OP_arg:
      set_rows(r);
      max = strcmp(cv_node_text(node, CV_ATTR_KIND), "max") == 0;
      set(r, "largest", max ? "1" : "0");
      set_int(r, "last", cv_node_int(node, CV_ATTR_LAST));
      break;
    case CV_OP_scan:
      set_rows(r);
      set_scan(r);
      break;
    case CV_OP_window_arg: set_window(r); break;
    case CV_OP_scatter_nd: set_scatter(r); break;
    case CV_OP_topk:
      set_rows(r);
      declare(r, "most", cv_node_attr(node, CV_ATTR_K)->e);
      set_int(r, "largest", cv_node_int(node, CV_ATTR_LARGEST));
      break;
    case CV_OP_nonzero: declare(r, "most", cv_node_attr(node, CV_ATTR_K)->e); /* fall through */
    case CV_OP_nonzero_count:
    case CV_OP_unique:
      declare(r, "count", product(r, x, 0, x->rank));
      set_extents(r, x, x->rank);
      set_int(r, "rank", x->rank);
      set(r, "largest", "0");
      if (node->op == CV_OP_unique) set_int(r, "sorted", cv_node_int(node, CV_ATTR_SORTED));
      break;
    case CV_OP_nms:
      declare(r, "images", operand(r, 1)->dims[0]);
      declare(r, "classes", operand(r, 1)->dims[1]);
      declare(r, "each", operand(r, 1)->dims[2]);
      set(r, "largest", "1");
      set_int(r, "center", cv_node_int(node, CV_ATTR_CENTER));
      break;
    case CV_OP_random: set_random(r, cv_type_of(r->emit->body, node->outs[0])); break;
    default: break;
  }
}

/* ---- operands and outputs ---- */

/* Memory of the whole call for operands that are one constant everywhere and for outputs that
 * nobody wants. */
typedef struct {
  cv_expr bytes; /* before it */
  int n;
  const char *names[8], *types[8], *fills[8]; /* fills: NULL for outputs */
  cv_expr counts[8], offsets[8];
} shared;

static void add_shared(routine *r, shared *s, const char *name, cv_val v, const char *fill) {
  cv_emit *emit = r->emit;
  cv_dtype dtype = cv_type_of(emit->body, v)->dtype;
  cv_expr count = cv_emit_count_of(emit, v), size, line = cv_expr_const(emit->pool, 64);
  if (s->n == 8) return;
  s->names[s->n] = name;
  s->types[s->n] = cv_storage_type(dtype);
  s->fills[s->n] = fill;
  s->counts[s->n] = count;
  s->offsets[s->n++] = s->bytes;
  size = cv_expr_mul(emit->pool, count, cv_expr_const(emit->pool, (int64_t)cv_dtype_size(dtype)));
  size = cv_expr_add(emit->pool, size, cv_expr_const(emit->pool, 63));
  size = cv_expr_mul(emit->pool, cv_expr_div(emit->pool, size, line), line);
  s->bytes = cv_expr_add(emit->pool, s->bytes, size);
}

static void find_shared(routine *r, shared *s) {
  const cv_block *block = r->emit->body->body;
  for (uint32_t i = 0; i < r->node->n_ins; i++) {
    const cv_value_info *info = cv_value_of(r->emit->body, r->node->ins[i]);
    bool splat = info->is_const && info->data.data != NULL &&
                 info->data.bytes == cv_dtype_size(info->type.dtype);
    if (!splat) continue;
    add_shared(r, s, cv_emit_format(r->emit, "in%u", i), r->node->ins[i],
               cv_storage_literal(r->emit, info->type.dtype, info->data.data));
  }
  for (uint32_t i = 0; i < r->node->n_outs; i++) {
    bool wanted = false;
    for (size_t k = 0; k < block->results.len; k++) {
      wanted = wanted || block->results.data[k] == r->node->outs[i];
    }
    if (!wanted) add_shared(r, s, cv_emit_format(r->emit, "out%u", i), r->node->outs[i], NULL);
  }
}

/* in0, in1, ... and out0, out1, ... as the routine's text names them. */
static void name_operands(routine *r, const shared *s) {
  cv_emit *emit = r->emit;
  const cv_block *block = emit->body->body;
  for (uint32_t i = 0; i < r->node->n_ins; i++) {
    cv_val v = r->node->ins[i];
    const cv_value_info *info = cv_value_of(emit->body, v);
    const char *type = cv_storage_type(info->type.dtype);
    if (!info->is_const || info->data.data == NULL) {
      cv_emit_line(emit, "const %s *const in%u = p%u;", type, i, info->def_index);
    } else if (info->data.bytes > cv_dtype_size(info->type.dtype)) {
      cv_emit_line(emit, "const %s *const in%u = %s_c%u;", type, i, emit->name, v);
    }
  }
  for (uint32_t i = 0; i < r->node->n_outs; i++) {
    for (size_t k = block->results.len; k-- > 0;) {
      if (block->results.data[k] != r->node->outs[i]) continue;
      cv_emit_line(emit, "%s *const out%u = q%zu;",
                   cv_storage_type(cv_type_of(emit->body, r->node->outs[i])->dtype), i, k);
      break;
    }
  }
  for (int i = 0; i < s->n; i++) {
    cv_emit_line(emit, "%s *const %s = (%s *)((char *)scratch_shared + (%s));", s->types[i],
                 s->names[i], s->types[i], cv_emit_expr(emit, s->offsets[i]));
  }
}

/* ---- the template ---- */

static void write_prepare(routine *r, const routine_text *text, const shared *s) {
  cv_emit *emit = r->emit;
  cv_emit_begin_prepare(emit);
  cv_str_puts(emit->out, cv_str_text(&r->head));
  add_filled(r, text->tasks);
  if (s->n > 0) {
    cv_emit_line(emit, "plan->tasks[2] = plan->tasks[1];");
    cv_emit_line(emit, "plan->tasks[1] = plan->tasks[0];");
    cv_emit_line(emit, "plan->tasks[0] = 1;");
    cv_emit_line(emit, "plan->phases++;");
    cv_emit_line(emit, "plan->scratch_shared = %s;", cv_emit_expr(emit, s->bytes));
  }
  cv_emit_end(emit, "0");
}

static void write_run(routine *r, const routine_text *text, const shared *s) {
  cv_emit *emit = r->emit;
  cv_emit_begin_run(emit, 0);
  cv_str_puts(emit->out, cv_str_text(&r->head));
  name_operands(r, s);
  if (s->n > 0) {
    cv_emit_open(emit, "if (phase-- == 0)");
    for (int i = 0; i < s->n; i++) {
      if (s->fills[i] == NULL) continue;
      cv_emit_line(emit, "for (int64_t i = 0; i < %s && begin < end; i++) %s[i] = %s;",
                   cv_emit_expr(emit, s->counts[i]), s->names[i], s->fills[i]);
    }
    cv_emit_line(emit, "return 0;");
    cv_emit_close(emit);
  }
  add_filled(r, text->run);
  cv_emit_end(emit, "bad");
}

static const routine_text *find_text(const cv_node *node) {
  for (int i = 0; node != NULL && i < routine_text_count; i++) {
    if (routine_texts[i].op == node->op) return &routine_texts[i];
  }
  return NULL;
}

cv_status cv_render_routine(cv_emit *emit, cv_rendered *out_rendered) {
  routine r = {.emit = emit, .head = {.may_die = true}};
  shared s = {.bytes = cv_expr_const(emit->pool, 0)};
  r.node = cv_body_anchor(emit->body, CV_CLASS_ROUTINE);
  const routine_text *text = find_text(r.node);
  if (text == NULL) {
    return cv_error(CV_UNSUPPORTED, "kernel %s: there is no routine for %s", emit->name,
                    r.node == NULL ? "a body without one" : cv_op_get(r.node->op)->name);
  }
  const char *variant = cv_emit_format(emit, "routine %s", cv_op_get(r.node->op)->name);
  cv_dtype dtype =
      r.node->n_ins > 0 ? operand(&r, 0)->dtype : cv_type_of(emit->body, r.node->outs[0])->dtype;
  cv_emit_comment(emit, variant);
  set_element(&r, dtype);
  set_own(&r);
  find_shared(&r, &s);
  write_accessors(&r, dtype);
  add_filled(&r, text->functions);
  write_prepare(&r, text, &s);
  write_run(&r, text, &s);
  cv_emit_rendered(emit, variant, out_rendered);
  cv_str_deinit(&r.head);
  return emit->status;
}
