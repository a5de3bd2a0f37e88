/* A worker: an executor that follows the coordinator. */
#ifndef CV_WORKERS_CHILD_H
#define CV_WORKERS_CHILD_H

#include "workers/options.h"

/* Runs until the coordinator says stop; returns the exit code of the process. Failures are told to
 * the coordinator, or on stderr with rank and host where there is none. Blocks. */
int cv_child_run(const cv_worker_options *options);

#endif
