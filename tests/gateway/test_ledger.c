#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/ledger.h"
#include "tests/each_fault.h"

static const cv_epoch first = {5, 1}, second = {5, 2};

static bool same_parity(void *arg, const cv_ledger_request *a, const cv_ledger_request *b) {
  (void)arg;
  return a->items % 2 == b->items % 2;
}

static cv_ledger *make(uint32_t requests, uint32_t batches, cv_ledger_rule rule) {
  cv_ledger *ledger;
  assert_int_equal(cv_ledger_create(requests, batches, &rule, &ledger), CV_OK);
  return ledger;
}

static cv_ledger_request *add(cv_ledger *ledger, uint64_t stream, int64_t items) {
  cv_ledger_request *request;
  assert_int_equal(cv_ledger_add(ledger, stream, items, NULL, &request), CV_OK);
  return request;
}

static void test_splits_with_an_uneven_last(void **state) {
  (void)state;
  cv_ledger *ledger = make(4, 8, (cv_ledger_rule){.split = true, .max_items = 3});
  cv_ledger_request *request = add(ledger, 0, 7);
  static const int64_t counts[] = {3, 3, 1};
  for (uint64_t seq = 0; seq < 3; seq++) {
    cv_ledger_batch *batch = cv_ledger_stamp(ledger, first, seq);
    assert_int_equal(batch->n_parts, 1);
    assert_int_equal(batch->parts[0].first, 3 * seq);
    assert_int_equal(batch->parts[0].count, counts[seq]);
  }
  assert_null(cv_ledger_stamp(ledger, first, 3));
  assert_null(cv_ledger_next_answer(ledger));
  for (uint64_t seq = 3; seq-- > 0;) /* results may come in any order */
    cv_ledger_take(ledger, cv_ledger_find(ledger, first, seq), CV_OK);
  assert_ptr_equal(cv_ledger_next_answer(ledger), request);
  cv_ledger_destroy(ledger);
}

static void test_only_the_first_result_counts(void **state) {
  (void)state;
  cv_ledger *ledger = make(4, 8, (cv_ledger_rule){0});
  add(ledger, 0, 1);
  assert_non_null(cv_ledger_stamp(ledger, first, 9));
  assert_null(cv_ledger_find(ledger, second, 9));
  assert_null(cv_ledger_find(ledger, first, 8));
  cv_ledger_batch *batch = cv_ledger_find(ledger, first, 9);
  assert_int_equal(cv_ledger_in_flight(ledger, first), 1);
  cv_ledger_take(ledger, batch, CV_OK);
  assert_null(cv_ledger_find(ledger, first, 9)); /* a later one is dropped */
  assert_int_equal(cv_ledger_in_flight(ledger, first), 0);
  cv_ledger_destroy(ledger);
}

static void test_answers_in_order_per_stream(void **state) {
  (void)state;
  cv_ledger *ledger = make(3, 8, (cv_ledger_rule){0});
  cv_ledger_request *a = add(ledger, 1, 1), *b = add(ledger, 1, 1), *c = add(ledger, 2, 1), *none;
  assert_int_equal(cv_ledger_add(ledger, 1, 1, NULL, &none), CV_AGAIN);
  for (uint64_t seq = 0; seq < 3; seq++) assert_non_null(cv_ledger_stamp(ledger, first, seq));
  cv_ledger_take(ledger, cv_ledger_find(ledger, first, 1), CV_OK);
  assert_null(cv_ledger_next_answer(ledger)); /* b is done, a is not */
  cv_ledger_take(ledger, cv_ledger_find(ledger, first, 2), CV_OK);
  assert_ptr_equal(cv_ledger_next_answer(ledger), c);
  cv_ledger_answered(ledger, c);
  assert_int_equal(cv_ledger_add(ledger, 1, 1, NULL, &none), CV_AGAIN); /* a holds the place */
  cv_ledger_take(ledger, cv_ledger_find(ledger, first, 0), CV_OK);
  assert_ptr_equal(cv_ledger_next_answer(ledger), a);
  cv_ledger_answered(ledger, a);
  assert_ptr_equal(cv_ledger_next_answer(ledger), b);
  cv_ledger_answered(ledger, b);
  assert_int_equal(cv_ledger_waiting(ledger), 0);
  for (int i = 0; i < 3; i++) add(ledger, 7, 1);
  cv_ledger_destroy(ledger);
}

