/* cuvil bench and cuvil profile: times of whole runs and of steps. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/compile.h"
#include "cli/runner.h"
#include "coordinator/plan_program.h"
#include "runtime/tensor_file.h"

typedef struct {
  cv_compile_options compile;
  int64_t threads, repeat;
  double min_seconds;
  cv_texts inputs, sizes;
  bool json, steps;
  const char *output;
} bench_options;

/* Times of one input size. Microseconds. */
typedef struct {
  int runs;
  double min_us, median_us, cpu_us;
  double *step_us; /* medians, by step */
} timing;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void warn_progress(int done, int total) {
  if (isatty(STDERR_FILENO))
    fprintf(stderr, "\rmeasuring %d/%d%s", done, total, done == total ? "\r\033[K" : "");
}

/* Runs the request again and again: `repeat` times after one run that warms up. */
static cv_status measure(cv_runner *runner, const cv_tensor *inputs, int repeat, timing *out) {
  uint32_t n_steps = runner->program->n_steps;
  double *wall = cv_alloc_or_die((size_t)repeat, sizeof *wall),
         *cpu = cv_alloc_or_die((size_t)repeat, sizeof *cpu);
  double *steps = cv_alloc_or_die((size_t)repeat * n_steps, sizeof *steps);
  out->step_us = cv_alloc_or_die(n_steps, sizeof *out->step_us);
  out->runs = repeat;
  cv_status status = cv_runner_run(runner, inputs);
  for (int r = 0; r < repeat && status == CV_OK; r++) {
    int64_t begin = cv_clock_ns(), cpu_begin = cv_clock_thread_cpu_ns();
    status = cv_runner_run(runner, inputs);
    wall[r] = (double)(cv_clock_ns() - begin) / 1e3;
    cpu[r] = (double)(cv_clock_thread_cpu_ns() - cpu_begin) / 1e3;
    for (uint32_t s = 0; s < n_steps; s++)
      steps[(size_t)s * (size_t)repeat + (size_t)r] =
          (double)(runner->times[s].end_ns - runner->times[s].begin_ns) / 1e3;
    warn_progress(r + 1, repeat);
  }
  if (status == CV_OK) {
    out->median_us = median(wall, repeat);
    out->min_us = wall[0];
    out->cpu_us = median(cpu, repeat);
    for (uint32_t s = 0; s < n_steps; s++)
      out->step_us[s] = median(&steps[(size_t)s * (size_t)repeat], repeat);
  }
  cv_free(wall);
  cv_free(cpu);
  cv_free(steps);
  return status;
}

static double evaluate(const cv_runner *runner, cv_expr e) {
  int64_t value = 0;
  if (e == CV_EXPR_NONE ||
      cv_expr_eval(runner->program->exprs, e, runner->symbols, &value) != CV_OK)
    return NAN;
  return (double)value;
}

/* Bytes that a step reads and writes at the shapes of the last run. */
static double step_bytes(const cv_runner *runner, const cv_step *step) {
  double total = 0;
  for (uint32_t i = 0; i < step->n_ins + step->n_outs; i++) {
    uint32_t id = i < step->n_ins ? step->ins[i] : step->outs[i - step->n_ins];
    if (id == CV_NONE) continue;
    const cv_value *value = &runner->program->values[id];
    double bytes = (double)cv_dtype_size(value->dtype);
    for (int d = 0; d < value->rank; d++) bytes *= evaluate(runner, value->dims[d]);
    total += bytes;
  }
  return total;
}

static const char *variant_of(const cv_runner *runner, uint32_t step) {
  const cv_target_code *target = &runner->program->targets[0];
  for (uint32_t i = 0; i < target->n_renderings; i++)
    if (target->renderings[i].first == step && target->renderings[i].variant)
      return target->renderings[i].variant;
  return "";
}

static void print_steps(const cv_runner *runner, const timing *t) {
  double total = 0;
  for (uint32_t s = 0; s < runner->program->n_steps; s++) total += t->step_us[s];
  printf("\n%4s %10s %6s %9s %7s  %-40s %s\n", "step", "us", "%", "GFLOP/s", "GB/s", "rendering",
         "name");
  for (uint32_t s = 0; s < runner->program->n_steps; s++) {
    const cv_step *step = &runner->program->steps[s];
    double us = t->step_us[s], flops = evaluate(runner, step->flops);
    printf("%4u %10.1f %6.1f ", s, us, total > 0 ? us / total * 100 : 0);
    if (us > 0 && !isnan(flops))
      printf("%9.1f %7.1f", flops / us / 1e3, step_bytes(runner, step) / us / 1e3);
    else
      printf("%9s %7s", "-", "-");
    printf("  %-40s %s\n", variant_of(runner, s), step->name);
  }
}

