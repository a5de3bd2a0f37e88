#include "coordinator/assign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "coordinator/devices.h"
#include "coordinator/plan_program.h"
#include "runtime/edges.h"

/* Work on one plan. */
typedef struct {
  const cv_program *program;
  const cv_assign_options *options;
  const cv_assign_members *members;
  cv_assigned *out;
  cv_devices devices;
  bool *taken; /* [workers]: has a device */
} work;

uint64_t cv_assign_deployment(const cv_program *program) {
  char head[17];
  snprintf(head, sizeof head, "%.16s", program->hash);
  return strtoull(head, NULL, 16);
}

static cv_status make_plan(work *w) {
  const cv_assign_options *o = w->options;
  cv_plan plan = {0};
  cv_status status = CV_OK;
  int stages = o->stages;
  if (!o->devices) {
    int count = stages ? stages : (int)w->members->workers;
    stages = count;
    CV_TRY(cv_devices_equal(count, "cpu", (int)w->members->hellos[0].cores, &w->devices));
  }
  cv_plan_request request = {.devices = w->devices.devices,
                             .n_devices = w->devices.n_devices,
                             .links = w->devices.links,
                             .kinds = w->devices.kinds,
                             .n_kinds = w->devices.n_kinds,
                             .stages = stages,
                             .micro_batch = o->micro_batch ? o->micro_batch : 1,
                             .threads = o->threads ? o->threads : 1};
  const cv_profile **profiles = cv_alloc((size_t)w->devices.n_kinds + 1, sizeof *profiles);
  if (!profiles) CV_TRY(cv_error_nomem(1));
  request.profiles = profiles;
  status = cv_plan_program(w->program, &request, &plan);
  cv_free(profiles);
  if (status == CV_OK) status = cv_plan_to_json(&plan, &w->out->plan);
out:
  cv_plan_deinit(&plan);
  return status;
}

static cv_status get_plan(work *w) {
  const cv_assign_options *o = w->options;
  cv_status status = CV_OK;
  if (o->devices) CV_TRY(cv_devices_load(o->devices, &w->devices));
  if (o->path)
    CV_TRY(cv_plan_json_read(o->path, &w->out->plan));
  else
    CV_TRY(make_plan(w));
  CV_TRY(cv_plan_json_check(&w->out->plan, o->path ? o->path : "the plan", w->program));
  if (o->micro_batch) w->out->plan.micro_batch = o->micro_batch;
  if (o->threads) w->out->plan.threads = o->threads;
out:
  return status;
}

static const cv_plan_device *find_device(const work *w, const char *name) {
  for (int i = 0; i < w->devices.n_devices; i++)
    if (strcmp(w->devices.devices[i].name, name) == 0) return &w->devices.devices[i];
  return NULL;
}

/* The worker that runs this device: a free one, on its host where one is stated. */
static cv_status find_worker(const work *w, const cv_plan_device *device, const char *name,
                             uint32_t *out_member) {
  const char *host = device && strcmp(device->host, "localhost") != 0 ? device->host : NULL;
  for (uint32_t i = 0; i < w->members->workers; i++) {
    if (w->taken[i] || (host && strcmp(w->members->hellos[i].host, host) != 0)) continue;
    w->taken[i] = true;
    *out_member = i;
    return CV_OK;
  }
  if (host)
    return cv_error(CV_INFEASIBLE,
                    "device %s: no worker is free on host %s; start one there, or correct the host",
                    name, host);
  return cv_error(CV_INFEASIBLE,
                  "device %s: the plan has more devices than the job has workers (%u); start more "
                  "(mpirun -n), or plan fewer stages",
                  name, w->members->workers);
}

/* A given plan without predicted times gets them, as the planner would have made them; one that the
 * planner cannot judge (a device with two stages) stays without. */