static void test_merges_what_may_be_merged(void **state) {
  (void)state;
  cv_ledger_rule rule = {.split = true, .max_items = 5, .mergeable = same_parity};
  cv_ledger *ledger = make(8, 8, rule);
  cv_ledger_request *a = add(ledger, 0, 3), *b = add(ledger, 0, 7), *c = add(ledger, 0, 2);
  cv_ledger_batch *batch = cv_ledger_stamp(ledger, first, 0);
  assert_int_equal(batch->items, 5);
  assert_int_equal(batch->n_parts, 2);
  assert_ptr_equal(batch->parts[0].request, a);
  assert_ptr_equal(batch->parts[1].request, b);
  assert_int_equal(batch->parts[1].count, 2);
  batch = cv_ledger_stamp(ledger, first, 1);
  assert_int_equal(batch->items, 5); /* the rest of b fills it */
  assert_int_equal(batch->n_parts, 1);
  batch = cv_ledger_stamp(ledger, first, 2);
  assert_ptr_equal(batch->parts[0].request, c); /* not with b: it may not */
  assert_int_equal(batch->n_parts, 1);
  cv_ledger_set_max_items(ledger, 0);
  add(ledger, 0, 4);
  add(ledger, 0, 4);
  assert_int_equal(cv_ledger_stamp(ledger, first, 3)->items, 4); /* whole, each its own */
  cv_ledger_destroy(ledger);
}

static void test_one_by_one(void **state) {
  (void)state;
  cv_ledger *ledger = make(4, 8, (cv_ledger_rule){.one_by_one = true});
  cv_ledger_request *a = add(ledger, 1, 1), *b = add(ledger, 1, 1), *c = add(ledger, 2, 1);
  assert_ptr_equal(cv_ledger_stamp(ledger, first, 0)->parts[0].request, a);
  assert_ptr_equal(cv_ledger_stamp(ledger, first, 1)->parts[0].request, c);
  assert_null(cv_ledger_stamp(ledger, first, 2)); /* b waits for the state of a */
  cv_ledger_take(ledger, cv_ledger_find(ledger, first, 0), CV_OK);
  assert_null(cv_ledger_stamp(ledger, first, 2));
  cv_ledger_answered(ledger, cv_ledger_next_answer(ledger));
  assert_ptr_equal(cv_ledger_stamp(ledger, first, 2)->parts[0].request, b);
  cv_ledger_destroy(ledger);
}

static void test_failures(void **state) {
  (void)state;
  cv_ledger *ledger = make(4, 4, (cv_ledger_rule){.split = true, .max_items = 1});
  cv_ledger_request *a = add(ledger, 0, 9), *b = add(ledger, 1, 2);
  for (uint64_t seq = 0; seq < 4; seq++) assert_non_null(cv_ledger_stamp(ledger, first, seq));
  assert_null(cv_ledger_stamp(ledger, first, 4)); /* no room for one more */
  cv_ledger_take(ledger, cv_ledger_find(ledger, first, 0), CV_INVALID);
  assert_int_equal(a->status, CV_INVALID);
  assert_null(cv_ledger_next_answer(ledger)); /* its parts under way are awaited */
  cv_ledger_drop(ledger, first, CV_PEER_LOST);
  assert_int_equal(a->status, CV_INVALID); /* the first reason stays */
  assert_ptr_equal(cv_ledger_next_answer(ledger), a);
  cv_ledger_answered(ledger, a);
  assert_ptr_equal(cv_ledger_stamp(ledger, second, 0)->parts[0].request, b);
  cv_ledger_fail(ledger, b, CV_CANCELED);
  assert_null(cv_ledger_stamp(ledger, second, 1));
  cv_ledger_drop(ledger, second, CV_PEER_LOST);
  assert_int_equal(b->status, CV_CANCELED);
  assert_ptr_equal(cv_ledger_at(ledger, 0), b);
  assert_null(cv_ledger_at(ledger, 1));
  cv_ledger_destroy(ledger);
}

