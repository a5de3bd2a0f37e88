/* Runs a whole artifact in this process on one device: what `run` without cuts, `bench` and
 * `profile` share. */
#ifndef CV_CLI_RUNNER_H
#define CV_CLI_RUNNER_H

#include "runtime/artifact.h"
#include "runtime/device.h"

typedef struct {
  cv_artifact *artifact; /* borrowed */
  const cv_program *program;
  cv_device *device;
  cv_slice *slice;
  int64_t *symbols; /* after a run: all values bound */
  cv_tensor
      *outs; /* the last run's, in program outputs' order; owned here, overwritten by the next */
  uint64_t *capacity;      /* bytes there */
  uint32_t *slot_of;       /* program output -> slice output */
  cv_tensor *ins, *placed; /* in the slice's orders */
  cv_step_time *times;
} cv_runner;

/* Opens the device and loads all steps. CV_CPU, CV_CORRUPT, CV_INFEASIBLE, CV_NOMEM. Deinit in any
 * case. */
CV_NODISCARD cv_status cv_runner_init(cv_runner *runner, cv_artifact *artifact,
                                      const cv_device_spec *spec);
/* One request: `inputs` in program inputs' order. */
CV_NODISCARD cv_status cv_runner_run(cv_runner *runner, const cv_tensor *inputs);
/* Moves each state output into its input: `inputs` must own those tensors. */
CV_NODISCARD cv_status cv_runner_carry_state(const cv_runner *runner, cv_tensor *inputs);
void cv_runner_deinit(cv_runner *runner);

/* Inputs made up where the user gives none: dims from `symbols` (cv_plan_symbols), small numbers of
 * a fixed seed; integer inputs 0 or 1. Owned by the caller (n_inputs tensors). */
CV_NODISCARD cv_status cv_inputs_make(const cv_program *program, const int64_t *symbols,
                                      cv_tensor *inputs);

#endif
