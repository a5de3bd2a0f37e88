/* ONNX TensorProto files (`input_0.pb`). Field numbers are facts of the format (onnx.proto). */
#ifndef CV_RUNTIME_TENSOR_PB_H
#define CV_RUNTIME_TENSOR_PB_H

#include <stddef.h>

#include "base/str.h"
#include "runtime/npy.h"

/* TensorProto's fields. */
enum {
  CV_PB_DIMS = 1,
  CV_PB_DATA_TYPE = 2,
  CV_PB_SEGMENT = 3,
  CV_PB_FLOAT_DATA = 4,
  CV_PB_INT32_DATA = 5,
  CV_PB_STRING_DATA = 6,
  CV_PB_INT64_DATA = 7,
  CV_PB_NAME = 8,
  CV_PB_RAW_DATA = 9,
  CV_PB_DOUBLE_DATA = 10,
  CV_PB_UINT64_DATA = 11,
  CV_PB_EXTERNAL_DATA = 13,
  CV_PB_DATA_LOCATION = 14,
};

/* Parses one TensorProto: raw data or typed fields; the name too (NULL if empty). `where` begins
 * sentences. CV_INVALID, CV_UNSUPPORTED (strings, external data, a dtype we do not have), CV_NOMEM.
 */
CV_NODISCARD cv_status cv_tensor_pb_parse(const char *where, const void *data, size_t bytes,
                                          cv_named_tensor *out_tensor);
/* Appends a TensorProto with raw data. `name` may be NULL. */
void cv_tensor_pb_print(const char *name, const cv_tensor *tensor, cv_str *out);

#endif
