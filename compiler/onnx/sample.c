#include "compiler/onnx/sample.h"

#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/import_internal.h"
#include "runtime/half.h"

enum {
  MAX_ELEMS = 4096, /* of a value that is computed here */
  MAX_DEPTH = 256   /* nodes one behind the other */
};

typedef struct {
  cv_on *n;
  int64_t *symbols; /* CV_UNBOUND: not asked for yet, or not known */
  uint32_t n_symbols, n_values;
  cv_tensor *values; /* those that are known; inputs and constants are borrowed */
  int depth;
} sampler;

static bool find_value(sampler *s, cv_val v, const cv_tensor **out);

/* Whether --state gives this input another value at each request. */
static bool is_carried(const cv_import_options *options, const char *input) {
  size_t length = strlen(input);
  for (uint32_t i = 0; i < options->n_states; i++) {
    const char *text = options->states[i];
    if (strncmp(text, input, length) == 0 && text[length] == '=') return true;
  }
  return false;
}

/* The tensor that the caller has for a param of the graph, or NULL. */
static const cv_tensor *input_tensor(cv_on *n, const cv_value_info *info) {
  const cv_import_options *options = n->importer->options;
  const cv_tensor *tensor = NULL;
  if (!options->value_of || info->block != n->g->body || !info->name) return NULL;
  cv_status status = options->value_of(options->context, info->def_index, info->name, &tensor);
  if (status != CV_OK) cv_on_fail(n, status, "%s", cv_error_text());
  if (status != CV_OK || !tensor) return NULL;
  if (tensor->dtype == info->type.dtype && tensor->rank == info->type.rank) return tensor;
  cv_on_fail(n, CV_INVALID, "input \"%s\" is %s, the value given for it %s", info->name,
             cv_type_text(n->g, &info->type), cv_tensor_shape_text(tensor).text);
  return NULL;
}

/* ---- symbols ---- */

/* The given dim that binds `sym`: of an input where that dim is the symbol alone. */
static bool dim_of_input(const sampler *s, cv_sym sym, int64_t *out) {
  const cv_graph *g = s->n->g;
  for (uint32_t i = 0; i < g->body->params.len; i++) {
    const cv_value_info *info = cv_value_of(g, g->body->params.data[i]);
    cv_sym own;
    for (int d = 0; d < info->type.rank; d++) {
      if (!cv_expr_is_symbol(g->exprs, info->type.dims[d], &own) || own != sym) continue;
      const cv_tensor *tensor = input_tensor(s->n, info);
      if (!tensor) break;
      *out = tensor->dims[d];
      return true;
    }
  }
  return false;
}

/* The element that binds `sym`, in the block at hand or one around it. */
static bool bound_element(sampler *s, cv_sym sym, int64_t *out) {
  const cv_graph *g = s->n->g;
  for (const cv_block *block = g->at; block; block = block->parent) {
    for (size_t i = block->nodes.len; i-- > 0;) {
      const cv_node *node = block->nodes.data[i];
      const cv_attr *exprs = node->op == CV_OP_bind ? cv_node_attr(node, CV_ATTR_EXPRS) : NULL;
      cv_sym own;
      for (uint32_t k = 0; exprs && k < exprs->count; k++) {
        if (!cv_expr_is_symbol(g->exprs, exprs->exprs[k], &own) || own != sym) continue;
        const cv_tensor *tensor;
        if (!find_value(s, node->ins[0], &tensor)) return false;
        size_t size = cv_dtype_size(tensor->dtype);
        *out = cv_element_to_int(tensor->dtype, (const char *)tensor->data + k * size);
        return true;
      }
    }
  }
  return false;
}

/* Gives the symbols of an expression their values. */
static bool find_symbols(sampler *s, cv_expr e) {
  int64_t value;
  if (e == CV_EXPR_NONE || cv_expr_is_const(s->n->g->exprs, e, &value)) return true;
  for (cv_sym sym = 0; sym < s->n_symbols; sym++) {
    if (s->symbols[sym] != CV_UNBOUND || !cv_expr_uses(s->n->g->exprs, e, sym)) continue;
    if (!dim_of_input(s, sym, &value) && !bound_element(s, sym, &value)) return false;
    s->symbols[sym] = value;
  }
  return true;
}

/* The dims of a type: false where one is not known or there are many elements. */
static bool find_dims(sampler *s, const cv_type *type, int64_t *out_dims) {
  int64_t count = 1;
  for (int d = 0; d < type->rank; d++) {
    bool good = find_symbols(s, type->dims[d]) &&
                cv_expr_eval(s->n->g->exprs, type->dims[d], s->symbols, &out_dims[d]) == CV_OK;
    if (!good || out_dims[d] < 0 || out_dims[d] > MAX_ELEMS) return false;
    count *= out_dims[d];
    if (count > MAX_ELEMS) return false;
  }
  return true;
}

/* ---- values ---- */

