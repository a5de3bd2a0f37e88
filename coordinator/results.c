#include "coordinator/results.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/file.h"

cv_status cv_results_init(cv_results *results, uint32_t workers) {
  *results = (cv_results){.workers = workers};
  results->hellos = cv_alloc(workers + 1, sizeof *results->hellos);
  results->traces = cv_alloc(workers + 1, sizeof *results->traces);
  if (results->hellos && results->traces) return CV_OK;
  return cv_error_nomem((workers + 1) * sizeof *results->hellos);
}

void cv_results_deinit(cv_results *results) {
  for (uint32_t i = 0; results->traces && i <= results->workers; i++)
    cv_vec_deinit(&results->traces[i].events);
  cv_vec_deinit(&results->times);
  cv_free(results->traces);
  cv_free(results->hellos);
  cv_arena_deinit(&results->arena);
  *results = (cv_results){0};
}

void cv_results_begin(cv_results *results) {
  results->done = (cv_msg_done){0};
  results->times.len = 0;
}

/* ---- keeping ---- */

static cv_status keep_hello(cv_results *results, uint32_t member, const cv_msg_hello *hello) {
  cv_arena *arena = &results->arena;
  cv_msg_hello *to = &results->hellos[member];
  *to = *hello;
  to->token = "";
  to->host = cv_arena_strdup(arena, hello->host);
  to->artifact = cv_arena_strdup(arena, hello->artifact);
  to->version = cv_arena_strdup(arena, hello->version);
  to->cpu = cv_arena_strdup(arena, hello->cpu);
  to->addresses = cv_arena_array(arena, cv_msg_address, hello->n_addresses + 1);
  bool all = to->host && to->artifact && to->version && to->cpu && to->addresses;
  for (uint32_t i = 0; all && i < hello->n_addresses; i++) {
    const cv_msg_address *from = &hello->addresses[i];
    to->addresses[i] =
        (cv_msg_address){.row = cv_arena_strdup(arena, from->row),
                         .address = cv_arena_copy(arena, from->address, from->address_bytes),
                         .address_bytes = from->address_bytes};
    all = to->addresses[i].row && to->addresses[i].address;
  }
  return all ? CV_OK : cv_error_nomem(hello->n_addresses * sizeof(cv_msg_address));
}

static cv_status keep_trace(cv_results *results, uint32_t member, const cv_msg_trace *trace) {
  results->traces[member].dropped += trace->dropped;
  for (uint32_t i = 0; i < trace->n_events; i++) {
    const cv_msg_event *e = &trace->events[i];
    if (results->traces[member].events.len == CV_RESULTS_EVENTS) {
      results->traces[member].dropped += trace->n_events - i;
      break;
    }
    cv_trace_event event = {.begin_ns = e->begin,
                            .end_ns = e->end,
                            .seq = e->seq,
                            .epoch_number = e->number,
                            .stage = (int32_t)e->stage,
                            .detail = e->detail,
                            .kind = e->kind};
    if (!cv_vec_push(&results->traces[member].events, event)) return cv_error_nomem(sizeof event);
  }
  return CV_OK;
}

cv_status cv_results_keep(cv_results *results, uint32_t member, const cv_msg *msg) {
  if (msg->kind == CV_MSG_HELLO) return keep_hello(results, member, &msg->hello);
  if (msg->kind == CV_MSG_TRACE) return keep_trace(results, member, &msg->trace);
  if (msg->kind == CV_MSG_DONE) results->done = msg->done;
  if (msg->kind != CV_MSG_TIMES) return CV_OK;
  for (uint32_t i = 0; i < msg->times.n_stages; i++)
    if (!cv_vec_push(&results->times, msg->times.stages[i]))
      return cv_error_nomem(sizeof(cv_msg_stage_times));
  return CV_OK;
}

/* ---- table and report ---- */

static const cv_msg_stage_times *find_times(const cv_results *results, uint32_t stage) {
  for (size_t i = 0; i < results->times.len; i++)
    if (results->times.data[i].stage == stage) return &results->times.data[i];
  return NULL;
}

static cv_status make_stages(const cv_results *results, const cv_assigned *assigned,
                             cv_report_stage *stages) {
  for (uint32_t i = 0; i < assigned->prepare.n_stages; i++) {
    const cv_msg_stage *stage = &assigned->prepare.stages[i];
    const cv_msg_stage_times *t = find_times(results, i);
    if (!t)
      return cv_error(CV_CORRUPT, "%s did not report the times of stage %u",
                      assigned->prepare.members[stage->member].name, i);
    stages[i] = (cv_report_stage){.device = stage->device,
                                  .first = stage->first,
                                  .last = stage->last,
                                  .predicted_us = assigned->plan.stages[i].predicted_us,
                                  .times = {.micro_batches = t->micro_batches,
                                            .wall_ns = t->wall,
                                            .compute_ns = {t->compute, t->blocked_receive,
                                                           t->blocked_send, t->starved, t->other},
                                            .comm_ns = {t->send, t->receive, t->idle}}};
  }
  return CV_OK;
}

