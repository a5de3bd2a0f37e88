/* Which of the artifact's targets this CPU runs. */
#include <string.h>

#include "base/str.h"
#include "runtime/artifact.h"
#include "runtime/cpu_features.h"

static int count_features(const char *features) {
  int count = *features != 0;
  for (; *features; features++) count += *features == ',';
  return count;
}

static cv_status check(const cv_target_code *target) {
  return cv_cpu_check(target->name, target->arch, target->features);
}

static cv_status pick_named(const cv_artifact *artifact, const char *name, uint32_t *out_target) {
  const cv_program *program = cv_artifact_program(artifact);
  cv_str names = {0};
  for (uint32_t t = 0; t < program->n_targets; t++) {
    const cv_target_code *target = &program->targets[t];
    if (strcmp(target->name, name) == 0) {
      *out_target = t;
      cv_str_deinit(&names);
      return cv_error_context(check(target), "%s", cv_artifact_path(artifact));
    }
    cv_str_add(&names, "%s%s", t ? ", " : "", target->name);
  }
  cv_status status =
      cv_error(CV_INVALID, "%s holds no target %s (it holds %s): cuvil build --add-target adds one",
               cv_artifact_path(artifact), name, names.len ? cv_str_text(&names) : "none");
  cv_str_deinit(&names);
  return status;
}

cv_status cv_artifact_pick_target(const cv_artifact *artifact, const char *name,
                                  uint32_t *out_target) {
  *out_target = 0;
  if (name) return pick_named(artifact, name, out_target);
  const cv_program *program = cv_artifact_program(artifact);
  int most = -1;
  cv_str why = {0};
  for (uint32_t t = 0; t < program->n_targets; t++) {
    const cv_target_code *target = &program->targets[t];
    cv_status status = check(target);
    if (status == CV_NOMEM) {
      cv_str_deinit(&why);
      return status;
    }
    if (status != CV_OK) {
      cv_str_add(&why, "%s%s", why.len ? "; " : "", cv_error_text());
    } else if (count_features(target->features) > most) {
      most = count_features(target->features);
      *out_target = t;
    }
  }
  cv_status status = CV_OK;
  if (most < 0)
    status = cv_error(
        CV_CPU, "%s holds no code that this CPU runs (%s): cuvil build --add-target adds it",
        cv_artifact_path(artifact), why.len ? cv_str_text(&why) : "it holds no target at all");
  cv_str_deinit(&why);
  return status;
}
