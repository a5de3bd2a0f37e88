#include "base/schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { NOT_YET, BEGUN, COMPLETE }; /* of one micro-batch on one edge */

typedef struct {
  int slots;
  char *name;
  int64_t granted; /* told to the producer */
} in_edge;

typedef struct {
  bool direct;
  char *name;
  int64_t granted; /* heard from the consumer */
} out_edge;

/* Micro-batches [done, done + ring) may be other than free; each has one entry of the ring. */
struct cv_schedule {
  int n_in, n_out, out_buffers, ring;
  in_edge *in;
  out_edge *out;
  uint8_t *state;       /* [ring] cv_slot_state */
  uint8_t *is_computed; /* [ring]; with state free: it has left, but an older one has not */
  uint8_t *in_state;    /* [n_in][ring] */
  uint8_t *out_state;
  int64_t done;                /* every seq below has left */
  int64_t computed;            /* every seq below is computed: its input slots are free */
  int computing, compute_most; /* micro-batches that are given out to compute */
  int64_t offered;
  int active; /* micro-batches that are not free */
};

static size_t at(const cv_schedule *s, int64_t seq) { return (size_t)(seq % s->ring); }

static uint8_t *in_at(const cv_schedule *s, int edge, int64_t seq) {
  return &s->in_state[(size_t)edge * (size_t)s->ring + at(s, seq)];
}

static uint8_t *out_at(const cv_schedule *s, int edge, int64_t seq) {
  return &s->out_state[(size_t)edge * (size_t)s->ring + at(s, seq)];
}

static cv_status check_config(const cv_schedule_config *config) {
  enum { MOST = 1 << 20 };
  if (config->n_in < 0 || config->n_out < 0 || config->out_buffers < 1 ||
      config->out_buffers > MOST || config->first_seq < 0)
    return cv_error(CV_INVALID,
                    "schedule: %d in-edges, %d out-edges, %d output buffers, first micro-batch "
                    "%" PRId64 ": counts must be at least 0, 0, 1, 0",
                    config->n_in, config->n_out, config->out_buffers, config->first_seq);
  for (int e = 0; e < config->n_in; e++)
    if (config->in[e].slots < 1 || config->in[e].slots > MOST)
      return cv_error(CV_INVALID, "schedule: in-edge %d has %d slots; give it 1 to %d", e,
                      config->in[e].slots, MOST);
  return CV_OK;
}

static cv_status copy_edges(cv_schedule *s, const cv_schedule_config *config) {
  for (int e = 0; e < config->n_in; e++) {
    s->in[e] = (in_edge){.slots = config->in[e].slots, .granted = config->first_seq};
    if (config->in[e].name && !(s->in[e].name = cv_strdup(config->in[e].name)))
      return cv_error_nomem(strlen(config->in[e].name) + 1);
  }
  for (int e = 0; e < config->n_out; e++) {
    s->out[e] = (out_edge){.direct = config->out[e].direct, .granted = config->first_seq};
    if (config->out[e].name && !(s->out[e].name = cv_strdup(config->out[e].name)))
      return cv_error_nomem(strlen(config->out[e].name) + 1);
  }
  return CV_OK;
}

cv_status cv_schedule_create(const cv_schedule_config *config, cv_schedule **out_schedule) {
  *out_schedule = NULL;
  cv_status status = check_config(config);
  if (status != CV_OK) return status;
  cv_schedule *s = cv_alloc(1, sizeof *s);
  if (!s) return cv_error_nomem(sizeof *s);
  int most_slots = 0;
  for (int e = 0; e < config->n_in; e++)
    if (config->in[e].slots > most_slots) most_slots = config->in[e].slots;
  s->n_in = config->n_in;
  s->n_out = config->n_out;
  s->out_buffers = config->out_buffers;
  s->ring = config->out_buffers + most_slots;
  s->done = s->computed = s->offered = config->first_seq;
  s->compute_most = config->compute_ahead > 0 ? config->compute_ahead : 1;
  size_t ring = (size_t)s->ring, n_in = (size_t)s->n_in, n_out = (size_t)s->n_out;
  s->in = cv_alloc(n_in + 1, sizeof *s->in);
  s->out = cv_alloc(n_out + 1, sizeof *s->out);
  s->state = cv_alloc(ring, 1);
  s->is_computed = cv_alloc(ring, 1);
  s->in_state = cv_alloc(n_in + 1, ring);
  s->out_state = cv_alloc(n_out + 1, ring);
  if (!s->in || !s->out || !s->state || !s->is_computed || !s->in_state || !s->out_state) {
    status = cv_error_nomem(ring * (n_in + n_out + 3));
    goto out;
  }
  CV_TRY(copy_edges(s, config));
  *out_schedule = s;
  s = NULL;
out:
  cv_schedule_destroy(s);
  return status;
}

