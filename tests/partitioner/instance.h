/* Random planning problems, and the smallest bottleneck by trying everything, straight from the
 * definition in partitioner/partitioner.h. */
#ifndef CV_TESTS_PARTITIONER_INSTANCE_H
#define CV_TESTS_PARTITIONER_INSTANCE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/partitioner.h"

enum { MOST_STEPS = 9, MOST_DEVICES = 5, MOST_VALUES = 16, MOST_WEIGHTS = 8, MOST_KINDS = 3 };

typedef struct {
  cv_plan_input in;
  int size[1];
  double step_us[MOST_KINDS][MOST_STEPS];
  double pack[MOST_KINDS][MOST_STEPS + 1], unpack[MOST_KINDS][MOST_STEPS + 1];
  uint64_t kind_weights[MOST_KINDS][MOST_WEIGHTS];
  uint64_t buffer[MOST_STEPS];
  uint8_t legal[MOST_STEPS + 1];
  int value_readers[MOST_VALUES][MOST_STEPS + 1], weight_readers[MOST_WEIGHTS][MOST_STEPS];
  cv_plan_value values[MOST_VALUES];
  cv_plan_weight weights[MOST_WEIGHTS];
  cv_plan_kind kinds[MOST_KINDS];
  cv_plan_device devices[MOST_DEVICES];
  cv_plan_link links[(MOST_DEVICES + 1) * (MOST_DEVICES + 1)];
} instance;

static uint64_t instance_state;

static unsigned draw(unsigned below) {
  instance_state = instance_state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(instance_state >> 33) % below;
}

static int draw_readers(int from, int to, unsigned one_in, int *readers) {
  int n = 0;
  for (int s = from; s <= to; s++)
    if (draw(one_in) == 0) readers[n++] = s;
  return n;
}

static void draw_values(instance *t) {
  cv_plan_input *in = &t->in;
  unsigned one_in = 2 + draw(4);
  for (int p = -1; p < in->n_steps && in->n_values < MOST_VALUES; p++) {
    int v = in->n_values++, *readers = t->value_readers[v];
    int n = draw_readers(p + 1, in->n_steps, one_in, readers);
    if (n == 0) readers[n++] = p + 1;
    t->values[v] = (cv_plan_value){p, n, readers, draw(100), draw(100)};
  }
  in->values = t->values;
}

static void draw_weights(instance *t) {
  cv_plan_input *in = &t->in;
  in->n_weights = (int)draw(MOST_WEIGHTS);
  for (int w = 0; w < in->n_weights; w++) {
    int *readers = t->weight_readers[w], n = draw_readers(0, in->n_steps - 1, 3, readers);
    t->weights[w] = (cv_plan_weight){draw(1000), n, readers};
  }
  in->weights = t->weights;
}

static void draw_kinds(instance *t) {
  cv_plan_input *in = &t->in;
  in->n_kinds = 1 + (int)draw(MOST_KINDS);
  unsigned pack = draw(2) ? 1 : 20;
  for (int k = 0; k < in->n_kinds; k++) {
    for (int s = 0; s < in->n_steps; s++) t->step_us[k][s] = draw(10) ? draw(100) : draw(500);
    for (int s = 0; s <= in->n_steps; s++) t->pack[k][s] = draw(pack), t->unpack[k][s] = draw(pack);
    for (int w = 0; w < in->n_weights; w++) t->kind_weights[k][w] = draw(1500);
    t->kinds[k] = (cv_plan_kind){"k", t->step_us[k], t->pack[k], draw(2) ? t->unpack[k] : NULL,
                                 draw(2) ? t->kind_weights[k] : NULL};
  }
  in->kinds = t->kinds;
}

static cv_plan_link draw_link(unsigned slow) {
  return (cv_plan_link){draw(4) ? 1.0 + draw(slow) : INFINITY, 0, draw(3) * 0.05, draw(3) * 0.05};
}

