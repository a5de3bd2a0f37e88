/* The graph's inputs: types, symbols for dim_params, what the user fixed. */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/import_internal.h"
#include "onnx.pb-c.h"

typedef struct {
  cv_importer *im;
  cv_map fixed;      /* dim_param -> value */
  bool *used;        /* per --dim */
  const char *batch; /* the dim_param that --batch fixes, or NULL */
} input_reader;

static bool is_initializer(const cv_importer *im, const char *name) {
  uint64_t value;
  return cv_map_get_str(&im->scope->names, name, &value);
}

static const Onnx__TensorShapeProto *shape_of(const Onnx__ValueInfoProto *info) {
  return info->type && info->type->tensor_type ? info->type->tensor_type->shape : NULL;
}

static void fix(input_reader *r, const char *name, int64_t value) {
  if (!cv_map_put_str(&r->fixed, name, (uint64_t)value)) {
    cv_graph_fail(r->im->graph, CV_NOMEM, "out of memory for a dim's name");
  }
}

static const char *symbol_name(cv_graph *g, const char *input, size_t axis,
                               const Onnx__Dimension *dim) {
  if (dim->dim_param && dim->dim_param[0]) return dim->dim_param;
  return cv_arena_format(&g->arena, "%s.%zu", input, axis);
}

/* Whether the model says how large the dim is; some exporters write -1 for a dim that is not known.
 */
static bool is_fixed(const Onnx__Dimension *dim) {
  return dim->has_dim_value && dim->dim_value >= 0 && !(dim->dim_param && dim->dim_param[0]);
}

/* The symbol at axis 0 of the first input, or one that is named as batches are. */
static const char *find_batch(const cv_importer *im) {
  static const char *const names[] = {"batch", "N", "batch_size", "n"};
  const Onnx__GraphProto *graph = im->file->model->graph;
  for (size_t i = 0; i < graph->n_input; i++) {
    const Onnx__TensorShapeProto *shape = shape_of(graph->input[i]);
    const char *input = graph->input[i]->name ? graph->input[i]->name : "";
    if (is_initializer(im, input)) continue;
    if (shape && shape->n_dim && !is_fixed(shape->dim[0]))
      return symbol_name(im->graph, input, 0, shape->dim[0]);
    break;
  }
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    for (size_t i = 0; i < graph->n_input; i++) {
      const Onnx__TensorShapeProto *shape = shape_of(graph->input[i]);
      for (size_t d = 0; shape && d < shape->n_dim; d++) {
        const char *param = shape->dim[d]->dim_param;
        if (param && strcmp(param, names[k]) == 0) return param;
      }
    }
  }
  return NULL;
}

/* One dim of an input: a constant, a fixed or a free symbol. */
static cv_expr dim_of(input_reader *r, const char *input, size_t axis, const Onnx__Dimension *dim) {
  cv_graph *g = r->im->graph;
  uint64_t value;
  if (is_fixed(dim)) return e_const(g, dim->dim_value);
  const char *name = symbol_name(g, input, axis, dim);
  const cv_import_options *options = r->im->options;
  for (uint32_t i = 0; i < options->n_dims; i++) {
    if (strcmp(options->dims[i].name, name) == 0) r->used[i] = true;
  }
  if (cv_map_get_str(&r->fixed, name, &value)) return e_const(g, (int64_t)value);
  return cv_expr_symbol(g->exprs, cv_exprs_symbol(g->exprs, name, 1, CV_ONNX_MAX_DIM));
}

static bool type_of(input_reader *r, const Onnx__ValueInfoProto *info, cv_type *out) {
  cv_graph *g = r->im->graph;
  const Onnx__TensorType *tensor = info->type ? info->type->tensor_type : NULL;
  *out = (cv_type){0};
  if (!tensor) {
    cv_graph_fail(g, CV_UNSUPPORTED,
                  "input \"%s\" is no tensor (sequence, map, optional and sparse inputs are not "
                  "supported)",
                  info->name);
    return false;
  }
  if (!cv_dtype_from_onnx(tensor->elem_type, &out->dtype)) {
    cv_graph_fail(g, CV_UNSUPPORTED, "input \"%s\" has the element type %d, which is not supported",
                  info->name, tensor->elem_type);
    return false;
  }
  if (!tensor->shape || tensor->shape->n_dim > CV_MAX_RANK) {
    cv_graph_fail(g, CV_UNSUPPORTED, "input \"%s\" %s", info->name,
                  tensor->shape ? "has more than 8 dims"
                                : "has no shape: its number of dims must be declared");
    return false;
  }
  out->rank = (uint8_t)tensor->shape->n_dim;
  for (size_t i = 0; i < out->rank; i++) {
    out->dims[i] = dim_of(r, info->name, i, tensor->shape->dim[i]);
  }
  return cv_ok(g);
}

