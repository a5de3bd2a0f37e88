/* What the contraction templates share: register tiles. A tile is `rows` x `vectors` accumulators,
 * named one by one (arrays of accumulators are not kept in registers by every compiler); the order
 * of arithmetic of an element is k ascending whatever the tile, so any tiling gives the same bits.
 */
#ifndef CV_COMPILER_GEMM_INTERNAL_H
#define CV_COMPILER_GEMM_INTERNAL_H

#include "compiler/render_internal.h"

typedef struct {
  cv_dtype acc; /* accumulator and panel element type: f32, f64, or an integer of 4 or 8 bytes */
  const char *element; /* its C type */
  int lanes;           /* of its vectors */
  int rows, vectors;   /* largest tile */
  int columns;         /* vectors * lanes: width of a packed panel */
} cv_gemm;

/* The tile of a target for an accumulator type and an extent of columns known to be at most
 * `columns` (<= 0: unknown). */
void cv_gemm_init(const cv_target *target, cv_dtype acc, int64_t columns, cv_gemm *out_gemm);
/* What the kernels accumulate in for operands of this dtype and this result. */
cv_dtype cv_gemm_acc(cv_dtype operand, cv_dtype result);

/* C name of the tile function
 *   static void NAME(int rows, int columns, const E *a, int64_t as, int64_t ak, const E *b, int64_t
 * k, E *c, int64_t cs, int add) c[i][j] (+)= sum over k of a[i*as + k*ak] * b[k*panel + j] for i <
 * rows, all lanes of the vectors that hold j < columns; b is a packed panel (aligned to its
 * vectors), c is scratch with rows of at least a panel's width. */
const char *cv_gemm_name(cv_emit *emit, const cv_gemm *gemm);
/* The text of that function for every name that occurs in `code`; the prelude must be before it. */
void cv_gemm_prelude(const cv_target *target, const char *code, cv_str *out);

#endif
