/* The compiler's graph: SSA values, core ops, nested blocks. Types are dtype and dims
 * (expressions), always plain row-major; no implicit broadcast. One compilation owns one graph; one
 * thread. Memory lives in the graph's arena and ends the process with a sentence when out.
 *
 * Errors are sticky: a builder that is given something wrong sets the graph's error (first one
 * wins) and returns the poison value CV_POISON, which every builder passes on; so builders need no
 * check, and the pass driver looks after each pass. */
#ifndef CV_COMPILER_GRAPH_H
#define CV_COMPILER_GRAPH_H

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

/* An assumption a builder had to make: a = b wherever guard is non-zero. The host program checks it
 * once the symbols are bound. */
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

/* States that a = b (under the graph's guard) and remembers it in `equalities` unless it is
 * provable or known. False, and the sticky error, where it cannot hold. */
bool cv_graph_assume_equal(cv_graph *graph, cv_expr a, cv_expr b);
/* Writes `keep` for `drop` in all types, attributes, guards, elements and equalities; `keep` gets
 * the intersection of the bounds. For an equality of two plain symbols without a guard. */
void cv_graph_unify(cv_graph *graph, cv_sym keep, cv_sym drop);
/* The same for any replacement: map[s] for each symbol s, CV_EXPR_NONE to keep it. */
void cv_graph_substitute(cv_graph *graph, const cv_expr *map);

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

/* The elements of an integer or bool value as expressions (known or symbolic): true, or false if
 * they are not known. A constant of up to 4096 elements always is. */
bool cv_graph_elems(cv_graph *graph, cv_val v, const cv_expr **out_elems, uint32_t *out_n);
/* The elements as expressions whatever it takes: those of cv_graph_elems, else new symbols with
 * bounds [lo, hi], bound to the value's elements by a `bind` node. The value's dims must be
 * constant and few. False (and the sticky error) else. */
bool cv_graph_bind_elems(cv_graph *graph, cv_val v, const char *name, int64_t lo, int64_t hi,
                         const cv_expr **out_elems, uint32_t *out_n);
/* The bytes of a constant as doubles or int64s (arena; splat expanded): NULL if v is no constant or
 * too large (> 1M). */
const double *cv_graph_doubles(cv_graph *graph, cv_val v, uint64_t *out_n);
const int64_t *cv_graph_ints(cv_graph *graph, cv_val v, uint64_t *out_n);

/* "f32[batch,3,224,224]". In the arena. */
const char *cv_type_text(cv_graph *graph, const cv_type *type);

/* Checks SSA order, dangling inputs, types against the rules, attributes against the white list,
 * guards, blocks. CV_INTERNAL with a sentence that names the node and `after` (the pass that ran).
 */
CV_NODISCARD cv_status cv_graph_verify(cv_graph *graph, const char *after);

/* Text form and back: one line a node,
 *   graph "name" (%x: f32[batch,3], %w: f32[3,4] const) {
 *     %3: f32[batch,4] = matmul(%x, %w) {to=f32} @"fc1" !1
 *   } -> (%3 "y")
 * Small constants (<= 64 elements) are literals, larger ones `const#HASH`, with floats in hex.
 * docs/text-form.md. */
void cv_graph_print(const cv_graph *graph, cv_str *out);
/* Parses a text into a graph over `exprs` (NULL: its own). Bounded: depth, sizes; CV_INVALID with
 * line and column. Consts by hash are looked up through `find` (may be NULL: they become constants
 * without data). */
typedef const void *(*cv_const_find)(void *context, uint64_t hash, uint64_t bytes);
CV_NODISCARD cv_status cv_graph_parse(const char *text, cv_exprs *exprs, cv_const_find find,
                                      void *context, cv_graph **out_graph);

/* The interpreter: constant folder and oracle. Runs a graph on tensors: `ins` by params, `outs`
 * (owned by the caller) by results; `symbols` has an entry for each symbol, those known set, the
 * rest CV_UNBOUND. Plain loops, float accumulation in double where the op's accumulator is a float
 * type (an oracle, not a bit-exact twin of the kernels). CV_INVALID for bad indices. */
CV_NODISCARD cv_status cv_graph_interpret(cv_graph *graph, const cv_tensor *ins, int64_t *symbols,
                                          cv_tensor *outs);
/* One node on tensors (blocks aside): used by the constant folder. */
CV_NODISCARD cv_status cv_node_interpret(const cv_graph *graph, const cv_node *node,
                                         const cv_tensor *ins, const int64_t *symbols,
                                         cv_tensor *outs);

#endif
