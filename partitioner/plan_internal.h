/* Plans out of paths, private to partitioner/. */
#ifndef CV_PARTITIONER_PLAN_INTERNAL_H
#define CV_PARTITIONER_PLAN_INTERNAL_H

#include "partitioner/model_internal.h"

/* A plan without bound and reason. CV_INFEASIBLE when a stage does not fit its memory. The plan is
 * the caller's. */
CV_NODISCARD cv_status cv_plan_of_path(const cv_model *model, const cv_path_stage *path, int n,
                                       cv_plan *plan);

/* Moves cuts so that neighbours are even and little crosses, without a worse bottleneck than
 * `limit`. */
CV_NODISCARD cv_status cv_plan_even_out(const cv_model *model, double limit, cv_path_stage *path,
                                        int n);

#endif
