/* Prelude: memory, masks, conversions. */
#include <stddef.h>

#include "compiler/prelude_text.h"

#define INTS "i8 i16 i32 i64 u8 u16 u32 u64"
#define PLAIN "f32 f64 " INTS

const prelude_piece prelude_base[] = {
    {"cv_floordiv", "",
     "CV_INLINE int64_t cv_floordiv(int64_t a, int64_t b) {\n"
     "  return a / b - (a % b != 0 && (a < 0) != (b < 0));\n"
     "}\n"},
    {"cv_mod", "",
     "CV_INLINE int64_t cv_mod(int64_t a, int64_t b) {\n"
     "  const int64_t r = a % b;\n"
     "  return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n"
     "}\n"},
    {"cv_max", "", "CV_INLINE int64_t cv_max(int64_t a, int64_t b) { return a > b ? a : b; }\n"},
    {"cv_min", "", "CV_INLINE int64_t cv_min(int64_t a, int64_t b) { return a < b ? a : b; }\n"},
    {"cv_index", "",
     "/* An index that may count from the end; out of range: 0, and bad is set. */\n"
     "CV_INLINE int64_t cv_index(int64_t i, int64_t extent, int *bad) {\n"
     "  if (i < 0) i += extent;\n"
     "  if ((uint64_t)i < (uint64_t)extent) return i;\n"
     "  *bad = 1;\n"
     "  return 0;\n"
     "}\n"},
    {"cv_philox", "",
     "/* Philox 4x32, 10 rounds: the words of one counter. */\n"
     "static inline void cv_philox(uint64_t seed, uint64_t request, uint64_t counter,\n"
     "                             uint32_t out[4]) {\n"
     "  uint32_t x0 = (uint32_t)counter, x1 = (uint32_t)(counter >> 32);\n"
     "  uint32_t x2 = (uint32_t)request, x3 = (uint32_t)(request >> 32);\n"
     "  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);\n"
     "  for (int round = 0; round < 10; round++) {\n"
     "    const uint64_t p0 = (uint64_t)x0 * 0xD2511F53u, p1 = (uint64_t)x2 * 0xCD9E8D57u;\n"
     "    x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;\n"
     "    x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;\n"
     "    x1 = (uint32_t)p1;\n"
     "    x3 = (uint32_t)p0;\n"
     "    k0 += 0x9E3779B9u;\n"
     "    k1 += 0xBB67AE85u;\n"
     "  }\n"
     "  out[0] = x0;\n"
     "  out[1] = x1;\n"
     "  out[2] = x2;\n"
     "  out[3] = x3;\n"
     "}\n"},
    {"cv_splat", PLAIN, "CV_INLINE @V cv_splat_@Dx@N(@E x) { return x - (@V){0}; }\n"},
    {"cv_splat", "bool", "CV_INLINE @V cv_splat_@Dx@N(int x) { return (@B)x - (@V){0}; }\n"},
    {"cv_any", "bool",
     "CV_INLINE int cv_any_@Dx@N(@V m) {\n"
     "  uint64_t a[sizeof m / 8], any = 0;\n"
     "  __builtin_memcpy(a, &m, sizeof m);\n"
     "  for (unsigned i = 0; i < sizeof m / 8; i++) any |= a[i];\n"
     "  return any != 0;\n"
     "}\n"},
    {"cv_first", "bool",
     "/* The first n lanes. */\n"
     "CV_INLINE @V cv_first_@Dx@N(int n) { return (@V){@L} < (@B)n; }\n"},
    {"cv_sel", "f32 f64 bool " INTS,
     "CV_INLINE @V cv_sel_@Dx@N(@M m, @V a, @V b) {\n"
     "  const @I k = @Km@k;\n"
     "  return (@V)(((@I)a & k) | ((@I)b & ~k));\n"
     "}\n"},
    /* Parts of vectors in memory. Nothing beyond is touched. */
    {"cv_get", PLAIN,
     "CV_INLINE @V cv_get_@Dx@N(const @S *p, int n) {\n"
     "  @V v = {0};\n"
     "  if (__builtin_expect(n >= @N, 1)) return *(const @R_u *)p;\n"
     "  if (n > 0) __builtin_memcpy(&v, p, (unsigned)n * sizeof *p);\n"
     "  return v;\n"
     "}\n"},
    {"cv_put", PLAIN,
     "CV_INLINE void cv_put_@Dx@N(@S *p, int n, @V v) {\n"
     "  if (__builtin_expect(n >= @N, 1)) *(@R_u *)p = v;\n"
     "  else if (n > 0) __builtin_memcpy(p, &v, (unsigned)n * sizeof *p);\n"
     "}\n"},
    /* f16 and bf16. */
    {"cv_from", "f16",
     "CV_INLINE @V cv_from_@Dx@N(@R h) {\n"
     "  const u32x@N w = __builtin_convertvector(h, u32x@N), m = (w & 0x7fff) << 13;\n"
     "  @V x = (@V)m * 0x1p112f;\n"
     "  x = (@V)((u32x@N)x | ((u32x@N)(m >= 0x7c00u << 13) & 0x7f800000));\n"
     "  return (@V)((u32x@N)x | (w & 0x8000) << 16);\n"
     "}\n"},
    {"cv_to", "f16",
     "CV_INLINE @R cv_to_@Dx@N(@V x) {\n"
     "  const u32x@N u = (u32x@N)x, a = u & 0x7fffffff;\n"
     "  const u32x@N normal = (a + 0xc8000fffu + (a >> 13 & 1)) >> 13;\n"
     "  const u32x@N small = (u32x@N)((@V)a + 0.5f) - 0x3f000000;\n"
     "  const u32x@N is_small = (u32x@N)(a < 0x38800000), is_large = (u32x@N)(a >= 0x477ff000);\n"
     "  const u32x@N is_nan = (u32x@N)(a > 0x7f800000);\n"
     "  u32x@N h = (small & is_small) | (normal & ~is_small);\n"
     "  h = (h & ~is_large) | (is_large & 0x7c00) | (is_nan & 0x200);\n"
     "  return __builtin_convertvector(h | (u >> 16 & 0x8000), @R);\n"
     "}\n"},
    {"cv_from", "bf16",
     "CV_INLINE @V cv_from_@Dx@N(@R h) {\n"
     "  return (@V)(__builtin_convertvector(h, u32x@N) << 16);\n"
     "}\n"},
    {"cv_to", "bf16",
     "CV_INLINE @R cv_to_@Dx@N(@V x) {\n"
     "  const u32x@N u = (u32x@N)x, is_nan = (u32x@N)((u & 0x7fffffff) > 0x7f800000);\n"
     "  const u32x@N h = (u + 0x7fff + (u >> 16 & 1)) >> 16;\n"
     "  return __builtin_convertvector((h & ~is_nan) | ((u >> 16 | 0x40) & is_nan), @R);\n"
     "}\n"},
    {"cv_round", "f16 bf16",
     "CV_INLINE @V cv_round_@Dx@N(@V x) { return cv_from_@Dx@N(cv_to_@Dx@N(x)); }\n"},
    {"cv_odd", "f64",
     "/* To f32, inexact results made odd: rounding them again gives what one rounding gives. */\n"
     "CV_INLINE f32x@N cv_odd_@Dx@N(@V x) {\n"
     "  f32x@N r;\n"
     "  for (int l = 0; l < @N; l++) {\n"
     "    float f = (float)x[l];\n"
     "    uint32_t bits;\n"
     "    __builtin_memcpy(&bits, &f, 4);\n"
     "    if ((double)f != x[l] && x[l] == x[l]) {\n"
     "      bits -= __builtin_fabs((double)f) > __builtin_fabs(x[l]);\n"
     "      bits |= 1;\n"
     "    }\n"
     "    __builtin_memcpy(&f, &bits, 4);\n"
     "    r[l] = f;\n"
     "  }\n"
     "  return r;\n"
     "}\n"},
    /* Between integers of 1 or 2 bytes and i32. */
    {"cv_wide", "i8 u8 i16 u16",
     "CV_INLINE i32x@N cv_wide_@Dx@N(@V v) {\n"
     "  return __builtin_convertvector(v, i32x@N);\n"
     "}\n"},
    {"cv_narrow", "i8 u8 i16 u16",
     "CV_INLINE @V cv_narrow_@Dx@N(i32x@N v) {\n"
     "  return __builtin_convertvector(v, @V);\n"
     "}\n"},
    /* Loads and stores in compute form. */
    {"cv_load", PLAIN,
     "CV_INLINE @V cv_load_@Dx@N(const @S *p, int n) { return cv_get_@Dx@N(p, n); }\n"},
    {"cv_load", "f16 bf16",
     "CV_INLINE @V cv_load_@Dx@N(const @S *p, int n) {\n"
     "  return cv_from_@Dx@N(cv_get_u16x@N(p, n));\n"
     "}\n"},
    {"cv_load", "bool",
     "CV_INLINE @V cv_load_@Dx@N(const @S *p, int n) {\n"
     "  return __builtin_convertvector(cv_get_u8x@N(p, n) != 0, @V);\n"
     "}\n"},
    {"cv_part", PLAIN " f16 bf16 bool",
     "CV_INLINE @V cv_part_@Dx@N(const @S *p, int from, int to) {\n"
     "  @S a[@N] = {0};\n"
     "  if (from <= 0) return cv_load_@Dx@N(p, to);\n"
     "  for (int l = from; l < to; l++) a[l] = p[l];\n"
     "  return cv_load_@Dx@N(a, @N);\n"
     "}\n"},
    /* Every k-th element; nothing behind the last one is touched. */
    {"cv_stride", PLAIN " f16 bf16 bool",
     "CV_INLINE @V cv_stride_@Dx@N(const @S *p, int64_t k, int n) {\n"
     "  @S a[@N] = {0};\n"
     "  if (__builtin_constant_p(k) && k == 2) {\n"
     "    const @V lo = cv_load_@Dx@N(p, 2 * n - 1), hi = cv_load_@Dx@N(p + @N, 2 * n - 1 - @N);\n"
     "    return __builtin_shufflevector(lo, hi, @H);\n"
     "  }\n"
     "  if (n >= @N) {\n"
     "    for (int l = 0; l < @N; l++) a[l] = p[l * k];\n"
     "  } else {\n"
     "    for (int l = 0; l < n; l++) a[l] = p[l * k];\n"
     "  }\n"
     "  return cv_load_@Dx@N(a, @N);\n"
     "}\n"},
    {"cv_bcast", PLAIN,
     "CV_INLINE @V cv_bcast_@Dx@N(const @S *p) { return cv_splat_@Dx@N(*p); }\n"},
    {"cv_bcast", "f16 bf16",
     "CV_INLINE @V cv_bcast_@Dx@N(const @S *p) {\n"
     "  return cv_from_@Dx@N(cv_splat_u16x@N(*p));\n"
     "}\n"},
    {"cv_bcast", "bool",
     "CV_INLINE @V cv_bcast_@Dx@N(const @S *p) { return cv_splat_@Dx@N(-(*p != 0)); }\n"},
    {"cv_store", PLAIN,
     "CV_INLINE void cv_store_@Dx@N(@S *p, int n, @V v) { cv_put_@Dx@N(p, n, v); }\n"},
    {"cv_store", "f16 bf16",
     "CV_INLINE void cv_store_@Dx@N(@S *p, int n, @V v) {\n"
     "  cv_put_u16x@N(p, n, cv_to_@Dx@N(v));\n"
     "}\n"},
    {"cv_store", "bool",
     "CV_INLINE void cv_store_@Dx@N(@S *p, int n, @V v) {\n"
     "  cv_put_u8x@N(p, n, __builtin_convertvector(v, u8x@N) & 1);\n"
     "}\n"},
    {NULL, NULL, NULL},
};
