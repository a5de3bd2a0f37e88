#include "runtime/edges.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/tensor.h"
#include "transport/header.h"

/* While edges are derived. Stages are counted from 1 here: 0 is the gateway as producer, n + 1 the
 * gateway as consumer. */
typedef struct {
  const cv_program *program;
  const cv_span *spans;
  uint32_t n, n_syms;
  cv_edges *edges;
  uint32_t *maker;  /* [n_values]: the stage that gives the value */
  uint8_t *reads;   /* [n + 2][n_values]: the consumer reads the value */
  uint8_t *pair;    /* [n + 2][n + 2]: [producer][consumer], an edge is there */
  uint8_t *needs;   /* [n + 1][n_syms]: its steps use the symbol */
  uint8_t *makes;   /* [n + 1][n_syms]: it binds the symbol */
  uint8_t *knows;   /* [n + 1][n_syms]: it has the symbol's value when it sends */
  uint8_t *carries; /* [n + 2][n + 2][n_syms] */
  uint32_t *ids[2]; /* [n_values] scratch */
} derivation;

/* ---- spans ---- */

static cv_status check_spans(const cv_program *program, const cv_span *stages, int n_stages) {
  if (n_stages < 1) return cv_error(CV_INVALID, "a plan of %d stages: give at least 1", n_stages);
  uint32_t next = 0;
  for (int i = 0; i < n_stages; i++) {
    if (stages[i].first != next || stages[i].last < stages[i].first ||
        stages[i].last >= program->n_steps)
      return cv_error(CV_INVALID,
                      "stage %d has steps %" PRIu32 " to %" PRIu32
                      "; it must begin at step %" PRIu32 ", and the program has %" PRIu32 " steps",
                      i, stages[i].first, stages[i].last, next, program->n_steps);
    next = stages[i].last + 1;
    if (next < program->n_steps && !cv_program_cut_legal(program, next))
      return cv_error(CV_INVALID,
                      "the program cannot be cut behind step %" PRIu32
                      ": a value there is no tensor of fixed width; `cuvil inspect` lists the "
                      "legal cuts",
                      stages[i].last);
  }
  if (next != program->n_steps)
    return cv_error(CV_INVALID, "the stages end at step %" PRIu32 ", the program has %" PRIu32,
                    next, program->n_steps);
  return CV_OK;
}

cv_status cv_spans_from_cuts(const cv_program *program, const uint32_t *cuts, int n_cuts,
                             cv_span *out_spans) {
  uint32_t first = 0;
  for (int i = 0; i < n_cuts; i++) {
    if (cuts[i] <= first || cuts[i] >= program->n_steps)
      return cv_error(CV_INVALID,
                      "cut %" PRIu32 ": cuts rise and lie between 1 and %" PRIu32
                      ", the number of steps less one",
                      cuts[i], program->n_steps - 1);
    out_spans[i] = (cv_span){first, cuts[i] - 1};
    first = cuts[i];
  }
  out_spans[n_cuts] = (cv_span){first, program->n_steps - 1};
  return check_spans(program, out_spans, n_cuts + 1);
}

/* ---- values ---- */

static uint32_t stage_of_step(const derivation *d, uint32_t step) {
  uint32_t stage = 1;
  while (d->spans[stage - 1].last < step) stage++;
  return stage;
}

static uint8_t *pair_at(const derivation *d, uint32_t from, uint32_t to) {
  return &d->pair[from * (d->n + 2) + to];
}

static void read_values(derivation *d, uint32_t to, const uint32_t *ids, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    d->reads[(size_t)to * d->program->n_values + ids[i]] = 1;
    *pair_at(d, d->maker[ids[i]], to) = 1;
  }
}

