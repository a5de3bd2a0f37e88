/* What a stage costs at least, and what a whole path costs in truth. */
#include <math.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "partitioner/model_internal.h"

static uint64_t entering(const cv_spans *spans, int a, int b) {
  return spans->at[a] - cv_spans_covering(spans, a, b);
}

static uint64_t leaving(const cv_spans *spans, int a, int b) {
  return spans->at[b] - cv_spans_covering(spans, a, b);
}

/* Bytes read in [a, b) of values made by the atom just before a. */
static uint64_t adjacent(const cv_model *model, int a, int b) {
  uint64_t sum = 0;
  for (int v = model->made_by[a - 1]; v < model->made_by[a]; v++) {
    const cv_model_value *value = &model->values[v];
    if (value->n_readers && model->readers[value->first] < b) sum += value->bytes;
  }
  return sum;
}

double cv_model_compute(const cv_model *model, int c, int a, int b) {
  const cv_model_class *class_ = &model->classes[c];
  double time = class_->time[b] - class_->time[a] + class_->unpack[a] + class_->pack[b];
  double pace = class_->device->pace_us_per_step * (model->cut[b] - model->cut[a]);
  return fmax(time, fmax(pace, class_->device->pace_us));
}

uint64_t cv_model_hold(const cv_model *model, int c, int a, int b) {
  const cv_model_class *class_ = &model->classes[c];
  uint64_t bytes =
      class_->weight_sum[b] - class_->weight_sum[a] + entering(class_->weight_shared, a, b);
  if (!model->buffer_max) return bytes;
  int level = 31 - __builtin_clz((unsigned)(b - a));
  uint64_t left = model->buffer_max[level][a], right = model->buffer_max[level][b - (1 << level)];
  return bytes + (left > right ? left : right);
}

static uint64_t slots_for(int jump) { return 2 * (uint64_t)jump + 1; }

uint64_t cv_model_memory(const cv_model *model, const cv_model_stage *s) {
  return cv_model_hold(model, s->class_, s->a, s->b) +
         slots_for(s->place + 1) * entering(&model->in_gateway, s->a, s->b) +
         slots_for(1) * entering(&model->in_stage, s->a, s->b) +
         (uint64_t)model->out_buffers * leaving(&model->out_all, s->a, s->b);
}

/* The same without what does not grow with b. */
static uint64_t open_memory(const cv_model *model, const cv_model_stage *s) {
  return cv_model_hold(model, s->class_, s->a, s->b) +
         slots_for(s->place + 1) * entering(&model->in_gateway, s->a, s->b) +
         slots_for(1) * entering(&model->in_stage, s->a, s->b);
}

double cv_model_floor(const cv_model *model, const cv_model_stage *s, bool open) {
  const cv_model_class *class_ = &model->classes[s->class_];
  if (class_->memory != UINT64_MAX) {
    uint64_t need = open ? open_memory(model, s) : cv_model_memory(model, s);
    if (need > class_->memory) return INFINITY;
  }
  double gateway = (double)entering(&model->in_gateway, s->a, s->b);
  double stages = (double)entering(&model->in_stage, s->a, s->b), near = 0;
  const cv_plan_link *link = &class_->best_in;
  if (!model->uniform && s->before >= 0) {
    link = cv_model_link(model, s->before, s->class_);
    near = (double)adjacent(model, s->a, s->b);
    stages -= near;
  }
  double wire_in = gateway / class_->from_gateway->bytes_per_us + near / link->bytes_per_us +
                   stages / class_->best_in.bytes_per_us;
  double copies = gateway * class_->from_gateway->receive_us_per_byte +
                  near * link->receive_us_per_byte + stages * class_->best_in.receive_us_per_byte;
  double compute = cv_model_compute(model, s->class_, s->a, s->b), wire_out = 0;
  if (open) {
    double time = class_->time[s->b] - class_->time[s->a] + class_->unpack[s->a];
    double pace = class_->device->pace_us_per_step * (model->cut[s->b] - model->cut[s->a]);
    compute = fmax(time, fmax(pace, class_->device->pace_us));
  } else {
    double out = (double)leaving(&model->out_stage, s->a, s->b);
    double answers = (double)(model->out_gateway[s->b] - model->out_gateway[s->a]);
    wire_out = out / class_->best_out.bytes_per_us + answers / class_->to_gateway->bytes_per_us;
    copies +=
        out * class_->best_out.send_us_per_byte + answers * class_->to_gateway->send_us_per_byte;
  }
  if (class_->pays_copies) compute += copies;
  return fmax(compute, fmax(wire_in, wire_out));
}

