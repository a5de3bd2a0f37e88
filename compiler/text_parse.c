/* The text form, parsed: docs/text-form.md. Any bytes may come; the builders check what they say.
 */
#include <string.h>

#include "base/alloc.h"
#include "compiler/text_internal.h"

typedef struct {
  const char *key, *name;
  cv_type type;
} definition;

typedef cv_vec(definition) definitions;
typedef cv_vec(cv_val) values;

/* The graph's error, if there is one, at this place of the text. */
static bool built(text_parser *p) {
  if (p->status != CV_OK) return false;
  return p->graph->status == CV_OK || text_fail(p, "%s", p->graph->error);
}

static bool parse_definition(text_parser *p, definition *out) {
  return text_value_token(p, &out->key, &out->name) && text_expect(p, ':') &&
         text_type(p, &out->type);
}

/* Gives the value its name in the text and in the graph. */
static bool define(text_parser *p, const definition *d, cv_val v) {
  uint64_t other;
  if (!built(p)) return false;
  if (cv_map_get_str(&p->values, d->key, &other)) {
    return text_fail(p, "value %.64s is defined twice", d->key);
  }
  if (!cv_map_put_str(&p->values, d->key, v)) (void)cv_alloc_or_die(SIZE_MAX / 2, 1);
  cv_value_of(p->graph, v)->name = d->name;
  return true;
}

static bool parse_use(text_parser *p, cv_val *out) {
  const char *key, *name;
  uint64_t v = 0;
  if (!text_value_token(p, &key, &name)) return false;
  if (!cv_map_get_str(&p->values, key, &v)) {
    return text_fail(p, "value %.64s is not defined before", key);
  }
  *out = (cv_val)v;
  return true;
}

static bool parse_guard(text_parser *p, cv_expr *out) {
  *out = cv_expr_const(p->graph->exprs, 1);
  return text_accept_word(p, "when") ? text_expr(p, out) : p->status == CV_OK;
}

static bool parse_params(text_parser *p, cv_block *block) {
  if (!text_expect(p, '(')) return false;
  if (text_accept(p, ')')) return true;
  do {
    definition d;
    cv_expr guard;
    if (!parse_definition(p, &d)) return false;
    cv_val v = cv_graph_param(p->graph, block, d.name, &d.type);
    if (!define(p, &d, v)) return false;
    if (text_accept_word(p, "const")) cv_value_of(p->graph, v)->is_const = true;
    if (!parse_guard(p, &guard)) return false;
    cv_value_of(p->graph, v)->guard = guard;
  } while (text_accept(p, ','));
  return text_expect(p, ')');
}

/* "%y", and its name where there is one. */
static bool parse_result(text_parser *p, cv_block *block, bool names) {
  cv_val v;
  const char *name;
  if (!parse_use(p, &v)) return false;
  graph_push(&block->results, v);
  if (!names || text_peek(p) != '"') return true;
  if (!text_string(p, &name)) return false;
  graph_push(&p->graph->result_names, name);
  return true;
}

static bool parse_results(text_parser *p, cv_block *block, bool names) {
  size_t named = 0;
  if (!text_expect(p, '}') || !text_expect(p, '-') || !text_expect(p, '>') ||
      !text_expect(p, '(')) {
    return false;
  }
  if (text_accept(p, ')')) return true;
  do {
    if (!parse_result(p, block, names)) return false;
  } while (text_accept(p, ','));
  if (names) named = p->graph->result_names.len;
  if (named != 0 && named != block->results.len) {
    return text_fail(p, "all results have names, or none");
  }
  return text_expect(p, ')');
}

/* ---- attributes ---- */

typedef cv_vec(int64_t) int_list;
typedef cv_vec(cv_expr) expr_list;

/* "[1,2,n]", into one of the lists by kind. */
static bool parse_entries(text_parser *p, cv_attr_kind kind, int_list *ints, expr_list *exprs) {
  if (!text_expect(p, '[')) return false;
  if (text_accept(p, ']')) return true;
  do {
    int64_t i;
    cv_expr e;
    if (kind == CV_KIND_INTS) {
      if (!text_int(p, &i)) return false;
      graph_push(ints, i);
    } else {
      if (!text_expr(p, &e)) return false;
      graph_push(exprs, e);
    }
  } while (text_accept(p, ','));
  return text_expect(p, ']');
}

