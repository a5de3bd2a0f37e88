/* The C texts of routines: private to render_routine.c and routine_text.c. ${key} is filled in:
 *   N kernel name   S, E, T storage type, compute element type and prelude suffix of operand 0
 *   get(p) is ${get}p)  an element in compute form; ${put}p, v) stores one
 * and what the routine's own row adds. */
#ifndef CV_COMPILER_ROUTINE_TEXT_H
#define CV_COMPILER_ROUTINE_TEXT_H

#include "compiler/graph.h"

typedef struct {
  cv_op op;
  const char *tasks;     /* statements of prepare, the plan's fields but phases */
  const char *functions; /* in front of the kernel, may be empty */
  const char *run;       /* statements of run */
} routine_text;

extern const routine_text routine_texts[];
extern const int routine_text_count;

#endif
