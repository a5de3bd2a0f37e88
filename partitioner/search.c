/* The relaxed walk: depth first over stages, each at its floor, with a table of what is known to
 * fail. Where floors are true costs (links alike, values read by one stage) it is the whole search;
 * else it prunes the exact walk of search_exact.c, and its NONE is a proof all the same. */
#include "partitioner/search_internal.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "partitioner/search_state_internal.h"

enum { MAX_STATES = 1 << 21, MAX_SETS = 1 << 16 };

static cv_status count_states(cv_search *q) {
  const cv_model *model = q->model;
  int devices = model->input->n_devices;
  if (q->ordered) {
    q->n_states = (devices + 1) * (devices + 1);
    q->lasts = 1;
    return CV_OK;
  }
  int64_t sets = 1;
  for (int c = 0; c < model->n_classes && sets <= MAX_SETS; c++) {
    q->radix[c] = (int)sets;
    sets *= model->classes[c].n_members + 1;
  }
  q->lasts = model->uniform ? 1 : model->n_classes + 1;
  if (sets > MAX_SETS || sets * q->lasts > MAX_STATES)
    return cv_error(CV_UNSUPPORTED,
                    "planner: %d devices of %d unlike classes are too many to try in every order",
                    devices, model->n_classes);
  q->n_states = (int)sets * q->lasts;
  return CV_OK;
}

static int used_of_class(const cv_search *q, int state, int c) {
  return state / q->lasts / q->radix[c] % (q->model->classes[c].n_members + 1);
}

static int count_used(const cv_search *q, int state) {
  if (q->ordered) return state % (q->model->input->n_devices + 1);
  int used = 0;
  for (int c = 0; c < q->model->n_classes; c++) used += used_of_class(q, state, c);
  return used;
}

cv_status cv_search_create(const cv_model *model, bool ordered, cv_search **out_search) {
  *out_search = NULL;
  cv_search *q = cv_alloc(1, sizeof *q);
  if (!q) return cv_error_nomem(sizeof *q);
  q->model = model;
  q->ordered = ordered;
  cv_status status = CV_OK;
  size_t devices = (size_t)model->input->n_devices;
  q->radix = cv_arena_array(&q->arena, int, (size_t)model->n_classes);
  q->path = cv_arena_array(&q->arena, cv_path_stage, devices);
  q->row = cv_arena_array(&q->arena, uint64_t, devices + 1);
  if (!q->radix || !q->path || !q->row) {
    status = cv_error_nomem(devices * sizeof *q->path);
    goto out;
  }
  CV_TRY(count_states(q));
  CV_TRY(cv_search_build_bounds(q));
  size_t states = (size_t)q->n_states;
  q->used = cv_arena_array(&q->arena, uint16_t, states);
  q->need = cv_arena_array(&q->arena, int, states);
  q->down = cv_arena_array(&q->arena, int *, states);
  q->reach = cv_arena_array(&q->arena, uint8_t *, states);
  if (!q->used || !q->need || !q->down || !q->reach) {
    status = cv_error_nomem(states * 22);
    goto out;
  }
  for (int s = 0; s < q->n_states; s++) q->used[s] = (uint16_t)count_used(q, s);
  *out_search = q;
  q = NULL;
out:
  cv_search_destroy(q);
  return status;
}

void cv_search_destroy(cv_search *q) {
  if (!q) return;
  cv_map_deinit(&q->failed);
  cv_free(q->key);
  cv_arena_deinit(&q->tables);
  cv_arena_deinit(&q->arena);
  cv_free(q);
}

int cv_search_used(const cv_search *q, int state) { return q->used[state]; }

int cv_search_last(const cv_search *q, int state) {
  if (q->ordered) return state / (q->model->input->n_devices + 1) - 1;
  return state % q->lasts - 1;
}

int cv_search_left(const cv_search *q, int state, int c) {
  if (q->ordered) return c > cv_search_last(q, state);
  return q->model->classes[c].n_members - used_of_class(q, state, c);
}

int cv_search_next(const cv_search *q, int state, int c) {
  if (cv_search_left(q, state, c) == 0) return -1;
  if (q->ordered) return (c + 1) * (q->model->input->n_devices + 1) + cv_search_used(q, state) + 1;
  int set = state / q->lasts + q->radix[c];
  return set * q->lasts + (q->lasts > 1 ? c + 1 : 0);
}

bool cv_search_spend(cv_search *q, int64_t effort) {
  q->effort -= effort;
  return q->effort > 0 && q->status == CV_OK;
}

static bool open_table(cv_search *q, int state) {
  if (q->down[state]) return true;
  size_t n = (size_t)q->model->n_atoms + 1;
  q->down[state] = cv_arena_array(&q->tables, int, n);
  q->reach[state] = cv_arena_array(&q->tables, uint8_t, n);
  if (q->down[state] && q->reach[state]) return true;
  q->down[state] = NULL;
  q->status = cv_error_nomem(n * 5);
  return false;
}

