/* What a step's body may be, so that one template renders it: the contract between the fuser
 * (compiler/fuse.c) and the renderers (compiler/render_*.c). A body is a cv_graph with one block:
 * params (weights marked is_const), nodes, results. */
#ifndef CV_COMPILER_TEMPLATES_H
#define CV_COMPILER_TEMPLATES_H

#include "compiler/graph.h"

/* Words used below. Index chain: MOVE and GATHER nodes between a value and its reader, folded into
 * index expressions (what they read is computed per element where needed, so a chain may start at a
 * param or at a cheap MAP). Epilogue: MAP nodes (and index chains over other params, constants or
 * SHAPE nodes) on the anchor's result, ending in the results; a final reshape or transpose may
 * follow and is folded into the store. Prologue: the same between params and an anchor's operand.
 */
typedef enum {
  /* MAP, MOVE, GATHER and SHAPE nodes only. All results have the same number of elements in the
   * same order (equal dims, or reshapes of equal dims). Any expression that is read at several
   * index functions is computed again at each, so the fuser does not put costly ones (exp, erf,
   * pow, ...) under a MOVE that reads an element more than once. */
  CV_PATTERN_MAP,
  /* Softmax, norms and what surrounds them: there is a split of the iteration dims in outer dims
   * and row dims (the trailing ones); every reduce in the body reduces exactly the row dims of a
   * value with dims [outer..., row...]; MAP nodes work on [outer..., row...] or on per-row scalars
   * [outer...] / [outer..., 1...]; per-row scalars reach rows by reshape and broadcast. Index
   * chains only at params and at results. Results are rows or per-row scalars. */
  CV_PATTERN_ROW,
  /* One reduce over any axes, with prologue and epilogue. */
  CV_PATTERN_REDUCE,
  /* One matmul or one conv (any groups) with epilogue; prologue of MOVE only (index chains), or MAP
   * on integers and casts for quantised operands. A weight operand (is_const) may have any prologue
   * of MOVE and MAP over constants: it is packed. */
  CV_PATTERN_CONTRACTION,
  /* One window node, or a depthwise conv (groups == channels in == channels out, one channel a
   * group), with epilogue and a prologue of MOVE. */
  CV_PATTERN_WINDOW,
  /* Exactly one ROUTINE, SHAPE or random node, params direct. */
  CV_PATTERN_ROUTINE,
} cv_pattern;

const char *cv_pattern_name(cv_pattern pattern);
/* The pattern whose template renders this body: CV_UNSUPPORTED with the reason if there is none.
 * The fuser asks before it grows a body; a body of any one core op outside BIND and CONTROL always
 * has one. */
CV_NODISCARD cv_status cv_pattern_of(const cv_graph *body, cv_pattern *out_pattern);

#endif
