/* The passes in the order in which they run: where a newcomer looks first. */
#include "compiler/passes.h"

#include <stdio.h>
#include <string.h>

#include "compiler/passes_internal.h"

static const cv_pass passes[] = {
    {"unify", cv_pass_unify, "dims that were assumed equal become one symbol"},
    {"fold", cv_pass_fold, "constants are computed, conditions too"},
    {"flatten-if", cv_pass_flatten_if, "Ifs become guarded nodes and joins"},
    {"unroll", cv_pass_unroll, "loops of few known trips become straight code"},
    {"simplify", cv_pass_simplify, "algebra and movement rules; folds as it goes"},
    {"cse", cv_pass_cse, "equal nodes and constants become one"},
    {"dce", cv_pass_dce, "what nothing reads goes"},
    {"sink", cv_pass_sink, "reshapes move behind epilogues, so that steps fuse"},
    {"simplify-again", cv_pass_simplify, "what sinking left over"},
    {"cse-again", cv_pass_cse, "equal nodes after that"},
    {"dce-again", cv_pass_dce, "and what nothing reads"},
    {"materialise", cv_pass_materialise, "splats that must be bytes are made by a step"},
    {NULL, NULL, NULL},
};

const cv_pass *cv_pass_list(void) { return passes; }

static void dump(const cv_graph *graph, const char *pass) {
  cv_str text = {.may_die = true};
  cv_graph_print(graph, &text);
  fprintf(stderr, "# after %s\n%s\n", pass, cv_str_text(&text));
  cv_str_deinit(&text);
}

static bool wanted(const cv_pass_options *options, const char *pass) {
  return options->dump_after &&
         (strcmp(options->dump_after, pass) == 0 || strcmp(options->dump_after, "all") == 0);
}

/* "import" names the graph as it came. */
static cv_status check_dump_name(const cv_pass_options *options) {
  if (!options->dump_after || wanted(options, "import") || wanted(options, "fuse")) return CV_OK;
  cv_str names = {.may_die = true};
  bool found = false;
  for (const cv_pass *pass = passes; pass->name; pass++) {
    found = found || wanted(options, pass->name);
    cv_str_add(&names, ", %s", pass->name);
  }
  cv_status status =
      found ? CV_OK
            : cv_error(CV_INVALID, "no pass is named '%s'; there are: all, import%s, fuse",
                       options->dump_after, cv_str_text(&names));
  cv_str_deinit(&names);
  return status;
}

cv_status cv_passes_run(cv_graph *graph, const cv_pass_options *options) {
  cv_status status = check_dump_name(options);
  if (status == CV_OK) status = cv_graph_status(graph);
  if (status == CV_OK) status = cv_graph_verify(graph, "import");
  if (status == CV_OK && wanted(options, "import")) dump(graph, "import");
  for (const cv_pass *pass = passes; pass->name && status == CV_OK; pass++) {
    pass->run(graph, options);
    status = cv_graph_status(graph);
    if (status == CV_OK) status = cv_graph_verify(graph, pass->name);
    if (status == CV_OK && wanted(options, pass->name)) dump(graph, pass->name);
  }
  return status;
}
