/* Looks through the whole model for ops that nothing takes, so that a user sees all at once. */
#include <string.h>

#include "compiler/onnx/import_internal.h"
#include "onnx.pb-c.h"

typedef struct {
  char *op;
  int64_t opset;
  uint32_t count;
  cv_str nodes; /* names of the first few */
} unknown_op;

typedef struct {
  const cv_onnx_file *file;
  cv_vec(unknown_op) ops;
  bool *seen; /* a flag per local function */
} search;

static void walk(search *s, const cv_frame *frame, Onnx__NodeProto *const *nodes, size_t n);

static void note(search *s, const cv_frame *frame, const Onnx__NodeProto *node) {
  const char *domain = cv_onnx_domain(node->domain), *op = node->op_type ? node->op_type : "?";
  const char *name = node->name && node->name[0] ? node->name
                     : node->n_output            ? node->output[0]
                                                 : "";
  char *full = cv_format("%s%s%s", domain, domain[0] ? "." : "", op);
  unknown_op *found = NULL;
  if (!full) return;
  for (size_t i = 0; i < s->ops.len && !found; i++) {
    if (strcmp(s->ops.data[i].op, full) == 0) found = &s->ops.data[i];
  }
  if (found) {
    cv_free(full);
  } else {
    unknown_op made = {.op = full, .opset = cv_frame_opset(frame, domain), .nodes.may_die = true};
    if (!cv_vec_push(&s->ops, made)) {
      cv_free(full);
      return;
    }
    found = &s->ops.data[s->ops.len - 1];
  }
  found->count++;
  if (found->count <= 3) cv_str_add(&found->nodes, "%s%s", found->count > 1 ? ", " : "", name);
  if (found->count == 4) cv_str_puts(&found->nodes, ", ...");
}

static void visit(search *s, const cv_frame *frame, const Onnx__NodeProto *node) {
  const Onnx__FunctionProto *f = cv_onnx_function(s->file, node);
  const char *domain = cv_onnx_domain(node->domain);
  if (f) {
    size_t index = 0;
    while (s->file->model->functions[index] != f) index++;
    if (s->seen[index] || frame->depth > CV_ONNX_MAX_CALLS) return; /* the import refuses depth */
    s->seen[index] = true;
    cv_frame inner = {frame, f, node, f->opset_import, f->n_opset_import, frame->depth + 1};
    walk(s, &inner, f->node, f->n_node);
  } else if (!node->op_type ||
             !cv_onnx_find(node->op_type, domain, cv_frame_opset(frame, domain))) {
    note(s, frame, node);
  }
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__GraphProto *g = node->attribute[i]->g;
    if (g) walk(s, frame, g->node, g->n_node);
  }
}

static void walk(search *s, const cv_frame *frame, Onnx__NodeProto *const *nodes, size_t n) {
  for (size_t i = 0; i < n; i++) visit(s, frame, nodes[i]);
}

cv_status cv_onnx_check_ops(const cv_onnx_file *file) {
  const Onnx__ModelProto *model = file->model;
  cv_status status = CV_OK;
  cv_str text = {.may_die = true};
  search s = {.file = file};
  cv_frame frame = {.opsets = model->opset_import, .n_opsets = model->n_opset_import};
  s.seen = cv_alloc_or_die(model->n_functions + 1, sizeof(bool));
  walk(&s, &frame, model->graph->node, model->graph->n_node);
  for (size_t i = 0; i < s.ops.len; i++) {
    unknown_op *op = &s.ops.data[i];
    cv_str_add(&text, "%s%s (opset %lld, %u %s: %s)", i ? "; " : "", op->op, (long long)op->opset,
               op->count, op->count == 1 ? "node" : "nodes", cv_str_text(&op->nodes));
    cv_str_deinit(&op->nodes);
    cv_free(op->op);
  }
  if (s.ops.len) {
    status = cv_error(CV_UNSUPPORTED, "%s: operators that are not supported: %s; see docs/onnx.md",
                      file->path, cv_str_text(&text));
  }
  cv_str_deinit(&text);
  cv_vec_deinit(&s.ops);
  cv_free(s.seen);
  return status;
}