static bool parse_list(text_parser *p, cv_attr_kind kind, cv_attr *attr) {
  cv_arena *arena = &p->graph->arena;
  int_list ints = {0};
  expr_list exprs = {0};
  bool ok = parse_entries(p, kind, &ints, &exprs);
  if (kind == CV_KIND_INTS) {
    attr->count = (uint32_t)ints.len;
    attr->ints = cv_arena_copy(arena, ints.data, ints.len * sizeof *ints.data);
  } else {
    attr->count = (uint32_t)exprs.len;
    attr->exprs = cv_arena_copy(arena, exprs.data, exprs.len * sizeof *exprs.data);
  }
  cv_vec_deinit(&ints);
  cv_vec_deinit(&exprs);
  return ok;
}

static bool parse_attr(text_parser *p, cv_attr *attr) {
  const char *name;
  *attr = (cv_attr){0};
  if (!text_word(p, &name)) return false;
  if (!cv_attr_find(name, &attr->key)) return text_fail(p, "\"%.32s\" is no attribute", name);
  if (!text_expect(p, '=')) return false;
  cv_attr_kind kind = cv_attr_kind_of(attr->key);
  switch (kind) {
    case CV_KIND_INT: return text_int(p, &attr->i);
    case CV_KIND_FLOAT: return text_element(p, CV_F64, &attr->f);
    case CV_KIND_EXPR: return text_expr(p, &attr->e);
    case CV_KIND_TEXT: return text_string(p, &attr->text);
    case CV_KIND_DTYPE:
      if (!text_word(p, &name)) return false;
      return cv_dtype_from_name(name, &attr->dtype) || text_fail(p, "\"%.16s\" is no dtype", name);
    default: return parse_list(p, kind, attr);
  }
}

static bool parse_attrs(text_parser *p, cv_attr attrs[CV_ATTR_COUNT], uint32_t *out_n) {
  *out_n = 0;
  if (!text_accept(p, '{')) return p->status == CV_OK;
  do {
    if (*out_n == CV_ATTR_COUNT) return text_fail(p, "too many attributes");
    if (!parse_attr(p, &attrs[(*out_n)++])) return false;
  } while (text_accept(p, ','));
  return text_expect(p, '}');
}

/* ---- nodes ---- */

/* A node as it is read, before it is built. */
typedef struct {
  cv_op op;
  definitions outs;
  values ins;
  cv_attr attrs[CV_ATTR_COUNT];
  uint32_t n_attrs, n_blocks;
  cv_block *blocks[2];
} draft;

static bool parse_nodes(text_parser *p, cv_block *block);

static bool parse_block(text_parser *p, draft *d) {
  cv_graph *graph = p->graph;
  cv_block *outer = graph->at;
  if (d->n_blocks == 2) return text_fail(p, "more than 2 blocks");
  if (++p->depth > TEXT_MAX_DEPTH) {
    return text_fail(p, "blocks are nested deeper than %d", TEXT_MAX_DEPTH);
  }
  cv_block *block = cv_block_create(graph, outer);
  d->blocks[d->n_blocks++] = block;
  bool ok = parse_params(p, block) && text_expect(p, '{') && parse_nodes(p, block) &&
            parse_results(p, block, false);
  graph->at = outer;
  p->depth--;
  return ok;
}

static bool parse_operands(text_parser *p, draft *d) {
  if (!text_expect(p, '(')) return false;
  if (text_accept(p, ')')) return true;
  do {
    cv_val v;
    if (!parse_use(p, &v)) return false;
    graph_push(&d->ins, v);
  } while (text_accept(p, ','));
  return text_expect(p, ')');
}

/* @"source" !region when guard */
static bool parse_suffixes(text_parser *p) {
  cv_graph *graph = p->graph;
  graph->source = "";
  graph->region = CV_NO_REGION;
  if (text_accept(p, '@') && !text_string(p, &graph->source)) return false;
  if (text_accept(p, '!')) {
    int64_t region;
    if (!text_int(p, &region)) return false;
    if (region < 0 || (uint64_t)region >= graph->regions.len) {
      return text_fail(p, "region %lld does not exist", (long long)region);
    }
    graph->region = (uint32_t)region;
  }
  return parse_guard(p, &graph->guard);
}

