/* The CPU device and what its slices share: memory, code, the account. Private to runtime/cpu*.c,
 * loop.c and paced.c.
 *
 * Threads: load and unload on one thread at a time, run on one at a time; both may overlap, so what
 * they share (weights, code, the account) is behind the device's lock. */
#ifndef CV_RUNTIME_CPU_DEVICE_INTERNAL_H
#define CV_RUNTIME_CPU_DEVICE_INTERNAL_H

#include <pthread.h>

#include "base/thread.h"
#include "base/vec.h"
#include "runtime/device_internal.h"
#include "runtime/kernel_abi.h"

/* Memory in whole: 2 MiB pages where it is large. */
typedef struct {
  void *base;
  uint64_t bytes;  /* as asked for */
  uint64_t mapped; /* bytes of the mapping; 0: from the heap */
} cpu_region;

/* Zeroed, 64-byte aligned, 2 MiB aligned when large. CV_NOMEM. */
CV_NODISCARD cv_status cpu_region_alloc(uint64_t bytes, cpu_region *out_region);
void cpu_region_free(cpu_region *region);

/* Packed weights that were loaded together; unmapped when the last is released. */
typedef struct {
  cpu_region region;
  uint32_t weights;
} cpu_slab;

/* A packed weight of a rendering, or a const that is read as it is; counted. */
typedef struct {
  const void *owner; /* the rendering, or the const */
  uint32_t which;    /* number of the pack */
  uint32_t refs;
  uint64_t bytes;
  const void *data;
  cpu_slab *slab; /* NULL: in the artifact's mapping */
} cpu_weight;

/* A target's code, loaded; counted. */
typedef struct {
  const cv_target_code *target;
  uint32_t refs;
  int fd; /* open as long as the code is loaded: the loader knows it by this number's path */
  void *handle;
  const cv_kernel_table *table;
} cpu_code;

typedef struct {
  cv_device base;
  char *name, *target;
  uint64_t limit; /* bytes; 0: none */
  int threads;
  cv_pool *pool;
  pthread_mutex_t lock; /* of what follows */
  uint64_t used;
  cv_vec(cpu_weight *) weights;
  cv_vec(cpu_code *) codes;
} cpu_device;

/* Takes bytes from the budget: CV_INFEASIBLE says what for, needed and there. */
CV_NODISCARD cv_status cpu_reserve(cpu_device *device, uint64_t bytes, const char *what);
void cpu_unreserve(cpu_device *device, uint64_t bytes);
/* Makes the region at least this large, within the budget; the contents are lost. */
CV_NODISCARD cv_status cpu_region_grow(cpu_device *device, cpu_region *region, uint64_t bytes,
                                       const char *what);
void cpu_region_release(cpu_device *device, cpu_region *region);

CV_NODISCARD cv_status cpu_code_acquire(cpu_device *device, const cv_artifact *artifact,
                                        uint32_t target, cpu_code **out_code);
void cpu_code_release(cpu_device *device, cpu_code *code); /* accepts NULL */

#endif
