/* The ledger: which requests are in, which of their items are stamped into which micro-batch, which
 * results were taken, which are to be stamped again since their epoch broke, and whose answer is
 * next. No tensors, no clock, no threads; nothing allocates after cv_ledger_create. One thread. */
#ifndef CV_GATEWAY_LEDGER_H
#define CV_GATEWAY_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "runtime/executor.h" /* cv_epoch */

enum {
  CV_LEDGER_PARTS = 64,  /* most parts of one micro-batch */
  CV_LEDGER_SUSPECT = 2, /* deaths of a request that is stamped alone from then on */
  CV_LEDGER_GIVEN_UP = 3 /* deaths of one that died alone: it has failed */
};

typedef struct {
  uint64_t id; /* counts from 0 in order of arrival */
  uint64_t stream;
  int64_t items;   /* of its batch */
  int64_t stamped; /* the first items, that are or were in micro-batches */
  uint32_t open;   /* parts under way */
  uint32_t deaths; /* of workers while it was in flight, as far as they count */
  uint64_t blamed; /* the last blame that counted */
  bool is_stamped; /* nothing is left to stamp */
  bool answered;
  cv_status status; /* of the first part that failed */
  void *subject;    /* the caller's */
} cv_ledger_request;

/* Items [first, first + count) of a request. */
typedef struct {
  cv_ledger_request *request;
  int64_t first, count;
} cv_ledger_part;

/* A micro-batch under way, known by (epoch, seq). */
typedef struct {
  bool live;
  bool alone; /* of a suspect: nothing else is in flight */
  cv_epoch epoch;
  uint64_t seq;
  int64_t items; /* of all parts */
  uint32_t n_parts;
  cv_ledger_part parts[CV_LEDGER_PARTS];
} cv_ledger_batch;

/* How requests become micro-batches. */
typedef struct {
  bool split;        /* requests may be split and merged; else each is one micro-batch */
  int64_t max_items; /* of a micro-batch; 0: each request is one */
  bool one_by_one;   /* of a stream, a request waits for the answer of the one before (state) */
  /* Whether two requests may share a micro-batch; NULL: never. */
  bool (*mergeable)(void *arg, const cv_ledger_request *a, const cv_ledger_request *b);
  void *arg;
} cv_ledger_rule;

typedef struct cv_ledger cv_ledger;

/* For so many requests and micro-batches at once. CV_INVALID, CV_NOMEM. */
CV_NODISCARD cv_status cv_ledger_create(uint32_t requests, uint32_t batches,
                                        const cv_ledger_rule *rule, cv_ledger **out_ledger);
void cv_ledger_destroy(cv_ledger *ledger); /* accepts NULL */
void cv_ledger_set_max_items(cv_ledger *ledger, int64_t max_items);

/* Takes a request in. CV_AGAIN: full until one is answered. */
CV_NODISCARD cv_status cv_ledger_add(cv_ledger *ledger, uint64_t stream, int64_t items,
                                     void *subject, cv_ledger_request **out_request);
/* The next micro-batch, stamped (epoch, seq): the oldest items first, also of those that came back.
 * A request with CV_LEDGER_SUSPECT deaths is stamped when nothing is in flight, in a micro-batch of
 * its own, and nothing beside it. NULL: nothing may be stamped now, or no room for one more. */
cv_ledger_batch *cv_ledger_stamp(cv_ledger *ledger, cv_epoch epoch, uint64_t seq);
/* The micro-batch whose first result this is; NULL: it was taken before, or is unknown: drop it. */
cv_ledger_batch *cv_ledger_find(cv_ledger *ledger, cv_epoch epoch, uint64_t seq);
/* Its result is taken (CV_OK), or it failed: then its requests have that status and nothing more
 * of them is stamped. */
void cv_ledger_take(cv_ledger *ledger, cv_ledger_batch *batch, cv_status status);
/* Fails one request; its parts under way are awaited. */
void cv_ledger_fail(cv_ledger *ledger, cv_ledger_request *request, cv_status status);
/* Gives up all micro-batches of an epoch that failed: their requests fail with the status. */
void cv_ledger_drop(cv_ledger *ledger, cv_epoch epoch, cv_status status);
/* Takes back all micro-batches of an epoch that broke: what was in them is stamped again. `blame`:
 * each of their requests counts a death; one that dies alone has CV_LEDGER_GIVEN_UP of them and
 * fails with CV_FAILED. */
void cv_ledger_replay(cv_ledger *ledger, cv_epoch epoch, bool blame);
/* The next request to answer: done, and the oldest of its stream. NULL: none. Answer it, then call
 * cv_ledger_answered, and the record is free. */
cv_ledger_request *cv_ledger_next_answer(cv_ledger *ledger);
void cv_ledger_answered(cv_ledger *ledger, cv_ledger_request *request);

/* Requests that are not answered. */
uint32_t cv_ledger_waiting(const cv_ledger *ledger);
/* Micro-batches of the epoch whose result is not taken. */
uint32_t cv_ledger_in_flight(const cv_ledger *ledger, cv_epoch epoch);
/* Request number `index` (from 0, oldest first) of those that are in, NULL: answered, or behind the
 * last. */
cv_ledger_request *cv_ledger_at(const cv_ledger *ledger, uint32_t index);

#endif
