/* Between the contraction templates: conv, and what a packed weight means for the rendering. */
#ifndef CV_COMPILER_RENDER_CONV_H
#define CV_COMPILER_RENDER_CONV_H

#include "compiler/gemm_internal.h"

/* Renders a body whose anchor is this conv. */
cv_status cv_render_conv(cv_emit *emit, cv_node *node, cv_rendered *out_rendered);

/* Declares one packed weight of `bytes` made from `weight`: the params that only it reads are not
 * read raw. */
void cv_gemm_weight(cv_emit *emit, const cv_node *anchor, cv_val weight, cv_expr bytes,
                    cv_rendered *out_rendered);
/* An operand in the accumulator's dtype: a cast is put into the body where it is of another one. */
cv_val cv_gemm_operand(cv_emit *emit, cv_val value, cv_dtype acc);
/* The anchor's result in the accumulator's dtype; where the model's dtype is another one, the body
 * then casts it. */
cv_val cv_gemm_result(cv_emit *emit, cv_node *node, cv_dtype acc);
/* C name of a param's pointer in run. */
const char *cv_gemm_pointer(cv_emit *emit, cv_val param);
/* True if everything that makes `value` is constant: weights and constants through MOVE and MAP. */
bool cv_gemm_is_weight(const cv_graph *body, cv_val value);

/* The input of a conv or window as a phase of its own: a copy in shared scratch, padded and
 * dilated, as [n][c][padded spatial...] of `element`s, `fill` outside; so that what follows needs
 * no bounds checks. */
typedef struct {
  cv_val x;
  int spatial;
  cv_expr n, c;                /* of x */
  cv_expr in[CV_MAX_RANK];     /* spatial dims of x */
  cv_expr padded[CV_MAX_RANK]; /* of the copy */
  cv_expr lo[CV_MAX_RANK];
  int64_t dilation[CV_MAX_RANK]; /* of x's elements */
  cv_dtype dtype;                /* of the copy */
  const char *fill;              /* C text of an element */
  bool copied;                   /* false: x is read in place (a param, nothing to pad) */
} cv_padded;

/* Fills it from a node's attributes lo, hi and (conv) lhs_dilation; x is of `dtype` already. */
void cv_padded_init(cv_emit *emit, const cv_node *node, cv_val x, cv_dtype dtype, const char *fill,
                    cv_padded *out_padded);
/* Elements of one plane [padded...], of the whole copy, and the number of tasks of its phase
 * (planes). */
cv_expr cv_padded_plane(cv_emit *emit, const cv_padded *padded);
cv_expr cv_padded_count(cv_emit *emit, const cv_padded *padded);
/* Prints the body of the phase: tasks [begin, end) write their planes to `to`. */
void cv_padded_print(cv_emit *emit, const cv_padded *padded, const char *to);

#endif
