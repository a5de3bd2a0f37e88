#include "partitioner/simulate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/schedule.h"
#include "base/str.h"
#include "base/vec.h"

typedef enum { HEADER, PAYLOAD, GRANT, COMPUTED, SENT } event_kind;

typedef struct {
  double time;
  int64_t order; /* of events at one time: as they were made */
  event_kind kind;
  int node, edge; /* the edge of the whole pipeline, or -1 */
  int64_t seq;
} event;

/* A send that waits for the sender's wire. */
typedef struct {
  int64_t seq;
  int edge;
} pending_send;

typedef struct {
  cv_schedule *schedule;
  double compute_us, in_free; /* in_free: when the wire that comes in is free again */
  bool sends;                 /* the wire that goes out is taken */
  cv_vec(pending_send) pending;
  int n_in, n_out, *in, *out; /* edges of the whole pipeline */
  double since;               /* of the lane's present cause */
  cv_schedule_lane_cause cause;
  double lane[CV_LANE_STARVED + 1];
} node;

/* Nodes: the stages, then the gateway as source and as sink. */
typedef struct {
  const cv_simulation *in;
  int source, sink;
  node *nodes;
  int *at_producer, *at_consumer; /* [n_edges] index of an edge among its end's edges */
  cv_vec(event) heap;
  int64_t made;
  double now, middle_time;
  int64_t answered, middle;
  double latency_us;
} simulator;

static bool before(const event *a, const event *b) {
  return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static cv_status add_event(simulator *m, event e) {
  e.order = m->made++;
  if (!cv_vec_push(&m->heap, e)) return cv_error_nomem(m->heap.len * sizeof e);
  event *heap = m->heap.data;
  for (size_t i = m->heap.len - 1; i > 0 && before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2) {
    event swap = heap[i];
    heap[i] = heap[(i - 1) / 2];
    heap[(i - 1) / 2] = swap;
  }
  return CV_OK;
}

static event take_event(simulator *m) {
  event *heap = m->heap.data, first = heap[0], last = heap[--m->heap.len];
  size_t i = 0, n = m->heap.len;
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= n) break;
    if (child + 1 < n && before(&heap[child + 1], &heap[child])) child++;
    if (!before(&heap[child], &last)) break;
    heap[i] = heap[child];
    i = child;
  }
  if (n) heap[i] = last;
  return first;
}

static int producer(const simulator *m, int edge) {
  int from = m->in->edges[edge].from;
  return from < 0 ? m->source : from;
}

static int consumer(const simulator *m, int edge) {
  int to = m->in->edges[edge].to;
  return to < 0 ? m->sink : to;
}

static cv_status check(const cv_simulation *in) {
  if (in->n_stages < 1 || in->n_edges < 1 || in->out_buffers < 1 || in->in_flight < 0 ||
      in->micro_batches < 2)
    return cv_error(CV_INVALID,
                    "simulation: %d stages, %d edges, %d output buffers, %lld micro-batches: at "
                    "least 1, 1, 1, 2",
                    in->n_stages, in->n_edges, in->out_buffers, (long long)in->micro_batches);
  for (int j = 0; j < in->n_stages; j++)
    if (!(in->compute_us[j] >= 0))
      return cv_error(CV_INVALID, "simulation: stage %d computes %g us", j, in->compute_us[j]);
  for (int e = 0; e < in->n_edges; e++) {
    const cv_plan_edge *edge = &in->edges[e];
    int to = edge->to < 0 ? in->n_stages : edge->to;
    if (edge->from < CV_PLAN_GATEWAY || edge->to < CV_PLAN_GATEWAY || edge->from >= to ||
        to > in->n_stages || (edge->from < 0 && edge->to < 0) || edge->slots < 1 ||
        !(edge->transfer_us >= 0) || !(edge->latency_us >= 0))
      return cv_error(CV_INVALID, "simulation: edge %d from stage %d to %d, %d slots, %g us", e,
                      edge->from, edge->to, edge->slots, edge->transfer_us);
  }
  return CV_OK;
}

