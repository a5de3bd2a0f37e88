/* Which nodes make a step. First the values that must have bytes of their own are found; then
 * groups grow around contractions and windows, then around reduces, then around what is left; final
 * reshapes and transposes join their producers; last, the groups are put in an order that follows
 * the model's. */
#include "compiler/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/fuse_internal.h"

cv_node *cv_fusion_def(const cv_fusion *fusion, cv_val v) {
  cv_node *def = cv_value_of(fusion->graph, v)->def;
  return def && fusion->position[def->id] != CV_NONE ? def : NULL;
}

bool cv_fusion_free(const cv_fusion *fusion, const cv_node *node) {
  cv_op_class class = cv_class_of(node);
  if (class == CV_CLASS_MOVE || class == CV_CLASS_GATHER || class == CV_CLASS_SHAPE) return true;
  return node->n_outs == 1 && fusion->constant[node->outs[0]];
}

/* ---- setting up ---- */

static void collect(const cv_graph *graph, const cv_block *block, bool *own, cv_vals *out) {
  for (size_t i = 0; i < block->params.len; i++) own[block->params.data[i]] = true;
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    for (uint32_t k = 0; k < node->n_ins; k++)
      if (!own[node->ins[k]]) cv_push(out, node->ins[k]);
    for (uint32_t b = 0; b < node->n_blocks; b++) collect(graph, node->blocks[b], own, out);
    for (uint32_t k = 0; k < node->n_outs; k++) own[node->outs[k]] = true;
  }
  for (size_t i = 0; i < block->results.len; i++)
    if (!own[block->results.data[i]]) cv_push(out, block->results.data[i]);
}

void cv_captured_values(const cv_graph *graph, const cv_node *node, cv_vals *out_values) {
  bool *own = cv_alloc_or_die(graph->values.len + 1, sizeof *own);
  cv_vals all = {0};
  for (uint32_t b = 0; b < node->n_blocks; b++) collect(graph, node->blocks[b], own, &all);
  for (size_t i = 0; i < all.len; i++) { /* each once; `own` now says which are there */
    if (own[all.data[i]] || cv_value_of(graph, all.data[i])->is_const) continue;
    own[all.data[i]] = true;
    cv_push(out_values, all.data[i]);
  }
  cv_vec_deinit(&all);
  cv_free(own);
}

static void count_users(cv_fusion *fusion) {
  size_t n_values = fusion->graph->values.len;
  uint32_t *first = cv_alloc_or_die(n_values + 2, sizeof *first), total = 0;
  for (uint32_t i = 0; i < fusion->n; i++)
    for (uint32_t k = 0; k < fusion->nodes[i]->n_ins; k++) {
      first[fusion->nodes[i]->ins[k] + 2]++;
      total++;
    }
  for (size_t v = 2; v < n_values + 2; v++) first[v] += first[v - 1];
  fusion->users = cv_alloc_or_die((size_t)total + 1, sizeof *fusion->users);
  for (uint32_t i = 0; i < fusion->n; i++)
    for (uint32_t k = 0; k < fusion->nodes[i]->n_ins; k++)
      fusion->users[first[fusion->nodes[i]->ins[k] + 1]++] = i;
  fusion->first_user = first; /* now first[v] is where v's users begin */
}

typedef struct {
  cv_fusion *fusion;
  const uint32_t *bound_at; /* by symbol: position of the node that binds it */
  uint32_t n_symbols, at;
} binder_search;

static void see_expr(void *context, cv_expr e) {
  binder_search *s = context;
  cv_fusion *fusion = s->fusion;
  int64_t value;
  if (e == CV_EXPR_NONE || cv_expr_is_const(fusion->graph->exprs, e, &value)) return;
  for (cv_sym sym = 0; sym < s->n_symbols; sym++) {
    uint32_t binder = s->bound_at[sym];
    if (binder == CV_NONE || binder == s->at || !cv_expr_uses(fusion->graph->exprs, e, sym))
      continue;
    uint32_t n = fusion->n_binders[s->at];
    bool known = false;
    for (uint32_t i = 0; i < n; i++) known = known || fusion->binders[s->at][i] == binder;
    if (known) continue;
    uint32_t *more = cv_arena_array(&fusion->graph->arena, uint32_t, n + 1);
    if (n) memcpy(more, fusion->binders[s->at], n * sizeof *more);
    more[n] = binder;
    fusion->binders[s->at] = more;
    fusion->n_binders[s->at] = n + 1;
  }
}

