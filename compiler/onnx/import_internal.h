/* The importer's state, shared by the files that walk the model. */
#ifndef CV_COMPILER_ONNX_IMPORT_INTERNAL_H
#define CV_COMPILER_ONNX_IMPORT_INTERNAL_H

#include "base/map.h"
#include "compiler/onnx/file.h"
#include "compiler/onnx/node.h"
#include "compiler/onnx/onnx.h"
#include "compiler/onnx/table.h"

enum { CV_ONNX_MAX_CALLS = 32, CV_ONNX_MAX_NODES = 1 << 21, CV_ONNX_MAX_CHOICES = 16 };

/* Decisions of cv_on_choose, in the order they come up: those of earlier tries are kept. */
typedef struct {
  bool as_first[CV_ONNX_MAX_CHOICES];
  uint32_t decided, used; /* given from the start; come up in this try */
} cv_choices;

/* Names of values in one graph or function body; a subgraph sees its parents'. */
typedef struct cv_scope {
  struct cv_scope *parent;
  cv_map names;
} cv_scope;

/* Opsets and attributes in force: the model's, or a called function's. */
typedef struct cv_frame {
  const struct cv_frame *caller;
  const Onnx__FunctionProto *function; /* NULL: the model itself */
  const Onnx__NodeProto *call;
  Onnx__OperatorSetIdProto **opsets;
  size_t n_opsets;
  int depth;
} cv_frame;

struct cv_importer {
  cv_graph *graph;
  cv_onnx_file *file;
  const cv_import_options *options;
  cv_choices *choices;
  const cv_frame *frame;
  cv_scope *scope;
  cv_map taken;     /* names of values and symbols given so far */
  bool blamed;      /* the sticky error names its node already */
  uint64_t symbols; /* fresh ones made */
  uint64_t visited; /* nodes imported */
};

bool cv_scope_find(const cv_scope *scope, const char *name, cv_val *out_value);
void cv_scope_put(cv_importer *im, cv_scope *scope, const char *name, cv_val value);

/* The version of a domain in a frame, 0 if it is not imported there. "ai.onnx" is "". */
int64_t cv_frame_opset(const cv_frame *frame, const char *domain);
const char *cv_onnx_domain(const char *domain);
/* The model's local function of a node, or NULL. */
const Onnx__FunctionProto *cv_onnx_function(const cv_onnx_file *file, const Onnx__NodeProto *node);

/* CV_UNSUPPORTED with all ops that no row and no local function takes, with opset and node names.
 */
CV_NODISCARD cv_status cv_onnx_check_ops(const cv_onnx_file *file);

/* Builds nodes into graph->at, in the importer's scope. Errors are the graph's. */
void cv_import_nodes(cv_importer *im, Onnx__NodeProto *const *nodes, size_t n);
/* Initializers of a (sub)graph into the importer's scope. */
void cv_import_initializers(cv_importer *im, const Onnx__GraphProto *graph);

/* Inputs: types, symbols, --batch, --dim, --bind. */
void cv_import_inputs(cv_importer *im);
/* A value for --bind in the form the user gave, as constant of the declared type. */
CV_NODISCARD cv_status cv_onnx_bind_value(cv_graph *graph, const cv_fix_input *bind, cv_dtype dtype,
                                          int rank, int64_t *dims, cv_val *out_value);

#endif