/* Per cent of the lane's wall time. */
static double share(const cv_stage_times *times, int64_t ns) {
  return times->wall_ns > 0 ? 100 * (double)ns / (double)times->wall_ns : 0;
}

static void print_table(const cv_report *report, const cv_msg_prepare *prepare) {
  printf("%5s %-10s %-16s %-9s %7s |%8s %7s %7s %7s %6s |%6s %8s %6s |%6s |%13s %12s\n", "stage",
         "device", "worker", "steps", "batches", "compute%", "wait-in", "no-slot", "starved",
         "other", "send%", "receive%", "idle%", "idle", "predicted us", "measured us");
  for (uint32_t i = 0; i < report->n_stages; i++) {
    const cv_report_stage *stage = &report->stages[i];
    const cv_stage_times *t = &stage->times;
    char steps[32];
    snprintf(steps, sizeof steps, "%u-%u", stage->first, stage->last);
    double each = t->micro_batches
                      ? (double)t->compute_ns[CV_TIME_COMPUTE] / 1000 / (double)t->micro_batches
                      : 0;
    printf("%5u %-10s %-16s %-9s %7" PRIu64
           " |%8.1f %7.1f %7.1f %7.1f %6.1f |%6.1f %8.1f %6.1f |%6.3f |%13.1f %12.1f\n",
           i, stage->device, prepare->members[prepare->stages[i].member].name, steps,
           t->micro_batches, share(t, t->compute_ns[CV_TIME_COMPUTE]),
           share(t, t->compute_ns[CV_TIME_BLOCKED_RECEIVE]),
           share(t, t->compute_ns[CV_TIME_BLOCKED_SEND]), share(t, t->compute_ns[CV_TIME_STARVED]),
           share(t, t->compute_ns[CV_TIME_OTHER]), share(t, t->comm_ns[CV_TIME_SEND]),
           share(t, t->comm_ns[CV_TIME_RECEIVE]), share(t, t->comm_ns[CV_TIME_IDLE]),
           cv_report_idle(t), stage->predicted_us, each);
  }
  printf("%" PRIu64 " requests, %.1f/s, latency %.1f us median, %.1f us at 99 %%\n",
         report->requests, report->rate, report->latency_p50, report->latency_p99);
}

cv_status cv_results_show(const cv_results *results, const cv_assigned *assigned,
                          const char *report_path) {
  uint32_t count = assigned->prepare.n_stages;
  const cv_msg_done *done = &results->done;
  char *text = NULL;
  cv_report_stage *stages = cv_alloc(count, sizeof *stages);
  if (!stages) return cv_error_nomem(count * sizeof *stages);
  cv_status status = CV_OK;
  cv_report report = {
      .stages = stages,
      .n_stages = count,
      .requests = done->requests,
      .rate = done->wall > 0 ? (double)done->requests * 1e9 / (double)done->wall : 0,
      .latency_p50 = done->p50_us,
      .latency_p99 = done->p99_us};
  CV_TRY(make_stages(results, assigned, stages));
  print_table(&report, &assigned->prepare);
  if (!report_path) goto out;
  CV_TRY(cv_report_json(&report, &text));
  status = cv_file_write(report_path, text, strlen(text));
out:
  cv_free(text);
  cv_free(stages);
  return status;
}

/* ---- trace ---- */

cv_status cv_results_write_trace(const cv_results *results, const cv_state *state,
                                 const char *path) {
  uint32_t count = results->workers + 1;
  int64_t worst = 0;
  cv_trace_process *processes = cv_alloc(count, sizeof *processes);
  if (!processes) return cv_error_nomem(count * sizeof *processes);
  cv_status status = CV_OK;
  for (uint32_t i = 0; i < count; i++) {
    const cv_member *member = &state->members[i];
    size_t pings = member->pings < CV_JOB_PINGS ? member->pings : CV_JOB_PINGS;
    processes[i] = (cv_trace_process){.name = member->name,
                                      .pid = (int)i,
                                      .events = results->traces[i].events.data,
                                      .n_events = results->traces[i].events.len,
                                      .dropped = results->traces[i].dropped};
    CV_TRY(cv_clock_estimate(member->ring, pings, &processes[i].clock));
    if (processes[i].clock.bound_ns > worst) worst = processes[i].clock.bound_ns;
  }
  CV_TRY(cv_trace_write(path, processes, count));
  printf("trace: %s; clocks of two processes agree within %.1f us\n", path,
         2 * (double)worst / 1000);
out:
  cv_free(processes);
  return status;
}