static json_t *json_steps(const cv_runner *runner, const timing *t) {
  json_t *list = json_array();
  for (uint32_t s = 0; s < runner->program->n_steps; s++) {
    double flops = evaluate(runner, runner->program->steps[s].flops);
    json_array_append_new(list, json_pack("{s:i, s:s, s:f, s:o, s:f, s:s}", "step", (int)s, "name",
                                          runner->program->steps[s].name, "us", t->step_us[s],
                                          "flops", isnan(flops) ? json_null() : json_real(flops),
                                          "bytes", step_bytes(runner, &runner->program->steps[s]),
                                          "rendering", variant_of(runner, s)));
  }
  return list;
}

static void print_timing(const cv_runner *runner, const timing *t, const bench_options *options) {
  if (options->json) {
    json_t *root =
        json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:o}", "artifact", runner->program->hash, "runs",
                  t->runs, "threads", (int)options->threads, "min_ms", t->min_us / 1e3, "median_ms",
                  t->median_us / 1e3, "cpu_ms", t->cpu_us / 1e3, "steps", json_steps(runner, t));
    json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    printf("\n");
    json_decref(root);
    return;
  }
  printf(
      "%s: %d runs on %d thread%s: min %.3f ms, median %.3f ms, CPU of the main thread %.3f ms\n",
      runner->program->model_name, t->runs, (int)options->threads, options->threads > 1 ? "s" : "",
      t->min_us / 1e3, t->median_us / 1e3, t->cpu_us / 1e3);
  if (options->steps) print_steps(runner, t);
}

/* The request: the user's files, or one made up at the sizes of `symbols`. */
static cv_status make_request(const cv_program *program, const bench_options *options,
                              int64_t batch, cv_tensor *inputs) {
  if (options->inputs.len)
    return cv_request_read(program, options->inputs.data, options->inputs.len, inputs);
  int64_t *symbols = cv_alloc_or_die(cv_exprs_symbols(program->exprs), sizeof *symbols);
  cv_plan_symbols(program, symbols);
  if (program->batch != CV_NONE && batch > 0) symbols[program->batch] = batch;
  cv_status status = cv_inputs_make(program, symbols, inputs);
  cv_free(symbols);
  return status;
}

static void free_request(const cv_program *program, cv_tensor *inputs) {
  for (uint32_t i = 0; i < program->n_inputs; i++) cv_tensor_deinit(&inputs[i]);
  cv_free(inputs);
}

static cv_status measure_size(cv_runner *runner, const bench_options *options, int64_t batch,
                              timing *out) {
  cv_tensor *inputs = cv_alloc_or_die(runner->program->n_inputs, sizeof *inputs);
  cv_status status = make_request(runner->program, options, batch, inputs);
  if (status == CV_OK) status = measure(runner, inputs, (int)options->repeat, out);
  free_request(runner->program, inputs);
  return status;
}

cv_status cv_command_bench(int argc, char **argv) {
  bench_options o = {.threads = 1, .repeat = 20};
  bool no_steps = false;
  cv_texts words;
  const cv_option rows[] = {
      {"--input", CV_OPTION_WORDS, &o.inputs, "FILE...", "a request (default: one made up)", 0, 0},
      {"--repeat", CV_OPTION_INT, &o.repeat, "R", "runs to measure (default 20)", 1, 1000000},
      {"--threads", CV_OPTION_INT, &o.threads, "T", "compute threads (default 1)", 1, 1024},
      {"--no-steps", CV_OPTION_FLAG, &no_steps, NULL, "without the table of steps", 0, 0},
      {"--json", CV_OPTION_FLAG, &o.json, NULL, "one JSON object", 0, 0},
      CV_COMPILE_OPTIONS(o.compile),
      {0}};
  const cv_command command = {
      "cuvil bench MODEL.onnx|FILE.cuv [--input FILE...] [OPTION...]",
      "Times a model on this machine: whole runs, and each step with its GFLOP/s and GB/s.", rows,
      1, 1};
  cv_artifact *artifact = NULL;
  cv_runner runner = {0};
  timing t = {0};
  cv_status status;
  CV_TRY(cv_options_parse(&command, argc, argv, &words));
  o.steps = !no_steps;
  CV_TRY(cv_compile_open(words.data[0], &o.compile, &(cv_request_options){.inputs = o.inputs},
                         &artifact));
  CV_TRY(cv_runner_init(
      &runner, artifact,
      &(cv_device_spec){.name = "this machine", .kind = "cpu", .threads = (int)o.threads}));
  CV_TRY(measure_size(&runner, &o, 1, &t));
  print_timing(&runner, &t, &o);
out:
  cv_free(t.step_us);
  cv_runner_deinit(&runner);
  cv_artifact_close(artifact);
  cv_options_release(&command, &words);
  return status;
}

