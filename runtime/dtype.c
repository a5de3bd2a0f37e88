#include "runtime/dtype.h"

#include <string.h>

typedef struct {
  const char *name, *numpy;
  size_t bytes;
  int onnx;
  char kind;
} dtype_info;

static const dtype_info table[CV_DTYPE_COUNT] = {
#define X(id, name, bytes, kind, onnx, numpy) {name, numpy, bytes, onnx, kind},
    CV_DTYPE_MAP(X)
#undef X
};

const char *cv_dtype_name(cv_dtype dtype) {
  return (unsigned)dtype < CV_DTYPE_COUNT ? table[dtype].name : "?";
}

size_t cv_dtype_size(cv_dtype dtype) {
  return (unsigned)dtype < CV_DTYPE_COUNT ? table[dtype].bytes : 0;
}

char cv_dtype_kind(cv_dtype dtype) {
  return (unsigned)dtype < CV_DTYPE_COUNT ? table[dtype].kind : '?';
}

int cv_dtype_onnx(cv_dtype dtype) {
  return (unsigned)dtype < CV_DTYPE_COUNT ? table[dtype].onnx : 0;
}

const char *cv_dtype_numpy(cv_dtype dtype) {
  return (unsigned)dtype < CV_DTYPE_COUNT ? table[dtype].numpy : "?";
}

bool cv_dtype_from_name(const char *name, cv_dtype *out_dtype) {
  for (int i = 0; i < CV_DTYPE_COUNT; i++) {
    if (strcmp(table[i].name, name) == 0) {
      *out_dtype = (cv_dtype)i;
      return true;
    }
  }
  return false;
}

bool cv_dtype_from_onnx(int number, cv_dtype *out_dtype) {
  for (int i = 0; i < CV_DTYPE_COUNT; i++) {
    if (table[i].onnx == number) {
      *out_dtype = (cv_dtype)i;
      return true;
    }
  }
  return false;
}

bool cv_dtype_from_numpy(const char *descr, cv_dtype *out_dtype) {
  for (int i = 0; i < CV_DTYPE_COUNT; i++) {
    if (strcmp(table[i].numpy, descr) == 0) {
      *out_dtype = (cv_dtype)i;
      return true;
    }
  }
  return false;
}
