/* A plan as JSON, the form of docs/commands.md, and its check against an artifact. */
#ifndef CV_RUNTIME_PLAN_JSON_H
#define CV_RUNTIME_PLAN_JSON_H

#include <stddef.h>

#include "base/str.h"
#include "runtime/program.h"

typedef struct {
  uint32_t first, last; /* steps, `last` inclusive */
  uint32_t n_devices;   /* 1, or the replicas */
  char **devices;       /* names */
  double *weights;      /* one a device, > 0; all 1 where the file has none */
  double predicted_us;  /* per micro-batch; 0: not predicted */
} cv_plan_json_stage;

typedef struct {
  char *artifact;  /* hash of the program; NULL: of any */
  uint32_t *order; /* a permutation of the steps; NULL: the artifact's order */
  uint32_t n_order, n_stages;
  cv_plan_json_stage *stages;
  int micro_batch, threads; /* 1 where the file says nothing */
  double rate;              /* predicted items per second; 0: not predicted */
  double latency_us;        /* predicted, of one micro-batch in an empty pipeline */
  double bottleneck_us;     /* predicted time between micro-batches */
  double bound_us;          /* no plan has a smaller bottleneck; 0: not known */
  char *reason;             /* a sentence; NULL: none */
} cv_plan_json;

/* Frees what the plan holds and zeroes it; accepts zeroed and half-built ones. */
void cv_plan_json_deinit(cv_plan_json *plan);

/* Parses a plan; `where` (a path) begins sentences. Unknown fields are left alone. CV_INVALID names
 * the field; CV_NOMEM. */
CV_NODISCARD cv_status cv_plan_json_parse(const char *where, const char *text, size_t bytes,
                                          cv_plan_json *out_plan);
/* The same from a file. CV_IO too. */
CV_NODISCARD cv_status cv_plan_json_read(const char *path, cv_plan_json *out_plan);
/* Appends the plan as JSON with a newline. CV_NOMEM. */
CV_NODISCARD cv_status cv_plan_json_print(const cv_plan_json *plan, cv_str *out);
/* Checks the plan against an artifact's program: hash, stages without gap from the first step to
 * the last, legal cuts, order. CV_INVALID names stage or field; CV_UNSUPPORTED for an order other
 * than the artifact's. */
CV_NODISCARD cv_status cv_plan_json_check(const cv_plan_json *plan, const char *where,
                                          const cv_program *program);

#endif
