/* The device row "paced": the CPU's true result, then it sleeps until the pace is reached. Time is
 * decided by sleeping, so protocols and planners can be tested with many devices on few cores. */
#include "base/alloc.h"
#include "base/clock.h"
#include "runtime/device_internal.h"

typedef struct {
  cv_device base;
  cv_device *inner;
  double pace_us, pace_us_per_step;
} paced_device;

typedef struct {
  cv_slice base; /* the inner one's, with other ops; the port lists are the inner one's */
  cv_slice *inner;
  int64_t pace_ns;
} paced_slice;

static cv_status open_device(const cv_device_spec *spec, cv_device **out_device) {
  *out_device = NULL;
  if (!(spec->pace_us >= 0 && spec->pace_us < 1e12) ||
      !(spec->pace_us_per_step >= 0 && spec->pace_us_per_step < 1e12))
    return cv_error(CV_INVALID, "device %s: the pace must be 0 or more microseconds",
                    spec->name ? spec->name : "?");
  paced_device *paced = cv_alloc(1, sizeof *paced);
  if (!paced) return cv_error_nomem(sizeof *paced);
  *paced = (paced_device){.base = {.ops = &cv_device_paced},
                          .pace_us = spec->pace_us,
                          .pace_us_per_step = spec->pace_us_per_step};
  cv_status status = cv_device_cpu.open(spec, &paced->inner);
  if (status == CV_OK)
    *out_device = &paced->base;
  else
    cv_free(paced);
  return status;
}

static void close_device(cv_device *device) {
  paced_device *paced = (paced_device *)device;
  if (!paced) return;
  cv_device_close(paced->inner);
  cv_free(paced);
}

static cv_status load(cv_device *device, cv_artifact *artifact, uint32_t first, uint32_t last,
                      cv_slice **out_slice) {
  *out_slice = NULL;
  const paced_device *paced = (const paced_device *)device;
  paced_slice *slice = cv_alloc(1, sizeof *slice);
  if (!slice) return cv_error_nomem(sizeof *slice);
  cv_status status = cv_device_load(paced->inner, artifact, first, last, &slice->inner);
  if (status != CV_OK) {
    cv_free(slice);
    return status;
  }
  slice->base = *slice->inner;
  slice->base.ops = &cv_device_paced;
  double us = paced->pace_us_per_step * (double)(last - first + 1);
  if (paced->pace_us > us) us = paced->pace_us;
  slice->pace_ns = us < 9e15 ? (int64_t)(us * 1000) : INT64_MAX / 2;
  *out_slice = &slice->base;
  return CV_OK;
}

static void unload(cv_slice *base) {
  paced_slice *slice = (paced_slice *)base;
  cv_slice_unload(slice->inner);
  cv_free(slice);
}

static cv_status run(cv_slice *base, cv_run *run) {
  const paced_slice *slice = (const paced_slice *)base;
  int64_t begin = cv_clock_ns();
  cv_status status = cv_slice_run(slice->inner, run);
  if (status == CV_OK) cv_clock_sleep_until(begin + slice->pace_ns);
  return status;
}

static void memory_used(const cv_slice *base, cv_slice_memory *out_memory) {
  cv_slice_memory_used(((const paced_slice *)base)->inner, out_memory);
}

const cv_device_ops cv_device_paced = {.kind = "paced",
                                       .memory = CV_MEMORY_HOST,
                                       .open = open_device,
                                       .close = close_device,
                                       .load = load,
                                       .unload = unload,
                                       .run = run,
                                       .memory_used = memory_used};
