/* Dims that were assumed equal, written in one form: floordiv(h + 7, 8) as 2*floordiv(h + 15, 16)
 * where a node needs both to be the same. The graph keeps each type as its rule makes it; a step's
 * body says which of its dims are assumed equal, and a rendering takes one form for them (and
 * refuses shapes for which they differ), so that a reshape between them costs no divisions. */
#ifndef CV_COMPILER_EQUAL_H
#define CV_COMPILER_EQUAL_H

#include "compiler/graph.h"

/* `from`, a function of symbols, may be written as `to`, once the pairs before are applied. */
typedef struct {
  cv_expr from, to;
} cv_equal;

/* The pairs of the graph's equalities that hold always (no guard), in order, into `out_pairs` (room
 * for all equalities); returns how many. */
uint32_t cv_equal_pairs(const cv_graph *graph, cv_equal *out_pairs);
/* Gives `body` the equalities of those pairs that its types can use: left the form that is there,
 * right the one to write. */
void cv_equal_tell(cv_graph *body, const cv_equal *pairs, uint32_t n);
/* Writes all of the body in one form. Its equalities stay as they are; types need no longer be
 * those of the rules. */
void cv_equal_apply(cv_graph *body);
/* Marks the symbols (room for all) that a node of the block, or of blocks inside, binds. */
void cv_mark_bound(const cv_graph *graph, const cv_block *block, bool *bound);

#endif
