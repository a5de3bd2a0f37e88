/* Makes a stage from its spec, and frees it. Any thread. */
#include <inttypes.h>
#include <string.h>

#include "runtime/executor_internal.h"

static cv_status copy_text(cv_arena *arena, const char *text, const char **out) {
  *out = text ? cv_arena_strdup(arena, text) : NULL;
  return *out || !text ? CV_OK : cv_error_nomem(strlen(text) + 1);
}

static cv_status copy_spec(cv_stage *stage, const cv_stage_spec *spec) {
  const char *name;
  stage->spec = spec->device;
  cv_status status = copy_text(&stage->arena, spec->device.name, &stage->spec.name);
  if (status == CV_OK) status = copy_text(&stage->arena, spec->device.kind, &stage->spec.kind);
  if (status == CV_OK) status = copy_text(&stage->arena, spec->device.target, &stage->spec.target);
  if (status == CV_OK)
    status = copy_text(&stage->arena, spec->name ? spec->name : "a stage", &name);
  if (status == CV_OK) stage->name = (char *)(uintptr_t)name;
  return status;
}

static cv_status find_ports(cv_stage *stage) {
  const cv_program *p = stage->program;
  stage->ins = cv_arena_array(&stage->arena, uint32_t, p->n_values + 1);
  stage->outs = cv_arena_array(&stage->arena, uint32_t, p->n_values + 1);
  if (!stage->ins || !stage->outs) return cv_error_nomem(p->n_values * sizeof *stage->ins);
  cv_program_slice_ports(p, stage->span.first, stage->span.last, stage->ins, &stage->n_ins,
                         stage->outs, &stage->n_outs);
  return CV_OK;
}

/* Whether a step of the span gives the symbol its value. */
static bool binds(const cv_stage *stage, cv_sym sym) {
  for (uint32_t s = stage->span.first; s <= stage->span.last; s++) {
    const cv_step *step = &stage->program->steps[s];
    for (uint32_t i = 0; i < step->n_binds; i++)
      if (step->binds[i].sym == sym) return true;
    if (step->loop && step->loop->trips == sym) return true;
  }
  return false;
}

/* Whether type and presence of all values of the edge are known before the stage has computed. */
static bool is_direct(const cv_stage *stage, const cv_edge *edge) {
  for (cv_sym sym = 0; sym < stage->n_symbols; sym++) {
    if (!binds(stage, sym)) continue;
    for (uint32_t i = 0; i < edge->n_values; i++) {
      const cv_value *value = &stage->program->values[edge->values[i]];
      if (cv_expr_uses(stage->program->exprs, value->guard, sym)) return false;
      for (int d = 0; d < value->rank; d++)
        if (cv_expr_uses(stage->program->exprs, value->dims[d], sym)) return false;
    }
  }
  return true;
}

static cv_status find_row(const cv_stage *stage, const char *row, uint32_t *out_row) {
  const cv_executor *executor = stage->executor;
  for (uint32_t i = 0; row && i < executor->n_rows; i++)
    if (strcmp(executor->row_names[i], row) == 0) {
      *out_row = i;
      return CV_OK;
    }
  return cv_error(CV_INVALID, "%s: transport %s is not open in %s", stage->name,
                  row ? row : "(none)", executor->name);
}

static cv_status make_ports(cv_stage *stage, cv_link *link, const uint32_t *ids, uint32_t count) {
  link->ports = cv_arena_array(&stage->arena, uint32_t, link->edge->n_values + 1);
  if (!link->ports) return cv_error_nomem(link->edge->n_values * sizeof *link->ports);
  for (uint32_t i = 0; i < link->edge->n_values; i++) {
    uint32_t k = 0;
    while (k < count && ids[k] != link->edge->values[i]) k++;
    if (k == count)
      return cv_error(CV_INVALID, "%s: edge %" PRIu32 " carries %s, which is no port of its steps",
                      stage->name, link->id, stage->program->values[link->edge->values[i]].name);
    link->ports[i] = k;
  }
  return CV_OK;
}

static cv_status copy_edge(cv_stage *stage, cv_link *link, const cv_edge *edge) {
  cv_edge *copy;
  cv_status status = cv_edge_copy(&stage->arena, edge, &copy);
  if (status != CV_OK) return status;
  for (uint32_t i = 0; i < copy->n_symbols; i++)
    if (copy->symbols[i] >= stage->n_symbols)
      return cv_error(CV_INVALID, "%s: edge %" PRIu32 " carries a symbol the program has not",
                      stage->name, link->id);
  link->edge = copy;
  return CV_OK;
}

