/* The interpreter: values, blocks, control flow. */
#include "compiler/interp.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/interp_internal.h"
#include "runtime/half.h"

/* ---- a graph ---- */

typedef struct {
  cv_graph *graph;
  int64_t *symbols;
  cv_tensor *values; /* by value: zeroed until it is there */
} machine;

static bool is_there(const cv_tensor *tensor) { return tensor->absent || tensor->data != NULL; }

static bool is_constant(const cv_value_info *info) {
  return info->is_const && info->def == NULL && info->block == NULL;
}

/* A constant as a tensor: its bytes borrowed, or a splat expanded. */
static cv_status load_constant(const machine *m, cv_val v, cv_tensor *out) {
  const cv_value_info *info = cv_value_of(m->graph, v);
  int64_t dims[CV_MAX_RANK] = {0};
  size_t size = cv_dtype_size(info->type.dtype);
  if (info->data.data == NULL) {
    return cv_error(CV_INVALID, "constant \"%s\" has no data",
                    info->name != NULL ? info->name : "");
  }
  cv_status status = interp_dims(m->graph, &info->type, m->symbols, dims);
  if (status != CV_OK) return status;
  if (info->data.splat) {
    status = cv_tensor_create(info->type.dtype, info->type.rank, dims, out);
    int64_t n = status == CV_OK ? interp_count(out) : 0;
    for (int64_t i = 0; i < n; i++) memcpy(interp_out(out, i), info->data.data, size);
    return status;
  }
  *out = (cv_tensor){.dtype = info->type.dtype, .rank = info->type.rank, .bytes = info->data.bytes};
  memcpy(out->dims, dims, sizeof dims);
  memcpy(&out->data, &info->data.data, sizeof out->data);
  return CV_OK;
}

/* A splat's dims may change from one iteration to the next. */
static bool is_stale(const machine *m, const cv_type *type, const cv_tensor *held) {
  for (int i = 0; i < type->rank; i++) {
    int64_t dim;
    if (cv_expr_eval(m->graph->exprs, type->dims[i], m->symbols, &dim) != CV_OK) return true;
    if (dim != held->dims[i]) return true;
  }
  return false;
}

/* The value as a tensor that the machine keeps. */
static cv_status value_at(const machine *m, cv_val v, cv_tensor **out) {
  const cv_value_info *info = cv_value_of(m->graph, v);
  *out = &m->values[v];
  if (is_constant(info) && (!is_there(*out) || is_stale(m, &info->type, *out))) {
    cv_tensor_deinit(*out);
    return load_constant(m, v, *out);
  }
  if (is_there(*out)) return CV_OK;
  return cv_error(CV_INVALID, "value %u (\"%s\") is read before it is there", v,
                  info->name != NULL ? info->name : "");
}

/* Dims that are plain symbols without a value take the tensor's; all others must agree. */
static cv_status bind_dims(const machine *m, cv_val v, const cv_tensor *tensor) {
  const cv_value_info *info = cv_value_of(m->graph, v);
  const char *name = info->name != NULL ? info->name : "";
  if (tensor->absent) return CV_OK;
  if (tensor->dtype != info->type.dtype || tensor->rank != info->type.rank) {
    return cv_error(CV_INVALID, "value \"%s\" is %s, the graph has %s", name,
                    cv_tensor_shape_text(tensor).text, cv_type_text(m->graph, &info->type));
  }
  for (int i = 0; i < tensor->rank; i++) {
    cv_sym sym;
    if (cv_expr_is_symbol(m->graph->exprs, info->type.dims[i], &sym) &&
        m->symbols[sym] == CV_UNBOUND) {
      m->symbols[sym] = tensor->dims[i];
    }
  }
  for (int i = 0; i < tensor->rank; i++) {
    int64_t value;
    cv_status status = cv_expr_eval(m->graph->exprs, info->type.dims[i], m->symbols, &value);
    if (status != CV_OK) return status;
    if (value != tensor->dims[i]) {
      return cv_error(CV_INVALID, "dim %d of \"%s\" is %" PRId64 ", must be %" PRId64, i, name,
                      tensor->dims[i], value);
    }
  }
  return CV_OK;
}