static cv_status predict(work *w) {
  cv_plan_json *json = &w->out->plan;
  uint32_t n = json->n_stages;
  cv_plan plan = {0};
  cv_status status = CV_OK;
  int *cuts = cv_alloc(2 * (size_t)n, sizeof *cuts), *devices = cuts + n;
  const cv_profile **profiles = NULL;
  if (!cuts) CV_TRY(cv_error_nomem(2 * (size_t)n * sizeof *cuts));
  if (!w->devices.n_devices)
    CV_TRY(cv_devices_equal((int)n, "cpu", (int)w->members->hellos[0].cores, &w->devices));
  profiles = cv_alloc((size_t)w->devices.n_kinds + 1, sizeof *profiles);
  if (!profiles) CV_TRY(cv_error_nomem(1));
  for (uint32_t i = 0; i < n; i++) {
    const cv_plan_device *device = find_device(w, json->stages[i].devices[0]);
    cuts[i] = (int)json->stages[i].last + 1;
    devices[i] = w->options->devices && device ? (int)(device - w->devices.devices) : (int)i;
  }
  cv_plan_request request = {.devices = w->devices.devices,
                             .n_devices = w->devices.n_devices,
                             .links = w->devices.links,
                             .kinds = w->devices.kinds,
                             .n_kinds = w->devices.n_kinds,
                             .profiles = profiles,
                             .micro_batch = json->micro_batch,
                             .threads = json->threads};
  if (cv_plan_program_predict(w->program, &request, (int)n, cuts, devices, &plan) == CV_OK)
    for (uint32_t i = 0; i < n; i++) json->stages[i].predicted_us = plan.stages[i].us;
out:
  cv_plan_deinit(&plan);
  cv_free(profiles);
  cv_free(cuts);
  return status;
}

static cv_status add_stage(work *w, uint32_t index) {
  const cv_plan_json_stage *from = &w->out->plan.stages[index];
  cv_msg_stage *stages = w->out->prepare.stages, *to = &stages[index];
  if (from->n_devices != 1)
    return cv_error(CV_UNSUPPORTED,
                    "stage %u has %u replicas: a job runs each stage once; give it one device",
                    index, from->n_devices);
  const char *name = from->devices[0];
  const cv_plan_device *device = find_device(w, name);
  if (!device && w->options->devices && w->options->path)
    return cv_error(CV_INVALID, "%s: stage %u runs on device %s, which %s does not have",
                    w->options->path, index, name, w->options->devices);
  bool paced = device && (device->pace_us > 0 || device->pace_us_per_step > 0);
  *to = (cv_msg_stage){.first = from->first,
                       .last = from->last,
                       .device = cv_arena_strdup(&w->out->arena, name),
                       .kind = paced ? "paced"
                               : device
                                   ? cv_arena_strdup(&w->out->arena, w->devices.kinds[device->kind])
                                   : "cpu",
                       .threads = (uint32_t)w->out->plan.threads,
                       .memory = device ? device->memory : 0,
                       .pace_us = device ? device->pace_us : 0,
                       .pace_us_per_step = device ? device->pace_us_per_step : 0};
  if (!to->device || !to->kind) return cv_error_nomem(1);
  for (uint32_t i = 0; i < index; i++) {
    if (strcmp(stages[i].device, name) != 0) continue;
    to->member = stages[i].member;
    return CV_OK;
  }
  return find_worker(w, device, name, &to->member);
}

static cv_status add_members(work *w) {
  cv_msg_prepare *p = &w->out->prepare;
  uint32_t count = w->members->workers + 1;
  p->members = cv_arena_array(&w->out->arena, cv_msg_member, count);
  if (!p->members) return cv_error_nomem(count * sizeof *p->members);
  p->n_members = count;
  for (uint32_t i = 0; i < count; i++) {
    const cv_msg_hello *hello = &w->members->hellos[i];
    p->members[i] = (cv_msg_member){
        .name = i + 1 < count ? cv_arena_format(&w->out->arena, "rank %u on %s", i, hello->host)
                              : cv_arena_format(&w->out->arena, "the gateway on %s", hello->host),
        .incarnation = hello->incarnation,
        .addresses = hello->addresses,
        .n_addresses = hello->n_addresses};
    if (!p->members[i].name) return cv_error_nomem(1);
  }
  return CV_OK;
}

