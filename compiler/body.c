/* Step bodies: a graph of its own made of a group's nodes and the index chains they read through.
 */
#include <string.h>

#include "compiler/fuse.h"

enum {
  INLINE_COUNT = 8
}; /* constants of up to this many elements are literals in the body: more are
     params, so that kernels that differ in them alone are the same */

typedef struct {
  cv_fusion *fusion;
  cv_graph *body;
  cv_vals *params;
  uint32_t inside; /* node_stamp of the nodes that belong to the body */
} builder;

static cv_val lookup(const builder *b, cv_val v) {
  return b->fusion->value_stamp[v] == b->inside ? b->fusion->in_body[v] : CV_POISON;
}

static void remember(builder *b, cv_val v, cv_val in_body) {
  b->fusion->value_stamp[v] = b->inside;
  b->fusion->in_body[v] = in_body;
}

static cv_val add_param(builder *b, cv_val v) {
  const cv_value_info *info = cv_value_of(b->fusion->graph, v);
  cv_val param = cv_graph_param(b->body, b->body->body, NULL, &info->type);
  if (param == CV_POISON) return param;
  cv_value_of(b->body, param)->is_const = info->is_const;
  cv_push(b->params, v);
  return param;
}

static cv_val add_const(builder *b, cv_val v, bool weight) {
  const cv_value_info *info = cv_value_of(b->fusion->graph, v);
  uint64_t count, bytes;
  bool sized = cv_type_bytes(b->fusion->graph, &info->type, &count, &bytes);
  if (info->data.splat && !(weight && sized))
    return cv_graph_splat(b->body, &info->type, info->data.data);
  if (weight || count > INLINE_COUNT) return add_param(b, v);
  int64_t dims[CV_MAX_RANK];
  for (int d = 0; d < info->type.rank; d++)
    if (!cv_expr_is_const(b->body->exprs, info->type.dims[d], &dims[d])) return CV_POISON;
  return cv_graph_const(b->body, info->type.dtype, info->type.rank, dims, info->data.data);
}

bool cv_fusion_reads_marked(const cv_fusion *fusion, cv_val v, uint32_t stamp) {
  const cv_node *def = cv_fusion_def(fusion, v);
  if (!def) return false;
  if (fusion->node_stamp[fusion->position[def->id]] == stamp) return true;
  if (!cv_fusion_free(fusion, def)) return false;
  for (uint32_t i = 0; i < def->n_ins; i++)
    if (cv_fusion_reads_marked(fusion, def->ins[i], stamp)) return true;
  return false;
}

static cv_val resolve(builder *b, cv_val v, bool weight);

/* Builds a copy of the node in the body; false (and its sticky error) if that failed. */
static bool copy_node(builder *b, const cv_node *node, bool weight) {
  cv_graph *body = b->body;
  cv_val *ins = cv_arena_array(&body->arena, cv_val, node->n_ins + 1);
  for (uint32_t i = 0; i < node->n_ins; i++) {
    bool operand = cv_class_of(node) == CV_CLASS_CONTRACT && b->fusion->constant[node->ins[i]];
    ins[i] = resolve(b, node->ins[i], operand || weight);
  }
  cv_node *copy = cv_build_node(body, node->op, ins, node->n_ins, node->attrs, node->n_attrs);
  if (!copy) return false;
  for (uint32_t i = 0; i < node->n_outs; i++) {
    const cv_type *is = cv_type_of(body, copy->outs[i]);
    const cv_type *was = cv_type_of(b->fusion->graph, node->outs[i]);
    if (!cv_type_same(is, was)) {
      cv_graph_fail(body, CV_INTERNAL, "%s '%s': its type is %s in the graph and %s in the step",
                    cv_op_get(node->op)->name, node->source, cv_type_text(b->fusion->graph, was),
                    cv_type_text(body, is));
      return false;
    }
    remember(b, node->outs[i], copy->outs[i]);
  }
  return true;
}

/* What v is in the body: already there, a literal, a param, or a copy of the free nodes that make
 * it. */
static cv_val resolve(builder *b, cv_val v, bool weight) {
  cv_fusion *fusion = b->fusion;
  cv_val known = lookup(b, v);
  bool literal = known != CV_POISON && !cv_value_of(b->body, known)->def &&
                 !cv_value_of(b->body, known)->block;
  if (known != CV_POISON && !(weight && literal)) return known;
  const cv_value_info *info = cv_value_of(fusion->graph, v);
  const cv_node *def = cv_fusion_def(fusion, v);
  cv_val made;
  if (info->is_const && info->data.data) {
    made = add_const(b, v, weight);
  } else if (def && cv_fusion_free(fusion, def) &&
             (!fusion->stored[v] || cv_fusion_reads_marked(fusion, v, b->inside))) {
    return copy_node(b, def, weight) ? lookup(b, v) : CV_POISON;
  } else {
    made = add_param(b, v);
  }
  if (made != CV_POISON) remember(b, v, made);
  return made;
}

cv_graph *cv_body_build(cv_fusion *fusion, const uint32_t *positions, uint32_t n,
                        const cv_val *results, uint32_t n_results, cv_vals *out_params) {
  cv_graph *body = cv_graph_create(fusion->graph->exprs);
  builder b = {fusion, body, out_params, ++fusion->stamp};
  for (uint32_t i = 0; i < n; i++) fusion->node_stamp[positions[i]] = b.inside;
  body->source = "";
  for (uint32_t i = 0; i < n && body->status == CV_OK; i++) {
    const cv_node *node = fusion->nodes[positions[i]];
    if (node->n_outs && lookup(&b, node->outs[0]) != CV_POISON) continue; /* by a chain already */
    if (!copy_node(&b, node, false)) break;
  }
  for (uint32_t i = 0; i < n_results && body->status == CV_OK; i++)
    cv_push(&body->body->results, resolve(&b, results[i], false));
  cv_equal_tell(body, fusion->pairs, fusion->n_pairs);
  return body;
}
