/* Growing one group around a seed: forward along the readers in the model's order, then, for
 * reduces and rows, backward to what only they read. The longest prefix of what was taken that
 * leaves few results and fits a template becomes the group. */
#include <stdlib.h>
#include <string.h>

#include "compiler/fuse_internal.h"

enum { DEFAULT_NODES = 48, MAX_RESULTS = 2, MAX_MAP_RESULTS = 4, MAX_WHOLE_ROW = 1 << 16 };

typedef enum {
  GROW_EPILOGUE, /* behind a contraction, a window or a reduce: elementwise on its result */
  GROW_ROW,
  GROW_MAP
} grow_kind;

typedef struct {
  cv_fusion *fusion;
  grow_kind kind;
  uint32_t n, n_max;
  uint32_t *taken; /* positions in the order in which they were taken; the seed first */
  uint32_t stamp;  /* node_stamp of the taken ones */
  cv_expr guard;
  cv_type domain; /* of the anchor's result, the rows, or the first result */
  int row_dims;
  bool costly; /* GROW_MAP: a taken op is costly */
} growth;

static bool is_taken(const growth *g, uint32_t position) {
  return g->fusion->node_stamp[position] == g->stamp;
}

static void take(growth *g, uint32_t position) {
  g->taken[g->n++] = position;
  g->fusion->node_stamp[position] = g->stamp;
}

static bool is_costly(const cv_node *node) {
  switch (node->op) {
    case CV_OP_exp:
    case CV_OP_log:
    case CV_OP_sin:
    case CV_OP_cos:
    case CV_OP_atan:
    case CV_OP_tanh:
    case CV_OP_erf:
    case CV_OP_pow: return true;
    default: return false;
  }
}

static bool in_domain(const growth *g, cv_val v) {
  const cv_type *type = cv_type_of(g->fusion->graph, v);
  return type->rank == g->domain.rank && cv_dims_same(type->rank, type->dims, g->domain.dims);
}

/* Works backward from a value. The marks live in `seen` (by position). */
typedef struct {
  const growth *g;
  bool *seen;
  cv_vec(uint32_t) open;
} search;

static void search_value(search *s, cv_val v) {
  const cv_node *def = v == CV_POISON ? NULL : cv_fusion_def(s->g->fusion, v);
  if (!def) return;
  uint32_t position = s->g->fusion->position[def->id];
  if (s->seen[position]) return;
  s->seen[position] = true;
  cv_push(&s->open, position);
}

static void search_ins(search *s, uint32_t position) {
  const cv_fusion *fusion = s->g->fusion;
  const cv_node *node = fusion->nodes[position];
  for (uint32_t i = 0; i < node->n_ins; i++) search_value(s, node->ins[i]);
  for (uint32_t i = 0; i < fusion->n_binders[position]; i++) {
    uint32_t binder = fusion->binders[position][i];
    if (s->seen[binder]) continue;
    s->seen[binder] = true;
    cv_push(&s->open, binder);
  }
  if (node->n_blocks) {
    cv_vals captured = {0};
    cv_captured_values(fusion->graph, node, &captured);
    for (size_t i = 0; i < captured.len; i++) search_value(s, captured.data[i]);
    cv_vec_deinit(&captured);
  }
}

/* Runs until a taken node is met; groups count as one, since they run as one. */
static bool search_meets_taken(search *s) {
  const cv_fusion *fusion = s->g->fusion;
  while (s->open.len) {
    uint32_t position = s->open.data[--s->open.len];
    if (is_taken(s->g, position)) return true;
    uint32_t group = fusion->group_of[position];
    if (group == CV_NONE) {
      search_ins(s, position);
      continue;
    }
    const cv_group *members = &fusion->groups.data[group];
    for (size_t i = 0; i < members->nodes.len; i++) {
      s->seen[members->nodes.data[i]] = true;
      search_ins(s, members->nodes.data[i]);
    }
  }
  return false;
}

/* Adds what a taken node would read from outside: operands behind the chains of free nodes that the
 * body repeats. What those chains start from may be taken. */
