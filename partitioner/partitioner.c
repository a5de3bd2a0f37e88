#include "partitioner/partitioner.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "partitioner/plan_internal.h"
#include "partitioner/search_internal.h"

static const int64_t DEFAULT_EFFORT = 50000000;
/* Bottlenecks nearer than this, relatively, are taken as one. */
static const double EQUAL = 1e-9;
/* The first step above the floor when looking for the first limit that holds. */
static const double FIRST_STEP = 1.0 / 16384;

/* One way to look at the devices, and what the search for it gave. */
typedef struct {
  cv_model *model;
  cv_search *search;
  cv_search_best best;
  double proved; /* no plan below this */
  bool in_doubt; /* some limit could not be decided */
} attempt;

static void attempt_deinit(attempt *t) {
  cv_search_destroy(t->search);
  cv_model_destroy(t->model);
  cv_free(t->best.path);
  *t = (attempt){0};
}

static cv_status attempt_init(const cv_plan_input *input, bool ordered, attempt *t) {
  *t = (attempt){.best.bottleneck = INFINITY};
  cv_status status = CV_OK;
  CV_TRY(cv_model_create(input, ordered, &t->model));
  CV_TRY(cv_search_create(t->model, ordered, &t->search));
  t->best.path = cv_alloc((size_t)input->n_devices, sizeof *t->best.path);
  if (!t->best.path) status = cv_error_nomem((size_t)input->n_devices * sizeof *t->best.path);
out:
  if (status != CV_OK) attempt_deinit(t);
  return status;
}

static cv_status ask(attempt *t, int min_stages, int max_stages, double limit,
                     cv_search_answer *out_answer) {
  int64_t effort = t->model->input->effort ? t->model->input->effort : DEFAULT_EFFORT;
  if (isfinite(limit)) effort = effort / 32 + 1; /* many limits are tried */
  cv_search_question question = {min_stages, max_stages, limit, effort};
  cv_status status = cv_search_ask(t->search, &question, &t->best, out_answer);
  if (status == CV_OK && *out_answer == CV_SEARCH_UNKNOWN) t->in_doubt = true;
  return status;
}

/* Smallest bottleneck of min_stages to max_stages stages: climbs from the floor to the first limit
 * that holds, then halves the gap. best.n is 0 when there is no plan. */
static cv_status minimise(attempt *t, int min_stages, int max_stages) {
  t->best.n = 0;
  t->best.bottleneck = INFINITY;
  t->in_doubt = false;
  cv_search_answer answer;
  cv_status status = ask(t, min_stages, max_stages, INFINITY, &answer);
  if (status != CV_OK || t->best.n == 0) return status;
  double low = cv_search_floor(t->search, max_stages, t->best.bottleneck), limit = low;
  double step = (low > 0 ? low : t->best.bottleneck) * FIRST_STEP;
  t->proved = low;
  bool climbing = true;
  while (low < t->best.bottleneck * (1 - EQUAL)) {
    if (climbing && limit >= t->best.bottleneck) climbing = false;
    if (!climbing) limit = low + (t->best.bottleneck - low) / 2;
    if (t->best.bottleneck - low < 4 * EQUAL * t->best.bottleneck)
      limit = t->best.bottleneck * (1 - EQUAL);
    status = ask(t, min_stages, max_stages, limit, &answer);
    if (status != CV_OK) return status;
    if (answer == CV_SEARCH_FOUND) {
      if (t->best.bottleneck > limit * (1 + EQUAL / 2))
        return cv_error(CV_INTERNAL, "planner: found a plan within %.17g us that takes %.17g us",
                        limit, t->best.bottleneck);
      climbing = false;
      continue;
    }
    low = limit;
    if (answer == CV_SEARCH_NONE) t->proved = limit;
    limit += step;
    step *= 4;
  }
  return CV_OK;
}