static void test_empty_request(void **state) {
  (void)state;
  cv_ledger *ledger = make(4, 4, (cv_ledger_rule){.split = true, .max_items = 2});
  cv_ledger_request *a = add(ledger, 0, 0);
  cv_ledger_batch *batch = cv_ledger_stamp(ledger, first, 0);
  assert_int_equal(batch->items, 0); /* it still passes through the pipeline */
  cv_ledger_take(ledger, batch, CV_OK);
  assert_ptr_equal(cv_ledger_next_answer(ledger), a);
  cv_ledger_destroy(ledger);
}

/* ---- scripts: what comes back is stamped again ---- */

static bool always(void *arg, const cv_ledger_request *a, const cv_ledger_request *b) {
  (void)arg;
  (void)a;
  (void)b;
  return true;
}

static const cv_ledger_rule merging = {.split = true, .max_items = 4, .mergeable = always};
static const cv_ledger_rule splitting = {.split = true, .max_items = 2};
static const cv_ledger_rule whole = {0};
static const cv_ledger_rule stateful = {.one_by_one = true};

/* Requests are numbered from 0; micro-batches are numbered from 0 in each epoch (1 to 9).
 *   add STREAM ITEMS          stamp EPOCH = REQUEST:FIRST-END ...    (or none)
 *   take|fail EPOCH SEQ       replay|blame EPOCH    max ITEMS        drop REQUEST: it fails
 *   answer = REQUEST ok       (or failed, or none)                   room EPOCH = IN FLIGHT */
typedef struct {
  const char *name;
  const cv_ledger_rule *rule;
  const char *steps[40];
} script;

