/* One micro-batch in a stage: its inputs, the places of its results, the kernel run, its messages.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/executor_internal.h"

/* ---- failure ---- */

/* The micro-batch goes on without bytes; who waits for it hears why. */
static void batch_fail(cv_stage *stage, cv_batch *batch, cv_status status, const char *text) {
  batch->flags = (batch->flags & ~(uint32_t)CV_HEADER_USER) |
                 cv_message_failure(status, stage->index < 0 ? 0 : stage->index);
  cv_log_warn("%s: micro-batch %" PRIu64 ": %s", stage->name, batch->seq, text);
  if (stage->events.on_error)
    stage->events.on_error(stage->events.arg, stage, batch->seq, status, text);
}

/* ---- begin ---- */

static cv_status take_symbols(const cv_stage *stage, const cv_link *link, const cv_header *header,
                              int64_t *symbols) {
  for (uint32_t i = 0; i < header->symbol_count; i++) {
    cv_sym sym = link->edge->symbols[i];
    int64_t value = header->symbols[i], lo, hi;
    if (value == CV_UNBOUND) continue;
    cv_symbol_bounds(stage->program->exprs, sym, &lo, &hi);
    if (value < lo || value > hi)
      return cv_error(CV_CORRUPT,
                      "%s came as %" PRId64 " from %s, its bounds are %" PRId64 " and %" PRId64,
                      cv_symbol_name(stage->program->exprs, sym), value, link->peer, lo, hi);
    symbols[sym] = value;
  }
  return CV_OK;
}

void cv_job_begin(cv_job *job, uint64_t seq) {
  cv_stage *stage = job->stage;
  cv_batch *batch = &stage->batches[seq % stage->out_buffers];
  job->batch = batch;
  batch->seq = seq;
  batch->flags = 0;
  for (uint32_t s = 0; s < stage->n_symbols; s++) batch->symbols[s] = CV_UNBOUND;
  memset(batch->outs, 0, stage->n_outs * sizeof *batch->outs);
  memset(job->planned, 0, stage->n_outs * sizeof *job->planned);
  memset(job->is_placed, 0, stage->n_outs * sizeof *job->is_placed);
  for (int e = 0; e < stage->n_in; e++) {
    cv_link *link = &stage->in[e];
    const cv_header *header = link->headers[seq % link->edge->slots];
    cv_slot slot = link->slots[seq % link->edge->slots];
    if (cv_message_status(batch->flags) == CV_OK) batch->flags = header->flags;
    batch->incarnation = header->incarnation;
    batch->session = header->session;
    batch->position = header->position;
    for (uint32_t i = 0; i < link->edge->n_values; i++)
      job->ins[link->ports[i]] = cv_message_tensor(header, slot, i);
    if (cv_message_status(batch->flags) != CV_OK) continue;
    cv_status status = take_symbols(stage, link, header, batch->symbols);
    if (status != CV_OK) batch_fail(stage, batch, status, cv_error_text());
  }
  for (int e = 0; e < stage->n_out; e++) {
    cv_link *link = &stage->out[e];
    job->acquired[e] = false;
    /* what must be kept until a slot is there lies in the batch's own memory */
    for (uint32_t i = 0; !link->direct && i < link->edge->n_values; i++)
      job->is_placed[link->ports[i]] = true;
  }
}

/* The slot of one direct edge, and which results are computed into it. */
static cv_status acquire(cv_job *job, cv_link *link) {
  const cv_stage *stage = job->stage;
  cv_slot slot;
  for (uint32_t i = 0; i < link->edge->n_values; i++) {
    cv_tensor tensor;
    cv_status status =
        cv_message_describe(stage->program, link->edge->values[i], job->batch->symbols, &tensor);
    if (status != CV_OK) return status;
    cv_message_set(&link->message, i, &tensor);
  }
  cv_status status = cv_message_layout(&link->message);
  if (status != CV_OK) return status;
  status = cv_channel_acquire(link->channel, job->batch->seq, link->message.bytes, &slot);
  if (status != CV_OK) return status;
  job->acquired[link->index] = true;
  for (uint32_t i = 0; i < link->edge->n_values; i++) {
    uint32_t k = link->ports[i];
    if (job->is_placed[k]) continue;
    job->planned[k] = cv_message_tensor(&link->message.header, slot, i);
    job->is_placed[k] = true;
  }
  return CV_OK;
}

cv_status cv_job_acquire(cv_job *job) {
  cv_stage *stage = job->stage;
  cv_batch *batch = job->batch;
  for (int e = 0; e < stage->n_out; e++) {
    cv_link *link = &stage->out[e];
    if (cv_message_status(batch->flags) != CV_OK) return CV_OK; /* nothing will be computed */
    if (!link->direct || job->acquired[e]) continue;
    cv_status status = acquire(job, link);
    if (status == CV_AGAIN) return status;
    if (status == CV_OK) continue;
    if (status == CV_PEER_LOST || status == CV_CANCELED) return status;
    batch_fail(stage, batch, status, cv_error_text());
  }
  return CV_OK;
}

