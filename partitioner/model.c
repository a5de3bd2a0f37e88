#include "partitioner/model_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"

/* Time of one thing at the micro-batch: linear between the sizes known, and beyond the outermost
 * two; in proportion when only one is known. `stride` things per size. */
static double time_at(const cv_plan_input *in, const double *times, size_t stride, size_t i) {
  if (!times) return 0;
  int n = in->n_sizes, k = 0;
  if (n == 1) return times[i] * in->micro_batch / in->sizes[0];
  while (k < n - 2 && in->micro_batch > in->sizes[k + 1]) k++;
  double low = times[(size_t)k * stride + i], high = times[((size_t)k + 1) * stride + i];
  double part = (double)(in->micro_batch - in->sizes[k]) / (in->sizes[k + 1] - in->sizes[k]);
  double time = low + (high - low) * part;
  return time > 0 ? time : 0;
}

static cv_status build_atoms(cv_model *model, int **out_atom_of) {
  const cv_plan_input *in = model->input;
  int *cut = cv_arena_array(&model->arena, int, (size_t)in->n_steps + 1);
  int *atom_of = cv_arena_array(&model->arena, int, (size_t)in->n_steps + 1);
  *out_atom_of = atom_of;
  if (!cut || !atom_of) return cv_error_nomem((size_t)in->n_steps * 8);
  int n = 0;
  for (int step = 0; step < in->n_steps; step++) {
    if (step == 0 || !in->legal || in->legal[step]) cut[n++] = step;
    atom_of[step] = n - 1;
  }
  cut[n] = in->n_steps;
  atom_of[in->n_steps] = n;
  model->n_atoms = n;
  model->cut = cut;
  return CV_OK;
}

static int cmp_values(const void *left, const void *right) {
  const cv_model_value *a = left, *b = right;
  return (a->producer > b->producer) - (a->producer < b->producer);
}

/* Values in atoms, by producer; those that live within one atom are left out. */
static cv_status build_values(cv_model *model, const int *atom_of) {
  const cv_plan_input *in = model->input;
  size_t n_readers = 0;
  for (int v = 0; v < in->n_values; v++) n_readers += (size_t)in->values[v].n_readers;
  model->values = cv_arena_array(&model->arena, cv_model_value, (size_t)in->n_values);
  model->readers = cv_arena_array(&model->arena, int, n_readers);
  model->out_gateway = cv_arena_array(&model->arena, uint64_t, (size_t)model->n_atoms + 1);
  if (!model->values || !model->readers || !model->out_gateway)
    return cv_error_nomem(n_readers * sizeof(int) + (size_t)in->n_values * sizeof(cv_model_value));
  int used = 0;
  for (int v = 0; v < in->n_values; v++) {
    const cv_plan_value *value = &in->values[v];
    cv_model_value made = {
        .producer = value->producer < 0 ? -1 : atom_of[value->producer],
        .first = used,
        .bytes = value->bytes_fixed + value->bytes_per_item * (uint64_t)in->micro_batch};
    for (int i = 0; i < value->n_readers; i++) {
      int atom = atom_of[value->readers[i]];
      if (atom == model->n_atoms)
        made.is_output = value->producer >= 0;
      else if (atom != made.producer && (used == made.first || model->readers[used - 1] != atom))
        model->readers[used++] = atom;
    }
    made.n_readers = used - made.first;
    if (made.is_output) model->out_gateway[made.producer + 1] += made.bytes;
    if (made.n_readers || made.is_output) model->values[model->n_values++] = made;
  }
  for (int a = 0; a < model->n_atoms; a++) model->out_gateway[a + 1] += model->out_gateway[a];
  qsort(model->values, (size_t)model->n_values, sizeof *model->values, cmp_values);
  return CV_OK;
}

/* For each atom, the values it makes and the values it reads. */
static cv_status build_uses(cv_model *model) {
  size_t n = (size_t)model->n_atoms;
  size_t reads = 0;
  for (int v = 0; v < model->n_values; v++) reads += (size_t)model->values[v].n_readers;
  model->made_by = cv_arena_array(&model->arena, int, n + 2);
  model->read_by = cv_arena_array(&model->arena, int, n + 2);
  model->read_value = cv_arena_array(&model->arena, int, reads);
  model->read_before = cv_arena_array(&model->arena, int, reads);
  if (!model->made_by || !model->read_by || !model->read_value || !model->read_before)
    return cv_error_nomem((n + reads) * 2 * sizeof(int));
  for (int v = 0; v < model->n_values; v++) {
    const cv_model_value *value = &model->values[v];
    model->made_by[value->producer + 1]++;
    for (int i = 0; i < value->n_readers; i++) model->read_by[model->readers[value->first + i]]++;
  }
  for (size_t a = 1; a <= n; a++) {
    model->made_by[a] += model->made_by[a - 1]; /* now: values made before atom a */
    model->read_by[a] += model->read_by[a - 1]; /* now: reads up to atom a */
  }
  for (int v = model->n_values - 1; v >= 0; v--) {
    const cv_model_value *value = &model->values[v];
    for (int i = 0; i < value->n_readers; i++) {
      int at = --model->read_by[model->readers[value->first + i]];
      model->read_value[at] = v;
      model->read_before[at] = i ? model->readers[value->first + i - 1] : value->producer;
    }
  }
  return CV_OK;
}

