/* A whole pipeline in one process: an executor for each stage over inproc, the gateway on the
 * calling thread. For `cuvil run`, and to compare splits: plans are taken up one after another. One
 * thread; calls block. */
#ifndef CV_GATEWAY_PIPELINE_H
#define CV_GATEWAY_PIPELINE_H

#include <stdint.h>

#include "base/status.h"
#include "gateway/gateway.h"

typedef struct cv_pipeline cv_pipeline;

enum { CV_PIPELINE_STAGES = 64 };

typedef struct {
  cv_artifact *artifact;                                 /* outlives the pipeline */
  uint32_t max_requests;                                 /* admitted at once; 0: 64 */
  uint32_t trace_events;                                 /* per thread; 0: no trace */
  int64_t watchdog_ns;                                   /* 0: 5 s; what waits longer is logged */
  const cv_device_ops *(*find_device)(const char *kind); /* NULL: cv_device_find */
} cv_pipeline_options;

CV_NODISCARD cv_status cv_pipeline_create(const cv_pipeline_options *options,
                                          cv_pipeline **out_pipeline);
void cv_pipeline_destroy(cv_pipeline *pipeline); /* accepts NULL */

typedef struct {
  const cv_span *spans;          /* [n_stages] */
  int n_stages;                  /* 1 to CV_PIPELINE_STAGES */
  const cv_device_spec *devices; /* [n_stages] */
  int64_t micro_batch;           /* items; 0: whole requests */
  uint32_t window;               /* micro-batches in flight; 0: 2 x stages + 2 */
  uint32_t out_buffers;          /* of each stage; 0: 3 */
  const int64_t *symbols;        /* of a typical micro-batch, see cv_edges_derive; or NULL */
} cv_pipeline_plan;

/* Takes the plan up: loads its stages, goes over to it, unloads those of the plan before. On
 * failure the plan before stays. */
CV_NODISCARD cv_status cv_pipeline_use(cv_pipeline *pipeline, const cv_pipeline_plan *plan);

/* Submits the requests in order and returns when all are answered: `on_answer` gets each. The first
 * `count` requests' tensors are taken over, also on failure. Fails with the first request that is
 * refused, or when the plan's stages fail: then on_answer has come for all that were admitted. */
typedef void (*cv_pipeline_answer)(void *arg, const cv_answer *answer);
CV_NODISCARD cv_status cv_pipeline_run(cv_pipeline *pipeline, const cv_request *requests,
                                       size_t count, cv_pipeline_answer on_answer, void *arg);

/* What stage `stage` of the plan did so far. */
CV_NODISCARD cv_status cv_pipeline_read(cv_pipeline *pipeline, int stage,
                                        cv_stage_report *out_report);
/* Takes the trace events so far (of all threads) and writes them to a file. */
CV_NODISCARD cv_status cv_pipeline_write_trace(cv_pipeline *pipeline, const char *path);

#endif
