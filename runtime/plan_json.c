#include "runtime/plan_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/file.h"

enum { MAX_STAGES = 4096, MAX_REPLICAS = 1024, MAX_COUNT = 1 << 24 };

void cv_plan_json_deinit(cv_plan_json *plan) {
  for (uint32_t s = 0; plan->stages && s < plan->n_stages; s++) {
    cv_plan_json_stage *stage = &plan->stages[s];
    for (uint32_t d = 0; stage->devices && d < stage->n_devices; d++) cv_free(stage->devices[d]);
    cv_free(stage->devices);
    cv_free(stage->weights);
  }
  cv_free(plan->stages);
  cv_free(plan->artifact);
  cv_free(plan->order);
  cv_free(plan->reason);
  *plan = (cv_plan_json){0};
}

/* ---- reading ---- */

/* An integer in [lo, hi] under `key`; where it is left out, `out` keeps its value, which must be in
 * the range to be a default. */
static cv_status read_int(const char *where, const json_t *object, const char *key, int64_t lo,
                          int64_t hi, int64_t *out) {
  const json_t *item = json_object_get(object, key);
  if ((!item || json_is_null(item)) && *out >= lo) return CV_OK;
  int64_t number = json_is_integer(item) ? json_integer_value(item) : lo - 1;
  if (number < lo || number > hi)
    return cv_error(CV_INVALID, "%s: \"%s\" must be an integer from %" PRId64 " to %" PRId64, where,
                    key, lo, hi);
  *out = number;
  return CV_OK;
}

static cv_status read_number(const char *where, const json_t *object, const char *key,
                             double *out) {
  const json_t *item = json_object_get(object, key);
  if (!item || json_is_null(item)) return CV_OK;
  double number = json_number_value(item);
  if (!json_is_number(item) || !isfinite(number) || number < 0)
    return cv_error(CV_INVALID, "%s: \"%s\" must be a number, 0 or more", where, key);
  *out = number;
  return CV_OK;
}

static cv_status read_text(const char *where, const json_t *object, const char *key, char **out) {
  const json_t *item = json_object_get(object, key);
  if (!item || json_is_null(item)) return CV_OK;
  if (!json_is_string(item)) return cv_error(CV_INVALID, "%s: \"%s\" must be a text", where, key);
  *out = cv_strdup(json_string_value(item));
  return *out ? CV_OK : cv_error_nomem(json_string_length(item));
}

static cv_status read_devices(const char *where, const json_t *object, cv_plan_json_stage *out) {
  const json_t *item = json_object_get(object, "device");
  const json_t *weights = json_object_get(object, "weights");
  size_t count = json_is_array(item) ? json_array_size(item) : 1;
  if (count == 0 || count > MAX_REPLICAS)
    return cv_error(CV_INVALID, "%s: \"device\" must name 1 to %d devices", where, MAX_REPLICAS);
  if (weights && !json_is_null(weights) && json_array_size(weights) != count)
    return cv_error(CV_INVALID, "%s: \"weights\" must be a list with an entry for each device",
                    where);
  out->devices = cv_alloc(count, sizeof *out->devices);
  out->weights = cv_alloc(count, sizeof *out->weights);
  if (!out->devices || !out->weights) return cv_error_nomem(count * sizeof *out->devices);
  out->n_devices = (uint32_t)count;
  for (size_t i = 0; i < count; i++) {
    const json_t *name = json_is_array(item) ? json_array_get(item, i) : item;
    const json_t *weight = json_array_get(weights, i);
    if (!json_is_string(name) || !json_string_length(name))
      return cv_error(CV_INVALID, "%s: \"device\" must be a name, or a list of names", where);
    out->devices[i] = cv_strdup(json_string_value(name));
    if (!out->devices[i]) return cv_error_nomem(json_string_length(name));
    out->weights[i] = weight ? json_number_value(weight) : 1;
    if (!isfinite(out->weights[i]) || out->weights[i] <= 0)
      return cv_error(CV_INVALID, "%s: \"weights\" must be numbers above 0", where);
  }
  return CV_OK;
}

static cv_status read_stage(const char *where, const json_t *object, cv_plan_json_stage *out) {
  if (!json_is_object(object)) return cv_error(CV_INVALID, "%s: must be an object", where);
  int64_t first = -1, last = -1;
  cv_status status = read_int(where, object, "first", 0, INT32_MAX, &first);
  if (status == CV_OK) status = read_int(where, object, "last", first, INT32_MAX, &last);
  out->first = (uint32_t)first;
  out->last = (uint32_t)last;
  if (status == CV_OK) status = read_number(where, object, "predicted_us", &out->predicted_us);
  return status == CV_OK ? read_devices(where, object, out) : status;
}