static cv_status build_link(cv_stage *stage, cv_link *link, const cv_edge *edge,
                            const cv_edge_peer *peer) {
  cv_arena *arena = &stage->arena;
  const char *name = NULL;
  link->stage = stage;
  cv_status status = copy_edge(stage, link, edge);
  if (status == CV_OK) status = find_row(stage, peer->row, &link->row);
  if (status == CV_OK) status = copy_text(arena, peer->name ? peer->name : "its peer", &name);
  if (status != CV_OK) return status;
  link->peer = (char *)(uintptr_t)name;
  link->peer_incarnation = peer->incarnation;
  link->address = cv_arena_copy(arena, peer->address, peer->address_bytes);
  link->address_bytes = peer->address_bytes;
  bool in = edge->to == stage->index;
  size_t slots = in ? edge->slots : 0;
  link->headers = cv_arena_array(arena, const cv_header *, slots + 1);
  link->slots = cv_arena_array(arena, cv_slot, slots + 1);
  link->began_ns = cv_arena_array(arena, int64_t, slots + 1);
  link->pending = cv_arena_array(arena, bool, stage->out_buffers);
  link->sent_ns = cv_arena_array(arena, int64_t, stage->out_buffers);
  if (!link->address || !link->headers || !link->slots || !link->began_ns || !link->pending ||
      !link->sent_ns)
    return cv_error_nomem(slots * sizeof *link->slots);
  if (in) return make_ports(stage, link, stage->ins, stage->n_ins);
  link->direct = is_direct(stage, link->edge);
  status = make_ports(stage, link, stage->outs, stage->n_outs);
  return status == CV_OK ? cv_message_init(&link->message, link->edge) : status;
}