static const script scripts[] = {
    {"one comes back before what is newer",
     &whole,
     {"add 0 1", "add 0 1", "add 0 1", "stamp 1 = 0:0-1", "stamp 1 = 1:0-1", "replay 1",
      "room 1 = 0", "stamp 2 = 0:0-1", "stamp 2 = 1:0-1", "stamp 2 = 2:0-1", "stamp 2 = none",
      "take 2 1", "answer = none", "take 2 0", "answer = 0 ok", "answer = 1 ok", "take 2 2",
      "answer = 2 ok"}},
    {"only what is not answered",
     &splitting,
     {"add 0 7", "stamp 1 = 0:0-2", "stamp 1 = 0:2-4", "stamp 1 = 0:4-6", "take 1 1", "replay 1",
      "stamp 2 = 0:0-2", "stamp 2 = 0:4-6", "stamp 2 = 0:6-7", "stamp 2 = none", "take 2 2",
      "take 2 0", "answer = none", "take 2 1", "answer = 0 ok"}},
    {"holes of one request share a micro-batch",
     &merging,
     {"add 0 12", "add 1 3", "max 2", "stamp 1 = 0:0-2", "stamp 1 = 0:2-4", "stamp 1 = 0:4-6",
      "stamp 1 = 0:6-8", "take 1 1", "replay 1", "max 5", "stamp 2 = 0:0-2 0:4-7",
      "stamp 2 = 0:7-12", "stamp 2 = 1:0-3"}},
    {"smaller micro-batches in the new epoch",
     &merging,
     {"add 0 4", "add 0 4", "stamp 1 = 0:0-4", "stamp 1 = 1:0-4", "replay 1", "max 3",
      "stamp 2 = 0:0-3", "stamp 2 = 0:3-4 1:0-2", "stamp 2 = 1:2-4", "stamp 2 = none", "take 2 1",
      "take 2 0", "answer = 0 ok", "take 2 2", "answer = 1 ok"}},
    {"smaller, with what was answered in between",
     &merging,
     {"add 0 8", "stamp 1 = 0:0-4", "stamp 1 = 0:4-8", "take 1 1", "replay 1", "max 3",
      "stamp 2 = 0:0-3", "replay 2", "stamp 3 = 0:0-3", "stamp 3 = 0:3-4", "replay 3", "max 0",
      "stamp 4 = 0:0-4", "stamp 4 = none", "take 4 0", "answer = 0 ok"}},
    {"larger ones: what came back is merged",
     &merging,
     {"max 1", "add 0 2", "add 1 2", "stamp 1 = 0:0-1", "stamp 1 = 0:1-2", "stamp 1 = 1:0-1",
      "replay 1", "max 4", "stamp 2 = 0:0-2 1:0-2", "take 2 0", "answer = 0 ok", "answer = 1 ok"}},
    {"two epochs, the older one breaks",
     &splitting,
     {"add 0 2", "add 0 2", "add 0 2", "add 0 2", "stamp 1 = 0:0-2", "stamp 1 = 1:0-2",
      "stamp 2 = 2:0-2", "replay 1", "room 2 = 1", "stamp 2 = 0:0-2", "stamp 2 = 1:0-2",
      "stamp 2 = 3:0-2", "take 2 0", "answer = none", "take 2 1", "answer = 0 ok"}},
    {"both break, the newer one first",
     &splitting,
     {"add 0 6", "stamp 1 = 0:0-2", "stamp 2 = 0:2-4", "replay 2", "stamp 3 = 0:2-4", "replay 1",
      "stamp 3 = 0:0-2", "stamp 3 = 0:4-6", "replay 3", "stamp 4 = 0:0-2", "stamp 4 = 0:2-4"}},
    {"an empty request comes back",
     &splitting,
     {"add 0 0", "add 0 1", "stamp 1 = 0:0-0", "stamp 1 = 1:0-1", "replay 1", "stamp 2 = 0:0-0",
      "stamp 2 = 1:0-1", "take 2 0", "answer = 0 ok"}},
    {"what has failed does not come back",
     &splitting,
     {"add 0 6", "add 1 2", "stamp 1 = 0:0-2", "stamp 1 = 0:2-4", "fail 1 0", "replay 1",
      "answer = 0 failed", "stamp 2 = 1:0-2", "replay 2", "drop 1", "stamp 3 = none",
      "answer = 1 failed"}},
    {"what came back may fail",
     &splitting,
     {"add 0 6", "stamp 1 = 0:0-2", "stamp 1 = 0:2-4", "stamp 1 = 0:4-6", "take 1 1", "replay 1",
      "stamp 2 = 0:0-2", "fail 2 0", "stamp 2 = none", "answer = 0 failed"}},
    {"state: each stream's one comes back",
     &stateful,
     {"add 1 1", "add 1 1", "add 2 1", "stamp 1 = 0:0-1", "stamp 1 = 2:0-1", "replay 1",
      "stamp 2 = 0:0-1", "stamp 2 = 2:0-1", "stamp 2 = none", "take 2 0", "stamp 2 = none",
      "answer = 0 ok", "replay 2", "stamp 3 = 1:0-1", "stamp 3 = 2:0-1"}},
    {"two deaths: alone, in the order of arrival",
     &merging,
     {"add 0 4", "add 1 4", "stamp 1 = 0:0-4", "blame 1", "stamp 2 = 0:0-4", "blame 2",
      "stamp 3 = 0:0-4", "stamp 3 = none", "take 3 0", "stamp 3 = 1:0-4", "answer = 0 ok"}},
    {"a suspect waits for all epochs",
     &splitting,
     {"add 0 2", "add 0 2", "add 0 2", "stamp 1 = 0:0-2", "blame 1", "stamp 2 = 0:0-2",
      "stamp 3 = 1:0-2", "blame 2", "stamp 3 = none", "take 3 0", "stamp 3 = 0:0-2",
      "stamp 3 = none", "take 3 1", "answer = 0 ok", "answer = 1 ok", "stamp 3 = 2:0-2"}},
    {"suspects in the middle",
     &merging,
     {"add 0 1", "add 0 1", "add 0 1", "max 1", "stamp 1 = 0:0-1", "take 1 0", "stamp 1 = 1:0-1",
      "blame 1", "stamp 2 = 1:0-1", "blame 2", "answer = 0 ok", "max 4", "stamp 3 = 1:0-1",
      "take 3 0", "stamp 3 = 2:0-1"}},
    {"those that shared its micro-batch are split off",
     &merging,
     {"add 0 2", "add 1 2", "add 2 4", "stamp 1 = 0:0-2 1:0-2", "blame 1", "stamp 2 = 0:0-2 1:0-2",
      "blame 2", "stamp 3 = 0:0-2", "stamp 3 = none", "blame 3", "answer = 0 failed",
      "stamp 4 = 1:0-2", "stamp 4 = none", "take 4 0", "answer = 1 ok", "stamp 4 = 2:0-4"}},
    {"the third death: its other parts too",
     &splitting,
     {"add 0 6", "stamp 1 = 0:0-2", "stamp 1 = 0:2-4", "stamp 1 = 0:4-6", "take 1 1", "blame 1",
      "stamp 2 = 0:0-2", "stamp 2 = 0:4-6", "blame 2", "stamp 3 = 0:0-2", "stamp 3 = none",
      "take 3 0", "stamp 3 = 0:4-6", "blame 3", "answer = 0 failed", "stamp 4 = none"}},
    {"a death beside others does not give it up",
     &splitting,
     {"add 0 4", "stamp 1 = 0:0-2", "blame 1", "stamp 2 = 0:0-2", "stamp 3 = 0:2-4", "blame 2",
      "blame 3", "stamp 4 = 0:0-2", "stamp 4 = none", "take 4 0", "stamp 4 = 0:2-4", "take 4 1",
      "answer = 0 ok"}},
    {"replays count no death",
     &whole,
     {"add 0 1", "add 1 1", "stamp 1 = 0:0-1", "replay 1", "stamp 2 = 0:0-1", "replay 2",
      "stamp 3 = 0:0-1", "blame 3", "stamp 4 = 0:0-1", "stamp 4 = 1:0-1"}},
    {"a suspect of a stream with state does not hold up the others before its turn",
     &stateful,
     {"add 1 1", "add 2 1", "add 1 1", "add 3 1", "stamp 1 = 0:0-1", "blame 1", "stamp 2 = 0:0-1",
      "blame 2", "stamp 3 = 0:0-1", "take 3 0", "stamp 3 = 1:0-1", "answer = 0 ok",
      "stamp 3 = 2:0-1", "stamp 3 = 3:0-1"}},
};

