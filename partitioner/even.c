/* Many splits have the smallest bottleneck; this takes one whose other stages are even too. */
#include <math.h>

#include "partitioner/plan_internal.h"

enum { ROUNDS = 3 };

/* Time of the slower of stages j and j + 1, and both times together, if the cut between were at
 * `position`. */
static double pair_cost(const cv_model *model, const cv_path_stage *path, int j, int position,
                        double *out_sum) {
  int before = j ? path[j - 1].class_ : -1;
  cv_model_stage left = {path[j].class_, before, j, j ? path[j - 1].end : 0, position};
  cv_model_stage right = {path[j + 1].class_, path[j].class_, j + 1, position, path[j + 1].end};
  double a = cv_model_floor(model, &left, false), b = cv_model_floor(model, &right, false);
  *out_sum = a + b;
  return fmax(a, b);
}

static int best_position(const cv_model *model, const cv_path_stage *path, int j) {
  int best = path[j].end;
  double sum, cost = pair_cost(model, path, j, best, &sum);
  for (int p = j ? path[j - 1].end + 1 : 1; p < path[j + 1].end; p++) {
    double other_sum, other = pair_cost(model, path, j, p, &other_sum);
    bool better = other < cost * (1 - 1e-9) || (other <= cost && other_sum < sum * (1 - 1e-9));
    if (!better) continue;
    best = p;
    cost = other;
    sum = other_sum;
  }
  return best;
}

cv_status cv_plan_even_out(const cv_model *model, double limit, cv_path_stage *path, int n) {
  bool moved = true;
  for (int round = 0; round < ROUNDS && moved; round++) {
    moved = false;
    for (int j = 0; j + 1 < n; j++) {
      int old = path[j].end, position = best_position(model, path, j);
      if (position == old) continue;
      path[j].end = position;
      cv_arena arena = {0};
      cv_model_score score;
      cv_status status = cv_model_evaluate(model, path, n, &arena, &score);
      cv_arena_deinit(&arena);
      if (status != CV_OK) return status;
      if (score.misfit >= 0 || score.bottleneck > limit)
        path[j].end = old;
      else
        moved = true;
    }
  }
  return CV_OK;
}