/* Who makes and who reads each value; an edge wherever one is needed. */
static void find_values(derivation *d) {
  const cv_program *p = d->program;
  for (uint32_t v = 0; v < p->n_values; v++)
    d->maker[v] = p->values[v].kind == CV_VALUE_STEP ? stage_of_step(d, p->values[v].source) : 0;
  for (uint32_t stage = 1; stage <= d->n; stage++) {
    uint32_t n_ins, n_outs;
    const cv_span *span = &d->spans[stage - 1];
    cv_program_slice_ports(p, span->first, span->last, d->ids[0], &n_ins, d->ids[1], &n_outs);
    read_values(d, stage, d->ids[0], n_ins);
    bool paced = false;
    for (uint32_t from = 0; from < stage; from++) paced |= *pair_at(d, from, stage);
    if (!paced) *pair_at(d, 0, stage) = 1;
  }
  bool answered = false;
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    uint32_t v = p->outputs[i].value;
    if (p->values[v].kind == CV_VALUE_CONST) continue; /* the gateway has it */
    d->reads[(size_t)(d->n + 1) * p->n_values + v] = 1;
    uint32_t from = d->maker[v] ? d->maker[v] : 1; /* an input passes through the first stage */
    *pair_at(d, from, d->n + 1) = answered = true;
  }
  if (!answered) *pair_at(d, d->n, d->n + 1) = 1;
}

/* ---- symbols ---- */

static void need_expr(const derivation *d, cv_expr e, uint8_t *needs) {
  int64_t value;
  if (e == CV_EXPR_NONE || cv_expr_is_const(d->program->exprs, e, &value)) return;
  for (cv_sym s = 0; s < d->n_syms; s++)
    if (!needs[s] && cv_expr_uses(d->program->exprs, e, s)) needs[s] = 1;
}

static void need_value(const derivation *d, const cv_value *value, uint8_t *needs) {
  for (int i = 0; i < value->rank; i++) need_expr(d, value->dims[i], needs);
  need_expr(d, value->guard, needs);
}

static void need_renderings(const derivation *d, const cv_program *p, cv_span span,
                            uint8_t *needs) {
  for (uint32_t t = 0; t < p->n_targets; t++)
    for (uint32_t i = 0; i < p->targets[t].n_renderings; i++) {
      const cv_rendering *r = &p->targets[t].renderings[i];
      if (r->first > span.last || r->last < span.first) continue;
      for (uint32_t k = 0; k < r->n_dims; k++) need_expr(d, r->dims[k], needs);
      for (uint32_t k = 0; k < r->n_packs; k++) need_expr(d, r->packs[k].bytes, needs);
    }
}

/* What steps of a program, or of a loop's body, read of symbols, and which they bind. */
static void need_steps(const derivation *d, const cv_program *p, cv_span span, uint8_t *needs,
                       uint8_t *makes) {
  for (uint32_t s = span.first; s <= span.last && s < p->n_steps; s++) {
    const cv_step *step = &p->steps[s];
    need_expr(d, step->guard, needs);
    for (uint32_t i = 0; i < step->n_ins; i++)
      if (step->ins[i] != CV_NONE) need_value(d, &p->values[step->ins[i]], needs);
    for (uint32_t i = 0; i < step->n_outs; i++) need_value(d, &p->values[step->outs[i]], needs);
    for (uint32_t i = 0; i < step->n_binds; i++) makes[step->binds[i].sym] = 1;
    if (!step->loop) continue;
    if (step->loop->trips != CV_NONE) makes[step->loop->trips] = 1;
    const cv_program *body = step->loop->body;
    for (uint32_t i = 0; i < body->n_binds; i++) makes[body->binds[i].sym] = 1;
    for (uint32_t i = 0; i < body->n_inputs; i++)
      need_value(d, &body->values[body->inputs[i].value], needs);
    if (body->n_steps) need_steps(d, body, (cv_span){0, body->n_steps - 1}, needs, makes);
  }
  need_renderings(d, p, span, needs);
}

static uint8_t *carried(const derivation *d, uint32_t from, uint32_t to) {
  return &d->carries[((size_t)from * (d->n + 2) + to) * d->n_syms];
}

/* Stage `to` needs a symbol that `maker` binds: by the edge between them, else by one from a stage
 * that has heard of it, else by an edge of its own. */
static void carry(derivation *d, uint32_t maker, uint32_t to, cv_sym s) {
  uint32_t from = maker;
  if (!*pair_at(d, maker, to))
    for (uint32_t q = maker + 1; q < to; q++)
      if (*pair_at(d, q, to) && d->knows[q * d->n_syms + s]) from = q;
  *pair_at(d, from, to) = 1;
  carried(d, from, to)[s] = 1;
}