static cv_status build_links(cv_stage *stage, const cv_stage_spec *spec) {
  const cv_edges *edges = spec->edges;
  for (uint32_t i = 0; i < edges->n_edges; i++) {
    stage->n_in += edges->edges[i].to == stage->index;
    stage->n_out += edges->edges[i].from == stage->index;
  }
  if (stage->n_in < 1)
    return cv_error(CV_INVALID, "%s has no in-edge: nothing would pace it", stage->name);
  stage->in = cv_arena_array(&stage->arena, cv_link, (size_t)stage->n_in);
  stage->out = cv_arena_array(&stage->arena, cv_link, (size_t)stage->n_out + 1);
  int n_in = 0, n_out = 0;
  if (!stage->in || !stage->out) return cv_error_nomem(sizeof(cv_link) * (size_t)stage->n_in);
  for (uint32_t i = 0; i < edges->n_edges; i++) {
    const cv_edge *edge = &edges->edges[i];
    if (edge->to != stage->index && edge->from != stage->index) continue;
    bool in = edge->to == stage->index;
    cv_link *link = in ? &stage->in[n_in] : &stage->out[n_out];
    link->index = in ? n_in++ : n_out++;
    link->id = i;
    cv_status status = build_link(stage, link, edge, &spec->peers[i]);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

static cv_status build_schedule(cv_stage *stage) {
  cv_schedule_in *in = cv_arena_array(&stage->arena, cv_schedule_in, (size_t)stage->n_in);
  cv_schedule_out *out = cv_arena_array(&stage->arena, cv_schedule_out, (size_t)stage->n_out + 1);
  if (!in || !out) return cv_error_nomem(sizeof *in);
  for (int e = 0; e < stage->n_in; e++)
    in[e] = (cv_schedule_in){(int)stage->in[e].edge->slots, stage->in[e].peer};
  for (int e = 0; e < stage->n_out; e++)
    out[e] = (cv_schedule_out){stage->out[e].direct, stage->out[e].peer};
  cv_schedule_config config = {.n_in = stage->n_in,
                               .n_out = stage->n_out,
                               .in = in,
                               .out = out,
                               .out_buffers = (int)stage->out_buffers,
                               .compute_ahead = CV_STAGE_JOBS};
  return cv_schedule_create(&config, &stage->schedule);
}

static cv_status build_batches(cv_stage *stage) {
  cv_arena *arena = &stage->arena;
  size_t outs = stage->n_outs + 1;
  stage->batches = cv_arena_array(arena, cv_batch, stage->out_buffers);
  if (!stage->batches) return cv_error_nomem(stage->out_buffers * sizeof(cv_batch));
  for (uint32_t b = 0; b < stage->out_buffers; b++) {
    cv_batch *batch = &stage->batches[b];
    batch->symbols = cv_arena_array(arena, int64_t, stage->n_symbols + 1);
    batch->outs = cv_arena_array(arena, cv_tensor, outs);
    batch->memory_bytes = cv_arena_array(arena, uint64_t, outs);
    batch->memory = cv_arena_array(arena, void *, outs);
    if (!batch->symbols || !batch->outs || !batch->memory_bytes || !batch->memory)
      return cv_error_nomem(outs * sizeof(cv_tensor));
  }
  return CV_OK;
}

static cv_status build_job(cv_stage *stage, cv_job *job) {
  cv_arena *arena = &stage->arena;
  size_t outs = stage->n_outs + 1;
  uint32_t steps = stage->span.last - stage->span.first + 1;
  bool traced = stage->executor->trace_events > 0;
  job->stage = stage;
  job->task = (cv_task){CV_TASK_COMPUTE, job};
  job->ins = cv_arena_array(arena, cv_tensor, stage->n_ins + 1);
  job->planned = cv_arena_array(arena, cv_tensor, outs);
  job->is_placed = cv_arena_array(arena, bool, outs);
  job->acquired = cv_arena_array(arena, bool, (size_t)stage->n_out + 1);
  if (traced) job->times = cv_arena_array(arena, cv_step_time, steps);
  if (!job->ins || !job->planned || !job->is_placed || !job->acquired || (traced && !job->times))
    return cv_error_nomem(outs * sizeof(cv_tensor));
  return CV_OK;
}

cv_status cv_stage_build(cv_executor *executor, const cv_stage_spec *spec,
                         const cv_stage_events *events, cv_stage **out_stage) {
  *out_stage = NULL;
  cv_stage *stage = cv_alloc(1, sizeof *stage);
  if (!stage) return cv_error_nomem(sizeof *stage);
  cv_status status = CV_OK;
  pthread_mutex_init(&stage->lock, NULL);
  stage->executor = executor;
  stage->events = *events;
  stage->deployment = spec->deployment;
  stage->epoch = spec->epoch;
  stage->index = spec->index;
  stage->span = spec->span;
  stage->artifact = spec->artifact;
  stage->program = cv_artifact_program(spec->artifact);
  stage->n_symbols = cv_exprs_symbols(stage->program->exprs);
  stage->out_buffers = spec->out_buffers ? spec->out_buffers : 3;
  stage->load_task = (cv_task){CV_TASK_LOAD, stage};
  stage->unload_task = (cv_task){CV_TASK_UNLOAD, stage};
  stage->loader_task = (cv_task){CV_TASK_LOAD, stage};
  CV_TRY(copy_spec(stage, spec));
  if (spec->span.first > spec->span.last || spec->span.last >= stage->program->n_steps)
    CV_TRY(cv_error(CV_INVALID, "%s: there are no steps %" PRIu32 " to %" PRIu32, stage->name,
                    spec->span.first, spec->span.last));
  CV_TRY(find_ports(stage));
  CV_TRY(build_links(stage, spec));
  CV_TRY(build_schedule(stage));
  CV_TRY(build_batches(stage));
  for (int i = 0; i < CV_STAGE_JOBS; i++) CV_TRY(build_job(stage, &stage->jobs[i]));
  *out_stage = stage;
out:
  if (status != CV_OK) cv_stage_free(stage);
  return status;
}

void cv_stage_free(cv_stage *stage) {
  if (!stage) return;
  for (int e = 0; stage->out && e < stage->n_out; e++) cv_message_deinit(&stage->out[e].message);
  for (uint32_t b = 0; stage->batches && b < stage->out_buffers; b++)
    for (uint32_t k = 0; stage->batches[b].memory && k < stage->n_outs; k++)
      cv_free(stage->batches[b].memory[k]);
  cv_schedule_destroy(stage->schedule);
  pthread_mutex_destroy(&stage->lock);
  cv_arena_deinit(&stage->arena);
  cv_free(stage);
}
