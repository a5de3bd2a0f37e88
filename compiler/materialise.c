/* Splats that a loop, a join or a result needs as bytes: a broadcast of one element makes them, so
 * that the artifact does not hold them and their dims may be symbolic. Runs last: folding would
 * undo it. */
#include "compiler/passes_internal.h"

/* A broadcast that gives the splat, at the end of the list that is being built; other values as
 * they are. */
static cv_val written_out(cv_graph *graph, cv_val v) {
  const cv_value_info *info = cv_value_of(graph, v);
  uint64_t count, bytes;
  if (!info->is_const || !info->data.splat) return v;
  if (cv_type_bytes(graph, &info->type, &count, &bytes) && count <= 1) return v;
  const cv_type type = info->type;
  cv_type narrow = type;
  for (int d = 0; d < type.rank; d++) narrow.dims[d] = cv_expr_const(graph->exprs, 1);
  cv_val one = cv_graph_splat(graph, &narrow, info->data.data);
  cv_attr dims = {.key = CV_ATTR_DIMS, .count = type.rank, .exprs = type.dims};
  return cv_build(graph, CV_OP_broadcast, &one, 1, &dims, 1);
}

static bool visit(cv_rewriter *rewriter, cv_node *node) {
  if (cv_class_of(node) != CV_CLASS_CONTROL) return false;
  for (uint32_t i = 0; i < node->n_ins; i++)
    node->ins[i] = written_out(rewriter->graph, node->ins[i]);
  return false;
}

static void write_results(cv_graph *graph, cv_block *block) {
  cv_block *at = graph->at;
  graph->at = block;
  graph->guard = cv_expr_const(graph->exprs, 1);
  graph->region = CV_NO_REGION;
  graph->source = "";
  for (size_t i = 0; i < block->results.len; i++)
    block->results.data[i] = written_out(graph, block->results.data[i]);
  graph->at = at;
  for (size_t i = 0; i < block->nodes.len; i++)
    for (uint32_t b = 0; b < block->nodes.data[i]->n_blocks; b++)
      write_results(graph, block->nodes.data[i]->blocks[b]);
}

void cv_pass_materialise(cv_graph *graph, const cv_pass_options *options) {
  (void)options;
  cv_rewrite(graph, visit, NULL);
  if (graph->status == CV_OK) write_results(graph, graph->body);
}