static void render(const cv_ledger_batch *batch, char *text, size_t size) {
  int at = snprintf(text, size, "%s", batch ? "" : "none");
  for (uint32_t i = 0; batch && i < batch->n_parts; i++) {
    const cv_ledger_part *part = &batch->parts[i];
    at += snprintf(text + at, size - (size_t)at, "%s%d:%d-%d", i ? " " : "", (int)part->request->id,
                   (int)part->first, (int)(part->first + part->count));
  }
}

static void render_answer(cv_ledger *ledger, char *text, size_t size) {
  cv_ledger_request *due = cv_ledger_next_answer(ledger);
  snprintf(text, size, "none");
  if (!due) return;
  snprintf(text, size, "%d %s", (int)due->id, due->status == CV_OK ? "ok" : "failed");
  cv_ledger_answered(ledger, due);
}

/* One step; gives what it is to be compared with. */
static void step(cv_ledger *ledger, const char *text, uint64_t seqs[10], char *got, size_t size) {
  char verb[16];
  int a = 0, b = 0;
  assert_true(sscanf(text, "%15s %d %d", verb, &a, &b) >= 1);
  cv_epoch epoch = {1, (uint32_t)a};
  if (strcmp(verb, "add") == 0) {
    add(ledger, (uint64_t)a, b);
  } else if (strcmp(verb, "max") == 0) {
    cv_ledger_set_max_items(ledger, a);
  } else if (strcmp(verb, "drop") == 0) {
    cv_ledger_request *request = cv_ledger_at(ledger, 0); /* those before it are answered */
    assert_int_equal(request->id, a);
    cv_ledger_fail(ledger, request, CV_CANCELED);
  } else if (strcmp(verb, "stamp") == 0) {
    cv_ledger_batch *batch = cv_ledger_stamp(ledger, epoch, seqs[a]);
    seqs[a] += batch != NULL;
    render(batch, got, size);
  } else if (strcmp(verb, "take") == 0 || strcmp(verb, "fail") == 0) {
    cv_ledger_batch *batch = cv_ledger_find(ledger, epoch, (uint64_t)b);
    assert_non_null(batch);
    cv_ledger_take(ledger, batch, verb[0] == 't' ? CV_OK : CV_INVALID);
    assert_null(cv_ledger_find(ledger, epoch, (uint64_t)b));
  } else if (strcmp(verb, "replay") == 0 || strcmp(verb, "blame") == 0) {
    cv_ledger_replay(ledger, epoch, verb[0] == 'b');
    for (uint64_t seq = 0; seq < seqs[a]; seq++) assert_null(cv_ledger_find(ledger, epoch, seq));
  } else if (strcmp(verb, "answer") == 0) {
    render_answer(ledger, got, size);
  } else if (strcmp(verb, "room") == 0) {
    snprintf(got, size, "%u", cv_ledger_in_flight(ledger, epoch));
  } else {
    fail_msg("no such step: %s", text);
  }
}

