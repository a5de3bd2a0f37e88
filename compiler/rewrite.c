#include <string.h>

#include "compiler/passes_internal.h"

void cv_map_set(cv_map *map, const void *key, size_t key_len, uint64_t value) {
  if (!cv_map_put(map, key, key_len, value)) cv_free(cv_alloc_or_die(SIZE_MAX, 1));
}

static void count_block(const cv_block *block, uint32_t *uses) {
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    for (uint32_t k = 0; k < node->n_ins; k++)
      if (node->ins[k] != CV_POISON) uses[node->ins[k]]++;
    for (uint32_t b = 0; b < node->n_blocks; b++) count_block(node->blocks[b], uses);
  }
  for (size_t i = 0; i < block->results.len; i++) uses[block->results.data[i]]++;
}

uint32_t *cv_graph_uses(const cv_graph *graph) {
  uint32_t *uses = cv_alloc_or_die(graph->values.len + 1, sizeof *uses);
  count_block(graph->body, uses);
  return uses;
}

cv_val cv_rewrite_resolve(const cv_rewriter *rewriter, cv_val v) {
  while (v != CV_POISON && v < rewriter->to.len && rewriter->to.data[v] != CV_POISON)
    v = rewriter->to.data[v];
  return v;
}

void cv_rewrite_replace(cv_rewriter *rewriter, cv_val from, cv_val to) {
  if (to == CV_POISON || from == CV_POISON || from == to) return;
  while (rewriter->to.len <= from) cv_push(&rewriter->to, CV_POISON);
  rewriter->to.data[from] = to;
  rewriter->changed = true;
  cv_value_info *old = cv_value_of(rewriter->graph, from);
  cv_value_info *new = cv_value_of(rewriter->graph, to);
  if (old->name && !new->name &&new->def) {
    new->name = old->name;
    old->name = NULL;
  }
  if (!new->elems && old->elems) {
    new->elems = old->elems;
    new->n_elems = old->n_elems;
  }
}

uint32_t cv_rewrite_uses(const cv_rewriter *rewriter, cv_val v) {
  return v < rewriter->n_uses ? rewriter->uses[v] : 2;
}

static void walk_block(cv_rewriter *rewriter, cv_block *block);

static void walk_node(cv_rewriter *rewriter, cv_node *node) {
  cv_graph *graph = rewriter->graph;
  for (uint32_t i = 0; i < node->n_ins; i++)
    node->ins[i] = cv_rewrite_resolve(rewriter, node->ins[i]);
  for (uint32_t b = 0; b < node->n_blocks; b++) {
    node->blocks[b]->parent = graph->at; /* the node may have come from an inlined block */
    walk_block(rewriter, node->blocks[b]);
  }
  graph->guard = node->guard;
  graph->region = node->region;
  graph->source = node->source;
  if (!rewriter->visit(rewriter, node)) cv_push(&graph->at->nodes, node);
}

void cv_rewrite_inline(cv_rewriter *rewriter, cv_block *from) {
  cv_graph *graph = rewriter->graph;
  cv_node **nodes = from->nodes.data;
  size_t n = from->nodes.len;
  from->nodes.data = NULL;
  from->nodes.len = from->nodes.cap = 0;
  for (size_t i = 0; i < n && graph->status == CV_OK; i++) walk_node(rewriter, nodes[i]);
  cv_free(nodes);
}

static void walk_block(cv_rewriter *rewriter, cv_block *block) {
  cv_graph *graph = rewriter->graph;
  cv_block *at = graph->at;
  cv_expr guard = graph->guard;
  uint32_t region = graph->region;
  const char *source = graph->source;
  graph->at = block;
  cv_rewrite_inline(rewriter, block);
  for (size_t i = 0; i < block->results.len; i++)
    block->results.data[i] = cv_rewrite_resolve(rewriter, block->results.data[i]);
  graph->at = at;
  graph->guard = guard;
  graph->region = region;
  graph->source = source;
}

bool cv_rewrite(cv_graph *graph, cv_rewrite_visit visit, void *context) {
  if (graph->status != CV_OK) return false;
  uint32_t *uses = cv_graph_uses(graph);
  cv_rewriter rewriter = {.graph = graph,
                          .context = context,
                          .visit = visit,
                          .uses = uses,
                          .n_uses = (uint32_t)graph->values.len};
  walk_block(&rewriter, graph->body);
  cv_vec_deinit(&rewriter.to);
  cv_free(uses);
  return rewriter.changed;
}

bool cv_dims_same(int rank, const cv_expr *a, const cv_expr *b) {
  for (int d = 0; d < rank; d++)
    if (a[d] != b[d]) return false;
  return true;
}

bool cv_type_same(const cv_type *a, const cv_type *b) {
  return a->dtype == b->dtype && a->rank == b->rank && cv_dims_same(a->rank, a->dims, b->dims);
}

cv_expr cv_dims_count_expr(const cv_graph *graph, const cv_expr *dims, int from, int to) {
  cv_expr count = cv_expr_const(graph->exprs, 1);
  for (int d = from; d < to; d++) count = cv_expr_mul(graph->exprs, count, dims[d]);
  return count;
}

bool cv_dims_next(const cv_graph *graph, const cv_type *a, const cv_type *b, cv_dim_run *run) {
  run->a0 = run->a1;
  run->b0 = run->b1;
  for (int total = 2; total <= a->rank - run->a0 + b->rank - run->b0; total++)
    for (int i = 1; i < total; i++) { /* the shortest runs first */
      run->a1 = run->a0 + i;
      run->b1 = run->b0 + total - i;
      if (run->a1 > a->rank || run->b1 > b->rank) continue;
      if (cv_dims_count_expr(graph, a->dims, run->a0, run->a1) ==
          cv_dims_count_expr(graph, b->dims, run->b0, run->b1))
        return true;
    }
  run->a1 = run->a0;
  run->b1 = run->b0;
  return false;
}

cv_expr cv_type_count(cv_graph *graph, const cv_type *type) {
  return cv_dims_count_expr(graph, type->dims, 0, type->rank);
}

bool cv_type_bytes(const cv_graph *graph, const cv_type *type, uint64_t *out_count,
                   uint64_t *out_bytes) {
  int64_t dims[CV_MAX_RANK], count;
  *out_count = *out_bytes = 0;
  for (int d = 0; d < type->rank; d++)
    if (!cv_expr_is_const(graph->exprs, type->dims[d], &dims[d])) return false;
  if (!cv_dims_count(type->rank, dims, &count)) return false;
  *out_count = (uint64_t)count;
  return !__builtin_mul_overflow((uint64_t)count, cv_dtype_size(type->dtype), out_bytes);
}

void cv_node_exprs(const cv_graph *graph, const cv_node *node,
                   void (*see)(void *context, cv_expr e), void *context) {
  see(context, node->guard);
  for (uint32_t i = 0; i < node->n_outs; i++) {
    const cv_type *type = cv_type_of(graph, node->outs[i]);
    for (int d = 0; d < type->rank; d++) see(context, type->dims[d]);
  }
  for (uint32_t i = 0; i < node->n_attrs; i++) {
    const cv_attr *attr = &node->attrs[i];
    cv_attr_kind kind = cv_attr_kind_of(attr->key);
    if (kind == CV_KIND_EXPR) see(context, attr->e);
    for (uint32_t k = 0; kind == CV_KIND_EXPRS && k < attr->count; k++)
      see(context, attr->exprs[k]);
  }
}
