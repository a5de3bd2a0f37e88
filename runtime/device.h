/* Devices: one const struct of functions a kind, in the table of device.c. A device loads slices of
 * an artifact and runs them; a slice is a stage's program with weights packed and buffers planned.
 */
#ifndef CV_RUNTIME_DEVICE_H
#define CV_RUNTIME_DEVICE_H

#include <stdint.h>

#include "base/status.h"
#include "runtime/artifact.h"
#include "runtime/tensor.h"
#include "transport/transport.h" /* cv_memory_kind */

typedef struct cv_device cv_device;
typedef struct cv_slice cv_slice;

typedef struct {
  const char *name;   /* of the device, for sentences and reports */
  const char *kind;   /* "cpu", "paced" */
  int threads;        /* compute threads, >= 1 */
  const char *target; /* target of the artifact by name; NULL: the best this CPU runs */
  uint64_t memory;    /* budget in bytes for weights, arena and scratch; 0: no limit */
  double pace_us; /* paced: true result, then sleeps until this many microseconds have passed since
                     the start */
  double pace_us_per_step; /* paced: the same per step of the slice */
} cv_device_spec;

/* One run's outcome per step, for profiles and traces. */
typedef struct {
  int64_t begin_ns, end_ns; /* CLOCK_MONOTONIC; 0, 0: the step was guarded out */
} cv_step_time;

/* A run. `symbols` has one entry for each symbol of the program, CV_UNBOUND where there is no
 * value; the run binds more. Inputs and outputs follow cv_slice_ins / cv_slice_outs. */
typedef struct {
  int64_t *symbols;
  const cv_tensor *ins;
  cv_tensor *outs;
  /* Called once per output as soon as its dims are known: `tensor` has dtype, rank, dims, bytes;
   * the callee sets `data` (64-byte aligned; at least bytes; `owned` says who frees). Not called
   * for an absent output. */
  cv_status (*place)(void *context, uint32_t index, cv_tensor *tensor);
  void *context;
  cv_step_time *times; /* one per step of the slice, or NULL */
} cv_run;

typedef struct {
  uint64_t weights; /* bytes: packed and raw weights that stay in memory */
  uint64_t arena;   /* bytes of activations at the shapes seen */
  uint64_t scratch;
} cv_slice_memory;

typedef struct cv_device_ops {
  const char *kind;
  cv_memory_kind memory;
  /* Opens a device. CV_CPU, CV_INVALID, CV_NOMEM. The spec is copied. */
  cv_status (*open)(const cv_device_spec *spec, cv_device **out_device);
  void (*close)(cv_device *device);
  /* Loads steps [first, last] of the artifact (kept open by the caller until unload): checks blobs,
   * packs weights, shares packed weights with slices of the same artifact that are loaded already
   * (counted). CV_CORRUPT, CV_CPU, CV_INFEASIBLE (memory: needed and there), CV_NOMEM. May take
   * long; one thread at a time per device. */
  cv_status (*load)(cv_device *device, cv_artifact *artifact, uint32_t first, uint32_t last,
                    cv_slice **out_slice);
  void (*unload)(cv_slice *slice);
  /* Runs. Blocks until the outputs are there. A compute thread's call, one at a time per device.
   * Allocates only for a shape not seen before. CV_INVALID with a sentence naming the step, or the
   * input that does not fit. */
  cv_status (*run)(cv_slice *slice, cv_run *run);
  void (*memory_used)(const cv_slice *slice, cv_slice_memory *out_memory);
} cv_device_ops;

/* First member of each device and slice. */
struct cv_device {
  const cv_device_ops *ops;
};
struct cv_slice {
  const cv_device_ops *ops;
  cv_artifact *artifact;
  uint32_t first, last;
  uint32_t n_ins, n_outs;
  uint32_t *ins, *outs; /* value ids: cv_program_slice_ports */
};

/* The table's rows, NULL-terminated, and the row of a kind: NULL if there is none. */
const cv_device_ops *const *cv_device_table(void);
const cv_device_ops *cv_device_find(const char *kind);

/* Through the vtable. */
CV_NODISCARD cv_status cv_device_open(const cv_device_spec *spec, cv_device **out_device);
void cv_device_close(cv_device *device); /* accepts NULL */
CV_NODISCARD cv_status cv_device_load(cv_device *device, cv_artifact *artifact, uint32_t first,
                                      uint32_t last, cv_slice **out_slice);
void cv_slice_unload(cv_slice *slice); /* accepts NULL */
CV_NODISCARD cv_status cv_slice_run(cv_slice *slice, cv_run *run);
void cv_slice_memory_used(const cv_slice *slice, cv_slice_memory *out_memory);

/* Checks a request's inputs (program inputs order) against the program and binds the symbols that
 * their dims and values give: `symbols` has cv_exprs_symbols entries, all set here. CV_INVALID
 * names input, shape wanted, shape given. Used by whoever takes requests in (gateway, `cuvil run`).
 */
CV_NODISCARD cv_status cv_program_bind_inputs(const cv_program *program, const cv_tensor *inputs,
                                              int64_t *symbols);

#endif
