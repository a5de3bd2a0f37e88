/* What the files of the graph share: type rules, elements, growth of vectors. */
#ifndef CV_COMPILER_GRAPH_INTERNAL_H
#define CV_COMPILER_GRAPH_INTERNAL_H

#include "compiler/graph.h"

/* Room for one more element; memory that is out ends the process with a sentence. */
void graph_room(void **data, size_t len, size_t *cap, size_t size);
/* Appends to a vector. */
#define graph_push(v, ...)                                                          \
  (graph_room((void **)(void *)&(v)->data, (v)->len, &(v)->cap, sizeof *(v)->data), \
   (void)((v)->data[(v)->len++] = (__VA_ARGS__)))

enum {
  GRAPH_MAX_ELEMS = 1024,       /* elements that are followed as expressions */
  GRAPH_MAX_CONST_ELEMS = 4096, /* of a constant */
  GRAPH_MAX_OUTS = 4            /* of any op without blocks */
};

/* A node (to be), checked by its op's type rule, which fills `outs`. */
typedef struct {
  cv_graph *graph;
  cv_op op;
  const cv_val *ins;
  uint32_t n_ins;
  const cv_attr *attrs;
  uint32_t n_attrs;
  cv_type outs[GRAPH_MAX_OUTS];
  uint32_t n_outs;
  char error[512];
} cv_rule;

/* The type rule of any op without blocks: checks operands and attributes, fills `outs`. False and
 * `error` (a sentence without the node's name) else. */
bool cv_rule_apply(cv_rule *rule);
/* The rules by class, called with arity and attribute presence checked. */
bool cv_rule_map(cv_rule *rule);
bool cv_rule_move(cv_rule *rule);
bool cv_rule_contract(cv_rule *rule);
bool cv_rule_reduce(cv_rule *rule);
bool cv_rule_routine(cv_rule *rule);
bool cv_rule_shape(cv_rule *rule);
/* The rule of a node with blocks and outputs of `types`. */
bool cv_rule_control(cv_rule *rule, const cv_node *node, const cv_type *types);

/* Sets `error`, returns false. */
bool cv_rule_fail(cv_rule *rule, const char *format, ...) __attribute__((format(printf, 2, 3)));
const cv_type *cv_rule_in(const cv_rule *rule, uint32_t i);
const cv_attr *cv_rule_attr(const cv_rule *rule, cv_attr_key key);
int64_t cv_rule_int(const cv_rule *rule, cv_attr_key key);
/* The list attribute has `count` entries; false and the error else. */
bool cv_rule_count(cv_rule *rule, cv_attr_key key, uint32_t count);
/* The int attribute lies in [lo, hi]. */
bool cv_rule_range(cv_rule *rule, cv_attr_key key, int64_t lo, int64_t hi);
/* The text attribute is one of these words, separated by blanks. */
bool cv_rule_word(cv_rule *rule, cv_attr_key key, const char *words);
/* An expression as text, in the graph's arena. */
const char *cv_expr_text(cv_graph *graph, cv_expr e);
/* Dims are provably equal. The error names both and the position. */
bool cv_rule_dims_equal(cv_rule *rule, const char *what, cv_expr a, cv_expr b);
/* False and the error where e is provably negative. */
bool cv_rule_not_negative(cv_rule *rule, const char *what, cv_expr e);
cv_type cv_scalar_type(cv_dtype dtype);
static inline bool cv_dtype_is_float(cv_dtype d) { return cv_dtype_kind(d) == 'f'; }
static inline bool cv_dtype_is_int(cv_dtype d) {
  return cv_dtype_kind(d) == 'i' || cv_dtype_kind(d) == 'u';
}
static inline bool cv_dtype_is_index(cv_dtype d) { return d == CV_I64 || d == CV_I32; }

/* The number of elements as an expression; CV_EXPR_NONE where it is too large to build. */
cv_expr cv_dims_product(cv_graph *graph, int rank, const cv_expr *dims);
/* All dims constant and their product at most `limit`: true and the product. */
bool cv_dims_small(const cv_graph *graph, const cv_type *type, uint64_t limit, uint64_t *out_n);

/* A new value; the graph's array may move. */
cv_val cv_value_add(cv_graph *graph, const cv_type *type);
/* A constant without data (a weight known by hash, or not at all). */
cv_val cv_graph_const_unknown(cv_graph *graph, const cv_type *type, uint64_t hash);
/* Element i of a constant with data, as int64 (false if it does not fit or is a float). */
bool cv_const_int(const cv_graph *graph, cv_val v, uint64_t i, int64_t *out);

/* Fills `elems` of the outputs of a node that was just built. */
void cv_elems_infer(cv_graph *graph, const cv_node *node);

#endif
