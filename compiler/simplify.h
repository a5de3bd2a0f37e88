/* The rewrite rules of the simplifier: named static data. */
#ifndef CV_COMPILER_SIMPLIFY_H
#define CV_COMPILER_SIMPLIFY_H

#include "compiler/passes_internal.h"

typedef enum {
  CV_RULE_EXACT,   /* bits stay, NaN and signed zeros included */
  CV_RULE_BOUNDED, /* off with --exact: within the stated tolerance of float64 */
  CV_RULE_FAST     /* only with --fast-math */
} cv_rule_class;

typedef struct {
  const char *name;
  cv_rule_class class_;
  cv_op op; /* of the nodes it looks at */
  /* What stands for the node's one output, or CV_POISON if the rule does not apply. Builds at the
   * node's place. */
  cv_val (*apply)(cv_rewriter *rewriter, const cv_node *node);
} cv_simplify_rule;

/* The table; the name of the last row is NULL. */
const cv_simplify_rule *cv_simplify_rules(void);
/* Runs the rules until none fires, adding to `fired`, one entry a rule (may be NULL), how often
 * each did. */
void cv_simplify(cv_graph *graph, const cv_pass_options *options, uint64_t *fired);

/* Shared by the rules' files. */
/* The node that makes v if it is of this op, else NULL. */
cv_node *cv_def_of(const cv_rewriter *rewriter, cv_val v, cv_op op);
/* The same if nothing else reads v. */
cv_node *cv_only_def_of(const cv_rewriter *rewriter, cv_val v, cv_op op);
/* The value of a constant whose elements are all one. */
bool cv_splat_value(const cv_graph *graph, cv_val v, double *out_value);
bool cv_is_splat(const cv_graph *graph, cv_val v, double value);
/* The constant that v is, or is a broadcast of; CV_POISON if it is neither. Its dims are v's, or 1.
 */
cv_val cv_const_source(const cv_graph *graph, cv_val v);
/* A splat as one element of the same rank, all dims 1; other constants (and poison) as they are. */
cv_val cv_const_narrow(cv_graph *graph, cv_val v);
/* op over two const sources, broadcast to `like`'s dims. */
cv_val cv_const_combine(cv_graph *graph, cv_op op, cv_val a, cv_val b, cv_val like);
/* True if a `round` may read v, whose ties a rounding more would move. */
bool cv_rule_feeds_round(const cv_rewriter *rewriter, cv_val v);
bool cv_expr_is(const cv_graph *graph, cv_expr e, int64_t value);
/* simplify_map.c */
cv_val cv_rule_cast_chain(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_cast_none(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_twice(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_neutral(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_add_zero(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_mul_zero(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_clamp_chain(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_select(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_div_exact(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_div_reciprocal(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_pow(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_pow_one(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_map_of_broadcasts(cv_rewriter *r, const cv_node *node);
/* simplify_move.c */
cv_val cv_rule_move_none(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_move_twice(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_transpose_is_reshape(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_reshape_of_broadcast(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_slice_of_concat(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_concat_of_concat(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_gather_one(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_gather_own_item(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_reduce_ones(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_pad_into_window(cv_rewriter *r, const cv_node *node);
/* simplify_weight.c */
cv_val cv_rule_sub_const(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_scale_into_conv(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_scale_into_matmul(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_scale_of_sum(cv_rewriter *r, const cv_node *node);
cv_val cv_rule_const_chain(cv_rewriter *r, const cv_node *node);

#endif
