/* The one bounded queue through which threads meet: pointers, first in first out. */
#ifndef CV_BASE_QUEUE_H
#define CV_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct cv_queue cv_queue;

/* A queue for at most `capacity` items. With `with_fd`, cv_queue_fd gives an eventfd that polls
 * readable while the queue holds items or is closed. */
CV_NODISCARD cv_status cv_queue_create(size_t capacity, bool with_fd, cv_queue **out_queue);
/* Accepts NULL. Items left belong to the caller: drain first. */
void cv_queue_destroy(cv_queue *queue);
/* Adds; never blocks. CV_AGAIN when full, CV_CANCELED when closed. Any thread. */
CV_NODISCARD cv_status cv_queue_push(cv_queue *queue, void *item);
/* Takes, waiting until `deadline_ns` (monotonic; 0: do not wait, INT64_MAX: for ever). CV_TIMEOUT,
 * or CV_CANCELED when closed and empty. Any thread. */
CV_NODISCARD cv_status cv_queue_pop(cv_queue *queue, int64_t deadline_ns, void **out_item);
/* No more pushes; those who wait wake up. Any thread. */
void cv_queue_close(cv_queue *queue);
/* -1 without `with_fd`. */
int cv_queue_fd(const cv_queue *queue);

#endif
