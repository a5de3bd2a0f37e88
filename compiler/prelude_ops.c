/* Prelude: the simple MAP ops, and reductions over the lanes. */
#include <stddef.h>

#include "compiler/prelude_text.h"

#define SIGNED "i8 i16 i32 i64"
#define UNSIGNED "u8 u16 u32 u64"
#define INTS SIGNED " " UNSIGNED
#define FLOATS "f32 f64"

#define COMPARE(name, sign)      \
  {                              \
    "cv_" name, FLOATS " " INTS, \
        "CV_INLINE @M cv_" name  \
        "_@Dx@N(@V a, @V b) {\n" \
        "  return @Wa " sign     \
        " b@w;\n"                \
        "}\n"                    \
  }
#define BY_LANE(name, dtypes, value)         \
  {                                          \
    "cv_" name, dtypes,                      \
        "CV_INLINE @V cv_" name              \
        "_@Dx@N(@V a, @V b) {\n"             \
        "  @V r;\n"                          \
        "  for (int l = 0; l < @N; l++) {\n" \
        "    const @E x = a[l], y = b[l];\n" \
        "    r[l] = " value                  \
        ";\n"                                \
        "  }\n"                              \
        "  return r;\n"                      \
        "}\n"                                \
  }
#define BY_LANE_1(name, dtype, value)                  \
  {                                                    \
    "cv_" name, dtype,                                 \
        "CV_INLINE @V cv_" name                        \
        "_@Dx@N(@V a) {\n"                             \
        "  @V r;\n"                                    \
        "  for (int l = 0; l < @N; l++) r[l] = " value \
        ";\n"                                          \
        "  return r;\n"                                \
        "}\n"                                          \
  }
#define EXTREMUM(name, sign)                            \
  {"cv_raw" name, FLOATS,                               \
   "/* b where either is a NaN. */\n"                   \
   "CV_INLINE @V cv_raw" name                           \
   "_@Dx@N(@V a, @V b) {\n"                             \
   "  const @I k = a " sign                             \
   " b;\n"                                              \
   "  return (@V)(((@I)a & k) | ((@I)b & ~k));\n"       \
   "}\n"},                                              \
      {"cv_" name "c", FLOATS,                          \
       "CV_INLINE @V cv_" name                          \
       "c_@Dx@N(@V x, @V c) {\n"                        \
       "  return cv_raw" name                           \
       "_@Dx@N(c, x);\n"                                \
       "}\n"},                                          \
      {"cv_" name, FLOATS,                              \
       "CV_INLINE @V cv_" name                          \
       "_@Dx@N(@V a, @V b) {\n"                         \
       "  const @I nan = a != a;\n"                     \
       "  return (@V)(((@I)a & nan) | ((@I)cv_raw" name \
       "_@Dx@N(a, b) & ~nan));\n"                       \
       "}\n"},                                          \
  {                                                     \
    "cv_" name, INTS,                                   \
        "CV_INLINE @V cv_" name                         \
        "_@Dx@N(@V a, @V b) {\n"                        \
        "  const @I k = (@I)(a " sign                   \
        " b);\n"                                        \
        "  return (@V)(((@I)a & k) | ((@I)b & ~k));\n"  \
        "}\n"                                           \
  }
/* Halves are combined until one lane is left. */
#define OVER_LANES(name, dtypes, value)             \
  {                                                 \
    "cv_" name, dtypes,                             \
        "CV_INLINE @E cv_" name                     \
        "_@Dx@N(@V v) {\n"                          \
        "  @E a[@N];\n"                             \
        "  __builtin_memcpy(a, &v, sizeof a);\n"    \
        "  for (int w = @N / 2; w > 0; w /= 2) {\n" \
        "    for (int l = 0; l < w; l++) {\n"       \
        "      const @E x = a[l], y = a[l + w];\n"  \
        "      a[l] = (@E)(" value                  \
        ");\n"                                      \
        "    }\n"                                   \
        "  }\n"                                     \
        "  return a[0];\n"                          \
        "}\n"                                       \
  }

