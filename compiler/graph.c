#include "compiler/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/graph_internal.h"
#include "runtime/half.h"

void graph_room(void **data, size_t len, size_t *cap, size_t size) {
  if (len < *cap) return;
  size_t wanted = *cap > 0 ? 2 * *cap : 8;
  *data = cv_realloc_or_die(*data, wanted, size);
  *cap = wanted;
}

cv_graph *cv_graph_create(cv_exprs *exprs) {
  cv_graph *graph = cv_alloc_or_die(1, sizeof *graph);
  graph->arena.may_die = true;
  graph->owns_exprs = exprs == NULL;
  graph->exprs = exprs != NULL ? exprs : cv_exprs_create(true);
  graph->guard = cv_expr_const(graph->exprs, 1);
  graph->region = CV_NO_REGION;
  graph->source = "";
  graph->name = graph->producer = "";
  graph->body = graph->at = cv_block_create(graph, NULL);
  return graph;
}

void cv_graph_destroy(cv_graph *graph) {
  if (graph == NULL) return;
  for (size_t i = 0; i < graph->all_blocks.len; i++) {
    cv_vec_deinit(&graph->all_blocks.data[i]->params);
    cv_vec_deinit(&graph->all_blocks.data[i]->nodes);
    cv_vec_deinit(&graph->all_blocks.data[i]->results);
  }
  cv_vec_deinit(&graph->all_blocks);
  cv_vec_deinit(&graph->values);
  cv_vec_deinit(&graph->regions);
  cv_vec_deinit(&graph->states);
  cv_vec_deinit(&graph->equalities);
  cv_vec_deinit(&graph->result_names);
  if (graph->owns_exprs) cv_exprs_destroy(graph->exprs);
  if (graph->release != NULL) graph->release(graph->owner);
  cv_arena_deinit(&graph->arena);
  cv_free(graph);
}

cv_val cv_graph_fail(cv_graph *graph, cv_status code, const char *format, ...) {
  if (graph->status != CV_OK) return CV_POISON;
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  graph->error = cv_arena_alloc(&graph->arena, (size_t)length + 1, 1);
  vsnprintf(graph->error, (size_t)length + 1, format, again);
  va_end(again);
  graph->status = code;
  return CV_POISON;
}

cv_status cv_graph_status(const cv_graph *graph) {
  return graph->status == CV_OK ? CV_OK : cv_error(graph->status, "%s", graph->error);
}

/* ---- blocks and values ---- */

cv_block *cv_block_create(cv_graph *graph, cv_block *parent) {
  cv_block *block = cv_arena_new(&graph->arena, cv_block);
  block->parent = parent;
  graph_push(&graph->all_blocks, block);
  return block;
}

cv_val cv_value_add(cv_graph *graph, const cv_type *type) {
  cv_value_info info = {.type = *type, .guard = cv_expr_const(graph->exprs, 1)};
  graph_push(&graph->values, info);
  return (cv_val)(graph->values.len - 1);
}

cv_val cv_graph_param(cv_graph *graph, cv_block *block, const char *name, const cv_type *type) {
  if (graph->status != CV_OK) return CV_POISON;
  cv_val v = cv_value_add(graph, type);
  cv_value_info *info = cv_value_of(graph, v);
  info->name = name != NULL ? cv_arena_strdup(&graph->arena, name) : NULL;
  info->block = block;
  info->def_index = (uint32_t)block->params.len;
  graph_push(&block->params, v);
  return v;
}

cv_val cv_graph_const_unknown(cv_graph *graph, const cv_type *type, uint64_t hash) {
  if (graph->status != CV_OK) return CV_POISON;
  cv_val v = cv_value_add(graph, type);
  cv_value_of(graph, v)->is_const = true;
  cv_value_of(graph, v)->data.hash = hash;
  return v;
}

