/* The text form, printed: docs/text-form.md. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "compiler/text_internal.h"
#include "runtime/half.h"

enum { MAX_LITERAL = 64, UNNUMBERED = UINT32_MAX };

typedef struct {
  const cv_graph *graph;
  cv_str *out;
  uint32_t *numbers; /* of values without a name, in the order of their definition */
  uint32_t next;
  cv_vec(cv_val) consts; /* in the order of their first use */
  bool *used;            /* by symbol */
} printer;

/* ---- what is used ---- */

static void use_expr(printer *p, cv_expr e) {
  uint32_t n = cv_exprs_symbols(p->graph->exprs);
  int64_t value;
  if (e == CV_EXPR_NONE || cv_expr_is_const(p->graph->exprs, e, &value)) return;
  for (uint32_t i = 0; i < n; i++) {
    if (!p->used[i] && cv_expr_uses(p->graph->exprs, e, i)) p->used[i] = true;
  }
}

static void use_type(printer *p, const cv_type *type) {
  for (int i = 0; i < type->rank; i++) use_expr(p, type->dims[i]);
}

static bool is_constant(const cv_value_info *info) {
  return info->is_const && info->def == NULL && info->block == NULL;
}

static void use_value(printer *p, cv_val v) {
  const cv_value_info *info = cv_value_of(p->graph, v);
  if (!is_constant(info) || p->numbers[v] != UNNUMBERED) return;
  p->numbers[v] = 0; /* seen; numbered when it is printed */
  graph_push(&p->consts, v);
  use_type(p, &info->type);
}

static void use_block(printer *p, const cv_block *block) {
  for (size_t i = 0; i < block->params.len; i++) {
    const cv_value_info *info = cv_value_of(p->graph, block->params.data[i]);
    use_type(p, &info->type);
    use_expr(p, info->guard);
  }
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    use_expr(p, node->guard);
    for (uint32_t k = 0; k < node->n_ins; k++) use_value(p, node->ins[k]);
    for (uint32_t k = 0; k < node->n_outs; k++) use_type(p, cv_type_of(p->graph, node->outs[k]));
    for (uint32_t k = 0; k < node->n_attrs; k++) {
      const cv_attr *attr = &node->attrs[k];
      cv_attr_kind kind = cv_attr_kind_of(attr->key);
      if (kind == CV_KIND_EXPR) use_expr(p, attr->e);
      for (uint32_t j = 0; kind == CV_KIND_EXPRS && j < attr->count; j++) {
        use_expr(p, attr->exprs[j]);
      }
    }
    for (uint32_t k = 0; k < node->n_blocks; k++) use_block(p, node->blocks[k]);
  }
  for (size_t i = 0; i < block->results.len; i++) use_value(p, block->results.data[i]);
}

/* ---- parts ---- */

static void print_expr(printer *p, cv_expr e) { cv_expr_print(p->graph->exprs, e, p->out); }

static void print_value(printer *p, cv_val v) {
  const char *name = cv_value_of(p->graph, v)->name;
  if (name == NULL) {
    cv_str_add(p->out, "%%%u", p->numbers[v]);
    return;
  }
  bool plain = text_name_start(name[0]);
  for (const char *at = name; plain && *at != '\0'; at++) plain = text_name_part(*at);
  cv_str_puts(p->out, "%");
  if (plain) {
    cv_str_puts(p->out, name);
  } else {
    text_print_string(name, p->out);
  }
}

/* "%x: f32[batch,3]", where the value is defined. */
static void print_definition(printer *p, cv_val v) {
  const cv_type *type = cv_type_of(p->graph, v);
  if (cv_value_of(p->graph, v)->name == NULL) p->numbers[v] = p->next++;
  print_value(p, v);
  cv_str_add(p->out, ": %s[", cv_dtype_name(type->dtype));
  for (int i = 0; i < type->rank; i++) {
    if (i > 0) cv_str_puts(p->out, ",");
    print_expr(p, type->dims[i]);
  }
  cv_str_puts(p->out, "]");
}

static void print_guard(printer *p, cv_expr guard) {
  int64_t value;
  if (cv_expr_is_const(p->graph->exprs, guard, &value) && value == 1) return;
  cv_str_puts(p->out, " when ");
  print_expr(p, guard);
}

static void print_params(printer *p, const cv_block *block) {
  cv_str_puts(p->out, "(");
  for (size_t i = 0; i < block->params.len; i++) {
    cv_val v = block->params.data[i];
    if (i > 0) cv_str_puts(p->out, ", ");
    print_definition(p, v);
    if (cv_value_of(p->graph, v)->is_const) cv_str_puts(p->out, " const");
    print_guard(p, cv_value_of(p->graph, v)->guard);
  }
  cv_str_puts(p->out, ")");
}

