/* What the files of the interpreter share. Plain loops: an oracle, read before it is fast. */
#ifndef CV_COMPILER_INTERP_INTERNAL_H
#define CV_COMPILER_INTERP_INTERNAL_H

#include "compiler/graph_internal.h"

/* One node on tensors: operands fit their types, outputs are created and zeroed. */
typedef struct {
  const cv_graph *graph;
  const cv_node *node;
  const cv_tensor *ins;
  const int64_t *symbols;
  cv_tensor *outs;
} interp_call;

/* The loops by class. CV_INVALID for bad indices. */
CV_NODISCARD cv_status interp_map(const interp_call *call);
CV_NODISCARD cv_status interp_move(const interp_call *call);
CV_NODISCARD cv_status interp_gather(const interp_call *call);
CV_NODISCARD cv_status interp_shape(const interp_call *call);
CV_NODISCARD cv_status interp_reduce(const interp_call *call);
CV_NODISCARD cv_status interp_scan(const interp_call *call);
CV_NODISCARD cv_status interp_contract(const interp_call *call);
CV_NODISCARD cv_status interp_window(const interp_call *call);
CV_NODISCARD cv_status interp_routine(const interp_call *call);
CV_NODISCARD cv_status interp_nms(const interp_call *call);

/* CV_INVALID with a sentence that begins with the node. */
CV_NODISCARD cv_status interp_fail(const interp_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* An attribute's expression, evaluated. */
CV_NODISCARD cv_status interp_eval(const interp_call *call, cv_expr e, int64_t *out);
CV_NODISCARD cv_status interp_eval_list(const interp_call *call, cv_attr_key key, int64_t *out);
/* Dims of a type, evaluated; CV_INVALID where one is negative. */
CV_NODISCARD cv_status interp_dims(const cv_graph *graph, const cv_type *type,
                                   const int64_t *symbols, int64_t *out_dims);

int64_t interp_count(const cv_tensor *tensor);
static inline const void *interp_at(const cv_tensor *tensor, int64_t i) {
  return (const unsigned char *)tensor->data + i * (int64_t)cv_dtype_size(tensor->dtype);
}
static inline void *interp_out(const cv_tensor *tensor, int64_t i) {
  return (unsigned char *)tensor->data + i * (int64_t)cv_dtype_size(tensor->dtype);
}
/* Row-major strides in elements. */
void interp_strides(int rank, const int64_t *dims, int64_t *out_strides);
/* The next index vector in row-major order; false after the last. */
bool interp_next(int rank, const int64_t *dims, int64_t *index);
/* A box of elements that lie apart by strides, counted in elements; `data` is its first. */
typedef struct {
  unsigned char *data;
  int64_t strides[CV_MAX_RANK];
} interp_box;
/* Copies `dims` elements of `size` bytes from one box to the other. */
void interp_copy(int rank, const int64_t *dims, const interp_box *to, const interp_box *from,
                 size_t size);
/* Order of two elements of a number's dtype: -1, 0, 1; a NaN is above all and equal to itself. */
int interp_order(cv_dtype dtype, const void *a, const void *b);
/* a * b, a + b and a ^ b in int64, wrapping. */
static inline int64_t wrap_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}
static inline int64_t wrap_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
/* How kinds sum, prod (add, mul), max and min join two elements, and where they start. */
double interp_join_float(const char *kind, double a, double b);
int64_t interp_join_int(const char *kind, cv_dtype dtype, int64_t a, int64_t b);

#endif