static void see_block(binder_search *s, const cv_block *block) {
  for (size_t i = 0; i < block->nodes.len; i++) {
    const cv_node *node = block->nodes.data[i];
    cv_node_exprs(s->fusion->graph, node, see_expr, s);
    for (uint32_t b = 0; b < node->n_blocks; b++) see_block(s, node->blocks[b]);
  }
}

/* For each node the binds, and loops with their trips, that must have run before it. */
static void find_binders(cv_fusion *fusion) {
  uint32_t n_symbols = cv_exprs_symbols(fusion->graph->exprs), n_bound = 0;
  uint32_t *bound_at = cv_alloc_or_die((size_t)n_symbols + 1, sizeof *bound_at);
  memset(bound_at, 0xff, ((size_t)n_symbols + 1) * sizeof *bound_at);
  for (uint32_t i = 0; i < fusion->n; i++) {
    const cv_node *node = fusion->nodes[i];
    const cv_attr *exprs = cv_node_attr(node, CV_ATTR_EXPRS),
                  *trips = cv_node_attr(node, CV_ATTR_SYMBOL);
    cv_sym sym;
    for (uint32_t k = 0; node->op == CV_OP_bind && k < exprs->count; k++)
      if (cv_expr_is_symbol(fusion->graph->exprs, exprs->exprs[k], &sym))
        bound_at[sym] = i, n_bound++;
    if (node->op == CV_OP_loop && trips && cv_expr_is_symbol(fusion->graph->exprs, trips->e, &sym))
      bound_at[sym] = i, n_bound++;
  }
  fusion->n_binders = cv_alloc_or_die((size_t)fusion->n + 1, sizeof *fusion->n_binders);
  fusion->binders = cv_alloc_or_die((size_t)fusion->n + 1, sizeof *fusion->binders);
  binder_search s = {fusion, bound_at, n_symbols, 0};
  for (s.at = 0; n_bound && s.at < fusion->n; s.at++) {
    const cv_node *node = fusion->nodes[s.at];
    if (node->op == CV_OP_bind)
      see_expr(&s, node->guard);
    else
      cv_node_exprs(fusion->graph, node, see_expr, &s);
    for (uint32_t b = 0; b < node->n_blocks; b++) see_block(&s, node->blocks[b]);
  }
  cv_free(bound_at);
}

static void find_constants(cv_fusion *fusion) {
  for (size_t v = 0; v < fusion->graph->values.len; v++)
    fusion->constant[v] = cv_value_of(fusion->graph, (cv_val)v)->is_const;
  for (uint32_t i = 0; i < fusion->n; i++) {
    const cv_node *node = fusion->nodes[i];
    cv_op_class class = cv_class_of(node);
    bool constant = node->n_ins > 0 && node->n_outs == 1 &&
                    (class == CV_CLASS_MAP || class == CV_CLASS_MOVE || class == CV_CLASS_GATHER);
    for (uint32_t k = 0; k < node->n_ins && constant; k++)
      constant = fusion->constant[node->ins[k]];
    if (constant) fusion->constant[node->outs[0]] = true;
  }
}

