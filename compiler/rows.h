/* What rows.c finds out about a body with reduces, for render_row.c. */
#ifndef CV_COMPILER_ROWS_H
#define CV_COMPILER_ROWS_H

#include "compiler/loops.h"

/* A row value that is costly and wanted in a later pass: kept in scratch. */
typedef struct {
  cv_val value;
  int pass;         /* that computes it */
  const char *text; /* C pointer */
} cv_row_cache;

/* The dims of `domain` are walked as rows (the axes in `inner`) of outer positions. Pass p computes
 * the reduces whose operand has level p, the last one the results that are rows. */
typedef struct {
  cv_emit *emit;
  cv_val domain;
  uint32_t inner; /* mask of axes */
  int n_passes;   /* with reduces */
  int *level;     /* by value: reduces on the longest way from the params */
  bool **needed;  /* by pass (n_passes + 1 of them) and value */
  int n_caches;
  cv_row_cache *caches;
  bool vertical; /* lanes run along an outer axis, each lane has its own row */
} cv_rows;

void cv_rows_find(cv_emit *emit, cv_rows *out_rows);
/* True if v has the domain's dims. */
bool cv_rows_is_row(const cv_rows *rows, cv_val v);
/* What a result is before final reshapes and transposes. */
cv_val cv_rows_base(const cv_rows *rows, cv_val result);

#endif
