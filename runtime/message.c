#include "runtime/message.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

cv_status cv_message_init(cv_message *message, const cv_edge *edge) {
  *message = (cv_message){0};
  message->header.tensor_count = edge->n_values;
  message->header.symbol_count = edge->n_symbols;
  message->header.tensors = cv_alloc(edge->n_values + 1, sizeof *message->header.tensors);
  message->header.symbols = cv_alloc(edge->n_symbols + 1, sizeof *message->header.symbols);
  message->segments = cv_alloc(edge->n_values + 1, sizeof *message->segments);
  if (message->header.tensors && message->header.symbols && message->segments) return CV_OK;
  cv_message_deinit(message);
  return cv_error_nomem(edge->n_values * sizeof *message->header.tensors);
}

void cv_message_deinit(cv_message *message) {
  cv_free(message->header.tensors);
  cv_free(message->header.symbols);
  cv_free(message->segments);
  *message = (cv_message){0};
}

void cv_message_set(cv_message *message, uint32_t i, const cv_tensor *tensor) {
  cv_tensor_header *to = &message->header.tensors[i];
  *to = (cv_tensor_header){
      .dtype = (uint8_t)tensor->dtype, .rank = tensor->rank, .absent = tensor->absent};
  memcpy(to->dims, tensor->dims, sizeof *to->dims * tensor->rank);
  to->bytes = tensor->absent ? 0 : tensor->bytes;
  message->segments[i].data = to->bytes ? tensor->data : NULL;
}

void cv_message_clear(cv_message *message, const cv_program *program, const cv_edge *edge) {
  for (uint32_t i = 0; i < edge->n_values; i++) {
    const cv_value *value = &program->values[edge->values[i]];
    cv_message_set(message, i,
                   &(cv_tensor){.dtype = value->dtype, .rank = value->rank, .absent = true});
  }
  for (uint32_t i = 0; i < edge->n_symbols; i++) message->header.symbols[i] = CV_UNBOUND;
}

cv_status cv_message_layout(cv_message *message) {
  return cv_header_layout(&message->header, &message->bytes);
}

static cv_status check_tensor(const cv_value *value, const cv_tensor_header *tensor, cv_slot slot) {
  if (tensor->dtype != (uint8_t)value->dtype || tensor->rank != value->rank)
    return cv_error(CV_CORRUPT, "%s came as type %u of rank %u, it is %s of rank %u", value->name,
                    tensor->dtype, tensor->rank, cv_dtype_name(value->dtype), value->rank);
  if (tensor->absent) return CV_OK; /* the header's reader has seen that it has no bytes */
  int64_t count;
  uint64_t bytes;
  if (!cv_dims_count(tensor->rank, tensor->dims, &count) ||
      __builtin_mul_overflow((uint64_t)count, cv_dtype_size(value->dtype), &bytes) ||
      bytes != tensor->bytes || bytes > slot.bytes || tensor->offset > slot.bytes - bytes)
    return cv_error(CV_CORRUPT, "%s came with %" PRIu64 " bytes, which do not fit its dims",
                    value->name, tensor->bytes);
  return CV_OK;
}

cv_status cv_message_check(const cv_program *program, const cv_edge *edge, const cv_header *header,
                           cv_slot slot) {
  if (header->tensor_count != edge->n_values || header->symbol_count != edge->n_symbols)
    return cv_error(CV_CORRUPT,
                    "a message of %u tensors and %u symbols came, the plan has %u and %u",
                    header->tensor_count, header->symbol_count, edge->n_values, edge->n_symbols);
  for (uint32_t i = 0; i < edge->n_values; i++) {
    cv_status status = check_tensor(&program->values[edge->values[i]], &header->tensors[i], slot);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

cv_tensor cv_message_tensor(const cv_header *header, cv_slot slot, uint32_t i) {
  const cv_tensor_header *from = &header->tensors[i];
  cv_tensor tensor = {.dtype = (cv_dtype)from->dtype,
                      .rank = from->rank,
                      .absent = from->absent,
                      .bytes = from->bytes};
  memcpy(tensor.dims, from->dims, sizeof *tensor.dims * from->rank);
  if (!from->absent) tensor.data = slot.data + from->offset;
  return tensor;
}

cv_status cv_message_describe(const cv_program *program, uint32_t value, const int64_t *symbols,
                              cv_tensor *out_tensor) {
  const cv_value *about = &program->values[value];
  cv_tensor tensor = {.dtype = about->dtype, .rank = about->rank};
  *out_tensor = tensor;
  int64_t present = 1, count;
  cv_status status = CV_OK;
  if (about->guard != CV_EXPR_NONE)
    status = cv_expr_eval(program->exprs, about->guard, symbols, &present);
  tensor.absent = present == 0;
  for (int d = 0; status == CV_OK && !tensor.absent && d < about->rank; d++)
    status = cv_expr_eval(program->exprs, about->dims[d], symbols, &tensor.dims[d]);
  if (status != CV_OK) return cv_error_context(status, "%s", about->name);
  if (!tensor.absent &&
      (!cv_dims_count(tensor.rank, tensor.dims, &count) ||
       __builtin_mul_overflow((uint64_t)count, cv_dtype_size(tensor.dtype), &tensor.bytes)))
    return cv_error(CV_INVALID, "%s would have the shape %s: the inputs' shapes do not fit",
                    about->name, cv_tensor_shape_text(&tensor).text);
  *out_tensor = tensor;
  return CV_OK;
}
