/* The exact walk: true costs, which depend on where earlier cuts lie (a value read by several
 * stages leaves its maker once for each of them, over links that may differ). Depth first, pruned
 * by the relaxed walk; what failed is remembered under everything that the rest depends on. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "partitioner/search_state_internal.h"

enum { MAX_LIVE = 1 << 24 };

typedef struct {
  int state, a, depth;
  double gateway_out, gateway_in;
} place;

static int last_reader(const cv_model *model, const cv_model_value *value) {
  return value->n_readers ? model->readers[value->first + value->n_readers - 1] : value->producer;
}

/* Lists the values live at each position, unless they are too many. */
static bool list_live(cv_search *q) {
  const cv_model *model = q->model;
  if (q->live_begin) return true;
  size_t n = (size_t)model->n_atoms;
  q->live_begin = cv_arena_array(&q->arena, int, n + 2);
  if (!q->live_begin) return false;
  int64_t total = 0;
  for (int v = 0; v < model->n_values; v++) {
    const cv_model_value *value = &model->values[v];
    int last = last_reader(model, value);
    total += last - value->producer;
    if (total > MAX_LIVE) return true;
    for (int p = value->producer + 1; p <= last; p++) q->live_begin[p]++;
  }
  for (size_t p = 1; p <= n + 1; p++) q->live_begin[p] += q->live_begin[p - 1];
  q->live = cv_arena_array(&q->arena, int, (size_t)total);
  if (!q->live) return false;
  for (int v = model->n_values - 1; v >= 0; v--) {
    const cv_model_value *value = &model->values[v];
    for (int p = value->producer + 1; p <= last_reader(model, value); p++)
      q->live[--q->live_begin[p]] = v;
  }
  return true;
}

static bool add_key(cv_search *q, size_t *len, const void *bytes, size_t size) {
  if (*len + size > q->key_room) {
    size_t room = (*len + size) * 2;
    unsigned char *grown = cv_realloc(q->key, room, 1);
    if (!grown) return false;
    q->key = grown;
    q->key_room = room;
  }
  memcpy(q->key + *len, bytes, size);
  *len += size;
  return true;
}

static int maker(const cv_search *q, int depth, int atom) {
  int j = 0;
  while (j < depth - 1 && q->path[j].end <= atom) j++;
  return j;
}

/* Everything the rest depends on: the state, the position, who made the values live here, and what
 * those makers have left. False: memory is out. */
static bool make_key(cv_search *q, const place *at, size_t *out_len) {
  const cv_model *model = q->model;
  const cv_search_open *open = q->open + (size_t)at->depth * (size_t)model->input->n_devices;
  bool inputs_left = false;
  int last_maker = -1;
  *out_len = 0;
  bool ok = add_key(q, out_len, &at->state, sizeof at->state) &&
            add_key(q, out_len, &at->a, sizeof at->a) &&
            add_key(q, out_len, &at->gateway_in, sizeof at->gateway_in);
  for (int i = q->live_begin[at->a]; ok && i < q->live_begin[at->a + 1]; i++) {
    const cv_model_value *value = &model->values[q->live[i]];
    if (value->producer < 0) {
      inputs_left = true;
      continue;
    }
    int stage = maker(q, at->depth, value->producer); /* makers come in ascending order */
    int jump = at->depth - stage;
    ok = add_key(q, out_len, &jump, sizeof jump);
    if (!ok || stage == last_maker) continue;
    last_maker = stage;
    ok = add_key(q, out_len, &q->path[stage].class_, sizeof(int)) &&
         add_key(q, out_len, &open[stage].wire_out, sizeof(double));
    if (ok && model->classes[q->path[stage].class_].pays_copies)
      ok = add_key(q, out_len, &open[stage].busy, sizeof(double));
  }
  return ok && (!inputs_left || add_key(q, out_len, &at->gateway_out, sizeof at->gateway_out));
}

/* Charges what stage `from` (-1: gateway) sends to stage j. */
static void charge(const cv_search *q, cv_search_open *open, int from, int j, double bytes,
                   double *wire_in) {
  const cv_model *model = q->model;
  const cv_model_class *to = &model->classes[q->path[j].class_];
  const cv_plan_link *link =
      from < 0 ? to->from_gateway : cv_model_link(model, q->path[from].class_, q->path[j].class_);
  *wire_in += bytes / link->bytes_per_us;
  if (to->pays_copies) open[j].busy += bytes * link->receive_us_per_byte;
  if (from < 0) return;
  open[from].wire_out += bytes / link->bytes_per_us;
  if (model->classes[q->path[from].class_].pays_copies)
    open[from].busy += bytes * link->send_us_per_byte;
}