static bool constant_tensor(const cv_value_info *info, const int64_t *dims, cv_tensor *out) {
  size_t size = cv_dtype_size(info->type.dtype);
  if (!info->data.data) return false;
  if (!info->data.splat) {
    *out =
        (cv_tensor){.dtype = info->type.dtype, .rank = info->type.rank, .bytes = info->data.bytes};
    memcpy(out->dims, dims, info->type.rank * sizeof *dims);
    out->data = (void *)(uintptr_t)info->data.data;
    return true;
  }
  if (cv_tensor_create(info->type.dtype, info->type.rank, dims, out) != CV_OK) return false;
  for (uint64_t i = 0; i < out->bytes / size; i++)
    memcpy((char *)out->data + i * size, info->data.data, size);
  return true;
}

static bool find_attrs(sampler *s, const cv_node *node) {
  bool good = true;
  for (uint32_t i = 0; i < node->n_attrs && good; i++) {
    const cv_attr *attr = &node->attrs[i];
    cv_attr_kind kind = cv_attr_kind_of(attr->key);
    if (kind == CV_KIND_EXPR) good = find_symbols(s, attr->e);
    for (uint32_t k = 0; kind == CV_KIND_EXPRS && k < attr->count && good; k++)
      good = find_symbols(s, attr->exprs[k]);
  }
  return good;
}

/* What a node without blocks makes of values that are known. */
static bool compute(sampler *s, const cv_node *node) {
  const cv_graph *g = s->n->g;
  cv_op_class class = cv_op_get(node->op)->class_;
  int64_t dims[CV_MAX_RANK];
  if (class == CV_CLASS_BIND || class == CV_CLASS_CONTROL || node->op == CV_OP_random) return false;
  for (uint32_t i = 0; i < node->n_outs; i++)
    if (!find_dims(s, cv_type_of(g, node->outs[i]), dims)) return false;
  if (!find_attrs(s, node)) return false;
  cv_tensor *ins = cv_alloc_or_die(node->n_ins + 1, sizeof *ins);
  cv_tensor *outs = cv_alloc_or_die(node->n_outs + 1, sizeof *outs);
  bool good = true;
  for (uint32_t i = 0; i < node->n_ins && good; i++) {
    const cv_tensor *in;
    good = find_value(s, node->ins[i], &in);
    if (good) ins[i] = *in;
  }
  good = good && cv_node_interpret(g, node, ins, s->symbols, outs) == CV_OK;
  for (uint32_t i = 0; i < node->n_outs && good; i++) s->values[node->outs[i]] = outs[i];
  cv_free(ins);
  cv_free(outs);
  return good;
}

static bool find_value(sampler *s, cv_val v, const cv_tensor **out) {
  const cv_graph *g = s->n->g;
  if (v >= s->n_values || !cv_ok(g)) return false;
  cv_tensor *held = &s->values[v];
  const cv_value_info *info = cv_value_of(g, v);
  int64_t dims[CV_MAX_RANK];
  *out = held;
  if (held->data) return true;
  if (s->depth == MAX_DEPTH || !find_dims(s, &info->type, dims)) return false;
  if (info->def) {
    s->depth++;
    bool good = compute(s, info->def);
    s->depth--;
    return good;
  }
  if (info->is_const && !info->block) return constant_tensor(info, dims, held);
  if (!info->name || is_carried(s->n->importer->options, info->name)) return false;
  const cv_tensor *tensor = input_tensor(s->n, info);
  if (tensor) *held = *tensor;
  held->owned = false;
  return tensor != NULL;
}

/* ---- all ---- */

static bool begin(sampler *s, cv_on *n) {
  *s = (sampler){
      .n = n, .n_symbols = cv_exprs_symbols(n->g->exprs), .n_values = (uint32_t)n->g->values.len};
  if (!n->importer->options->value_of || !cv_ok(n->g)) return false;
  s->symbols = cv_alloc_or_die(s->n_symbols + 1u, sizeof *s->symbols);
  for (uint32_t i = 0; i < s->n_symbols; i++) s->symbols[i] = CV_UNBOUND;
  s->values = cv_alloc_or_die(s->n_values + 1u, sizeof *s->values);
  return true;
}

static void end(sampler *s) {
  for (uint32_t i = 0; s->values && i < s->n_values; i++) cv_tensor_deinit(&s->values[i]);
  cv_free(s->symbols);
  cv_free(s->values);
}

bool cv_on_sample(cv_on *n, cv_expr e, int64_t *out_value) {
  sampler s;
  bool known = begin(&s, n) && find_symbols(&s, e) &&
               cv_expr_eval(n->g->exprs, e, s.symbols, out_value) == CV_OK;
  end(&s);
  return known;
}

cv_val cv_sample_const(cv_on *n, cv_val v) {
  sampler s;
  const cv_tensor *tensor;
  cv_val value = CV_ABSENT;
  if (begin(&s, n) && find_value(&s, v, &tensor))
    value = cv_graph_const(n->g, tensor->dtype, tensor->rank, tensor->dims, tensor->data);
  end(&s);
  return cv_ok(n->g) ? value : CV_POISON;
}