cv_val cv_graph_const_borrowed(cv_graph *graph, cv_dtype dtype, int rank, const int64_t *dims,
                               const void *data) {
  cv_type type = {.dtype = dtype, .rank = (uint8_t)rank};
  int64_t count = 0, bytes = 0;
  if (graph->status != CV_OK) return CV_POISON;
  if (rank < 0 || rank > CV_MAX_RANK) {
    return cv_graph_fail(graph, CV_UNSUPPORTED, "a constant of rank %d: at most %d dims", rank,
                         CV_MAX_RANK);
  }
  if (!cv_dims_count(rank, dims, &count) ||
      __builtin_mul_overflow(count, (int64_t)cv_dtype_size(dtype), &bytes)) {
    return cv_graph_fail(graph, CV_INVALID, "a constant has a negative or too large size");
  }
  for (int i = 0; i < rank; i++) type.dims[i] = cv_expr_const(graph->exprs, dims[i]);
  cv_val v = cv_graph_const_unknown(graph, &type, 0);
  cv_value_of(graph, v)->data = (cv_const_data){.data = data, .bytes = (uint64_t)bytes};
  return v;
}

cv_val cv_graph_const(cv_graph *graph, cv_dtype dtype, int rank, const int64_t *dims,
                      const void *data) {
  cv_val v = cv_graph_const_borrowed(graph, dtype, rank, dims, data);
  if (v == CV_POISON) return v;
  cv_const_data *held = &cv_value_of(graph, v)->data;
  held->data = cv_arena_copy(&graph->arena, data, (size_t)held->bytes);
  return v;
}

cv_val cv_graph_splat(cv_graph *graph, const cv_type *type, const void *element) {
  size_t size = cv_dtype_size(type->dtype);
  cv_val v = cv_graph_const_unknown(graph, type, 0);
  if (v == CV_POISON) return v;
  cv_value_of(graph, v)->data = (cv_const_data){
      .data = cv_arena_copy(&graph->arena, element, size), .bytes = size, .splat = true};
  return v;
}

cv_val cv_graph_scalar(cv_graph *graph, cv_dtype dtype, double value) {
  unsigned char element[8] = {0};
  cv_element_from_double(dtype, value, element);
  return cv_graph_const(graph, dtype, 0, NULL, element);
}

cv_val cv_graph_i64(cv_graph *graph, int64_t value) {
  return cv_graph_const(graph, CV_I64, 0, NULL, &value);
}

/* ---- bytes of constants ---- */

bool cv_dims_small(const cv_graph *graph, const cv_type *type, uint64_t limit, uint64_t *out_n) {
  int64_t dims[CV_MAX_RANK], count;
  *out_n = 0;
  for (int i = 0; i < type->rank; i++) {
    if (!cv_expr_is_const(graph->exprs, type->dims[i], &dims[i])) return false;
  }
  if (!cv_dims_count(type->rank, dims, &count) || (uint64_t)count > limit) return false;
  *out_n = (uint64_t)count;
  return true;
}

/* A constant with data of at most 2^20 elements: its info and count. */
static const cv_value_info *readable_const(cv_graph *graph, cv_val v, uint64_t *out_n) {
  *out_n = 0;
  if (v >= graph->values.len) return NULL;
  const cv_value_info *info = cv_value_of(graph, v);
  if (!info->is_const || info->data.data == NULL) return NULL;
  return cv_dims_small(graph, &info->type, 1 << 20, out_n) ? info : NULL;
}

static const unsigned char *element_at(const cv_value_info *info, uint64_t i) {
  return (const unsigned char *)info->data.data +
         (info->data.splat ? 0 : i * cv_dtype_size(info->type.dtype));
}

const double *cv_graph_doubles(cv_graph *graph, cv_val v, uint64_t *out_n) {
  const cv_value_info *info = readable_const(graph, v, out_n);
  if (info == NULL) return NULL;
  double *values = cv_arena_array(&graph->arena, double, *out_n + 1);
  for (uint64_t i = 0; i < *out_n; i++) {
    values[i] = cv_element_to_double(info->type.dtype, element_at(info, i));
  }
  return values;
}

const int64_t *cv_graph_ints(cv_graph *graph, cv_val v, uint64_t *out_n) {
  const cv_value_info *info = readable_const(graph, v, out_n);
  if (info == NULL) return NULL;
  int64_t *values = cv_arena_array(&graph->arena, int64_t, *out_n + 1);
  for (uint64_t i = 0; i < *out_n; i++) {
    values[i] = cv_element_to_int(info->type.dtype, element_at(info, i));
  }
  return values;
}

