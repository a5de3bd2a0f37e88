/* Plans of a job: given or made, and who of its members runs which stage: the PREPARE message. */
#ifndef CV_COORDINATOR_ASSIGN_H
#define CV_COORDINATOR_ASSIGN_H

#include "base/arena.h"
#include "coordinator/messages.h"
#include "runtime/plan_json.h"
#include "runtime/program.h"

typedef struct {
  const char *path;      /* of a plan; NULL: it is made */
  const char *devices;   /* YAML; NULL: each worker is a cpu device "w0", "w1", ... */
  int stages;            /* of a made plan; 0: with `devices` the fastest, else one a worker */
  int micro_batch;       /* 0: the plan's, or 1 */
  int threads;           /* 0: the plan's, or 1 */
  const char *transport; /* of all edges; NULL: shm within a host, else ucx */
} cv_assign_options;

/* The members that have joined, in the order of ranks; the gateway last. */
typedef struct {
  const cv_msg_hello *hellos; /* [workers + 1] */
  uint32_t workers;
} cv_assign_members;

/* A plan with its members. Zero-initialise. */
typedef struct {
  cv_plan_json plan;
  cv_arena arena;
  cv_msg_prepare prepare; /* term, number, trace are the caller's to set */
} cv_assigned;

/* Reads or makes the plan and assigns its stages. A device of `devices` runs on a worker of its
 * host, any other device on the next free worker; stages of one device share its worker.
 * CV_INFEASIBLE: more devices than workers, or what the planner says; CV_IO, CV_INVALID, CV_NOMEM.
 * Deinit in any case. Blocks (files). */
CV_NODISCARD cv_status cv_assign(const cv_program *program, const cv_assign_options *options,
                                 const cv_assign_members *members, cv_assigned *out_assigned);
void cv_assigned_deinit(cv_assigned *assigned);

/* A deployment's number, from its program's hash. */
uint64_t cv_assign_deployment(const cv_program *program);

#endif