static void search_operand(search *s, cv_val v) {
  const cv_fusion *fusion = s->g->fusion;
  const cv_node *def = cv_fusion_def(fusion, v);
  if (!def || is_taken(s->g, fusion->position[def->id])) return;
  if (!cv_fusion_free(fusion, def)) {
    search_value(s, v);
    return;
  }
  for (uint32_t i = 0; i < def->n_ins; i++) search_operand(s, def->ins[i]);
}

static void search_binders(search *s, uint32_t position) {
  const cv_fusion *fusion = s->g->fusion;
  for (uint32_t i = 0; i < fusion->n_binders[position]; i++) {
    s->seen[fusion->binders[position][i]] = true;
    cv_push(&s->open, fusion->binders[position][i]);
  }
}

/* True if taking the node would make the group wait for itself: something it reads from outside
 * depends on a taken node, or a taken one (`backward`) reads outside what depends on it. */
static bool makes_cycle(growth *g, uint32_t position) {
  cv_fusion *fusion = g->fusion;
  search s = {.g = g, .seen = cv_alloc_or_die(fusion->n + 1, sizeof *s.seen)};
  fusion->node_stamp[position] = g->stamp; /* as if taken, for both directions */
  for (uint32_t i = 0; i <= g->n; i++) {
    uint32_t at = i < g->n ? g->taken[i] : position;
    const cv_node *node = fusion->nodes[at];
    for (uint32_t k = 0; k < node->n_ins; k++) search_operand(&s, node->ins[k]);
    search_binders(&s, at);
  }
  bool cycle = search_meets_taken(&s);
  fusion->node_stamp[position] = 0;
  cv_vec_deinit(&s.open);
  cv_free(s.seen);
  return cycle;
}

/* ---- what may be taken ---- */

static bool is_scalar(const growth *g, cv_val v) {
  const cv_type *type = cv_type_of(g->fusion->graph, v);
  int outer = g->domain.rank - g->row_dims;
  if (type->rank < outer || !cv_dims_same(outer, type->dims, g->domain.dims)) return false;
  for (int d = outer; d < type->rank; d++) {
    int64_t one;
    if (!cv_expr_is_const(g->fusion->graph->exprs, type->dims[d], &one) || one != 1) return false;
  }
  return true;
}

/* True if v is reached from a taken node through at least one free node. */
static bool chain_reads_taken(const growth *g, cv_val v) {
  const cv_node *def = cv_fusion_def(g->fusion, v);
  if (!def || !cv_fusion_free(g->fusion, def)) return false;
  for (uint32_t i = 0; i < def->n_ins; i++) {
    const cv_node *below = cv_fusion_def(g->fusion, def->ins[i]);
    if (below && is_taken(g, g->fusion->position[below->id])) return true;
    if (chain_reads_taken(g, def->ins[i])) return true;
  }
  return false;
}

/* The chain from taken nodes to v reads no element twice. */
static bool chain_reads_once(const growth *g, cv_val v) {
  const cv_node *def = cv_fusion_def(g->fusion, v);
  if (!def || !cv_fusion_free(g->fusion, def)) return true;
  if (def->op == CV_OP_broadcast || cv_class_of(def) == CV_CLASS_GATHER) return false;
  for (uint32_t i = 0; i < def->n_ins; i++) {
    const cv_node *below = cv_fusion_def(g->fusion, def->ins[i]);
    if (below &&
        (is_taken(g, g->fusion->position[below->id]) || cv_fusion_free(g->fusion, below)) &&
        g->fusion->first_user[def->ins[i] + 1] - g->fusion->first_user[def->ins[i]] > 1)
      return false;
    if (!chain_reads_once(g, def->ins[i])) return false;
  }
  return true;
}

static bool fits_epilogue(const growth *g, const cv_node *node) {
  if (cv_class_of(node) != CV_CLASS_MAP || !in_domain(g, node->outs[0])) return false;
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (chain_reads_taken(g, node->ins[i])) return false;
  return true;
}