static cv_status build_edges(simulator *m) {
  const cv_simulation *in = m->in;
  size_t n_edges = (size_t)in->n_edges;
  m->at_producer = cv_alloc(n_edges, sizeof *m->at_producer);
  m->at_consumer = cv_alloc(n_edges, sizeof *m->at_consumer);
  if (!m->at_producer || !m->at_consumer) return cv_error_nomem(n_edges * 2 * sizeof(int));
  for (int e = 0; e < in->n_edges; e++) {
    m->at_producer[e] = m->nodes[producer(m, e)].n_out++;
    m->at_consumer[e] = m->nodes[consumer(m, e)].n_in++;
  }
  for (int k = 0; k < in->n_stages + 2; k++) {
    node *n = &m->nodes[k];
    n->in = cv_alloc((size_t)n->n_in, sizeof *n->in);
    n->out = cv_alloc((size_t)n->n_out, sizeof *n->out);
    if (!n->in || !n->out) return cv_error_nomem((size_t)(n->n_in + n->n_out) * sizeof(int));
  }
  for (int e = 0; e < in->n_edges; e++) {
    m->nodes[producer(m, e)].out[m->at_producer[e]] = e;
    m->nodes[consumer(m, e)].in[m->at_consumer[e]] = e;
  }
  return CV_OK;
}

static void name_node(const simulator *m, int k, char *name, size_t size) {
  if (k >= m->in->n_stages)
    snprintf(name, size, "the gateway");
  else
    snprintf(name, size, "stage %d", k);
}

static cv_status build_schedule(simulator *m, int k) {
  enum { NAME = 32 };
  node *n = &m->nodes[k];
  cv_status status = CV_OK;
  cv_schedule_in *in = cv_alloc((size_t)n->n_in, sizeof *in);
  cv_schedule_out *out = cv_alloc((size_t)n->n_out, sizeof *out);
  char(*names)[NAME] = cv_alloc((size_t)n->n_in + (size_t)n->n_out, NAME);
  if (!in || !out || !names) {
    status = cv_error_nomem(((size_t)n->n_in + (size_t)n->n_out) * NAME);
    goto out;
  }
  int most_slots = 0;
  for (int e = 0; e < n->n_in; e++) {
    in[e] = (cv_schedule_in){m->in->edges[n->in[e]].slots, names[e]};
    name_node(m, producer(m, n->in[e]), names[e], NAME);
  }
  for (int e = 0; e < n->n_out; e++) {
    int slots = m->in->edges[n->out[e]].slots;
    if (slots > most_slots) most_slots = slots;
    out[e] = (cv_schedule_out){false, names[n->n_in + e]};
    name_node(m, consumer(m, n->out[e]), names[n->n_in + e], NAME);
  }
  /* the gateway holds its requests in any case: it never lacks an output buffer */
  int buffers = k == m->source ? most_slots + m->in->out_buffers : m->in->out_buffers;
  cv_schedule_config config = {n->n_in, n->n_out, in, out, buffers, 0, 0};
  CV_TRY(cv_schedule_create(&config, &n->schedule));
out:
  cv_free(in);
  cv_free(out);
  cv_free(names);
  return status;
}

static void simulator_deinit(simulator *m) {
  for (int k = 0; m->nodes && k < m->in->n_stages + 2; k++) {
    cv_schedule_destroy(m->nodes[k].schedule);
    cv_vec_deinit(&m->nodes[k].pending);
    cv_free(m->nodes[k].in);
    cv_free(m->nodes[k].out);
  }
  cv_free(m->nodes);
  cv_free(m->at_producer);
  cv_free(m->at_consumer);
  cv_vec_deinit(&m->heap);
}