/* Puts an owned tensor (or an absent one) in a value's place. */
static cv_status set_value(const machine *m, cv_val v, cv_tensor *tensor) {
  cv_tensor_deinit(&m->values[v]);
  m->values[v] = *tensor;
  *tensor = (cv_tensor){0};
  return bind_dims(m, v, &m->values[v]);
}

static cv_status copy_value(const machine *m, cv_val to, const cv_tensor *from) {
  cv_tensor copy;
  cv_status status = cv_tensor_copy(from, &copy);
  return status == CV_OK ? set_value(m, to, &copy) : status;
}

static cv_status run_block(const machine *m, const cv_block *block);

/* ---- assumptions ---- */

static bool is_bound(const machine *m, cv_expr e) {
  for (cv_sym sym = 0; sym < cv_exprs_symbols(m->graph->exprs); sym++)
    if (m->symbols[sym] == CV_UNBOUND && cv_expr_uses(m->graph->exprs, e, sym)) return false;
  return true;
}

/* What builders assumed holds, where its guard does. What hangs on symbols of a loop's body is
 * checked in each iteration. */
static cv_status check_equalities(const machine *m) {
  const cv_graph *graph = m->graph;
  for (size_t i = 0; i < graph->equalities.len; i++) {
    const cv_equality *equality = &graph->equalities.data[i];
    int64_t a, b, holds;
    if (!is_bound(m, equality->guard) || !is_bound(m, equality->a) || !is_bound(m, equality->b))
      continue;
    cv_status status = cv_expr_eval(graph->exprs, equality->guard, m->symbols, &holds);
    if (status == CV_OK) status = cv_expr_eval(graph->exprs, equality->a, m->symbols, &a);
    if (status == CV_OK) status = cv_expr_eval(graph->exprs, equality->b, m->symbols, &b);
    if (status != CV_OK) return status;
    if (holds != 0 && a != b) {
      return cv_error(CV_INVALID,
                      "node \"%s\" needs equal dims, and they are %" PRId64 " and %" PRId64,
                      equality->source, a, b);
    }
  }
  return CV_OK;
}

