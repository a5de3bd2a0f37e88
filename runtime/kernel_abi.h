/* Kernel ABI, version 1: what a target's code blob exports. Generated C includes this text
 * verbatim, so it stands alone and uses only C11 and stdint. A blob is a shared object with one
 * symbol, `cv_kernels`, of type cv_kernel_table. */
#ifndef CV_KERNEL_ABI_H
#define CV_KERNEL_ABI_H

#include <stdint.h>

enum { CV_KERNEL_ABI = 1, CV_KERNEL_MAX_PHASES = 4 };

/* What one call of a kernel needs for the dims at hand. Between phases there is a barrier. */
typedef struct {
  int32_t phases;
  int64_t tasks[CV_KERNEL_MAX_PHASES]; /* independent tasks of each phase; any split of them gives
                                          the same bits */
  int64_t scratch_thread; /* bytes of private scratch for each thread, 64-byte aligned */
  int64_t scratch_shared; /* bytes shared by all threads of the call, 64-byte aligned */
} cv_kernel_plan;

typedef struct {
  /* Fills *plan. `dims`: the values of the rendering's dim expressions, in its order. Returns 0, or
   * non-zero for dims the kernel cannot take (the runtime then stops with a sentence). Pure. */
  int (*prepare)(const int64_t *dims, cv_kernel_plan *plan);
  /* Runs tasks [begin, end) of a phase on thread `thread`. ptrs: the step's inputs in order, its
   * outputs in order, then the packed weights. An input that is only read through its packed form
   * may be NULL. No allocation, no globals. Returns 0, or a code: 1 index out of range, 2 value out
   * of range, 3 other bad input data. */
  int (*run)(int phase, int64_t begin, int64_t end, int thread, void *const *ptrs,
             const int64_t *dims, void *scratch_thread, void *scratch_shared);
  /* Writes packed weight number `which` from the step's const inputs (`ptrs`: as above, inputs
   * only) to `out`. NULL if the rendering packs nothing. Runs at load. */
  int (*pack)(int which, void *const *ptrs, const int64_t *dims, void *out);
} cv_kernel;

typedef struct {
  int32_t abi;   /* CV_KERNEL_ABI */
  int32_t count; /* kernels */
  const cv_kernel *kernels;
} cv_kernel_table;

#endif