typedef cv_vec(cv_span) span_list;

static bool push(span_list *list, int lo, int hi, uint64_t bytes) {
  return cv_vec_push(list, (cv_span){lo, hi, bytes});
}

static cv_status build_value_spans(cv_model *model) {
  span_list in_gateway = {0}, in_stage = {0}, out_stage = {0}, out_all = {0};
  bool ok = true;
  cv_status status = CV_OK;
  for (int v = 0; ok && v < model->n_values; v++) {
    const cv_model_value *value = &model->values[v];
    span_list *in = value->producer < 0 ? &in_gateway : &in_stage;
    int before = value->producer;
    for (int i = 0; ok && i < value->n_readers; i++) {
      int reader = model->readers[value->first + i];
      ok = push(in, before + 1, reader, value->bytes);
      before = reader;
    }
    if (value->producer < 0 || !ok) continue;
    if (value->n_readers) ok = push(&out_stage, value->producer + 1, before, value->bytes);
    int last = value->is_output ? model->n_atoms : before;
    ok = ok && push(&out_all, value->producer + 1, last, value->bytes);
  }
  if (!ok) {
    status = cv_error_nomem(sizeof(cv_span) * (size_t)model->n_values);
    goto out;
  }
  int n = model->n_atoms + 1;
  CV_TRY(cv_spans_build(&model->arena, in_gateway.data, in_gateway.len, n, &model->in_gateway));
  CV_TRY(cv_spans_build(&model->arena, in_stage.data, in_stage.len, n, &model->in_stage));
  CV_TRY(cv_spans_build(&model->arena, out_stage.data, out_stage.len, n, &model->out_stage));
  CV_TRY(cv_spans_build(&model->arena, out_all.data, out_all.len, n, &model->out_all));
out:
  cv_vec_deinit(&in_gateway);
  cv_vec_deinit(&in_stage);
  cv_vec_deinit(&out_stage);
  cv_vec_deinit(&out_all);
  return status;
}

/* Weights of one kind: prefix sums of those with one reading atom, spans of the others. */
static cv_status build_weights(cv_model *model, const int *atom_of, const cv_plan_kind *kind,
                               cv_model_class *class_) {
  const cv_plan_input *in = model->input;
  uint64_t *sum = cv_arena_array(&model->arena, uint64_t, (size_t)model->n_atoms + 1);
  cv_spans *shared = cv_arena_new(&model->arena, cv_spans);
  if (!sum || !shared) return cv_error_nomem((size_t)model->n_atoms * sizeof *sum);
  span_list spans = {0};
  cv_status status = CV_OK;
  for (int w = 0; w < in->n_weights; w++) {
    const cv_plan_weight *weight = &in->weights[w];
    if (!weight->n_readers) continue;
    uint64_t bytes = kind->weight_bytes ? kind->weight_bytes[w] : weight->bytes;
    int first = atom_of[weight->readers[0]], before = -1;
    if (first == atom_of[weight->readers[weight->n_readers - 1]]) {
      sum[first + 1] += bytes;
      continue;
    }
    for (int i = 0; i < weight->n_readers; i++) {
      int atom = atom_of[weight->readers[i]];
      if (atom == before) continue;
      if (!push(&spans, before + 1, atom, bytes)) {
        status = cv_error_nomem(sizeof(cv_span));
        goto out;
      }
      before = atom;
    }
  }
  for (int a = 0; a < model->n_atoms; a++) sum[a + 1] += sum[a];
  CV_TRY(cv_spans_build(&model->arena, spans.data, spans.len, model->n_atoms + 1, shared));
  class_->weight_sum = sum;
  class_->weight_shared = shared;
out:
  cv_vec_deinit(&spans);
  return status;
}