/* The same bottleneck with the fewest stages. */
static cv_status fewest_stages(attempt *t, int min_stages) {
  double limit = t->best.bottleneck * (1 + EQUAL);
  int low = min_stages, high = t->best.n;
  while (low < high) {
    int middle = low + (high - low) / 2;
    cv_search_best kept = t->best;
    t->best.n = 0;
    kept.path = cv_alloc((size_t)kept.n, sizeof *kept.path);
    if (!kept.path) return cv_error_nomem((size_t)kept.n * sizeof *kept.path);
    memcpy(kept.path, t->best.path, (size_t)kept.n * sizeof *kept.path);
    cv_search_answer answer;
    bool in_doubt = t->in_doubt;
    cv_status status = ask(t, min_stages, middle, limit, &answer);
    t->in_doubt = in_doubt; /* of the bottleneck, not of this */
    if (status == CV_OK && answer == CV_SEARCH_FOUND) {
      high = t->best.n;
    } else {
      low = middle + 1;
      memcpy(t->best.path, kept.path, (size_t)kept.n * sizeof *kept.path);
      t->best.n = kept.n;
      t->best.bottleneck = kept.bottleneck;
    }
    cv_free(kept.path);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

/* Names the stage that cannot be: devices in the model's order take what they hold; the first that
 * holds nothing, or the last one with all that is left, is the one. */
static cv_status explain_misfit(const cv_model *model, int max_stages) {
  int a = 0, place = 0, c = 0, member = 0;
  for (;;) {
    cv_model_stage stage = {c, -1, place, a, model->n_atoms};
    const cv_model_class *class_ = &model->classes[c];
    uint64_t need = cv_model_memory(model, &stage);
    bool last =
        place == max_stages - 1 || (c == model->n_classes - 1 && member == class_->n_members - 1);
    if (!last) {
      while (stage.b > a + 1 && need > class_->memory) {
        stage.b--;
        need = cv_model_memory(model, &stage);
      }
    }
    if (need > class_->memory)
      return cv_error(CV_INFEASIBLE,
                      "stage %d on %s needs %llu bytes for steps %d to %d, has %llu; use a smaller "
                      "micro-batch, or more or larger devices",
                      place, model->input->devices[class_->members[member]].name,
                      (unsigned long long)need, model->cut[a], model->cut[stage.b] - 1,
                      (unsigned long long)class_->memory);
    if (stage.b == model->n_atoms || last)
      return cv_error(CV_INFEASIBLE,
                      "no split into stages fits the memory of the devices and their slots; use a "
                      "smaller micro-batch, or more or larger devices");
    a = stage.b;
    place++;
    if (++member == class_->n_members) member = 0, c++;
  }
}

static cv_status check_stages(const cv_model *model) {
  const cv_plan_input *in = model->input;
  if (in->stages > model->n_atoms)
    return cv_error(CV_INFEASIBLE,
                    "%d stages asked but the program has %d steps (%d legal cuts); ask for at most "
                    "%d stages",
                    in->stages, in->n_steps, model->n_atoms - 1, model->n_atoms);
  if (in->stages > in->n_devices)
    return cv_error(CV_INFEASIBLE, "%d stages asked but there are %d devices; ask for at most that",
                    in->stages, in->n_devices);
  return CV_OK;
}

static const char *limit_of(const cv_plan *plan, int stage) {
  const cv_plan_stage *s = &plan->stages[stage];
  if (s->compute_us + s->copy_us >= s->us)
    return s->copy_us > 0 ? "computing and copying" : "computing";
  return s->wire_in_us >= s->us ? "receiving" : "sending";
}

/* `found`: the bottleneck of the search, which counts every edge as having the slots it wants. */
static void say_slowest(const cv_plan *plan, double found, double proved, cv_str *text) {
  int slowest = 0;
  for (int j = 1; j < plan->n_stages; j++)
    if (plan->stages[j].us > plan->stages[slowest].us) slowest = j;
  const cv_plan_stage *stage = &plan->stages[slowest];
  cv_str_add(text, "%d stage%s; ", plan->n_stages, plan->n_stages == 1 ? "" : "s");
  if (plan->bottleneck_us > found * (1 + 8 * EQUAL))
    cv_str_add(text,
               "memory holds too few slots to hide the links' latency, which binds at %.6g us",
               plan->bottleneck_us);
  else if (stage->us >= found * (1 - EQUAL))
    cv_str_add(text, "stage %d on %s is the slowest, %s %.6g us", slowest, stage->device,
               limit_of(plan, slowest), found);
  else
    cv_str_add(text, "the gateway's own links bind at %.6g us", found);
  if (proved >= found * (1 - 8 * EQUAL))
    cv_str_puts(text, plan->exact ? ", and no split is faster" : "");
  else
    cv_str_add(text, "; not every split was tried, %.6g us is proved", proved);
}

static void say_left_out(const cv_plan_input *in, const cv_plan *plan, cv_str *text) {
  int listed = 0, left = in->n_devices - plan->n_stages;
  for (int d = 0; d < in->n_devices && left > 0; d++) {
    bool used = false;
    for (int j = 0; j < plan->n_stages && !used; j++) used = plan->stages[j].device_index == d;
    if (used) continue;
    if (++listed <= 8)
      cv_str_add(text, "%s%s", listed == 1 ? "; left out: " : ", ", in->devices[d].name);
  }
  if (listed > 8) cv_str_add(text, " and %d more", listed - 8);
  if (left > 0)
    cv_str_puts(text, plan->n_stages == 1 ? " (one device is enough)"
                      : in->stages        ? ""
                                          : " (the pipe is not faster with them)");
}

/* With a number of stages asked for: would fewer do? */
static cv_status say_fewer(const cv_plan_input *in, attempt *t, const cv_plan *plan, cv_str *text) {
  if (in->stages < 2) return CV_OK;
  cv_search_answer answer;
  t->best.n = 0;
  t->best.bottleneck = INFINITY;
  cv_status status = ask(t, 1, in->stages - 1, plan->bottleneck_us * (1 + EQUAL), &answer);
  if (status != CV_OK || answer != CV_SEARCH_FOUND) return status;
  status = minimise(t, 1, in->stages - 1);
  if (status == CV_OK) status = fewest_stages(t, 1);
  if (status != CV_OK) return status;
  bool faster = t->best.bottleneck < plan->bottleneck_us * (1 - 1e-6);
  cv_str_add(text, "; %d stage%s would be %s (%.6g us), but %d were asked", t->best.n,
             t->best.n == 1 ? "" : "s", faster ? "faster" : "as fast", t->best.bottleneck,
             in->stages);
  return CV_OK;
}

static cv_status finish(const cv_plan_input *in, attempt *t, bool all_tried, cv_plan *plan) {
  cv_status status =
      cv_plan_even_out(t->model, t->best.bottleneck * (1 + EQUAL), t->best.path, t->best.n);
  if (status == CV_OK) status = cv_plan_of_path(t->model, t->best.path, t->best.n, plan);
  if (status != CV_OK) return status;
  double found = t->best.bottleneck;
  bool reached = t->proved >= found * (1 - 8 * EQUAL);
  plan->exact = reached && plan->bottleneck_us <= found * (1 + 8 * EQUAL);
  plan->bound_us = reached ? found : t->proved;
  cv_str text = {0};
  say_slowest(plan, found, t->proved, &text);
  say_left_out(in, plan, &text);
  if (all_tried) status = say_fewer(in, t, plan, &text);
  plan->reason = text.failed ? NULL : cv_strdup(cv_str_text(&text));
  if (status == CV_OK && !plan->reason) status = cv_error_nomem(text.len + 1);
  cv_str_deinit(&text);
  return status;
}

static cv_status solve(const cv_plan_input *in, bool ordered, attempt *t) {
  cv_status status = attempt_init(in, ordered, t);
  if (status != CV_OK) return status;
  CV_TRY(check_stages(t->model));
  int most = in->n_devices < t->model->n_atoms ? in->n_devices : t->model->n_atoms;
  int min_stages = in->stages ? in->stages : 1, max_stages = in->stages ? in->stages : most;
  CV_TRY(minimise(t, min_stages, max_stages));
  if (t->best.n == 0) {
    status = t->in_doubt ? cv_error(CV_INFEASIBLE, "no plan was found within the effort allowed")
                         : explain_misfit(t->model, max_stages);
    goto out;
  }
  CV_TRY(fewest_stages(t, min_stages));
out:
  if (status != CV_OK) attempt_deinit(t);
  return status;
}

/* The input with its devices in another order. */
typedef struct {
  cv_plan_input input;
  cv_plan_device *devices;
  cv_plan_link *links;
} permuted;

static cv_status permute(const cv_plan_input *in, const int *order, permuted *out) {
  size_t n = (size_t)in->n_devices;
  *out = (permuted){.input = *in};
  out->devices = cv_alloc(n, sizeof *out->devices);
  out->links = cv_alloc((n + 1) * (n + 1), sizeof *out->links);
  if (!out->devices || !out->links) return cv_error_nomem((n + 1) * (n + 1) * sizeof *out->links);
  for (size_t i = 0; i <= n; i++) {
    size_t from = i < n ? (size_t)order[i] : n;
    if (i < n) out->devices[i] = in->devices[from];
    for (size_t j = 0; j <= n; j++)
      out->links[i * (n + 1) + j] = in->links[from * (n + 1) + (j < n ? (size_t)order[j] : n)];
  }
  out->input.devices = out->devices;
  out->input.links = out->links;
  return CV_OK;
}

static cv_status fastest_first(const cv_plan_input *in, int **out_order) {
  cv_model *model;
  *out_order = NULL;
  cv_status status = cv_model_create(in, false, &model);
  if (status != CV_OK) return status;
  int *order = cv_alloc((size_t)in->n_devices, sizeof *order), used = 0;
  for (int c = 0; order && c < model->n_classes; c++)
    for (int i = 0; i < model->classes[c].n_members; i++)
      order[used++] = model->classes[c].members[i];
  cv_model_destroy(model);
  *out_order = order;
  return order ? CV_OK : cv_error_nomem((size_t)in->n_devices * sizeof *order);
}

/* Too many unlike devices for every order: the order given, and fastest first. The bound is what
 * the speeds alone allow. */
static cv_status solve_two_orders(const cv_plan_input *in, cv_plan *plan) {
  attempt given = {0}, sorted = {0};
  permuted other = {0};
  int *order = NULL;
  cv_status given_status = solve(in, true, &given), status = CV_OK;
  if (given_status != CV_OK && given_status != CV_INFEASIBLE) return given_status;
  CV_TRY(fastest_first(in, &order));
  CV_TRY(permute(in, order, &other));
  status = solve(&other.input, true, &sorted);
  if (status == CV_INFEASIBLE && given_status == CV_OK) status = CV_OK;
  if (status != CV_OK) goto out;
  bool use_given =
      !sorted.search || (given.search && given.best.bottleneck <= sorted.best.bottleneck);
  attempt *best = use_given ? &given : &sorted;
  int most = in->stages ? in->stages : in->n_devices;
  best->proved = cv_search_floor(best->search, most, best->best.bottleneck);
  CV_TRY(finish(best->model->input, best, false, plan));
  for (int j = 0; !use_given && j < plan->n_stages; j++)
    plan->stages[j].device_index = order[plan->stages[j].device_index];
out:
  attempt_deinit(&given);
  attempt_deinit(&sorted);
  cv_free(other.devices);
  cv_free(other.links);
  cv_free(order);
  return status;
}

cv_status cv_partition(const cv_plan_input *input, cv_plan *out_plan) {
  *out_plan = (cv_plan){0};
  attempt t;
  cv_status status = solve(input, input->ordered, &t);
  if (status == CV_UNSUPPORTED && !input->ordered) {
    status = solve_two_orders(input, out_plan);
  } else if (status == CV_OK) {
    status = finish(input, &t, true, out_plan);
    attempt_deinit(&t);
  }
  if (status != CV_OK) cv_plan_deinit(out_plan);
  return status;
}
