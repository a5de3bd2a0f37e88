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

/* Words of a command line being made, owned; the last is NULL once it is whole. Zero-initialise. */
typedef cv_vec(char *) cv_words;
/* Appends a copy; NULL ends the line. False: out of memory. */
CV_NODISCARD bool cv_words_push(cv_words *words, const char *text);
void cv_words_deinit(cv_words *words);

/* The words of a child that runs the artifact: program, artifact, then what is set of the options
 * that this child takes, ending with NULL. CV_NOMEM. */
typedef enum { CV_CHILD_COORDINATOR, CV_CHILD_GATEWAY, CV_CHILD_WORKER, CV_CHILDREN } cv_child_kind;
CV_NODISCARD cv_status cv_worker_options_forward(const cv_worker_options *options,
                                                 cv_child_kind kind, const char *program,
                                                 cv_words *out_words);

#endif
