/* From a path to a plan: slots, latency, rate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "partitioner/plan_internal.h"
#include "partitioner/simulate.h"

void cv_plan_deinit(cv_plan *plan) {
  if (!plan) return;
  for (int i = 0; plan->stages && i < plan->n_stages; i++) cv_free(plan->stages[i].device);
  cv_free(plan->artifact);
  cv_free(plan->order);
  cv_free(plan->stages);
  cv_free(plan->edges);
  cv_free(plan->reason);
  *plan = (cv_plan){0};
}

static double busy(const cv_plan_stage *stage) { return stage->compute_us + stage->copy_us; }

/* What all edges to or from the gateway take on its wire. */
static double gateway_wire(const cv_plan *plan, bool out) {
  double sum = 0;
  for (int e = 0; e < plan->n_edges; e++)
    if ((out ? plan->edges[e].from : plan->edges[e].to) < 0) sum += plan->edges[e].transfer_us;
  return sum;
}

/* Time from the end of one stage's computing until its bytes are in, both wires at their worst. */
static double passage(const cv_plan *plan, const cv_plan_edge *edge) {
  double out = edge->from >= 0 ? plan->stages[edge->from].wire_out_us : gateway_wire(plan, true);
  double in = edge->to >= 0 ? plan->stages[edge->to].wire_in_us : gateway_wire(plan, false);
  return edge->latency_us + fmax(edge->transfer_us, fmax(out, in));
}

/* after[k]: the longest time from the end of stage `from` (-1: gateway) to the end of stage k on
 * edges that lead there, 0 where none does; edges come by consumer. Returns the time at the
 * gateway. */
static double longest(const cv_plan *plan, int from, bool alone, double *after) {
  double answer = 0;
  for (int k = 0; k < plan->n_stages; k++) after[k] = 0;
  for (int e = 0; e < plan->n_edges; e++) {
    const cv_plan_edge *edge = &plan->edges[e];
    if (edge->from < from || (edge->from > from && after[edge->from] <= 0)) continue;
    double start = edge->from == from ? 0 : after[edge->from];
    double came = start + (alone ? edge->latency_us + edge->transfer_us : passage(plan, edge));
    if (edge->to < 0)
      answer = fmax(answer, came);
    else
      after[edge->to] = fmax(after[edge->to], came + busy(&plan->stages[edge->to]) + 1e-12);
  }
  return answer;
}

/* Slots of an edge that jumps s stages: as many micro-batches as begin while one is held from its
 * sending until it is computed and the grant has come back, and one; never below
 * ceil(s (1 + transfer / period)) + 1. */
static int slots_for(const cv_plan *plan, const cv_plan_edge *edge, double held) {
  int to = edge->to < 0 ? plan->n_stages : edge->to, jump = to - edge->from;
  double period = plan->bottleneck_us;
  if (!(period > 0)) return 2 * jump + 1;
  double by_time = ceil((held + edge->latency_us) / period - 1e-9) + 1;
  double by_jump = ceil(jump * (1 + edge->transfer_us / period) - 1e-9) + 1;
  return (int)fmin(fmax(by_time, by_jump), 1 << 16);
}

/* Gives the edge the slots it wants, or what fits the memory left: then true. */
static bool give_slots(cv_plan *plan, cv_plan_edge *edge, int wanted, uint64_t memory) {
  int to = edge->to < 0 ? plan->n_stages : edge->to, counted = 2 * (to - edge->from) + 1;
  edge->slots = wanted;
  if (edge->to < 0 || !edge->bytes) return false;
  cv_plan_stage *stage = &plan->stages[edge->to];
  bool fewer = false;
  if (wanted > counted && memory) {
    uint64_t room = memory > stage->memory_bytes ? memory - stage->memory_bytes : 0;
    uint64_t more = room / edge->bytes;
    fewer = (uint64_t)(wanted - counted) > more;
    if (fewer) edge->slots = counted + (int)more;
  }
  if (edge->slots > counted)
    stage->memory_bytes += (uint64_t)(edge->slots - counted) * edge->bytes;
  else
    stage->memory_bytes -= (uint64_t)(counted - edge->slots) * edge->bytes;
  return fewer;
}

