/* cuvil-coordinator: the process that plans a job and leads its members. Started by the supervisor
 * of rank 0, which gives it the listening socket; the job's token is in CUVIL_TOKEN. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "coordinator/assign.h"
#include "coordinator/results.h"
#include "coordinator/server.h"
#include "runtime/artifact.h"
#include "runtime/file.h"

typedef struct {
  int64_t listen_fd, workers, stages, micro_batch, threads;
  const char *plan, *plans, *devices, *transport, *trace, *report;
} options;

typedef struct {
  options options;
  const cv_program *program;
  char *plans_text; /* the lines of --plans, cut in place */
  cv_vec(char *) plans;
  cv_results results;
  cv_assigned assigned;
  uint64_t term;
} job;

/* --plans: a path a line. */
static cv_status read_plans(job *j) {
  const char *path = j->options.plans;
  size_t bytes;
  if (!path) return CV_OK;
  if (j->options.plan) return cv_error(CV_INVALID, "give --plan or --plans, not both");
  cv_status status = cv_file_read(path, (void **)&j->plans_text, &bytes);
  if (status != CV_OK) return status;
  for (char *rest = j->plans_text, *line; (line = strsep(&rest, "\n"));) {
    line[strcspn(line, "\r")] = 0;
    if (line[0] && !cv_vec_push(&j->plans, line)) return cv_error_nomem(sizeof line);
  }
  return j->plans.len ? CV_OK : cv_error(CV_INVALID, "%s: holds no path of a plan", path);
}

static cv_status keep(void *arg, uint32_t member, const cv_msg *msg) {
  job *j = arg;
  if (msg->kind == CV_MSG_STALLED) cv_log_warn("member %u: %s", member, msg->stalled.text);
  return cv_results_keep(&j->results, member, msg);
}

static const char *plan_path(const job *j, uint32_t number) {
  return j->options.plans ? j->plans.data[number] : j->options.plan;
}

static void print_plan(const job *j, uint32_t number) {
  const cv_plan_json *plan = &j->assigned.plan;
  const char *path = plan_path(j, number);
  if (j->options.plans)
    printf("plan %u (%s): ", number, path);
  else
    printf("plan%s%s%s: ", path ? " (" : "", path ? path : "", path ? ")" : "");
  printf("%u stage%s of", plan->n_stages, plan->n_stages == 1 ? "" : "s");
  for (uint32_t i = 0; i < plan->n_stages; i++)
    printf("%s steps %u-%u on %s", i ? "," : "", plan->stages[i].first, plan->stages[i].last,
           plan->stages[i].devices[0]);
  printf("; micro-batch %d, %d thread%s\n", plan->micro_batch, plan->threads,
         plan->threads == 1 ? "" : "s");
  if (!path && plan->reason) printf("%s\n", plan->reason);
}

/* Workers without a stage are said. */
static void print_idle(const job *j) {
  const cv_msg_prepare *p = &j->assigned.prepare;
  for (uint32_t i = 0; i < j->results.workers; i++) {
    bool used = false;
    for (uint32_t s = 0; s < p->n_stages; s++) used = used || p->stages[s].member == i;
    if (!used) printf("%s has no stage in this plan and idles\n", p->members[i].name);
  }
}

static cv_status plan(void *arg, const cv_state *state, uint32_t number,
                      const cv_msg_prepare **out_prepare) {
  job *j = arg;
  (void)state;
  cv_assigned_deinit(&j->assigned);
  cv_results_begin(&j->results);
  cv_assign_options how = {.path = plan_path(j, number),
                           .devices = j->options.devices,
                           .stages = (int)j->options.stages,
                           .micro_batch = (int)j->options.micro_batch,
                           .threads = (int)j->options.threads,
                           .transport = j->options.transport};
  cv_assign_members members = {.hellos = j->results.hellos, .workers = j->results.workers};
  cv_status status = cv_assign(j->program, &how, &members, &j->assigned);
  if (status != CV_OK) return status;
  j->assigned.prepare.term = j->term;
  j->assigned.prepare.number = number + 1;
  j->assigned.prepare.trace = j->options.trace != NULL;
  *out_prepare = &j->assigned.prepare;
  print_plan(j, number);
  print_idle(j);
  return fflush(stdout) == 0 ? CV_OK : cv_error(CV_IO, "stdout cannot be written");
}