static cv_status simulator_init(simulator *m, const cv_simulation *in) {
  *m = (simulator){.in = in, .source = in->n_stages, .sink = in->n_stages + 1};
  m->middle = in->micro_batches / 2;
  m->nodes = cv_alloc((size_t)in->n_stages + 2, sizeof *m->nodes);
  if (!m->nodes) return cv_error_nomem((size_t)in->n_stages * sizeof *m->nodes);
  cv_status status = build_edges(m);
  for (int k = 0; k < in->n_stages + 2 && status == CV_OK; k++) {
    if (k < in->n_stages) m->nodes[k].compute_us = in->compute_us[k];
    m->nodes[k].cause = CV_LANE_STARVED;
    status = build_schedule(m, k);
  }
  return status;
}

static cv_status act(simulator *m, int k, const cv_schedule_action *action) {
  node *n = &m->nodes[k];
  if (action->kind == CV_SCHEDULE_COMPUTE)
    return add_event(m, (event){m->now + n->compute_us, 0, COMPUTED, k, -1, action->seq});
  if (action->kind == CV_SCHEDULE_GRANT) {
    int edge = n->in[action->edge];
    double when = m->now + m->in->edges[edge].latency_us;
    return add_event(m, (event){when, 0, GRANT, producer(m, edge), edge, action->seq});
  }
  pending_send send = {action->seq, n->out[action->edge]};
  if (!cv_vec_push(&n->pending, send)) return cv_error_nomem(n->pending.len * sizeof send);
  return CV_OK;
}

/* The oldest send takes the sender's wire now, and the receiver's as soon as it is free. */
static cv_status begin_send(simulator *m, int k) {
  node *n = &m->nodes[k];
  if (n->sends || n->pending.len == 0) return CV_OK;
  size_t oldest = 0;
  for (size_t i = 1; i < n->pending.len; i++)
    if (n->pending.data[i].seq < n->pending.data[oldest].seq) oldest = i;
  pending_send send = n->pending.data[oldest];
  memmove(&n->pending.data[oldest], &n->pending.data[oldest + 1],
          (--n->pending.len - oldest) * sizeof send);
  n->sends = true;
  const cv_plan_edge *edge = &m->in->edges[send.edge];
  int to = consumer(m, send.edge);
  node *receiver = &m->nodes[to];
  double header = m->now + edge->latency_us, sent = m->now + edge->transfer_us;
  receiver->in_free = fmax(m->now, receiver->in_free) + edge->transfer_us;
  double payload = receiver->in_free + edge->latency_us;
  cv_status status = add_event(m, (event){header, 0, HEADER, to, send.edge, send.seq});
  if (status == CV_OK) status = add_event(m, (event){payload, 0, PAYLOAD, to, send.edge, send.seq});
  if (status == CV_OK) status = add_event(m, (event){sent, 0, SENT, k, send.edge, send.seq});
  return status;
}

/* Does all that the node may do now, and accounts the time its lane spent until now. */
static cv_status pump(simulator *m, int k) {
  node *n = &m->nodes[k];
  cv_schedule_action action;
  while (cv_schedule_next(n->schedule, &action)) {
    cv_status status = act(m, k, &action);
    if (status != CV_OK) return status;
  }
  cv_status status = begin_send(m, k);
  if (status != CV_OK) return status;
  n->lane[n->cause] += m->now - n->since;
  n->since = m->now;
  n->cause = cv_schedule_lane(n->schedule);
  return CV_OK;
}

/* An answer is complete: the gateway may admit the next. */
static cv_status answer(simulator *m) {
  m->answered = cv_schedule_done(m->nodes[m->sink].schedule);
  if (m->latency_us == 0 && m->answered >= 1) m->latency_us = m->now;
  if (m->middle_time == 0 && m->answered >= m->middle) m->middle_time = m->now;
  int64_t limit = m->in->in_flight ? m->answered + m->in->in_flight : m->in->micro_batches;
  if (limit > m->in->micro_batches) limit = m->in->micro_batches;
  cv_status status = cv_schedule_offer(m->nodes[m->source].schedule, limit);
  return status == CV_OK ? pump(m, m->source) : status;
}

