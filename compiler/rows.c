/* Bodies with reduces: in which pass over a row each value is computed, and which are kept. */
#include "compiler/rows.h"

static const cv_node *reduce_of(const cv_graph *body, cv_val v) {
  const cv_node *node = cv_value_of(body, v)->def;
  return node != NULL && node->op == CV_OP_reduce ? node : NULL;
}

bool cv_rows_is_row(const cv_rows *rows, cv_val v) {
  const cv_type *a = cv_type_of(rows->emit->body, v);
  const cv_type *b = cv_type_of(rows->emit->body, rows->domain);
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++) {
    if (a->dims[i] != b->dims[i]) return false;
  }
  return true;
}

cv_val cv_rows_base(const cv_rows *rows, cv_val result) {
  for (;;) {
    const cv_node *node = cv_value_of(rows->emit->body, result)->def;
    bool moves = node != NULL && (node->op == CV_OP_reshape || node->op == CV_OP_transpose);
    bool computed = moves && cv_value_of(rows->emit->body, node->ins[0])->def != NULL;
    if (!computed) return result;
    result = node->ins[0];
  }
}

static void find_levels(cv_rows *rows) {
  const cv_graph *body = rows->emit->body;
  for (size_t i = 0; i < body->body->nodes.len; i++) {
    const cv_node *node = body->body->nodes.data[i];
    int level = 0;
    for (uint32_t k = 0; k < node->n_ins; k++) {
      if (rows->level[node->ins[k]] > level) level = rows->level[node->ins[k]];
    }
    if (node->op == CV_OP_reduce) {
      if (level + 1 > rows->n_passes) rows->n_passes = level + 1;
      level++;
    }
    for (uint32_t k = 0; k < node->n_outs; k++) rows->level[node->outs[k]] = level;
  }
}

static bool cached_before(const cv_rows *rows, cv_val v, int pass) {
  for (int i = 0; i < rows->n_caches; i++) {
    if (rows->caches[i].value == v && rows->caches[i].pass < pass) return true;
  }
  return false;
}

static void need(const cv_rows *rows, cv_val v, int pass) {
  const cv_node *node = cv_value_of(rows->emit->body, v)->def;
  if (rows->needed[pass][v]) return;
  rows->needed[pass][v] = true;
  if (node == NULL || node->op == CV_OP_reduce || cached_before(rows, v, pass)) return;
  for (uint32_t i = 0; i < node->n_ins; i++) need(rows, node->ins[i], pass);
}

static void need_pass(const cv_rows *rows, int pass) {
  const cv_block *block = rows->emit->body->body;
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    bool here = node->op == CV_OP_reduce && rows->level[node->ins[0]] == pass;
    if (here) need(rows, node->ins[0], pass);
  }
  for (size_t i = 0; pass == rows->n_passes && i < block->results.len; i++) {
    cv_val base = cv_rows_base(rows, block->results.data[i]);
    if (cv_rows_is_row(rows, base)) need(rows, base, pass);
  }
}

static bool is_costly(cv_op op) {
  switch (op) {
    case CV_OP_exp:
    case CV_OP_log:
    case CV_OP_sin:
    case CV_OP_cos:
    case CV_OP_atan:
    case CV_OP_tanh:
    case CV_OP_erf:
    case CV_OP_pow:
    case CV_OP_rem: return true;
    default: return false;
  }
}

static void find_caches(cv_rows *rows) {
  const cv_block *block = rows->emit->body->body;
  for (int pass = 0; pass < rows->n_passes; pass++) {
    for (size_t i = 0; i < block->nodes.len; i++) {
      cv_val v = block->nodes.data[i]->outs[0];
      bool later = false;
      if (!is_costly(block->nodes.data[i]->op) || !rows->needed[pass][v]) continue;
      if (!cv_rows_is_row(rows, v) || cached_before(rows, v, pass)) continue;
      for (int q = pass + 1; q <= rows->n_passes; q++) later = later || rows->needed[q][v];
      if (later) rows->caches[rows->n_caches++] = (cv_row_cache){v, pass, NULL};
    }
  }
}

void cv_rows_find(cv_emit *emit, cv_rows *out_rows) {
  const cv_graph *body = emit->body;
  cv_rows *rows = out_rows;
  size_t n = body->values.len;
  *rows = (cv_rows){.emit = emit,
                    .level = cv_arena_array(emit->arena, int, n),
                    .caches = cv_arena_array(emit->arena, cv_row_cache, body->body->nodes.len + 1)};
  const cv_node *first = NULL;
  for (size_t i = 0; i < body->body->nodes.len && first == NULL; i++) {
    first = reduce_of(body, body->body->nodes.data[i]->outs[0]);
  }
  if (first == NULL) {
    cv_emit_fail(emit, CV_INTERNAL, "kernel %s: there is no reduce in it", emit->name);
    return;
  }
  rows->domain = first->ins[0];
  const cv_attr *axes = cv_node_attr(first, CV_ATTR_AXES);
  for (uint32_t i = 0; i < axes->count; i++) rows->inner |= 1U << axes->ints[i];
  find_levels(rows);
  rows->needed = cv_arena_array(emit->arena, bool *, (size_t)rows->n_passes + 1);
  /* What passes need if nothing is kept says what is worth keeping. */
  for (int round = 0; round < 2; round++) {
    for (int pass = 0; pass <= rows->n_passes; pass++) {
      rows->needed[pass] = cv_arena_array(emit->arena, bool, n);
      need_pass(rows, pass);
    }
    if (round == 0) find_caches(rows);
  }
}
