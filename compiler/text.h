/* The text form of a graph: part of compiler/graph.h's face, which includes it. */
#ifndef CV_COMPILER_TEXT_H
#define CV_COMPILER_TEXT_H

#include "compiler/graph_core.h"

/* Text form and back: one line a node,
 *   graph "name" (%x: f32[batch,3], %w: f32[3,4] const) {
 *     %3: f32[batch,4] = matmul(%x, %w) {to=f32} @"fc1" !1
 *   } -> (%3 "y")
 * Small constants (<= 64 elements) are literals, larger ones `const#HASH`, with floats in hex.
 * docs/text-form.md. */
void cv_graph_print(const cv_graph *graph, cv_str *out);
/* Parses a text into a graph over `exprs` (NULL: its own). Bounded: depth, sizes; CV_INVALID with
 * line and column. Consts by hash are looked up through `find` (may be NULL: they become constants
 * without data). */
typedef const void *(*cv_const_find)(void *context, uint64_t hash, uint64_t bytes);
CV_NODISCARD cv_status cv_graph_parse(const char *text, cv_exprs *exprs, cv_const_find find,
                                      void *context, cv_graph **out_graph);

#endif
