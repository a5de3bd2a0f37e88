/* Part of compiler/graph.h's face, which includes it.
 *
 * The compiler's graph: SSA values, core ops, nested blocks. Types are dtype and dims
 * (expressions), always plain row-major; no implicit broadcast. One compilation owns one graph; one
 * thread. Memory lives in the graph's arena and ends the process with a sentence when out.
 *
 * Errors are sticky: a builder that is given something wrong sets the graph's error (first one
 * wins) and returns the poison value CV_POISON, which every builder passes on; so builders need no
 * check, and the pass driver looks after each pass. */
#ifndef CV_COMPILER_GRAPH_CORE_H
#define CV_COMPILER_GRAPH_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "base/vec.h"
#include "runtime/dtype.h"
#include "runtime/expr.h"
#include "runtime/tensor.h"

typedef uint32_t cv_val; /* a value's index in the graph */
#define CV_POISON UINT32_MAX

typedef enum {
#define X(name, class, ins, outs, attrs, text) CV_OP_##name,
#define V(min) 0
#include "compiler/ops.def"
#undef V
#undef X
  CV_OP_COUNT
} cv_op;

typedef enum {
  CV_CLASS_MAP,
  CV_CLASS_MOVE,
  CV_CLASS_GATHER,
  CV_CLASS_SHAPE,
  CV_CLASS_REDUCE,
  CV_CLASS_CONTRACT,
  CV_CLASS_WINDOW,
  CV_CLASS_ROUTINE,
  CV_CLASS_BIND,
  CV_CLASS_CONTROL
} cv_op_class;

typedef enum {
#define X(key, kind, text) CV_ATTR_##key,
#include "compiler/attrs.def"
#undef X
  CV_ATTR_COUNT
} cv_attr_key;

typedef enum {
  CV_KIND_INT,
  CV_KIND_FLOAT,
  CV_KIND_INTS,
  CV_KIND_EXPR,
  CV_KIND_EXPRS,
  CV_KIND_TEXT,
  CV_KIND_DTYPE
} cv_attr_kind;

/* One attribute; which member holds is the key's kind. Lists and texts live in the graph's arena
 * once built. */
typedef struct {
  cv_attr_key key;
  uint32_t count; /* of ints or exprs */
  union {
    int64_t i;
    double f;
    const int64_t *ints;
    cv_expr e;
    const cv_expr *exprs;
    const char *text;
    cv_dtype dtype;
  };
} cv_attr;

typedef struct {
  const char *name;
  cv_op_class class_;
  int min_ins, n_outs; /* n_outs -1: variadic */
  bool variadic;
  uint64_t attrs; /* the white list: bit 1 << key, all required */
  bool blocks;
} cv_op_info;

const cv_op_info *cv_op_get(cv_op op);
bool cv_op_find(const char *name, cv_op *out_op);
const char *cv_attr_name(cv_attr_key key);
cv_attr_kind cv_attr_kind_of(cv_attr_key key);
bool cv_attr_find(const char *name, cv_attr_key *out_key);

typedef struct {
  cv_dtype dtype;
  uint8_t rank;
  cv_expr dims[CV_MAX_RANK];
} cv_type;

typedef struct cv_block cv_block;
typedef struct cv_node cv_node;

/* Bytes of a constant, row-major; borrowed from a mapping or in the arena. A splat has one element
 * standing for all. */
typedef struct {
  const void *data;
  uint64_t bytes; /* of the whole tensor, or of the one element of a splat */
  bool splat;
  uint64_t hash; /* XXH3 of the bytes; 0: not computed, or (with no data) not known */
} cv_const_data;

typedef struct {
  cv_type type;
  const char *name;   /* the model's name for it, unique in the graph, or NULL */
  cv_node *def;       /* the node that makes it; NULL: a param, or a constant */
  uint32_t def_index; /* which of the node's outputs; of a param: its index in the block */
  cv_block *block;    /* where it is a param; NULL else */
  bool is_const;      /* `data` holds (in a step's body: a param that is a weight may have is_const
                         without data) */
  cv_const_data data;
  cv_expr guard; /* of params: present where non-zero; of what a node makes, the node's holds */
  const cv_expr
      *elems; /* integer and bool values of few elements: their elements as expressions, or NULL */
  uint32_t n_elems;
} cv_value_info;

/* A composite that was decomposed: fuser and delegates may match it by name. */
typedef struct {
  const char *name;   /* of the model's node */
  const char *op;     /* "LayerNormalization" */
  const char *domain; /* "" */
  int64_t version;
} cv_region;

