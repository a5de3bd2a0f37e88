/* The pruned copy of a model: only the fields of onnx.proto, each TensorProto replaced by its place
 * in the file, nesting depth checked. What protobuf-c then parses is small and shallow. */
#ifndef CV_COMPILER_ONNX_PRUNE_H
#define CV_COMPILER_ONNX_PRUNE_H

#include "base/status.h"
#include "base/str.h"

enum {
  CV_ONNX_MAX_DEPTH = 64,          /* nested messages; a subgraph costs three */
  CV_ONNX_MAX_STRUCTURE = 1 << 28, /* bytes of a model without its weights */
  CV_ONNX_PLACE_SIZE = 16
};

/* Appends the pruned copy of the ModelProto in data[0, size) to `out`. CV_INVALID for malformed
 * bytes, nesting over CV_ONNX_MAX_DEPTH or a structure over CV_ONNX_MAX_STRUCTURE. */
CV_NODISCARD cv_status cv_onnx_prune(const void *data, size_t size, cv_str *out);

/* Offset and length from the 16 bytes that stand for a tensor: false if they are not 16 bytes or
 * lie outside of a file of `file_size` bytes. */
bool cv_onnx_place(const void *bytes, size_t size, size_t file_size, size_t *out_offset,
                   size_t *out_length);

#endif
