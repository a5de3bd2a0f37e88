/* From fused groups to the program: values, constants, steps with their bodies, binds and loops. */
#include "compiler/lower_internal.h"

#include <string.h>
#include <xxhash.h>

/* ---- expressions, names ---- */

cv_expr cv_lower_expr(cv_lowering *low, cv_expr e) {
  if (e == CV_EXPR_NONE) return e;
  while (low->imported.len <= e) cv_push(&low->imported, CV_EXPR_NONE);
  if (low->imported.data[e] == CV_EXPR_NONE)
    low->imported.data[e] = cv_expr_import(low->exprs, low->graph->exprs, e);
  return low->imported.data[e];
}

static cv_sym lower_symbol(cv_lowering *low, cv_expr e) {
  cv_sym sym = CV_NONE;
  cv_expr_is_symbol(low->exprs, cv_lower_expr(low, e), &sym);
  return sym;
}

/* `wanted`, or with the first of _2, _3, ... that makes it unique. */
static const char *unique_name(cv_arena *arena, cv_map *names, const char *wanted) {
  char *name = cv_arena_strdup(arena, *wanted ? wanted : "step");
  uint64_t taken;
  for (int i = 2; cv_map_get_str(names, name, &taken); i++)
    name = cv_arena_format(arena, "%s_%d", *wanted ? wanted : "step", i);
  cv_map_set(names, name, strlen(name), 1);
  return name;
}

/* ---- constants ---- */

/* Bytes of a constant: borrowed, or a splat's written out in the program's arena. */
static const void *const_bytes(cv_lowering *low, const cv_value_info *info, uint64_t count,
                               uint64_t bytes) {
  size_t size = cv_dtype_size(info->type.dtype);
  if (!info->data.splat || bytes == size) return info->data.data;
  char *data = cv_arena_alloc(&low->top->arena, bytes + 64, 1);
  data += (64 - (uintptr_t)data % 64) % 64;
  for (uint64_t i = 0; i < count; i++) memcpy(data + i * size, info->data.data, size);
  return data;
}

/* The program's constant with these bytes: one for equal bytes and types. */
static uint32_t lower_const(cv_lowering *low, cv_val v) {
  const cv_value_info *info = cv_value_of(low->graph, v);
  cv_const constant = {.dtype = info->type.dtype, .rank = info->type.rank};
  uint64_t count;
  if (!info->data.data || !cv_type_bytes(low->graph, &info->type, &count, &constant.bytes)) {
    cv_graph_fail(low->graph, CV_INTERNAL, "constant '%s' has no bytes",
                  info->name ? info->name : "");
    return 0;
  }
  for (int d = 0; d < info->type.rank; d++)
    if (!cv_expr_is_const(low->graph->exprs, info->type.dims[d], &constant.dims[d])) return 0;
  constant.data = const_bytes(low, info, count, constant.bytes);
  constant.hash = XXH3_64bits(constant.data, constant.bytes);
  struct {
    uint64_t hash, bytes;
    int64_t dims[CV_MAX_RANK];
    uint64_t dtype, rank;
  } key = {constant.hash, constant.bytes, {0}, (uint64_t)constant.dtype, constant.rank};
  memcpy(key.dims, constant.dims, sizeof key.dims);
  uint64_t index;
  if (cv_map_get(&low->const_index, &key, sizeof key, &index)) {
    const cv_const *other = &low->consts.data[index];
    if (memcmp(other->data, constant.data, constant.bytes) == 0) return (uint32_t)index;
  }
  index = low->consts.len;
  cv_map_set(&low->const_index, &key, sizeof key, index);
  cv_push(&low->consts, constant);
  return (uint32_t)index;
}

/* ---- values ---- */

/* A name for v: of the output it is, of the model, or made of the step's. */
static const char *value_name(cv_block_lowering *low, cv_val v, const char *fallback) {
  const char *name = v == CV_POISON ? NULL : cv_value_of(low->top->graph, v)->name;
  return unique_name(&low->program->arena, &low->value_names, name ? name : fallback);
}

static uint32_t add_value(cv_block_lowering *low, cv_val v, const char *name, cv_value_kind kind,
                          cv_expr guard, uint32_t source) {
  const cv_type *type = cv_type_of(low->top->graph, v);
  cv_value value = {.name = name, .kind = kind, .dtype = type->dtype, .rank = type->rank};
  for (int d = 0; d < type->rank; d++) value.dims[d] = cv_lower_expr(low->top, type->dims[d]);
  value.guard = cv_lower_expr(low->top, guard);
  value.source = source;
  value.fixed_width = true;
  cv_push(&low->values, value);
  return (uint32_t)low->values.len - 1;
}

