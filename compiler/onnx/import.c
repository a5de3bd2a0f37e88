#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/import_internal.h"
#include "onnx.pb-c.h"

static void release_file(void *owner) { cv_onnx_file_close(owner); }

static void check_version(cv_importer *im) {
  const Onnx__ModelProto *model = im->file->model;
  int64_t opset = cv_frame_opset(im->frame, "");
  if (model->ir_version < 3) {
    cv_graph_fail(im->graph, CV_UNSUPPORTED, "IR version %lld is too old; 3 and up are supported",
                  (long long)model->ir_version);
  } else if (opset > CV_ONNX_NEWEST_OPSET) {
    cv_graph_fail(im->graph, CV_UNSUPPORTED,
                  "opset %lld is newer than the newest that is supported, %d: export the model for "
                  "an older one",
                  (long long)opset, CV_ONNX_NEWEST_OPSET);
  } else if (opset != 0 && opset < CV_ONNX_OLDEST_OPSET) {
    cv_graph_fail(im->graph, CV_UNSUPPORTED,
                  "opset %lld is older than the oldest that is supported, %d: convert the model to "
                  "a newer one",
                  (long long)opset, CV_ONNX_OLDEST_OPSET);
  }
}

static void import_outputs(cv_importer *im) {
  const Onnx__GraphProto *graph = im->file->model->graph;
  cv_graph *g = im->graph;
  for (size_t i = 0; i < graph->n_output && cv_ok(g); i++) {
    const char *name = graph->output[i]->name ? graph->output[i]->name : "";
    cv_val v;
    if (!cv_scope_find(im->scope, name, &v)) {
      cv_graph_fail(g, CV_INVALID, "no node makes the output \"%s\"", name);
    } else if (!cv_vec_push(&g->body->results, v) ||
               !cv_vec_push(&g->result_names, cv_arena_strdup(&g->arena, name))) {
      cv_graph_fail(g, CV_NOMEM, "out of memory for the outputs");
    }
  }
  if (graph->n_output == 0) cv_graph_fail(g, CV_INVALID, "the graph has no outputs");
}

static bool find_param(const cv_graph *g, const char *name, size_t length, uint32_t *out) {
  for (uint32_t i = 0; i < g->body->params.len; i++) {
    const char *have = cv_value_of(g, g->body->params.data[i])->name;
    if (have && strlen(have) == length && memcmp(have, name, length) == 0) {
      *out = i;
      return true;
    }
  }
  return false;
}

/* --state IN=OUT: an output that goes into an input of the next request. */
static void import_state(cv_importer *im, const char *text) {
  cv_graph *g = im->graph;
  const char *equals = strchr(text, '=');
  cv_graph_state state = {0};
  bool found = false;
  if (!equals) {
    cv_graph_fail(g, CV_INVALID, "--state %s: the form is IN=OUT", text);
    return;
  }
  if (!find_param(g, text, (size_t)(equals - text), &state.input)) {
    cv_graph_fail(g, CV_INVALID, "--state %s: there is no input \"%.*s\"", text,
                  (int)(equals - text), text);
    return;
  }
  for (uint32_t i = 0; i < g->result_names.len && !found; i++) {
    found = strcmp(g->result_names.data[i], equals + 1) == 0;
    if (found) state.output = i;
  }
  if (!found) {
    cv_graph_fail(g, CV_INVALID, "--state %s: there is no output \"%s\"", text, equals + 1);
    return;
  }
  const cv_type *in = cv_ty(g, g->body->params.data[state.input]);
  const cv_type *out = cv_ty(g, g->body->results.data[state.output]);
  if (in->dtype != out->dtype || in->rank != out->rank) {
    cv_graph_fail(g, CV_INVALID, "--state %s: %s goes not into %s", text, cv_type_text(g, out),
                  cv_type_text(g, in));
  } else if (!cv_vec_push(&g->states, state)) {
    cv_graph_fail(g, CV_NOMEM, "out of memory for a state");
  }
}