const prelude_piece prelude_ops[] = {
    COMPARE("eq", "=="),
    COMPARE("lt", "<"),
    COMPARE("le", "<="),
    {"cv_nonzero", FLOATS " " INTS,
     "CV_INLINE @M cv_nonzero_@Dx@N(@V a) { return @Wa != (@V){0}@w; }\n"},
    {"cv_abs", FLOATS, "CV_INLINE @V cv_abs_@Dx@N(@V a) { return (@V)((@Y)a << 1 >> 1); }\n"},
    {"cv_abs", SIGNED, "CV_INLINE @V cv_abs_@Dx@N(@V a) { return (a ^ (a < 0)) - (a < 0); }\n"},
    {"cv_abs", UNSIGNED, "CV_INLINE @V cv_abs_@Dx@N(@V a) { return a; }\n"},
    {"cv_sign", FLOATS,
     "CV_INLINE @V cv_sign_@Dx@N(@V a) {\n"
     "  const @I up = a > 0, down = a < 0;\n"
     "  return (@V)(((@I)cv_splat_@Dx@N(1) & up) | ((@I)cv_splat_@Dx@N(-1) & down) |\n"
     "              ((@I)a & ~(up | down)));\n"
     "}\n"},
    {"cv_sign", SIGNED, "CV_INLINE @V cv_sign_@Dx@N(@V a) { return (a < 0) - (a > 0); }\n"},
    {"cv_sign", UNSIGNED, "CV_INLINE @V cv_sign_@Dx@N(@V a) { return (@V)(a != 0) & 1; }\n"},
    EXTREMUM("max", ">"),
    EXTREMUM("min", "<"),
    {"cv_fma", FLOATS,
     "CV_INLINE @V cv_fma_@Dx@N(@V a, @V b, @V c) {\n"
     "  @V r;\n"
     "  for (int l = 0; l < @N; l++) r[l] = __builtin_fma@F(a[l], b[l], c[l]);\n"
     "  return r;\n"
     "}\n"},
    BY_LANE_1("sqrt", FLOATS, "__builtin_sqrt@F(a[l])"),
    BY_LANE_1("floor", FLOATS, "__builtin_floor@F(a[l])"),
    BY_LANE_1("ceil", FLOATS, "__builtin_ceil@F(a[l])"),
    BY_LANE_1("round", FLOATS, "__builtin_rint@F(a[l])"),
    BY_LANE("div", SIGNED, "(@E)(y == 0 ? 0 : y == -1 ? 0 - x : x / y)"),
    BY_LANE("div", UNSIGNED, "(@E)(y == 0 ? 0 : x / y)"),
    BY_LANE("rem", SIGNED, "(@E)(y == 0 || y == -1 ? 0 : x % y)"),
    BY_LANE("rem", UNSIGNED, "(@E)(y == 0 ? 0 : x % y)"),
    {"cv_shl", INTS,
     "CV_INLINE @V cv_shl_@Dx@N(@V a, @V b) {\n"
     "  return (@V)((@Y)a << ((@Y)b & (@b - 1)) & (@Y)((@Y)b < @b));\n"
     "}\n"},
    {"cv_shr", UNSIGNED,
     "CV_INLINE @V cv_shr_@Dx@N(@V a, @V b) { return a >> (b & (@b - 1)) & (@V)(b < @b); }\n"},
    {"cv_shr", SIGNED,
     "CV_INLINE @V cv_shr_@Dx@N(@V a, @V b) {\n"
     "  const @V far = (@V)((@Y)b >= @b);\n"
     "  return a >> ((b & ~far) | (far & (@b - 1)));\n"
     "}\n"},
    {"cv_to_u32", FLOATS,
     "CV_INLINE u32x@N cv_to_u32_@Dx@N(@V a) {\n"
     "  u32x@N r;\n"
     "  for (int l = 0; l < @N; l++) r[l] = (uint32_t)(int64_t)a[l];\n"
     "  return r;\n"
     "}\n"},
    {"cv_to_u64", FLOATS,
     "CV_INLINE u64x@N cv_to_u64_@Dx@N(@V a) {\n"
     "  u64x@N r;\n"
     "  for (int l = 0; l < @N; l++) {\n"
     "    r[l] = a[l] < 0x1p63@f ? (uint64_t)(int64_t)a[l] : (uint64_t)a[l];\n"
     "  }\n"
     "  return r;\n"
     "}\n"},
    OVER_LANES("hsum", FLOATS " " INTS, "x + y"),
    OVER_LANES("hprod", FLOATS " " INTS, "x * y"),
    OVER_LANES("hmax", FLOATS " " INTS, "x > y || x != x ? x : y"),
    OVER_LANES("hmin", FLOATS " " INTS, "x < y || x != x ? x : y"),
    {NULL, NULL, NULL},
};

/* Partial loads and stores by masks: lanes beyond n are not touched. */
#define WHOLE_GET(v)                                                                    \
  "  if (__builtin_expect(n >= (int)(sizeof(" v ") / sizeof *p), 1)) return *(const " v \
  "_u "                                                                                 \
  "*)p;\n"
#define WHOLE_PUT(v)                                                              \
  "  if (__builtin_expect(n >= (int)(sizeof(" v ") / sizeof *p), 1)) {\n    *(" v \
  "_u *)p = v;\n    return;\n  }\n"