static void find_symbols(derivation *d) {
  for (uint32_t stage = 1; stage <= d->n; stage++)
    need_steps(d, d->program, d->spans[stage - 1], &d->needs[stage * d->n_syms],
               &d->makes[stage * d->n_syms]);
  for (cv_sym s = 0; s < d->n_syms; s++) {
    bool by_step = false;
    for (uint32_t stage = 1; stage <= d->n; stage++) by_step |= d->makes[stage * d->n_syms + s];
    d->makes[s] = d->knows[s] = !by_step;
  }
  for (uint32_t to = 1; to <= d->n; to++)
    for (cv_sym s = 0; s < d->n_syms; s++) {
      if (d->makes[to * d->n_syms + s]) d->knows[to * d->n_syms + s] = 1;
      if (!d->needs[to * d->n_syms + s]) continue;
      for (uint32_t maker = 0; maker < to; maker++)
        if (d->makes[maker * d->n_syms + s]) carry(d, maker, to, s);
      d->knows[to * d->n_syms + s] = 1;
    }
}

/* ---- the list ---- */

static uint64_t saturating_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Adds the value's bytes, aligned as in a message: by the symbols' values, and at most. */
static void add_bytes(const derivation *d, const cv_value *value, const int64_t *symbols,
                      cv_edge *edge) {
  uint64_t now = cv_dtype_size(value->dtype), most = now;
  for (int i = 0; i < value->rank; i++) {
    int64_t dim = 0, lo, hi;
    if (cv_expr_eval(d->program->exprs, value->dims[i], symbols, &dim) != CV_OK || dim < 0) dim = 0;
    cv_expr_bounds(d->program->exprs, value->dims[i], &lo, &hi);
    now = saturating_mul(now, (uint64_t)dim);
    most = saturating_mul(most, hi < 0 ? 0 : (uint64_t)hi);
  }
  uint64_t cap = CV_PAYLOAD_MAX / edge->slots - CV_SLOT_ALIGN;
  edge->slot_bytes += now > cap ? cap : now;
  edge->max_slot_bytes += most > cap ? cap : most;
  edge->slot_bytes = (edge->slot_bytes + CV_SLOT_ALIGN - 1) / CV_SLOT_ALIGN * CV_SLOT_ALIGN;
  edge->max_slot_bytes = (edge->max_slot_bytes + CV_SLOT_ALIGN - 1) / CV_SLOT_ALIGN * CV_SLOT_ALIGN;
  if (edge->max_slot_bytes > cap) edge->max_slot_bytes = cap / CV_SLOT_ALIGN * CV_SLOT_ALIGN;
  if (edge->max_slot_bytes < edge->slot_bytes) edge->slot_bytes = edge->max_slot_bytes;
}

/* Whether the edge from -> to carries the value. */
static bool goes(const derivation *d, uint32_t from, uint32_t to, uint32_t v) {
  if (!d->reads[(size_t)to * d->program->n_values + v]) return false;
  uint32_t maker = d->maker[v];
  if (maker == 0 && to == d->n + 1) maker = 1;
  return maker == from;
}

static cv_status make_edge(derivation *d, uint32_t from, uint32_t to, const int64_t *symbols,
                           cv_edge *edge) {
  const cv_program *p = d->program;
  cv_arena *arena = &d->edges->arena;
  edge->from = (int)from - 1;
  edge->to = to == d->n + 1 ? CV_EDGE_GATEWAY : (int)to - 1;
  edge->slots = 2 * (to - from) + 1;
  for (uint32_t v = 0; v < p->n_values; v++)
    if (goes(d, from, to, v)) {
      d->ids[0][edge->n_values++] = v;
      add_bytes(d, &p->values[v], symbols, edge);
    }
  for (cv_sym s = 0; s < d->n_syms; s++) edge->n_symbols += carried(d, from, to)[s];
  if (edge->n_values > CV_HEADER_TENSORS || edge->n_symbols > CV_HEADER_SYMBOLS)
    return cv_error(CV_INVALID,
                    "%" PRIu32 " values and %" PRIu32
                    " symbols cross between two stages, at most %d and %d: cut elsewhere",
                    edge->n_values, edge->n_symbols, CV_HEADER_TENSORS, CV_HEADER_SYMBOLS);
  edge->values = cv_arena_copy(arena, d->ids[0], edge->n_values * sizeof *edge->values);
  edge->symbols = cv_arena_array(arena, cv_sym, edge->n_symbols + 1);
  if (!edge->values || !edge->symbols) return cv_error_nomem(edge->n_values * sizeof(uint32_t));
  uint32_t k = 0;
  for (cv_sym s = 0; s < d->n_syms; s++)
    if (carried(d, from, to)[s]) edge->symbols[k++] = s;
  return CV_OK;
}

