#include "base/thread.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

cv_status cv_thread_start(const char *name, void *(*run)(void *), void *arg,
                          pthread_t *out_thread) {
  int error = cv_fault() ? 11 : pthread_create(out_thread, NULL, run, arg);
  if (error) return cv_error(CV_FAILED, "cannot start thread %s: %s", name, strerror(error));
  char shown[16];
  snprintf(shown, sizeof shown, "%s", name);
  pthread_setname_np(*out_thread, shown);
  return CV_OK;
}

typedef struct {
  cv_pool *pool;
  pthread_t thread;
  int index;
} helper;

struct cv_pool {
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  int threads, started, busy;
  uint64_t round; /* rises with each job; helpers wait for it */
  bool stop;
  cv_pool_task run;
  void *arg;
  int64_t count;
  int result;
  helper helpers[];
};

static int run_share(cv_pool *pool, int index) {
  int64_t begin = pool->count * index / pool->threads;
  int64_t end = pool->count * (index + 1) / pool->threads;
  return begin < end ? pool->run(pool->arg, begin, end, index) : 0;
}

static void *help(void *arg) {
  helper *self = arg;
  cv_pool *pool = self->pool;
  uint64_t seen = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (!pool->stop && pool->round == seen) pthread_cond_wait(&pool->work, &pool->lock);
    if (pool->stop) break;
    seen = pool->round;
    pthread_mutex_unlock(&pool->lock);
    int result = run_share(pool, self->index);
    pthread_mutex_lock(&pool->lock);
    if (result && !pool->result) pool->result = result;
    if (--pool->busy == 0) pthread_cond_signal(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

cv_status cv_pool_create(int threads, cv_pool **out_pool) {
  *out_pool = NULL;
  if (threads < 1 || threads > 1024)
    return cv_error(CV_INVALID, "%d threads asked for: give 1 to 1024", threads);
  size_t bytes = sizeof(cv_pool) + sizeof(helper) * (size_t)(threads - 1);
  cv_pool *pool = cv_alloc(1, bytes);
  if (!pool) return cv_error_nomem(bytes);
  pool->threads = threads;
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->done, NULL);
  for (int i = 0; i < threads - 1; i++) {
    pool->helpers[i] = (helper){.pool = pool, .index = i + 1};
    cv_status status =
        cv_thread_start("cv-compute", help, &pool->helpers[i], &pool->helpers[i].thread);
    if (status != CV_OK) {
      cv_pool_destroy(pool);
      return status;
    }
    pool->started++;
  }
  *out_pool = pool;
  return CV_OK;
}

void cv_pool_destroy(cv_pool *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  pool->stop = true;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->started; i++) pthread_join(pool->helpers[i].thread, NULL);
  pthread_cond_destroy(&pool->work);
  pthread_cond_destroy(&pool->done);
  pthread_mutex_destroy(&pool->lock);
  cv_free(pool);
}

int cv_pool_threads(const cv_pool *pool) { return pool->threads; }

int cv_pool_run(cv_pool *pool, int64_t count, cv_pool_task run, void *arg) {
  if (pool->threads == 1 || count <= 1) return count > 0 ? run(arg, 0, count, 0) : 0;
  pthread_mutex_lock(&pool->lock);
  pool->run = run;
  pool->arg = arg;
  pool->count = count;
  pool->result = 0;
  pool->busy = pool->threads - 1;
  pool->round++;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
  int result = run_share(pool, 0);
  pthread_mutex_lock(&pool->lock);
  while (pool->busy) pthread_cond_wait(&pool->done, &pool->lock);
  if (!result) result = pool->result;
  pthread_mutex_unlock(&pool->lock);
  return result;
}
