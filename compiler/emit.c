/* The emitter's text side: lines, C names, functions of a kernel, literals. Indices are in
 * emit_index.c, values in emit_value.c. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compiler/render_internal.h"

/* ---- errors and text ---- */

void cv_emit_fail(cv_emit *emit, cv_status code, const char *format, ...) {
  char text[512];
  va_list args;
  if (emit->status != CV_OK) return;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  emit->status = cv_error(code, "%s", text);
}

__attribute__((format(printf, 2, 0))) static void add_line(cv_emit *emit, const char *format,
                                                           va_list args, const char *end) {
  if (emit->dry) return;
  for (int i = 0; i < emit->indent; i++) cv_str_puts(emit->out, "  ");
  cv_str_addv(emit->out, format, args);
  cv_str_puts(emit->out, end);
}

void cv_emit_line(cv_emit *emit, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_line(emit, format, args, "\n");
  va_end(args);
}

void cv_emit_open(cv_emit *emit, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_line(emit, format, args, " {\n");
  va_end(args);
  emit->indent++;
}

void cv_emit_block(cv_emit *emit) {
  cv_emit_line(emit, "{");
  emit->indent++;
}

void cv_emit_close(cv_emit *emit) {
  emit->indent--;
  cv_emit_line(emit, "}");
}

const char *cv_emit_id(cv_emit *emit, const char *prefix) {
  return cv_arena_format(emit->arena, "%s%u", prefix, emit->n_ids++);
}

const char *cv_emit_format(cv_emit *emit, const char *format, ...) {
  va_list args;
  cv_str text = {.may_die = true};
  va_start(args, format);
  cv_str_addv(&text, format, args);
  va_end(args);
  const char *copy = cv_arena_strdup(emit->arena, cv_str_text(&text));
  cv_str_deinit(&text);
  return copy;
}

/* ---- symbols ---- */

static void name_symbol(cv_emit *emit, cv_sym sym, const cv_name *name) {
  cv_name none = {0};
  while (emit->names.len <= sym) cv_emit_push(&emit->names, none);
  emit->names.data[sym] = *name;
}

/* A C name of a model's symbol: "d_batch"; a number is added where two become the same. */
static const char *dim_text(cv_emit *emit, cv_sym sym) {
  char *text = cv_arena_format(emit->arena, "d_%s", cv_symbol_name(emit->pool, sym));
  for (char *c = text; *c != '\0'; c++) {
    if (!isalnum((unsigned char)*c)) *c = '_';
  }
  for (size_t i = 0; i < emit->dims.len; i++) {
    if (strcmp(emit->names.data[emit->dims.data[i]].text, text) == 0) {
      return cv_arena_format(emit->arena, "%s_%zu", text, emit->dims.len);
    }
  }
  return text;
}

static void note_symbols(cv_emit *emit, cv_expr e) {
  if (e == CV_EXPR_NONE || cv_expr_is_const(emit->pool, e, &(int64_t){0})) return;
  uint32_t n = cv_exprs_symbols(emit->pool);
  for (cv_sym sym = 0; sym < n; sym++) {
    bool known = sym < emit->names.len && emit->names.data[sym].text != NULL;
    if (known || !cv_expr_uses(emit->pool, e, sym)) continue;
    const char *text = dim_text(emit, sym);
    name_symbol(emit, sym, &(cv_name){CV_ROLE_DIM, text, text, CV_EXPR_NONE});
    cv_emit_push(&emit->dims, sym);
  }
}

static void note_type(cv_emit *emit, const cv_type *type, bool *wide) {
  for (int i = 0; i < type->rank; i++) note_symbols(emit, type->dims[i]);
  if (cv_dtype_size(type->dtype) == 8) *wide = true;
}

static void note_attrs(cv_emit *emit, const cv_node *node) {
  for (uint32_t i = 0; i < node->n_attrs; i++) {
    const cv_attr *attr = &node->attrs[i];
    cv_attr_kind kind = cv_attr_kind_of(attr->key);
    if (kind == CV_KIND_EXPR) note_symbols(emit, attr->e);
    for (uint32_t k = 0; kind == CV_KIND_EXPRS && k < attr->count; k++) {
      note_symbols(emit, attr->exprs[k]);
    }
  }
}

