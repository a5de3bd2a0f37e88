/* Builders of nodes: part of compiler/graph.h's face, which includes it. */
#ifndef CV_COMPILER_BUILD_H
#define CV_COMPILER_BUILD_H

#include "compiler/graph_core.h"

/* The node builder: infers types (the type rules check everything), appends to graph->at.
 * Attributes are copied. For one-output ops returns the output, else the first one (the others
 * follow in index order: first + 1, ...). */
cv_val cv_build(cv_graph *graph, cv_op op, const cv_val *ins, uint32_t n_ins, const cv_attr *attrs,
                uint32_t n_attrs);
/* The same for ops with blocks or where the node itself is wanted; NULL when poisoned. `types` for
 * control ops' outputs. */
cv_node *cv_build_node(cv_graph *graph, cv_op op, const cv_val *ins, uint32_t n_ins,
                       const cv_attr *attrs, uint32_t n_attrs);
cv_node *cv_build_control(cv_graph *graph, cv_op op, const cv_val *ins, uint32_t n_ins,
                          const cv_attr *attrs, uint32_t n_attrs, cv_block *const *blocks,
                          uint32_t n_blocks, const cv_type *types, uint32_t n_types);

/* Short builders. They simplify trivially (identity reshape, transpose, broadcast, slice, pad and
 * cast give their operand). */
cv_val cv_unary(cv_graph *graph, cv_op op, cv_val x);
cv_val cv_binary(cv_graph *graph, cv_op op, cv_val a, cv_val b); /* equal dims and dtype */
cv_val cv_binary_bc(cv_graph *graph, cv_op op, cv_val a,
                    cv_val b); /* numpy broadcasting made explicit */
cv_val cv_select(cv_graph *graph, cv_val c, cv_val a,
                 cv_val b); /* numpy broadcasting made explicit */
cv_val cv_cast(cv_graph *graph, cv_val x, cv_dtype to);
cv_val cv_reshape(cv_graph *graph, cv_val x, const cv_expr *dims, int rank);
/* x under dims that are assumed to be its own (a reshape and an equality a dim); x itself where
 * they are provably equal. */
cv_val cv_assume_dims(cv_graph *graph, cv_val x, const cv_expr *dims, int rank);
cv_val cv_transpose(cv_graph *graph, cv_val x, const int64_t *perm);
/* Numpy's common dims of n types. Of two symbolic dims that are neither equal nor 1 the first wins,
 * of a symbolic one and a constant the constant, and they are assumed equal: a dim that might be 1
 * at run time is taken for the other. False and the sticky error else. */
bool cv_broadcast_dims(cv_graph *graph, const cv_type *const *types, uint32_t n, cv_type *out_type);
/* Numpy's broadcast of x to these dims: ranks may differ. Dims as in cv_broadcast_dims. */
cv_val cv_broadcast_to(cv_graph *graph, cv_val x, const cv_expr *dims, int rank);
cv_val cv_slice_axis(cv_graph *graph, cv_val x, int axis, cv_expr start, cv_expr extent,
                     int64_t step);
cv_val cv_pad(cv_graph *graph, cv_val x, cv_val value, const cv_expr *lo, const cv_expr *hi);
cv_val cv_concat(cv_graph *graph, const cv_val *xs, uint32_t n, int axis);
cv_val cv_gather(cv_graph *graph, cv_val x, cv_val idx, int axis);
cv_val cv_gather_nd(cv_graph *graph, cv_val x, cv_val idx, int batch_dims);
cv_val cv_iota(cv_graph *graph, cv_dtype dtype, const cv_expr *dims, int rank, int axis);
cv_val cv_extents(cv_graph *graph, const cv_expr *exprs, uint32_t n);
/* kind "sum", ...; keep: reduced axes stay as 1. axes: bit mask. */
cv_val cv_reduce(cv_graph *graph, cv_val x, const char *kind, uint32_t axes, bool keep);
cv_val cv_matmul(cv_graph *graph, cv_val a, cv_val b, cv_dtype to);
typedef struct {
  int spatial; /* number of spatial dims */
  int64_t strides[CV_MAX_RANK], dilations[CV_MAX_RANK], lhs_dilation[CV_MAX_RANK],
      kernel[CV_MAX_RANK];
  cv_expr lo[CV_MAX_RANK], hi[CV_MAX_RANK];
  int64_t groups;
} cv_window_attrs;
cv_val cv_conv(cv_graph *graph, cv_val x, cv_val w, const cv_window_attrs *attrs, cv_dtype to);
cv_val cv_window(cv_graph *graph, cv_val x, const char *kind, const cv_window_attrs *attrs);

/* States that a = b (under the graph's guard) and remembers it in `equalities` unless it is
 * provable or known. False, and the sticky error, where it cannot hold. */
bool cv_graph_assume_equal(cv_graph *graph, cv_expr a, cv_expr b);
/* Writes `keep` for `drop` in all types, attributes, guards, elements and equalities; `keep` gets
 * the intersection of the bounds. For an equality of two plain symbols without a guard. */
void cv_graph_unify(cv_graph *graph, cv_sym keep, cv_sym drop);
/* The same for any replacement: map[s] for each symbol s, CV_EXPR_NONE to keep it. */
void cv_graph_substitute(cv_graph *graph, const cv_expr *map);
/* The same for one function of symbols, but in equalities. */
void cv_graph_replace(cv_graph *graph, cv_expr from, cv_expr to);

#endif