static cv_status happen(simulator *m, const event *e) {
  cv_schedule *schedule = m->nodes[e->node].schedule;
  int slot;
  cv_status status = CV_OK;
  switch (e->kind) {
    case HEADER:
      status = cv_schedule_on_header(schedule, m->at_consumer[e->edge], e->seq, &slot);
      break;
    case PAYLOAD:
      status = cv_schedule_on_complete(schedule, m->at_consumer[e->edge], e->seq);
      break;
    case GRANT: status = cv_schedule_on_grant(schedule, m->at_producer[e->edge], e->seq); break;
    case COMPUTED: status = cv_schedule_on_computed(schedule, e->seq); break;
    case SENT:
      m->nodes[e->node].sends = false;
      status = cv_schedule_on_sent(schedule, m->at_producer[e->edge], e->seq);
      break;
  }
  if (status == CV_OK) status = pump(m, e->node);
  if (status == CV_OK && e->node == m->sink && e->kind == COMPUTED) status = answer(m);
  return status;
}

static cv_status stopped(const simulator *m) {
  cv_str text = {0};
  for (int k = 0; k < m->in->n_stages + 2; k++) {
    char name[32], why[192];
    name_node(m, k, name, sizeof name);
    cv_schedule_explain_text(m->nodes[k].schedule, why, sizeof why);
    cv_str_add(&text, "%s%s: %s", k ? "; " : "", name, why);
  }
  cv_status status =
      cv_error(CV_FAILED, "the pipeline stops after %lld of %lld micro-batches: %s",
               (long long)m->answered, (long long)m->in->micro_batches, cv_str_text(&text));
  cv_str_deinit(&text);
  return status;
}

static cv_status run(simulator *m) {
  cv_status status = CV_OK;
  for (int k = 0; k < m->in->n_stages + 2 && status == CV_OK; k++) status = pump(m, k);
  if (status == CV_OK) status = answer(m);
  while (status == CV_OK && m->answered < m->in->micro_batches) {
    if (m->heap.len == 0) return stopped(m);
    event e = take_event(m);
    m->now = e.time;
    status = happen(m, &e);
  }
  return status;
}

cv_status cv_simulate(const cv_simulation *simulation, cv_simulation_result *out_result) {
  *out_result = (cv_simulation_result){0};
  cv_status status = check(simulation);
  if (status != CV_OK) return status;
  simulator m;
  cv_simulation_lane *lanes = NULL;
  CV_TRY(simulator_init(&m, simulation));
  CV_TRY(run(&m));
  lanes = cv_alloc((size_t)simulation->n_stages, sizeof *lanes);
  if (!lanes) {
    status = cv_error_nomem((size_t)simulation->n_stages * sizeof *lanes);
    goto out;
  }
  for (int j = 0; j < simulation->n_stages; j++) {
    node *n = &m.nodes[j];
    n->lane[n->cause] += m.now - n->since;
    lanes[j] =
        (cv_simulation_lane){n->lane[CV_LANE_COMPUTE], n->lane[CV_LANE_BLOCKED_SEND],
                             n->lane[CV_LANE_STARVED] + n->lane[CV_LANE_BLOCKED_RECEIVE], m.now};
  }
  *out_result = (cv_simulation_result){
      (m.now - m.middle_time) / (double)(simulation->micro_batches - m.middle), m.latency_us, m.now,
      lanes};
out:
  simulator_deinit(&m);
  return status;
}

void cv_simulation_of_plan(const cv_plan *plan, int64_t micro_batches, double *compute_us,
                           cv_simulation *out_simulation) {
  for (int j = 0; j < plan->n_stages; j++)
    compute_us[j] = plan->stages[j].compute_us + plan->stages[j].copy_us;
  *out_simulation = (cv_simulation){
      plan->n_stages, plan->n_edges, compute_us, plan->edges, plan->out_buffers, 0, micro_batches};
}

void cv_simulation_deinit(cv_simulation_result *result) {
  if (!result) return;
  cv_free(result->lanes);
  *result = (cv_simulation_result){0};
}
