/* cuvil: compiles models, looks into artifacts, runs and times them, plans pipelines. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/commands.h"

static const struct {
  const char *name;
  cv_status (*run)(int argc, char **argv);
  const char *text;
} commands[] = {
    {"build", cv_command_build, "compile a model to an artifact, or add a target to one"},
    {"inspect", cv_command_inspect, "show an artifact: steps, cuts, symbols, targets, sizes"},
    {"run", cv_command_run, "run a model or an artifact on inputs, whole or cut in stages"},
    {"bench", cv_command_bench, "time a model on this machine, step by step"},
    {"profile", cv_command_profile, "measure the time of each step for the planner"},
    {"plan", cv_command_plan, "find the fastest split over the devices at hand"},
    {"secret", cv_command_secret, "make a secret that members of a cluster share"},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *to) {
  fprintf(to, "usage: cuvil COMMAND [ARGUMENT...]\n\n");
  for (int i = 0; i < N_COMMANDS; i++)
    fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].text);
  fprintf(to,
          "\n'cuvil COMMAND --help' says more. A pipeline over several processes: cuvil-worker "
          "--help.\n");
}

int main(int argc, char **argv) {
  cv_log_init("cuvil");
  if (argc < 2) {
    print_help(stderr);
    return 2;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
    print_help(stdout);
    return 0;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("cuvil %s\n", CUVIL_VERSION);
    return 0;
  }
  for (int i = 0; i < N_COMMANDS; i++) {
    if (strcmp(argv[1], commands[i].name) != 0) continue;
    cv_status status = commands[i].run(argc - 1, argv + 1);
    if (status != CV_OK) fprintf(stderr, "cuvil %s: %s\n", commands[i].name, cv_error_text());
    if (fflush(stdout) != 0 && status == CV_OK) return 2;
    return cv_status_exit_code(status);
  }
  fprintf(stderr, "cuvil: there is no command '%s': see cuvil --help\n", argv[1]);
  return 2;
}
