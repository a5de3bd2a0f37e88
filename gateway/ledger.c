#include "gateway/ledger.h"

#include "base/alloc.h"

/* Requests [head, next) by id have a record each, at id mod capacity. */
struct cv_ledger {
  cv_ledger_rule rule;
  uint32_t capacity, n_batches, waiting;
  uint64_t head, next;
  cv_ledger_request *requests;
  cv_ledger_batch *batches;
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
  if (!ledger->requests || !ledger->batches) {
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

static void add_part(const cv_ledger *ledger, cv_ledger_batch *batch, cv_ledger_request *request) {
  int64_t left = request->items - request->stamped, room = ledger->rule.max_items - batch->items;
  bool whole = !ledger->rule.split || ledger->rule.max_items == 0;
  int64_t count = whole || left < room ? left : room;
  batch->parts[batch->n_parts++] = (cv_ledger_part){request, request->stamped, count};
  batch->items += count;
  request->stamped += count;
  request->open++;
  request->is_stamped = request->stamped == request->items;
}

cv_ledger_batch *cv_ledger_stamp(cv_ledger *ledger, cv_epoch epoch, uint64_t seq) {
  cv_ledger_batch *batch = NULL;
  for (uint32_t i = 0; i < ledger->n_batches && !batch; i++)
    if (!ledger->batches[i].live) batch = &ledger->batches[i];
  if (!batch) return NULL;
  const cv_ledger_rule *rule = &ledger->rule;
  batch->n_parts = 0;
  batch->items = 0;
  for (uint64_t id = ledger->head; id < ledger->next; id++) {
    cv_ledger_request *request = at(ledger, id);
    if (!stampable(ledger, request)) continue;
    if (batch->n_parts > 0) {
      bool room = rule->split && rule->mergeable && batch->items < rule->max_items &&
                  batch->n_parts < CV_LEDGER_PARTS && request->items > 0;
      if (!room || !rule->mergeable(rule->arg, batch->parts[0].request, request)) break;
    }
    add_part(ledger, batch, request);
  }
  if (batch->n_parts == 0) return NULL;
  batch->live = true;
  batch->epoch = epoch;
  batch->seq = seq;
  return batch;
}

static bool same_epoch(cv_epoch a, cv_epoch b) { return a.term == b.term && a.number == b.number; }

cv_ledger_batch *cv_ledger_find(cv_ledger *ledger, cv_epoch epoch, uint64_t seq) {
  for (uint32_t i = 0; i < ledger->n_batches; i++) {
    cv_ledger_batch *batch = &ledger->batches[i];
    if (batch->live && batch->seq == seq && same_epoch(batch->epoch, epoch)) return batch;
  }
  return NULL;
}

void cv_ledger_fail(cv_ledger_request *request, cv_status status) {
  if (request->status == CV_OK) request->status = status;
  request->is_stamped = true;
}

void cv_ledger_take(cv_ledger *ledger, cv_ledger_batch *batch, cv_status status) {
  (void)ledger;
  for (uint32_t i = 0; i < batch->n_parts; i++) {
    cv_ledger_request *request = batch->parts[i].request;
    request->open--;
    if (status != CV_OK) cv_ledger_fail(request, status);
  }
  batch->live = false;
}

void cv_ledger_drop(cv_ledger *ledger, cv_epoch epoch, cv_status status) {
  for (uint32_t i = 0; i < ledger->n_batches; i++)
    if (ledger->batches[i].live && same_epoch(ledger->batches[i].epoch, epoch))
      cv_ledger_take(ledger, &ledger->batches[i], status);
}

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
