/* The interpreter: part of compiler/graph.h's face, which includes it. */
#ifndef CV_COMPILER_INTERP_H
#define CV_COMPILER_INTERP_H

#include "compiler/graph_core.h"

/* The interpreter: constant folder and oracle. Runs a graph on tensors: `ins` by params, `outs`
 * (owned by the caller) by results; `symbols` has an entry for each symbol, those known set, the
 * rest CV_UNBOUND. Plain loops, float accumulation in double where the op's accumulator is a float
 * type (an oracle, not a bit-exact twin of the kernels). CV_INVALID for bad indices. */
CV_NODISCARD cv_status cv_graph_interpret(cv_graph *graph, const cv_tensor *ins, int64_t *symbols,
                                          cv_tensor *outs);
/* One node on tensors (blocks aside): used by the constant folder. */
CV_NODISCARD cv_status cv_node_interpret(const cv_graph *graph, const cv_node *node,
                                         const cv_tensor *ins, const int64_t *symbols,
                                         cv_tensor *outs);

#endif