static cv_status make_edges(derivation *d, const int64_t *symbols) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < (d->n + 2) * (d->n + 2); i++) count += d->pair[i];
  d->edges->edges = cv_arena_array(&d->edges->arena, cv_edge, count);
  if (!d->edges->edges) return cv_error_nomem(count * sizeof(cv_edge));
  for (uint32_t to = 1; to <= d->n + 1; to++)
    for (uint32_t from = 0; from < to; from++) {
      if (!*pair_at(d, from, to)) continue;
      cv_status status = make_edge(d, from, to, symbols, &d->edges->edges[d->edges->n_edges++]);
      if (status != CV_OK) return status;
    }
  return CV_OK;
}

static cv_status allocate(derivation *d, cv_arena *arena) {
  size_t sides = d->n + 2, values = d->program->n_values + 1, syms = d->n_syms + 1;
  d->maker = cv_arena_array(arena, uint32_t, values);
  d->reads = cv_arena_alloc(arena, sides, values);
  d->pair = cv_arena_alloc(arena, sides, sides);
  d->needs = cv_arena_alloc(arena, sides, syms);
  d->makes = cv_arena_alloc(arena, sides, syms);
  d->knows = cv_arena_alloc(arena, sides, syms);
  d->carries = cv_arena_alloc(arena, sides * sides, syms);
  d->ids[0] = cv_arena_array(arena, uint32_t, values);
  d->ids[1] = cv_arena_array(arena, uint32_t, values);
  if (!d->maker || !d->reads || !d->pair || !d->needs || !d->makes || !d->knows || !d->carries ||
      !d->ids[0] || !d->ids[1])
    return cv_error_nomem(sides * values);
  return CV_OK;
}

cv_status cv_edges_derive(const cv_program *program, const cv_span *stages, int n_stages,
                          const int64_t *symbols, cv_edges *out_edges) {
  *out_edges = (cv_edges){.n_stages = n_stages};
  cv_status status = check_spans(program, stages, n_stages);
  if (status != CV_OK) return status;
  cv_arena scratch = {0};
  derivation d = {.program = program,
                  .spans = stages,
                  .n = (uint32_t)n_stages,
                  .n_syms = cv_exprs_symbols(program->exprs),
                  .edges = out_edges};
  CV_TRY(allocate(&d, &scratch));
  if (!symbols) {
    int64_t *none = cv_arena_array(&scratch, int64_t, d.n_syms + 1);
    if (!none) CV_TRY(cv_error_nomem(d.n_syms * sizeof *none));
    for (uint32_t s = 0; s < d.n_syms; s++) none[s] = CV_UNBOUND;
    symbols = none;
  }
  find_values(&d);
  find_symbols(&d);
  CV_TRY(make_edges(&d, symbols));
out:
  cv_arena_deinit(&scratch);
  if (status != CV_OK) cv_edges_deinit(out_edges);
  return status;
}

void cv_edges_deinit(cv_edges *edges) {
  cv_arena_deinit(&edges->arena);
  *edges = (cv_edges){0};
}

cv_status cv_edge_copy(cv_arena *arena, const cv_edge *edge, cv_edge **out_edge) {
  cv_edge *copy = cv_arena_new(arena, cv_edge);
  *out_edge = copy;
  if (!copy) return cv_error_nomem(sizeof *copy);
  *copy = *edge;
  copy->values = cv_arena_copy(arena, edge->values, edge->n_values * sizeof *edge->values);
  copy->symbols = cv_arena_copy(arena, edge->symbols, edge->n_symbols * sizeof *edge->symbols);
  if (copy->values && copy->symbols) return CV_OK;
  return cv_error_nomem(edge->n_values * sizeof *edge->values);
}

cv_edge *cv_edges_find(const cv_edges *edges, int from, int to) {
  for (uint32_t i = 0; i < edges->n_edges; i++)
    if (edges->edges[i].from == from && edges->edges[i].to == to) return &edges->edges[i];
  return NULL;
}
