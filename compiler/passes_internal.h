/* What the passes share: rebuilding a graph in place, use counts, and the passes themselves. */
#ifndef CV_COMPILER_PASSES_INTERNAL_H
#define CV_COMPILER_PASSES_INTERNAL_H

#include "base/map.h"
#include "compiler/graph.h"
#include "compiler/passes.h"

/* Appends; memory that is out ends the process with a sentence. */
#define cv_push(v, ...)                                                      \
  do {                                                                       \
    if ((v)->len == (v)->cap) {                                              \
      (v)->cap = (v)->cap ? 2 * (v)->cap : 8;                                \
      (v)->data = cv_realloc_or_die((v)->data, (v)->cap, sizeof *(v)->data); \
    }                                                                        \
    (v)->data[(v)->len++] = (__VA_ARGS__);                                   \
  } while (0)

/* cv_map_put that does the same. */
void cv_map_set(cv_map *map, const void *key, size_t key_len, uint64_t value);

/* How often each value is read: by nodes of all blocks and as a result. Indexed by value; freed
 * with cv_free. */
uint32_t *cv_graph_uses(const cv_graph *graph);

/* Rebuilding in place. cv_rewrite walks all blocks in order with an emptied node list, so what
 * `visit` builds lands where the visited node stood, under its guard, region and source. `visit`
 * returns true if the node is to go (its outputs were replaced), false to keep it. Operands,
 * results and later nodes read the replacements. */
typedef struct cv_rewriter cv_rewriter;
typedef bool (*cv_rewrite_visit)(cv_rewriter *rewriter, cv_node *node);
struct cv_rewriter {
  cv_graph *graph;
  void *context;
  cv_rewrite_visit visit;
  cv_vec(cv_val) to;    /* by value: what stands for it; CV_POISON: itself */
  const uint32_t *uses; /* as of the start of the walk; new values have no entry */
  uint32_t n_uses;
  bool changed;
};
/* True if anything was replaced. */
bool cv_rewrite(cv_graph *graph, cv_rewrite_visit visit, void *context);
/* From here on `to` stands for `from` (same type). A name that only `from` had moves along. */
void cv_rewrite_replace(cv_rewriter *rewriter, cv_val from, cv_val to);
/* What stands for v now. */
cv_val cv_rewrite_resolve(const cv_rewriter *rewriter, cv_val v);
/* Reads of a value that was there at the start of the walk; 2 for newer ones (not known). */
uint32_t cv_rewrite_uses(const cv_rewriter *rewriter, cv_val v);
/* Appends the nodes of `from` to the list that is being rebuilt, visiting each; `from` is left
 * empty. */
void cv_rewrite_inline(cv_rewriter *rewriter, cv_block *from);

/* The trips of a loop that always runs a constant number of times; -1 for others. */
int64_t cv_loop_known_trips(const cv_graph *graph, const cv_node *node);

/* Types. */
bool cv_dims_same(int rank, const cv_expr *a, const cv_expr *b);
bool cv_type_same(const cv_type *a, const cv_type *b);
/* Dims of two shapes with equal elements, paired up in runs of equal products: [a0, a1) of `a` are
 * [b0, b1) of `b` under another shape. Starts zeroed; each call goes on to the next run, false at
 * the end or where the products cannot be told. */
typedef struct {
  int a0, a1, b0, b1;
} cv_dim_run;
bool cv_dims_next(const cv_graph *graph, const cv_type *a, const cv_type *b, cv_dim_run *run);
/* The product of dims [from, to). */
cv_expr cv_dims_count_expr(const cv_graph *graph, const cv_expr *dims, int from, int to);
/* Elements as an expression. */
cv_expr cv_type_count(cv_graph *graph, const cv_type *type);
/* Bytes of a type of constant dims; false if a dim is symbolic or the product overflows. */
bool cv_type_bytes(const cv_graph *graph, const cv_type *type, uint64_t *out_count,
                   uint64_t *out_bytes);
static inline cv_op_class cv_class_of(const cv_node *node) { return cv_op_get(node->op)->class_; }
/* Calls `see` for each expression the node holds: dims of its outputs, attributes, guard. */
void cv_node_exprs(const cv_graph *graph, const cv_node *node,
                   void (*see)(void *context, cv_expr e), void *context);

/* The passes, in files of their names. */
void cv_pass_unify(cv_graph *graph, const cv_pass_options *options);
void cv_pass_flatten_if(cv_graph *graph, const cv_pass_options *options);
void cv_pass_unroll(cv_graph *graph, const cv_pass_options *options);
void cv_pass_fold(cv_graph *graph, const cv_pass_options *options);
void cv_pass_simplify(cv_graph *graph, const cv_pass_options *options);
void cv_pass_cse(cv_graph *graph, const cv_pass_options *options);
void cv_pass_dce(cv_graph *graph, const cv_pass_options *options);
void cv_pass_sink(cv_graph *graph, const cv_pass_options *options);
void cv_pass_materialise(cv_graph *graph, const cv_pass_options *options);

#endif