static void draw_devices(instance *t) {
  static const char *const names[MOST_DEVICES] = {"a", "b", "c", "d", "e"};
  cv_plan_input *in = &t->in;
  unsigned unlike = draw(3);
  int n = in->n_devices, limited = draw(3) == 0;
  for (int d = 0; d < n; d++) {
    cv_plan_device *device = &t->devices[d];
    *device = (cv_plan_device){names[d], NULL, 0, 1, 0, 0, 0, 0};
    if (unlike && draw(2)) device->kind = (int)draw((unsigned)in->n_kinds);
    if (unlike == 2) device->speed = 0.5 * (1 + draw(4));
    if (limited) device->memory = 500 + draw(8000);
    if (draw(2)) device->cores = (int)draw(4);
    if (draw(8) == 0) device->pace_us = draw(200);
    if (draw(8) == 0) device->pace_us_per_step = draw(60);
  }
  in->devices = t->devices;
  cv_plan_link one = draw_link(20), two = draw_link(20);
  unsigned how = draw(3);
  for (int i = 0; i < (n + 1) * (n + 1); i++)
    t->links[i] = how == 0 ? one : how == 1 ? (draw(2) ? one : two) : draw_link(8);
  in->links = t->links;
}

static void draw_instance(uint64_t seed, int max_steps, int max_devices, instance *t) {
  memset(t, 0, sizeof *t);
  instance_state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int i = 0; i < 4; i++) draw(2);
  cv_plan_input *in = &t->in;
  in->n_steps = 1 + (int)draw((unsigned)max_steps);
  in->n_devices = 1 + (int)draw((unsigned)max_devices);
  in->micro_batch = 1 + (int)draw(3);
  in->n_sizes = 1;
  t->size[0] = in->micro_batch;
  in->sizes = t->size;
  in->threads = 1 + (int)draw(2);
  in->out_buffers = (int)draw(4);
  in->ordered = draw(3) == 0;
  draw_values(t);
  draw_weights(t);
  draw_kinds(t);
  draw_devices(t);
  for (int s = 0; s < in->n_steps; s++) t->buffer[s] = draw(300);
  if (draw(2)) in->buffer_fixed = t->buffer;
  if (draw(2)) in->buffer_per_item = t->buffer;
  for (int s = 0; s <= in->n_steps; s++) t->legal[s] = draw(5) != 0;
  if (draw(2)) in->legal = t->legal;
  if (draw(2)) in->stages = 1 + (int)draw((unsigned)in->n_devices);
}

typedef struct {
  int n, cut[MOST_DEVICES], device[MOST_DEVICES];
} split;

static int stage_at(const split *s, int step) {
  for (int j = 0; j < s->n; j++)
    if (step < s->cut[j]) return j;
  return -1; /* the gateway */
}

static const cv_plan_link *link_of(const cv_plan_input *in, const split *s, int from, int to) {
  int a = from < 0 ? in->n_devices : s->device[from], b = to < 0 ? in->n_devices : s->device[to];
  return &in->links[a * (in->n_devices + 1) + b];
}

static uint64_t stage_weights(const cv_plan_input *in, const split *s, int j) {
  uint64_t sum = 0;
  const cv_plan_kind *kind = &in->kinds[in->devices[s->device[j]].kind];
  for (int w = 0; w < in->n_weights; w++) {
    bool here = false;
    for (int r = 0; r < in->weights[w].n_readers; r++)
      here = here || stage_at(s, in->weights[w].readers[r]) == j;
    if (here) sum += kind->weight_bytes ? kind->weight_bytes[w] : in->weights[w].bytes;
  }
  uint64_t buffer = 0;
  for (int step = j ? s->cut[j - 1] : 0; step < s->cut[j]; step++) {
    uint64_t bytes =
        (in->buffer_fixed ? in->buffer_fixed[step] : 0) +
        (in->buffer_per_item ? in->buffer_per_item[step] : 0) * (uint64_t)in->micro_batch;
    if (bytes > buffer) buffer = bytes;
  }
  return sum + buffer;
}

