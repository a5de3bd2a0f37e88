/* The supervisor: one small process a rank, known to the launcher, that starts the rank's children
 * (a worker; for rank 0 also coordinator and gateway), waits for them and passes on how they ended.
 * It has no transport, and no thread but PMIx's own. */
#ifndef CV_WORKERS_SUPERVISOR_H
#define CV_WORKERS_SUPERVISOR_H

#include "workers/options.h"

/* Runs the rank; returns the exit code of the process. A child that is killed counts as a lost peer
 * (4) and ends the others; so does the end of the launcher. Children never outlive it. Blocks. */
int cv_supervisor_run(const cv_worker_options *options);

#endif
