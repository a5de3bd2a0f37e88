/* A plan: which steps run on which device, with what is predicted of it. Maps one to one to the
 * JSON form of docs/commands.md; reading and writing that form is the runtime's. */
#ifndef CV_PARTITIONER_PLAN_H
#define CV_PARTITIONER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/* The gateway, source and sink of the pipeline, in the place of a stage or of a device. */
enum { CV_PLAN_GATEWAY = -1 };

typedef struct {
  char *device;     /* its name */
  int device_index; /* in the planner's input */
  int first, last;  /* steps, `last` inclusive */
  double us;        /* max(compute_us + copy_us, wire_in_us, wire_out_us), per micro-batch */
  double compute_us, copy_us, wire_in_us, wire_out_us;
  uint64_t memory_bytes; /* weights, buffers, slots and output buffers */
} cv_plan_stage;

typedef struct {
  int from, to;       /* stages, or CV_PLAN_GATEWAY */
  uint64_t bytes;     /* per micro-batch; 0: a header alone, which paces a stage without inputs */
  double transfer_us; /* the time the wire is busy */
  double latency_us;  /* the link's, on top */
  int slots;          /* in the consumer */
} cv_plan_edge;

typedef struct {
  char *artifact; /* hash of the artifact, or NULL */
  int *order;     /* permutation of the steps, or NULL: the artifact's */
  int n_stages, n_edges;
  cv_plan_stage *stages;
  cv_plan_edge *edges; /* by consumer (the gateway last), then by producer (the gateway first) */
  int micro_batch;     /* items */
  int threads;
  int out_buffers;      /* of every stage */
  double bottleneck_us; /* predicted time between micro-batches */
  double rate;          /* predicted items per second */
  double latency_us;    /* predicted time of one micro-batch in an empty pipeline */
  double bound_us;      /* no plan of what was asked has a smaller bottleneck: proved */
  bool exact;           /* bottleneck_us is that bound */
  char *reason;         /* a sentence for people */
} cv_plan;

/* Frees what the plan holds and clears it; accepts a zeroed plan. */
void cv_plan_deinit(cv_plan *plan);

#endif