static bool same_type(cv_graph *graph, const cv_type *a, const cv_type *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++) {
    int64_t value = 1;
    if (a->dims[i] == b->dims[i]) continue;
    cv_expr equal = cv_expr_eq(graph->exprs, a->dims[i], b->dims[i]);
    if (!cv_expr_is_const(graph->exprs, equal, &value) || value != 1) return false;
  }
  return true;
}

static bool build(text_parser *p, const draft *d) {
  cv_graph *graph = p->graph;
  uint32_t n_ins = (uint32_t)d->ins.len, n_outs = (uint32_t)d->outs.len;
  const cv_node *node;
  if (cv_op_get(d->op)->blocks) {
    cv_type *types = cv_arena_array(&graph->arena, cv_type, n_outs + 1);
    for (uint32_t i = 0; i < n_outs; i++) types[i] = d->outs.data[i].type;
    node = cv_build_control(graph, d->op, d->ins.data, n_ins, d->attrs, d->n_attrs, d->blocks,
                            d->n_blocks, types, n_outs);
  } else if (d->n_blocks > 0) {
    return text_fail(p, "%s has no blocks", cv_op_get(d->op)->name);
  } else {
    node = cv_build_node(graph, d->op, d->ins.data, n_ins, d->attrs, d->n_attrs);
  }
  if (!built(p)) return false;
  if (node->n_outs != n_outs) {
    return text_fail(p, "%s has %u outputs, %u are named", cv_op_get(d->op)->name, node->n_outs,
                     n_outs);
  }
  for (uint32_t i = 0; i < n_outs; i++) {
    const definition *out = &d->outs.data[i];
    const cv_type *type = cv_type_of(graph, node->outs[i]);
    if (!same_type(graph, type, &out->type)) {
      return text_fail(p, "output %u is %.200s, stated is %.200s", i, cv_type_text(graph, type),
                       cv_type_text(graph, &out->type));
    }
    cv_value_of(graph, node->outs[i])->type = out->type;
    if (!define(p, out, node->outs[i])) return false;
  }
  return true;
}

static bool parse_op(text_parser *p, draft *d) {
  const char *name;
  if (!text_word(p, &name)) return false;
  if (!cv_op_find(name, &d->op)) return text_fail(p, "\"%.32s\" is no op", name);
  if (!parse_operands(p, d) || !parse_attrs(p, d->attrs, &d->n_attrs)) return false;
  if (text_accept(p, '[')) {
    while (text_accept_word(p, "block")) {
      if (!parse_block(p, d)) return false;
    }
    if (!text_expect(p, ']')) return false;
  }
  return parse_suffixes(p) && build(p, d);
}

static bool parse_line(text_parser *p, draft *d) {
  cv_val constant;
  if (text_peek(p) != '%') return parse_op(p, d);
  do {
    definition out;
    if (!parse_definition(p, &out)) return false;
    graph_push(&d->outs, out);
  } while (text_accept(p, ','));
  if (!text_expect(p, '=')) return false;
  if (d->outs.len == 1) {
    if (text_constant(p, &d->outs.data[0].type, &constant)) {
      return define(p, &d->outs.data[0], constant);
    }
    if (!built(p)) return false;
  }
  return parse_op(p, d);
}

static bool parse_nodes(text_parser *p, cv_block *block) {
  while (p->status == CV_OK && text_peek(p) != '}') {
    draft *d = cv_alloc_or_die(1, sizeof *d);
    p->graph->at = block;
    parse_line(p, d);
    cv_vec_deinit(&d->outs);
    cv_vec_deinit(&d->ins);
    cv_free(d);
  }
  return p->status == CV_OK;
}

/* ---- the whole ---- */

