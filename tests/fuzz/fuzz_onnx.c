/* Any bytes as an ONNX model: a graph that verifies, or a sentence. */
#include <stdint.h>
#include <stdlib.h>

#include "compiler/onnx/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  cv_graph *graph;
  if (cv_onnx_import_memory("fuzz.onnx", data, size, NULL, &graph) != CV_OK) return 0;
  if (cv_graph_verify(graph, "import") != CV_OK) abort();
  cv_graph_destroy(graph);
  return 0;
}