static bool fits_row(const growth *g, const cv_node *node) {
  cv_op_class class = cv_class_of(node);
  if (class == CV_CLASS_MAP) return in_domain(g, node->outs[0]) || is_scalar(g, node->outs[0]);
  if (class != CV_CLASS_REDUCE || !in_domain(g, node->ins[0])) return false;
  const cv_attr *axes = cv_node_attr(node, CV_ATTR_AXES);
  if ((int)axes->count != g->row_dims) return false;
  for (uint32_t i = 0; i < axes->count; i++)
    if (axes->ints[i] < g->domain.rank - g->row_dims) return false;
  return true;
}

static bool fits_map(const growth *g, const cv_node *node) {
  if (cv_class_of(node) != CV_CLASS_MAP) return false;
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (g->costly && chain_reads_taken(g, node->ins[i]) && !chain_reads_once(g, node->ins[i]))
      return false;
  return true;
}

static bool fits(growth *g, uint32_t position) {
  const cv_node *node = g->fusion->nodes[position];
  if (g->fusion->group_of[position] != CV_NONE || node->guard != g->guard ||
      cv_fusion_free(g->fusion, node))
    return false;
  bool good = g->kind == GROW_EPILOGUE ? fits_epilogue(g, node)
              : g->kind == GROW_ROW    ? fits_row(g, node)
                                       : fits_map(g, node);
  return good && !makes_cycle(g, position);
}

/* ---- forward ---- */

typedef struct {
  cv_vec(uint32_t) open; /* positions to try */
  bool *tried;
} frontier;

static void add_readers(const growth *g, frontier *f, cv_val v) {
  const cv_fusion *fusion = g->fusion;
  for (uint32_t u = fusion->first_user[v]; u < fusion->first_user[v + 1]; u++) {
    uint32_t position = fusion->users[u];
    const cv_node *node = fusion->nodes[position];
    if (cv_fusion_free(fusion, node)) {
      if (g->kind != GROW_EPILOGUE) add_readers(g, f, node->outs[0]);
    } else if (!f->tried[position]) {
      f->tried[position] = true;
      cv_push(&f->open, position);
    }
  }
}

/* Removes and returns the first position in the model's order. */
static uint32_t pop_first(frontier *f) {
  size_t best = 0;
  for (size_t i = 1; i < f->open.len; i++)
    if (f->open.data[i] < f->open.data[best]) best = i;
  uint32_t position = f->open.data[best];
  f->open.data[best] = f->open.data[--f->open.len];
  return position;
}

static void grow_forward(growth *g) {
  frontier f = {.tried = cv_alloc_or_die(g->fusion->n + 1, sizeof *f.tried)};
  for (uint32_t i = 0; i < g->fusion->nodes[g->taken[0]]->n_outs; i++)
    add_readers(g, &f, g->fusion->nodes[g->taken[0]]->outs[i]);
  while (f.open.len && g->n < g->n_max) {
    uint32_t position = pop_first(&f);
    if (!fits(g, position)) continue;
    const cv_node *node = g->fusion->nodes[position];
    take(g, position);
    g->costly = g->costly || is_costly(node);
    add_readers(g, &f, node->outs[0]);
  }
  cv_vec_deinit(&f.open);
  cv_free(f.tried);
}

/* ---- results ---- */

bool cv_fusion_read_outside(const cv_fusion *fusion, cv_val v, uint32_t stamp) {
  if (fusion->wanted[v]) return true;
  for (uint32_t u = fusion->first_user[v]; u < fusion->first_user[v + 1]; u++) {
    uint32_t position = fusion->users[u];
    if (fusion->node_stamp[position] == stamp) continue;
    const cv_node *node = fusion->nodes[position];
    if (!cv_fusion_free(fusion, node) || fusion->stored[node->outs[0]] ||
        cv_fusion_read_outside(fusion, node->outs[0], stamp))
      return true;
  }
  return false;
}

