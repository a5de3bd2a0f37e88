/* Gathers and scatters. */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

void cv_import_gather(cv_on *n) {
  cv_val x = cv_on_in(n, 0);
  int axis = cv_on_axis(n, cv_on_int(n, "axis", 0), cv_rank(n->g, x));
  cv_on_set(n, 0, cv_gather(n->g, x, cv_on_in(n, 1), axis));
}

void cv_import_gather_elements(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int axis = cv_on_axis(n, cv_on_int(n, "axis", 0), cv_rank(g, x));
  cv_on_set(n, 0, cv_gather_nd(g, x, cv_element_indices(g, cv_on_in(n, 1), axis), 0));
}

void cv_import_gather_nd(cv_on *n) {
  int batch = (int)cv_on_int(n, "batch_dims", 0);
  cv_on_set(n, 0, cv_gather_nd(n->g, cv_on_in(n, 0), cv_on_in(n, 1), batch));
}

/* The core op's name of a reduction attribute, or NULL. */
static const char *scatter_kind(cv_on *n) {
  static const struct {
    const char *onnx, *core;
  } kinds[] = {{"none", "set"}, {"add", "add"}, {"mul", "mul"}, {"max", "max"}, {"min", "min"}};
  const char *text = cv_on_text(n, "reduction", "none");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(text, kinds[i].onnx) == 0) return kinds[i].core;
  }
  cv_on_fail(n, CV_UNSUPPORTED, "reduction \"%s\"", text);
  return NULL;
}

void cv_import_scatter_elements(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), idx = cv_on_in(n, 1);
  const char *kind = scatter_kind(n);
  int axis = cv_on_axis(n, cv_on_int(n, "axis", 0), cv_rank(g, x));
  if (!kind) return;
  cv_on_set(n, 0, cv_scatter(g, x, cv_element_indices(g, idx, axis), cv_on_in(n, 2), kind));
}

void cv_import_scatter_nd(cv_on *n) {
  const char *kind = scatter_kind(n);
  if (!kind) return;
  cv_on_set(n, 0, cv_scatter(n->g, cv_on_in(n, 0), cv_on_in(n, 1), cv_on_in(n, 2), kind));
}

/* A cache [.., max, d] with new rows from `write_indices` [batch] on along `axis`, modulo max if
 * mode is circular. */
void cv_import_tensor_scatter(cv_on *n) {
  cv_graph *g = n->g;
  cv_val cache = cv_on_in(n, 0), update = cv_on_in(n, 1);
  int rank = cv_rank(g, cache), axis = cv_on_axis(n, cv_on_int(n, "axis", -2), rank);
  bool circular = strcmp(cv_on_text(n, "mode", "linear"), "circular") == 0;
  const cv_expr *dims = cv_dims_of(g, update);
  cv_val at = cv_iota(g, CV_I64, dims, rank, axis);
  if (cv_on_has(n, 2)) at = cv_add(g, at, cv_along(g, cv_on_in(n, 2), 0, rank));
  if (circular) {
    at = cv_binary_bc(g, CV_OP_rem, at, cv_scalar_of(g, cv_dim(g, cache, axis), CV_I64));
  }
  cv_on_set(n, 0, cv_scatter(g, cache, cv_element_indices(g, at, axis), update, "set"));
}

/* Keeps the elements on and above (or below) a diagonal. */
void cv_import_trilu(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int rank = cv_rank(g, x);
  if (rank < 2) {
    if (cv_ok(g)) cv_on_fail(n, CV_INVALID, "its input must have at least 2 dims");
    return;
  }
  cv_val k = cv_on_has(n, 1) ? cv_as_scalar(g, cv_on_in(n, 1)) : cv_graph_i64(g, 0);
  cv_val row = cv_index_along(g, cv_dim(g, x, rank - 2), 0, 2);
  cv_val column = cv_index_along(g, cv_dim(g, x, rank - 1), 1, 2), edge = cv_add(g, row, k);
  bool upper = cv_on_int(n, "upper", 1) != 0;
  cv_val keep = upper ? cv_le(g, edge, column) : cv_le(g, column, edge);
  cv_on_set(n, 0, cv_select(g, keep, x, cv_num(g, x, 0)));
}

/* values[1] where the index is, else values[0]; the new axis has `depth` places. */
void cv_import_one_hot(cv_on *n) {
  cv_graph *g = n->g;
  cv_val idx = cv_on_in(n, 0), values = cv_on_in(n, 2);
  uint32_t count;
  cv_val depth_value = cv_on_in(n, 1);
  if (cv_is_float(g, depth_value)) depth_value = cv_cast(g, depth_value, CV_I64);
  const cv_expr *depth = cv_on_exprs_of(n, depth_value, 0, CV_ONNX_MAX_DIM, &count);
  int rank = cv_rank(g, idx) + 1, axis = cv_on_axis(n, cv_on_int(n, "axis", -1), rank);
  if (!depth || count != 1) return;
  cv_val at = cv_unsqueeze(g, cv_cast(g, idx, CV_I64), axis);
  cv_val size = cv_scalar_of(g, depth[0], CV_I64);
  at = cv_select(g, cv_lt(g, at, cv_graph_i64(g, 0)), cv_add(g, at, size), at);
  cv_val hot = cv_eq(g, cv_index_along(g, depth[0], axis, rank), at);
  cv_val off = cv_as_scalar(g, cv_slice_const(g, values, 0, 0, 1));
  cv_val on = cv_as_scalar(g, cv_slice_const(g, values, 0, 1, 1));
  cv_on_set(n, 0, cv_select(g, hot, on, off));
}

/* Each row's own part reversed: time axis up to the row's length. */
void cv_import_reverse_sequence(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int rank = cv_rank(g, x);
  int batch = cv_on_axis(n, cv_on_int(n, "batch_axis", 1), rank);
  int time = cv_on_axis(n, cv_on_int(n, "time_axis", 0), rank);
  cv_val at = cv_index_along(g, cv_dim(g, x, time), time, rank);
  cv_val length = cv_along(g, cv_cast(g, cv_on_in(n, 1), CV_I64), batch, rank);
  cv_val turned = cv_sub(g, cv_sub(g, length, cv_graph_i64(g, 1)), at);
  at = cv_select(g, cv_lt(g, at, length), turned, at);
  at = cv_broadcast_to(g, at, cv_dims_of(g, x), rank);
  cv_on_set(n, 0, cv_gather_nd(g, x, cv_element_indices(g, at, time), 0));
}
