/* Checks of the planner's input: what the rest of the folder relies on. */
#include <math.h>

#include "partitioner/model_internal.h"

enum { MAX_STEPS = 1 << 22, MAX_DEVICES = 1024 };
static const double MAX_TOTAL_BYTES = 4e18;

static bool good_time(double value) { return isfinite(value) && value >= 0; }

static cv_status check_counts(const cv_plan_input *in) {
  if (in->n_steps < 1 || in->n_steps > MAX_STEPS)
    return cv_error(CV_INVALID, "planner: %d steps; 1 to %d can be planned", in->n_steps,
                    MAX_STEPS);
  if (in->n_devices < 1 || in->n_devices > MAX_DEVICES)
    return cv_error(CV_INVALID, "planner: %d devices; 1 to %d can be planned", in->n_devices,
                    MAX_DEVICES);
  if (in->n_kinds < 1 || in->n_sizes < 1 || in->n_values < 0 || in->n_weights < 0)
    return cv_error(CV_INVALID,
                    "planner: %d device kinds, %d micro-batch sizes, %d values, %d weights",
                    in->n_kinds, in->n_sizes, in->n_values, in->n_weights);
  if (in->micro_batch < 1 || in->threads < 1 || in->stages < 0 || in->out_buffers < 0 ||
      in->effort < 0)
    return cv_error(CV_INVALID,
                    "planner: micro-batch %d, threads %d, stages %d, output buffers %d: must be at "
                    "least 1, 1, 0, 0",
                    in->micro_batch, in->threads, in->stages, in->out_buffers);
  for (int i = 0; i < in->n_sizes; i++)
    if (in->sizes[i] < 1 || (i && in->sizes[i] <= in->sizes[i - 1]))
      return cv_error(CV_INVALID, "planner: micro-batch sizes of the times must ascend from 1");
  return CV_OK;
}

static cv_status check_kind(const cv_plan_input *in, const cv_plan_kind *kind) {
  size_t sizes = (size_t)in->n_sizes, steps = (size_t)in->n_steps;
  for (size_t i = 0; i < sizes * steps; i++)
    if (!good_time(kind->step_us[i]))
      return cv_error(CV_INVALID, "planner: device kind %s: step %zu takes %g us; profile it again",
                      kind->name, i % steps, kind->step_us[i]);
  const double *cuts[2] = {kind->pack_us, kind->unpack_us};
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; cuts[k] && i < sizes * (steps + 1); i++)
      if (!good_time(cuts[k][i]))
        return cv_error(CV_INVALID, "planner: device kind %s: cut %zu takes %g us to %s",
                        kind->name, i % (steps + 1), cuts[k][i], k ? "unpack" : "pack");
  return CV_OK;
}

static cv_status check_device(const cv_plan_input *in, const cv_plan_device *device) {
  if (device->kind < 0 || device->kind >= in->n_kinds)
    return cv_error(CV_INVALID, "planner: device %s: kind %d of %d", device->name, device->kind,
                    in->n_kinds);
  if (!(device->speed > 0) || !isfinite(device->speed))
    return cv_error(CV_INVALID, "planner: device %s: speed %g; give a number above 0", device->name,
                    device->speed);
  if (!good_time(device->pace_us) || !good_time(device->pace_us_per_step) || device->cores < 0)
    return cv_error(CV_INVALID, "planner: device %s: pace or cores below 0", device->name);
  return CV_OK;
}

static cv_status check_links(const cv_plan_input *in) {
  int n = in->n_devices + 1;
  for (int i = 0; i < n * n; i++) {
    const cv_plan_link *link = &in->links[i];
    if (i / n == i % n ||
        (link->bytes_per_us > 0 && good_time(link->latency_us) &&
         good_time(link->send_us_per_byte) && good_time(link->receive_us_per_byte)))
      continue;
    const char *from = i / n < in->n_devices ? in->devices[i / n].name : "gateway";
    const char *to = i % n < in->n_devices ? in->devices[i % n].name : "gateway";
    return cv_error(CV_INVALID,
                    "planner: link %s -> %s: %g bytes/us, %g us; give a bandwidth above 0", from,
                    to, link->bytes_per_us, link->latency_us);
  }
  return CV_OK;
}

static cv_status check_readers(const char *what, int index, const int *readers, int n, int from,
                               int to) {
  for (int i = 0; i < n; i++)
    if (readers[i] <= (i ? readers[i - 1] : from) || readers[i] > to)
      return cv_error(CV_INVALID,
                      "planner: %s %d: reader %d is step %d; readers ascend from %d to %d", what,
                      index, i, readers[i], from + 1, to);
  return CV_OK;
}

static cv_status check_values(const cv_plan_input *in) {
  double total = 0;
  for (int v = 0; v < in->n_values; v++) {
    const cv_plan_value *value = &in->values[v];
    if (value->producer < CV_PLAN_GATEWAY || value->producer >= in->n_steps || value->n_readers < 0)
      return cv_error(CV_INVALID, "planner: value %d: producer %d of %d steps", v, value->producer,
                      in->n_steps);
    cv_status status =
        check_readers("value", v, value->readers, value->n_readers, value->producer, in->n_steps);
    if (status != CV_OK) return status;
    total += ((double)value->bytes_fixed + (double)value->bytes_per_item * in->micro_batch) *
             (1 + value->n_readers);
  }
  for (int w = 0; w < in->n_weights; w++) {
    const cv_plan_weight *weight = &in->weights[w];
    cv_status status =
        check_readers("weight", w, weight->readers, weight->n_readers, -1, in->n_steps - 1);
    if (status != CV_OK) return status;
    for (int k = 0; k < in->n_kinds; k++)
      total += (double)(in->kinds[k].weight_bytes ? in->kinds[k].weight_bytes[w] : weight->bytes) *
               (1 + weight->n_readers);
  }
  for (int s = 0; s < in->n_steps; s++)
    total += (in->buffer_fixed ? (double)in->buffer_fixed[s] : 0) +
             (in->buffer_per_item ? (double)in->buffer_per_item[s] * in->micro_batch : 0);
  if (total * (2.0 * in->n_devices + 3 + in->out_buffers) > MAX_TOTAL_BYTES)
    return cv_error(CV_INVALID, "planner: values, weights and buffers of %g bytes are too large",
                    total);
  return CV_OK;
}

cv_status cv_model_check(const cv_plan_input *in) {
  cv_status status = check_counts(in);
  for (int k = 0; status == CV_OK && k < in->n_kinds; k++) status = check_kind(in, &in->kinds[k]);
  for (int d = 0; status == CV_OK && d < in->n_devices; d++)
    status = check_device(in, &in->devices[d]);
  if (status == CV_OK) status = check_links(in);
  if (status == CV_OK) status = check_values(in);
  return status;
}
