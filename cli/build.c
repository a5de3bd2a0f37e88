/* cuvil build */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/compile.h"

/* MODEL.onnx -> MODEL.cuv where the user says nothing. */
static char *default_output(const char *model) {
  size_t length = cv_ends_with(model, ".onnx") ? strlen(model) - 5 : strlen(model);
  cv_str path = {.may_die = true};
  cv_str_append(&path, model, length);
  cv_str_puts(&path, ".cuv");
  return path.data;
}

static cv_status report(const char *path, double seconds) {
  cv_artifact *artifact;
  cv_status status = cv_artifact_open(path, &artifact);
  if (status != CV_OK) return status;
  const cv_program *program = cv_artifact_program(artifact);
  struct stat info = {0};
  if (stat(path, &info) != 0) info.st_size = 0;
  printf("%s: %u steps, %u weights, %.1f MB, targets", path, program->n_steps, program->n_consts,
         (double)info.st_size / 1e6);
  for (uint32_t i = 0; i < program->n_targets; i++) printf(" %s", program->targets[i].name);
  printf(", %.1f s\n", seconds);
  cv_artifact_close(artifact);
  return CV_OK;
}

/* `output`: NULL: named after the model, or the artifact itself when targets are added to it. */
static cv_status build(const char *input, const cv_texts *add, const cv_compile_options *options,
                       const char *output) {
  int64_t begin = cv_clock_ns();
  char *made = output ? NULL : add->len ? cv_strdup(input) : default_output(input);
  const char *path = output ? output : made;
  if (!path) return cv_error_nomem(strlen(input));
  cv_status status = add->len ? cv_compile_add_targets(input, add, options, path)
                              : cv_compile_model(input, options, path);
  if (status == CV_OK) status = report(path, (double)(cv_clock_ns() - begin) / 1e9);
  cv_free(made);
  return status;
}

cv_status cv_command_build(int argc, char **argv) {
  cv_compile_options compile = {0};
  const char *output = NULL;
  cv_texts add = {0}, words;
  const cv_option rows[] = {{"-o", CV_OPTION_TEXT, &output, "FILE",
                             "the artifact to write (default: the model's name with .cuv)", 0, 0},
                            {"--add-target", CV_OPTION_LIST, &add, "NAME",
                             "add a target to the artifact given; needs no model", 0, 0},
                            CV_COMPILE_OPTIONS(compile),
                            {0}};
  const cv_command command = {
      "cuvil build MODEL.onnx [-o FILE.cuv] [OPTION...]\n       cuvil build --add-target NAME "
      "FILE.cuv",
      "Compiles a model ahead of time into an artifact of fused kernels.", rows, 1, 1};
  cv_status status = cv_options_parse(&command, argc, argv, &words);
  if (status == CV_OK) status = build(words.data[0], &add, &compile, output);
  cv_options_release(&command, &words);
  return status;
}