static void print_element(printer *p, cv_dtype dtype, const void *element) {
  char text[64];
  uint64_t u = 0;
  if (!cv_dtype_is_float(dtype)) {
    memcpy(&u, element, cv_dtype_size(dtype));
    if (dtype == CV_U64) {
      cv_str_add(p->out, "%" PRIu64, u);
    } else {
      cv_str_add(p->out, "%" PRId64, cv_element_to_int(dtype, element));
    }
    return;
  }
  double value = cv_element_to_double(dtype, element);
  if (isnan(value)) {
    memcpy(&u, element, cv_dtype_size(dtype));
    cv_str_add(p->out, "nan:%" PRIx64, u);
  } else {
    snprintf(text, sizeof text, "%a", value);
    cv_str_puts(p->out, text);
  }
}

static void print_const(printer *p, cv_val v) {
  const cv_value_info *info = cv_value_of(p->graph, v);
  const cv_const_data *data = &info->data;
  size_t size = cv_dtype_size(info->type.dtype);
  uint64_t n = data->data != NULL ? data->bytes / size : 0;
  cv_str_puts(p->out, "  ");
  print_definition(p, v);
  if (data->data == NULL && data->hash == 0) {
    cv_str_puts(p->out, " = const\n");
  } else if (data->splat) {
    cv_str_puts(p->out, " = splat ");
    print_element(p, info->type.dtype, data->data);
    cv_str_puts(p->out, "\n");
  } else if (data->data == NULL || n > MAX_LITERAL) {
    uint64_t hash = data->hash != 0 ? data->hash : XXH3_64bits(data->data, (size_t)data->bytes);
    cv_str_add(p->out, " = const#%016" PRIx64 "\n", hash);
  } else {
    cv_str_puts(p->out, " = const {");
    for (uint64_t i = 0; i < n; i++) {
      if (i > 0) cv_str_puts(p->out, ", ");
      print_element(p, info->type.dtype, (const unsigned char *)data->data + i * size);
    }
    cv_str_puts(p->out, "}\n");
  }
}

static void print_attr(printer *p, const cv_attr *attr) {
  cv_attr_kind kind = cv_attr_kind_of(attr->key);
  cv_str_add(p->out, "%s=", cv_attr_name(attr->key));
  switch (kind) {
    case CV_KIND_INT: cv_str_add(p->out, "%" PRId64, attr->i); return;
    case CV_KIND_FLOAT: print_element(p, CV_F64, &attr->f); return;
    case CV_KIND_EXPR: print_expr(p, attr->e); return;
    case CV_KIND_TEXT: text_print_string(attr->text, p->out); return;
    case CV_KIND_DTYPE: cv_str_puts(p->out, cv_dtype_name(attr->dtype)); return;
    default: break;
  }
  cv_str_puts(p->out, "[");
  for (uint32_t i = 0; i < attr->count; i++) {
    if (i > 0) cv_str_puts(p->out, ",");
    if (kind == CV_KIND_INTS) {
      cv_str_add(p->out, "%" PRId64, attr->ints[i]);
    } else {
      print_expr(p, attr->exprs[i]);
    }
  }
  cv_str_puts(p->out, "]");
}

/* ---- nodes and blocks ---- */

static void indent(printer *p, int depth) {
  for (int i = 0; i <= depth; i++) cv_str_puts(p->out, "  ");
}

static void print_nodes(printer *p, const cv_block *block, int depth);

static void print_results(printer *p, const cv_block *block, bool names) {
  cv_str_puts(p->out, "} -> (");
  for (size_t i = 0; i < block->results.len; i++) {
    if (i > 0) cv_str_puts(p->out, ", ");
    print_value(p, block->results.data[i]);
    if (names) {
      cv_str_puts(p->out, " ");
      text_print_string(p->graph->result_names.data[i], p->out);
    }
  }
  cv_str_puts(p->out, ")\n");
}

static void print_blocks(printer *p, const cv_node *node, int depth) {
  cv_str_puts(p->out, " [\n");
  for (uint32_t i = 0; i < node->n_blocks; i++) {
    indent(p, depth + 1);
    cv_str_puts(p->out, "block ");
    print_params(p, node->blocks[i]);
    cv_str_puts(p->out, " {\n");
    print_nodes(p, node->blocks[i], depth + 2);
    indent(p, depth + 1);
    print_results(p, node->blocks[i], false);
  }
  indent(p, depth);
  cv_str_puts(p->out, "]");
}