int cv_search_skip(cv_search *q, int state, int p) {
  int *down = q->down[state];
  if (!down) return p;
  while (down[p]) { /* halves the way for the next one who comes */
    int far = p - down[p];
    down[p] += down[far];
    p = far;
  }
  return p;
}

static bool within(const cv_search *q, const cv_model_stage *stage, bool open) {
  return cv_model_floor(q->model, stage, open) <= q->limit * (1 + CV_SEARCH_ROUNDING);
}

/* The largest end <= stage->b for which what grows with b is within the limit; a if there is
 * none. */
static int last_open(const cv_search *q, cv_model_stage stage) {
  int low = stage.a, high = stage.b - 1;
  while (low < high) {
    stage.b = low + (high - low + 1) / 2;
    if (within(q, &stage, true))
      low = stage.b;
    else
      high = stage.b - 1;
  }
  return low;
}

static bool walk(cv_search *q, int state, int a);

/* Tries ends of a stage of class c, longest first. */
static bool walk_class(cv_search *q, int state, int a, int c) {
  int lo, top, used = cv_search_used(q, state);
  int next = cv_search_range(q, state, c, a, &lo, &top);
  if (next < 0) return false;
  for (int b = top < lo ? top : cv_search_skip(q, next, top); b >= lo;) {
    if (!cv_search_spend(q, 1)) return false;
    cv_model_stage stage = {c, cv_search_last(q, state), used, a, b};
    if (within(q, &stage, false)) {
      if (cv_search_possible(q, next, b)) {
        q->path[used] = (cv_path_stage){c, b};
        if (b == q->model->n_atoms) q->path_len = used + 1;
        return true;
      }
      if (q->effort <= 0 || q->status != CV_OK) return false;
      b = cv_search_skip(q, next, b - 1);
    } else {
      b = within(q, &stage, true) ? b - 1 : last_open(q, stage);
      if (b >= lo) b = cv_search_skip(q, next, b);
    }
  }
  return false;
}

static bool walk(cv_search *q, int state, int a) {
  if (cv_search_used(q, state) == q->max_stages) return false;
  for (int c = 0; c < q->model->n_classes; c++)
    if (walk_class(q, state, a, c)) return true;
  return false;
}

bool cv_search_possible(cv_search *q, int state, int a) {
  if (a == q->model->n_atoms) return cv_search_used(q, state) >= q->min_stages;
  if (!open_table(q, state)) return false;
  if (q->down[state][a]) return false;
  if (q->reach[state][a]) return true;
  bool possible = walk(q, state, a);
  if (possible)
    q->reach[state][a] = 1;
  else if (q->effort > 0 && q->status == CV_OK)
    q->down[state][a] = 1;
  return possible;
}

static void begin(cv_search *q, const cv_search_question *question) {
  q->min_stages = question->min_stages;
  q->max_stages = question->max_stages;
  q->limit = question->limit;
  q->effort = question->effort;
  q->status = CV_OK;
  q->path_len = 0;
  cv_arena_deinit(&q->tables);
  memset(q->down, 0, (size_t)q->n_states * sizeof *q->down);
  memset(q->reach, 0, (size_t)q->n_states * sizeof *q->reach);
  cv_search_begin_bounds(q);
}

/* Scores q->path; keeps it when it is the best yet. */
static cv_status score_path(cv_search *q, cv_search_best *best, double *out_bottleneck) {
  cv_arena arena = {0};
  cv_model_score score;
  cv_status status = cv_model_evaluate(q->model, q->path, q->path_len, &arena, &score);
  *out_bottleneck = score.misfit < 0 ? score.bottleneck : INFINITY;
  if (status == CV_OK && score.misfit < 0 &&
      (best->n == 0 || score.bottleneck < best->bottleneck)) {
    best->bottleneck = score.bottleneck;
    best->n = q->path_len;
    memcpy(best->path, q->path, (size_t)q->path_len * sizeof *q->path);
  }
  cv_arena_deinit(&arena);
  return status;
}

cv_status cv_search_ask(cv_search *q, const cv_search_question *question, cv_search_best *best,
                        cv_search_answer *out_answer) {
  *out_answer = CV_SEARCH_UNKNOWN;
  begin(q, question);
  bool found = cv_search_need(q, 0) == 0 && cv_search_possible(q, 0, 0);
  if (q->status != CV_OK) return q->status;
  if (!found) {
    *out_answer = q->effort > 0 ? CV_SEARCH_NONE : CV_SEARCH_UNKNOWN;
    return CV_OK;
  }
  double bottleneck;
  cv_status status = score_path(q, best, &bottleneck);
  if (status != CV_OK) return status;
  if (bottleneck > q->limit * (1 + CV_SEARCH_ROUNDING) || best->n == 0) {
    found = cv_search_walk_exact(q);
    if (q->status != CV_OK) return q->status;
    if (!found) {
      *out_answer = q->effort > 0 ? CV_SEARCH_NONE : CV_SEARCH_UNKNOWN;
      return CV_OK;
    }
    status = score_path(q, best, &bottleneck);
    if (status != CV_OK) return status;
  }
  *out_answer = CV_SEARCH_FOUND;
  return CV_OK;
}