static double stage_compute(const cv_plan_input *in, const split *s, int j) {
  const cv_plan_device *device = &in->devices[s->device[j]];
  const cv_plan_kind *kind = &in->kinds[device->kind];
  int a = j ? s->cut[j - 1] : 0, b = s->cut[j];
  double sum = (kind->unpack_us ? kind->unpack_us[a] : 0) + (kind->pack_us ? kind->pack_us[b] : 0);
  for (int step = a; step < b; step++) sum += kind->step_us[step];
  return fmax(sum / device->speed, fmax(device->pace_us, device->pace_us_per_step * (b - a)));
}

/* INFINITY when a stage does not fit. */
static double split_cost(const cv_plan_input *in, const split *s) {
  double busy[MOST_DEVICES], in_us[MOST_DEVICES + 1] = {0}, out_us[MOST_DEVICES + 1] = {0};
  uint64_t memory[MOST_DEVICES];
  uint64_t buffers = in->out_buffers ? (uint64_t)in->out_buffers : 2;
  for (int j = 0; j < s->n; j++) {
    busy[j] = stage_compute(in, s, j);
    memory[j] = stage_weights(in, s, j);
  }
  for (int v = 0; v < in->n_values; v++) {
    const cv_plan_value *value = &in->values[v];
    uint64_t bytes = value->bytes_fixed + value->bytes_per_item * (uint64_t)in->micro_batch;
    int from = value->producer < 0 ? -1 : stage_at(s, value->producer), before = -2;
    bool leaves = false;
    for (int r = 0; r < value->n_readers; r++) {
      int to = stage_at(s, value->readers[r]);
      if (to == from || to == before) continue;
      before = to;
      leaves = true;
      const cv_plan_link *link = link_of(in, s, from, to);
      in_us[to + 1] += (double)bytes / link->bytes_per_us;
      out_us[from + 1] += (double)bytes / link->bytes_per_us;
      if (to >= 0) memory[to] += (2 * (uint64_t)(to - from) + 1) * bytes;
      if (to >= 0 && in->devices[s->device[to]].cores <= in->threads)
        busy[to] += (double)bytes * link->receive_us_per_byte;
      if (from >= 0 && in->devices[s->device[from]].cores <= in->threads)
        busy[from] += (double)bytes * link->send_us_per_byte;
    }
    if (leaves && from >= 0) memory[from] += buffers * bytes;
  }
  double worst = fmax(in_us[0], out_us[0]);
  for (int j = 0; j < s->n; j++) {
    uint64_t limit = in->devices[s->device[j]].memory;
    if (limit && memory[j] > limit) return INFINITY;
    worst = fmax(worst, fmax(busy[j], fmax(in_us[j + 1], out_us[j + 1])));
  }
  return worst;
}

static void try_all(const cv_plan_input *in, split *s, unsigned used, double *best) {
  int a = s->n ? s->cut[s->n - 1] : 0;
  if (a == in->n_steps) {
    if (!in->stages || s->n == in->stages) *best = fmin(*best, split_cost(in, s));
    return;
  }
  for (int d = 0; d < in->n_devices; d++) {
    if (used >> d & 1 || (in->ordered && s->n && d < s->device[s->n - 1])) continue;
    for (int b = a + 1; b <= in->n_steps; b++) {
      if (b < in->n_steps && in->legal && !in->legal[b]) continue;
      s->device[s->n] = d;
      s->cut[s->n++] = b;
      try_all(in, s, used | 1u << d, best);
      s->n--;
    }
  }
}

/* The smallest bottleneck of all splits; INFINITY: there is none. */
static inline double brute_force(const cv_plan_input *in) {
  split s = {0};
  double best = INFINITY;
  try_all(in, &s, 0, &best);
  return best;
}

#endif