static void setup(cv_fusion *fusion) {
  size_t n_values = fusion->graph->values.len, n_ids = fusion->graph->n_nodes;
  fusion->position = cv_alloc_or_die(n_ids + 1, sizeof *fusion->position);
  fusion->group_of = cv_alloc_or_die((size_t)fusion->n + 1, sizeof *fusion->group_of);
  memset(fusion->position, 0xff, (n_ids + 1) * sizeof *fusion->position);
  memset(fusion->group_of, 0xff, ((size_t)fusion->n + 1) * sizeof *fusion->group_of);
  for (uint32_t i = 0; i < fusion->n; i++) fusion->position[fusion->nodes[i]->id] = i;
  fusion->wanted = cv_alloc_or_die(n_values + 1, 1);
  fusion->stored = cv_alloc_or_die(n_values + 1, 1);
  fusion->constant = cv_alloc_or_die(n_values + 1, 1);
  fusion->pairs = cv_alloc_or_die(fusion->graph->equalities.len + 1, sizeof *fusion->pairs);
  fusion->n_pairs = cv_equal_pairs(fusion->graph, fusion->pairs);
  fusion->node_stamp = cv_alloc_or_die((size_t)fusion->n + 1, sizeof *fusion->node_stamp);
  fusion->value_stamp = cv_alloc_or_die(n_values + 1, sizeof *fusion->value_stamp);
  fusion->in_body = cv_alloc_or_die(n_values + 1, sizeof *fusion->in_body);
  count_users(fusion);
  find_constants(fusion);
  find_binders(fusion);
}

/* ---- stored values ---- */

static void store(cv_fusion *fusion, cv_val v) {
  const cv_node *def = cv_fusion_def(fusion, v);
  if (def && cv_fusion_free(fusion, def)) fusion->stored[v] = true;
}

static void want(cv_fusion *fusion, cv_val v) {
  fusion->wanted[v] = true;
  store(fusion, v);
}

/* What must have bytes: results, what loops, joins, binds and routines read, and what a contraction
 * cannot read by strides. */
static void find_stored(cv_fusion *fusion) {
  for (size_t i = 0; i < fusion->block->results.len; i++)
    want(fusion, fusion->block->results.data[i]);
  for (uint32_t i = 0; i < fusion->n; i++) {
    const cv_node *node = fusion->nodes[i];
    cv_op_class class = cv_class_of(node);
    if (node->n_blocks) {
      cv_vals captured = {0};
      cv_captured_values(fusion->graph, node, &captured);
      for (size_t k = 0; k < captured.len; k++) want(fusion, captured.data[k]);
      cv_vec_deinit(&captured);
    }
    for (uint32_t k = 0; k < node->n_ins; k++) {
      if (class == CV_CLASS_CONTROL || class == CV_CLASS_BIND) want(fusion, node->ins[k]);
      if (class == CV_CLASS_ROUTINE) store(fusion, node->ins[k]);
      if (class != CV_CLASS_CONTRACT && class != CV_CLASS_WINDOW) continue;
      int batch = node->op == CV_OP_matmul ? cv_type_of(fusion->graph, node->ins[k])->rank - 2 : 1;
      if (!cv_view_is_plain(fusion, node->ins[k], batch)) store(fusion, node->ins[k]);
    }
  }
}

/* ---- groups ---- */

cv_group *cv_fusion_add(cv_fusion *fusion, cv_group_kind kind, const uint32_t *positions,
                        uint32_t n) {
  cv_group group = {.kind = kind};
  for (uint32_t i = 0; i < n; i++) {
    cv_push(&group.nodes, positions[i]);
    fusion->group_of[positions[i]] = (uint32_t)fusion->groups.len;
    const cv_node *node = fusion->nodes[positions[i]];
    if (!cv_fusion_free(fusion, node) || n == 1) group.key = positions[i];
  }
  cv_push(&fusion->groups, group);
  return &fusion->groups.data[fusion->groups.len - 1];
}

static int priority(const cv_fusion *fusion, const cv_node *node) {
  switch (cv_class_of(node)) {
    case CV_CLASS_CONTRACT:
    case CV_CLASS_WINDOW: return 0;
    case CV_CLASS_REDUCE: return 1;
    case CV_CLASS_MAP:
    case CV_CLASS_ROUTINE: return cv_fusion_free(fusion, node) ? -1 : 2;
    default: return -1;
  }
}