/* The report's path; with --plans each plan's own: report.json -> report_plan_0.json. */
static char *report_path(const job *j, uint32_t number) {
  const char *path = j->options.report, *dot = path ? strrchr(path, '.') : NULL;
  if (!path || !j->options.plans) return path ? cv_strdup(path) : NULL;
  if (!dot || strchr(dot, '/')) dot = path + strlen(path);
  return cv_format("%.*s_plan_%u%s", (int)(dot - path), path, number, dot);
}

static cv_status results(void *arg, const cv_state *state, uint32_t number) {
  job *j = arg;
  char *path = report_path(j, number);
  if (!path && j->options.report) return cv_error_nomem(strlen(j->options.report));
  cv_status status = cv_results_show(&j->results, &j->assigned, path);
  cv_free(path);
  if (status == CV_OK && j->options.trace && number + 1 == state->job.plans)
    status = cv_results_write_trace(&j->results, state, j->options.trace);
  if (fflush(stdout) != 0 && status == CV_OK) status = cv_error(CV_IO, "stdout cannot be written");
  return status;
}

/* `out_told`: the failure was logged already. */
static cv_status run(job *j, const char *path, bool *out_told) {
  const char *token = getenv("CUVIL_TOKEN");
  cv_artifact *artifact = NULL;
  cv_status status = CV_OK;
  if (!token || strlen(token) < 64)
    return cv_error(CV_INVALID, "CUVIL_TOKEN is not set: cuvil-worker starts this program");
  CV_TRY(read_plans(j));
  CV_TRY(cv_artifact_open(path, &artifact));
  j->program = cv_artifact_program(artifact);
  j->term = (uint64_t)(cv_clock_wall_ns() / 1000000000);
  CV_TRY(cv_results_init(&j->results, (uint32_t)j->options.workers));
  cv_job what = {.workers = (uint32_t)j->options.workers,
                 .plans = j->options.plans ? (uint32_t)j->plans.len : 1,
                 .token = token,
                 .artifact = j->program->hash,
                 .folders = j->options.plans != NULL};
  cv_server_events events = {.arg = j, .keep = keep, .plan = plan, .results = results};
  *out_told = true;
  status = cv_server_run((int)j->options.listen_fd, &what, &events);
out:
  cv_assigned_deinit(&j->assigned);
  cv_results_deinit(&j->results);
  cv_vec_deinit(&j->plans);
  cv_free(j->plans_text);
  cv_artifact_close(artifact);
  return status;
}

int main(int argc, char **argv) {
  job j = {.options = {.listen_fd = -1}};
  options *o = &j.options;
  cv_texts words;
  const cv_option rows[] = {
      {"--listen-fd", CV_OPTION_INT, &o->listen_fd, "N", "a socket that listens", 0, 1 << 20},
      {"--workers", CV_OPTION_INT, &o->workers, "N", "workers of the job", 1, CV_JOB_WORKERS},
      {"--plan", CV_OPTION_TEXT, &o->plan, "FILE", "the plan", 0, 0},
      {"--plans", CV_OPTION_TEXT, &o->plans, "FILE", "plans, a path a line", 0, 0},
      {"--stages", CV_OPTION_INT, &o->stages, "N", "stages of a plan made here", 1, 4096},
      {"--devices", CV_OPTION_TEXT, &o->devices, "FILE", "devices and links (YAML)", 0, 0},
      {"--micro-batch", CV_OPTION_INT, &o->micro_batch, "M", "items a micro-batch", 1, 1 << 20},
      {"--threads", CV_OPTION_INT, &o->threads, "T", "compute threads of a stage", 1, 1024},
      {"--transport", CV_OPTION_TEXT, &o->transport, "ROW", "of all edges", 0, 0},
      {"--trace", CV_OPTION_TEXT, &o->trace, "FILE", "Chrome trace to write", 0, 0},
      {"--report", CV_OPTION_TEXT, &o->report, "FILE", "report to write (JSON)", 0, 0},
      {0}};
  const cv_command command = {"cuvil-coordinator FILE.cuv --listen-fd N --workers N [OPTION...]",
                              "Leads a job. Started by cuvil-worker of rank 0, not by hand.", rows,
                              1, 1};
  bool told = false;
  cv_log_init("coordinator");
  cv_status status = cv_options_parse(&command, argc, argv, &words);
  if (status == CV_OK && (o->listen_fd < 0 || o->workers < 1))
    status = cv_error(CV_INVALID, "give --listen-fd and --workers");
  if (status == CV_OK) status = run(&j, words.data[0], &told);
  if (status != CV_OK && !told) fprintf(stderr, "cuvil-coordinator: %s\n", cv_error_text());
  cv_options_release(&command, &words);
  return cv_status_exit_code(status);
}
