/* How a block's nodes are grouped into steps: what fuse.c decides and lower.c emits. Private to the
 * compiler.
 *
 * A node is *free* if it only moves elements or makes them from dims (MOVE, GATHER, SHAPE) or if it
 * computes from constants alone: free nodes belong to no group, each reader repeats them as an
 * index chain, unless the value must have bytes of its own (it is *stored*). All others belong to
 * one group each. */
#ifndef CV_COMPILER_FUSE_H
#define CV_COMPILER_FUSE_H

#include "compiler/equal.h"
#include "compiler/passes_internal.h"
#include "compiler/templates.h"

typedef enum {
  CV_GROUP_KERNEL,
  CV_GROUP_ALIAS, /* a reshape or join of stored values, or a result that is an input or constant */
  CV_GROUP_LOOP
} cv_group_kind;

typedef struct {
  cv_group_kind kind;
  cv_pattern pattern;     /* of a kernel */
  cv_vec(uint32_t) nodes; /* positions in the block, ascending */
  cv_vec(cv_val) results; /* stored values it makes */
  uint32_t key;           /* place in the model's order */
} cv_group;

typedef struct {
  cv_graph *graph;
  const cv_block *block;
  const cv_pass_options *options;
  uint32_t n; /* nodes */
  cv_node **nodes;
  uint32_t *position; /* by node id: place in the block; CV_NONE: in another block */
  uint32_t *group_of; /* by position; CV_NONE: free (or bind) */
  uint32_t *first_user,
      *users;     /* positions that read a value: users[first_user[v]..first_user[v+1]) */
  bool *wanted;   /* by value: a result of the block, captured by a loop's body, or bound */
  bool *stored;   /* by value: has bytes of its own */
  bool *constant; /* by value: a constant or computed from constants alone */
  uint32_t *n_binders, **binders; /* by position: the positions that bind symbols it uses */
  cv_equal *pairs;                /* what the graph assumes of its dims */
  uint32_t n_pairs;
  cv_vec(cv_group) groups; /* in the order of the steps, once cv_fuse is done */
  /* Scratch: marks of the walks, by position and by value. */
  uint32_t stamp;
  uint32_t *node_stamp, *value_stamp;
  cv_val *in_body;
} cv_fusion;

/* Groups the nodes of a block and orders the groups. Errors are the graph's. */
void cv_fuse(cv_graph *graph, const cv_block *block, const cv_pass_options *options,
             cv_fusion *out_fusion);
void cv_fusion_deinit(cv_fusion *fusion);

/* True for nodes that readers repeat. */
bool cv_fusion_free(const cv_fusion *fusion, const cv_node *node);
/* The node of this block that makes v, or NULL (params, constants, values of outer blocks). */
cv_node *cv_fusion_def(const cv_fusion *fusion, cv_val v);
/* True if v is made by a node with node_stamp == stamp, be it behind free nodes: such a value is
 * repeated inside, even if it is stored for others. */
bool cv_fusion_reads_marked(const cv_fusion *fusion, cv_val v, uint32_t stamp);
/* The values that the blocks of a loop read from outside of it, constants aside; appended. */
typedef cv_vec(cv_val) cv_vals;
void cv_captured_values(const cv_graph *graph, const cv_node *node, cv_vals *out_values);

/* The body of a kernel made of these nodes (positions, ascending) with these results: params in the
 * order in which they are read first; the values of the graph that they stand for are appended to
 * `out_params`. Owned by the caller. */
cv_graph *cv_body_build(cv_fusion *fusion, const uint32_t *positions, uint32_t n,
                        const cv_val *results, uint32_t n_results, cv_vals *out_params);

/* True if a contraction or window that has `v` as operand can read it by strides from stored values
 * (its batch dims, the first `batch_dims`, by any index). */
bool cv_view_is_plain(cv_fusion *fusion, cv_val v, int batch_dims);

/* Arithmetic operations of a node. */
cv_expr cv_node_flops(cv_graph *graph, const cv_node *node);

/* The steps with their bodies as text: for --dump-after=fuse. */
void cv_program_dump(const cv_program *program, cv_str *out);

#endif