static cv_status build_buffers(cv_model *model) {
  const cv_plan_input *in = model->input;
  if (!in->buffer_fixed && !in->buffer_per_item) return CV_OK;
  int n = model->n_atoms, levels = 1;
  while (1 << levels <= n) levels++;
  model->buffer_max = cv_arena_array(&model->arena, uint64_t *, (size_t)levels);
  if (!model->buffer_max) return cv_error_nomem((size_t)levels * sizeof(void *));
  for (int level = 0; level < levels; level++) {
    uint64_t *row = cv_arena_array(&model->arena, uint64_t, (size_t)n);
    if (!row) return cv_error_nomem((size_t)n * sizeof *row);
    model->buffer_max[level] = row;
    const uint64_t *below = level ? model->buffer_max[level - 1] : NULL;
    for (int a = 0; level && a + (1 << level) <= n; a++) {
      uint64_t left = below[a], right = below[a + (1 << (level - 1))];
      row[a] = left > right ? left : right;
    }
    for (int a = 0; !level && a < n; a++)
      for (int step = model->cut[a]; step < model->cut[a + 1]; step++) {
        uint64_t bytes =
            (in->buffer_fixed ? in->buffer_fixed[step] : 0) +
            (in->buffer_per_item ? in->buffer_per_item[step] * (uint64_t)in->micro_batch : 0);
        if (bytes > row[a]) row[a] = bytes;
      }
  }
  return CV_OK;
}

static const cv_plan_link *device_link(const cv_plan_input *in, int from, int to) {
  return &in->links[(size_t)from * (size_t)(in->n_devices + 1) + (size_t)to];
}

static bool same_link(const cv_plan_link *a, const cv_plan_link *b) {
  return a->bytes_per_us == b->bytes_per_us && a->latency_us == b->latency_us &&
         a->send_us_per_byte == b->send_us_per_byte &&
         a->receive_us_per_byte == b->receive_us_per_byte;
}

static bool has_free_core(const cv_plan_input *in, const cv_plan_device *device) {
  return device->cores > in->threads;
}

/* True when exchanging the two devices changes no figure of any plan. */
static bool exchangeable(const cv_plan_input *in, int i, int j) {
  const cv_plan_device *a = &in->devices[i], *b = &in->devices[j];
  if (a->kind != b->kind || a->speed != b->speed || a->memory != b->memory ||
      has_free_core(in, a) != has_free_core(in, b) || a->pace_us != b->pace_us ||
      a->pace_us_per_step != b->pace_us_per_step)
    return false;
  for (int x = 0; x <= in->n_devices; x++) {
    if (x == i || x == j) continue;
    if (!same_link(device_link(in, i, x), device_link(in, j, x)) ||
        !same_link(device_link(in, x, i), device_link(in, x, j)))
      return false;
  }
  return same_link(device_link(in, i, j), device_link(in, j, i));
}

/* Members of each class side by side in one array. */
static cv_status build_members(cv_model *model, bool ordered) {
  const cv_plan_input *in = model->input;
  size_t n = (size_t)in->n_devices;
  int *members = cv_arena_array(&model->arena, int, n),
      *class_of = cv_arena_array(&model->arena, int, n);
  model->classes = cv_arena_array(&model->arena, cv_model_class, n);
  if (!members || !class_of || !model->classes) return cv_error_nomem(n * sizeof(cv_model_class));
  int *first = members; /* of each class, until the members are filled in below */
  for (int d = 0; d < in->n_devices; d++) {
    int c = ordered ? model->n_classes : 0;
    while (c < model->n_classes && !exchangeable(in, first[c], d)) c++;
    if (c == model->n_classes) first[model->n_classes++] = d;
    class_of[d] = c;
  }
  int used = 0;
  for (int c = 0; c < model->n_classes; c++) {
    cv_model_class *class_ = &model->classes[c];
    class_->members = members + used;
    for (int d = 0; d < in->n_devices; d++)
      if (class_of[d] == c) members[used++] = d, class_->n_members++;
    class_->device = &in->devices[class_->members[0]];
  }
  return CV_OK;
}

static cv_status build_times(cv_model *model, cv_model_class *class_) {
  const cv_plan_input *in = model->input;
  const cv_plan_device *device = class_->device;
  const cv_plan_kind *kind = &in->kinds[device->kind];
  size_t n = (size_t)model->n_atoms + 1, steps = (size_t)in->n_steps;
  double *time = cv_arena_array(&model->arena, double, n);
  double *pack = cv_arena_array(&model->arena, double, n);
  double *unpack = cv_arena_array(&model->arena, double, n);
  if (!time || !pack || !unpack) return cv_error_nomem(3 * n * sizeof(double));
  for (int a = 0; a < model->n_atoms; a++) {
    double sum = 0;
    for (int step = model->cut[a]; step < model->cut[a + 1]; step++)
      sum += time_at(in, kind->step_us, steps, (size_t)step);
    time[a + 1] = time[a] + sum / device->speed;
  }
  for (size_t a = 0; a < n; a++) {
    pack[a] = time_at(in, kind->pack_us, steps + 1, (size_t)model->cut[a]) / device->speed;
    unpack[a] = time_at(in, kind->unpack_us, steps + 1, (size_t)model->cut[a]) / device->speed;
  }
  class_->time = time;
  class_->pack = pack;
  class_->unpack = unpack;
  return CV_OK;
}