/* ---- the run: compute thread ---- */

static cv_status place(void *context, uint32_t index, cv_tensor *tensor) {
  cv_job *job = context;
  const cv_stage *stage = job->stage;
  const cv_tensor *planned = &job->planned[index];
  tensor->owned = false;
  if (planned->data) {
    if (tensor->bytes != planned->bytes)
      return cv_error(CV_INTERNAL, "%s has %" PRIu64 " bytes, its shape said %" PRIu64,
                      stage->program->values[stage->outs[index]].name, tensor->bytes,
                      planned->bytes);
    tensor->data = planned->data;
    return CV_OK;
  }
  cv_batch *batch = job->batch;
  if (!batch->memory[index] || batch->memory_bytes[index] < tensor->bytes) {
    cv_free(batch->memory[index]);
    batch->memory_bytes[index] = 0;
    uint64_t bytes = (tensor->bytes + CV_SLOT_ALIGN) / CV_SLOT_ALIGN * CV_SLOT_ALIGN;
    batch->memory[index] = cv_alloc_aligned(CV_SLOT_ALIGN, bytes);
    if (!batch->memory[index]) return cv_error_nomem(bytes);
    batch->memory_bytes[index] = bytes;
  }
  tensor->data = batch->memory[index];
  return CV_OK;
}

/* What lies in a slot must be there as planned. */
static cv_status check_presence(const cv_job *job) {
  const cv_stage *stage = job->stage;
  for (uint32_t k = 0; k < stage->n_outs; k++)
    if (job->planned[k].data && job->batch->outs[k].absent)
      return cv_error(CV_INTERNAL, "%s is absent, its guard said otherwise",
                      stage->program->values[stage->outs[k]].name);
  return CV_OK;
}

static void trace_run(const cv_job *job, cv_trace *trace) {
  const cv_stage *stage = job->stage;
  cv_trace_event event = {.begin_ns = job->begin_ns,
                          .end_ns = job->end_ns,
                          .seq = job->batch->seq,
                          .epoch_number = stage->epoch.number,
                          .stage = stage->index,
                          .kind = CV_TRACE_COMPUTE};
  cv_trace_put(trace, &event);
  event.kind = CV_TRACE_STEP;
  for (uint32_t s = stage->span.first; s <= stage->span.last; s++) {
    const cv_step_time *time = &job->times[s - stage->span.first];
    event.begin_ns = time->begin_ns;
    event.end_ns = time->end_ns;
    event.detail = s;
    if (time->end_ns) cv_trace_put(trace, &event);
  }
}

void cv_job_run(cv_job *job, cv_trace *trace) {
  cv_stage *stage = job->stage;
  cv_run run = {.symbols = job->batch->symbols,
                .ins = job->ins,
                .outs = job->batch->outs,
                .place = place,
                .context = job,
                .times = trace ? job->times : NULL};
  if (run.times)
    memset(run.times, 0, (stage->span.last - stage->span.first + 1) * sizeof *run.times);
  job->begin_ns = cv_clock_ns();
  job->status = cv_slice_run(stage->slice, &run);
  if (job->status == CV_OK) job->status = check_presence(job);
  job->end_ns = cv_clock_ns();
  if (job->status != CV_OK) snprintf(job->text, sizeof job->text, "%s", cv_error_text());
  cv_slice_memory_used(stage->slice, &job->memory);
  if (run.times) trace_run(job, trace);
}

/* ---- send ---- */

static cv_status fill(cv_stage *stage, cv_link *link, const cv_batch *batch) {
  cv_header *header = &link->message.header;
  header->incarnation = batch->incarnation;
  header->seq = batch->seq;
  header->session = batch->session;
  header->position = batch->position;
  header->flags = batch->flags;
  if (cv_message_status(batch->flags) != CV_OK) {
    cv_message_clear(&link->message, stage->program, link->edge);
  } else {
    for (uint32_t i = 0; i < link->edge->n_values; i++)
      cv_message_set(&link->message, i, &batch->outs[link->ports[i]]);
    for (uint32_t i = 0; i < link->edge->n_symbols; i++)
      header->symbols[i] = batch->symbols[link->edge->symbols[i]];
  }
  return cv_message_layout(&link->message);
}

cv_status cv_batch_send(cv_stage *stage, cv_link *link, cv_batch *batch) {
  cv_slot slot;
  cv_status status = fill(stage, link, batch);
  if (status == CV_OK)
    status = cv_channel_acquire(link->channel, batch->seq, link->message.bytes, &slot);
  if (status == CV_INVALID && cv_message_status(batch->flags) == CV_OK) {
    batch_fail(stage, batch, status, cv_error_text());
    status = fill(stage, link, batch);
    if (status == CV_OK) status = cv_channel_acquire(link->channel, batch->seq, 0, &slot);
  }
  if (status != CV_OK) return status;
  return cv_channel_send(link->channel, &link->message.header, link->message.segments);
}

void cv_job_finish(cv_job *job) {
  if (job->status != CV_OK) batch_fail(job->stage, job->batch, job->status, job->text);
}
