/* The ONNX front end: model file -> graph of core ops. */
#ifndef CV_COMPILER_ONNX_ONNX_H
#define CV_COMPILER_ONNX_ONNX_H

#include "compiler/graph.h"

typedef struct {
  const char *name;
  int64_t value;
} cv_fix_dim;

typedef struct {
  const char *name;  /* graph input */
  const char *value; /* a number, a comma separated list, or a .npy/.pb file */
} cv_fix_input;

typedef struct {
  int64_t batch;          /* --batch N: the dim_param at axis 0 of the first input (or the one named
                             batch/N); 0: symbolic */
  const cv_fix_dim *dims; /* --dim NAME=N */
  uint32_t n_dims;
  const cv_fix_input
      *binds; /* --bind INPUT=VALUE: the input becomes a constant and leaves the inputs */
  uint32_t n_binds;
  const char *const *states; /* --state IN=OUT */
  uint32_t n_states;
  /* The value of graph input number `index`, if the caller knows it: asked only where the graph's
   * structure hangs on it (the axes of a reduction, a Slice's steps). What is built then holds for
   * that value alone; the input stays. NULL in *out_tensor: not known, and the import fails with a
   * sentence. A status that is not CV_OK ends the import. NULL for the function: none is known. */
  cv_status (*value_of)(void *context, uint32_t index, const char *input,
                        const cv_tensor **out_tensor);
  void *context;
} cv_import_options;

/* Reads a model and builds its graph: nesting depth checked before parsing, functions inlined,
 * initializers and Constants as borrowed constants where the file lets it, external data mapped
 * (only below the model's folder), dim_params kept as symbols, opsets 7 to current, IR 3 up. The
 * graph keeps the file mapped. CV_INVALID / CV_UNSUPPORTED / CV_IO name file, node, op and remedy;
 * unknown ops are listed all at once. `options` may be NULL. */
CV_NODISCARD cv_status cv_onnx_import(const char *path, const cv_import_options *options,
                                      cv_graph **out_graph);
/* The same for a model in memory, which must outlive the graph; it can have no external data.
 * `name` is for messages. */
CV_NODISCARD cv_status cv_onnx_import_memory(const char *name, const void *data, size_t size,
                                             const cv_import_options *options,
                                             cv_graph **out_graph);

/* The list of operators taken, as the table of docs/onnx.md. */
void cv_onnx_print_ops(cv_str *out);

#endif
