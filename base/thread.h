/* Threads, locks and the pool that runs a kernel's tasks. */
#ifndef CV_BASE_THREAD_H
#define CV_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "base/status.h"

/* Starts a thread with this name (at most 15 characters are shown). Joined with pthread_join. */
CV_NODISCARD cv_status cv_thread_start(const char *name, void *(*run)(void *), void *arg,
                                       pthread_t *out_thread);

typedef struct cv_pool cv_pool;

/* A pool of `threads` (>= 1) that always includes the caller of cv_pool_run: 1 starts no thread. */
CV_NODISCARD cv_status cv_pool_create(int threads, cv_pool **out_pool);
/* Ends the threads; accepts NULL. Not while cv_pool_run runs. */
void cv_pool_destroy(cv_pool *pool);
int cv_pool_threads(const cv_pool *pool);

/* What a pool runs: tasks [begin, end), on the thread with this index. 0 is success; the first
 * other value wins. */
typedef int (*cv_pool_task)(void *arg, int64_t begin, int64_t end, int thread);

/* Runs tasks [0, count) split in contiguous ranges over the threads and returns when all are done
 * (a barrier). Idle threads sleep. One caller at a time. Returns 0 or the first non-zero result. */
int cv_pool_run(cv_pool *pool, int64_t count, cv_pool_task run, void *arg);

#endif