/* ---- profile ---- */

static void cpu_model(char *out, size_t size) {
  snprintf(out, size, "unknown CPU");
  FILE *file = fopen("/proc/cpuinfo", "re");
  char line[256];
  while (file && fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (!cv_starts_with(line, "model name") || !colon) continue;
    colon[strcspn(colon, "\n")] = 0;
    snprintf(out, size, "%s", colon + 2);
    break;
  }
  if (file) fclose(file);
}

static cv_status read_sizes(const bench_options *o, const cv_program *program,
                            cv_profile *profile) {
  static const char *const usual[] = {"1", "2", "4", "8"};
  const char *const *texts = o->sizes.len ? o->sizes.data : usual;
  profile->n_sizes = o->sizes.len ? (int)o->sizes.len : 4;
  if (!program->separable || program->batch == CV_NONE || o->inputs.len) profile->n_sizes = 1;
  profile->sizes = cv_alloc_or_die((size_t)profile->n_sizes, sizeof *profile->sizes);
  for (int i = 0; i < profile->n_sizes; i++) {
    int64_t size;
    if (!cv_parse_i64(texts[i], &size) || size < 1 || size > 1 << 20 ||
        (i && size <= profile->sizes[i - 1]))
      return cv_error(CV_INVALID, "--sizes %s: give rising micro-batch sizes of at least 1",
                      texts[i]);
    profile->sizes[i] = (int)size;
  }
  return CV_OK;
}

static cv_status measure_profile(cv_runner *runner, const bench_options *o, cv_profile *profile) {
  const cv_program *program = runner->program;
  char model[128];
  cpu_model(model, sizeof model);
  memcpy(profile->artifact, program->hash, sizeof profile->artifact);
  profile->kind = cv_strdup("cpu");
  profile->device = cv_strdup(model);
  profile->threads = (int)o->threads;
  profile->n_steps = (int)program->n_steps;
  cv_status status = read_sizes(o, program, profile);
  profile->step_us =
      cv_alloc_or_die((size_t)profile->n_sizes * program->n_steps, sizeof *profile->step_us);
  for (int i = 0; i < profile->n_sizes && status == CV_OK; i++) {
    timing t = {0};
    status = measure_size(runner, o, profile->sizes[i], &t);
    if (status == CV_OK) {
      memcpy(profile->step_us + (size_t)i * program->n_steps, t.step_us,
             program->n_steps * sizeof *t.step_us);
      printf("micro-batch %d: median %.3f ms over %d runs\n", profile->sizes[i], t.median_us / 1e3,
             t.runs);
    }
    cv_free(t.step_us);
  }
  return status;
}

cv_status cv_command_profile(int argc, char **argv) {
  bench_options o = {.threads = 1, .repeat = 20};
  cv_texts words;
  const cv_option rows[] = {
      {"-o", CV_OPTION_TEXT, &o.output, "FILE", "the profile to write (JSON)", 0, 0},
      {"--input", CV_OPTION_WORDS, &o.inputs, "FILE...", "measure at this request's shapes", 0, 0},
      {"--sizes", CV_OPTION_WORDS, &o.sizes, "N...", "micro-batch sizes (default 1 2 4 8)", 0, 0},
      {"--repeat", CV_OPTION_INT, &o.repeat, "R", "runs a size (default 20)", 1, 1000000},
      {"--threads", CV_OPTION_INT, &o.threads, "T", "compute threads (default 1)", 1, 1024},
      CV_COMPILE_OPTIONS(o.compile),
      {0}};
  const cv_command command = {
      "cuvil profile FILE.cuv -o PROFILE.json [OPTION...]",
      "Measures the time of each step at several micro-batch sizes, for cuvil plan --profile.",
      rows, 1, 1};
  cv_artifact *artifact = NULL;
  cv_runner runner = {0};
  cv_profile profile = {0};
  cv_status status;
  CV_TRY(cv_options_parse(&command, argc, argv, &words));
  if (!o.output) CV_TRY(cv_error(CV_INVALID, "-o is missing: name the profile to write"));
  CV_TRY(cv_compile_open(words.data[0], &o.compile, NULL, &artifact));
  CV_TRY(cv_runner_init(
      &runner, artifact,
      &(cv_device_spec){.name = "this machine", .kind = "cpu", .threads = (int)o.threads}));
  CV_TRY(measure_profile(&runner, &o, &profile));
  status = cv_profile_write(&profile, o.output);
out:
  cv_profile_deinit(&profile);
  cv_runner_deinit(&runner);
  cv_artifact_close(artifact);
  cv_options_release(&command, &words);
  return status;
}