void cv_emit_init(cv_emit *emit, const cv_target *target, cv_graph *body, const char *name,
                  cv_arena *arena, cv_str *out) {
  bool wide = false;
  *emit = (cv_emit){.target = target,
                    .body = body,
                    .pool = body->exprs,
                    .arena = arena,
                    .name = name,
                    .out = out,
                    .lane = CV_NONE,
                    .count = "n"};
  for (size_t i = 0; i < body->body->params.len; i++) {
    note_type(emit, cv_type_of(body, body->body->params.data[i]), &wide);
  }
  for (size_t i = 0; i < body->body->nodes.len; i++) {
    const cv_node *node = body->body->nodes.data[i];
    for (uint32_t k = 0; k < node->n_ins; k++) {
      note_type(emit, cv_type_of(body, node->ins[k]), &wide);
    }
    for (uint32_t k = 0; k < node->n_outs; k++) {
      note_type(emit, cv_type_of(body, node->outs[k]), &wide);
    }
    note_attrs(emit, node);
  }
  for (size_t i = 0; i < body->equalities.len; i++) {
    note_symbols(emit, body->equalities.data[i].a);
    note_symbols(emit, body->equalities.data[i].b);
  }
  emit->lanes = target->vector_bytes / (wide ? 8 : 4);
}

void cv_emit_deinit(cv_emit *emit) {
  cv_vec_deinit(&emit->names);
  cv_vec_deinit(&emit->dims);
  cv_vec_deinit(&emit->known);
  cv_vec_deinit(&emit->twins);
  cv_vec_deinit(&emit->buffers);
  cv_vec_deinit(&emit->ranges);
  cv_vec_deinit(&emit->cuts);
  cv_vec_deinit(&emit->uses);
  cv_vec_deinit(&emit->splits);
}

cv_sym cv_emit_axis(cv_emit *emit, const char *name, cv_expr extent) {
  int64_t lo, hi;
  const char *key = cv_arena_format(emit->arena, "%%%s.%u", name, cv_exprs_symbols(emit->pool));
  cv_expr_bounds(emit->pool, extent, &lo, &hi);
  cv_sym sym = cv_exprs_symbol(emit->pool, key, 0, hi > 0 ? hi - 1 : 0);
  name_symbol(emit, sym, &(cv_name){CV_ROLE_LOOP, name, name, extent});
  return sym;
}

cv_sym cv_emit_index_symbol(cv_emit *emit, const char *text, bool uniform, cv_expr extent) {
  cv_sym sym = cv_emit_axis(emit, text, extent);
  cv_name *name = &emit->names.data[sym];
  name->role = uniform ? CV_ROLE_INDEX : CV_ROLE_LANE_INDEX;
  if (!uniform) name->lane_text = cv_arena_format(emit->arena, "%s[l]", text);
  return sym;
}

static const char *print_expr(cv_emit *emit, cv_expr e, bool lane) {
  cv_str text = {.may_die = true};
  size_t n = cv_exprs_symbols(emit->pool);
  const char **names = cv_alloc_or_die(n + 1, sizeof *names);
  for (size_t i = 0; i < n; i++) {
    const cv_name *name = i < emit->names.len ? &emit->names.data[i] : NULL;
    names[i] = name == NULL || name->text == NULL ? "unnamed"
               : !lane                            ? name->text
               : i == emit->lane ? cv_arena_format(emit->arena, "(%s + l)", name->text)
                                 : name->lane_text;
  }
  cv_expr_print_c(emit->pool, e, names, &text);
  const char *copy = cv_arena_strdup(emit->arena, cv_str_text(&text));
  cv_str_deinit(&text);
  cv_free(names);
  return copy;
}