struct cv_node {
  cv_op op;
  uint32_t id; /* rises in order of creation */
  uint32_t n_ins, n_outs, n_attrs, n_blocks;
  cv_val *ins, *outs;
  cv_attr *attrs; /* by key */
  cv_block **blocks;
  cv_expr guard;      /* runs where non-zero; constant 1 outside of flattened branches */
  uint32_t region;    /* index in the graph's regions; CV_NO_REGION */
  const char *source; /* name of the model's node it came from, or "" */
};
#define CV_NO_REGION UINT32_MAX

/* A list of nodes in SSA order. Inner blocks may read values of the outer ones. */
struct cv_block {
  cv_block *parent;
  cv_vec(cv_val) params;
  cv_vec(cv_node *) nodes;
  cv_vec(cv_val) results;
};

typedef struct {
  uint32_t input, output;
} cv_graph_state;

/* An assumption a builder had to make: a = b wherever guard is non-zero. The program checks it once
 * the symbols are bound. */
typedef struct {
  cv_expr a, b, guard;
  const char *source; /* of the node it came from, or "" */
} cv_equality;

typedef struct cv_graph {
  cv_arena arena;
  cv_exprs *exprs;
  bool owns_exprs;
  cv_vec(cv_value_info) values;
  cv_vec(cv_block *) all_blocks; /* every block ever made: they are freed with the graph */
  cv_vec(cv_region) regions;
  cv_vec(cv_graph_state) states;
  cv_vec(cv_equality) equalities;
  cv_block *body; /* the graph's own block: params are its inputs, results its outputs */
  cv_vec(const char *) result_names; /* the model's names of the outputs */
  cv_block *at;                      /* where builders append */
  cv_expr guard;                     /* the guard builders give to nodes */
  uint32_t region;                   /* the region builders give to nodes */
  const char *source;                /* the source builders give to nodes */
  uint32_t n_nodes;
  cv_status status; /* sticky */
  char *error;      /* its sentence */
  const char *name, *producer;
  void *owner; /* keeps mapped weights alive: released by `release(owner)` */
  void (*release)(void *owner);
} cv_graph;

/* `exprs` NULL: a pool of its own. */
cv_graph *cv_graph_create(cv_exprs *exprs);
void cv_graph_destroy(cv_graph *graph);

/* Sets the sticky error if there is none, and returns CV_POISON. */
cv_val cv_graph_fail(cv_graph *graph, cv_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The sticky error as this thread's status and sentence; CV_OK if there is none. */
CV_NODISCARD cv_status cv_graph_status(const cv_graph *graph);

static inline const cv_type *cv_type_of(const cv_graph *graph, cv_val v) {
  return &graph->values.data[v].type;
}
static inline cv_value_info *cv_value_of(const cv_graph *graph, cv_val v) {
  return &graph->values.data[v];
}

/* Blocks and values. */
cv_block *cv_block_create(cv_graph *graph, cv_block *parent);
cv_val cv_graph_param(cv_graph *graph, cv_block *block, const char *name, const cv_type *type);
/* Bytes are copied into the arena, or borrowed (they must outlive the graph). `dims` constants. */
cv_val cv_graph_const(cv_graph *graph, cv_dtype dtype, int rank, const int64_t *dims,
                      const void *data);
cv_val cv_graph_const_borrowed(cv_graph *graph, cv_dtype dtype, int rank, const int64_t *dims,
                               const void *data);
/* A constant of any (also symbolic) dims whose elements are all the scalar `element` (of `dtype`).
 */
cv_val cv_graph_splat(cv_graph *graph, const cv_type *type, const void *element);
/* Scalar constants of a dtype from a double or an int64. */
cv_val cv_graph_scalar(cv_graph *graph, cv_dtype dtype, double value);
cv_val cv_graph_i64(cv_graph *graph, int64_t value);

/* Of a loop: how many values are carried. Its inputs are [trips, condition, carried...,
 * captured...], its outputs [carried..., stacked...], its body's results [condition, carried...,
 * items...]; an output is stacked where it has one more dim (the first: the symbol of the trips)
 * than the body's result. Trips is an i64 scalar (INT64_MAX: no limit), condition a bool scalar;
 * both are always there. */
uint32_t cv_loop_carried(const cv_graph *graph, const cv_node *node);

/* Attribute access; the verifier guarantees presence. */
const cv_attr *cv_node_attr(const cv_node *node, cv_attr_key key); /* NULL if absent */
int64_t cv_node_int(const cv_node *node, cv_attr_key key);
const char *cv_node_text(const cv_node *node, cv_attr_key key);

/* "f32[batch,3,224,224]". In the arena. */
const char *cv_type_text(cv_graph *graph, const cv_type *type);

/* Checks SSA order, dangling inputs, types against the rules, attributes against the white list,
 * guards, blocks. CV_INTERNAL with a sentence that names the node and `after` (the pass that ran).
 */
CV_NODISCARD cv_status cv_graph_verify(cv_graph *graph, const char *after);

#endif
