/* Graphs from text, one pass on them, and text back: for the tests of single passes. */
#ifndef CV_TESTS_PASS_CASE_H
#define CV_TESTS_PASS_CASE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "compiler/passes_internal.h"

static inline cv_graph *graph_of(const char *text) {
  cv_graph *graph = NULL;
  if (cv_graph_parse(text, NULL, NULL, NULL, &graph) != CV_OK) fail_msg("%s", cv_error_text());
  return graph;
}

/* Runs the pass and the verifier. */
static inline void run_pass(cv_graph *graph, void (*pass)(cv_graph *, const cv_pass_options *)) {
  const cv_pass_options options = {0};
  pass(graph, &options);
  cv_status status = cv_graph_status(graph);
  if (status == CV_OK) status = cv_graph_verify(graph, "the pass under test");
  if (status != CV_OK) fail_msg("%s", cv_error_text());
}

/* Nodes of the op in the graph, inner blocks too. */
static inline uint32_t count_in(const cv_block *block, cv_op op) {
  uint32_t n = 0;
  for (size_t i = 0; i < block->nodes.len; i++) {
    n += block->nodes.data[i]->op == op;
    for (uint32_t b = 0; b < block->nodes.data[i]->n_blocks; b++)
      n += count_in(block->nodes.data[i]->blocks[b], op);
  }
  return n;
}
static inline uint32_t count_op(const cv_graph *graph, cv_op op) {
  return count_in(graph->body, op);
}

/* The graph's text holds this. */
static inline void expect_text(const cv_graph *graph, const char *part) {
  cv_str text = {0};
  cv_graph_print(graph, &text);
  if (!strstr(cv_str_text(&text), part)) fail_msg("no '%s' in:\n%s", part, cv_str_text(&text));
  cv_str_deinit(&text);
}

#endif