/* With fewer slots than wanted, only the schedule itself knows the rate. */
static cv_status simulate_period(cv_plan *plan) {
  enum { MICRO_BATCHES = 2048 };
  double *compute = cv_alloc((size_t)plan->n_stages, sizeof *compute);
  if (!compute) return cv_error_nomem((size_t)plan->n_stages * sizeof *compute);
  cv_simulation simulation;
  cv_simulation_of_plan(plan, MICRO_BATCHES, compute, &simulation);
  cv_simulation_result result;
  cv_status status = cv_simulate(&simulation, &result);
  if (status == CV_OK) plan->bottleneck_us = fmax(plan->bottleneck_us, result.period_us);
  cv_simulation_deinit(&result);
  cv_free(compute);
  return status;
}

static cv_status fill_slots(const cv_plan_input *in, cv_plan *plan) {
  double *after = cv_alloc((size_t)plan->n_stages, sizeof *after);
  if (!after) return cv_error_nomem((size_t)plan->n_stages * sizeof *after);
  bool fewer = false;
  for (int from = -1; from < plan->n_stages; from++) {
    double answer = longest(plan, from, false, after);
    for (int e = 0; e < plan->n_edges; e++) {
      cv_plan_edge *edge = &plan->edges[e];
      if (edge->from != from) continue;
      int wanted = slots_for(plan, edge, edge->to < 0 ? answer : after[edge->to]);
      uint64_t memory = edge->to < 0 ? 0 : in->devices[plan->stages[edge->to].device_index].memory;
      fewer = give_slots(plan, edge, wanted, memory) || fewer;
    }
  }
  plan->latency_us = longest(plan, -1, true, after);
  cv_free(after);
  return fewer ? simulate_period(plan) : CV_OK;
}

/* The k-th stage of a class runs on the class's k-th device. */
static cv_status name_devices(const cv_model *model, const cv_path_stage *path, cv_plan *plan) {
  int *used = cv_alloc((size_t)model->n_classes, sizeof *used);
  if (!used) return cv_error_nomem((size_t)model->n_classes * sizeof *used);
  cv_status status = CV_OK;
  for (int j = 0; j < plan->n_stages && status == CV_OK; j++) {
    cv_plan_stage *stage = &plan->stages[j];
    stage->device_index = model->classes[path[j].class_].members[used[path[j].class_]++];
    stage->device = cv_strdup(model->input->devices[stage->device_index].name);
    if (!stage->device) status = cv_error_nomem(64);
  }
  cv_free(used);
  return status;
}

static void *copy(const void *data, size_t size) {
  void *memory = cv_alloc(size, 1);
  if (memory && size) memcpy(memory, data, size);
  return memory;
}

cv_status cv_plan_of_path(const cv_model *model, const cv_path_stage *path, int n, cv_plan *plan) {
  *plan = (cv_plan){0};
  const cv_plan_input *in = model->input;
  cv_arena arena = {0};
  cv_model_score score;
  cv_status status = CV_OK;
  CV_TRY(cv_model_evaluate(model, path, n, &arena, &score));
  plan->n_stages = n;
  plan->n_edges = score.n_edges;
  plan->stages = copy(score.stages, (size_t)n * sizeof *score.stages);
  plan->edges = copy(score.edges, (size_t)score.n_edges * sizeof *score.edges);
  plan->artifact = in->artifact ? cv_strdup(in->artifact) : NULL;
  if (!plan->stages || !plan->edges || (in->artifact && !plan->artifact)) {
    status = cv_error_nomem((size_t)n * sizeof *plan->stages);
    goto out;
  }
  CV_TRY(name_devices(model, path, plan));
  if (score.misfit >= 0) {
    const cv_plan_stage *stage = &plan->stages[score.misfit];
    status =
        cv_error(CV_INFEASIBLE,
                 "stage %d on %s needs %llu bytes for steps %d to %d, has %llu; give it fewer "
                 "steps or a smaller micro-batch",
                 score.misfit, stage->device, (unsigned long long)stage->memory_bytes, stage->first,
                 stage->last, (unsigned long long)in->devices[stage->device_index].memory);
    goto out;
  }
  plan->micro_batch = in->micro_batch;
  plan->threads = in->threads;
  plan->out_buffers = model->out_buffers;
  plan->bottleneck_us = plan->bound_us = score.bottleneck;
  CV_TRY(fill_slots(in, plan));
  plan->rate = plan->bottleneck_us > 0 ? in->micro_batch * 1e6 / plan->bottleneck_us : INFINITY;
out:
  cv_arena_deinit(&arena);
  if (status != CV_OK) cv_plan_deinit(plan);
  return status;
}