static cv_status read_stages(const char *where, const json_t *root, cv_plan_json *plan) {
  const json_t *list = json_object_get(root, "stages");
  size_t count = json_array_size(list);
  if (count == 0 || count > MAX_STAGES)
    return cv_error(CV_INVALID, "%s: \"stages\" must be a list of 1 to %d stages", where,
                    MAX_STAGES);
  plan->stages = cv_alloc(count, sizeof *plan->stages);
  if (!plan->stages) return cv_error_nomem(count * sizeof *plan->stages);
  plan->n_stages = (uint32_t)count;
  for (size_t i = 0; i < count; i++) {
    char *stage = cv_format("%s: stage %zu", where, i);
    if (!stage) return cv_error_nomem(strlen(where));
    cv_status status = read_stage(stage, json_array_get(list, i), &plan->stages[i]);
    cv_free(stage);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

static cv_status read_order(const char *where, const json_t *root, cv_plan_json *plan) {
  const json_t *list = json_object_get(root, "order");
  if (!list || json_is_null(list)) return CV_OK;
  size_t count = json_array_size(list);
  if (!json_is_array(list) || count == 0)
    return cv_error(CV_INVALID, "%s: \"order\" must be null or a list of steps", where);
  plan->order = cv_alloc(count, sizeof *plan->order);
  if (!plan->order) return cv_error_nomem(count * sizeof *plan->order);
  plan->n_order = (uint32_t)count;
  for (size_t i = 0; i < count; i++) {
    const json_t *item = json_array_get(list, i);
    int64_t step = json_is_integer(item) ? json_integer_value(item) : -1;
    if (step < 0 || step >= (int64_t)count)
      return cv_error(CV_INVALID, "%s: \"order\" must hold the steps 0 to %zu, each once", where,
                      count - 1);
    plan->order[i] = (uint32_t)step;
  }
  return CV_OK;
}

static cv_status read_predicted(const char *where, const json_t *root, cv_plan_json *plan) {
  const json_t *object = json_object_get(root, "predicted");
  if (!object || json_is_null(object)) return CV_OK;
  if (!json_is_object(object))
    return cv_error(CV_INVALID, "%s: \"predicted\" must be an object", where);
  cv_status status = read_number(where, object, "rate", &plan->rate);
  if (status == CV_OK) status = read_number(where, object, "latency_us", &plan->latency_us);
  if (status == CV_OK) status = read_number(where, object, "bottleneck_us", &plan->bottleneck_us);
  return status;
}

static cv_status read_plan(const char *where, const json_t *root, cv_plan_json *plan) {
  if (!json_is_object(root)) return cv_error(CV_INVALID, "%s: a plan is an object", where);
  int64_t micro_batch = 1, threads = 1;
  cv_status status = read_text(where, root, "artifact", &plan->artifact);
  if (status == CV_OK) status = read_order(where, root, plan);
  if (status == CV_OK) status = read_stages(where, root, plan);
  if (status == CV_OK) status = read_int(where, root, "micro_batch", 1, MAX_COUNT, &micro_batch);
  if (status == CV_OK) status = read_int(where, root, "threads", 1, 1024, &threads);
  if (status == CV_OK) status = read_predicted(where, root, plan);
  if (status == CV_OK) status = read_number(where, root, "bound", &plan->bound_us);
  if (status == CV_OK) status = read_text(where, root, "reason", &plan->reason);
  plan->micro_batch = (int)micro_batch;
  plan->threads = (int)threads;
  return status;
}

cv_status cv_plan_json_parse(const char *where, const char *text, size_t bytes,
                             cv_plan_json *out_plan) {
  *out_plan = (cv_plan_json){0};
  json_error_t error;
  json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    return cv_error(CV_INVALID, "%s:%d:%d: this is no JSON: %s", where, error.line, error.column,
                    error.text);
  cv_status status = read_plan(where, root, out_plan);
  json_decref(root);
  if (status != CV_OK) cv_plan_json_deinit(out_plan);
  return status;
}

cv_status cv_plan_json_read(const char *path, cv_plan_json *out_plan) {
  void *data;
  size_t bytes;
  *out_plan = (cv_plan_json){0};
  cv_status status = cv_file_read(path, &data, &bytes);
  if (status != CV_OK) return status;
  status = cv_plan_json_parse(path, data, bytes, out_plan);
  cv_free(data);
  return status;
}

/* ---- writing ---- */

static json_t *stage_json(const cv_plan_json_stage *stage) {
  json_t *object = json_object();
  int failed = 0;
  if (stage->n_devices == 1) {
    failed |= json_object_set_new(object, "device", json_string(stage->devices[0]));
  } else {
    json_t *names = json_array(), *weights = json_array();
    for (uint32_t d = 0; d < stage->n_devices; d++) {
      failed |= json_array_append_new(names, json_string(stage->devices[d]));
      failed |= json_array_append_new(weights, json_real(stage->weights[d]));
    }
    failed |= json_object_set_new(object, "device", names);
    failed |= json_object_set_new(object, "weights", weights);
  }
  failed |= json_object_set_new(object, "first", json_integer(stage->first));
  failed |= json_object_set_new(object, "last", json_integer(stage->last));
  if (stage->predicted_us > 0)
    failed |= json_object_set_new(object, "predicted_us", json_real(stage->predicted_us));
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

static json_t *text_json(const char *text) { return text ? json_string(text) : json_null(); }

static json_t *order_json(const cv_plan_json *plan) {
  if (!plan->order) return json_null();
  json_t *list = json_array();
  for (uint32_t i = 0; i < plan->n_order; i++)
    if (json_array_append_new(list, json_integer(plan->order[i])) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

static json_t *plan_json(const cv_plan_json *plan) {
  json_t *root = json_object(), *stages = json_array(), *predicted = json_object();
  int failed = 0;
  for (uint32_t s = 0; s < plan->n_stages; s++)
    failed |= json_array_append_new(stages, stage_json(&plan->stages[s]));
  failed |= json_object_set_new(predicted, "rate", json_real(plan->rate));
  failed |= json_object_set_new(predicted, "latency_us", json_real(plan->latency_us));
  failed |= json_object_set_new(predicted, "bottleneck_us", json_real(plan->bottleneck_us));
  failed |= json_object_set_new(root, "artifact", text_json(plan->artifact));
  failed |= json_object_set_new(root, "order", order_json(plan));
  failed |= json_object_set_new(root, "stages", stages);
  failed |= json_object_set_new(root, "micro_batch", json_integer(plan->micro_batch));
  failed |= json_object_set_new(root, "threads", json_integer(plan->threads));
  failed |= json_object_set_new(root, "predicted", predicted);
  failed |= json_object_set_new(root, "bound", json_real(plan->bound_us));
  failed |= json_object_set_new(root, "reason", text_json(plan->reason));
  if (!failed) return root;
  json_decref(root);
  return NULL;
}

cv_status cv_plan_json_print(const cv_plan_json *plan, cv_str *out) {
  json_t *root = plan_json(plan);
  char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(root);
  if (!text)
    return cv_error(CV_FAILED,
                    "the plan cannot be written as JSON: memory is out, or a name or "
                    "a figure has no JSON form");
  cv_str_puts(out, text);
  cv_str_puts(out, "\n");
  free(text);
  return out->failed ? cv_error_nomem(out->len) : CV_OK;
}

/* ---- the check ---- */

static cv_status check_order(const cv_plan_json *plan, const char *where,
                             const cv_program *program) {
  if (!plan->order) return CV_OK;
  if (plan->n_order != program->n_steps)
    return cv_error(CV_INVALID, "%s: \"order\" has %" PRIu32 " steps, the artifact %" PRIu32, where,
                    plan->n_order, program->n_steps);
  for (uint32_t i = 0; i < plan->n_order; i++)
    if (plan->order[i] != i)
      return cv_error(CV_UNSUPPORTED,
                      "%s: \"order\" differs from the artifact's at place %" PRIu32
                      ": steps run in the artifact's order only, use null",
                      where, i);
  return CV_OK;
}

cv_status cv_plan_json_check(const cv_plan_json *plan, const char *where,
                             const cv_program *program) {
  if (plan->artifact && strcmp(plan->artifact, program->hash) != 0)
    return cv_error(CV_INVALID,
                    "%s: the plan is for artifact %s, this one is %s: make a plan for it (cuvil "
                    "plan)",
                    where, plan->artifact, program->hash);
  cv_status status = check_order(plan, where, program);
  if (status != CV_OK) return status;
  for (uint32_t s = 0; s < plan->n_stages; s++) {
    const cv_plan_json_stage *stage = &plan->stages[s];
    uint32_t wanted = s ? plan->stages[s - 1].last + 1 : 0;
    if (stage->first != wanted)
      return cv_error(CV_INVALID,
                      "%s: stage %" PRIu32 " begins at step %" PRIu32 ", it must begin at %" PRIu32
                      ", behind the stage before it",
                      where, s, stage->first, wanted);
    if (stage->first > stage->last || stage->last >= program->n_steps)
      return cv_error(CV_INVALID,
                      "%s: stage %" PRIu32 " ends at step %" PRIu32
                      ", the artifact has steps 0 to "
                      "%" PRIu32,
                      where, s, stage->last, program->n_steps - 1);
    if (s && !cv_program_cut_legal(program, stage->first))
      return cv_error(CV_INVALID,
                      "%s: stage %" PRIu32 ": the program cannot be cut in front of step %" PRIu32
                      " (cuvil inspect lists the legal cuts)",
                      where, s, stage->first);
  }
  if (plan->n_stages == 0 || plan->stages[plan->n_stages - 1].last + 1 != program->n_steps)
    return cv_error(CV_INVALID, "%s: the stages end before the artifact's last step, %" PRIu32,
                    where, program->n_steps - 1);
  return CV_OK;
}
