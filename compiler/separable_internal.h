/* Between separable.c (the walk) and separable_ops.c (a rule an op). */
#ifndef CV_COMPILER_SEPARABLE_INTERNAL_H
#define CV_COMPILER_SEPARABLE_INTERNAL_H

#include "compiler/passes_internal.h"

/* Where the batch is in a value: dim `axis` is outer * batch * inner, and element
 * (o * batch + b) * inner + i belongs to item b. axis -1: the value does not depend on the batch.
 */
typedef struct {
  int axis;
  cv_expr outer, inner;
  bool uniform; /* the same for all items (a broadcast): any outer and inner would do */
} cv_batched;

typedef struct {
  cv_graph *graph;
  cv_sym batch;
  cv_expr size;      /* the batch symbol */
  cv_batched *value; /* by value */
  cv_expr *known;    /* by symbol: a loop's trips that are a constant; CV_EXPR_NONE else */
  const char *why;   /* the first thing found that is not separable, or NULL */
} cv_proof;

/* Sets the outputs' states from the inputs'; false and `why` if the node mixes items. */
bool cv_proof_node(cv_proof *proof, const cv_node *node);
/* The same for all nodes of a block, in order. */
bool cv_proof_block(cv_proof *proof, const cv_block *block);
/* Sets `why` (once): "<op> '<source>' ..."; returns false. */
bool cv_proof_no(cv_proof *proof, const cv_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* e with the trips of loops that run a known number of times. */
cv_expr cv_proof_known(const cv_proof *proof, cv_expr e);
/* True if e depends on the batch. */
bool cv_proof_uses(const cv_proof *proof, cv_expr e);
/* A state for a dim that is factor * batch, taken as uniform or not; axis -1 if it is not of that
 * form. */
cv_batched cv_proof_dim(const cv_proof *proof, int axis, cv_expr dim, bool uniform);

#endif
