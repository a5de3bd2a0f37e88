#include "gateway/ledger.h"

#include <string.h>

#include "base/alloc.h"

/* Requests [head, next) by id have a record each, at id mod capacity.
 *
 * What is left to stamp of a request: its parts in `back`, then the items from `stamped` on. `back`
 * is sorted by request and item; its parts touch neither each other nor `stamped`. A micro-batch
 * may take a piece of a part, so parts in flight and parts that came back are bounded together:
 * with max_parts of them nothing is stamped unless nothing is in flight, and what is stamped then
 * joins its rest when it comes back. So there are max_parts + 1 at most, and one more within
 * put_back. */
struct cv_ledger {
  cv_ledger_rule rule;
  uint32_t capacity, n_batches, waiting;
  uint64_t head, next, blames;
  cv_ledger_request *requests;
  cv_ledger_batch *batches;
  cv_ledger_part *back;
  uint32_t n_back, n_open, max_parts; /* open: in flight */
  bool alone;                         /* a suspect is in flight */
};

cv_status cv_ledger_create(uint32_t requests, uint32_t batches, const cv_ledger_rule *rule,
                           cv_ledger **out_ledger) {
  *out_ledger = NULL;
  if (requests < 1 || batches < 1 || rule->max_items < 0)
    return cv_error(CV_INVALID,
                    "a ledger of %u requests, %u micro-batches, %lld items: give at least 1, 1, 0",
                    requests, batches, (long long)rule->max_items);
  cv_ledger *ledger = cv_alloc(1, sizeof *ledger);
  if (!ledger) return cv_error_nomem(sizeof *ledger);
  ledger->rule = *rule;
  ledger->capacity = requests;
  ledger->n_batches = batches;
  ledger->requests = cv_alloc(requests, sizeof *ledger->requests);
  ledger->batches = cv_alloc(batches, sizeof *ledger->batches);
  ledger->max_parts = requests + 2 * batches; /* with nothing back, requests + batches do */
  ledger->back = cv_alloc(ledger->max_parts + 2, sizeof *ledger->back);
  if (!ledger->requests || !ledger->batches || !ledger->back) {
    cv_ledger_destroy(ledger);
    return cv_error_nomem(batches * sizeof *ledger->batches);
  }
  *out_ledger = ledger;
  return CV_OK;
}

void cv_ledger_destroy(cv_ledger *ledger) {
  if (!ledger) return;
  cv_free(ledger->requests);
  cv_free(ledger->batches);
  cv_free(ledger->back);
  cv_free(ledger);
}

void cv_ledger_set_max_items(cv_ledger *ledger, int64_t max_items) {
  ledger->rule.max_items = max_items < 0 ? 0 : max_items;
}

static cv_ledger_request *at(const cv_ledger *ledger, uint64_t id) {
  return &ledger->requests[id % ledger->capacity];
}

cv_status cv_ledger_add(cv_ledger *ledger, uint64_t stream, int64_t items, void *subject,
                        cv_ledger_request **out_request) {
  *out_request = NULL;
  if (ledger->next - ledger->head == ledger->capacity) return CV_AGAIN;
  *out_request = at(ledger, ledger->next);
  **out_request = (cv_ledger_request){
      .id = ledger->next++, .stream = stream, .items = items, .subject = subject};
  ledger->waiting++;
  return CV_OK;
}

/* ---- what came back ---- */

/* Where in `back` the parts of this request from item `first` on begin. */
static uint32_t back_at(const cv_ledger *ledger, const cv_ledger_request *request, int64_t first) {
  uint32_t i = 0;
  while (i < ledger->n_back &&
         (ledger->back[i].request->id < request->id ||
          (ledger->back[i].request == request && ledger->back[i].first < first)))
    i++;
  return i;
}

static void remove_back(cv_ledger *ledger, uint32_t i, uint32_t count) {
  ledger->n_back -= count;
  memmove(&ledger->back[i], &ledger->back[i + count], (ledger->n_back - i) * sizeof *ledger->back);
}

/* Joins part i and the next where they touch. */
static void join_back(cv_ledger *ledger, uint32_t i) {
  cv_ledger_part *part = &ledger->back[i];
  if (i + 1 >= ledger->n_back || part[1].request != part->request ||
      part->first + part->count != part[1].first)
    return;
  part->count += part[1].count;
  remove_back(ledger, i + 1, 1);
}