static cv_status run_if(const machine *m, const cv_node *node) {
  cv_tensor *value;
  cv_status status = value_at(m, node->ins[0], &value);
  if (status != CV_OK) return status;
  if (value->absent) return cv_error(CV_INVALID, "the condition of an if is absent");
  const cv_block *block = node->blocks[*(const unsigned char *)value->data != 0 ? 0 : 1];
  for (size_t i = 0; i < block->params.len; i++) {
    status = value_at(m, node->ins[i + 1], &value);
    if (status == CV_OK) status = copy_value(m, block->params.data[i], value);
    if (status != CV_OK) return status;
  }
  if ((status = run_block(m, block)) != CV_OK) return status;
  for (uint32_t i = 0; i < node->n_outs; i++) {
    status = value_at(m, block->results.data[i], &value);
    if (status == CV_OK) status = copy_value(m, node->outs[i], value);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

/* ---- loops ---- */

typedef struct {
  const machine *m;
  const cv_node *node;
  const cv_block *body;
  uint32_t carried;
  cv_tensor *state;   /* carried values, owned */
  cv_tensor *stacked; /* [trips so far, item dims...], owned */
  bool go_on;
} loop;

/* Adds the item to a stack, which grows by one along its first dim. */
static cv_status stack_item(cv_tensor *stack, const cv_tensor *item) {
  cv_tensor grown = {0};
  int64_t dims[CV_MAX_RANK] = {1};
  for (int i = 0; i < item->rank; i++) dims[i + 1] = item->dims[i];
  if (is_there(stack)) {
    if (memcmp(stack->dims + 1, dims + 1, (size_t)item->rank * sizeof *dims) != 0) {
      return cv_error(CV_INVALID, "the items of a loop differ in shape: %s after %s",
                      cv_tensor_shape_text(item).text, cv_tensor_shape_text(stack).text);
    }
    dims[0] = stack->dims[0] + 1;
  }
  cv_status status = cv_tensor_create(item->dtype, item->rank + 1, dims, &grown);
  if (status != CV_OK) return status;
  if (stack->bytes > 0) memcpy(grown.data, stack->data, stack->bytes);
  if (item->bytes > 0) {
    memcpy((unsigned char *)grown.data + stack->bytes, item->data, item->bytes);
  }
  cv_tensor_deinit(stack);
  *stack = grown;
  return CV_OK;
}

/* Params of one iteration: its number, the condition, carried and captured values. */
static cv_status enter_iteration(const loop *l, int64_t iteration) {
  const cv_block *body = l->body;
  unsigned char go_on = 1;
  cv_tensor number = {.dtype = CV_I64, .bytes = sizeof iteration, .data = &iteration};
  cv_tensor condition = {.dtype = CV_BOOL, .bytes = 1, .data = &go_on};
  cv_status status = copy_value(l->m, body->params.data[0], &number);
  if (status == CV_OK) status = copy_value(l->m, body->params.data[1], &condition);
  for (size_t i = 2; i < body->params.len && status == CV_OK; i++) {
    cv_tensor *value = NULL;
    if (i - 2 < l->carried) {
      value = &l->state[i - 2];
    } else {
      status = value_at(l->m, l->node->ins[i], &value);
    }
    if (status == CV_OK) status = copy_value(l->m, body->params.data[i], value);
  }
  return status;
}

static cv_status leave_iteration(loop *l) {
  cv_tensor *value;
  cv_status status = value_at(l->m, l->body->results.data[0], &value);
  if (status != CV_OK) return status;
  l->go_on = *(const unsigned char *)value->data != 0;
  for (uint32_t i = 0; i < l->node->n_outs; i++) {
    status = value_at(l->m, l->body->results.data[i + 1], &value);
    if (status != CV_OK) return status;
    if (i >= l->carried) {
      status = stack_item(&l->stacked[i - l->carried], value);
    } else {
      cv_tensor copy;
      status = cv_tensor_copy(value, &copy);
      if (status != CV_OK) return status;
      cv_tensor_deinit(&l->state[i]);
      l->state[i] = copy;
    }
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

/* All iterations. What the body binds is forgotten before the next one. */
static cv_status iterate(loop *l, int64_t trips, int64_t most, const int64_t *symbols,
                         int64_t *out_done) {
  size_t bytes = cv_exprs_symbols(l->m->graph->exprs) * sizeof *symbols;
  int64_t done = 0;
  for (; done < trips && l->go_on; done++) {
    if (done == most) {
      return cv_error(CV_INVALID,
                      "the loop \"%s\" runs longer than its bound of %" PRId64 " iterations",
                      l->node->source, most);
    }
    if (bytes > 0) memcpy(l->m->symbols, symbols, bytes);
    cv_status status = enter_iteration(l, done);
    if (status == CV_OK) status = run_block(l->m, l->body);
    if (status == CV_OK) status = check_equalities(l->m);
    if (status == CV_OK) status = leave_iteration(l);
    if (status != CV_OK) return status;
  }
  if (bytes > 0) memcpy(l->m->symbols, symbols, bytes);
  *out_done = done;
  return CV_OK;
}

static cv_status finish_loop(const loop *l, int64_t done) {
  const cv_graph *graph = l->m->graph;
  cv_sym trips;
  (void)cv_expr_is_symbol(graph->exprs, cv_node_attr(l->node, CV_ATTR_SYMBOL)->e, &trips);
  l->m->symbols[trips] = done;
  for (uint32_t i = 0; i < l->node->n_outs; i++) {
    cv_tensor *value = i < l->carried ? &l->state[i] : &l->stacked[i - l->carried];
    if (!is_there(value)) { /* no iteration, no item */
      const cv_type *type = cv_type_of(graph, l->node->outs[i]);
      int64_t dims[CV_MAX_RANK] = {0};
      cv_status status = interp_dims(graph, type, l->m->symbols, dims);
      if (status == CV_OK) status = cv_tensor_create(type->dtype, type->rank, dims, value);
      if (status != CV_OK) return status;
    }
    cv_status status = set_value(l->m, l->node->outs[i], value);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

static cv_status run_loop(const machine *m, const cv_node *node) {
  loop l = {.m = m, .node = node, .body = node->blocks[0]};
  cv_tensor *trips, *condition;
  int64_t done = 0;
  uint32_t n_symbols = cv_exprs_symbols(m->graph->exprs);
  cv_status status = value_at(m, node->ins[0], &trips);
  if (status == CV_OK) status = value_at(m, node->ins[1], &condition);
  if (status != CV_OK) return status;
  if (trips->absent || condition->absent) {
    return cv_error(CV_INVALID, "the trips or condition of loop \"%s\" are absent", node->source);
  }
  int64_t n = cv_element_to_int(CV_I64, trips->data);
  l.go_on = *(const unsigned char *)condition->data != 0;
  l.carried = cv_loop_carried(m->graph, node);
  l.state = cv_alloc_or_die(node->n_outs + 1, sizeof *l.state);
  l.stacked = cv_alloc_or_die(node->n_outs + 1, sizeof *l.stacked);
  int64_t *symbols = cv_alloc_or_die(n_symbols + 1, sizeof *symbols);
  if (n_symbols > 0) memcpy(symbols, m->symbols, n_symbols * sizeof *symbols);
  for (uint32_t i = 0; i < l.carried; i++) {
    cv_tensor *initial;
    CV_TRY(value_at(m, node->ins[i + 2], &initial));
    CV_TRY(cv_tensor_copy(initial, &l.state[i]));
  }
  CV_TRY(iterate(&l, n, cv_node_int(node, CV_ATTR_MAX), symbols, &done));
  status = finish_loop(&l, done);
out:
  for (uint32_t i = 0; i < node->n_outs; i++) {
    cv_tensor_deinit(&l.state[i]);
    cv_tensor_deinit(&l.stacked[i]);
  }
  cv_free(l.state);
  cv_free(l.stacked);
  cv_free(symbols);
  return status;
}

/* ---- nodes of a block ---- */

static cv_status run_bind(const machine *m, const cv_node *node, const cv_tensor *value) {
  const cv_attr *attr = cv_node_attr(node, CV_ATTR_EXPRS);
  if (value->absent) return cv_error(CV_INVALID, "a bind reads an absent value");
  if (interp_count(value) != (int64_t)attr->count) {
    return cv_error(CV_INVALID, "a bind of %u symbols reads %s", attr->count,
                    cv_tensor_shape_text(value).text);
  }
  for (uint32_t i = 0; i < attr->count; i++) {
    int64_t lo, hi, element = cv_element_to_int(value->dtype, interp_at(value, i));
    cv_sym sym;
    (void)cv_expr_is_symbol(m->graph->exprs, attr->exprs[i], &sym);
    cv_symbol_bounds(m->graph->exprs, sym, &lo, &hi);
    if (element < lo || element > hi) {
      return cv_error(CV_INVALID, "%s is %" PRId64 ", must be in [%" PRId64 ", %" PRId64 "]",
                      cv_symbol_name(m->graph->exprs, sym), element, lo, hi);
    }
    m->symbols[sym] = element;
  }
  return CV_OK;
}

static cv_status run_join(const machine *m, const cv_node *node) {
  int64_t taken;
  cv_tensor *value;
  cv_status status =
      cv_expr_eval(m->graph->exprs, cv_node_attr(node, CV_ATTR_GUARD)->e, m->symbols, &taken);
  if (status == CV_OK) status = value_at(m, node->ins[taken != 0 ? 0 : 1], &value);
  return status == CV_OK ? copy_value(m, node->outs[0], value) : status;
}

static cv_status run_plain(const machine *m, const cv_node *node) {
  cv_tensor *ins = cv_alloc_or_die(node->n_ins + 1, sizeof *ins);
  cv_tensor *outs = cv_alloc_or_die(node->n_outs + 1, sizeof *outs);
  cv_status status = CV_OK;
  for (uint32_t i = 0; i < node->n_ins; i++) {
    cv_tensor *value;
    CV_TRY(value_at(m, node->ins[i], &value));
    ins[i] = *value; /* borrowed */
  }
  if (node->op == CV_OP_bind) {
    status = run_bind(m, node, &ins[0]);
  } else {
    CV_TRY(cv_node_interpret(m->graph, node, ins, m->symbols, outs));
    for (uint32_t i = 0; i < node->n_outs && status == CV_OK; i++) {
      status = set_value(m, node->outs[i], &outs[i]);
    }
  }
out:
  for (uint32_t i = 0; i < node->n_outs; i++) cv_tensor_deinit(&outs[i]);
  cv_free(ins);
  cv_free(outs);
  return status;
}

static cv_status run_node(const machine *m, const cv_node *node) {
  int64_t runs;
  cv_status status = cv_expr_eval(m->graph->exprs, node->guard, m->symbols, &runs);
  if (status != CV_OK) return status;
  if (runs == 0) {
    for (uint32_t i = 0; i < node->n_outs; i++) {
      const cv_type *type = cv_type_of(m->graph, node->outs[i]);
      cv_tensor absent = {.dtype = type->dtype, .rank = type->rank, .absent = true};
      status = set_value(m, node->outs[i], &absent);
    }
    return status;
  }
  switch (node->op) {
    case CV_OP_if: return run_if(m, node);
    case CV_OP_loop: return run_loop(m, node);
    case CV_OP_join: return run_join(m, node);
    default: return run_plain(m, node);
  }
}

static cv_status run_block(const machine *m, const cv_block *block) {
  for (size_t i = 0; i < block->nodes.len; i++) {
    cv_status status = run_node(m, block->nodes.data[i]);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

/* Inputs are borrowed; all are there before a dim of one is checked against another's. */
static cv_status take_inputs(const machine *m, const cv_tensor *ins) {
  const cv_block *body = m->graph->body;
  for (size_t i = 0; i < body->params.len; i++) {
    cv_tensor *value = &m->values[body->params.data[i]];
    *value = ins[i];
    value->owned = false;
  }
  for (size_t i = 0; i < body->params.len; i++) {
    cv_status status = bind_dims(m, body->params.data[i], &m->values[body->params.data[i]]);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

static cv_status give_results(const machine *m, cv_tensor *outs) {
  const cv_block *body = m->graph->body;
  for (size_t i = 0; i < body->results.len; i++) {
    cv_tensor *value;
    cv_status status = value_at(m, body->results.data[i], &value);
    if (status == CV_OK) status = cv_tensor_copy(value, &outs[i]);
    if (status != CV_OK) return status;
  }
  return CV_OK;
}

cv_status cv_graph_interpret(cv_graph *graph, const cv_tensor *ins, int64_t *symbols,
                             cv_tensor *outs) {
  size_t n = graph->values.len, n_outs = graph->body->results.len;
  machine m = {.graph = graph, .symbols = symbols};
  cv_status status = cv_graph_status(graph);
  for (size_t i = 0; i < n_outs; i++) outs[i] = (cv_tensor){0};
  if (status != CV_OK) return status;
  m.values = cv_alloc_or_die(n + 1, sizeof *m.values);
  CV_TRY(take_inputs(&m, ins));
  CV_TRY(run_block(&m, graph->body));
  CV_TRY(check_equalities(&m));
  status = give_results(&m, outs);
out:
  for (size_t i = 0; i < n; i++) cv_tensor_deinit(&m.values[i]);
  cv_free(m.values);
  for (size_t i = 0; i < n_outs && status != CV_OK; i++) cv_tensor_deinit(&outs[i]);
  return status;
}
