#include "compiler/onnx/node.h"

#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/sample.h"
#include "compiler/onnx/tensor.h"
#include "onnx.pb-c.h"

cv_val cv_on_fail(cv_on *n, cv_status code, const char *format, ...) {
  va_list args;
  cv_str text = {.may_die = true};
  va_start(args, format);
  cv_str_addv(&text, format, args);
  va_end(args);
  cv_graph_fail(n->g, code, "%s", cv_str_text(&text));
  cv_str_deinit(&text);
  return CV_POISON;
}

bool cv_on_wants(const cv_on *n, uint32_t i) {
  return i < n->proto->n_output && n->proto->output[i][0] != '\0';
}

static const Onnx__AttributeProto *find(Onnx__AttributeProto *const *list, size_t n,
                                        const char *name) {
  for (size_t i = 0; i < n; i++) {
    if (list[i]->name && strcmp(list[i]->name, name) == 0) return list[i];
  }
  return NULL;
}

const Onnx__AttributeProto *cv_on_attr(const cv_on *n, const char *name) {
  const Onnx__AttributeProto *attr = find(n->proto->attribute, n->proto->n_attribute, name);
  for (const cv_frame *frame = n->importer->frame;
       attr && attr->ref_attr_name && attr->ref_attr_name[0]; frame = frame->caller) {
    if (!frame->function) return NULL;
    const char *wanted = attr->ref_attr_name;
    attr = find(frame->call->attribute, frame->call->n_attribute, wanted);
    if (!attr) {
      return find(frame->function->attribute_proto, frame->function->n_attribute_proto, wanted);
    }
  }
  return attr;
}

int64_t cv_on_int(const cv_on *n, const char *name, int64_t otherwise) {
  const Onnx__AttributeProto *attr = cv_on_attr(n, name);
  return !attr ? otherwise : attr->i;
}

double cv_on_float(const cv_on *n, const char *name, double otherwise) {
  const Onnx__AttributeProto *attr = cv_on_attr(n, name);
  return !attr ? otherwise : (double)attr->f;
}

const char *cv_on_text(const cv_on *n, const char *name, const char *otherwise) {
  const Onnx__AttributeProto *attr = cv_on_attr(n, name);
  if (!attr) return otherwise;
  return attr->s.len ? cv_arena_strndup(&n->g->arena, (const char *)attr->s.data, attr->s.len) : "";
}

const int64_t *cv_on_ints(const cv_on *n, const char *name, uint32_t *out_n) {
  static const int64_t none[1];
  const Onnx__AttributeProto *attr = cv_on_attr(n, name);
  *out_n = attr ? (uint32_t)attr->n_ints : 0;
  return !attr ? NULL : attr->n_ints ? attr->ints : none;
}

const float *cv_on_floats(const cv_on *n, const char *name, uint32_t *out_n) {
  static const float none[1];
  const Onnx__AttributeProto *attr = cv_on_attr(n, name);
  *out_n = attr ? (uint32_t)attr->n_floats : 0;
  return !attr ? NULL : attr->n_floats ? attr->floats : none;
}

static void not_known(cv_on *n, uint32_t i, const char *what) {
  const cv_value_info *info = cv_value_of(n->g, n->in[i]);
  bool input = info->block == n->g->body && info->name;
  cv_on_fail(n, CV_UNSUPPORTED,
             "input %u (%s, \"%s\") must be known when the model is compiled%s%s%s", i, what,
             info->name ? info->name : n->proto->input[i], input ? ": give --bind " : "",
             input ? info->name : "", input ? "=VALUE" : "");
}

/* The elements where all of them are constants. */
static const int64_t *constant_elems(cv_on *n, cv_val v, uint32_t *out_n) {
  const cv_expr *elems;
  if (!cv_graph_elems(n->g, v, &elems, out_n)) return NULL;
  int64_t *ints = cv_arena_array(&n->g->arena, int64_t, *out_n + 1);
  for (uint32_t i = 0; i < *out_n; i++) {
    if (!cv_expr_is_const(n->g->exprs, elems[i], &ints[i])) return NULL;
  }
  return ints;
}

const int64_t *cv_on_known_ints(cv_on *n, uint32_t i, const char *what, uint32_t *out_n) {
  *out_n = 0;
  if (!cv_on_has(n, i) || n->in[i] == CV_POISON) return NULL;
  uint64_t count = 0;
  const int64_t *ints = cv_graph_ints(n->g, n->in[i], &count);
  if (ints) {
    *out_n = (uint32_t)count;
    return ints;
  }
  ints = constant_elems(n, n->in[i], out_n);
  if (ints) return ints;
  cv_val known = cv_sample_const(n, n->in[i]);
  if (known < CV_ABSENT) ints = cv_graph_ints(n->g, known, &count);
  *out_n = (uint32_t)count;
  if (!ints && cv_ok(n->g)) not_known(n, i, what);
  return ints;
}

const double *cv_on_known_doubles(cv_on *n, uint32_t i, const char *what, uint32_t *out_n) {
  *out_n = 0;
  if (!cv_on_has(n, i) || n->in[i] == CV_POISON) return NULL;
  uint64_t count = 0;
  const double *values = cv_graph_doubles(n->g, n->in[i], &count);
  if (!values) {
    cv_val known = cv_sample_const(n, n->in[i]);
    if (known < CV_ABSENT) values = cv_graph_doubles(n->g, known, &count);
  }
  *out_n = (uint32_t)count;
  if (!values && cv_ok(n->g)) not_known(n, i, what);
  return values;
}