void cv_schedule_destroy(cv_schedule *s) {
  if (!s) return;
  for (int e = 0; s->in && e < s->n_in; e++) cv_free(s->in[e].name);
  for (int e = 0; s->out && e < s->n_out; e++) cv_free(s->out[e].name);
  cv_free(s->in);
  cv_free(s->out);
  cv_free(s->state);
  cv_free(s->is_computed);
  cv_free(s->in_state);
  cv_free(s->out_state);
  cv_free(s);
}

static cv_status check_edge(const char *event, int edge, int count) {
  if (edge >= 0 && edge < count) return CV_OK;
  return cv_error(CV_CORRUPT, "schedule: %s on edge %d, but there are %d", event, edge, count);
}

cv_status cv_schedule_on_header(cv_schedule *s, int edge, int64_t seq, int *out_slot) {
  *out_slot = -1;
  cv_status status = check_edge("header", edge, s->n_in);
  if (status != CV_OK) return status;
  in_edge *in = &s->in[edge];
  if (seq < s->computed || seq >= in->granted)
    return cv_error(CV_CORRUPT,
                    "schedule: header of micro-batch %" PRId64
                    " on in-edge %d, whose window is "
                    "[%" PRId64 ", %" PRId64 ")",
                    seq, edge, s->computed, in->granted);
  uint8_t *arrived = in_at(s, edge, seq), *state = &s->state[at(s, seq)];
  if (*arrived != NOT_YET || *state > CV_SLOT_RECEIVING || s->is_computed[at(s, seq)])
    return cv_error(CV_CORRUPT, "schedule: a second header of micro-batch %" PRId64 " on edge %d",
                    seq, edge);
  *arrived = BEGUN;
  if (*state == CV_SLOT_FREE) s->active++;
  *state = CV_SLOT_RECEIVING;
  *out_slot = (int)(seq % in->slots);
  return CV_OK;
}

static bool in_window(const cv_schedule *s, int64_t seq) {
  return seq >= s->done && seq < s->done + s->ring;
}

cv_status cv_schedule_on_complete(cv_schedule *s, int edge, int64_t seq) {
  cv_status status = check_edge("payload", edge, s->n_in);
  if (status != CV_OK) return status;
  if (!in_window(s, seq) || s->state[at(s, seq)] != CV_SLOT_RECEIVING ||
      *in_at(s, edge, seq) != BEGUN)
    return cv_error(CV_CORRUPT,
                    "schedule: payload of micro-batch %" PRId64 " on in-edge %d without its header",
                    seq, edge);
  *in_at(s, edge, seq) = COMPLETE;
  for (int e = 0; e < s->n_in; e++)
    if (*in_at(s, e, seq) != COMPLETE) return CV_OK;
  s->state[at(s, seq)] = CV_SLOT_READY;
  return CV_OK;
}

cv_status cv_schedule_on_grant(cv_schedule *s, int edge, int64_t limit) {
  cv_status status = check_edge("grant", edge, s->n_out);
  if (status != CV_OK) return status;
  if (limit > s->out[edge].granted) s->out[edge].granted = limit;
  return CV_OK;
}

/* The micro-batch has left. Passes over all that have, so that their entries serve again. */
static void leave(cv_schedule *s, int64_t seq) {
  s->state[at(s, seq)] = CV_SLOT_FREE;
  s->active--;
  while (s->is_computed[at(s, s->done)] && s->state[at(s, s->done)] == CV_SLOT_FREE) {
    s->is_computed[at(s, s->done)] = 0;
    for (int e = 0; e < s->n_out; e++) *out_at(s, e, s->done) = NOT_YET;
    s->done++;
  }
}