static void test_scripts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    cv_ledger *ledger = make(8, 8, *scripts[i].rule);
    uint64_t seqs[10] = {0};
    for (int k = 0; scripts[i].steps[k]; k++) {
      const char *text = scripts[i].steps[k], *want = strstr(text, " = ");
      char got[256] = "";
      step(ledger, text, seqs, got, sizeof got);
      if (want && strcmp(got, want + 3) != 0)
        fail_msg("%s: step %d, %s: got %s", scripts[i].name, k, text, got);
    }
    cv_ledger_destroy(ledger);
  }
}

/* ---- random steps beside a model that knows each item ---- */

enum { MODEL_REQUESTS = 12, MODEL_BATCHES = 16, MODEL_ITEMS = 24, MODEL_EPOCHS = 2 };

/* Of an item: to be stamped, done, or the epoch it is in flight in (1, 2, ...). */
enum { ITEM_LEFT = 0, ITEM_DONE = -1 };

typedef struct {
  bool in; /* an empty request has one item here */
  uint64_t id, stream;
  int items, deaths, state[MODEL_ITEMS + 1];
  bool failed;
} model_request;

typedef struct {
  uint32_t seed;
  cv_ledger *ledger;
  cv_ledger_rule rule;
  model_request requests[MODEL_REQUESTS]; /* oldest first */
  int n, max;
  bool alone; /* a suspect is in flight */
  cv_ledger_batch *live[MODEL_BATCHES];
  int n_live;
  uint32_t numbers[MODEL_EPOCHS]; /* of the two epochs that may have something in flight */
  uint64_t seq, next_id, answered, replayed, given_up;
} model;

static uint32_t pick(model *m, uint32_t below) {
  m->seed = m->seed * 1664525u + 1013904223u;
  return (m->seed >> 8) % below;
}

static int slots(const model_request *r) { return r->items ? r->items : 1; }

static int count_items(const model_request *r, int state) {
  int count = 0;
  for (int i = 0; i < slots(r); i++)
    count += state > 0 ? r->state[i] > 0 : r->state[i] == state; /* > 0: in flight anywhere */
  return count;
}

static int flying(const model *m) {
  int count = 0;
  for (int i = 0; i < m->n; i++) count += count_items(&m->requests[i], 1);
  return count;
}

static bool first_of_stream(const model *m, int i) {
  for (int k = 0; k < i; k++)
    if (m->requests[k].stream == m->requests[i].stream) return false;
  return true;
}

static bool may_stamp(const model *m, int i) {
  return !m->requests[i].failed && count_items(&m->requests[i], ITEM_LEFT) > 0 &&
         (!m->rule.one_by_one || first_of_stream(m, i));
}

/* The oldest item that may be stamped. */
static bool oldest(const model *m, int *out_request, int *out_item) {
  for (int i = 0; i < m->n; i++) {
    if (!may_stamp(m, i)) continue;
    *out_request = i;
    *out_item = 0;
    while (m->requests[i].state[*out_item] != ITEM_LEFT) ++*out_item;
    return true;
  }
  return false;
}

static void model_add(model *m) {
  cv_ledger_request *request;
  uint64_t stream = pick(m, 3);
  int items = (int)pick(m, MODEL_ITEMS + 1);
  cv_status status = cv_ledger_add(m->ledger, stream, items, NULL, &request);
  if (status == CV_AGAIN) return;
  assert_true(m->n < MODEL_REQUESTS);
  assert_int_equal(request->id, m->next_id);
  m->requests[m->n++] =
      (model_request){.in = true, .id = m->next_id++, .stream = stream, .items = items};
}

