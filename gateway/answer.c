/* Results on their way back to whoever asked: merged, with the streams' state kept, in order. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/gateway_internal.h"

void cv_answer_explain(const cv_ledger_batch *entry, const char *text) {
  for (uint32_t i = 0; i < entry->n_parts; i++) {
    cv_gateway_request *request = entry->parts[i].request->subject;
    if (!request->text[0]) snprintf(request->text, sizeof request->text, "%s", text);
  }
}

/* ---- results ---- */

/* The request's part of a result goes to its place in the whole. */
static cv_status merge(const cv_port *port, const cv_ledger_part *part, int64_t at,
                       const cv_tensor *result, cv_tensor *whole) {
  cv_tensor type;
  cv_status status = cv_batch_resize(port, result, part->request->items, &type);
  if (status != CV_OK) return status;
  if (!whole->owned) {
    status = cv_tensor_create(type.dtype, type.rank, type.dims, whole);
    if (status != CV_OK) return status;
  }
  if (memcmp(type.dims, whole->dims, sizeof *type.dims * type.rank) != 0)
    return cv_error(CV_INVALID, "its micro-batches gave %s and %s, which do not join",
                    cv_tensor_shape_text(whole).text, cv_tensor_shape_text(&type).text);
  cv_batch_copy(port, result, at, whole, part->first, part->count);
  return CV_OK;
}

static cv_status place(cv_gateway *gateway, const cv_ledger_batch *entry, uint32_t output,
                       const cv_tensor *result) {
  const cv_port *port = &gateway->program->outputs[output];
  bool whole = !gateway->split || result->absent;
  if (!whole && port->batch_axis >= 0 &&
      result->dims[port->batch_axis] != port->batch_factor * entry->items)
    return cv_error(CV_INVALID, "%s is not a result for %" PRId64 " items",
                    cv_tensor_shape_text(result).text, entry->items);
  int64_t at = 0;
  for (uint32_t i = 0; i < entry->n_parts; i++) {
    cv_gateway_request *request = entry->parts[i].request->subject;
    cv_tensor *to = &request->outputs[output];
    cv_status status = CV_OK;
    if (result->absent) {
      *to = *result;
    } else if (whole) {
      cv_tensor_deinit(to);
      status = cv_tensor_copy(result, to);
    } else {
      status = merge(port, &entry->parts[i], at, result, to);
    }
    if (status != CV_OK) return status;
    at += entry->parts[i].count;
  }
  return CV_OK;
}

cv_status cv_answer_place(cv_gateway *gateway, const cv_ledger_batch *entry, uint32_t value,
                          const cv_tensor *result) {
  const cv_program *p = gateway->program;
  for (uint32_t o = 0; o < p->n_outputs; o++) {
    if (p->outputs[o].value != value) continue;
    cv_status status = place(gateway, entry, o, result);
    if (status != CV_OK) return cv_error_context(status, "output %s", p->values[value].name);
  }
  return CV_OK;
}