/* Adds stage j = [at->a, b) and gives the place after it; false when a figure passes the limit. */
static bool push(cv_search *q, const place *at, int c, int next, int b, place *out_at) {
  const cv_model *model = q->model;
  const cv_model_class *class_ = &model->classes[c];
  size_t devices = (size_t)model->input->n_devices;
  int j = at->depth;
  cv_search_open *open = q->open + (size_t)(j + 1) * devices;
  memcpy(open, q->open + (size_t)j * devices, (size_t)j * sizeof *open);
  q->path[j] = (cv_path_stage){c, b};
  cv_model_gather(model, q->path, j, q->row);
  cv_search_spend(q, 1 + (model->read_by[b] - model->read_by[at->a]) / 8);
  double most = q->limit * (1 + CV_SEARCH_ROUNDING), wire_in = 0;
  double answers = (double)(model->out_gateway[b] - model->out_gateway[at->a]);
  open[j].busy = cv_model_compute(model, c, at->a, b);
  open[j].wire_out = answers / class_->to_gateway->bytes_per_us;
  if (class_->pays_copies) open[j].busy += answers * class_->to_gateway->send_us_per_byte;
  cv_model_stage stage = {c, -1, j, at->a, b};
  uint64_t memory = cv_model_memory(model, &stage);
  for (int i = 0; i <= j; i++) {
    if (!q->row[i]) continue;
    charge(q, open, i - 1, j, (double)q->row[i], &wire_in);
    if (i) memory += 2 * (uint64_t)(j - i) * q->row[i]; /* a jump of j - i + 1 stages */
    if (i && (open[i - 1].busy > most || open[i - 1].wire_out > most)) return false;
  }
  *out_at = (place){next, b, j + 1,
                    at->gateway_out + (double)q->row[0] / class_->from_gateway->bytes_per_us,
                    at->gateway_in + open[j].wire_out};
  return open[j].busy <= most && open[j].wire_out <= most && wire_in <= most &&
         out_at->gateway_out <= most && out_at->gateway_in <= most && memory <= class_->memory;
}

static bool walk(cv_search *q, const place *at);

static bool walk_class(cv_search *q, const place *at, int c) {
  int lo, top, next = cv_search_range(q, at->state, c, at->a, &lo, &top);
  if (next < 0) return false;
  for (int b = top; b >= lo; b--) {
    b = cv_search_skip(q, next, b);
    if (b < lo || !cv_search_spend(q, 1)) return false;
    cv_model_stage stage = {c, cv_search_last(q, at->state), at->depth, at->a, b};
    if (cv_model_floor(q->model, &stage, false) > q->limit * (1 + CV_SEARCH_ROUNDING)) continue;
    place after;
    if (!push(q, at, c, next, b, &after)) continue;
    if (!cv_search_possible(q, next, b)) continue; /* its path lies behind what is kept */
    if (walk(q, &after)) return true;
  }
  return false;
}

static bool walk(cv_search *q, const place *at) {
  if (at->a == q->model->n_atoms) {
    q->path_len = at->depth;
    return at->depth >= q->min_stages;
  }
  if (at->depth == q->max_stages || !cv_search_spend(q, 1)) return false;
  size_t len = 0;
  if (q->live) {
    if (!make_key(q, at, &len)) {
      q->status = cv_error_nomem(q->key_room);
      return false;
    }
    uint64_t value;
    if (cv_map_get(&q->failed, q->key, len, &value)) return false;
  }
  for (int c = 0; c < q->model->n_classes; c++)
    if (walk_class(q, at, c)) return true;
  if (!q->live || q->effort <= 0 || q->status != CV_OK) return false;
  if (!make_key(q, at, &len) || !cv_map_put(&q->failed, q->key, len, 1))
    q->status = cv_error_nomem(len);
  return false;
}

bool cv_search_walk_exact(cv_search *q) {
  size_t devices = (size_t)q->model->input->n_devices;
  cv_map_deinit(&q->failed);
  if (!q->open) q->open = cv_arena_array(&q->arena, cv_search_open, (devices + 1) * devices);
  if (!q->open || !list_live(q)) {
    q->status = cv_error_nomem((devices + 1) * devices * sizeof *q->open);
    return false;
  }
  place start = {0, 0, 0, 0, 0};
  return walk(q, &start);
}