static bool has_row(const cv_msg_hello *hello, const char *row) {
  for (uint32_t i = 0; i < hello->n_addresses; i++)
    if (strcmp(hello->addresses[i].row, row) == 0) return true;
  return false;
}

static cv_status pick_row(const work *w, uint32_t a, uint32_t b, const char **out_row) {
  const cv_msg_hello *from = &w->members->hellos[a], *to = &w->members->hellos[b];
  bool one_host = strcmp(from->host, to->host) == 0;
  *out_row = w->options->transport ? w->options->transport : one_host ? "shm" : "ucx";
  if (has_row(from, *out_row) && has_row(to, *out_row)) return CV_OK;
  return cv_error(CV_INVALID, "transport %s between hosts %s and %s is not open at both ends",
                  *out_row, from->host, to->host);
}

static cv_status add_edges(work *w) {
  cv_msg_prepare *p = &w->out->prepare;
  cv_edges edges = {0};
  cv_status status = CV_OK;
  cv_span *spans = cv_arena_array(&w->out->arena, cv_span, p->n_stages);
  if (!spans) CV_TRY(cv_error_nomem(p->n_stages * sizeof *spans));
  for (uint32_t i = 0; i < p->n_stages; i++)
    spans[i] = (cv_span){p->stages[i].first, p->stages[i].last};
  CV_TRY(cv_edges_derive(w->program, spans, (int)p->n_stages, NULL, &edges));
  p->edges = cv_arena_array(&w->out->arena, cv_msg_edge, edges.n_edges);
  if (!p->edges) CV_TRY(cv_error_nomem(edges.n_edges * sizeof *p->edges));
  p->n_edges = edges.n_edges;
  for (uint32_t e = 0; e < edges.n_edges; e++) {
    const cv_edge *edge = &edges.edges[e];
    uint32_t end = w->members->workers;
    uint32_t a = edge->from < 0 ? end : p->stages[edge->from].member;
    uint32_t b = edge->to < 0 ? end : p->stages[edge->to].member;
    p->edges[e] = (cv_msg_edge){.from = edge->from, .to = edge->to, .slots = edge->slots};
    CV_TRY(pick_row(w, a, b, &p->edges[e].row));
  }
out:
  cv_edges_deinit(&edges);
  return status;
}

cv_status cv_assign(const cv_program *program, const cv_assign_options *options,
                    const cv_assign_members *members, cv_assigned *out_assigned) {
  *out_assigned = (cv_assigned){0};
  work w = {.program = program, .options = options, .members = members, .out = out_assigned};
  cv_msg_prepare *p = &out_assigned->prepare;
  cv_status status = CV_OK;
  w.taken = cv_alloc(members->workers, sizeof *w.taken);
  if (!w.taken) CV_TRY(cv_error_nomem(members->workers));
  CV_TRY(get_plan(&w));
  p->deployment = cv_assign_deployment(program);
  p->micro_batch = (uint32_t)out_assigned->plan.micro_batch;
  p->stages = cv_arena_array(&out_assigned->arena, cv_msg_stage, out_assigned->plan.n_stages);
  if (!p->stages) CV_TRY(cv_error_nomem(out_assigned->plan.n_stages * sizeof *p->stages));
  p->n_stages = out_assigned->plan.n_stages;
  for (uint32_t i = 0; i < p->n_stages; i++) CV_TRY(add_stage(&w, i));
  CV_TRY(add_members(&w));
  if (options->path && out_assigned->plan.stages[0].predicted_us <= 0) CV_TRY(predict(&w));
  CV_TRY(add_edges(&w));
out:
  cv_free(w.taken);
  cv_devices_deinit(&w.devices);
  return status;
}

void cv_assigned_deinit(cv_assigned *assigned) {
  cv_plan_json_deinit(&assigned->plan);
  cv_arena_deinit(&assigned->arena);
  *assigned = (cv_assigned){0};
}
