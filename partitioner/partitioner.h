/* The planner: arrays in, plan out. Pure and deterministic: no files, threads or clocks.
 *
 * A stage is a slice of steps [first, last] on one device. Its time per micro-batch is
 *   max(compute + CPU cost of copies unless a core is free, wire in, wire out)
 * where compute = (steps + unpack at its first cut + pack at its last cut) / speed, never less than
 * the device's pace; wire in = sum over its in-edges of bytes / bandwidth, wire out likewise. A
 * value goes straight from the stage that makes it to every stage that reads it, and is counted on
 * each of these edges. The gateway is source of the graph inputs and sink of the graph outputs; its
 * hops are links too, and its own wires count. The bottleneck is the largest of all these. Memory
 * of a stage: its distinct weights as packed, the largest step buffer, 2s + 1 slots for an edge
 * that jumps s stages, and `out_buffers` times what it sends. */
#ifndef CV_PARTITIONER_PARTITIONER_H
#define CV_PARTITIONER_PARTITIONER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "partitioner/plan.h"

/* A value that may cross a cut. Reader n_steps is the gateway: a graph output. */
typedef struct {
  int producer;       /* step, or CV_PLAN_GATEWAY for a graph input */
  int n_readers;      /* >= 0 */
  const int *readers; /* ascending, all > producer */
  uint64_t bytes_fixed, bytes_per_item;
} cv_plan_value;

typedef struct {
  uint64_t bytes; /* where a kind does not say its own */
  int n_readers;
  const int *readers; /* steps, ascending */
} cv_plan_weight;

/* Device kind: what the profile or the roofline says of it. Times at the sizes of the input. */
typedef struct {
  const char *name;
  const double *step_us;        /* [n_sizes][n_steps] */
  const double *pack_us;        /* [n_sizes][n_steps + 1] by cut, or NULL: no cost */
  const double *unpack_us;      /* likewise */
  const uint64_t *weight_bytes; /* [n_weights] as packed for this kind, or NULL */
} cv_plan_kind;

typedef struct {
  const char *name;
  const char *host;        /* may be NULL */
  int kind;                /* index into kinds */
  double speed;            /* 1: as the kind's times; 2: twice as fast */
  uint64_t memory;         /* bytes; 0: not stated, taken as enough */
  int cores;               /* 0: not stated, taken as no core to spare */
  double pace_us;          /* a stage takes at least this; 0: none */
  double pace_us_per_step; /* and at least this times its steps */
} cv_plan_device;

/* One direction between two devices. */
typedef struct {
  double bytes_per_us; /* INFINITY: costs nothing */
  double latency_us;
  double send_us_per_byte, receive_us_per_byte; /* CPU cost of the copies at each end */
} cv_plan_link;

typedef struct {
  int n_steps, n_values, n_weights, n_kinds, n_devices, n_sizes;
  const int *sizes; /* micro-batch sizes of the times, ascending; between them linear */
  const cv_plan_value *values;
  const cv_plan_weight *weights;
  const uint64_t *buffer_fixed;    /* [n_steps] arena bytes a step needs, or NULL */
  const uint64_t *buffer_per_item; /* likewise */
  const uint8_t *legal; /* [n_steps + 1]: a cut before this step is legal; NULL: all are */
  const cv_plan_kind *kinds;
  const cv_plan_device *devices;
  const cv_plan_link *links; /* [n_devices + 1][n_devices + 1], from row to column; last: gateway */
  const char *artifact;      /* hash for the plan, or NULL */

  int stages;      /* exactly so many; 0: as many of the devices as make the pipe fastest */
  bool ordered;    /* devices keep their order (some may be left out); else any order */
  int micro_batch; /* items, >= 1 */
  int threads;     /* of a stage, >= 1: a core is free when a device has more cores than this */
  int out_buffers; /* of a stage; 0: 2 */
  int64_t effort;  /* limit on the stages looked at; 0: 50,000,000 */
} cv_plan_input;

/* The plan with the smallest bottleneck, of these the one with fewest stages. Exact (plan.exact)
 * unless `effort` ends the search, or there are so many unlike devices in free order that only the
 * given order and the order by speed are tried; bound_us is proved in every case.
 * CV_INVALID: the input contradicts itself. CV_INFEASIBLE: "stage k on D needs X bytes, has Y", or
 * "M stages asked but the program has N steps ...". The plan is the caller's (cv_plan_deinit). */
CV_NODISCARD cv_status cv_partition(const cv_plan_input *input, cv_plan *out_plan);

/* Predicts a given split: stage i runs the steps before cuts[i] (cuts[n_stages - 1] = n_steps) on
 * devices[i] (an index). CV_INVALID for a cut that is not legal or not ascending, or a device used
 * twice; CV_INFEASIBLE when a stage does not fit. bound_us is that of this very split. */
CV_NODISCARD cv_status cv_plan_predict(const cv_plan_input *input, int n_stages, const int *cuts,
                                       const int *devices, cv_plan *out_plan);

/* Fills links[(n_devices + 1)^2]: `loopback` between devices of one host (hosts that are NULL are
 * taken as one, the gateway's is `gateway_host`), `network` between others. */
void cv_plan_links_default(const cv_plan_device *devices, int n_devices, const char *gateway_host,
                           const cv_plan_link *loopback, const cv_plan_link *network,
                           cv_plan_link *links);

#endif