static void put_back(cv_ledger *ledger, cv_ledger_part part) {
  uint32_t i = back_at(ledger, part.request, part.first);
  memmove(&ledger->back[i + 1], &ledger->back[i], (ledger->n_back - i) * sizeof *ledger->back);
  ledger->back[i] = part;
  ledger->n_back++;
  join_back(ledger, i);
  if (i > 0) join_back(ledger, --i);
  i = back_at(ledger, part.request, part.first + 1) - 1; /* the part it is in now */
  const cv_ledger_part *in = &ledger->back[i];
  if (in->first + in->count == part.request->stamped) {
    part.request->stamped = in->first;
    remove_back(ledger, i, 1);
  }
  part.request->is_stamped = false;
}

/* The oldest of what is left to stamp of a request. */
static cv_ledger_part next_part(const cv_ledger *ledger, cv_ledger_request *request) {
  uint32_t i = back_at(ledger, request, 0);
  if (i < ledger->n_back && ledger->back[i].request == request) return ledger->back[i];
  return (cv_ledger_part){request, request->stamped, request->items - request->stamped};
}

/* ---- stamps ---- */

/* Whether an older request of the same stream is not answered yet. */
static bool has_older(const cv_ledger *ledger, const cv_ledger_request *request) {
  for (uint64_t id = ledger->head; id < request->id; id++)
    if (!at(ledger, id)->answered && at(ledger, id)->stream == request->stream) return true;
  return false;
}

static bool stampable(const cv_ledger *ledger, const cv_ledger_request *request) {
  if (request->answered || request->is_stamped) return false;
  return !ledger->rule.one_by_one || !has_older(ledger, request);
}

/* Whether some of the request may go into this micro-batch. */
static bool fits(const cv_ledger *ledger, const cv_ledger_batch *batch,
                 const cv_ledger_request *request) {
  const cv_ledger_rule *rule = &ledger->rule;
  if (ledger->n_open > 0 && ledger->n_open + ledger->n_back >= ledger->max_parts) return false;
  if (batch->n_parts == 0) return true;
  if (!rule->split || batch->items >= rule->max_items || batch->n_parts == CV_LEDGER_PARTS ||
      request->items == 0)
    return false;
  const cv_ledger_request *first = batch->parts[0].request;
  return first == request || (rule->mergeable && rule->mergeable(rule->arg, first, request));
}

static void add_part(cv_ledger *ledger, cv_ledger_batch *batch, cv_ledger_request *request) {
  cv_ledger_part part = next_part(ledger, request);
  int64_t room = ledger->rule.max_items - batch->items;
  bool whole = !ledger->rule.split || ledger->rule.max_items == 0;
  if (!whole && part.count > room) part.count = room;
  if (part.first == request->stamped) {
    request->stamped += part.count;
  } else {
    uint32_t i = back_at(ledger, request, 0);
    ledger->back[i].first += part.count;
    ledger->back[i].count -= part.count;
    if (ledger->back[i].count == 0) remove_back(ledger, i, 1);
  }
  batch->parts[batch->n_parts++] = part;
  batch->items += part.count;
  ledger->n_open++;
  request->open++;
  part = next_part(ledger, request);
  request->is_stamped = part.first == request->items;
}

cv_ledger_batch *cv_ledger_stamp(cv_ledger *ledger, cv_epoch epoch, uint64_t seq) {
  cv_ledger_batch *batch = NULL;
  for (uint32_t i = 0; i < ledger->n_batches && !batch; i++)
    if (!ledger->batches[i].live) batch = &ledger->batches[i];
  if (!batch || ledger->alone) return NULL;
  batch->n_parts = 0;
  batch->items = 0;
  batch->alone = false;
  for (uint64_t id = ledger->head; id < ledger->next; id++) {
    cv_ledger_request *request = at(ledger, id);
    if (!stampable(ledger, request)) continue;
    bool suspect = request->deaths >= CV_LEDGER_SUSPECT;
    if (suspect && ledger->n_open > 0) break; /* what is in this micro-batch is open too */
    while (!request->is_stamped && fits(ledger, batch, request)) add_part(ledger, batch, request);
    ledger->alone = batch->alone = suspect;
    if (suspect || !request->is_stamped) break;
  }
  if (batch->n_parts == 0) return NULL;
  batch->live = true;
  batch->epoch = epoch;
  batch->seq = seq;
  return batch;
}