cv_status cv_schedule_on_computed(cv_schedule *s, int64_t seq) {
  if (!in_window(s, seq) || s->state[at(s, seq)] != CV_SLOT_COMPUTING)
    return cv_error(CV_CORRUPT, "schedule: micro-batch %" PRId64 " computed, but it was not begun",
                    seq);
  s->computing--;
  s->state[at(s, seq)] = CV_SLOT_SENDING;
  s->is_computed[at(s, seq)] = 1;
  for (int e = 0; e < s->n_in; e++) *in_at(s, e, seq) = NOT_YET;
  while (s->computed < s->done + s->out_buffers && s->is_computed[at(s, s->computed)])
    s->computed++;
  if (s->n_out == 0) leave(s, seq);
  return CV_OK;
}

cv_status cv_schedule_on_sent(cv_schedule *s, int edge, int64_t seq) {
  cv_status status = check_edge("end of a send", edge, s->n_out);
  if (status != CV_OK) return status;
  if (!in_window(s, seq) || s->state[at(s, seq)] != CV_SLOT_SENDING ||
      *out_at(s, edge, seq) != BEGUN)
    return cv_error(CV_CORRUPT,
                    "schedule: micro-batch %" PRId64 " sent on out-edge %d, but it was not begun",
                    seq, edge);
  *out_at(s, edge, seq) = COMPLETE;
  for (int e = 0; e < s->n_out; e++)
    if (*out_at(s, e, seq) != COMPLETE) return CV_OK;
  leave(s, seq);
  return CV_OK;
}

cv_status cv_schedule_offer(cv_schedule *s, int64_t limit) {
  if (s->n_in)
    return cv_error(CV_INVALID, "schedule: an offer to a stage that has %d in-edges", s->n_in);
  if (limit > s->offered) s->offered = limit;
  return CV_OK;
}

static bool next_grant(cv_schedule *s, cv_schedule_action *action) {
  for (int e = 0; e < s->n_in; e++) {
    int64_t limit = s->computed + s->in[e].slots;
    if (limit <= s->in[e].granted) continue;
    s->in[e].granted = limit;
    *action = (cv_schedule_action){CV_SCHEDULE_GRANT, e, limit};
    return true;
  }
  return false;
}

static bool next_send(cv_schedule *s, cv_schedule_action *action) {
  for (int64_t seq = s->done; seq < s->done + s->out_buffers; seq++) {
    if (s->state[at(s, seq)] != CV_SLOT_SENDING) continue;
    for (int e = 0; e < s->n_out; e++) {
      if (*out_at(s, e, seq) != NOT_YET || seq >= s->out[e].granted) continue;
      *out_at(s, e, seq) = BEGUN;
      *action = (cv_schedule_action){CV_SCHEDULE_SEND, e, seq};
      return true;
    }
  }
  return false;
}

/* All inputs there, and not begun. */
static bool is_ready(const cv_schedule *s, int64_t seq) {
  uint8_t state = s->state[at(s, seq)];
  if (s->n_in) return state == CV_SLOT_READY;
  return state == CV_SLOT_FREE && !s->is_computed[at(s, seq)] && seq < s->offered;
}

static int first_direct_without_grant(const cv_schedule *s, int64_t seq) {
  for (int e = 0; e < s->n_out; e++)
    if (s->out[e].direct && seq >= s->out[e].granted) return e;
  return -1;
}

static bool next_compute(cv_schedule *s, cv_schedule_action *action) {
  if (s->computing >= s->compute_most) return false;
  for (int64_t seq = s->done; seq < s->done + s->out_buffers; seq++) {
    if (!is_ready(s, seq) || first_direct_without_grant(s, seq) >= 0) continue;
    if (s->n_in == 0) s->active++;
    s->state[at(s, seq)] = CV_SLOT_COMPUTING;
    s->computing++;
    *action = (cv_schedule_action){CV_SCHEDULE_COMPUTE, -1, seq};
    return true;
  }
  return false;
}

bool cv_schedule_next(cv_schedule *s, cv_schedule_action *out_action) {
  *out_action = (cv_schedule_action){0};
  return next_grant(s, out_action) || next_send(s, out_action) || next_compute(s, out_action);
}

cv_slot_state cv_schedule_state(const cv_schedule *s, int64_t seq) {
  return in_window(s, seq) ? (cv_slot_state)s->state[at(s, seq)] : CV_SLOT_FREE;
}

int64_t cv_schedule_done(const cv_schedule *s) { return s->done; }

bool cv_schedule_idle(const cv_schedule *s) { return s->active == 0; }