static void make_groups(cv_fusion *fusion) {
  for (uint32_t i = 0; i < fusion->n; i++) {
    cv_op op = fusion->nodes[i]->op;
    if (op == CV_OP_join) cv_fusion_add(fusion, CV_GROUP_ALIAS, &i, 1);
    if (op == CV_OP_loop) cv_fusion_add(fusion, CV_GROUP_LOOP, &i, 1);
    if (op == CV_OP_if)
      cv_graph_fail(fusion->graph, CV_INTERNAL, "If '%s' was not flattened",
                    fusion->nodes[i]->source);
  }
  for (int p = 0; p <= 2; p++)
    for (uint32_t i = 0; i < fusion->n; i++)
      if (fusion->group_of[i] == CV_NONE && priority(fusion, fusion->nodes[i]) == p)
        cv_fuse_grow(fusion, i);
}

/* ---- results and patterns ---- */

static void mark_group(cv_fusion *fusion, const cv_group *group) {
  fusion->stamp++;
  for (size_t i = 0; i < group->nodes.len; i++)
    fusion->node_stamp[group->nodes.data[i]] = fusion->stamp;
}

static void find_results(cv_fusion *fusion, cv_group *group) {
  mark_group(fusion, group);
  group->results.len = 0;
  for (size_t i = 0; i < group->nodes.len; i++) {
    const cv_node *node = fusion->nodes[group->nodes.data[i]];
    bool only = group->nodes.len == 1 && group->kind != CV_GROUP_KERNEL;
    bool routine = cv_class_of(node) == CV_CLASS_ROUTINE; /* its outputs are always all there */
    for (uint32_t k = 0; k < node->n_outs; k++)
      if (only || routine || cv_fusion_read_outside(fusion, node->outs[k], fusion->stamp))
        cv_push(&group->results, node->outs[k]);
  }
}

static cv_status find_pattern(cv_fusion *fusion, cv_group *group) {
  if (group->kind != CV_GROUP_KERNEL) return CV_OK;
  cv_vals params = {0};
  cv_graph *body = cv_body_build(fusion, group->nodes.data, (uint32_t)group->nodes.len,
                                 group->results.data, (uint32_t)group->results.len, &params);
  cv_status status = cv_graph_status(body);
  if (status == CV_OK) status = cv_pattern_of(body, &group->pattern);
  cv_graph_destroy(body);
  cv_vec_deinit(&params);
  return status;
}

static void finish_group(cv_fusion *fusion, cv_group *group) {
  find_results(fusion, group);
  if (find_pattern(fusion, group) != CV_OK)
    cv_graph_fail(fusion->graph, CV_INTERNAL, "step at '%s': %s", fusion->nodes[group->key]->source,
                  cv_error_text());
}

/* ---- final moves ---- */

/* The one node that reads v, if it is a reshape or transpose of it; else NULL. */
static const cv_node *only_move(const cv_fusion *fusion, cv_val v) {
  if (fusion->wanted[v] || fusion->first_user[v + 1] - fusion->first_user[v] != 1) return NULL;
  const cv_node *node = fusion->nodes[fusion->users[fusion->first_user[v]]];
  return node->op == CV_OP_reshape || node->op == CV_OP_transpose ? node : NULL;
}

static bool keeps_last_dim(const cv_node *node) {
  const cv_attr *perm = cv_node_attr(node, CV_ATTR_PERM);
  return perm && perm->count && perm->ints[perm->count - 1] == (int64_t)perm->count - 1;
}

/* How many of the moves behind v the producer takes: up to the last transpose that leaves the last
 * dim where it is (others are left to the reader), or up to the first value that must be stored. */
static uint32_t final_moves(const cv_fusion *fusion, cv_val v, cv_expr guard, uint32_t *positions,
                            uint32_t room) {
  uint32_t n = 0, keep = 0;
  for (const cv_node *move; n < room && (move = only_move(fusion, v)) && move->guard == guard;) {
    positions[n++] = fusion->position[move->id];
    v = move->outs[0];
    if (fusion->stored[v]) return n;
    if (keeps_last_dim(move)) keep = n;
  }
  return keep;
}

