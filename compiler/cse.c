/* Common subexpressions: equal nodes under equal guards become one; equal constants too. An inner
 * block may use what an outer one computed before it. */
#include <string.h>
#include <xxhash.h>

#include "base/map.h"
#include "compiler/passes_internal.h"

static void key_add(cv_str *key, const void *data, size_t bytes) {
  cv_str_append(key, data, bytes);
}
#define KEY(key, x) key_add(key, &(x), sizeof(x))

static void key_type(cv_str *key, const cv_type *type) {
  KEY(key, type->dtype);
  KEY(key, type->rank);
  key_add(key, type->dims, type->rank * sizeof *type->dims);
}

static void key_attr(cv_str *key, const cv_attr *attr) {
  KEY(key, attr->key);
  KEY(key, attr->count);
  switch (cv_attr_kind_of(attr->key)) {
    case CV_KIND_INT: KEY(key, attr->i); break;
    case CV_KIND_FLOAT: KEY(key, attr->f); break;
    case CV_KIND_EXPR: KEY(key, attr->e); break;
    case CV_KIND_DTYPE: KEY(key, attr->dtype); break;
    case CV_KIND_TEXT: cv_str_puts(key, attr->text); break;
    case CV_KIND_INTS: key_add(key, attr->ints, attr->count * sizeof *attr->ints); break;
    case CV_KIND_EXPRS: key_add(key, attr->exprs, attr->count * sizeof *attr->exprs); break;
  }
}

/* A node's key ends with its block, so that a reader asks for its own and the enclosing ones. */
typedef struct {
  cv_map nodes;  /* key and block -> node */
  cv_map consts; /* key -> value */
  cv_str key;
} cse;

static cv_val canonical_const(cse *c, cv_graph *graph, cv_val v) {
  if (v == CV_POISON) return v;
  const cv_value_info *info = cv_value_of(graph, v);
  if (!info->is_const || !info->data.data) return v;
  c->key.len = 0;
  key_type(&c->key, &info->type);
  KEY(&c->key, info->data.splat);
  XXH128_hash_t hash = XXH3_128bits(info->data.data, info->data.bytes);
  KEY(&c->key, hash);
  uint64_t found;
  if (!cv_map_get(&c->consts, c->key.data, c->key.len, &found)) {
    cv_map_set(&c->consts, c->key.data, c->key.len, v);
    return v;
  }
  const cv_value_info *other = cv_value_of(graph, (cv_val)found);
  return memcmp(other->data.data, info->data.data, info->data.bytes) == 0 ? (cv_val)found : v;
}

static void node_key(cse *c, const cv_graph *graph, const cv_node *node) {
  c->key.len = 0;
  KEY(&c->key, node->op);
  KEY(&c->key, node->guard);
  key_add(&c->key, node->ins, node->n_ins * sizeof *node->ins);
  for (uint32_t i = 0; i < node->n_attrs; i++) key_attr(&c->key, &node->attrs[i]);
  for (uint32_t i = 0; i < node->n_outs; i++) key_type(&c->key, cv_type_of(graph, node->outs[i]));
}

static bool visit(cv_rewriter *rewriter, cv_node *node) {
  cse *c = rewriter->context;
  cv_graph *graph = rewriter->graph;
  for (uint32_t i = 0; i < node->n_ins; i++) node->ins[i] = canonical_const(c, graph, node->ins[i]);
  if (node->n_outs == 0 || node->n_blocks || node->op == CV_OP_random) return false;
  node_key(c, graph, node);
  size_t len = c->key.len;
  for (const cv_block *block = graph->at; block; block = block->parent) {
    c->key.len = len;
    KEY(&c->key, block);
    uint64_t found;
    if (!cv_map_get(&c->nodes, c->key.data, c->key.len, &found)) continue;
    const cv_node *other = (const cv_node *)(uintptr_t)found;
    for (uint32_t i = 0; i < node->n_outs; i++)
      cv_rewrite_replace(rewriter, node->outs[i], other->outs[i]);
    return true;
  }
  c->key.len = len;
  KEY(&c->key, graph->at);
  cv_map_set(&c->nodes, c->key.data, c->key.len, (uint64_t)(uintptr_t)node);
  return false;
}

void cv_pass_cse(cv_graph *graph, const cv_pass_options *options) {
  (void)options;
  cse c = {.key.may_die = true};
  cv_rewrite(graph, visit, &c);
  cv_map_deinit(&c.nodes);
  cv_map_deinit(&c.consts);
  cv_str_deinit(&c.key);
}