static cv_status check_split(const cv_plan_input *in, int n, const int *cuts, const int *devices) {
  cv_status status = cv_model_check(in);
  if (status != CV_OK) return status;
  if (n < 1 || n > in->n_devices)
    return cv_error(CV_INVALID, "a split of %d stages for %d devices", n, in->n_devices);
  if (cuts[n - 1] != in->n_steps)
    return cv_error(CV_INVALID, "the last stage ends before step %d, but the program has %d steps",
                    cuts[n - 1], in->n_steps);
  for (int j = 0; j < n; j++) {
    if (cuts[j] <= (j ? cuts[j - 1] : 0) || cuts[j] > in->n_steps)
      return cv_error(CV_INVALID, "cut %d is at step %d; cuts ascend from 1 to %d", j, cuts[j],
                      in->n_steps - 1);
    if (cuts[j] < in->n_steps && in->legal && !in->legal[cuts[j]])
      return cv_error(CV_INVALID,
                      "a cut before step %d is not legal; see the legal cuts of inspect", cuts[j]);
    if (devices[j] < 0 || devices[j] >= in->n_devices)
      return cv_error(CV_INVALID, "stage %d: device %d of %d", j, devices[j], in->n_devices);
    for (int i = 0; i < j; i++)
      if (devices[i] == devices[j])
        return cv_error(CV_INVALID, "stages %d and %d are both on %s; a device has one stage", i, j,
                        in->devices[devices[j]].name);
  }
  return CV_OK;
}

cv_status cv_plan_predict(const cv_plan_input *in, int n, const int *cuts, const int *devices,
                          cv_plan *out_plan) {
  *out_plan = (cv_plan){0};
  cv_status status = check_split(in, n, cuts, devices);
  if (status != CV_OK) return status;
  cv_model *model = NULL;
  cv_path_stage *path = cv_alloc((size_t)n, sizeof *path);
  if (!path) return cv_error_nomem((size_t)n * sizeof *path);
  CV_TRY(cv_model_create(in, true, &model));
  int position = 0;
  for (int j = 0; j < n; j++) {
    while (model->cut[position] < cuts[j]) position++;
    path[j] = (cv_path_stage){devices[j], position};
  }
  CV_TRY(cv_plan_of_path(model, path, n, out_plan));
  out_plan->exact = true;
  out_plan->reason = cv_format("the split given: %d stage%s, %.6g us between micro-batches", n,
                               n == 1 ? "" : "s", out_plan->bottleneck_us);
  if (!out_plan->reason) status = cv_error_nomem(64);
out:
  cv_free(path);
  cv_model_destroy(model);
  if (status != CV_OK) cv_plan_deinit(out_plan);
  return status;
}

void cv_plan_links_default(const cv_plan_device *devices, int n, const char *gateway_host,
                           const cv_plan_link *loopback, const cv_plan_link *network,
                           cv_plan_link *links) {
  for (int i = 0; i <= n; i++)
    for (int j = 0; j <= n; j++) {
      const char *a = i < n ? devices[i].host : gateway_host;
      const char *b = j < n ? devices[j].host : gateway_host;
      bool same = a == b || (a && b && strcmp(a, b) == 0);
      links[(size_t)i * (size_t)(n + 1) + (size_t)j] = same ? *loopback : *network;
    }
}
