#include "runtime/device.h"

#include <string.h>

#include "runtime/device_internal.h"

static const cv_device_ops *const table[] = {&cv_device_cpu, &cv_device_paced, NULL};

const cv_device_ops *const *cv_device_table(void) { return table; }

const cv_device_ops *cv_device_find(const char *kind) {
  for (const cv_device_ops *const *row = table; *row; row++)
    if (strcmp((*row)->kind, kind) == 0) return *row;
  return NULL;
}

cv_status cv_device_open(const cv_device_spec *spec, cv_device **out_device) {
  *out_device = NULL;
  const cv_device_ops *ops = cv_device_find(spec->kind);
  if (!ops)
    return cv_error(CV_INVALID, "device %s: there is no kind '%s' (there are cpu and paced)",
                    spec->name ? spec->name : "?", spec->kind);
  if (spec->threads < 1)
    return cv_error(CV_INVALID, "device %s: %d threads, at least 1 is needed",
                    spec->name ? spec->name : "?", spec->threads);
  return ops->open(spec, out_device);
}

void cv_device_close(cv_device *device) {
  if (device) device->ops->close(device);
}

cv_status cv_device_load(cv_device *device, cv_artifact *artifact, uint32_t first, uint32_t last,
                         cv_slice **out_slice) {
  *out_slice = NULL;
  const cv_program *program = cv_artifact_program(artifact);
  if (first > last || last >= program->n_steps)
    return cv_error(CV_INVALID, "%s has steps 0 to %lld: there is no slice from %u to %u",
                    cv_artifact_path(artifact), (long long)program->n_steps - 1, first, last);
  return device->ops->load(device, artifact, first, last, out_slice);
}

void cv_slice_unload(cv_slice *slice) {
  if (slice) slice->ops->unload(slice);
}

cv_status cv_slice_run(cv_slice *slice, cv_run *run) { return slice->ops->run(slice, run); }

void cv_slice_memory_used(const cv_slice *slice, cv_slice_memory *out_memory) {
  slice->ops->memory_used(slice, out_memory);
}