static void print_node(printer *p, const cv_node *node, int depth) {
  const char *op = cv_op_get(node->op)->name;
  indent(p, depth);
  for (uint32_t i = 0; i < node->n_outs; i++) {
    if (i > 0) cv_str_puts(p->out, ", ");
    print_definition(p, node->outs[i]);
  }
  cv_str_add(p->out, "%s%s(", node->n_outs > 0 ? " = " : "", op);
  for (uint32_t i = 0; i < node->n_ins; i++) {
    if (i > 0) cv_str_puts(p->out, ", ");
    print_value(p, node->ins[i]);
  }
  cv_str_puts(p->out, ")");
  for (uint32_t i = 0; i < node->n_attrs; i++) {
    cv_str_puts(p->out, i == 0 ? " {" : ", ");
    print_attr(p, &node->attrs[i]);
  }
  if (node->n_attrs > 0) cv_str_puts(p->out, "}");
  if (node->n_blocks > 0) print_blocks(p, node, depth);
  if (node->source[0] != '\0') {
    cv_str_puts(p->out, " @");
    text_print_string(node->source, p->out);
  }
  if (node->region != CV_NO_REGION) cv_str_add(p->out, " !%u", node->region);
  print_guard(p, node->guard);
  cv_str_puts(p->out, "\n");
}

static void print_nodes(printer *p, const cv_block *block, int depth) {
  for (size_t i = 0; i < block->nodes.len; i++) print_node(p, block->nodes.data[i], depth);
}

/* ---- the whole ---- */

static int order_symbols(const void *a, const void *b, void *exprs) {
  return strcmp(cv_symbol_name(exprs, *(const cv_sym *)a),
                cv_symbol_name(exprs, *(const cv_sym *)b));
}

/* By name, so that the order in which a pool met them does not show. */
static void print_symbols(printer *p) {
  cv_exprs *exprs = p->graph->exprs;
  uint32_t n = cv_exprs_symbols(exprs), count = 0;
  cv_sym *syms = cv_alloc_or_die(n + 1, sizeof *syms);
  for (uint32_t i = 0; i < n; i++) {
    if (p->used[i]) syms[count++] = i;
  }
  qsort_r(syms, count, sizeof *syms, order_symbols, exprs);
  for (uint32_t i = 0; i < count; i++) {
    int64_t lo, hi;
    cv_symbol_bounds(exprs, syms[i], &lo, &hi);
    cv_str_puts(p->out, "symbol ");
    print_expr(p, cv_expr_symbol(exprs, syms[i]));
    cv_str_add(p->out, " [%" PRId64 ", %" PRId64 "]\n", lo, hi);
  }
  cv_free(syms);
}

static void print_head(printer *p) {
  const cv_graph *graph = p->graph;
  print_symbols(p);
  for (size_t i = 0; i < graph->regions.len; i++) {
    const cv_region *region = &graph->regions.data[i];
    cv_str_puts(p->out, "region ");
    text_print_string(region->name, p->out);
    cv_str_puts(p->out, " ");
    text_print_string(region->op, p->out);
    cv_str_puts(p->out, " ");
    text_print_string(region->domain, p->out);
    cv_str_add(p->out, " %" PRId64 "\n", region->version);
  }
  cv_str_puts(p->out, "graph ");
  text_print_string(graph->name, p->out);
  if (graph->producer[0] != '\0') {
    cv_str_puts(p->out, " by ");
    text_print_string(graph->producer, p->out);
  }
  cv_str_puts(p->out, " ");
  print_params(p, graph->body);
  cv_str_puts(p->out, " {\n");
}

static void print_tail(printer *p) {
  const cv_graph *graph = p->graph;
  print_results(p, graph->body, graph->result_names.len > 0);
  for (size_t i = 0; i < graph->states.len; i++) {
    cv_str_add(p->out, "state %u -> %u\n", graph->states.data[i].input,
               graph->states.data[i].output);
  }
  for (size_t i = 0; i < graph->equalities.len; i++) {
    const cv_equality *equality = &graph->equalities.data[i];
    cv_str_puts(p->out, "equal ");
    print_expr(p, equality->a);
    cv_str_puts(p->out, ", ");
    print_expr(p, equality->b);
    if (equality->source[0] != '\0') {
      cv_str_puts(p->out, " @");
      text_print_string(equality->source, p->out);
    }
    print_guard(p, equality->guard);
    cv_str_puts(p->out, "\n");
  }
}

void cv_graph_print(const cv_graph *graph, cv_str *out) {
  printer p = {.graph = graph, .out = out};
  p.numbers = cv_alloc_or_die(graph->values.len + 1, sizeof *p.numbers);
  p.used = cv_alloc_or_die(cv_exprs_symbols(graph->exprs) + 1, sizeof *p.used);
  for (size_t i = 0; i < graph->values.len; i++) p.numbers[i] = UNNUMBERED;
  use_block(&p, graph->body);
  for (size_t i = 0; i < graph->equalities.len; i++) {
    use_expr(&p, graph->equalities.data[i].a);
    use_expr(&p, graph->equalities.data[i].b);
    use_expr(&p, graph->equalities.data[i].guard);
  }
  print_head(&p);
  for (size_t i = 0; i < p.consts.len; i++) print_const(&p, p.consts.data[i]);
  print_nodes(&p, graph->body, 0);
  print_tail(&p);
  cv_vec_deinit(&p.consts);
  cv_free(p.numbers);
  cv_free(p.used);
}