bool cv_const_int(const cv_graph *graph, cv_val v, uint64_t i, int64_t *out) {
  const cv_value_info *info = cv_value_of(graph, v);
  *out = 0;
  if (!info->is_const || info->data.data == NULL || cv_dtype_is_float(info->type.dtype)) {
    return false;
  }
  *out = cv_element_to_int(info->type.dtype, element_at(info, i));
  return info->type.dtype != CV_U64 || *out >= 0;
}

/* ---- attributes ---- */

const cv_attr *cv_node_attr(const cv_node *node, cv_attr_key key) {
  for (uint32_t i = 0; i < node->n_attrs; i++) {
    if (node->attrs[i].key == key) return &node->attrs[i];
  }
  return NULL;
}

int64_t cv_node_int(const cv_node *node, cv_attr_key key) {
  const cv_attr *attr = cv_node_attr(node, key);
  return attr != NULL ? attr->i : 0;
}

const char *cv_node_text(const cv_node *node, cv_attr_key key) {
  const cv_attr *attr = cv_node_attr(node, key);
  return attr != NULL ? attr->text : "";
}

uint32_t cv_loop_carried(const cv_graph *graph, const cv_node *node) {
  const cv_block *body = node->blocks[0];
  uint32_t carried = 0;
  while (carried < node->n_outs && carried + 1 < body->results.len) {
    const cv_type *out = cv_type_of(graph, node->outs[carried]);
    if (out->rank != cv_type_of(graph, body->results.data[carried + 1])->rank) break;
    carried++;
  }
  return carried;
}

/* ---- text of types ---- */

const char *cv_expr_text(cv_graph *graph, cv_expr e) {
  cv_str text = {.may_die = true};
  cv_expr_print(graph->exprs, e, &text);
  const char *copy = cv_arena_strdup(&graph->arena, cv_str_text(&text));
  cv_str_deinit(&text);
  return copy;
}

const char *cv_type_text(cv_graph *graph, const cv_type *type) {
  cv_str text = {.may_die = true};
  cv_str_add(&text, "%s[", cv_dtype_name(type->dtype));
  for (int i = 0; i < type->rank; i++) {
    if (i > 0) cv_str_puts(&text, ",");
    cv_expr_print(graph->exprs, type->dims[i], &text);
  }
  cv_str_puts(&text, "]");
  const char *copy = cv_arena_strdup(&graph->arena, cv_str_text(&text));
  cv_str_deinit(&text);
  return copy;
}

/* ---- equalities and substitution ---- */

bool cv_graph_assume_equal(cv_graph *graph, cv_expr a, cv_expr b) {
  if (graph->status != CV_OK) return false;
  int64_t same = 0;
  if (a == CV_EXPR_NONE || b == CV_EXPR_NONE) {
    cv_graph_fail(graph, CV_UNSUPPORTED, "a dim's expression is too large");
    return false;
  }
  if (cv_expr_is_const(graph->exprs, cv_expr_eq(graph->exprs, a, b), &same)) {
    if (same == 0) {
      cv_graph_fail(graph, CV_INVALID, "dims %s and %s cannot be equal%s%s%s",
                    cv_expr_text(graph, a), cv_expr_text(graph, b),
                    graph->source[0] != '\0' ? " (node \"" : "", graph->source,
                    graph->source[0] != '\0' ? "\")" : "");
    }
    return same != 0;
  }
  for (size_t i = 0; i < graph->equalities.len; i++) {
    const cv_equality *known = &graph->equalities.data[i];
    bool pair = (known->a == a && known->b == b) || (known->a == b && known->b == a);
    if (pair && known->guard == graph->guard) return true;
  }
  cv_equality equality = {.a = a, .b = b, .guard = graph->guard, .source = graph->source};
  graph_push(&graph->equalities, equality);
  return true;
}

/* Symbols by a map, or one function by an expression that equals it. */
typedef struct {
  const cv_expr *map;
  cv_expr from, to;
} replacement;

