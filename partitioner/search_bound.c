/* Bounds from what each device can take by itself: the reach of a stage within the limit, and from
 * which position the devices left may do the rest. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "partitioner/search_state_internal.h"

enum { MAX_HOLD_QUERIES = 1 << 22, FLOOR_STEPS = 20 };

static bool same_reach(const cv_model *model, int a, int b) {
  const cv_model_class *x = &model->classes[a], *y = &model->classes[b];
  return x->time == y->time && x->memory == y->memory && x->weight_sum == y->weight_sum &&
         x->device->pace_us == y->device->pace_us &&
         x->device->pace_us_per_step == y->device->pace_us_per_step;
}

static cv_status build_hold(cv_search *q, int c) {
  const cv_model *model = q->model;
  uint64_t memory = model->classes[c].memory;
  int n = model->n_atoms;
  q->hold_end[c] = cv_arena_array(&q->arena, int, (size_t)n);
  if (!q->hold_end[c]) return cv_error_nomem((size_t)n * sizeof(int));
  for (int a = 0, b = 0; a < n; a++) {
    if (b < a) b = a;
    while (b < n && cv_model_hold(model, c, a, b + 1) <= memory) b++;
    q->hold_end[c][a] = b;
  }
  return CV_OK;
}

static cv_status build_ends(cv_search *q) {
  const cv_model *model = q->model;
  size_t classes = (size_t)model->n_classes, n = (size_t)model->n_atoms;
  q->twin = cv_arena_array(&q->arena, int, classes);
  q->end = cv_arena_array(&q->arena, int *, classes);
  q->hold_end = cv_arena_array(&q->arena, int *, classes);
  if (!q->twin || !q->end || !q->hold_end) return cv_error_nomem(classes * 24);
  size_t queries = 0;
  for (int c = 0; c < model->n_classes; c++) {
    while (!same_reach(model, q->twin[c], c)) q->twin[c]++;
    if (q->twin[c] < c) {
      q->end[c] = q->end[q->twin[c]];
      q->hold_end[c] = q->hold_end[q->twin[c]];
      continue;
    }
    q->end[c] = cv_arena_array(&q->arena, int, n);
    if (!q->end[c]) return cv_error_nomem(n * sizeof(int));
    if (model->classes[c].memory == UINT64_MAX) continue;
    queries += 2 * n;
    cv_status status = queries <= MAX_HOLD_QUERIES ? build_hold(q, c) : CV_OK;
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

static bool is_paced(const cv_model *model, int c) {
  const cv_model_class *class_ = &model->classes[c];
  return class_->device->pace_us_per_step * model->cut[model->n_atoms] >
         class_->time[model->n_atoms];
}

static bool same_measure(const cv_model *model, int a, int b) {
  bool paced = is_paced(model, a);
  return paced == is_paced(model, b) &&
         (paced || model->classes[a].device->kind == model->classes[b].device->kind);
}

cv_status cv_search_build_bounds(cv_search *q) {
  const cv_model *model = q->model;
  int base[CV_SEARCH_MEASURES];
  size_t classes = (size_t)model->n_classes, n = (size_t)model->n_atoms + 1;
  for (int c = 0; c < model->n_classes && q->n_measures < CV_SEARCH_MEASURES; c++) {
    bool known = false;
    for (int i = 0; i < q->n_measures && !known; i++) known = same_measure(model, base[i], c);
    if (known) continue;
    cv_search_measure *measure = &q->measures[q->n_measures];
    measure->work = cv_arena_array(&q->arena, double, n);
    measure->cover = cv_arena_array(&q->arena, double, classes);
    measure->widest = cv_arena_array(&q->arena, int, classes);
    if (!measure->work || !measure->cover || !measure->widest)
      return cv_error_nomem(n * sizeof(double));
    for (size_t a = 0; a < n; a++)
      measure->work[a] = is_paced(model, c) ? model->cut[a] : model->classes[c].time[a];
    base[q->n_measures++] = c;
  }
  return build_ends(q);
}

static void find_ends(cv_search *q, int c) {
  const cv_model *model = q->model;
  const cv_model_class *class_ = &model->classes[c];
  int n = model->n_atoms;
  double limit = q->limit * (1 + CV_SEARCH_ROUNDING), pace = class_->device->pace_us_per_step;
  double room = limit + class_->time[n] * 1e-15;
  bool idle = class_->device->pace_us > limit;
  for (int a = 0, b = 0; a < n; a++) {
    if (b < a || idle) b = a;
    int most = idle ? a : q->hold_end[c] ? q->hold_end[c][a] : n;
    while (b < most && class_->time[b + 1] - class_->time[a] <= room &&
           pace * (model->cut[b + 1] - model->cut[a]) <= limit)
      b++;
    q->end[c][a] = b;
  }
}

static void find_covers(cv_search *q, cv_search_measure *measure) {
  const cv_model *model = q->model;
  for (int c = 0; c < model->n_classes; c++) {
    double cover = 0;
    if (q->twin[c] < c)
      cover = measure->cover[q->twin[c]];
    else
      for (int a = 0; a < model->n_atoms; a++)
        cover = fmax(cover, measure->work[q->end[c][a]] - measure->work[a]);
    measure->cover[c] = cover;
    int at = c;
    for (; at > 0 && measure->cover[measure->widest[at - 1]] < cover; at--)
      measure->widest[at] = measure->widest[at - 1];
    measure->widest[at] = c;
  }
}

void cv_search_begin_bounds(cv_search *q) {
  for (int s = 0; s < q->n_states; s++) q->need[s] = -1;
  for (int c = 0; c < q->model->n_classes; c++)
    if (q->twin[c] == c) find_ends(q, c);
  for (int i = 0; i < q->n_measures; i++) find_covers(q, &q->measures[i]);
}

/* Work that the `stages` widest of the devices left can take. */
static double room_left(const cv_search *q, const cv_search_measure *measure, int state,
                        int stages) {
  double sum = 0;
  for (int i = 0; i < q->model->n_classes && stages > 0; i++) {
    int c = measure->widest[i], left = cv_search_left(q, state, c);
    int taken = left < stages ? left : stages;
    sum += taken * measure->cover[c];
    stages -= taken;
  }
  return sum;
}

