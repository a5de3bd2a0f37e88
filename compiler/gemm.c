#include "compiler/gemm_internal.h"

#include <string.h>

static const cv_dtype acc_dtypes[] = {CV_F32, CV_F64, CV_I32, CV_I64, CV_U32, CV_U64};

cv_dtype cv_gemm_acc(cv_dtype operand, cv_dtype result) {
  switch (operand) {
    case CV_F16:
    case CV_BF16:
    case CV_F32: return result == CV_F64 ? CV_F64 : CV_F32;
    case CV_F64: return CV_F64;
    case CV_I64: return CV_I64;
    case CV_U64: return CV_U64;
    case CV_U32: return CV_U32;
    default: return cv_dtype_size(result) == 8 ? CV_I64 : CV_I32;
  }
}

void cv_gemm_init(const cv_target *target, cv_dtype acc, int64_t columns, cv_gemm *out_gemm) {
  int lanes = target->vector_bytes / (int)cv_dtype_size(acc);
  int vectors = target->tile_vectors;
  if (columns > 0 && columns <= (int64_t)lanes * (vectors - 1))
    vectors = (int)((columns + lanes - 1) / lanes);
  *out_gemm = (cv_gemm){.acc = acc,
                        .element = cv_element_type(acc),
                        .lanes = lanes,
                        .rows = target->tile_rows,
                        .vectors = vectors,
                        .columns = vectors * lanes};
}

static void print_name(cv_str *out, cv_dtype acc, int rows, int vectors) {
  cv_str_add(out, "cv_gemm_%s_%dx%d", cv_dtype_name(acc), rows, vectors);
}

const char *cv_gemm_name(cv_emit *emit, const cv_gemm *gemm) {
  return cv_emit_format(emit, "cv_gemm_%s_%dx%d", cv_dtype_name(gemm->acc), gemm->rows,
                        gemm->vectors);
}

/* One tile: `rows` x `vectors`, b advancing by `panel` elements a step of k. */
static void print_tile(cv_str *out, const cv_gemm *gemm, int rows, int vectors) {
  const char *e = gemm->element, *d = cv_dtype_name(gemm->acc);
  int n = gemm->lanes;
  bool is_float = cv_dtype_kind(gemm->acc) == 'f';
  cv_str_puts(out, "static __attribute__((noinline)) void ");
  print_name(out, gemm->acc, gemm->rows, gemm->vectors);
  cv_str_add(out,
             "_r%dv%d(const %s *a, int64_t as, int64_t ak, const %s *b, int64_t k, %s *c, "
             "int64_t cs, int add) {\n",
             rows, vectors, e, e, e);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < vectors; j++) cv_str_add(out, "  %sx%d c%d_%d = {0};\n", d, n, i, j);
  cv_str_puts(out, "  if (add) {\n");
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < vectors; j++)
      cv_str_add(out, "    c%d_%d = *(const %sx%d_u *)(c + %d * cs + %d);\n", i, j, d, n, i, j * n);
  cv_str_puts(out, "  }\n");
  cv_str_puts(out, "  for (; k > 0; k--) {\n");
  for (int j = 0; j < vectors; j++)
    cv_str_add(out, "    %sx%d b%d = *(const %sx%d *)(b + %d);\n", d, n, j, d, n, j * n);
  for (int i = 0; i < rows; i++) {
    cv_str_add(out, "    %sx%d a%d = cv_splat_%sx%d(a[%d * as]);\n", d, n, i, d, n, i);
    for (int j = 0; j < vectors; j++) {
      if (is_float)
        cv_str_add(out, "    c%d_%d = cv_fma_%sx%d(a%d, b%d, c%d_%d);\n", i, j, d, n, i, j, i, j);
      else
        cv_str_add(out, "    c%d_%d += a%d * b%d;\n", i, j, i, j);
    }
  }
  cv_str_add(out, "    a += ak, b += %d;\n  }\n", gemm->columns);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < vectors; j++)
      cv_str_add(out, "  *(%sx%d_u *)(c + %d * cs + %d) = c%d_%d;\n", d, n, i, j * n, i, j);
  cv_str_puts(out, "}\n");
}

/* The tiles of all sizes, and the function that picks one. */
static void print_family(cv_str *out, const cv_gemm *gemm) {
  const char *e = gemm->element;
  for (int v = 1; v <= gemm->vectors; v++)
    for (int r = 1; r <= gemm->rows; r++) print_tile(out, gemm, r, v);
  cv_str_puts(out, "static void ");
  print_name(out, gemm->acc, gemm->rows, gemm->vectors);
  cv_str_add(out,
             "(int rows, int columns, const %s *a, int64_t as, int64_t ak, const %s *b, int64_t k, "
             "%s *c, int64_t cs, int add) {\n"
             "  static void (*const tiles[%d][%d])(const %s *, int64_t, int64_t, const %s *, "
             "int64_t, %s *, int64_t, int) = {\n",
             e, e, e, gemm->vectors, gemm->rows, e, e, e);
  for (int v = 1; v <= gemm->vectors; v++) {
    cv_str_puts(out, "    {");
    for (int r = 1; r <= gemm->rows; r++) {
      print_name(out, gemm->acc, gemm->rows, gemm->vectors);
      cv_str_add(out, "_r%dv%d%s", r, v, r < gemm->rows ? ", " : "},\n");
    }
  }
  cv_str_add(out, "  };\n  tiles[(columns - 1) / %d][rows - 1](a, as, ak, b, k, c, cs, add);\n}\n",
             gemm->lanes);
}

void cv_gemm_prelude(const cv_target *target, const char *code, cv_str *out) {
  for (size_t i = 0; i < sizeof acc_dtypes / sizeof *acc_dtypes; i++) {
    for (int v = 1; v <= target->tile_vectors; v++) {
      cv_gemm gemm;
      int lanes = target->vector_bytes / (int)cv_dtype_size(acc_dtypes[i]);
      cv_gemm_init(target, acc_dtypes[i], (int64_t)v * lanes, &gemm);
      cv_str name = {.may_die = true};
      print_name(&name, gemm.acc, gemm.rows, gemm.vectors);
      cv_str_puts(&name, "(");
      if (gemm.vectors == v && strstr(code, name.data)) print_family(out, &gemm);
      cv_str_deinit(&name);
    }
  }
}
