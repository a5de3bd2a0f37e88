/* One ONNX node while it is imported: what a row's builder sees. A builder reads n->in and the
 * attributes, builds core ops, and sets n->out; it needs no checks, since errors are sticky. Values
 * of dims and dtypes are safe to ask of any value, also of poison. */
#ifndef CV_COMPILER_ONNX_NODE_H
#define CV_COMPILER_ONNX_NODE_H

#include "compiler/graph.h"
#include "compiler/onnx/messages.h"

typedef struct cv_importer cv_importer;
typedef struct cv_onnx_row cv_onnx_row;

#define CV_ABSENT (UINT32_MAX - 1) /* an optional input that is not given */

/* Default bounds of symbols made from run-time values and of dim_params. */
enum { CV_ONNX_MAX_DIM = 1 << 20 };

typedef struct {
  cv_importer *importer;
  cv_graph *g;
  const Onnx__NodeProto *proto;
  const cv_onnx_row *row;
  const char *label; /* the node's name, or its first output's */
  int64_t opset;     /* version of the row's domain in force here */
  uint32_t n_in, n_out;
  cv_val *in;  /* CV_ABSENT where left out */
  cv_val *out; /* to be set; all are CV_POISON before */
} cv_on;

/* Fails the import with "node LABEL (OP): ..."; returns CV_POISON. */
cv_val cv_on_fail(cv_on *n, cv_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Inputs and outputs. */
static inline bool cv_on_has(const cv_on *n, uint32_t i) {
  return i < n->n_in && n->in[i] != CV_ABSENT;
}
static inline cv_val cv_on_in(const cv_on *n, uint32_t i) {
  return cv_on_has(n, i) ? n->in[i] : CV_ABSENT;
}
/* True if the output is asked for. */
bool cv_on_wants(const cv_on *n, uint32_t i);
static inline void cv_on_set(cv_on *n, uint32_t i, cv_val v) {
  if (i < n->n_out) n->out[i] = v;
}

/* Attributes, with references to the attributes of an enclosing function's call resolved. */
const Onnx__AttributeProto *cv_on_attr(const cv_on *n, const char *name); /* NULL if absent */
int64_t cv_on_int(const cv_on *n, const char *name, int64_t otherwise);
double cv_on_float(const cv_on *n, const char *name, double otherwise);
/* In the graph's arena. */
const char *cv_on_text(const cv_on *n, const char *name, const char *otherwise);
/* NULL and 0 if absent. */
const int64_t *cv_on_ints(const cv_on *n, const char *name, uint32_t *out_n);
const float *cv_on_floats(const cv_on *n, const char *name, uint32_t *out_n);

/* Values that must be known now: a constant's elements, or what those graph inputs whose values the
 * caller knows make of it. Else the import fails with a sentence that tells of --bind, and NULL.
 * `what` names the input in it. */
const int64_t *cv_on_known_ints(cv_on *n, uint32_t i, const char *what, uint32_t *out_n);
const double *cv_on_known_doubles(cv_on *n, uint32_t i, const char *what, uint32_t *out_n);
/* The same as one number; `otherwise` if the input is absent. */
int64_t cv_on_known_int(cv_on *n, uint32_t i, const char *what, int64_t otherwise);
/* The value of an expression, over dims of the graph's inputs and bound elements, for the request
 * that the caller knows (cv_import_options.value_of); false if it is not known. What is built then
 * must state what it assumed. In sample.c. */
bool cv_on_sample(cv_on *n, cv_expr e, int64_t *out_value);
/* Integer elements as expressions; what is not known becomes symbols in [lo, hi], bound at run
 * time. NULL if that fails (the error is set). */
const cv_expr *cv_on_exprs(cv_on *n, uint32_t i, int64_t lo, int64_t hi, uint32_t *out_n);
/* The elements of an i64 vector made by core ops (same rules). */
const cv_expr *cv_on_exprs_of(cv_on *n, cv_val v, int64_t lo, int64_t hi, uint32_t *out_n);

/* An axis from the model, counted from the end if negative: 0..rank-1, or the import fails and 0.
 */
int cv_on_axis(cv_on *n, int64_t axis, int rank);
/* Axes from attribute or (from opset `since`) input i, as a bit mask: false if none are given. */
bool cv_on_axes(cv_on *n, uint32_t i, int64_t since, int rank, uint32_t *out_mask);

/* Imports a subgraph attribute in the block n->g->at: params get `args`; fills outs[n_outs]. */
void cv_on_subgraph(cv_on *n, const char *attr, const cv_val *args, uint32_t n_args, cv_val *outs,
                    uint32_t n_outs);
/* Numbers of inputs and outputs of a subgraph attribute; false if there is none. */
bool cv_on_subgraph_size(cv_on *n, const char *attr, uint32_t *out_ins, uint32_t *out_outs);

/* A loop: `build` makes the body in the graph's current block from params (iteration, condition,
 * carried..) and fills results (condition, carried.., stacked items..). */
typedef struct {
  cv_val trips, condition; /* i64 and bool scalars */
  uint32_t carried, stacked;
  const cv_val *init; /* of what is carried */
  int64_t max;        /* more iterations are an error */
  void (*build)(cv_on *n, void *context, const cv_val *params, cv_val *results);
} cv_on_loop_spec;
/* The loop's node (outs: carried.., stacked..), or NULL where the import failed. */
cv_node *cv_on_loop(cv_on *n, const cv_on_loop_spec *spec, void *context);
/* A tensor attribute as constant; CV_ABSENT if absent. */
cv_val cv_on_tensor(cv_on *n, const char *name);
/* Decides where a graph can be only one of two things that both may be right: `first`, and if the
 * import fails later it is done again with the last decision turned round. False if there have been
 * too many of them. */
bool cv_on_choose(cv_on *n, bool first, bool *out_choice);
/* A fresh symbol, its name made from the node's label. */
cv_expr cv_on_symbol(cv_on *n, const char *what, int64_t lo, int64_t hi);

#endif