int64_t cv_on_known_int(cv_on *n, uint32_t i, const char *what, int64_t otherwise) {
  uint32_t count;
  if (!cv_on_has(n, i)) return otherwise;
  const int64_t *ints = cv_on_known_ints(n, i, what, &count);
  if (!ints) return otherwise;
  if (count != 1) cv_on_fail(n, CV_INVALID, "input %u (%s) must hold one number", i, what);
  return count == 1 ? ints[0] : otherwise;
}

const cv_expr *cv_on_exprs_of(cv_on *n, cv_val v, int64_t lo, int64_t hi, uint32_t *out_n) {
  const cv_expr *elems = NULL;
  *out_n = 0;
  if (v >= CV_ABSENT) return NULL;
  if (cv_graph_elems(n->g, v, &elems, out_n)) return elems;
  n->importer->symbols++;
  const char *name =
      cv_arena_format(&n->g->arena, "%s.%llu", n->label, (unsigned long long)n->importer->symbols);
  return cv_graph_bind_elems(n->g, v, name, lo, hi, &elems, out_n) ? elems : NULL;
}

const cv_expr *cv_on_exprs(cv_on *n, uint32_t i, int64_t lo, int64_t hi, uint32_t *out_n) {
  return cv_on_exprs_of(n, cv_on_in(n, i), lo, hi, out_n);
}

int cv_on_axis(cv_on *n, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    cv_on_fail(n, CV_INVALID, "axis %lld is outside of a tensor of %d dims", (long long)axis, rank);
    return 0;
  }
  return (int)(axis < 0 ? axis + rank : axis);
}

bool cv_on_axes(cv_on *n, uint32_t i, int64_t since, int rank, uint32_t *out_mask) {
  uint32_t count;
  const int64_t *axes;
  *out_mask = 0;
  if (n->opset >= since && cv_on_has(n, i)) {
    axes = cv_on_known_ints(n, i, "axes", &count);
  } else {
    axes = cv_on_ints(n, "axes", &count);
  }
  if (!axes || count == 0) return false;
  for (uint32_t k = 0; k < count && cv_ok(n->g); k++) {
    *out_mask |= 1u << cv_on_axis(n, axes[k], rank);
  }
  return true;
}

static const Onnx__GraphProto *subgraph(cv_on *n, const char *attr) {
  const Onnx__AttributeProto *found = cv_on_attr(n, attr);
  if (found && found->g) return found->g;
  cv_on_fail(n, CV_INVALID, "has no graph \"%s\"", attr);
  return NULL;
}

bool cv_on_subgraph_size(cv_on *n, const char *attr, uint32_t *out_ins, uint32_t *out_outs) {
  const Onnx__GraphProto *graph = subgraph(n, attr);
  *out_ins = graph ? (uint32_t)graph->n_input : 0;
  *out_outs = graph ? (uint32_t)graph->n_output : 0;
  return graph != NULL;
}

void cv_on_subgraph(cv_on *n, const char *attr, const cv_val *args, uint32_t n_args, cv_val *outs,
                    uint32_t n_outs) {
  cv_importer *im = n->importer;
  const Onnx__GraphProto *graph = subgraph(n, attr);
  for (uint32_t i = 0; i < n_outs; i++) outs[i] = CV_POISON;
  if (!graph) return;
  if (graph->n_input != n_args || graph->n_output != n_outs) {
    cv_on_fail(n, CV_INVALID, "graph \"%s\" has %zu inputs and %zu outputs, %u and %u are needed",
               attr, graph->n_input, graph->n_output, n_args, n_outs);
    return;
  }
  cv_scope scope = {.parent = im->scope};
  uint32_t region = n->g->region;
  const char *source = n->g->source;
  im->scope = &scope;
  for (uint32_t i = 0; i < n_args; i++) {
    if (graph->input[i]->name) cv_scope_put(im, &scope, graph->input[i]->name, args[i]);
  }
  cv_import_initializers(im, graph);
  cv_import_nodes(im, graph->node, graph->n_node);
  for (uint32_t i = 0; i < n_outs && cv_ok(n->g); i++) {
    const char *name = graph->output[i]->name ? graph->output[i]->name : "";
    if (!cv_scope_find(&scope, name, &outs[i])) {
      cv_on_fail(n, CV_INVALID, "graph \"%s\" does not make its output \"%s\"", attr, name);
    }
  }
  im->scope = scope.parent;
  n->g->region = region;
  n->g->source = source;
  cv_map_deinit(&scope.names);
}

cv_val cv_on_tensor(cv_on *n, const char *name) {
  const Onnx__AttributeProto *attr = cv_on_attr(n, name);
  cv_onnx_tensor tensor;
  cv_val value = CV_ABSENT;
  if (!attr) return value;
  cv_status status = cv_onnx_tensor_at(n->importer->file, &attr->t, n->label, &tensor);
  if (status == CV_OK) {
    status = cv_onnx_tensor_const(n->importer->file, n->g, &tensor, &value);
  }
  return status == CV_OK ? value : cv_graph_fail(n->g, status, "%s", cv_error_text());
}

bool cv_on_choose(cv_on *n, bool first, bool *out_choice) {
  cv_choices *choices = n->importer->choices;
  *out_choice = first;
  if (choices->used == CV_ONNX_MAX_CHOICES) return false;
  if (choices->used == choices->decided) choices->as_first[choices->decided++] = true;
  *out_choice = choices->as_first[choices->used++] ? first : !first;
  return true;
}

cv_expr cv_on_symbol(cv_on *n, const char *what, int64_t lo, int64_t hi) {
  n->importer->symbols++;
  const char *name = cv_arena_format(&n->g->arena, "%s.%s.%llu", n->label, what,
                                     (unsigned long long)n->importer->symbols);
  return cv_expr_symbol(n->g->exprs, cv_exprs_symbol(n->g->exprs, name, lo, hi));
}
