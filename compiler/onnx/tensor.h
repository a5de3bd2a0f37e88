/* TensorProto, read in place: header first, then a constant of the graph that borrows the bytes
 * where their alignment allows it. */
#ifndef CV_COMPILER_ONNX_TENSOR_H
#define CV_COMPILER_ONNX_TENSOR_H

#include "compiler/graph.h"
#include "compiler/onnx/file.h"
#include "compiler/onnx/wire.h"
#include "runtime/tensor.h"

typedef struct {
  const uint8_t *name; /* not NUL-terminated; NULL if it has none */
  size_t name_size;
  cv_dtype dtype;
  int rank;
  int64_t dims[CV_MAX_RANK];
  int64_t count;
  const uint8_t *bytes; /* row-major elements where they stand ready: raw or external; else NULL */
  cv_wire typed;        /* the message, whose typed fields hold the elements if `bytes` is NULL */
} cv_onnx_tensor;

/* Reads the TensorProto in data[0, size). CV_INVALID for malformed bytes, wrong counts or sizes,
 * CV_UNSUPPORTED for strings, complex, 8-bit and sub-byte floats, ranks over 8; `what` names it in
 * the sentence if it has no name of its own. */
CV_NODISCARD cv_status cv_onnx_tensor_read(cv_onnx_file *file, const uint8_t *data, size_t size,
                                           const char *what, cv_onnx_tensor *out_tensor);
/* From the place that stands for it in the parsed model. */
CV_NODISCARD cv_status cv_onnx_tensor_at(cv_onnx_file *file, const ProtobufCBinaryData *place,
                                         const char *what, cv_onnx_tensor *out_tensor);
/* Writes the elements into `out` (count * size of dtype bytes, aligned). */
CV_NODISCARD cv_status cv_onnx_tensor_copy(const cv_onnx_tensor *tensor, void *out);
/* The constant: borrowed from the mapping where it is aligned, else copied once, and the mapping's
 * pages given back. */
CV_NODISCARD cv_status cv_onnx_tensor_const(cv_onnx_file *file, cv_graph *graph,
                                            const cv_onnx_tensor *tensor, cv_val *out_value);

#endif