/* ---- results ---- */

static bool same_epoch(cv_epoch a, cv_epoch b) { return a.term == b.term && a.number == b.number; }

cv_ledger_batch *cv_ledger_find(cv_ledger *ledger, cv_epoch epoch, uint64_t seq) {
  for (uint32_t i = 0; i < ledger->n_batches; i++) {
    cv_ledger_batch *batch = &ledger->batches[i];
    if (batch->live && batch->seq == seq && same_epoch(batch->epoch, epoch)) return batch;
  }
  return NULL;
}

void cv_ledger_fail(cv_ledger *ledger, cv_ledger_request *request, cv_status status) {
  uint32_t i = back_at(ledger, request, 0), end = i;
  while (end < ledger->n_back && ledger->back[end].request == request) end++;
  remove_back(ledger, i, end - i);
  if (request->status == CV_OK) request->status = status;
  request->is_stamped = true;
}

/* It is no longer in flight. */
static void release(cv_ledger *ledger, cv_ledger_batch *batch) {
  for (uint32_t i = 0; i < batch->n_parts; i++) batch->parts[i].request->open--;
  ledger->n_open -= batch->n_parts;
  if (batch->alone) ledger->alone = false;
  batch->live = false;
}

void cv_ledger_take(cv_ledger *ledger, cv_ledger_batch *batch, cv_status status) {
  release(ledger, batch);
  for (uint32_t i = 0; status != CV_OK && i < batch->n_parts; i++)
    cv_ledger_fail(ledger, batch->parts[i].request, status);
}

void cv_ledger_drop(cv_ledger *ledger, cv_epoch epoch, cv_status status) {
  for (uint32_t i = 0; i < ledger->n_batches; i++)
    if (ledger->batches[i].live && same_epoch(ledger->batches[i].epoch, epoch))
      cv_ledger_take(ledger, &ledger->batches[i], status);
}

/* A death counts once for each request. The one that gives it up must have been the request's own:
 * in flight alone. */
static void count_death(cv_ledger *ledger, const cv_ledger_batch *batch,
                        cv_ledger_request *request) {
  if (request->blamed == ledger->blames) return;
  request->blamed = ledger->blames;
  if (request->deaths < CV_LEDGER_SUSPECT || batch->alone) request->deaths++;
  if (request->deaths == CV_LEDGER_GIVEN_UP) cv_ledger_fail(ledger, request, CV_FAILED);
}

void cv_ledger_replay(cv_ledger *ledger, cv_epoch epoch, bool blame) {
  ledger->blames += blame;
  for (uint32_t i = 0; i < ledger->n_batches; i++) {
    cv_ledger_batch *batch = &ledger->batches[i];
    if (!batch->live || !same_epoch(batch->epoch, epoch)) continue;
    release(ledger, batch);
    for (uint32_t k = 0; k < batch->n_parts; k++) {
      cv_ledger_request *request = batch->parts[k].request;
      if (blame) count_death(ledger, batch, request);
      if (request->status == CV_OK) put_back(ledger, batch->parts[k]);
    }
  }
}

/* ---- answers ---- */

cv_ledger_request *cv_ledger_next_answer(cv_ledger *ledger) {
  for (uint64_t id = ledger->head; id < ledger->next; id++) {
    cv_ledger_request *request = at(ledger, id);
    if (!request->answered && request->is_stamped && request->open == 0 &&
        !has_older(ledger, request))
      return request;
  }
  return NULL;
}

void cv_ledger_answered(cv_ledger *ledger, cv_ledger_request *request) {
  request->answered = true;
  ledger->waiting--;
  while (ledger->head < ledger->next && at(ledger, ledger->head)->answered) ledger->head++;
}

uint32_t cv_ledger_waiting(const cv_ledger *ledger) { return ledger->waiting; }

uint32_t cv_ledger_in_flight(const cv_ledger *ledger, cv_epoch epoch) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < ledger->n_batches; i++)
    count += ledger->batches[i].live && same_epoch(ledger->batches[i].epoch, epoch);
  return count;
}

cv_ledger_request *cv_ledger_at(const cv_ledger *ledger, uint32_t index) {
  uint64_t id = ledger->head + index;
  return id < ledger->next && !at(ledger, id)->answered ? at(ledger, id) : NULL;
}