uint32_t cv_lower_input(cv_block_lowering *low, cv_val v, const char *name) {
  cv_port port = {.batch_axis = -1, .batch_factor = 1};
  const char *given = name ? unique_name(&low->program->arena, &low->value_names, name)
                           : value_name(low, v, "input");
  cv_expr one = cv_expr_const(low->top->graph->exprs, 1);
  port.value = add_value(low, v, given, CV_VALUE_INPUT, one, (uint32_t)low->inputs.len);
  low->value_of[v] = port.value;
  cv_push(&low->inputs, port);
  return port.value;
}

uint32_t cv_lower_value(cv_block_lowering *low, cv_val v) {
  if (low->value_of[v] != CV_NONE) return low->value_of[v];
  const cv_value_info *info = cv_value_of(low->top->graph, v);
  if (!info->is_const) {
    cv_graph_fail(low->top->graph, CV_INTERNAL, "a step reads '%s', which no step has made",
                  info->name  ? info->name
                  : info->def ? info->def->source
                              : "");
    return 0;
  }
  cv_expr one = cv_expr_const(low->top->graph->exprs, 1);
  uint32_t index = lower_const(low->top, v);
  low->value_of[v] = add_value(low, v, value_name(low, v, "const"), CV_VALUE_CONST, one, index);
  return low->value_of[v];
}

/* ---- steps ---- */

static uint32_t *copy_ids(cv_block_lowering *low, const uint32_t *ids, size_t n) {
  return cv_arena_copy(&low->program->arena, ids, n * sizeof *ids);
}

uint32_t cv_lower_alias(cv_block_lowering *low, const uint32_t *ins, uint32_t n_ins,
                        const cv_alias_spec *spec) {
  cv_step step = {.kind = CV_STEP_ALIAS, .n_ins = n_ins, .n_outs = 1, .regions = ""};
  step.name = unique_name(&low->program->arena, &low->step_names, spec->name);
  step.nodes = step.name;
  step.ins = copy_ids(low, ins, n_ins);
  uint32_t out = add_value(low, spec->like, spec->out_name, CV_VALUE_STEP, spec->guard,
                           (uint32_t)low->steps.len);
  step.outs = copy_ids(low, &out, 1);
  step.guard = cv_lower_expr(low->top, spec->guard);
  step.flops = cv_expr_const(low->top->exprs, 0);
  cv_push(&low->steps, step);
  return out;
}

/* Appends `text` to a comma separated list, once, while the list is short. */
static void list_add(cv_str *list, const char *text) {
  enum { MOST = 200 };
  size_t length = strlen(text);
  if (!length || list->len + length > MOST) return;
  for (const char *at = cv_str_text(list); at && *at;) {
    size_t n = strcspn(at, ",");
    if (n == length && strncmp(at, text, n) == 0) return;
    at += n + (at[n] == ',');
  }
  cv_str_add(list, "%s%s", list->len ? "," : "", text);
}

/* The node that matters most: contraction, window, reduce, routine, else the last with a name. */
static const cv_node *main_node(const cv_fusion *fusion, const cv_group *group) {
  static const int rank[] = {
      [CV_CLASS_CONTRACT] = 9, [CV_CLASS_WINDOW] = 8, [CV_CLASS_ROUTINE] = 7, [CV_CLASS_REDUCE] = 6,
      [CV_CLASS_MAP] = 2,      [CV_CLASS_GATHER] = 2, [CV_CLASS_CONTROL] = 9};
  const cv_node *best = fusion->nodes[group->nodes.data[0]];
  int score = -1;
  for (size_t i = 0; i < group->nodes.len; i++) {
    const cv_node *node = fusion->nodes[group->nodes.data[i]];
    int is = 2 * rank[cv_class_of(node)] + (*node->source != 0);
    if (is > score || (is == score && cv_class_of(node) == CV_CLASS_MAP)) best = node, score = is;
  }
  return best;
}

static void name_step(cv_block_lowering *low, const cv_group *group, cv_step *step) {
  const cv_graph *graph = low->top->graph;
  cv_str nodes = {.may_die = true}, regions = {.may_die = true};
  for (size_t i = 0; i < group->nodes.len; i++) {
    const cv_node *node = low->fusion.nodes[group->nodes.data[i]];
    list_add(&nodes, node->source);
    if (node->region != CV_NO_REGION) list_add(&regions, graph->regions.data[node->region].op);
  }
  const cv_node *node = main_node(&low->fusion, group);
  const char *name = *node->source ? node->source : cv_op_get(node->op)->name;
  step->name = unique_name(&low->program->arena, &low->step_names, name);
  step->nodes = cv_arena_strdup(&low->program->arena, cv_str_text(&nodes));
  step->regions = cv_arena_strdup(&low->program->arena, cv_str_text(&regions));
  cv_str_deinit(&nodes);
  cv_str_deinit(&regions);
}