enum { MAX_MOVES = 8 };

static void absorb_moves(cv_fusion *fusion, uint32_t index) {
  cv_group *group = &fusion->groups.data[index];
  if (group->kind != CV_GROUP_KERNEL) return;
  uint32_t last = group->nodes.data[group->nodes.len - 1], moves[MAX_MOVES];
  for (size_t i = 0; i < group->nodes.len; i++)
    if (cv_class_of(fusion->nodes[group->nodes.data[i]]) == CV_CLASS_ROUTINE) return;
  const cv_node *node = fusion->nodes[last];
  uint32_t n = final_moves(fusion, node->outs[0], node->guard, moves, MAX_MOVES);
  if (n == 0) return;
  cv_val end = fusion->nodes[moves[n - 1]]->outs[0];
  bool was_stored = fusion->stored[end];
  for (uint32_t i = 0; i < n; i++) {
    cv_push(&group->nodes, moves[i]);
    fusion->group_of[moves[i]] = index;
  }
  fusion->stored[end] = true;
  find_results(fusion, group);
  if (find_pattern(fusion, group) == CV_OK) return;
  fusion->stored[end] = was_stored; /* beside a second result of other dims: as it was */
  group->nodes.len -= n;
  for (uint32_t i = 0; i < n; i++) fusion->group_of[moves[i]] = CV_NONE;
}

/* ---- what is stored but in no group ---- */

static bool has_bytes(const cv_fusion *fusion, cv_val v) {
  const cv_node *def = cv_fusion_def(fusion, v);
  return !def || fusion->stored[v] || !cv_fusion_free(fusion, def);
}

static void make_stored_groups(cv_fusion *fusion) {
  for (uint32_t i = 0; i < fusion->n; i++) {
    const cv_node *node = fusion->nodes[i];
    if (node->n_outs != 1 || !fusion->stored[node->outs[0]] || fusion->group_of[i] != CV_NONE)
      continue;
    const cv_node *base = node; /* reshapes of reshapes are one */
    while (base->op == CV_OP_reshape && !has_bytes(fusion, base->ins[0]))
      base = cv_fusion_def(fusion, base->ins[0]);
    bool alias = base->op == CV_OP_reshape && !cv_value_of(fusion->graph, base->ins[0])->data.splat;
    cv_fusion_add(fusion, alias ? CV_GROUP_ALIAS : CV_GROUP_KERNEL, &i, 1);
  }
}

/* ---- order ---- */

typedef struct {
  cv_fusion *fusion;
  const bool *done; /* by group */
  uint32_t group;   /* whose operands are looked at; its nodes are marked */
} readiness;

static bool position_ready(const readiness *r, uint32_t position);

/* True if what the group reads through v is made by groups that are done. */
static bool value_ready(const readiness *r, cv_val v) {
  const cv_node *def = cv_fusion_def(r->fusion, v);
  if (!def) return true;
  uint32_t position = r->fusion->position[def->id];
  uint32_t group = r->fusion->group_of[position];
  if (group == r->group || (group != CV_NONE && r->done[group])) return true;
  if (group != CV_NONE && !cv_fusion_reads_marked(r->fusion, v, r->fusion->stamp)) return false;
  if (!cv_fusion_free(r->fusion, def)) return def->op == CV_OP_bind;
  return position_ready(r, position);
}

static bool position_ready(const readiness *r, uint32_t position) {
  const cv_node *node = r->fusion->nodes[position];
  for (uint32_t i = 0; i < node->n_ins; i++)
    if (!value_ready(r, node->ins[i])) return false;
  for (uint32_t i = 0; i < r->fusion->n_binders[position]; i++) {
    uint32_t binder = r->fusion->binders[position][i], group = r->fusion->group_of[binder];
    if (group != CV_NONE && !r->done[group]) return false; /* a loop's trips */
    if (group == CV_NONE && !value_ready(r, r->fusion->nodes[binder]->ins[0])) return false;
  }
  return true;
}