#define BITS(bits) "  const " bits " m = (" bits ")((1u << (n > 0 ? n : 0)) - 1);\n"
/* gcc turns a load that is converted at once into a load of each element, unless it cannot see it.
 */
#define KEPT_GET(v)                                                                               \
  "  if (__builtin_expect(n >= (int)(sizeof(" v ") / sizeof *p), 1)) {\n    " v " v = *(const " v \
  "_u *)p;\n    __asm__(\"\" : \"+x\"(v));\n    return v;\n  }\n"
#define NARROW(t)                                                                            \
  {                                                                                          \
    "cv_get", t,                                                                             \
        "{\n" KEPT_GET(t) "  " t                                                             \
                          " v = {0};\n"                                                      \
                          "  if (n > 0) __builtin_memcpy(&v, p, (unsigned)n * sizeof *p);\n" \
                          "  return v;\n}"                                                   \
  }
/* AVX-512: t our vector, i gcc's type of it, e its element, op the builtins' name and width. */
#define K_MASK(t, i, e, op, bits) K_MASKED(WHOLE_GET, t, i, e, op, bits)
#define K_NARROW(t, i, e, op) K_MASKED(KEPT_GET, t, i, e, op, "uint16_t")
#define K_MASKED(GET, t, i, e, op, bits)                                                          \
  {"cv_get", t,                                                                                   \
   "{\n" GET(t) BITS(bits) "  return (" t ")__builtin_ia32_load" op "_mask((const " e " *)p, (" i \
                           "){0}, m);\n}"},                                                       \
  {                                                                                               \
    "cv_put", t,                                                                                  \
        "{\n" WHOLE_PUT(t) BITS(bits) "  __builtin_ia32_store" op "_mask((" e " *)p, (" i         \
                                      ")v, m);\n}"                                                \
  }
/* AVX2: lanes whose sign bit is set in an integer vector m. */
#define V_MASK(t, i, m, lanes, op)                                                                 \
  {"cv_get", t,                                                                                    \
   "{\n" WHOLE_GET(t) "  const " m " m = (" m "){" lanes "} < n;\n  return (" t                    \
                      ")__builtin_ia32_maskload" op "((const " i " *)p, m);\n}"},                  \
  {                                                                                                \
    "cv_put", t,                                                                                   \
        "{\n" WHOLE_PUT(t) "  const " m " m = (" m "){" lanes                                      \
                           "} < n;\n  __builtin_ia32_maskstore" op "((" i " *)p, m, (" i ")v);\n}" \
  }
/* 8 bytes and i32x8: gcc goes by each element. */
#define WIDE(t, how)                                                                      \
  {                                                                                       \
    "cv_wide", t,                                                                         \
        "(i32x8)__builtin_ia32_pmov" how "bd256((gcc_i8x16)(gcc_i64x2){(long long)v, 0})" \
  }
#define CUT(t)                                                                       \
  {                                                                                  \
    "cv_narrow", t,                                                                  \
        "(" t                                                                        \
        ")__builtin_shufflevector((gcc_i8x32)v, (gcc_i8x32)v, 0, 4, 8, 12, 16, 20, " \
        "24, 28)"                                                                    \
  }
#define L8 "0, 1, 2, 3, 4, 5, 6, 7"
#define L4 "0, 1, 2, 3"

#define X86_512(d, n, ps)                                                            \
  {"cv_rawmax", d "x" n, "__builtin_ia32_max" ps "512_mask(a, b, a, -1, 4)"},        \
      {"cv_rawmin", d "x" n, "__builtin_ia32_min" ps "512_mask(a, b, a, -1, 4)"},    \
      {"cv_sqrt", d "x" n, "__builtin_ia32_sqrt" ps "512_mask(a, a, -1, 4)"},        \
      {"cv_fma", d "x" n, "__builtin_ia32_vfmadd" ps "512_mask(a, b, c, -1, 4)"},    \
      {"cv_floor", d "x" n, "__builtin_ia32_rndscale" ps "_mask(a, 9, a, -1, 4)"},   \
      {"cv_ceil", d "x" n, "__builtin_ia32_rndscale" ps "_mask(a, 10, a, -1, 4)"}, { \
    "cv_round", d "x" n, "__builtin_ia32_rndscale" ps "_mask(a, 8, a, -1, 4)"        \
  }
#define X86(d, n, ps)                                           \
  {"cv_rawmax", d "x" n, "__builtin_ia32_max" ps "(a, b)"},     \
      {"cv_rawmin", d "x" n, "__builtin_ia32_min" ps "(a, b)"}, \
      {"cv_sqrt", d "x" n, "__builtin_ia32_sqrt" ps "(a)"},
