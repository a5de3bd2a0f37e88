/* Loops over index spaces, for the map, row and reduce templates. */
#ifndef CV_COMPILER_LOOPS_H
#define CV_COMPILER_LOOPS_H

#include "compiler/render_internal.h"

/* Loops over an index space: axes outermost first, the first `kept` of them walked by tasks, the
 * others by the body itself (reduced axes). `body` emits the work at index `at`; in dry walks it
 * only tells which index expressions it uses. */
enum { CV_MAX_AXES = 2 * CV_MAX_RANK };
typedef struct cv_loops {
  int n, kept;
  cv_digit axes[CV_MAX_AXES]; /* loop variable and extent */
  int lane_axis; /* of the kept: the last one; -1: the loops over tasks have no lanes */
  bool blocked;  /* lanes walk across memory lines: short chunks keep them in cache */
  int chunk;     /* lanes a task at most */
  cv_index at;   /* of the value whose dims are walked */
  void (*body)(cv_emit *emit, const struct cv_loops *loops);
  void *context; /* of body */
} cv_loops;
/* Fills axes and `at` for a value's dims: first the axes not in the mask `inner`, then those in it;
 * splits axes where a reshape would divide, joins those that every access walks as one. lane_axis
 * is the last kept axis. */
void cv_loops_plan(cv_emit *emit, cv_val value, uint32_t inner, cv_loops *loops);
/* Where lanes walk across memory lines, puts the axis along which that access is contiguous next to
 * the lane axis and makes short chunks. */
void cv_loops_block(cv_emit *emit, cv_loops *loops);
/* C name of an axis. */
const char *cv_loops_name(const cv_emit *emit, const cv_digit *axis);
/* Prints, in a prepare function, the addition of the loops' tasks to `target`; and, in a run
 * function, the loops for their part of tasks [begin, end), which starts at the C variable `base`
 * and moves it on. */
void cv_loops_tasks(cv_emit *emit, const cv_loops *loops, const char *target);
void cv_loops_write(cv_emit *emit, const cv_loops *loops);
/* How many of the index expressions used walk `axis` element by element. */
int cv_loops_contiguous(cv_emit *emit, const cv_digit *axis);

#endif
