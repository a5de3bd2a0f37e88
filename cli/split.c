#include "cli/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "gateway/pipeline.h"

/* One split. */
typedef struct {
  uint32_t cuts[CV_PIPELINE_STAGES];
  int n_cuts;
  int64_t micro_batch, threads;
} split;

typedef struct {
  cv_pipeline *pipeline;
  const cv_program *program;
  const cv_requests *requests;
  cv_answers answers;
  cv_status status; /* of the answers: the first that failed */
  char text[512];
} session;

bool cv_split_wanted(const cv_split_options *options) {
  return options->cuts || options->cut_sets || options->micro_batch;
}

static cv_status parse_cuts(const cv_program *program, const char *text, split *out) {
  char word[32];
  out->n_cuts = 0;
  for (const char *at = text; *at;) {
    size_t length = strcspn(at, ",");
    int64_t cut;
    snprintf(word, sizeof word, "%.*s", (int)length, at);
    if (length == 0 || length >= sizeof word || !cv_parse_i64(word, &cut) || cut < 1 ||
        cut >= program->n_steps)
      return cv_error(CV_INVALID, "--cuts %s: give step numbers from 1 to %u, separated by commas",
                      text, program->n_steps - 1);
    if (out->n_cuts == CV_PIPELINE_STAGES - 1)
      return cv_error(CV_INVALID, "--cuts %s: at most %d cuts", text, CV_PIPELINE_STAGES - 1);
    out->cuts[out->n_cuts++] = (uint32_t)cut;
    at += length + (at[length] == ',');
  }
  return CV_OK;
}

static void on_answer(void *arg, const cv_answer *answer) {
  session *s = arg;
  uint32_t index = (uint32_t)(uintptr_t)answer->context;
  cv_status status = answer->status;
  if (status == CV_OK) status = cv_answers_take(&s->answers, index, answer->outputs);
  if (status == CV_OK || s->status != CV_OK) return;
  s->status = status;
  snprintf(s->text, sizeof s->text, "%s", answer->status == CV_OK ? cv_error_text() : answer->text);
}

/* All requests once; the tensors' data stays ours. */
static cv_status run_once(session *s, bool first) {
  uint32_t count = s->requests->count, n = s->program->n_inputs;
  size_t tensors = (size_t)count * n;
  cv_request *requests = cv_alloc_or_die(count, sizeof *requests);
  cv_tensor *inputs = cv_alloc_or_die(tensors, sizeof *inputs);
  if (tensors) memcpy(inputs, s->requests->tensors, tensors * sizeof *inputs);
  for (size_t i = 0; i < tensors; i++) inputs[i].owned = false;
  for (uint32_t k = 0; k < count; k++)
    requests[k] = (cv_request){.inputs = inputs + (size_t)k * n,
                               .reset = first && k == 0,
                               .context = (void *)(uintptr_t)k};
  cv_status status = cv_pipeline_run(s->pipeline, requests, count, on_answer, s);
  cv_free(requests);
  cv_free(inputs);
  return status;
}

static cv_status run_split(session *s, const split *wanted, const char *output_dir) {
  cv_span spans[CV_PIPELINE_STAGES];
  cv_device_spec devices[CV_PIPELINE_STAGES];
  int stages = wanted->n_cuts + 1;
  cv_status status = cv_spans_from_cuts(s->program, wanted->cuts, wanted->n_cuts, spans);
  if (status != CV_OK) return status;
  for (int i = 0; i < stages; i++)
    devices[i] = (cv_device_spec){.name = "this machine",
                                  .kind = "cpu",
                                  .threads = wanted->threads ? (int)wanted->threads : 1};
  cv_pipeline_plan plan = {
      .spans = spans, .n_stages = stages, .devices = devices, .micro_batch = wanted->micro_batch};
  cv_answers_init(&s->answers, s->requests);
  s->status = CV_OK;
  CV_TRY(cv_pipeline_use(s->pipeline, &plan));
  for (int64_t r = 0; r < s->requests->repeat; r++) {
    CV_TRY(run_once(s, r == 0));
    if (s->status != CV_OK) CV_TRY(cv_error(s->status, "%s", s->text));
  }
  status = cv_answers_write(&s->answers, output_dir);
out:
  cv_answers_deinit(&s->answers);
  return status;
}

/* A line CUTS [MICRO-BATCH [THREADS]]; "-" stands for no cut. */
static cv_status parse_line(const session *s, const char *line, split *out) {
  char cuts[1024];
  long long micro_batch = 0, threads = 1;
  if (sscanf(line, "%1023s %lld %lld", cuts, &micro_batch, &threads) < 1 || micro_batch < 0 ||
      threads < 1 || threads > 1024)
    return cv_error(CV_INVALID, "'%s': give CUTS [MICRO-BATCH [THREADS]]", line);
  out->micro_batch = micro_batch;
  out->threads = threads;
  return parse_cuts(s->program, strcmp(cuts, "-") == 0 ? "" : cuts, out);
}

static cv_status run_sets(session *s, const char *path, const char *output_dir) {
  FILE *file = fopen(path, "re");
  if (!file) return cv_error(CV_IO, "%s: cannot be read", path);
  cv_status status = CV_OK;
  char *line = NULL;
  size_t cap = 0;
  for (int k = 0; status == CV_OK && getline(&line, &cap, file) >= 0;) {
    split wanted;
    line[strcspn(line, "\r\n")] = 0;
    if (!line[0] || line[0] == '#') continue;
    char *folder = output_dir ? cv_format("%s/set_%d", output_dir, k) : NULL;
    status = parse_line(s, line, &wanted);
    if (status == CV_OK) status = run_split(s, &wanted, folder);
    if (status != CV_OK) status = cv_error_context(status, "%s: set %d (%s)", path, k, line);
    cv_free(folder);
    k++;
  }
  free(line);
  fclose(file);
  return status;
}

cv_status cv_split_run(cv_artifact *artifact, const cv_requests *requests,
                       const cv_split_options *options, const char *output_dir) {
  session s = {.program = cv_artifact_program(artifact), .requests = requests};
  cv_pipeline_options pipeline = {.artifact = artifact};
  cv_status status = cv_pipeline_create(&pipeline, &s.pipeline);
  if (status != CV_OK) return status;
  if (options->cut_sets) {
    status = run_sets(&s, options->cut_sets, output_dir);
  } else {
    split wanted = {.micro_batch = options->micro_batch, .threads = options->threads};
    status = parse_cuts(s.program, options->cuts ? options->cuts : "", &wanted);
    if (status == CV_OK) status = run_split(&s, &wanted, output_dir);
  }
  cv_pipeline_destroy(s.pipeline);
  return status;
}
