/* Between lower.c (steps of a block) and lower_program.c (programs). */
#ifndef CV_COMPILER_LOWER_INTERNAL_H
#define CV_COMPILER_LOWER_INTERNAL_H

#include "compiler/fuse.h"

/* What all blocks of one compilation share. */
typedef struct {
  cv_graph *graph;
  const cv_pass_options *options;
  cv_program *top;
  cv_exprs *exprs;          /* the program's pool */
  cv_vec(cv_expr) imported; /* by the graph's expression */
  cv_vec(cv_const) consts;
  cv_map const_index;
  cv_vec(cv_program *) programs; /* all: they get the consts at the end */
} cv_lowering;

/* One block that becomes a program. */
typedef struct {
  cv_lowering *top;
  cv_program *program;
  cv_fusion fusion;
  uint32_t *value_of; /* by the graph's value: the program's, or CV_NONE */
  cv_vec(cv_value) values;
  cv_vec(cv_step) steps;
  cv_vec(cv_bind) binds;
  cv_vec(cv_port) inputs;
  cv_vals input_vals; /* the graph's values of the inputs */
  cv_map value_names, step_names;
} cv_block_lowering;

/* The graph's expression in the program's pool. */
cv_expr cv_lower_expr(cv_lowering *low, cv_expr e);
/* Adds an input of the program that stands for v; `name` NULL: v's own. Returns its value id. */
uint32_t cv_lower_input(cv_block_lowering *low, cv_val v, const char *name);
/* The program's value for v: made before, or a constant. */
uint32_t cv_lower_value(cv_block_lowering *low, cv_val v);
/* Adds a step that gives the first present of `ins` out as a new value of the type of `like`. */
typedef struct {
  const char *name, *out_name; /* of the step, of the value */
  cv_val like;
  cv_expr guard; /* the graph's */
} cv_alias_spec;
uint32_t cv_lower_alias(cv_block_lowering *low, const uint32_t *ins, uint32_t n_ins,
                        const cv_alias_spec *spec);
/* Adds the steps of the fused groups. */
void cv_lower_groups(cv_block_lowering *low);
/* A block as a program; `captured` become inputs after its params (NULL: the graph's own block).
 * Errors are the graph's. */
cv_program *cv_lower_block(cv_lowering *low, const cv_block *block, const cv_vals *captured);

#endif
