/* The passes, in the order of passes.c, and the driver. */
#ifndef CV_COMPILER_PASSES_H
#define CV_COMPILER_PASSES_H

#include "compiler/graph.h"
#include "runtime/program.h"

typedef struct {
  bool exact;             /* --exact: bounded rewrites off */
  bool fast_math;         /* --fast-math: fast rewrites on */
  const char *dump_after; /* pass name, "all", or NULL: the text goes to stderr */
  int64_t rewrite_fuel;   /* rewrites allowed; <= 0: no limit */
  int max_fusion;         /* nodes a step; <= 0: default */
} cv_pass_options;

/* A pass: changes the graph in place; errors are the graph's. */
typedef struct {
  const char *name;
  void (*run)(cv_graph *graph, const cv_pass_options *options);
  const char *text; /* what it does, a line */
} cv_pass;

/* The ordered list, NULL name at the end. */
const cv_pass *cv_pass_list(void);
/* Runs all passes with the verifier between them. */
CV_NODISCARD cv_status cv_passes_run(cv_graph *graph, const cv_pass_options *options);

/* Groups nodes into steps and makes the program: steps with bodies, values, consts (data pointers
 * borrowed from the graph), binds, loops, costs, separability, states. No targets yet. The graph
 * must outlive the program's consts. */
CV_NODISCARD cv_status cv_lower(cv_graph *graph, const cv_pass_options *options,
                                cv_program **out_program);

/* The proof of batch separability: follows (axis, factor) of the batch through every value. Fills
 * separable, why, batch and the ports' axes. Runs on the graph before lowering; the verdict is text
 * either way. */
typedef struct {
  bool separable;
  cv_sym batch; /* CV_NONE if there is no candidate */
  const char *why;
  int32_t *input_axis, *output_axis; /* -1: not batched */
  int64_t *input_factor, *output_factor;
} cv_separability;
void cv_prove_separable(cv_graph *graph, cv_separability *out_verdict);

#endif