/* Every item of the micro-batch is the oldest that was left. */
static void check_batch(model *m, const cv_ledger_batch *batch, int epoch) {
  int64_t items = 0;
  int before = flying(m), i, item;
  bool alone = false;
  assert_true(batch->n_parts >= 1 && batch->n_parts <= CV_LEDGER_PARTS);
  for (uint32_t p = 0; p < batch->n_parts; p++) {
    const cv_ledger_part *part = &batch->parts[p];
    for (int64_t k = 0; k < part->count || (k == 0 && part->request->items == 0); k++) {
      assert_true(oldest(m, &i, &item));
      model_request *r = &m->requests[i];
      assert_int_equal(r->id, part->request->id);
      assert_int_equal(item, part->first + k);
      alone |= r->deaths >= CV_LEDGER_SUSPECT;
      r->state[item] = epoch;
    }
    items += part->count;
    if (!m->rule.mergeable) assert_ptr_equal(part->request, batch->parts[0].request);
  }
  assert_int_equal(items, batch->items);
  assert_int_equal(alone, batch->alone);
  assert_false(m->alone);
  m->alone = alone;
  if (m->rule.split && m->max) assert_true(items <= m->max);
  if (!m->rule.split) assert_int_equal(items, batch->parts[0].request->items);
  if (!alone) return;
  assert_int_equal(before, 0); /* nothing was in flight, and nothing is beside it */
  for (uint32_t p = 0; p < batch->n_parts; p++)
    assert_ptr_equal(batch->parts[p].request, batch->parts[0].request);
}

static void model_stamp(model *m) {
  int i, item, flew = flying(m), e = (int)pick(m, MODEL_EPOCHS);
  bool left = oldest(m, &i, &item);
  cv_ledger_batch *batch = cv_ledger_stamp(m->ledger, (cv_epoch){1, m->numbers[e]}, m->seq);
  if (!batch) {
    assert_true(!left || flew > 0); /* there is always a next one */
    return;
  }
  m->seq++;
  assert_true(m->n_live < MODEL_BATCHES);
  m->live[m->n_live++] = batch;
  check_batch(m, batch, e + 1);
}

static model_request *model_find(model *m, uint64_t id) {
  for (int i = 0; i < m->n; i++)
    if (m->requests[i].id == id) return &m->requests[i];
  fail_msg("request %llu is not in", (unsigned long long)id);
  return NULL;
}

static void model_take(model *m, cv_status status) {
  if (m->n_live == 0) return;
  uint32_t which = pick(m, (uint32_t)m->n_live);
  cv_ledger_batch *batch = m->live[which];
  m->live[which] = m->live[--m->n_live];
  assert_ptr_equal(cv_ledger_find(m->ledger, batch->epoch, batch->seq), batch);
  m->alone = false;
  for (uint32_t p = 0; p < batch->n_parts; p++) {
    const cv_ledger_part *part = &batch->parts[p];
    model_request *r = model_find(m, part->request->id);
    if (status != CV_OK) r->failed = true;
    for (int64_t k = 0; k < part->count || (k == 0 && r->items == 0); k++) {
      assert_true(r->state[part->first + k] > 0); /* once */
      r->state[part->first + k] = ITEM_DONE;
    }
  }
  cv_ledger_take(m->ledger, batch, status);
}

static void model_replay(model *m, bool blame) {
  int e = (int)pick(m, MODEL_EPOCHS);
  bool alone = m->alone;
  for (int i = 0; i < m->n; i++) {
    model_request *r = &m->requests[i];
    bool was = false;
    for (int k = 0; k < slots(r); k++)
      if (r->state[k] == e + 1) {
        r->state[k] = ITEM_LEFT;
        was = true;
      }
    if (!was) continue;
    m->alone = false;
    m->replayed++;
    if (!blame) continue;
    if (alone) {
      m->given_up += !r->failed;
      r->failed = true;
    }
    if (r->deaths < CV_LEDGER_SUSPECT || alone) r->deaths++;
  }
  cv_epoch epoch = {1, m->numbers[e]};
  cv_ledger_replay(m->ledger, epoch, blame);
  assert_int_equal(cv_ledger_in_flight(m->ledger, epoch), 0);
  for (int i = m->n_live; i-- > 0;)
    if (!m->live[i]->live) m->live[i] = m->live[--m->n_live];
  m->numbers[e] = m->numbers[0] > m->numbers[1] ? m->numbers[0] + 1 : m->numbers[1] + 1;
}