const char *cv_emit_expr(cv_emit *emit, cv_expr e) {
  if (e == CV_EXPR_NONE) {
    cv_emit_fail(emit, CV_UNSUPPORTED, "kernel %s: an index expression is too large", emit->name);
    return "0";
  }
  return emit->dry ? "" : print_expr(emit, e, false);
}

const char *cv_emit_lane_expr(cv_emit *emit, cv_expr e) {
  return emit->dry || e == CV_EXPR_NONE ? "" : print_expr(emit, e, true);
}

bool cv_emit_uniform(const cv_emit *emit, cv_expr e) {
  if (e == CV_EXPR_NONE) return true;
  if (emit->lane != CV_NONE && cv_expr_uses(emit->pool, e, emit->lane)) return false;
  for (cv_sym sym = 0; sym < emit->names.len; sym++) {
    bool varies =
        emit->names.data[sym].text != NULL && emit->names.data[sym].role == CV_ROLE_LANE_INDEX;
    if (varies && cv_expr_uses(emit->pool, e, sym)) return false;
  }
  return true;
}

cv_expr cv_emit_product(cv_emit *emit, const cv_expr *dims, int n) {
  cv_expr product = cv_expr_const(emit->pool, 1);
  for (int i = 0; i < n; i++) product = cv_expr_mul(emit->pool, product, dims[i]);
  return product;
}

cv_expr cv_emit_count_of(cv_emit *emit, cv_val value) {
  const cv_type *type = cv_type_of(emit->body, value);
  return cv_emit_product(emit, type->dims, type->rank);
}

/* ---- the functions of a kernel ---- */

void cv_emit_dims(cv_emit *emit) {
  for (size_t i = 0; i < emit->dims.len; i++) {
    cv_emit_line(emit, "const int64_t %s = dims[%zu];", emit->names.data[emit->dims.data[i]].text,
                 i);
  }
}

/* Dims that are assumed equal, and reshapes whose counts are equal for some shapes only: others are
 * refused, before an index is made of them. */
static void refuse_unequal_counts(cv_emit *emit) {
  const cv_block *block = emit->body->body;
  for (size_t i = 0; i < emit->body->equalities.len; i++) {
    const cv_equality *equality = &emit->body->equalities.data[i];
    cv_emit_line(emit, "if (%s != %s) return 1;", cv_emit_expr(emit, equality->a),
                 cv_emit_expr(emit, equality->b));
  }
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    if (node->op != CV_OP_reshape) continue;
    cv_expr from = cv_emit_count_of(emit, node->ins[0]), to = cv_emit_count_of(emit, node->outs[0]);
    if (from != to)
      cv_emit_line(emit, "if (%s != %s) return 1;", cv_emit_expr(emit, from),
                   cv_emit_expr(emit, to));
  }
}

void cv_emit_begin_prepare(cv_emit *emit) {
  cv_emit_open(emit, "int %s_prepare(const int64_t *dims, cv_kernel_plan *plan)", emit->name);
  cv_emit_dims(emit);
  cv_emit_line(emit, "*plan = (cv_kernel_plan){.phases = 1};");
  refuse_unequal_counts(emit);
}

static void declare_pointers(cv_emit *emit, bool outputs, uint32_t n_packs) {
  const cv_block *block = emit->body->body;
  size_t n = 0;
  for (size_t i = 0; i < block->params.len; i++, n++) {
    cv_dtype dtype = cv_type_of(emit->body, block->params.data[i])->dtype;
    cv_emit_line(emit, "const %s *restrict p%zu = ptrs[%zu];", cv_storage_type(dtype), i, n);
  }
  for (size_t i = 0; outputs && i < block->results.len; i++, n++) {
    cv_dtype dtype = cv_type_of(emit->body, block->results.data[i])->dtype;
    cv_emit_line(emit, "%s *restrict q%zu = ptrs[%zu];", cv_storage_type(dtype), i, n);
  }
  for (uint32_t i = 0; i < n_packs; i++, n++) {
    cv_emit_line(emit, "const char *restrict w%u = ptrs[%zu];", i, n);
  }
}