static const cv_fix_input *bind_of(const cv_importer *im, const char *name) {
  for (uint32_t i = 0; i < im->options->n_binds; i++) {
    if (strcmp(im->options->binds[i].name, name) == 0) return &im->options->binds[i];
  }
  return NULL;
}

/* Turns a --bind into a constant; the dim_params of its declared shape are thereby fixed. */
static void bind_input(input_reader *r, const Onnx__ValueInfoProto *info,
                       const cv_fix_input *bind) {
  cv_graph *g = r->im->graph;
  cv_type type;
  cv_val value;
  int64_t dims[CV_MAX_RANK];
  if (!type_of(r, info, &type)) return;
  for (int i = 0; i < type.rank; i++) {
    if (!cv_expr_is_const(g->exprs, type.dims[i], &dims[i])) dims[i] = -1;
  }
  cv_status status = cv_onnx_bind_value(g, bind, type.dtype, type.rank, dims, &value);
  if (status != CV_OK) {
    cv_graph_fail(g, status, "%s", cv_error_text());
    return;
  }
  const Onnx__TensorShapeProto *shape = shape_of(info);
  for (int i = 0; i < type.rank; i++) {
    const char *name = shape->dim[i]->dim_param;
    if (name && name[0]) fix(r, name, dims[i]);
  }
  cv_scope_put(r->im, r->im->scope, info->name, value);
}

/* Says which --dim and --bind name nothing. */
static void check_used(input_reader *r) {
  const cv_importer *im = r->im;
  for (uint32_t i = 0; i < im->options->n_dims; i++) {
    if (r->used[i]) continue;
    cv_graph_fail(im->graph, CV_INVALID, "--dim %s: no input has a dim of that name",
                  im->options->dims[i].name);
  }
  for (uint32_t i = 0; i < im->options->n_binds; i++) {
    uint64_t value;
    if (cv_map_get_str(&im->scope->names, im->options->binds[i].name, &value)) continue;
    cv_graph_fail(im->graph, CV_INVALID, "--bind %s: there is no input of that name",
                  im->options->binds[i].name);
  }
}

static void fix_dims(input_reader *r) {
  const cv_import_options *options = r->im->options;
  for (uint32_t i = 0; i < options->n_dims; i++) {
    if (options->dims[i].value < 0) {
      cv_graph_fail(r->im->graph, CV_INVALID, "--dim %s=%lld: a dim is not negative",
                    options->dims[i].name, (long long)options->dims[i].value);
    }
    fix(r, options->dims[i].name, options->dims[i].value);
  }
  if (options->batch <= 0) return;
  const char *batch = find_batch(r->im);
  if (batch) {
    fix(r, batch, options->batch);
  } else {
    cv_graph_fail(
        r->im->graph, CV_INVALID,
        "--batch %lld: the model fixes the first dim of its first input, and no other dim is "
        "named batch or N; export it with a symbolic batch, or name a dim by --dim NAME=N",
        (long long)options->batch);
  }
}

void cv_import_inputs(cv_importer *im) {
  const Onnx__GraphProto *graph = im->file->model->graph;
  input_reader r = {.im = im};
  r.used = cv_alloc_or_die(im->options->n_dims + 1, sizeof(bool));
  fix_dims(&r);
  for (size_t i = 0; i < graph->n_input && cv_ok(im->graph); i++) {
    const cv_fix_input *bind = bind_of(im, graph->input[i]->name ? graph->input[i]->name : "");
    if (bind) bind_input(&r, graph->input[i], bind);
  }
  for (size_t i = 0; i < graph->n_input && cv_ok(im->graph); i++) {
    const Onnx__ValueInfoProto *info = graph->input[i];
    cv_type type;
    if (!info->name || !info->name[0]) {
      cv_graph_fail(im->graph, CV_INVALID, "input %zu has no name", i);
    } else if (!is_initializer(im, info->name) && type_of(&r, info, &type)) {
      const char *name = cv_arena_strdup(&im->graph->arena, info->name);
      cv_val v = cv_graph_param(im->graph, im->graph->body, name, &type);
      cv_scope_put(im, im->scope, name, v);
      if (!cv_map_put_str(&im->taken, name, v)) {
        cv_graph_fail(im->graph, CV_NOMEM, "out of memory for an input's name");
      }
    }
  }
  if (cv_ok(im->graph)) check_used(&r);
  cv_map_deinit(&r.fixed);
  cv_free(r.used);
}
