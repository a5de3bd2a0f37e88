/* Discrete-event simulation of a pipeline over the schedule of base/schedule.h: what rate a plan
 * reaches with its windows, and where each stage's time goes. Pure and deterministic. */
#ifndef CV_PARTITIONER_SIMULATE_H
#define CV_PARTITIONER_SIMULATE_H

#include <stdint.h>

#include "base/status.h"
#include "partitioner/plan.h"

typedef struct {
  int n_stages, n_edges;
  const double *compute_us;  /* [n_stages] compute and copies */
  const cv_plan_edge *edges; /* from, to, transfer_us, latency_us, slots */
  int out_buffers;           /* >= 1 */
  int in_flight;             /* micro-batches the gateway admits; 0: no limit */
  int64_t micro_batches;     /* how many run, >= 2 */
} cv_simulation;

/* Microseconds; the first three add up to `wall_us`. */
typedef struct {
  double compute_us, blocked_send_us, waiting_us, wall_us;
} cv_simulation_lane;

typedef struct {
  double period_us;          /* steady time between answers (over the second half) */
  double latency_us;         /* of the first micro-batch */
  double wall_us;            /* until the last answer */
  cv_simulation_lane *lanes; /* [n_stages] */
} cv_simulation_result;

/* Runs it. A stage, and the gateway, has one wire for what comes in and one for what goes out, each
 * serial, as the planner counts them: the oldest send takes the sender's, and the receiver's from
 * then on as soon as that is free. A grant takes the edge's latency. CV_FAILED, naming who waits
 * for whom, if the pipeline stops before the end. */
CV_NODISCARD cv_status cv_simulate(const cv_simulation *simulation,
                                   cv_simulation_result *out_result);
/* The simulation of a plan, borrowing its edges; `compute_us` has room for n_stages. */
void cv_simulation_of_plan(const cv_plan *plan, int64_t micro_batches, double *compute_us,
                           cv_simulation *out_simulation);
void cv_simulation_deinit(cv_simulation_result *result);

#endif
