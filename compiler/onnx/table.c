#include "compiler/onnx/table.h"

#include <string.h>

#include "compiler/onnx/onnx.h"

static const cv_onnx_row rows[] = {
#define X(op, domain, first, last, builder, arg, composite) \
  {op, domain, first, last, cv_import_##builder, arg, composite},
#include "compiler/onnx/ops_table.def"
#undef X
};

const cv_onnx_row *cv_onnx_rows(uint32_t *out_n) {
  *out_n = sizeof rows / sizeof *rows;
  return rows;
}

const cv_onnx_row *cv_onnx_find(const char *op, const char *domain, int64_t version) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].op, op) == 0 && strcmp(rows[i].domain, domain) == 0 &&
        version >= rows[i].first && (rows[i].last == 0 || version <= rows[i].last)) {
      return &rows[i];
    }
  }
  return NULL;
}

void cv_onnx_print_ops(cv_str *out) {
  cv_str_puts(out, "| operator | domain | opsets |\n| --- | --- | --- |\n");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cv_str_add(out, "| %s | %s | %lld to ", rows[i].op,
               rows[i].domain[0] ? rows[i].domain : "ai.onnx", (long long)rows[i].first);
    if (rows[i].last) {
      cv_str_add(out, "%lld |\n", (long long)rows[i].last);
    } else {
      cv_str_puts(out, "newest |\n");
    }
  }
}
