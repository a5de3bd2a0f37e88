/* cuvil run */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "cli/check.h"
#include "cli/commands.h"
#include "cli/compile.h"
#include "runtime/request_set.h"
#include "cli/runner.h"
#include "cli/split.h"

static const double CHECK_TOLERANCE = 1e-4;

typedef struct {
  cv_compile_options compile;
  cv_request_options request;
  cv_split_options split;
  const char *list;
  bool check;
} run_options;

/* The whole program on this thread, request by request, state carried. */
static cv_status run_whole(cv_artifact *artifact, const cv_requests *requests, const run_options *o,
                           cv_answers *answers) {
  uint32_t n = requests->program->n_inputs;
  cv_runner runner;
  cv_tensor *state = cv_alloc_or_die(n, sizeof *state),
            *inputs = cv_alloc_or_die(n, sizeof *inputs);
  cv_device_spec spec = {.name = "this machine",
                         .kind = "cpu",
                         .threads = o->split.threads ? (int)o->split.threads : 1};
  cv_status status = cv_runner_init(&runner, artifact, &spec);
  bool first = true;
  for (int64_t r = 0; r < requests->repeat && status == CV_OK; r++) {
    for (uint32_t k = 0; k < requests->count && status == CV_OK; k++) {
      memcpy(inputs, requests->tensors + (size_t)k * n, n * sizeof *inputs);
      for (uint32_t s = 0; s < requests->program->n_states && !first; s++) {
        uint32_t port = requests->program->states[s].input;
        inputs[port] = state[port];
        inputs[port].owned = false;
      }
      status = cv_runner_run(&runner, inputs);
      if (status == CV_OK) status = cv_answers_take(answers, k, runner.outs);
      if (status == CV_OK) status = cv_runner_carry_state(&runner, state);
      first = false;
    }
  }
  for (uint32_t i = 0; i < n; i++) cv_tensor_deinit(&state[i]);
  cv_free(state);
  cv_free(inputs);
  cv_runner_deinit(&runner);
  return status;
}

static cv_status run_model(const char *path, const run_options *o) {
  cv_artifact *artifact = NULL;
  cv_requests requests = {0};
  cv_answers answers = {0};
  cv_status status = CV_OK;
  CV_TRY(cv_compile_open(path, &o->compile, &o->request, &artifact));
  CV_TRY(cv_requests_read(cv_artifact_program(artifact), &o->request, &requests));
  if (o->check) {
    status = cv_check_steps(artifact, requests.tensors, CHECK_TOLERANCE);
    goto out;
  }
  if (cv_split_wanted(&o->split)) {
    status = cv_split_run(artifact, &requests, &o->split, o->request.output_dir);
    goto out;
  }
  cv_answers_init(&answers, &requests);
  CV_TRY(run_whole(artifact, &requests, o, &answers));
  status = cv_answers_write(&answers, o->request.output_dir);
out:
  cv_answers_deinit(&answers);
  cv_requests_deinit(&requests);
  cv_artifact_close(artifact);
  return status;
}

/* --list: lines MODEL<TAB>INPUT-DIR<TAB>OUTPUT-DIR. Every line is run; the first failure's status
 * is the command's. */
static cv_status run_list(const run_options *o) {
  FILE *file = fopen(o->list, "re");
  if (!file) return cv_error(CV_IO, "%s: cannot be read", o->list);
  cv_status first = CV_OK;
  char *line = NULL, kept[512] = "";
  size_t cap = 0;
  for (int number = 1; getline(&line, &cap, file) >= 0; number++) {
    line[strcspn(line, "\r\n")] = 0;
    if (!line[0]) continue;
    run_options one = *o;
    char *input = strchr(line, '\t'), *output = input ? strchr(input + 1, '\t') : NULL;
    cv_status status;
    if (!output) {
      status =
          cv_error(CV_INVALID, "%s:%d: give MODEL<TAB>INPUT-DIR<TAB>OUTPUT-DIR", o->list, number);
    } else {
      *input = *output = 0;
      one.request.input_dir = input + 1;
      one.request.output_dir = output + 1;
      status = run_model(line, &one);
    }
    if (status == CV_OK) continue;
    fprintf(stderr, "cuvil run: %s: %s\n", line, cv_error_text());
    if (first == CV_OK) snprintf(kept, sizeof kept, "%s:%d: %s", o->list, number, cv_error_text());
    if (first == CV_OK) first = status;
  }
  free(line);
  fclose(file);
  return first == CV_OK ? CV_OK : cv_error(first, "%s", kept);
}

cv_status cv_command_run(int argc, char **argv) {
  run_options o = {.request.repeat = 1};
  cv_texts words;
  const cv_option rows[] = {CV_REQUEST_OPTIONS(o.request),
                            {"--list", CV_OPTION_TEXT, &o.list, "FILE",
                             "runs the lines MODEL<TAB>INPUT-DIR<TAB>OUTPUT-DIR of a file", 0, 0},
                            {"--check", CV_OPTION_FLAG, &o.check, NULL,
                             "compares each step with the interpreter instead", 0, 0},
                            CV_SPLIT_OPTIONS(o.split),
                            CV_COMPILE_OPTIONS(o.compile),
                            {0}};
  const cv_command command = {
      "cuvil run MODEL.onnx|FILE.cuv --input FILE... [OPTION...]",
      "Runs a model. An .onnx is compiled first, and kept in the cache.\n"
      "With --cuts the program is run as a pipeline of stages in this process.",
      rows, 0, 1};
  cv_status status = cv_options_parse(&command, argc, argv, &words);
  if (status == CV_OK && !o.list != (words.len == 1))
    status = cv_error(CV_INVALID, "give a model, or --list FILE");
  if (status == CV_OK) status = o.list ? run_list(&o) : run_model(words.data[0], &o);
  cv_options_release(&command, &words);
  return status;
}