void cv_emit_begin_run(cv_emit *emit, uint32_t n_packs) {
  cv_emit_open(emit,
               "int %s_run(int phase, int64_t begin, int64_t end, int thread, void *const *ptrs, "
               "const int64_t *dims, void *scratch_thread, void *scratch_shared)",
               emit->name);
  cv_emit_dims(emit);
  declare_pointers(emit, true, n_packs);
  cv_emit_line(emit, "int bad = 0;");
}

void cv_emit_begin_pack(cv_emit *emit) {
  cv_emit_open(emit, "int %s_pack(int which, void *const *ptrs, const int64_t *dims, void *out)",
               emit->name);
  cv_emit_dims(emit);
  declare_pointers(emit, false, 0);
  cv_emit_line(emit, "int bad = 0;");
}

void cv_emit_end(cv_emit *emit, const char *result) {
  cv_emit_line(emit, "return %s;", result);
  cv_emit_close(emit);
  cv_emit_line(emit, "%s", "");
}

void cv_emit_rendered(cv_emit *emit, const char *variant, cv_rendered *out_rendered) {
  size_t n_params = emit->body->body->params.len;
  *out_rendered = (cv_rendered){.n_dims = (uint32_t)emit->dims.len,
                                .dims = cv_arena_array(emit->arena, cv_expr, emit->dims.len + 1),
                                .reads_raw = cv_arena_array(emit->arena, bool, n_params + 1),
                                .variant = cv_arena_strdup(emit->arena, variant)};
  for (size_t i = 0; i < emit->dims.len; i++) {
    out_rendered->dims[i] = cv_expr_symbol(emit->pool, emit->dims.data[i]);
  }
  for (size_t i = 0; i < n_params; i++) out_rendered->reads_raw[i] = true;
}

/* The larger constants of a body, as arrays in front of the functions: NAME_c7 for value 7. */
static void write_constant(cv_emit *emit, cv_val v) {
  const cv_value_info *info = cv_value_of(emit->body, v);
  size_t size = cv_dtype_size(info->type.dtype), n = (size_t)(info->data.bytes / size);
  cv_str line = {.may_die = true};
  if (!info->is_const || info->data.data == NULL || info->data.splat || n < 2) return;
  cv_emit_open(emit, "static const %s %s_c%u[%zu] =", cv_storage_type(info->type.dtype), emit->name,
               v, n);
  for (size_t i = 0; i < n; i++) {
    const char *element = (const char *)info->data.data + i * size;
    cv_str_add(&line, "%s,", cv_storage_literal(emit, info->type.dtype, element));
    if (line.len < 90 && i + 1 < n) continue;
    cv_emit_line(emit, "%s", cv_str_text(&line));
    cv_str_deinit(&line);
  }
  cv_emit_close(emit);
  cv_emit_line(emit, ";");
}

void cv_emit_comment(cv_emit *emit, const char *variant) {
  const cv_graph *graph = emit->body;
  const cv_block *block = graph->body;
  cv_str ops = {.may_die = true};
  for (size_t i = 0; i < block->nodes.len && i < 24; i++) {
    cv_str_add(&ops, " %s", cv_op_get(block->nodes.data[i]->op)->name);
  }
  cv_emit_line(emit, "/* %s: %s", variant, emit->target->name);
  for (size_t i = 0; i < block->params.len; i++) {
    cv_emit_line(emit, " * p%zu %s", i,
                 cv_type_text(emit->body, cv_type_of(graph, block->params.data[i])));
  }
  for (size_t i = 0; i < block->results.len; i++) {
    cv_emit_line(emit, " * q%zu %s", i,
                 cv_type_text(emit->body, cv_type_of(graph, block->results.data[i])));
  }
  cv_emit_line(emit, " *%s%s */", cv_str_text(&ops), block->nodes.len > 24 ? " ..." : "");
  cv_str_deinit(&ops);
  for (size_t i = 0; i < graph->values.len; i++) write_constant(emit, (cv_val)i);
}

/* ---- dtypes and literals ---- */