static void explain_input(const cv_schedule *s, cv_schedule_wait *wait) {
  if (s->n_in == 0) {
    wait->kind = s->done < s->offered ? CV_WAIT_TURN : CV_WAIT_OFFER;
    return;
  }
  for (int e = s->n_in - 1; e >= 0; e--) {
    uint8_t arrived = *in_at(s, e, s->done);
    if (arrived == COMPLETE) continue;
    if (arrived == BEGUN && wait->kind == CV_WAIT_INPUT && wait->edge >= 0) continue;
    wait->kind = arrived == BEGUN ? CV_WAIT_PAYLOAD : CV_WAIT_INPUT;
    wait->edge = e;
  }
}

static void explain_output(const cv_schedule *s, cv_schedule_wait *wait) {
  for (int e = 0; e < s->n_out; e++) {
    uint8_t sent = *out_at(s, e, s->done);
    if (sent == COMPLETE) continue;
    wait->kind = sent == NOT_YET && s->done >= s->out[e].granted ? CV_WAIT_GRANT : CV_WAIT_SENT;
    wait->edge = e;
    if (wait->kind == CV_WAIT_GRANT) return;
  }
}

void cv_schedule_explain(const cv_schedule *s, cv_schedule_wait *out_wait) {
  *out_wait = (cv_schedule_wait){.kind = CV_WAIT_INPUT, .seq = s->done, .edge = -1};
  int direct = first_direct_without_grant(s, s->done);
  switch ((cv_slot_state)s->state[at(s, s->done)]) {
    case CV_SLOT_FREE:
      if (s->n_in == 0 && s->done < s->offered && direct >= 0)
        *out_wait = (cv_schedule_wait){CV_WAIT_GRANT, s->done, direct};
      else
        explain_input(s, out_wait);
      break;
    case CV_SLOT_RECEIVING: explain_input(s, out_wait); break;
    case CV_SLOT_READY:
      out_wait->kind = direct >= 0 ? CV_WAIT_GRANT : CV_WAIT_TURN;
      out_wait->edge = direct;
      break;
    case CV_SLOT_COMPUTING: out_wait->kind = CV_WAIT_COMPUTE; break;
    case CV_SLOT_SENDING: explain_output(s, out_wait); break;
  }
}

void cv_schedule_explain_text(const cv_schedule *s, char *text, size_t size) {
  cv_schedule_wait wait;
  cv_schedule_explain(s, &wait);
  bool is_in = wait.kind == CV_WAIT_INPUT || wait.kind == CV_WAIT_PAYLOAD;
  const char *name = wait.edge < 0 ? NULL : is_in ? s->in[wait.edge].name : s->out[wait.edge].name;
  char peer[128] = "";
  if (name)
    snprintf(peer, sizeof peer, "%s", name);
  else if (wait.edge >= 0)
    snprintf(peer, sizeof peer, "%s-edge %d", is_in ? "in" : "out", wait.edge);
  static const struct {
    const char *before;
    bool names_peer;
  } texts[] = {
      [CV_WAIT_INPUT] = {"waits for its input from ", true},
      [CV_WAIT_PAYLOAD] = {"waits for the bytes that are under way from ", true},
      [CV_WAIT_OFFER] = {"waits to be offered: the source has no more", false},
      [CV_WAIT_TURN] = {"is ready and waits for its turn to compute", false},
      [CV_WAIT_COMPUTE] = {"is computing", false},
      [CV_WAIT_GRANT] = {"waits for a slot at ", true},
      [CV_WAIT_SENT] = {"is being sent to ", true},
  };
  snprintf(text, size, "micro-batch %" PRId64 " %s%s", wait.seq, texts[wait.kind].before,
           texts[wait.kind].names_peer ? peer : "");
}

cv_schedule_lane_cause cv_schedule_lane(const cv_schedule *s) {
  if (s->computing > 0) return CV_LANE_COMPUTE;
  cv_schedule_lane_cause cause = CV_LANE_STARVED;
  for (int64_t seq = s->done; seq < s->done + s->ring; seq++) {
    if (is_ready(s, seq)) return CV_LANE_BLOCKED_SEND;
    if (s->state[at(s, seq)] == CV_SLOT_RECEIVING) cause = CV_LANE_BLOCKED_RECEIVE;
  }
  return cause;
}
