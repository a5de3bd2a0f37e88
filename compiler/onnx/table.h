/* The import table: every ONNX op that is taken, once. */
#ifndef CV_COMPILER_ONNX_TABLE_H
#define CV_COMPILER_ONNX_TABLE_H

#include "compiler/onnx/node.h"

struct cv_onnx_row {
  const char *op, *domain;
  int64_t first, last; /* opset versions the row is for; last 0: to the newest */
  void (*build)(cv_on *n);
  int arg;        /* for the builder: a core op, or what its file says */
  bool composite; /* becomes a named region */
};

/* What a row's argument says to its builder. */
typedef enum {
  CV_REDUCE_SUM,
  CV_REDUCE_MEAN,
  CV_REDUCE_PROD,
  CV_REDUCE_MAX,
  CV_REDUCE_MIN,
  CV_REDUCE_L1,
  CV_REDUCE_L2,
  CV_REDUCE_LOG_SUM,
  CV_REDUCE_LOG_SUM_EXP,
  CV_REDUCE_SUM_SQUARE
} cv_onnx_reduction;

typedef enum { CV_POOL_AVERAGE, CV_POOL_MAX, CV_POOL_LP } cv_onnx_pool;
typedef enum { CV_WINDOW_HANN, CV_WINDOW_HAMMING, CV_WINDOW_BLACKMAN } cv_onnx_window;
typedef enum { CV_CELL_RNN, CV_CELL_GRU, CV_CELL_LSTM } cv_onnx_cell;

/* The newest opset of the default domain that the rows were checked against. */
enum { CV_ONNX_NEWEST_OPSET = 28, CV_ONNX_OLDEST_OPSET = 1 };

const cv_onnx_row *cv_onnx_rows(uint32_t *out_n);
/* NULL if no row takes the op at this version. */
const cv_onnx_row *cv_onnx_find(const char *op, const char *domain, int64_t version);

#define X(op, domain, first, last, builder, arg, composite) void cv_import_##builder(cv_on *n);
#include "compiler/onnx/ops_table.def"
#undef X

#endif
