/* Reductions, arg-reductions and running sums. */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

/* max and min of bools are or and and. */
static cv_val extreme(cv_graph *g, cv_val x, bool max, uint32_t axes, bool keep) {
  if (cv_dt(g, x) == CV_BOOL) return cv_reduce(g, x, max ? "any" : "all", axes, keep);
  return cv_reduce(g, x, max ? "max" : "min", axes, keep);
}

static cv_val reduced(cv_graph *g, cv_onnx_reduction kind, cv_val x, uint32_t axes, bool keep) {
  cv_dtype dtype = cv_dt(g, x);
  cv_val wide = cv_widen(g, x), y = CV_POISON;
  switch (kind) {
    case CV_REDUCE_SUM: return cv_reduce(g, x, "sum", axes, keep);
    case CV_REDUCE_MEAN: return cv_mean(g, x, axes, keep);
    case CV_REDUCE_PROD: return cv_reduce(g, x, "prod", axes, keep);
    case CV_REDUCE_MAX: return extreme(g, x, true, axes, keep);
    case CV_REDUCE_MIN: return extreme(g, x, false, axes, keep);
    case CV_REDUCE_LOG_SUM_EXP: return cv_log_sum_exp(g, x, axes, keep);
    case CV_REDUCE_L1: y = cv_reduce(g, cv_abs(g, wide), "sum", axes, keep); break;
    case CV_REDUCE_L2: y = cv_sqrt(g, cv_reduce(g, cv_square(g, wide), "sum", axes, keep)); break;
    case CV_REDUCE_LOG_SUM: y = cv_log(g, cv_reduce(g, wide, "sum", axes, keep)); break;
    case CV_REDUCE_SUM_SQUARE: y = cv_reduce(g, cv_square(g, wide), "sum", axes, keep); break;
  }
  return cv_cast(g, y, dtype);
}

static bool needs_float(cv_onnx_reduction kind) {
  return kind == CV_REDUCE_L2 || kind == CV_REDUCE_LOG_SUM || kind == CV_REDUCE_LOG_SUM_EXP;
}

/* All Reduce*: axes are an input from opset 18 on (ReduceSum: from 13 on). */
void cv_import_reduce(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  cv_onnx_reduction kind = (cv_onnx_reduction)n->row->arg;
  uint32_t axes;
  int rank = cv_rank(g, x);
  bool given = cv_on_axes(n, 1, kind == CV_REDUCE_SUM ? 13 : 18, rank, &axes);
  cv_dtype dtype = cv_dt(g, x);
  if (!cv_ok(g)) return;
  bool floats = needs_float(kind) && !cv_is_float(g, x);
  if (floats) x = cv_cast(g, x, CV_F64);
  if (!given && cv_on_int(n, "noop_with_empty_axes", 0) != 0) {
    axes = 0;
  } else if (!given) {
    axes = (1u << rank) - 1;
  }
  cv_val y = reduced(g, kind, x, axes, cv_on_int(n, "keepdims", 1) != 0);
  cv_on_set(n, 0, floats ? cv_cast(g, y, dtype) : y);
}

/* ArgMax and ArgMin. */
void cv_import_arg(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int axis = cv_on_axis(n, cv_on_int(n, "axis", 0), cv_rank(g, x));
  cv_attr attrs[3] = {
      {.key = CV_ATTR_KIND, .text = n->row->arg ? "max" : "min"},
      {.key = CV_ATTR_AXIS, .i = axis},
      {.key = CV_ATTR_LAST, .i = cv_on_int(n, "select_last_index", 0) != 0},
  };
  cv_val y = cv_build(g, CV_OP_arg, &x, 1, attrs, 3);
  cv_on_set(n, 0, cv_on_int(n, "keepdims", 1) ? cv_unsqueeze(g, y, axis) : y);
}

/* CumSum and CumProd along an axis that is an input. */
void cv_import_cumulative(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int axis = cv_on_axis(n, cv_on_known_int(n, 1, "axis", 0), cv_rank(g, x));
  cv_attr attrs[4] = {
      {.key = CV_ATTR_KIND, .text = n->row->arg ? "prod" : "sum"},
      {.key = CV_ATTR_AXIS, .i = axis},
      {.key = CV_ATTR_EXCLUSIVE, .i = cv_on_int(n, "exclusive", 0) != 0},
      {.key = CV_ATTR_REVERSE, .i = cv_on_int(n, "reverse", 0) != 0},
  };
  cv_on_set(n, 0, cv_build(g, CV_OP_scan, &x, 1, attrs, 4));
}
