/* Elements of small values, known or symbolic: part of compiler/graph.h's face, which includes it.
 */
#ifndef CV_COMPILER_ELEMS_H
#define CV_COMPILER_ELEMS_H

#include "compiler/graph_core.h"

/* The elements of an integer or bool value as expressions (known or symbolic): true, or false if
 * they are not known. A constant of up to 4096 elements always is. */
bool cv_graph_elems(cv_graph *graph, cv_val v, const cv_expr **out_elems, uint32_t *out_n);
/* The elements as expressions whatever it takes: those of cv_graph_elems, else new symbols with
 * bounds [lo, hi], bound to the value's elements by a `bind` node. The value's dims must be
 * constant and few. False (and the sticky error) else. */
bool cv_graph_bind_elems(cv_graph *graph, cv_val v, const char *name, int64_t lo, int64_t hi,
                         const cv_expr **out_elems, uint32_t *out_n);
/* The bytes of a constant as doubles or int64s (arena; splat expanded): NULL if v is no constant or
 * too large (> 1M). */
const double *cv_graph_doubles(cv_graph *graph, cv_val v, uint64_t *out_n);
const int64_t *cv_graph_ints(cv_graph *graph, cv_val v, uint64_t *out_n);

#endif