#define X86_256(d, n, ps)                                                            \
  X86(d, n, ps "256"){"cv_fma", d "x" n, "__builtin_ia32_vfmadd" ps "256(a, b, c)"}, \
      {"cv_floor", d "x" n, "__builtin_ia32_round" ps "256(a, 9)"},                  \
      {"cv_ceil", d "x" n, "__builtin_ia32_round" ps "256(a, 10)"}, {                \
    "cv_round", d "x" n, "__builtin_ia32_round" ps "256(a, 8)"                       \
  }
#define X86_128(d, n, ps)                                                   \
  X86(d, n, ps){"cv_fma", d "x" n, "__builtin_ia32_vfmadd" ps "(a, b, c)"}, \
      {"cv_floor", d "x" n, "__builtin_ia32_round" ps "(a, 9)"},            \
      {"cv_ceil", d "x" n, "__builtin_ia32_round" ps "(a, 10)"}, {          \
    "cv_round", d "x" n, "__builtin_ia32_round" ps "(a, 8)"                 \
  }

const prelude_native prelude_natives_x86[] = {
    K_MASK("f32x16", "f32x16", "float", "ups512", "uint16_t"),
    K_MASK("i32x16", "i32x16", "int", "dqusi512", "uint16_t"),
    K_MASK("u32x16", "i32x16", "int", "dqusi512", "uint16_t"),
    K_NARROW("i16x16", "i16x16", "short", "dquhi256"),
    K_NARROW("u16x16", "i16x16", "short", "dquhi256"),
    K_NARROW("i8x16", "gcc_i8x16", "char", "dquqi128"),
    K_NARROW("u8x16", "gcc_i8x16", "char", "dquqi128"),
    K_MASK("f64x8", "f64x8", "double", "upd512", "uint8_t"),
    K_MASK("i64x8", "gcc_i64x8", "long long", "dqudi512", "uint8_t"),
    K_MASK("u64x8", "gcc_i64x8", "long long", "dqudi512", "uint8_t"),
    NARROW("i8x8"),
    NARROW("u8x8"),
    NARROW("i16x8"),
    NARROW("u16x8"),
    V_MASK("f32x8", "f32x8", "i32x8", L8, "ps256"),
    V_MASK("i32x8", "i32x8", "i32x8", L8, "d256"),
    V_MASK("u32x8", "i32x8", "i32x8", L8, "d256"),
    V_MASK("f32x4", "f32x4", "i32x4", L4, "ps"),
    V_MASK("i32x4", "i32x4", "i32x4", L4, "d"),
    V_MASK("u32x4", "i32x4", "i32x4", L4, "d"),
    V_MASK("f64x4", "f64x4", "gcc_i64x4", L4, "pd256"),
    V_MASK("i64x4", "gcc_i64x4", "gcc_i64x4", L4, "q256"),
    V_MASK("u64x4", "gcc_i64x4", "gcc_i64x4", L4, "q256"),
    X86_512("f32", "16", "ps"),
    X86_512("f64", "8", "pd"),
    X86_256("f32", "8", "ps"),
    X86_256("f64", "4", "pd"),
    X86_128("f32", "4", "ps"),
    WIDE("i8x8", "sx"),
    WIDE("u8x8", "zx"),
    CUT("i8x8"),
    CUT("u8x8"),
    {"cv_from", "f16x16", "__builtin_ia32_vcvtph2ps512_mask((i16x16)h, (f32x16){0}, -1, 4)"},
    {"cv_from", "f16x8", "__builtin_ia32_vcvtph2ps256((i16x8)h)"},
    {"cv_to", "f16x16", "(u16x16)__builtin_ia32_vcvtps2ph512_mask(x, 0, (i16x16){0}, -1)"},
    {"cv_to", "f16x8", "(u16x8)__builtin_ia32_vcvtps2ph256(x, 0)"},
    {NULL, NULL, NULL},
};

const prelude_native prelude_natives_arm[] = {
    {"cv_fma", "f32x4", "__builtin_aarch64_fmav4sf(a, b, c)"},
    {"cv_fma", "f32x2", "__builtin_aarch64_fmav2sf(a, b, c)"},
    {"cv_fma", "f64x2", "__builtin_aarch64_fmav2df(a, b, c)"},
    {"cv_sqrt", "f32x4", "__builtin_aarch64_sqrtv4sf(a)"},
    {"cv_sqrt", "f64x2", "__builtin_aarch64_sqrtv2df(a)"},
    {NULL, NULL, NULL},
};
