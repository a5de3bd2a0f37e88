/* The parser of graph texts takes any bytes; what it accepts prints, and the print parses back to
 * itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { MOST = 16 * 1024 };
  cv_graph *graph = NULL, *again = NULL;
  cv_str first = {0}, second = {0};
  char *text = size <= MOST ? malloc(size + 1) : NULL;
  if (text == NULL) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  if (cv_graph_parse(text, NULL, NULL, NULL, &graph) == CV_OK) {
    cv_graph_print(graph, &first);
    if (cv_graph_parse(cv_str_text(&first), NULL, NULL, NULL, &again) != CV_OK) {
      fprintf(stderr, "%s\n%s", cv_error_text(), cv_str_text(&first));
      abort();
    }
    cv_graph_print(again, &second);
    if (strcmp(cv_str_text(&first), cv_str_text(&second)) != 0) {
      fprintf(stderr, "%s\n%s", cv_str_text(&first), cv_str_text(&second));
      abort();
    }
  }
  cv_graph_destroy(graph);
  cv_graph_destroy(again);
  cv_str_deinit(&first);
  cv_str_deinit(&second);
  free(text);
  return 0;
}
