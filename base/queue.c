#include "base/queue.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

struct cv_queue {
  pthread_mutex_t lock;
  pthread_cond_t filled;
  int fd;
  bool closed;
  size_t head, len, capacity;
  void *items[];
};

cv_status cv_queue_create(size_t capacity, bool with_fd, cv_queue **out_queue) {
  *out_queue = NULL;
  size_t bytes = sizeof(cv_queue) + capacity * sizeof(void *);
  cv_queue *queue = cv_alloc(1, bytes);
  if (!queue) return cv_error_nomem(bytes);
  queue->capacity = capacity;
  queue->fd = -1;
  if (with_fd) {
    queue->fd = cv_fault() ? (errno = EMFILE, -1) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (queue->fd < 0) {
      cv_free(queue);
      return cv_error(CV_FAILED, "cannot make an eventfd: %s", strerror(errno));
    }
  }
  pthread_mutex_init(&queue->lock, NULL);
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&queue->filled, &attr);
  pthread_condattr_destroy(&attr);
  *out_queue = queue;
  return CV_OK;
}

void cv_queue_destroy(cv_queue *queue) {
  if (!queue) return;
  if (queue->fd >= 0) close(queue->fd);
  pthread_cond_destroy(&queue->filled);
  pthread_mutex_destroy(&queue->lock);
  cv_free(queue);
}

/* The eventfd only says "not empty, or closed"; a full counter says it already. Called with the
 * lock held. */
static void signal_fd(const cv_queue *queue) {
  if (queue->fd < 0) return;
  ssize_t written = write(queue->fd, &(uint64_t){1}, sizeof(uint64_t));
  (void)written;
}

static void clear_fd(const cv_queue *queue) {
  uint64_t count;
  if (queue->fd < 0) return;
  ssize_t got = read(queue->fd, &count, sizeof count);
  (void)got;
}

cv_status cv_queue_push(cv_queue *queue, void *item) {
  cv_status status = CV_OK;
  pthread_mutex_lock(&queue->lock);
  if (queue->closed) {
    status = CV_CANCELED;
  } else if (queue->len == queue->capacity) {
    status = CV_AGAIN;
  } else {
    queue->items[(queue->head + queue->len++) % queue->capacity] = item;
    if (queue->len == 1) signal_fd(queue);
    pthread_cond_signal(&queue->filled);
  }
  pthread_mutex_unlock(&queue->lock);
  return status;
}

cv_status cv_queue_pop(cv_queue *queue, int64_t deadline_ns, void **out_item) {
  *out_item = NULL;
  cv_status status = CV_OK;
  struct timespec until = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
  pthread_mutex_lock(&queue->lock);
  while (!queue->len && !queue->closed && status == CV_OK) {
    if (deadline_ns == 0)
      status = CV_TIMEOUT;
    else if (deadline_ns == INT64_MAX)
      pthread_cond_wait(&queue->filled, &queue->lock);
    else if (pthread_cond_timedwait(&queue->filled, &queue->lock, &until) == ETIMEDOUT)
      status = CV_TIMEOUT;
  }
  if (queue->len) {
    status = CV_OK;
    *out_item = queue->items[queue->head];
    queue->head = (queue->head + 1) % queue->capacity;
    if (--queue->len == 0 && !queue->closed) clear_fd(queue);
  } else if (queue->closed) {
    status = CV_CANCELED;
  }
  pthread_mutex_unlock(&queue->lock);
  return status;
}

void cv_queue_close(cv_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  queue->closed = true;
  signal_fd(queue);
  pthread_cond_broadcast(&queue->filled);
  pthread_mutex_unlock(&queue->lock);
}

int cv_queue_fd(const cv_queue *queue) { return queue->fd; }