static void model_answer(model *m) {
  cv_ledger_request *due = cv_ledger_next_answer(m->ledger);
  int ready = -1;
  for (int i = 0; i < m->n && ready < 0; i++) {
    const model_request *r = &m->requests[i];
    bool done = count_items(r, 1) == 0 && (r->failed || count_items(r, ITEM_LEFT) == 0);
    if (done && first_of_stream(m, i)) ready = i;
  }
  assert_int_equal(due == NULL, ready < 0);
  if (!due) return;
  model_request *r = &m->requests[ready];
  assert_int_equal(due->id, r->id);
  assert_int_equal(due->status != CV_OK, r->failed);
  assert_int_equal(due->deaths, r->deaths);
  cv_ledger_answered(m->ledger, due);
  memmove(r, r + 1, (size_t)(m->n - 1 - ready) * sizeof *r);
  m->n--;
  m->answered++;
}

static void model_step(model *m) {
  static const int maxima[] = {0, 1, 2, 3, 5, 9, 30};
  uint32_t what = pick(m, 100);
  if (what < 15) {
    model_add(m);
  } else if (what < 55) {
    model_stamp(m);
  } else if (what < 82) {
    model_take(m, what == 55 ? CV_INVALID : CV_OK);
  } else if (what < 87) {
    model_replay(m, what > 83);
  } else if (what < 88 && m->rule.split) {
    m->max = maxima[pick(m, sizeof maxima / sizeof *maxima)];
    cv_ledger_set_max_items(m->ledger, m->max);
  } else {
    model_answer(m);
  }
  assert_int_equal(cv_ledger_waiting(m->ledger), m->n);
}

/* Returns how many requests were given up. */
static uint64_t run_model(uint32_t seed, cv_ledger_rule rule, uint32_t requests, uint32_t batches) {
  model m = {.seed = seed, .rule = rule, .numbers = {1, 2}, .max = (int)rule.max_items};
  m.ledger = make(requests, batches, rule);
  for (int i = 0; i < 20000; i++) model_step(&m);
  for (int i = 0; m.n > 0; i++) { /* all are answered in the end */
    assert_true(i < 20000);
    model_stamp(&m);
    model_take(&m, CV_OK);
    model_answer(&m);
  }
  assert_int_equal(m.answered, m.next_id);
  assert_true(m.answered > 300 && m.replayed > 50);
  cv_ledger_destroy(m.ledger);
  return m.given_up;
}

static void test_random_steps(void **state) {
  (void)state;
  static const struct {
    uint32_t requests, batches;
  } sizes[] = {{MODEL_REQUESTS, MODEL_BATCHES}, {5, 3}, {1, 1}, {2, 8}};
  uint64_t given_up = 0;
  for (uint32_t i = 0; i < 4; i++) {
    given_up += run_model(11 + i, merging, sizes[i].requests, sizes[i].batches);
    given_up += run_model(21 + i, splitting, sizes[i].requests, sizes[i].batches);
    given_up += run_model(31 + i, whole, sizes[i].requests, sizes[i].batches);
    given_up += run_model(41 + i, stateful, sizes[i].requests, sizes[i].batches);
  }
  assert_true(given_up > 50);
}

static cv_status create(void *arg) {
  (void)arg;
  cv_ledger *ledger;
  cv_status status = cv_ledger_create(4, 4, &(cv_ledger_rule){0}, &ledger);
  cv_ledger_destroy(ledger);
  return status;
}

static void test_bounds_and_faults(void **state) {
  (void)state;
  cv_ledger *ledger;
  assert_int_equal(cv_ledger_create(0, 4, &(cv_ledger_rule){0}, &ledger), CV_INVALID);
  assert_int_equal(cv_ledger_create(4, 0, &(cv_ledger_rule){0}, &ledger), CV_INVALID);
  assert_int_equal(cv_ledger_create(4, 4, &(cv_ledger_rule){.max_items = -1}, &ledger), CV_INVALID);
  assert_int_equal(each_fault(create, NULL), 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_splits_with_an_uneven_last),
                                     cmocka_unit_test(test_only_the_first_result_counts),
                                     cmocka_unit_test(test_answers_in_order_per_stream),
                                     cmocka_unit_test(test_merges_what_may_be_merged),
                                     cmocka_unit_test(test_one_by_one),
                                     cmocka_unit_test(test_failures),
                                     cmocka_unit_test(test_empty_request),
                                     cmocka_unit_test(test_scripts),
                                     cmocka_unit_test(test_random_steps),
                                     cmocka_unit_test(test_bounds_and_faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
