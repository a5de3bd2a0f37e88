/* The edges of a split program: which values, and which symbols' values, go straight from which
 * stage to which. Derived from the program and its cuts alone, so each process makes the same
 * list. Pure; any thread. */
#ifndef CV_RUNTIME_EDGES_H
#define CV_RUNTIME_EDGES_H

#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "runtime/program.h"

/* The gateway, source and sink of the pipeline, in the place of a stage. */
enum { CV_EDGE_GATEWAY = -1 };

/* Steps [first, last] of one stage. */
typedef struct {
  uint32_t first, last;
} cv_span;

/* What goes from one stage to another with each micro-batch. Its id is its place in the list. */
typedef struct {
  int from, to; /* stages, or CV_EDGE_GATEWAY */
  uint32_t n_values, n_symbols;
  uint32_t *values; /* value ids, ascending; the order of the message's tensors. None: the message
                       paces its consumer, or brings symbols */
  cv_sym *symbols;  /* ascending; the order of the message's symbols */
  uint32_t slots;   /* in the consumer: 2s + 1 for an edge that jumps s stages */
  uint64_t slot_bytes;     /* that slots start with: exact for known shapes, else 0 and they grow */
  uint64_t max_slot_bytes; /* by the bounds of the symbols */
} cv_edge;

/* By consumer (the gateway last), then by producer (the gateway first). */
typedef struct {
  cv_arena arena;
  int n_stages;
  uint32_t n_edges;
  cv_edge *edges;
} cv_edges;

/* Derives the edges; the spans follow each other and cover the program. `symbols` (one entry per
 * symbol, CV_UNBOUND where not known) are those of a typical micro-batch and size the slots; NULL:
 * constant shapes alone do. A caller may raise or lower `slots` (a plan's), equally everywhere.
 * CV_INVALID names the span or the illegal cut; CV_NOMEM. */
CV_NODISCARD cv_status cv_edges_derive(const cv_program *program, const cv_span *stages,
                                       int n_stages, const int64_t *symbols, cv_edges *out_edges);
/* Frees; accepts zeroed. */
void cv_edges_deinit(cv_edges *edges);

/* A copy whose lists are in the arena. CV_NOMEM. */
CV_NODISCARD cv_status cv_edge_copy(cv_arena *arena, const cv_edge *edge, cv_edge **out_edge);
/* The edge between these, or NULL. */
cv_edge *cv_edges_find(const cv_edges *edges, int from, int to);

/* Spans from cut positions (ascending, each in 1..n_steps-1): n_cuts + 1 of them. CV_INVALID. */
CV_NODISCARD cv_status cv_spans_from_cuts(const cv_program *program, const uint32_t *cuts,
                                          int n_cuts, cv_span *out_spans);

#endif
