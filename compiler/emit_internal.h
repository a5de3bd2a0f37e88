/* Shared by the emitter's own files (emit_value.c, emit_access.c, emit_op.c). */
#ifndef CV_COMPILER_EMIT_INTERNAL_H
#define CV_COMPILER_EMIT_INTERNAL_H

#include "compiler/render_internal.h"

/* Declares a vector variable of the dtype's compute form with this value; its name. */
const char *emit_var(cv_emit *emit, cv_dtype dtype, const char *text);
/* In a dry run: notes an index expression that the generated code uses. */
void emit_use(cv_emit *emit, cv_expr e);
/* Loads the lanes at `offset` of a pointer of the dtype's storage type, under the open ranges:
 * lanes outside are zero and not read. */
const char *emit_load(cv_emit *emit, cv_dtype dtype, const char *pointer, cv_expr offset);
/* The lanes of an index expression as numbers of a dtype. */
const char *emit_positions(cv_emit *emit, cv_dtype dtype, cv_expr e);
/* True if the range is sure to hold, or sure to fail, by the bounds of the symbols. */
bool emit_range_holds(cv_emit *emit, const cv_range *range);
bool emit_range_fails(cv_emit *emit, const cv_range *range);
/* A mask variable: the lanes where all ranges hold. */
const char *emit_mask(cv_emit *emit, const cv_range *ranges, int n);
/* C condition for the open ranges: those that are the same for all lanes, or (`lane`) all of them
 * for lane l. "1" if there is none. */
const char *emit_conditions(cv_emit *emit, bool lane);
/* Evaluates a MAP node's operands and the node. */
const char *emit_map_op(cv_emit *emit, const cv_node *node, const cv_index *at);

#endif