static int by_position(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Results of the first n taken nodes, appended. Their positions come sorted in `sorted`. */
static void prefix_results(growth *g, uint32_t n, uint32_t *sorted, cv_vals *out_results) {
  cv_fusion *fusion = g->fusion;
  g->stamp = ++fusion->stamp;
  for (uint32_t i = 0; i < n; i++) fusion->node_stamp[g->taken[i]] = g->stamp;
  memcpy(sorted, g->taken, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, by_position);
  out_results->len = 0;
  for (uint32_t i = 0; i < n; i++) {
    const cv_node *node = fusion->nodes[sorted[i]];
    for (uint32_t k = 0; k < node->n_outs; k++)
      if (cv_fusion_read_outside(fusion, node->outs[k], g->stamp))
        cv_push(out_results, node->outs[k]);
  }
}

static bool results_fit(const growth *g, const cv_vals *results) {
  size_t most = g->kind == GROW_MAP ? MAX_MAP_RESULTS : MAX_RESULTS;
  if (g->kind == GROW_ROW) most = MAX_RESULTS + 1;
  if (results->len == 0 || results->len > most) return false;
  const cv_type *first = cv_type_of(g->fusion->graph, results->data[0]);
  for (size_t i = 1; i < results->len && g->kind == GROW_MAP; i++) {
    const cv_type *type = cv_type_of(g->fusion->graph, results->data[i]);
    if (type->rank != first->rank || !cv_dims_same(type->rank, type->dims, first->dims))
      return false;
  }
  return true;
}

static bool body_fits(cv_fusion *fusion, const uint32_t *sorted, uint32_t n,
                      const cv_vals *results) {
  cv_vals params = {0};
  cv_graph *body = cv_body_build(fusion, sorted, n, results->data, (uint32_t)results->len, &params);
  cv_pattern pattern;
  bool good = body->status == CV_OK && cv_pattern_of(body, &pattern) == CV_OK;
  cv_graph_destroy(body);
  cv_vec_deinit(&params);
  return good;
}

/* Cuts `taken` to its longest prefix that is a kernel; the seed alone always is. */
static void cut_to_kernel(growth *g) {
  uint32_t *sorted = cv_alloc_or_die(g->n, sizeof *sorted);
  cv_vals results = {0};
  for (uint32_t n = g->n; n > 1; n--) {
    prefix_results(g, n, sorted, &results);
    if (!results_fit(g, &results) || !body_fits(g->fusion, sorted, n, &results)) continue;
    g->n = n;
    goto out;
  }
  g->n = 1;
out:
  prefix_results(g, g->n, sorted, &results); /* body building used the marks */
  cv_vec_deinit(&results);
  cv_free(sorted);
}

/* ---- backward ---- */

/* What the taken nodes read and nobody else may come along: elementwise producers. */
static bool fits_before(growth *g, uint32_t position) {
  cv_fusion *fusion = g->fusion;
  const cv_node *node = fusion->nodes[position];
  if (fusion->group_of[position] != CV_NONE || node->guard != g->guard ||
      cv_fusion_free(fusion, node) || cv_class_of(node) != CV_CLASS_MAP || is_taken(g, position))
    return false;
  if (g->kind == GROW_ROW && !in_domain(g, node->outs[0])) return false;
  if (g->kind != GROW_ROW && cv_fusion_read_outside(fusion, node->outs[0], g->stamp)) return false;
  return !makes_cycle(g, position);
}

/* Tries to take the node on top of a group that is a kernel already; undone if it no longer is. */
static void try_before(growth *g, uint32_t position) {
  if (!fits_before(g, position)) return;
  take(g, position);
  uint32_t *sorted = cv_alloc_or_die(g->n, sizeof *sorted);
  cv_vals results = {0};
  prefix_results(g, g->n, sorted, &results);
  bool good = results_fit(g, &results) && body_fits(g->fusion, sorted, g->n, &results);
  if (!good) g->n--;
  prefix_results(g, g->n, sorted, &results);
  cv_vec_deinit(&results);
  cv_free(sorted);
}

/* Tries the producers of v that are not free: itself, or those behind `depth` free nodes. A map may
 * read such a chain several times, so nothing costly comes in through one. */
static void before_value(growth *g, cv_val v, int depth) {
  const cv_node *def = cv_fusion_def(g->fusion, v);
  if (!def || g->n == g->n_max) return;
  if (!cv_fusion_free(g->fusion, def)) {
    bool again = depth > 0 && g->kind == GROW_MAP && is_costly(def);
    if (!again) try_before(g, g->fusion->position[def->id]);
    return;
  }
  if (g->kind == GROW_ROW || def->op == CV_OP_broadcast || cv_class_of(def) == CV_CLASS_GATHER)
    return;
  for (uint32_t i = 0; i < def->n_ins; i++) before_value(g, def->ins[i], depth + 1);
}

static void grow_backward(growth *g) {
  for (uint32_t i = 0; i < g->n && g->n < g->n_max; i++) { /* g->n grows */
    const cv_node *node = g->fusion->nodes[g->taken[i]];
    for (uint32_t k = 0; k < node->n_ins; k++) before_value(g, node->ins[k], 0);
  }
}

/* ---- seeds ---- */

static bool trailing_axes(const cv_fusion *fusion, const cv_node *node) {
  const cv_attr *axes = cv_node_attr(node, CV_ATTR_AXES);
  const cv_type *type = cv_type_of(fusion->graph, node->ins[0]);
  int64_t row = 1, dim;
  if (axes->count == 0) return false;
  for (uint32_t i = 0; i < axes->count; i++)
    if (axes->ints[i] < type->rank - (int)axes->count) return false;
  if ((int)axes->count < type->rank) return true;
  for (int d = 0; d < type->rank; d++) { /* one row alone: only if it is short */
    if (!cv_expr_is_const(fusion->graph->exprs, type->dims[d], &dim) || dim > MAX_WHOLE_ROW)
      return false;
    row *= dim;
    if (row > MAX_WHOLE_ROW) return false;
  }
  return true;
}

static void start(growth *g, grow_kind kind, uint32_t seed) {
  const cv_node *node = g->fusion->nodes[seed];
  g->kind = kind;
  g->n = 0;
  g->stamp = ++g->fusion->stamp;
  g->guard = node->guard;
  g->domain = *cv_type_of(g->fusion->graph, kind == GROW_ROW ? node->ins[0] : node->outs[0]);
  g->row_dims = kind == GROW_ROW ? (int)cv_node_attr(node, CV_ATTR_AXES)->count : 0;
  g->costly = is_costly(node);
  take(g, seed);
}

static void grow_reduce(growth *g, uint32_t seed) {
  if (trailing_axes(g->fusion, g->fusion->nodes[seed])) {
    start(g, GROW_ROW, seed);
    grow_forward(g);
    cut_to_kernel(g);
    if (g->n > 1) {
      grow_backward(g);
      return;
    }
  }
  start(g, GROW_EPILOGUE, seed);
  grow_forward(g);
  cut_to_kernel(g);
  grow_backward(g);
}

void cv_fuse_grow(cv_fusion *fusion, uint32_t seed) {
  growth g = {.fusion = fusion};
  g.n_max = fusion->options->max_fusion > 0 ? (uint32_t)fusion->options->max_fusion : DEFAULT_NODES;
  g.taken = cv_alloc_or_die(g.n_max + 1, sizeof *g.taken);
  switch (cv_class_of(fusion->nodes[seed])) {
    case CV_CLASS_REDUCE: grow_reduce(&g, seed); break;
    case CV_CLASS_CONTRACT:
    case CV_CLASS_WINDOW:
      start(&g, GROW_EPILOGUE, seed);
      grow_forward(&g);
      cut_to_kernel(&g);
      break;
    case CV_CLASS_MAP:
      start(&g, GROW_MAP, seed);
      grow_forward(&g);
      cut_to_kernel(&g);
      grow_backward(&g);
      break;
    default: start(&g, GROW_MAP, seed); break;
  }
  qsort(g.taken, g.n, sizeof *g.taken, by_position);
  cv_fusion_add(fusion, CV_GROUP_KERNEL, g.taken, g.n);
  cv_free(g.taken);
}
