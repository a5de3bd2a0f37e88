/* Data types of tensors. */
#ifndef CV_RUNTIME_DTYPE_H
#define CV_RUNTIME_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

/* name, bytes, kind (b bool, i signed, u unsigned, f float), number of TensorProto.DataType,
 * numpy's descr */
#define CV_DTYPE_MAP(X)              \
  X(F32, "f32", 4, 'f', 1, "<f4")    \
  X(F64, "f64", 8, 'f', 11, "<f8")   \
  X(F16, "f16", 2, 'f', 10, "<f2")   \
  X(BF16, "bf16", 2, 'f', 16, "<V2") \
  X(I8, "i8", 1, 'i', 3, "|i1")      \
  X(I16, "i16", 2, 'i', 5, "<i2")    \
  X(I32, "i32", 4, 'i', 6, "<i4")    \
  X(I64, "i64", 8, 'i', 7, "<i8")    \
  X(U8, "u8", 1, 'u', 2, "|u1")      \
  X(U16, "u16", 2, 'u', 4, "<u2")    \
  X(U32, "u32", 4, 'u', 12, "<u4")   \
  X(U64, "u64", 8, 'u', 13, "<u8")   \
  X(BOOL, "bool", 1, 'b', 9, "|b1")

typedef enum {
#define X(id, name, bytes, kind, onnx, numpy) CV_##id,
  CV_DTYPE_MAP(X)
#undef X
      CV_DTYPE_COUNT
} cv_dtype;

enum { CV_MAX_RANK = 8 };

const char *cv_dtype_name(cv_dtype dtype);
size_t cv_dtype_size(cv_dtype dtype);
/* 'b', 'i', 'u' or 'f'. */
char cv_dtype_kind(cv_dtype dtype);
int cv_dtype_onnx(cv_dtype dtype);
const char *cv_dtype_numpy(cv_dtype dtype);
/* From a name, an ONNX number, or a numpy descr; false when there is none. */
bool cv_dtype_from_name(const char *name, cv_dtype *out_dtype);
bool cv_dtype_from_onnx(int number, cv_dtype *out_dtype);
bool cv_dtype_from_numpy(const char *descr, cv_dtype *out_dtype);

#endif
