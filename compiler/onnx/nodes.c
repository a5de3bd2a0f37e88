/* Walks nodes: looks up inputs, inlines local functions, calls the rows' builders. */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/tensor.h"
#include "onnx.pb-c.h"

bool cv_scope_find(const cv_scope *scope, const char *name, cv_val *out_value) {
  uint64_t value;
  for (; scope; scope = scope->parent) {
    if (!cv_map_get_str(&scope->names, name, &value)) continue;
    *out_value = (cv_val)value;
    return true;
  }
  *out_value = CV_POISON;
  return false;
}

void cv_scope_put(cv_importer *im, cv_scope *scope, const char *name, cv_val value) {
  if (!cv_map_put_str(&scope->names, name, value)) {
    cv_graph_fail(im->graph, CV_NOMEM, "out of memory for the name of a value");
  }
}

const char *cv_onnx_domain(const char *domain) {
  return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

int64_t cv_frame_opset(const cv_frame *frame, const char *domain) {
  domain = cv_onnx_domain(domain);
  for (size_t i = 0; i < frame->n_opsets; i++) {
    if (strcmp(cv_onnx_domain(frame->opsets[i]->domain), domain) == 0) {
      return frame->opsets[i]->version;
    }
  }
  return 0;
}

const Onnx__FunctionProto *cv_onnx_function(const cv_onnx_file *file, const Onnx__NodeProto *node) {
  for (size_t i = 0; i < file->model->n_functions; i++) {
    const Onnx__FunctionProto *f = file->model->functions[i];
    if (f->name && node->op_type && strcmp(f->name, node->op_type) == 0 &&
        strcmp(cv_onnx_domain(f->domain), cv_onnx_domain(node->domain)) == 0 &&
        strcmp(f->overload ? f->overload : "", node->overload ? node->overload : "") == 0) {
      return f;
    }
  }
  return NULL;
}

static const char *label_of(const Onnx__NodeProto *node) {
  if (node->name && node->name[0]) return node->name;
  for (size_t i = 0; i < node->n_output; i++) {
    if (node->output[i][0]) return node->output[i];
  }
  return "";
}

/* Adds which node it was to the sticky error, once. */
static void blame(cv_importer *im, const Onnx__NodeProto *node) {
  cv_graph *g = im->graph;
  if (im->blamed || g->status == CV_OK) return;
  im->blamed = true;
  if (g->error && cv_starts_with(g->error, "node \"")) return;
  g->error = cv_arena_format(&g->arena, "node \"%s\" (%s): %s", label_of(node),
                             node->op_type ? node->op_type : "?", g->error ? g->error : "");
}

/* The model's names for values of its outermost graph; the first name of a value stays. */
static void name_value(cv_importer *im, const char *name, cv_val v) {
  uint64_t seen;
  if (v >= CV_ABSENT || im->scope->parent || im->frame->function) return;
  cv_value_info *info = cv_value_of(im->graph, v);
  if (info->name || cv_map_get_str(&im->taken, name, &seen)) return;
  info->name = cv_arena_strdup(&im->graph->arena, name);
  if (!cv_map_put_str(&im->taken, name, v)) {
    cv_graph_fail(im->graph, CV_NOMEM, "out of memory for the name of a value");
  }
}

static void put_outputs(cv_importer *im, const Onnx__NodeProto *node, const cv_val *outs) {
  for (size_t i = 0; i < node->n_output && cv_ok(im->graph); i++) {
    const char *name = node->output[i];
    if (!name[0]) continue;
    if (outs[i] >= CV_ABSENT) {
      cv_graph_fail(im->graph, CV_UNSUPPORTED, "its output %zu (\"%s\") is not supported", i, name);
      return;
    }
    cv_scope_put(im, im->scope, name, outs[i]);
    name_value(im, name, outs[i]);
  }
}

static void call_row(cv_importer *im, const Onnx__NodeProto *node, const cv_onnx_row *row,
                     cv_val *ins, cv_val *outs) {
  cv_graph *g = im->graph;
  cv_on n = {.importer = im,
             .g = g,
             .proto = node,
             .row = row,
             .label = cv_arena_strdup(&g->arena, label_of(node)),
             .opset = cv_frame_opset(im->frame, node->domain),
             .n_in = (uint32_t)node->n_input,
             .n_out = (uint32_t)node->n_output,
             .in = ins,
             .out = outs};
  uint32_t region = g->region;
  const char *source = g->source;
  g->source = n.label;
  if (row->composite && region == CV_NO_REGION) {
    cv_region made = {n.label, row->op, row->domain, n.opset};
    if (!cv_vec_push(&g->regions, made)) {
      cv_graph_fail(g, CV_NOMEM, "out of memory for a region");
    }
    g->region = (uint32_t)g->regions.len - 1;
  }
  row->build(&n);
  g->region = region;
  g->source = source;
}

/* A local function's body in place of its call. */
static void call_function(cv_importer *im, const Onnx__NodeProto *node,
                          const Onnx__FunctionProto *f, const cv_val *ins, cv_val *outs) {
  const cv_frame *caller = im->frame;
  cv_scope *outer = im->scope;
  cv_frame frame = {caller, f, node, f->opset_import, f->n_opset_import, caller->depth + 1};
  if (frame.depth > CV_ONNX_MAX_CALLS) {
    cv_graph_fail(im->graph, CV_INVALID, "local functions call each other more than %d deep",
                  CV_ONNX_MAX_CALLS);
    return;
  }
  if (node->n_input > f->n_input || node->n_output > f->n_output) {
    cv_graph_fail(im->graph, CV_INVALID, "the function has %zu inputs and %zu outputs", f->n_input,
                  f->n_output);
    return;
  }
  cv_scope scope = {0};
  im->frame = &frame;
  im->scope = &scope;
  for (size_t i = 0; i < f->n_input; i++) {
    cv_scope_put(im, &scope, f->input[i], i < node->n_input ? ins[i] : CV_ABSENT);
  }
  cv_import_nodes(im, f->node, f->n_node);
  for (size_t i = 0; i < node->n_output && cv_ok(im->graph); i++) {
    if (!cv_scope_find(&scope, f->output[i], &outs[i]) && node->output[i][0]) {
      cv_graph_fail(im->graph, CV_INVALID, "the function does not make its output \"%s\"",
                    f->output[i]);
    }
  }
  im->frame = caller;
  im->scope = outer;
  cv_map_deinit(&scope.names);
}

static void import_node(cv_importer *im, const Onnx__NodeProto *node) {
  cv_graph *g = im->graph;
  const char *op = node->op_type ? node->op_type : "";
  cv_val *ins = cv_arena_array(&g->arena, cv_val, node->n_input + 1);
  cv_val *outs = cv_arena_array(&g->arena, cv_val, node->n_output + 1);
  for (size_t i = 0; i < node->n_input; i++) {
    if (node->input[i][0] == '\0') {
      ins[i] = CV_ABSENT;
    } else if (!cv_scope_find(im->scope, node->input[i], &ins[i])) {
      cv_graph_fail(g, CV_INVALID,
                    "reads \"%s\", which is no input, no initializer and no earlier output",
                    node->input[i]);
      return;
    }
  }
  for (size_t i = 0; i < node->n_output; i++) outs[i] = CV_POISON;
  if (++im->visited > CV_ONNX_MAX_NODES) {
    cv_graph_fail(g, CV_INVALID, "more than %d nodes once functions are inlined",
                  CV_ONNX_MAX_NODES);
    return;
  }
  const Onnx__FunctionProto *function = cv_onnx_function(im->file, node);
  int64_t opset = cv_frame_opset(im->frame, node->domain);
  const cv_onnx_row *row = function ? NULL : cv_onnx_find(op, cv_onnx_domain(node->domain), opset);
  if (function) {
    call_function(im, node, function, ins, outs);
  } else if (row) {
    call_row(im, node, row, ins, outs);
  } else {
    cv_graph_fail(g, CV_UNSUPPORTED, "the operator is not supported at opset %lld",
                  (long long)opset);
  }
  if (cv_ok(g)) put_outputs(im, node, outs);
}

void cv_import_nodes(cv_importer *im, Onnx__NodeProto *const *nodes, size_t n) {
  for (size_t i = 0; i < n && cv_ok(im->graph); i++) {
    import_node(im, nodes[i]);
    blame(im, nodes[i]);
  }
}

void cv_import_initializers(cv_importer *im, const Onnx__GraphProto *graph) {
  cv_graph *g = im->graph;
  if (graph->n_sparse_initializer) {
    cv_graph_fail(g, CV_UNSUPPORTED, "sparse initializers are not supported: make them dense");
    return;
  }
  for (size_t i = 0; i < graph->n_initializer; i++) {
    cv_onnx_tensor tensor;
    cv_val value = CV_POISON;
    cv_status status =
        cv_onnx_tensor_at(im->file, &graph->initializer[i], "an initializer", &tensor);
    if (status == CV_OK) status = cv_onnx_tensor_const(im->file, g, &tensor, &value);
    if (status != CV_OK) {
      im->blamed = true;
      cv_graph_fail(g, status, "%s", cv_error_text());
      return;
    }
    if (!tensor.name_size) continue; /* nobody can read it */
    const char *name = cv_arena_strndup(&g->arena, (const char *)tensor.name, tensor.name_size);
    cv_scope_put(im, im->scope, name, value);
    name_value(im, name, value);
  }
}