static void add_outs(cv_block_lowering *low, const cv_group *group, cv_expr guard, cv_step *step) {
  step->n_outs = (uint32_t)group->results.len;
  step->outs = cv_arena_array(&low->program->arena, uint32_t, group->results.len);
  for (size_t i = 0; i < group->results.len; i++) {
    cv_val v = group->results.data[i];
    step->outs[i] = add_value(low, v, value_name(low, v, step->name), CV_VALUE_STEP, guard,
                              (uint32_t)low->steps.len);
    low->value_of[v] = step->outs[i];
  }
}

static cv_expr flops_of(cv_lowering *low, cv_graph *body) {
  cv_expr flops = cv_expr_const(body->exprs, 0);
  for (size_t i = 0; i < body->body->nodes.len; i++)
    flops = cv_expr_add(body->exprs, flops, cv_node_flops(body, body->body->nodes.data[i]));
  return cv_lower_expr(low, flops);
}

static void lower_kernel(cv_block_lowering *low, const cv_group *group) {
  cv_vals params = {0};
  cv_step step = {.kind = CV_STEP_KERNEL, .pattern = cv_pattern_name(group->pattern)};
  cv_graph *body = cv_body_build(&low->fusion, group->nodes.data, (uint32_t)group->nodes.len,
                                 group->results.data, (uint32_t)group->results.len, &params);
  cv_expr guard = low->fusion.nodes[group->key]->guard;
  name_step(low, group, &step);
  step.guard = cv_lower_expr(low->top, guard);
  step.n_ins = (uint32_t)params.len;
  step.ins = cv_arena_array(&low->program->arena, uint32_t, params.len + 1);
  for (size_t i = 0; i < params.len; i++) step.ins[i] = cv_lower_value(low, params.data[i]);
  add_outs(low, group, guard, &step);
  cv_str text = {.may_die = true};
  cv_graph_print(body, &text);
  step.body = cv_arena_strdup(&low->program->arena, cv_str_text(&text));
  step.flops = flops_of(low->top, body);
  cv_push(&low->steps, step);
  cv_str_deinit(&text);
  cv_graph_destroy(body);
  cv_vec_deinit(&params);
}

/* ---- aliases ---- */

/* The operand of a join as a value that is there only where its branch was taken: what the branch
 * did not make itself gets an alias under the branch's guard. */
static uint32_t join_operand(cv_block_lowering *low, const cv_node *node, cv_val v, cv_expr guard) {
  uint32_t id = cv_lower_value(low, v);
  cv_expr given = low->values.data[id].guard;
  if (given == cv_lower_expr(low->top, guard)) return id;
  const char *name =
      unique_name(&low->program->arena, &low->value_names, low->values.data[id].name);
  cv_alias_spec spec = {*node->source ? node->source : "branch", name, v, guard};
  return cv_lower_alias(low, &id, 1, &spec);
}

static void lower_alias(cv_block_lowering *low, const cv_group *group) {
  cv_graph *graph = low->top->graph;
  const cv_node *node = low->fusion.nodes[group->nodes.data[0]];
  const char *name = *node->source ? node->source : cv_op_get(node->op)->name;
  uint32_t ins[2], n_ins = 1;
  if (node->op == CV_OP_join) {
    cv_expr p = cv_node_attr(node, CV_ATTR_GUARD)->e;
    cv_expr not_p = cv_expr_sub(graph->exprs, cv_expr_const(graph->exprs, 1), p);
    ins[0] = join_operand(low, node, node->ins[0], cv_expr_mul(graph->exprs, node->guard, p));
    ins[1] = join_operand(low, node, node->ins[1], cv_expr_mul(graph->exprs, node->guard, not_p));
    n_ins = 2;
  } else {
    cv_val base = node->ins[0];
    for (const cv_node *def; low->value_of[base] == CV_NONE && !cv_value_of(graph, base)->is_const;
         base = def->ins[0]) {
      def = cv_fusion_def(&low->fusion, base);
      if (!def || def->op != CV_OP_reshape) break;
    }
    ins[0] = cv_lower_value(low, base);
  }
  cv_val out = node->outs[0];
  cv_alias_spec spec = {name, value_name(low, out, name), out, node->guard};
  low->value_of[out] = cv_lower_alias(low, ins, n_ins, &spec);
}

/* ---- loops ---- */

static bool is_const_i64(const cv_graph *graph, cv_val v, int64_t wanted) {
  const cv_value_info *info = cv_value_of(graph, v);
  if (!info->is_const || !info->data.data) return false;
  int64_t value = 0;
  memcpy(&value, info->data.data, cv_dtype_size(info->type.dtype));
  return value == wanted;
}