static bool group_ready(cv_fusion *fusion, uint32_t index, const bool *done) {
  const cv_group *group = &fusion->groups.data[index];
  mark_group(fusion, group);
  readiness r = {fusion, done, index};
  for (size_t i = 0; i < group->nodes.len; i++) {
    const cv_node *node = fusion->nodes[group->nodes.data[i]];
    if (!position_ready(&r, group->nodes.data[i])) return false;
    cv_vals captured = {0};
    bool ready = true;
    if (node->n_blocks) cv_captured_values(fusion->graph, node, &captured);
    for (size_t k = 0; k < captured.len && ready; k++) ready = value_ready(&r, captured.data[k]);
    cv_vec_deinit(&captured);
    if (!ready) return false;
  }
  return true;
}

static int by_key(const void *a, const void *b) {
  const cv_group *x = a, *y = b;
  return (x->key > y->key) - (x->key < y->key);
}

static void renumber(cv_fusion *fusion) {
  for (size_t g = 0; g < fusion->groups.len; g++)
    for (size_t i = 0; i < fusion->groups.data[g].nodes.len; i++)
      fusion->group_of[fusion->groups.data[g].nodes.data[i]] = (uint32_t)g;
}

/* Puts the groups in the model's order as far as what they read lets it: always the first that is
 * ready. */
static void order_groups(cv_fusion *fusion) {
  size_t n = fusion->groups.len;
  if (n == 0) return;
  qsort(fusion->groups.data, n, sizeof *fusion->groups.data, by_key);
  renumber(fusion);
  bool *done = cv_alloc_or_die(n, sizeof *done);
  cv_group *ordered = cv_alloc_or_die(n, sizeof *ordered);
  size_t n_done = 0;
  for (bool found = true; found && n_done < n;) {
    found = false;
    for (uint32_t g = 0; g < n && !found; g++) {
      if (done[g] || !group_ready(fusion, g, done)) continue;
      done[g] = found = true;
      ordered[n_done++] = fusion->groups.data[g];
    }
  }
  if (n_done < n)
    cv_graph_fail(fusion->graph, CV_INTERNAL, "%zu steps wait for one another", n - n_done);
  else
    memcpy(fusion->groups.data, ordered, n * sizeof *ordered);
  renumber(fusion);
  cv_free(ordered);
  cv_free(done);
}

void cv_fuse(cv_graph *graph, const cv_block *block, const cv_pass_options *options,
             cv_fusion *out_fusion) {
  *out_fusion = (cv_fusion){.graph = graph,
                            .block = block,
                            .options = options,
                            .n = (uint32_t)block->nodes.len,
                            .nodes = block->nodes.data};
  setup(out_fusion);
  find_stored(out_fusion);
  make_groups(out_fusion);
  for (uint32_t g = 0; g < out_fusion->groups.len; g++) absorb_moves(out_fusion, g);
  make_stored_groups(out_fusion);
  for (size_t g = 0; g < out_fusion->groups.len; g++)
    finish_group(out_fusion, &out_fusion->groups.data[g]);
  order_groups(out_fusion);
}

void cv_fusion_deinit(cv_fusion *fusion) {
  for (size_t g = 0; g < fusion->groups.len; g++) {
    cv_vec_deinit(&fusion->groups.data[g].nodes);
    cv_vec_deinit(&fusion->groups.data[g].results);
  }
  cv_vec_deinit(&fusion->groups);
  cv_free(fusion->position);
  cv_free(fusion->group_of);
  cv_free(fusion->first_user);
  cv_free(fusion->users);
  cv_free(fusion->wanted);
  cv_free(fusion->stored);
  cv_free(fusion->constant);
  cv_free(fusion->n_binders);
  cv_free(fusion->binders);
  cv_free(fusion->pairs);
  cv_free(fusion->node_stamp);
  cv_free(fusion->value_stamp);
  cv_free(fusion->in_body);
}
