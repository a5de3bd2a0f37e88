/* From a program to the planner's arrays, and from its answer to a plan of this artifact. */
#ifndef CV_COORDINATOR_PLAN_PROGRAM_H
#define CV_COORDINATOR_PLAN_PROGRAM_H

#include <stdint.h>

#include "base/status.h"
#include "coordinator/profile.h"
#include "partitioner/partitioner.h"
#include "runtime/plan_json.h"
#include "runtime/program.h"

typedef struct {
  const cv_plan_device *devices;
  int n_devices;
  const cv_plan_link *links; /* [n_devices + 1][n_devices + 1], or NULL: loopback everywhere */
  const char *const *kinds;  /* names of the kinds that devices[i].kind counts */
  int n_kinds;
  const cv_profile *const *profiles; /* [n_kinds]; NULL entries: a roofline stands in */
  const int64_t *symbols; /* values by symbol for a micro-batch of one; NULL: cv_plan_symbols */
  int stages;             /* exactly so many; 0: as many as make the pipe fastest */
  bool ordered;
  int micro_batch, threads;
} cv_plan_request;

/* Values of all symbols for planning where no request says them: 1 for the batch, the middle of
 * small bounds, at most 128 else. `out_symbols` has an entry for each symbol. */
void cv_plan_symbols(const cv_program *program, int64_t *out_symbols);

/* Plans. The reason says where times were not measured but estimated. CV_INFEASIBLE, CV_INVALID,
 * CV_NOMEM as cv_partition. */
CV_NODISCARD cv_status cv_plan_program(const cv_program *program, const cv_plan_request *request,
                                       cv_plan *out_plan);
/* Predicts a given split: stage i runs the steps before cuts[i] on devices[i], as cv_plan_predict.
 */
CV_NODISCARD cv_status cv_plan_program_predict(const cv_program *program,
                                               const cv_plan_request *request, int n_stages,
                                               const int *cuts, const int *devices,
                                               cv_plan *out_plan);

/* The plan in the form that files have; owned by the caller (cv_plan_json_deinit). CV_NOMEM. */
CV_NODISCARD cv_status cv_plan_to_json(const cv_plan *plan, cv_plan_json *out_json);

#endif