const char *cv_storage_type(cv_dtype dtype) {
  static const char *const names[CV_DTYPE_COUNT] = {
      [CV_F32] = "float",    [CV_F64] = "double",   [CV_F16] = "uint16_t", [CV_BF16] = "uint16_t",
      [CV_I8] = "int8_t",    [CV_I16] = "int16_t",  [CV_I32] = "int32_t",  [CV_I64] = "int64_t",
      [CV_U8] = "uint8_t",   [CV_U16] = "uint16_t", [CV_U32] = "uint32_t", [CV_U64] = "uint64_t",
      [CV_BOOL] = "uint8_t",
  };
  return names[dtype];
}

cv_dtype cv_compute_dtype(cv_dtype dtype) {
  return dtype == CV_F16 || dtype == CV_BF16 ? CV_F32 : dtype;
}

const char *cv_element_type(cv_dtype dtype) { return cv_storage_type(cv_compute_dtype(dtype)); }

const char *cv_suffix(const cv_emit *emit, cv_dtype dtype) {
  return cv_arena_format(emit->arena, "%sx%d", cv_dtype_name(dtype), emit->lanes);
}

const char *cv_vector_type(const cv_emit *emit, cv_dtype dtype) {
  if (dtype == CV_BOOL) return cv_arena_format(emit->arena, "mask%d", emit->lanes);
  return cv_suffix(emit, cv_compute_dtype(dtype));
}

static const char *float_literal(cv_emit *emit, double x, const char *suffix) {
  if (isnan(x)) return cv_arena_format(emit->arena, "__builtin_nan%s(\"\")", suffix);
  if (isinf(x))
    return cv_arena_format(emit->arena, "%s__builtin_inf%s()", x < 0 ? "-" : "", suffix);
  return cv_arena_format(emit->arena, "%a%s", x, suffix);
}

static double half_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double x = exponent == 31  ? (mantissa ? (double)NAN : (double)INFINITY)
             : exponent == 0 ? ldexp(mantissa, -24)
                             : ldexp(mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -x : x;
}

static const char *int_literal(cv_emit *emit, cv_dtype dtype, const void *element) {
  uint64_t bits = 0;
  size_t size = cv_dtype_size(dtype);
  memcpy(&bits, element, size); /* little endian, as artifacts are */
  if (cv_dtype_kind(dtype) != 'i') return cv_arena_format(emit->arena, "%" PRIu64 "u", bits);
  int shift = 64 - 8 * (int)size;
  int64_t value = (int64_t)(bits << shift) >> shift;
  if (value == INT64_MIN) return "(-9223372036854775807 - 1)";
  return cv_arena_format(emit->arena, "%" PRId64, value);
}

const char *cv_storage_literal(cv_emit *emit, cv_dtype dtype, const void *element) {
  if (dtype == CV_F16 || dtype == CV_BF16) return int_literal(emit, CV_U16, element);
  if (dtype == CV_BOOL) return *(const uint8_t *)element ? "1" : "0";
  return cv_literal(emit, dtype, element);
}

const char *cv_literal(cv_emit *emit, cv_dtype dtype, const void *element) {
  float f;
  double d;
  uint16_t half;
  uint32_t word;
  switch (dtype) {
    case CV_F32: memcpy(&f, element, 4); return float_literal(emit, (double)f, "f");
    case CV_F64: memcpy(&d, element, 8); return float_literal(emit, d, "");
    case CV_F16: memcpy(&half, element, 2); return float_literal(emit, half_value(half), "f");
    case CV_BF16:
      memcpy(&half, element, 2);
      word = (uint32_t)half << 16;
      memcpy(&f, &word, 4);
      return float_literal(emit, (double)f, "f");
    case CV_BOOL: return *(const uint8_t *)element ? "-1" : "0";
    default: return int_literal(emit, dtype, element);
  }
}

cv_node *cv_body_anchor(const cv_graph *body, cv_op_class class_) {
  for (size_t i = 0; i < body->body->nodes.len; i++) {
    cv_node *node = body->body->nodes.data[i];
    if (cv_op_get(node->op)->class_ == class_) return node;
  }
  return NULL;
}