/* Outputs that are constants never travel. */
static cv_status place_consts(const cv_gateway *gateway, cv_gateway_request *request) {
  const cv_program *p = gateway->program;
  for (uint32_t o = 0; o < p->n_outputs; o++) {
    const cv_value *value = &p->values[p->outputs[o].value];
    if (value->kind != CV_VALUE_CONST) continue;
    const cv_const *from = &p->consts[value->source];
    cv_tensor view = {.dtype = from->dtype,
                      .rank = from->rank,
                      .data = (void *)(uintptr_t)from->data,
                      .bytes = from->bytes};
    memcpy(view.dims, from->dims, sizeof view.dims);
    cv_status status = cv_tensor_copy(&view, &request->outputs[o]);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

/* ---- state ---- */

static cv_stream_state *find_stream(const cv_gateway *gateway, uint64_t stream) {
  for (size_t i = 0; i < gateway->streams.len; i++)
    if (gateway->streams.data[i].stream == stream) return &gateway->streams.data[i];
  return NULL;
}

void cv_answer_free_state(cv_gateway *gateway, cv_stream_state *state) {
  for (uint32_t i = 0; state->values && i < gateway->program->n_states; i++)
    cv_tensor_deinit(&state->values[i]);
  cv_free(state->values);
  *state = (cv_stream_state){0};
}

void cv_answer_carry(cv_gateway *gateway, const cv_ledger_request *ledger_request) {
  cv_gateway_request *request = ledger_request->subject;
  const cv_program *p = gateway->program;
  const cv_stream_state *state = find_stream(gateway, ledger_request->stream);
  if (!state || !state->valid || request->reset) return;
  for (uint32_t i = 0; i < p->n_states; i++) {
    cv_tensor *input = &request->inputs[p->states[i].input];
    cv_tensor_deinit(input);
    *input = state->values[i];
    input->owned = false;
  }
}

/* The same memory serves again where the type stays. */
static cv_status keep(const cv_tensor *from, cv_tensor *to) {
  if (to->owned && to->bytes == from->bytes && to->rank == from->rank &&
      memcmp(to->dims, from->dims, sizeof *to->dims * to->rank) == 0) {
    if (from->bytes) memcpy(to->data, from->data, from->bytes);
    return CV_OK;
  }
  cv_tensor_deinit(to);
  return cv_tensor_copy(from, to);
}

static cv_status keep_state(cv_gateway *gateway, uint64_t stream,
                            const cv_gateway_request *request) {
  const cv_program *p = gateway->program;
  if (p->n_states == 0) return CV_OK;
  cv_stream_state *state = find_stream(gateway, stream);
  if (!state) {
    cv_tensor *values = cv_alloc(p->n_states, sizeof *values);
    if (!values || !cv_vec_push(&gateway->streams, (cv_stream_state){stream, false, values})) {
      cv_free(values);
      return cv_error_nomem(p->n_states * sizeof *values);
    }
    state = &gateway->streams.data[gateway->streams.len - 1];
  }
  cv_status status = CV_OK;
  state->valid = false;
  for (uint32_t i = 0; i < p->n_states && status == CV_OK; i++)
    status = keep(&request->outputs[p->states[i].output], &state->values[i]);
  state->valid = status == CV_OK;
  return status;
}

static void forget(cv_gateway *gateway, uint64_t stream) {
  cv_stream_state *state = find_stream(gateway, stream);
  if (!state) return;
  cv_answer_free_state(gateway, state);
  *state = gateway->streams.data[--gateway->streams.len];
}

/* Its requests borrow the state, and their answers keep it: it goes behind the last of them. */
void cv_gateway_end_stream(cv_gateway *gateway, uint64_t stream) {
  cv_gateway_request *last = NULL;
  for (uint32_t i = 0; i < gateway->max_requests; i++) {
    const cv_ledger_request *request = cv_ledger_at(gateway->ledger, i);
    if (request && request->stream == stream) last = request->subject;
  }
  if (last)
    last->ends = true;
  else
    forget(gateway, stream);
}

/* ---- answers ---- */

void cv_answer_free_request(cv_gateway *gateway, cv_gateway_request *request) {
  const cv_program *p = gateway->program;
  for (uint32_t i = 0; i < p->n_inputs; i++) cv_tensor_deinit(&request->inputs[i]);
  for (uint32_t i = 0; i < p->n_outputs; i++) cv_tensor_deinit(&request->outputs[i]);
  request->text[0] = '\0';
}

size_t cv_answer_deliver(cv_gateway *gateway) {
  size_t count = 0;
  cv_ledger_request *due;
  while ((due = cv_ledger_next_answer(gateway->ledger)) != NULL) {
    cv_gateway_request *request = due->subject;
    cv_status status = due->status;
    if (status == CV_OK) {
      status = place_consts(gateway, request);
      if (status == CV_OK) status = keep_state(gateway, due->stream, request);
      if (status != CV_OK) snprintf(request->text, sizeof request->text, "%s", cv_error_text());
    } else if (due->deaths == CV_LEDGER_GIVEN_UP && !request->text[0]) {
      snprintf(request->text, sizeof request->text,
               "a request that ended its worker three times: it is given up");
    }
    cv_answer answer = {.id = due->id,
                        .stream = due->stream,
                        .context = request->context,
                        .status = status,
                        .text = status == CV_OK ? "" : request->text,
                        .outputs = status == CV_OK ? request->outputs : NULL,
                        .latency_ns = cv_clock_ns() - request->submitted_ns};
    if (gateway->events.on_answer) gateway->events.on_answer(gateway->events.arg, &answer);
    cv_answer_free_request(gateway, request);
    if (request->ends) forget(gateway, due->stream);
    cv_ledger_answered(gateway->ledger, due);
    count++;
  }
  return count;
}
