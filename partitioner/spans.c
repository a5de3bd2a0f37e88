#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "partitioner/model_internal.h"

static int by_hi_descending(const void *left, const void *right) {
  const cv_span *a = left, *b = right;
  return a->hi != b->hi ? (a->hi < b->hi) - (a->hi > b->hi) : (a->lo > b->lo) - (a->lo < b->lo);
}

static int next_node(int node) { return node + (node & -node); }

/* Sizes of the nodes, then where each begins. */
static void count_nodes(cv_spans *spans, const cv_span *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (int node = list[i].lo + 1; node <= spans->n; node = next_node(node))
      spans->begin[node + 1]++;
  for (int node = 1; node <= spans->n + 1; node++) spans->begin[node] += spans->begin[node - 1];
}

/* A span goes to every node above its lo; the list comes by descending hi, so nodes are sorted. */
static void fill_nodes(cv_spans *spans, const cv_span *list, size_t count, size_t *used) {
  for (size_t i = 0; i < count; i++) {
    for (int node = list[i].lo + 1; node <= spans->n; node = next_node(node)) {
      size_t at = spans->begin[node] + used[node]++;
      spans->hi[at] = list[i].hi;
      spans->sum[at] = list[i].bytes + (at > spans->begin[node] ? spans->sum[at - 1] : 0);
    }
  }
}

static void sum_positions(cv_spans *spans, const cv_span *list, size_t count) {
  for (int a = 0; a < spans->n; a++) spans->max_hi[a] = -1;
  for (size_t i = 0; i < count; i++) {
    spans->at[list[i].lo] += list[i].bytes;
    if (list[i].hi + 1 < spans->n) spans->at[list[i].hi + 1] -= list[i].bytes; /* wraps back */
    if (list[i].hi > spans->max_hi[list[i].lo]) spans->max_hi[list[i].lo] = list[i].hi;
  }
  for (int a = 1; a < spans->n; a++) {
    spans->at[a] += spans->at[a - 1];
    if (spans->max_hi[a - 1] > spans->max_hi[a]) spans->max_hi[a] = spans->max_hi[a - 1];
  }
}

cv_status cv_spans_build(cv_arena *arena, const cv_span *list, size_t count, int n,
                         cv_spans *out_spans) {
  size_t positions = (size_t)n;
  cv_spans spans = {.n = n};
  cv_span *sorted = cv_alloc(count, sizeof *sorted);
  size_t *used = cv_alloc(positions + 2, sizeof *used);
  spans.begin = cv_arena_array(arena, size_t, positions + 2);
  spans.max_hi = cv_arena_array(arena, int, positions);
  spans.at = cv_arena_array(arena, uint64_t, positions);
  cv_status status = CV_OK;
  if (!sorted || !used || !spans.begin || !spans.max_hi || !spans.at) {
    status = cv_error_nomem(count * sizeof *sorted + positions * 32);
    goto out;
  }
  if (count) memcpy(sorted, list, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, by_hi_descending);
  count_nodes(&spans, sorted, count);
  size_t total = spans.begin[n + 1];
  spans.hi = cv_arena_array(arena, int, total);
  spans.sum = cv_arena_array(arena, uint64_t, total);
  if (!spans.hi || !spans.sum) {
    status = cv_error_nomem(total * 12);
    goto out;
  }
  fill_nodes(&spans, sorted, count, used);
  sum_positions(&spans, sorted, count);
  *out_spans = spans;
out:
  cv_free(sorted);
  cv_free(used);
  return status;
}

uint64_t cv_spans_covering(const cv_spans *spans, int a, int b) {
  if (spans->max_hi[a] < b) return 0;
  uint64_t sum = 0;
  for (int node = a + 1; node > 0; node &= node - 1) {
    size_t begin = spans->begin[node], low = begin, high = spans->begin[node + 1];
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      if (spans->hi[middle] >= b)
        low = middle + 1;
      else
        high = middle;
    }
    if (low > begin) sum += spans->sum[low - 1];
  }
  return sum;
}