static cv_expr mapped(cv_graph *graph, cv_expr e, const replacement *by) {
  cv_expr to = by->map ? cv_expr_substitute(graph->exprs, e, by->map)
                       : cv_expr_replace(graph->exprs, e, by->from, by->to);
  if (to == CV_EXPR_NONE && e != CV_EXPR_NONE) {
    cv_graph_fail(graph, CV_UNSUPPORTED, "the expression %s grows too large",
                  cv_expr_text(graph, e));
  }
  return to;
}

static const cv_expr *map_list(cv_graph *graph, const cv_expr *list, uint32_t n,
                               const replacement *by) {
  cv_expr *to = cv_arena_array(&graph->arena, cv_expr, n + 1);
  for (uint32_t i = 0; i < n; i++) to[i] = mapped(graph, list[i], by);
  return to;
}

static void map_node(cv_graph *graph, cv_node *node, const replacement *by) {
  node->guard = mapped(graph, node->guard, by);
  for (uint32_t i = 0; i < node->n_attrs; i++) {
    cv_attr *attr = &node->attrs[i];
    cv_attr_kind kind = cv_attr_kind_of(attr->key);
    if (kind == CV_KIND_EXPR) attr->e = mapped(graph, attr->e, by);
    if (kind == CV_KIND_EXPRS) attr->exprs = map_list(graph, attr->exprs, attr->count, by);
  }
}

static void replace_all(cv_graph *graph, const replacement *by) {
  if (graph->status != CV_OK) return;
  graph->guard = mapped(graph, graph->guard, by);
  for (size_t i = 0; i < graph->values.len; i++) {
    cv_value_info *info = &graph->values.data[i];
    for (int k = 0; k < info->type.rank; k++) {
      info->type.dims[k] = mapped(graph, info->type.dims[k], by);
    }
    info->guard = mapped(graph, info->guard, by);
    if (info->elems != NULL) info->elems = map_list(graph, info->elems, info->n_elems, by);
  }
  for (size_t i = 0; i < graph->all_blocks.len; i++) {
    const cv_block *block = graph->all_blocks.data[i];
    for (size_t k = 0; k < block->nodes.len; k++) map_node(graph, block->nodes.data[k], by);
  }
  size_t kept = 0;
  for (size_t i = 0; i < graph->equalities.len; i++) {
    cv_equality equality = graph->equalities.data[i];
    if (!by->map) { /* they are why it may be replaced */
      graph->equalities.data[kept++] = equality;
      continue;
    }
    equality.a = mapped(graph, equality.a, by);
    equality.b = mapped(graph, equality.b, by);
    equality.guard = mapped(graph, equality.guard, by);
    if (equality.a != equality.b) graph->equalities.data[kept++] = equality;
  }
  graph->equalities.len = kept;
}

void cv_graph_substitute(cv_graph *graph, const cv_expr *map) {
  replace_all(graph, &(replacement){.map = map});
}

void cv_graph_replace(cv_graph *graph, cv_expr from, cv_expr to) {
  replace_all(graph, &(replacement){.from = from, .to = to});
}

void cv_graph_unify(cv_graph *graph, cv_sym keep, cv_sym drop) {
  if (graph->status != CV_OK || keep == drop) return;
  int64_t lo, hi, other_lo, other_hi;
  uint32_t n = cv_exprs_symbols(graph->exprs);
  cv_expr *map = cv_alloc_or_die(n, sizeof *map);
  for (uint32_t i = 0; i < n; i++) map[i] = CV_EXPR_NONE;
  map[drop] = cv_expr_symbol(graph->exprs, keep);
  cv_symbol_bounds(graph->exprs, keep, &lo, &hi);
  cv_symbol_bounds(graph->exprs, drop, &other_lo, &other_hi);
  if (other_lo > lo) lo = other_lo;
  if (other_hi < hi) hi = other_hi;
  if (lo > hi) {
    cv_graph_fail(graph, CV_INVALID,
                  "the dims %s and %s must be equal, and their bounds exclude it",
                  cv_symbol_name(graph->exprs, keep), cv_symbol_name(graph->exprs, drop));
  } else {
    cv_symbol_set_bounds(graph->exprs, keep, lo, hi);
    cv_graph_substitute(graph, map);
  }
  cv_free(map);
}