int cv_search_need(cv_search *q, int state) {
  if (q->need[state] >= 0) return q->need[state];
  int n = q->model->n_atoms, need = 0;
  int stages = q->max_stages - cv_search_used(q, state);
  if (stages == 0) need = n;
  for (int i = 0; i < q->n_measures && stages > 0; i++) {
    const cv_search_measure *measure = &q->measures[i];
    double room = room_left(q, measure, state, stages) * (1 + CV_SEARCH_ROUNDING);
    int low = need, high = n;
    while (low < high) {
      int middle = low + (high - low) / 2;
      if (measure->work[n] - measure->work[middle] <= room + measure->work[n] * 1e-15)
        high = middle;
      else
        low = middle + 1;
    }
    need = low;
  }
  return q->need[state] = need;
}

double cv_search_floor(cv_search *q, int max_stages, double high) {
  double low = 0;
  q->max_stages = max_stages;
  for (int step = 0; step < FLOOR_STEPS && low < high; step++) {
    q->limit = low + (high - low) / 2;
    cv_search_begin_bounds(q);
    if (cv_search_need(q, 0) > 0)
      low = q->limit;
    else
      high = q->limit;
  }
  return low;
}

int cv_search_range(cv_search *q, int state, int c, int a, int *out_lo, int *out_top) {
  *out_lo = *out_top = 0;
  int next = cv_search_next(q, state, c);
  if (next < 0) return next;
  int after = q->min_stages - cv_search_used(q, state) - 1;
  int most = q->model->n_atoms - (after > 0 ? after : 0), need = cv_search_need(q, next);
  *out_top = q->end[c][a] < most ? q->end[c][a] : most;
  *out_lo = need > a ? need : a + 1;
  return next;
}