static void import_graph(cv_importer *im) {
  const Onnx__ModelProto *model = im->file->model;
  cv_graph *g = im->graph;
  const char *producer = model->producer_name ? model->producer_name : "";
  const char *version = model->producer_version ? model->producer_version : "";
  g->name = cv_arena_strdup(&g->arena, model->graph->name ? model->graph->name : "");
  g->producer =
      cv_arena_format(&g->arena, "%s%s%s", producer, producer[0] && version[0] ? " " : "", version);
  check_version(im);
  if (cv_ok(g)) cv_import_initializers(im, model->graph);
  if (cv_ok(g)) cv_import_inputs(im);
  if (cv_ok(g)) cv_import_nodes(im, model->graph->node, model->graph->n_node);
  if (cv_ok(g)) import_outputs(im);
  for (uint32_t i = 0; i < im->options->n_states && cv_ok(g); i++) {
    import_state(im, im->options->states[i]);
  }
}

/* One try under some choices: the graph, or NULL and its sentence. */
static cv_graph *try_import(cv_onnx_file *file, const cv_import_options *options,
                            cv_choices *choices, cv_status *out_status) {
  cv_frame frame = {.opsets = file->model->opset_import, .n_opsets = file->model->n_opset_import};
  cv_scope scope = {0};
  cv_graph *graph = cv_graph_create(NULL);
  cv_importer im = {.graph = graph,
                    .file = file,
                    .options = options,
                    .choices = choices,
                    .frame = &frame,
                    .scope = &scope};
  choices->used = 0;
  import_graph(&im);
  cv_map_deinit(&scope.names);
  cv_map_deinit(&im.taken);
  *out_status = cv_graph_status(graph);
  if (*out_status == CV_OK) return graph;
  cv_graph_destroy(graph);
  return NULL;
}

/* Turns the last choice that can be turned: false if all were tried. */
static bool next_choices(cv_choices *choices) {
  choices->decided = choices->used;
  while (choices->decided > 0 && !choices->as_first[choices->decided - 1]) choices->decided--;
  if (choices->decided == 0) return false;
  choices->as_first[choices->decided - 1] = false;
  return true;
}

/* Takes the file: it goes with the graph, or is closed on an error. */
static cv_status import(cv_onnx_file *file, const cv_import_options *options,
                        cv_graph **out_graph) {
  static const cv_import_options none;
  enum { MAX_TRIES = 32 };
  cv_choices choices = {0};
  cv_graph *graph = NULL;
  char *first = NULL; /* the first try's sentence is the one that helps */
  cv_status status, code = CV_OK;
  CV_TRY(cv_onnx_check_ops(file));
  for (int i = 0; i < MAX_TRIES && !graph && (i == 0 || next_choices(&choices)); i++) {
    graph = try_import(file, options ? options : &none, &choices, &status);
    if (!graph && !first) {
      code = status;
      first = cv_strdup(cv_error_text());
    }
  }
  if (graph) {
    onnx__model_proto__free_unpacked(file->model, NULL);
    file->model = NULL;
    graph->owner = file;
    graph->release = release_file;
    file = NULL;
    *out_graph = graph;
    status = CV_OK;
  } else {
    status = cv_error(code, "%s", first ? first : "");
    if (!cv_starts_with(cv_error_text(), file->path)) {
      status = cv_error_context(status, "%s", file->path);
    }
  }
out:
  cv_free(first);
  cv_onnx_file_close(file);
  return status;
}

cv_status cv_onnx_import(const char *path, const cv_import_options *options, cv_graph **out_graph) {
  cv_onnx_file *file;
  *out_graph = NULL;
  cv_status status = cv_onnx_file_open(path, &file);
  return status == CV_OK ? import(file, options, out_graph) : status;
}

cv_status cv_onnx_import_memory(const char *name, const void *data, size_t size,
                                const cv_import_options *options, cv_graph **out_graph) {
  cv_onnx_file *file;
  *out_graph = NULL;
  cv_status status = cv_onnx_file_from_memory(name, data, size, &file);
  return status == CV_OK ? import(file, options, out_graph) : status;
}