static bool parse_symbol(text_parser *p) {
  cv_exprs *exprs = p->graph->exprs;
  cv_expr e;
  cv_sym sym;
  int64_t lo, hi;
  uint32_t before = cv_exprs_symbols(exprs);
  if (!text_expr(p, &e)) return false;
  if (!cv_expr_is_symbol(exprs, e, &sym)) return text_fail(p, "a symbol's name expected");
  if (!text_expect(p, '[') || !text_int(p, &lo) || !text_expect(p, ',') || !text_int(p, &hi) ||
      !text_expect(p, ']')) {
    return false;
  }
  if (lo > hi) return text_fail(p, "bounds [lo, hi] with lo <= hi expected");
  if (sym >= before) cv_symbol_set_bounds(exprs, sym, lo, hi);
  return true;
}

static bool parse_region(text_parser *p) {
  cv_region region = {0};
  if (!text_string(p, &region.name) || !text_string(p, &region.op) ||
      !text_string(p, &region.domain) || !text_int(p, &region.version)) {
    return false;
  }
  graph_push(&p->graph->regions, region);
  return true;
}

static bool parse_state(text_parser *p) {
  cv_graph *graph = p->graph;
  int64_t input, output;
  if (!text_int(p, &input) || !text_expect(p, '-') || !text_expect(p, '>') ||
      !text_int(p, &output)) {
    return false;
  }
  if (input < 0 || output < 0 || (uint64_t)input >= graph->body->params.len ||
      (uint64_t)output >= graph->body->results.len) {
    return text_fail(p, "a state names an input or output that does not exist");
  }
  cv_graph_state state = {.input = (uint32_t)input, .output = (uint32_t)output};
  graph_push(&graph->states, state);
  return true;
}

static bool parse_equality(text_parser *p) {
  cv_graph *graph = p->graph;
  cv_equality equality = {.source = ""};
  if (!text_expr(p, &equality.a) || !text_expect(p, ',') || !text_expr(p, &equality.b))
    return false;
  if (text_accept(p, '@') && !text_string(p, &equality.source)) return false;
  if (!parse_guard(p, &equality.guard)) return false;
  graph_push(&graph->equalities, equality);
  return true;
}

static bool parse_graph(text_parser *p) {
  cv_graph *graph = p->graph;
  for (;;) {
    if (text_accept_word(p, "symbol")) {
      if (!parse_symbol(p)) return false;
    } else if (text_accept_word(p, "region")) {
      if (!parse_region(p)) return false;
    } else {
      break;
    }
  }
  if (!text_accept_word(p, "graph")) return text_fail(p, "\"graph\" expected");
  if (!text_string(p, &graph->name)) return false;
  if (text_accept_word(p, "by") && !text_string(p, &graph->producer)) return false;
  if (!parse_params(p, graph->body) || !text_expect(p, '{') || !parse_nodes(p, graph->body) ||
      !parse_results(p, graph->body, true)) {
    return false;
  }
  while (p->status == CV_OK && text_peek(p) != '\0') {
    if (text_accept_word(p, "state")) {
      parse_state(p);
    } else if (text_accept_word(p, "equal")) {
      parse_equality(p);
    } else {
      text_fail(p, "the end expected, \"%.16s\" found", p->at);
    }
  }
  return p->status == CV_OK;
}

/* Builders stand at the body's end again, as after cv_graph_create. */
static void reset(cv_graph *graph) {
  graph->at = graph->body;
  graph->guard = cv_expr_const(graph->exprs, 1);
  graph->region = CV_NO_REGION;
  graph->source = "";
}

cv_status cv_graph_parse(const char *text, cv_exprs *exprs, cv_const_find find, void *context,
                         cv_graph **out_graph) {
  text_parser p = {.start = text, .at = text, .find = find, .context = context};
  *out_graph = NULL;
  p.end = text + strnlen(text, TEXT_MAX_BYTES);
  if (p.end == text + TEXT_MAX_BYTES) {
    return cv_error(CV_INVALID, "a graph text of more than %d bytes", TEXT_MAX_BYTES);
  }
  p.graph = cv_graph_create(exprs);
  parse_graph(&p);
  reset(p.graph);
  if (p.status == CV_OK && cv_graph_verify(p.graph, "parsing") != CV_OK) {
    text_fail(&p, "%s", cv_error_text());
  }
  cv_map_deinit(&p.values);
  if (p.status == CV_OK) {
    *out_graph = p.graph;
  } else {
    cv_graph_destroy(p.graph);
  }
  return p.status;
}