const cv_plan_link *cv_model_link(const cv_model *model, int from, int to) {
  const cv_model_class *a = &model->classes[from], *b = &model->classes[to];
  if (from == to && a->n_members < 2) return NULL;
  return device_link(model->input, a->members[0], b->members[from == to ? 1 : 0]);
}

static void take_better(cv_plan_link *best, const cv_plan_link *link) {
  if (link->bytes_per_us > best->bytes_per_us) best->bytes_per_us = link->bytes_per_us;
  best->send_us_per_byte = fmin(best->send_us_per_byte, link->send_us_per_byte);
  best->receive_us_per_byte = fmin(best->receive_us_per_byte, link->receive_us_per_byte);
}

static void build_links(cv_model *model) {
  const cv_plan_input *in = model->input;
  const cv_plan_link *first = NULL;
  model->uniform = true;
  for (int c = 0; c < model->n_classes; c++) {
    cv_model_class *class_ = &model->classes[c];
    class_->from_gateway = device_link(in, in->n_devices, class_->members[0]);
    class_->to_gateway = device_link(in, class_->members[0], in->n_devices);
    class_->best_in = class_->best_out = (cv_plan_link){0, 0, INFINITY, INFINITY};
    for (int other = 0; other < model->n_classes; other++) {
      const cv_plan_link *from = cv_model_link(model, other, c),
                         *to = cv_model_link(model, c, other);
      if (!from) continue;
      if (!first) first = from;
      model->uniform = model->uniform && same_link(from, first) && same_link(to, first);
      take_better(&class_->best_in, from);
      take_better(&class_->best_out, to);
    }
    if (class_->best_in.bytes_per_us <= 0) /* a lone device: no stage beside it */
      class_->best_in = class_->best_out = (cv_plan_link){INFINITY, 0, 0, 0};
  }
}

static int cmp_classes(const void *left, const void *right) {
  const cv_model_class *a = left, *b = right;
  return a->members[0] - b->members[0];
}

static void sort_fastest_first(cv_model *model) {
  int n = model->n_atoms;
  for (int i = 1; i < model->n_classes; i++)
    for (int j = i; j > 0; j--) {
      cv_model_class *a = &model->classes[j - 1], *b = &model->classes[j], swap = *a;
      if (a->time[n] < b->time[n] || (a->time[n] == b->time[n] && cmp_classes(a, b) < 0)) break;
      *a = *b;
      *b = swap;
    }
}

static cv_status build_classes(cv_model *model, const int *atom_of, bool ordered) {
  cv_status status = build_members(model, ordered);
  for (int c = 0; status == CV_OK && c < model->n_classes; c++) {
    cv_model_class *class_ = &model->classes[c];
    const cv_plan_device *device = class_->device;
    class_->pays_copies = !has_free_core(model->input, device);
    class_->memory = device->memory ? device->memory : UINT64_MAX;
    if (device->memory) model->limited = true;
    for (int other = 0; other < c; other++) { /* share the arrays of equal kinds */
      const cv_model_class *twin = &model->classes[other];
      if (twin->device->kind != device->kind) continue;
      class_->weight_sum = twin->weight_sum;
      class_->weight_shared = twin->weight_shared;
      if (twin->device->speed != device->speed) continue;
      class_->time = twin->time;
      class_->pack = twin->pack;
      class_->unpack = twin->unpack;
    }
    if (!class_->weight_sum)
      status = build_weights(model, atom_of, &model->input->kinds[device->kind], class_);
    if (status == CV_OK && !class_->time) status = build_times(model, class_);
  }
  if (status != CV_OK) return status;
  if (!ordered) sort_fastest_first(model);
  build_links(model);
  return CV_OK;
}

cv_status cv_model_create(const cv_plan_input *input, bool ordered, cv_model **out_model) {
  *out_model = NULL;
  cv_status status = cv_model_check(input);
  if (status != CV_OK) return status;
  cv_model *model = cv_alloc(1, sizeof *model);
  if (!model) return cv_error_nomem(sizeof *model);
  model->input = input;
  model->out_buffers = input->out_buffers ? input->out_buffers : 2;
  int *atom_of;
  CV_TRY(build_atoms(model, &atom_of));
  CV_TRY(build_values(model, atom_of));
  CV_TRY(build_uses(model));
  CV_TRY(build_value_spans(model));
  CV_TRY(build_buffers(model));
  CV_TRY(build_classes(model, atom_of, ordered));
  *out_model = model;
  model = NULL;
out:
  cv_model_destroy(model);
  return status;
}

void cv_model_destroy(cv_model *model) {
  if (!model) return;
  cv_arena_deinit(&model->arena);
  cv_free(model);
}