static void lower_loop(cv_block_lowering *low, const cv_group *group) {
  cv_graph *graph = low->top->graph;
  const cv_node *node = low->fusion.nodes[group->nodes.data[0]];
  cv_vals captured = {0};
  cv_captured_values(graph, node, &captured);
  cv_step step = {.kind = CV_STEP_LOOP, .flops = CV_EXPR_NONE};
  cv_loop *loop = cv_arena_new(&low->program->arena, cv_loop);
  name_step(low, group, &step);
  step.loop = loop;
  step.guard = cv_lower_expr(low->top, node->guard);
  loop->carried = cv_loop_carried(graph, node);
  loop->stacked = node->n_outs - loop->carried;
  loop->captured = (uint32_t)(node->n_ins - 2 - loop->carried + captured.len);
  loop->trips = lower_symbol(low->top, cv_node_attr(node, CV_ATTR_SYMBOL)->e);
  loop->max_trips = cv_node_int(node, CV_ATTR_MAX);
  step.n_ins = (uint32_t)(node->n_ins + captured.len);
  step.ins = cv_arena_array(&low->program->arena, uint32_t, step.n_ins + 1);
  for (uint32_t i = 0; i < step.n_ins; i++) {
    cv_val v = i < node->n_ins ? node->ins[i] : captured.data[i - node->n_ins];
    bool none =
        (i == 0 && is_const_i64(graph, v, INT64_MAX)) || (i == 1 && is_const_i64(graph, v, 1));
    step.ins[i] = none ? CV_NONE : cv_lower_value(low, v);
  }
  add_outs(low, group, node->guard, &step);
  loop->body = cv_lower_block(low->top, node->blocks[0], &captured);
  cv_push(&low->steps, step);
  cv_vec_deinit(&captured);
}

/* ---- binds ---- */

/* Binds of value v, made by the step just added, or an input (`step` NULL). */
static void lower_binds(cv_block_lowering *low, cv_val v, cv_step *step) {
  const cv_fusion *fusion = &low->fusion;
  cv_vec(cv_bind) binds = {0};
  for (uint32_t u = fusion->first_user[v]; u < fusion->first_user[v + 1]; u++) {
    const cv_node *node = fusion->nodes[fusion->users[u]];
    if (node->op != CV_OP_bind) continue;
    const cv_attr *exprs = cv_node_attr(node, CV_ATTR_EXPRS);
    for (uint32_t k = 0; k < exprs->count; k++) {
      cv_bind bind = {lower_symbol(low->top, exprs->exprs[k]), low->value_of[v], k};
      if (step)
        cv_push(&binds, bind);
      else
        cv_push(&low->binds, bind);
    }
  }
  if (step && binds.len) {
    uint32_t n = step->n_binds;
    cv_bind *all = cv_arena_array(&low->program->arena, cv_bind, n + binds.len);
    if (n) memcpy(all, step->binds, n * sizeof *all);
    memcpy(all + n, binds.data, binds.len * sizeof *all);
    step->binds = all;
    step->n_binds = n + (uint32_t)binds.len;
  }
  cv_vec_deinit(&binds);
}

/* Constants that are bound (folded after the bind was made) get a step that gives them out. */
static void lower_const_binds(cv_block_lowering *low) {
  cv_expr one = cv_expr_const(low->top->graph->exprs, 1);
  for (uint32_t i = 0; i < low->fusion.n; i++) {
    const cv_node *node = low->fusion.nodes[i];
    if (node->op != CV_OP_bind || !cv_value_of(low->top->graph, node->ins[0])->is_const) continue;
    uint32_t id = cv_lower_value(low, node->ins[0]);
    if (low->values.data[id].kind != CV_VALUE_CONST) continue; /* a second bind of it */
    const char *name = unique_name(&low->program->arena, &low->value_names, "bound");
    cv_alias_spec spec = {"bind", name, node->ins[0], one};
    low->value_of[node->ins[0]] = cv_lower_alias(low, &id, 1, &spec);
    lower_binds(low, node->ins[0], &low->steps.data[low->steps.len - 1]);
  }
}

void cv_lower_groups(cv_block_lowering *low) {
  cv_graph *graph = low->top->graph;
  for (size_t i = 0; i < low->inputs.len; i++) lower_binds(low, low->input_vals.data[i], NULL);
  lower_const_binds(low);
  for (size_t g = 0; g < low->fusion.groups.len && graph->status == CV_OK; g++) {
    const cv_group *group = &low->fusion.groups.data[g];
    switch (group->kind) {
      case CV_GROUP_KERNEL: lower_kernel(low, group); break;
      case CV_GROUP_ALIAS: lower_alias(low, group); break;
      case CV_GROUP_LOOP: lower_loop(low, group); break;
    }
    for (size_t i = 0; i < group->results.len && graph->status == CV_OK; i++)
      lower_binds(low, group->results.data[i], &low->steps.data[low->steps.len - 1]);
  }
}
