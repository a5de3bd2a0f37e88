/* Measured times of a program's steps on one kind of device: what `cuvil profile` writes and the
 * planner reads. */
#ifndef CV_COORDINATOR_PROFILE_H
#define CV_COORDINATOR_PROFILE_H

#include <stdint.h>

#include "base/status.h"
#include "runtime/program.h"

typedef struct {
  char artifact[33]; /* hash of the program measured */
  char *kind;        /* device kind */
  char *device;      /* for people: CPU model */
  int threads;
  int n_sizes, n_steps;
  int *sizes;      /* micro-batch sizes, ascending */
  double *step_us; /* [n_sizes][n_steps], microseconds */
} cv_profile;

/* Reads and checks a profile (JSON). CV_INVALID names file and field; a profile of another artifact
 * is refused by name when `program` is given. */
CV_NODISCARD cv_status cv_profile_read(const char *path, const cv_program *program,
                                       cv_profile *out_profile);
/* Writes it; the file is whole or not there. */
CV_NODISCARD cv_status cv_profile_write(const cv_profile *profile, const char *path);
/* Accepts zeroed. */
void cv_profile_deinit(cv_profile *profile);

#endif
