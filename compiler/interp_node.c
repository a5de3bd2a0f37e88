/* The interpreter: one node on tensors, by its class. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/interp_internal.h"

int64_t interp_count(const cv_tensor *tensor) {
  return (int64_t)(tensor->bytes / cv_dtype_size(tensor->dtype));
}

cv_status interp_fail(const interp_call *call, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return cv_error(CV_INVALID, "%s of node \"%s\": %s", cv_op_get(call->node->op)->name,
                  call->node->source, text);
}

cv_status interp_eval(const interp_call *call, cv_expr e, int64_t *out) {
  return cv_expr_eval(call->graph->exprs, e, call->symbols, out);
}

cv_status interp_eval_list(const interp_call *call, cv_attr_key key, int64_t *out) {
  const cv_attr *attr = cv_node_attr(call->node, key);
  for (uint32_t i = 0; i < attr->count; i++) {
    cv_status status = interp_eval(call, attr->exprs[i], &out[i]);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

cv_status interp_dims(const cv_graph *graph, const cv_type *type, const int64_t *symbols,
                      int64_t *out_dims) {
  for (int i = 0; i < type->rank; i++) {
    cv_status status = cv_expr_eval(graph->exprs, type->dims[i], symbols, &out_dims[i]);
    if (status != CV_OK) return status;
    if (out_dims[i] < 0) {
      return cv_error(CV_INVALID, "dim %d of a value is %" PRId64 ", which is negative", i,
                      out_dims[i]);
    }
  }
  return CV_OK;
}

/* The operand is there and has the dtype and dims that its type says. */
static cv_status check_operand(const interp_call *call, uint32_t i) {
  const cv_type *type = cv_type_of(call->graph, call->node->ins[i]);
  const cv_tensor *in = &call->ins[i];
  int64_t dims[CV_MAX_RANK];
  if (in->absent) return interp_fail(call, "operand %u is absent", i);
  cv_status status = interp_dims(call->graph, type, call->symbols, dims);
  if (status != CV_OK) return status;
  bool same = in->dtype == type->dtype && in->rank == type->rank;
  for (int k = 0; same && k < in->rank; k++) same = in->dims[k] == dims[k];
  if (same) return CV_OK;
  cv_tensor wanted = {.dtype = type->dtype, .rank = type->rank};
  memcpy(wanted.dims, dims, sizeof dims);
  return interp_fail(call, "operand %u is %s, must be %s", i, cv_tensor_shape_text(in).text,
                     cv_tensor_shape_text(&wanted).text);
}

static cv_status dispatch(const interp_call *call) {
  switch (cv_op_get(call->node->op)->class_) {
    case CV_CLASS_MAP: return interp_map(call);
    case CV_CLASS_MOVE: return interp_move(call);
    case CV_CLASS_GATHER: return interp_gather(call);
    case CV_CLASS_SHAPE: return interp_shape(call);
    case CV_CLASS_REDUCE: return interp_reduce(call);
    case CV_CLASS_CONTRACT: return interp_contract(call);
    case CV_CLASS_WINDOW: return interp_window(call);
    case CV_CLASS_ROUTINE: return interp_routine(call);
    default: return interp_fail(call, "it can only run as part of a graph");
  }
}

cv_status cv_node_interpret(const cv_graph *graph, const cv_node *node, const cv_tensor *ins,
                            const int64_t *symbols, cv_tensor *outs) {
  interp_call call = {.graph = graph, .node = node, .ins = ins, .symbols = symbols, .outs = outs};
  cv_status status = CV_OK;
  for (uint32_t i = 0; i < node->n_outs; i++) outs[i] = (cv_tensor){0};
  for (uint32_t i = 0; i < node->n_ins; i++) CV_TRY(check_operand(&call, i));
  for (uint32_t i = 0; i < node->n_outs; i++) {
    const cv_type *type = cv_type_of(graph, node->outs[i]);
    int64_t dims[CV_MAX_RANK] = {0};
    CV_TRY(interp_dims(graph, type, symbols, dims));
    CV_TRY(cv_tensor_create(type->dtype, type->rank, dims, &outs[i]));
  }
  status = dispatch(&call);
out:
  for (uint32_t i = 0; i < node->n_outs && status != CV_OK; i++) cv_tensor_deinit(&outs[i]);
  return status;
}
