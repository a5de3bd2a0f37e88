#include "coordinator/profile.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/file.h"

void cv_profile_deinit(cv_profile *profile) {
  cv_free(profile->kind);
  cv_free(profile->device);
  cv_free(profile->sizes);
  cv_free(profile->step_us);
  *profile = (cv_profile){0};
}

static cv_status read_sizes(const char *path, const json_t *sizes, cv_profile *profile) {
  profile->n_sizes = (int)json_array_size(sizes);
  if (profile->n_sizes < 1 || profile->n_sizes > 64)
    return cv_error(CV_INVALID, "%s: 'sizes' must list 1 to 64 micro-batch sizes", path);
  profile->sizes = cv_alloc((size_t)profile->n_sizes, sizeof *profile->sizes);
  if (!profile->sizes) return cv_error_nomem((size_t)profile->n_sizes * sizeof *profile->sizes);
  for (int i = 0; i < profile->n_sizes; i++) {
    json_int_t size = json_integer_value(json_array_get(sizes, (size_t)i));
    if (size < 1 || size > 1 << 20 || (i && size <= profile->sizes[i - 1]))
      return cv_error(CV_INVALID, "%s: 'sizes' must rise and be 1 to %d", path, 1 << 20);
    profile->sizes[i] = (int)size;
  }
  return CV_OK;
}

static cv_status read_times(const char *path, const json_t *times, cv_profile *profile) {
  if ((int)json_array_size(times) != profile->n_sizes)
    return cv_error(CV_INVALID, "%s: 'step_us' must hold one list for each of the %d sizes", path,
                    profile->n_sizes);
  profile->n_steps = (int)json_array_size(json_array_get(times, 0));
  if (profile->n_steps < 1) return cv_error(CV_INVALID, "%s: 'step_us' holds no steps", path);
  size_t count = (size_t)profile->n_sizes * (size_t)profile->n_steps;
  profile->step_us = cv_alloc(count, sizeof *profile->step_us);
  if (!profile->step_us) return cv_error_nomem(count * sizeof *profile->step_us);
  for (int s = 0; s < profile->n_sizes; s++) {
    const json_t *row = json_array_get(times, (size_t)s);
    if ((int)json_array_size(row) != profile->n_steps)
      return cv_error(CV_INVALID, "%s: 'step_us' list %d has %zu times, the first has %d", path, s,
                      json_array_size(row), profile->n_steps);
    for (int i = 0; i < profile->n_steps; i++) {
      double us = json_number_value(json_array_get(row, (size_t)i));
      if (!(us >= 0 && us < 1e12))
        return cv_error(CV_INVALID, "%s: step %d has no sound time", path, i);
      profile->step_us[(size_t)s * (size_t)profile->n_steps + (size_t)i] = us;
    }
  }
  return CV_OK;
}

static cv_status read_root(const char *path, const json_t *root, const cv_program *program,
                           cv_profile *profile) {
  const char *artifact = json_string_value(json_object_get(root, "artifact"));
  const char *kind = json_string_value(json_object_get(root, "kind"));
  const char *device = json_string_value(json_object_get(root, "device"));
  if (!artifact || strlen(artifact) != 32 || !kind)
    return cv_error(
        CV_INVALID,
        "%s: not a profile ('artifact' and 'kind' are missing): make one with cuvil profile", path);
  if (program && strcmp(artifact, program->hash) != 0)
    return cv_error(CV_INVALID,
                    "%s: measured for artifact %s, this one is %s: run cuvil profile again", path,
                    artifact, program->hash);
  memcpy(profile->artifact, artifact, sizeof profile->artifact);
  profile->threads = (int)json_integer_value(json_object_get(root, "threads"));
  profile->kind = cv_strdup(kind);
  profile->device = cv_strdup(device ? device : "");
  if (!profile->kind || !profile->device) return cv_error_nomem(strlen(kind));
  cv_status status = read_sizes(path, json_object_get(root, "sizes"), profile);
  if (status == CV_OK) status = read_times(path, json_object_get(root, "step_us"), profile);
  if (status == CV_OK && program && profile->n_steps != (int)program->n_steps)
    return cv_error(CV_INVALID, "%s: %d steps measured, the artifact has %u", path,
                    profile->n_steps, program->n_steps);
  return status;
}

cv_status cv_profile_read(const char *path, const cv_program *program, cv_profile *out_profile) {
  *out_profile = (cv_profile){0};
  void *data = NULL;
  size_t bytes = 0;
  json_error_t error;
  json_t *root = NULL;
  cv_status status = cv_file_read(path, &data, &bytes);
  if (status != CV_OK) return status;
  root = json_loadb(data, bytes, 0, &error);
  if (!root)
    status = cv_error(CV_INVALID, "%s:%d: %s", path, error.line, error.text);
  else
    status = read_root(path, root, program, out_profile);
  if (status != CV_OK) cv_profile_deinit(out_profile);
  json_decref(root);
  cv_free(data);
  return status;
}

cv_status cv_profile_write(const cv_profile *profile, const char *path) {
  json_t *sizes = json_array(), *times = json_array();
  for (int s = 0; s < profile->n_sizes; s++) {
    json_t *row = json_array();
    json_array_append_new(sizes, json_integer(profile->sizes[s]));
    for (int i = 0; i < profile->n_steps; i++)
      json_array_append_new(
          row, json_real(profile->step_us[(size_t)s * (size_t)profile->n_steps + (size_t)i]));
    json_array_append_new(times, row);
  }
  json_t *root = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o}", "artifact", profile->artifact, "kind",
                           profile->kind, "device", profile->device, "threads", profile->threads,
                           "sizes", sizes, "step_us", times);
  char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
  cv_status status = text ? cv_file_write(path, text, strlen(text)) : cv_error_nomem(1);
  free(text);
  json_decref(root);
  return status;
}