static int stage_of(const cv_path_stage *path, int n, int atom) {
  int low = 0, high = n - 1;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (path[middle].end <= atom)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void cv_model_gather(const cv_model *model, const cv_path_stage *path, int j, uint64_t *row) {
  int a = j ? path[j - 1].end : 0;
  for (int i = 0; i <= j; i++) row[i] = 0;
  for (int r = model->read_by[a]; r < model->read_by[path[j].end]; r++) {
    if (model->read_before[r] >= a) continue; /* made here, or read here before */
    const cv_model_value *value = &model->values[model->read_value[r]];
    row[value->producer < 0 ? 0 : 1 + stage_of(path, j, value->producer)] += value->bytes;
  }
}

typedef cv_vec(cv_plan_edge) edge_list;

/* Counts an edge on the wires and in the copies of both of its ends. */
static bool add_edge(const cv_model *model, const cv_path_stage *path, cv_model_score *score,
                     edge_list *edges, cv_plan_edge edge) {
  const cv_plan_link *link =
      edge.from < 0 ? model->classes[path[edge.to].class_].from_gateway
      : edge.to < 0 ? model->classes[path[edge.from].class_].to_gateway
                    : cv_model_link(model, path[edge.from].class_, path[edge.to].class_);
  double bytes = (double)edge.bytes;
  edge.transfer_us = bytes / link->bytes_per_us;
  edge.latency_us = link->latency_us;
  *(edge.from < 0 ? &score->gateway_out : &score->stages[edge.from].wire_out_us) +=
      edge.transfer_us;
  *(edge.to < 0 ? &score->gateway_in : &score->stages[edge.to].wire_in_us) += edge.transfer_us;
  if (edge.from >= 0 && model->classes[path[edge.from].class_].pays_copies)
    score->stages[edge.from].copy_us += bytes * link->send_us_per_byte;
  if (edge.to >= 0 && model->classes[path[edge.to].class_].pays_copies)
    score->stages[edge.to].copy_us += bytes * link->receive_us_per_byte;
  return cv_vec_push(edges, edge);
}

/* In-edges of stage j, and its memory. A stage that reads nothing gets an edge without bytes. */
static bool add_stage(const cv_model *model, const cv_path_stage *path, int j, uint64_t *row,
                      cv_model_score *score, edge_list *edges) {
  cv_model_gather(model, path, j, row);
  cv_plan_stage *stage = &score->stages[j];
  int a = j ? path[j - 1].end : 0, b = path[j].end, c = path[j].class_;
  stage->first = model->cut[a];
  stage->last = model->cut[b] - 1;
  stage->compute_us = cv_model_compute(model, c, a, b);
  stage->memory_bytes =
      cv_model_hold(model, c, a, b) + (uint64_t)model->out_buffers * leaving(&model->out_all, a, b);
  bool any = false;
  for (int i = 0; i <= j; i++) {
    if (!row[i] && (any || i < j)) continue;
    int from = row[i] ? i - 1 : CV_PLAN_GATEWAY;
    any = true;
    stage->memory_bytes += slots_for(j - i + 1) * row[i];
    if (!add_edge(model, path, score, edges, (cv_plan_edge){from, j, row[i], 0, 0, 0}))
      return false;
  }
  return true;
}

static bool has_out_edge(const edge_list *edges, int stage) {
  for (size_t i = 0; i < edges->len; i++)
    if (edges->data[i].from == stage) return true;
  return false;
}

static bool add_answers(const cv_model *model, const cv_path_stage *path, int n,
                        cv_model_score *score, edge_list *edges) {
  for (int j = 0; j < n; j++) {
    uint64_t bytes = model->out_gateway[path[j].end] - model->out_gateway[j ? path[j - 1].end : 0];
    if (!bytes && has_out_edge(edges, j)) continue;
    if (!add_edge(model, path, score, edges, (cv_plan_edge){j, CV_PLAN_GATEWAY, bytes, 0, 0, 0}))
      return false;
  }
  return true;
}

cv_status cv_model_evaluate(const cv_model *model, const cv_path_stage *path, int n,
                            cv_arena *arena, cv_model_score *out_score) {
  *out_score = (cv_model_score){.misfit = -1};
  edge_list edges = {0};
  cv_status status = CV_OK;
  uint64_t *row = cv_alloc((size_t)n + 1, sizeof *row);
  cv_model_score score = {.misfit = -1};
  score.stages = cv_arena_array(arena, cv_plan_stage, (size_t)n);
  bool ok = row && score.stages;
  for (int j = 0; ok && j < n; j++) ok = add_stage(model, path, j, row, &score, &edges);
  ok = ok && add_answers(model, path, n, &score, &edges);
  score.edges = ok ? cv_arena_copy(arena, edges.data, edges.len * sizeof *edges.data) : NULL;
  if (!ok || !score.edges) {
    status = cv_error_nomem((size_t)n * sizeof *score.stages + edges.len * sizeof *edges.data);
    goto out;
  }
  score.n_edges = (int)edges.len;
  score.bottleneck = fmax(score.gateway_out, score.gateway_in);
  for (int j = 0; j < n; j++) {
    cv_plan_stage *stage = &score.stages[j];
    stage->us =
        fmax(stage->compute_us + stage->copy_us, fmax(stage->wire_in_us, stage->wire_out_us));
    score.bottleneck = fmax(score.bottleneck, stage->us);
    if (score.misfit < 0 && stage->memory_bytes > model->classes[path[j].class_].memory)
      score.misfit = j;
  }
  *out_score = score;
out:
  cv_free(row);
  cv_vec_deinit(&edges);
  return status;
}
