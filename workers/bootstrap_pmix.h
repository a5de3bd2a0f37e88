/* How the ranks of a job find each other: by PMIx under mpirun; without a launcher a process is a
 * job of one. One thread. */
#ifndef CV_WORKERS_BOOTSTRAP_PMIX_H
#define CV_WORKERS_BOOTSTRAP_PMIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
  bool launched; /* by a PMIx launcher */
  uint32_t rank, size;
  char host[256];
  bool one_host;       /* after cv_bootstrap_exchange: all ranks are on this host */
  char root_host[256]; /* of rank 0 */
} cv_bootstrap;

/* What rank 0 tells all: where the coordinator listens, and the job's secret. */
typedef struct {
  char control[64], token[80];
} cv_bootstrap_card;

/* CV_FAILED: the launcher does not answer. */
CV_NODISCARD cv_status cv_bootstrap_begin(cv_bootstrap *out_bootstrap);
/* Rank 0 gives its card, the others get it. Blocks until all ranks are here, at most a minute.
 * CV_FAILED, CV_TIMEOUT. */
CV_NODISCARD cv_status cv_bootstrap_exchange(cv_bootstrap *bootstrap, cv_bootstrap_card *card);
/* Tells the launcher that this rank has ended well; not called on failure. */
void cv_bootstrap_end(const cv_bootstrap *bootstrap);

#endif
