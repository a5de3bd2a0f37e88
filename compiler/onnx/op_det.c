/* Det: elimination with the largest pivot of each column, unrolled over the columns. */
#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

enum { MAX_SIZE = 64 };

/* One column of a [.., m, m]: multiplies *det [.., 1, 1] by its pivot, and returns the rest of the
 * matrix, [.., m - 1, m - 1]. Row 0 takes the place of the pivot's row, which turns the sign. */
static cv_val eliminate(cv_graph *g, cv_val a, int64_t m, cv_val *det) {
  int rank = cv_rank(g, a), row = rank - 2, column = rank - 1;
  cv_val first = cv_slice_const(g, a, column, 0, 1), size = cv_abs(g, first);
  cv_attr attrs[3] = {
      {.key = CV_ATTR_AXIS, .i = row}, {.key = CV_ATTR_LAST}, {.key = CV_ATTR_KIND, .text = "max"}};
  cv_val at = cv_unsqueeze(g, cv_build(g, CV_OP_arg, &size, 1, attrs, 3), row);
  cv_val here = cv_eq(g, cv_index_along(g, e_const(g, m), row, rank), at);
  cv_val zero = cv_num(g, a, 0), one = cv_num(g, a, 1);
  cv_val chosen = cv_reduce(g, cv_select(g, here, a, zero), "sum", 1u << row, true);
  cv_val pivot = cv_slice_const(g, chosen, column, 0, 1);
  cv_val turned = cv_select(g, cv_eq(g, at, cv_graph_i64(g, 0)), pivot, cv_neg(g, pivot));
  *det = *det == CV_ABSENT ? turned : cv_mul(g, *det, turned);
  cv_val rest = cv_select(g, here, cv_slice_const(g, a, row, 0, 1), a);
  rest = cv_slice_const(g, rest, row, 1, m - 1);
  cv_val below = cv_slice_const(g, rest, column, 0, 1);
  cv_val factor = cv_div(g, below, cv_select(g, cv_eq(g, pivot, zero), one, pivot));
  cv_val taken = cv_mul(g, factor, cv_slice_const(g, chosen, column, 1, m - 1));
  return cv_sub(g, cv_slice_const(g, rest, column, 1, m - 1), taken);
}

void cv_import_det(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), det = CV_ABSENT, a = cv_widen(g, x);
  int rank = cv_rank(g, x);
  int64_t m = 0, columns = 0;
  if (rank < 2 || !cv_dim_known(g, x, rank - 2, &m) || !cv_dim_known(g, x, rank - 1, &columns) ||
      m != columns || m < 1 || m > MAX_SIZE) {
    cv_on_fail(n, rank < 2 || m != columns ? CV_INVALID : CV_UNSUPPORTED,
               "its input is %s: square matrices of a known size, 1 to %d, are taken",
               cv_type_text(g, cv_ty(g, x)), MAX_SIZE);
    return;
  }
  for (; m > 1 && cv_ok(g); m--) a = eliminate(g, a, m, &det);
  det = det == CV_ABSENT ? a : cv_mul(g, det, a);
  cv_on_set(n, 0, cv_cast(g, cv_squeeze(g, det, 3u << (rank - 2)), cv_dt(g, x)));
}
