/* The command line of cuvil-worker. */
#ifndef CV_WORKERS_OPTIONS_H
#define CV_WORKERS_OPTIONS_H

#include "base/options.h"
#include "base/vec.h"
#include "runtime/request_set.h"

typedef struct {
  const char *artifact;
  cv_request_options request; /* the gateway's */
  const char *plan, *plans, *devices, *transport, *trace, *report;
  int64_t stages, micro_batch, threads;
  const char *bind;
  /* of a child, set by its supervisor */
  const char *control;
  int64_t rank, workers;
} cv_worker_options;

/* Parses; `--help` and `--version` end the process. CV_INVALID. */
CV_NODISCARD cv_status cv_worker_options_parse(int argc, char **argv,
                                               cv_worker_options *out_options);

/* Words of a command line being made. Zero-initialise; the words are borrowed but numbers, which
 * live as long as the process. */
typedef cv_vec(const char *) cv_words;

/* The words of a child that runs the artifact: program, artifact, then what is set of the options
 * that this child takes, ending with NULL. CV_NOMEM. */
typedef enum { CV_CHILD_COORDINATOR, CV_CHILD_GATEWAY, CV_CHILD_WORKER, CV_CHILDREN } cv_child_kind;
CV_NODISCARD cv_status cv_worker_options_forward(const cv_worker_options *options,
                                                 cv_child_kind kind, const char *program,
                                                 cv_words *out_words);

#endif
