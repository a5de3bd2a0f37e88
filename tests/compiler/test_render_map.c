/* The map template: every MAP op in every dtype, casts, movement, gathers, all against the
 * interpreter. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/compiler/kernel_check.h"

enum { MAX_CASES = 512 };
static kernel_case cases[MAX_CASES];
static size_t n_cases;
static cv_arena texts;

static void add(double limit, double tolerance, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add(double limit, double tolerance, const char *format, ...) {
  cv_str text = {.may_die = true};
  va_list args;
  va_start(args, format);
  cv_str_addv(&text, format, args);
  va_end(args);
  assert_true(n_cases < MAX_CASES);
  cases[n_cases++] = (kernel_case){
      .text = cv_arena_strdup(&texts, cv_str_text(&text)), .limit = limit, .tolerance = tolerance};
  cv_str_deinit(&text);
}

static void run_cases(const char *target) {
  check_cases(target, cases, n_cases);
  n_cases = 0;
  cv_arena_deinit(&texts);
}

/* op, kinds of dtypes, operands, limit of the values, relative error allowed in f32 */
static const struct {
  cv_op op;
  const char *kinds;
  int operands;
  double limit, tolerance;
} ops[] = {
    {CV_OP_neg, "fi", 1, 0, 0},    {CV_OP_abs, "fiu", 1, 0, 0},     {CV_OP_sign, "fiu", 1, 0, 0},
    {CV_OP_floor, "f", 1, 0, 0},   {CV_OP_ceil, "f", 1, 0, 0},      {CV_OP_round, "f", 1, 0, 0},
    {CV_OP_sqrt, "f", 1, 0, 0},    {CV_OP_exp, "f", 1, 10, 5e-7},   {CV_OP_log, "f", 1, 0, 0},
    {CV_OP_sin, "f", 1, 100, 0},   {CV_OP_cos, "f", 1, 100, 0},     {CV_OP_atan, "f", 1, 0, 0},
    {CV_OP_tanh, "f", 1, 0, 0},    {CV_OP_erf, "f", 1, 0, 0},       {CV_OP_not, "biu", 1, 100, 0},
    {CV_OP_add, "fiu", 2, 120, 0}, {CV_OP_sub, "fiu", 2, 120, 0},   {CV_OP_mul, "fiu", 2, 120, 0},
    {CV_OP_div, "fiu", 2, 5, 0},   {CV_OP_rem, "fiu", 2, 5, 0},     {CV_OP_pow, "fiu", 2, 4, 0},
    {CV_OP_max, "fiu", 2, 120, 0}, {CV_OP_min, "fiu", 2, 120, 0},   {CV_OP_and, "biu", 2, 120, 0},
    {CV_OP_or, "biu", 2, 120, 0},  {CV_OP_xor, "biu", 2, 120, 0},   {CV_OP_shl, "iu", 2, 40, 0},
    {CV_OP_shr, "iu", 2, 40, 0},   {CV_OP_eq, "fiu", 2, 3, 0},      {CV_OP_lt, "fiu", 2, 3, 0},
    {CV_OP_le, "fiu", 2, 3, 0},    {CV_OP_select, "fiub", 3, 0, 0}, {CV_OP_cast, "", 1, 0, 0},
    {CV_OP_bits, "", 1, 0, 0},
};

static void add_op(size_t i, cv_dtype dtype) {
  const char *d = cv_dtype_name(dtype), *name = cv_op_get(ops[i].op)->name;
  bool compare = ops[i].op == CV_OP_eq || ops[i].op == CV_OP_lt || ops[i].op == CV_OP_le;
  const char *to = compare ? "bool" : d;
  if (ops[i].operands == 1) {
    add(ops[i].limit, ops[i].tolerance,
        "graph \"t\" (%%x: %s[3,37]) { %%y: %s[3,37] = %s(%%x) } -> (%%y)", d, to, name);
  } else if (ops[i].operands == 2) {
    add(ops[i].limit, ops[i].tolerance,
        "graph \"t\" (%%x: %s[3,37], %%b: %s[3,37]) { %%y: %s[3,37] = %s(%%x, %%b) } -> (%%y)", d,
        d, to, name);
  } else {
    add(0, 0,
        "graph \"t\" (%%c: bool[3,37], %%x: %s[3,37], %%b: %s[3,37]) { %%y: %s[3,37] = %s(%%c, "
        "%%x, %%b) } -> (%%y)",
        d, d, to, name);
  }
}

static void each_op(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
    for (int d = 0; d < CV_DTYPE_COUNT; d++) {
      if (strchr(ops[i].kinds, cv_dtype_kind((cv_dtype)d)) != NULL) add_op(i, (cv_dtype)d);
    }
  }
  run_cases("native");
}

/* A new MAP op without a line above fails here. */
static void all_ops_have_cases(void **state) {
  (void)state;
  for (int op = 0; op < CV_OP_COUNT; op++) {
    bool found = cv_op_get((cv_op)op)->class_ != CV_CLASS_MAP;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) found = found || ops[i].op == (cv_op)op;
    if (!found) fail_msg("no case for %s", cv_op_get((cv_op)op)->name);
  }
}

static void casts(void **state) {
  (void)state;
  for (int from = 0; from < CV_DTYPE_COUNT; from++) {
    for (int to = 0; to < CV_DTYPE_COUNT; to++) {
      char from_kind = cv_dtype_kind((cv_dtype)from), to_kind = cv_dtype_kind((cv_dtype)to);
      /* A negative float is outside of what an unsigned integer holds. */
      if (from == to) continue;
      add(from_kind == 'f' && to_kind == 'u' ? 0.9 : 100, 0,
          "graph \"t\" (%%x: %s[61]) { %%y: %s[61] = cast(%%x) {to=%s} } -> (%%y)",
          cv_dtype_name((cv_dtype)from), cv_dtype_name((cv_dtype)to), cv_dtype_name((cv_dtype)to));
    }
  }
  run_cases("native");
}

/* Through 1 or 2 bytes, where integers wrap and floats stay within the type. */
static void casts_through_small_integers(void **state) {
  static const char *const from[] = {"f32", "f64", "f16", "i32", "i64"};
  static const char *const small[] = {"i8", "u8", "i16", "u16"};
  static const char *const to[] = {"f32", "f64", "f16", "i32", "i64", "u32", "i8", "u16"};
  (void)state;
  for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
    for (size_t j = 0; j < sizeof small / sizeof small[0]; j++) {
      for (size_t k = 0; k < sizeof to / sizeof to[0]; k++) {
        if (strcmp(small[j], to[k]) == 0) continue;
        double most = from[i][0] == 'i' ? 1e5 : small[j][0] == 'u' ? 250 : 120;
        add(most, 0,
            "graph \"t\" (%%x: %s[61]) { %%a: %s[61] = %s(%%x) %%s: %s[61] = cast(%%a) {to=%s} "
            "%%y: %s[61] = cast(%%s) {to=%s} } -> (%%y)",
            from[i], from[i], small[j][0] == 'u' ? "abs" : "neg", small[j], small[j], to[k], to[k]);
      }
    }
  }
  run_cases("native");
}

/* Small integers are no NaNs as floats. */
static void bits(void **state) {
  (void)state;
  for (int from = 0; from < CV_DTYPE_COUNT; from++) {
    for (int to = 0; to < CV_DTYPE_COUNT; to++) {
      cv_dtype a = (cv_dtype)from, b = (cv_dtype)to;
      if (a == CV_BOOL || b == CV_BOOL || cv_dtype_size(a) != cv_dtype_size(b)) continue;
      add(100, 0, "graph \"t\" (%%x: %s[61]) { %%y: %s[61] = bits(%%x) {to=%s} } -> (%%y)",
          cv_dtype_name(a), cv_dtype_name(b), cv_dtype_name(b));
    }
  }
  run_cases("native");
}

static const kernel_case moves[] = {
    {"graph \"t\" (%x: f32[2,3,5]) { %y: f32[5,2,3] = transpose(%x) {perm=[2,0,1]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[70,90]) { %y: f32[90,70] = transpose(%x) {perm=[1,0]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: u8[3,70,50]) { %y: u8[3,50,70] = transpose(%x) {perm=[0,2,1]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f64[4,6]) { %y: f64[3,8] = reshape(%x) {dims=[3,8]} %z: f64[8,3] = "
     "transpose(%y) {perm=[1,0]} } -> (%z)",
     0,
     0,
     {0},
     0},
    {"symbol b [0, 100] symbol s [0, 100]\n"
     "graph \"t\" (%x: f32[b,s,24]) { %r: f32[b,s,4,6] = reshape(%x) {dims=[b,s,4,6]} %y: "
     "f32[b,4,s,6] = transpose(%r) {perm=[0,2,1,3]} } -> (%y)",
     0,
     0,
     {3, 5, 0, 0},
     0},
    {"symbol b [0, 100] symbol s [0, 100]\n"
     "graph \"t\" (%x: f32[b,4,s,6]) { %y: f32[b,s,4,6] = transpose(%x) {perm=[0,2,1,3]} %r: "
     "f32[b*s,24] = reshape(%y) {dims=[b*s,24]} %z: f32[b*s,24] = neg(%r) } -> (%z)",
     0,
     0,
     {3, 5, 0, 0},
     0},
    {"symbol b [0, 100] symbol s [0, 100]\n"
     "graph \"t\" (%x: f32[b,4,s,6]) { %y: f32[b,s,4,6] = transpose(%x) {perm=[0,2,1,3]} %r: "
     "f32[b,s,24] = reshape(%y) {dims=[b,s,24]} %z: f32[b,s,24] = neg(%r) } -> (%z)",
     0,
     0,
     {0, 5, 0, 0},
     0},
    {"graph \"t\" (%x: f32[2,4]) { %r: f32[2,1,4] = reshape(%x) {dims=[2,1,4]} %b: f32[2,2,4] = "
     "broadcast(%r) {dims=[2,2,4]} %w: f32[2,8] = reshape(%b) {dims=[2,8]} %y: f32[2,4] = "
     "slice(%w) {starts=[0,4], dims=[2,4], steps=[1,1]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[4,6], %z: f32[]) { %c: f32[8,6] = concat(%x, %x) {axis=0} %p: f32[10,6] "
     "= pad(%c, %z) {lo=[0,0], hi=[2,0]} %y: f32[1,6] = slice(%p) {starts=[8,0], dims=[1,6], "
     "steps=[1,1]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[3,1,5]) { %y: f32[3,7,5] = broadcast(%x) {dims=[3,7,5]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[1,19]) { %y: f32[5,19] = broadcast(%x) {dims=[5,19]} %z: f32[5,19] = "
     "add(%y, %y) } -> (%z)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: bool[5,1]) { %y: bool[5,19] = broadcast(%x) {dims=[5,19]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[9,40]) { %y: f32[4,20] = slice(%x) {starts=[1,3], dims=[4,20], "
     "steps=[2,1]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: i64[9,40]) { %y: i64[4,13] = slice(%x) {starts=[8,39], dims=[4,13], "
     "steps=[-2,-3]} } -> (%y)",
     0,
     0,
     {0},
     0},
    /* literals of halves, constants without elements */
    {"graph \"t\" (%x: f16[40]) { %c: f16[40] = splat 0.5 %y: f16[40] = mul(%x, %c) } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: i64[5]) { %c: i64[0] = const {} %y: i64[5] = concat(%x, %c) {axis=0} } -> "
     "(%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f16[5,33]) { %y: f16[5,33] = slice(%x) {starts=[0,32], dims=[5,33], "
     "steps=[1,-1]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[3,21]) { %v: f32[] = const {0x0p+0} %y: f32[6,40] = pad(%x, %v) "
     "{lo=[1,7], hi=[2,12]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[3,21], %v: f32[]) { %e: f32[3,21] = exp(%x) %y: f32[6,40] = pad(%e, %v) "
     "{lo=[1,7], hi=[2,12]} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: i8[3,21]) { %v: i8[] = const {-5} %y: i8[3,40] = pad(%x, %v) {lo=[0,0], "
     "hi=[0,19]} %t: i8[40,3] = transpose(%y) {perm=[1,0]} } -> (%t)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%a: f32[2,3,4], %b: f32[2,5,4], %c: f32[2,1,4]) { %y: f32[2,9,4] = concat(%a, "
     "%b, %c) {axis=1} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%a: f32[2,30], %b: f32[2,5]) { %y: f32[2,35] = concat(%a, %b) {axis=1} %z: "
     "f32[2,35] = neg(%y) } -> (%z)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%a: f32[2,12,12], %b: f32[2,9]) { %r: f32[2,144] = reshape(%a) {dims=[2,144]} "
     "%y: "
     "f32[2,153] = concat(%r, %b) {axis=1} %z: f32[2,153] = neg(%y) } -> (%z)",
     0,
     0,
     {0},
     0},
    {"symbol n [0, 100]\ngraph \"t\" (%a: i64[n,3], %b: i64[4,3]) { %e: i64[n,3] = neg(%a) %y: "
     "i64[n+4,3] = concat(%e, %b) {axis=0} %z: i64[n+4,3] = abs(%y) } -> (%z)",
     0,
     0,
     {6, 0, 0, 0},
     0},
    {"graph \"t\" (%x: f32[9], %w: f32[5], %i: i64[7]) { %a: f32[7] = gather(%x, %i) {axis=0} %b: "
     "f32[7] = gather(%w, %i) {axis=0} %y: f32[7] = mul(%a, %b) } -> (%y)",
     5,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[9,20], %i: i64[7]) { %y: f32[7,20] = gather(%x, %i) {axis=0} } -> (%y)",
     9,
     0,
     {0},
     0},
    /* the index of a row, which lies over another part of a concat in some lanes */
    {"graph \"t\" (%x: f32[4,6], %i: i64[3]) { %g: f32[3,6] = gather(%x, %i) {axis=0} %c: "
     "f32[3,12] "
     "= concat(%g, %g) {axis=1} %y: f32[3,12] = neg(%c) } -> (%y)",
     4,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[4,6], %i: i64[3]) { %z: f32[] = const {2} %g: f32[3,6] = gather(%x, %i) "
     "{axis=0} %p: f32[3,14] = pad(%g, %z) {lo=[0,5], hi=[0,3]} %y: f32[3,14] = neg(%p) } -> (%y)",
     4,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[3,9], %i: i32[2,19]) { %y: f32[3,2,19] = gather(%x, %i) {axis=1} } -> "
     "(%y)",
     9,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f16[9,20], %i: i64[]) { %y: f16[20] = gather(%x, %i) {axis=0} } -> (%y)",
     9,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[4,20], %i: i64[7]) { %y: f32[7,20] = gather(%x, %i) {axis=0} } -> (%y)",
     9,
     0,
     {0},
     1},
    {"graph \"t\" (%x: f32[0,20], %i: i64[7]) { %y: f32[7,20] = gather(%x, %i) {axis=0} } -> (%y)",
     9,
     0,
     {0},
     1},
    {"graph \"t\" (%x: f32[3,5,6], %i: i64[8,2]) { %y: f32[8,6] = gather_nd(%x, %i) {batch_dims=0} "
     "} -> (%y)",
     3,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[3,5,6], %i: i64[3,40,1]) { %y: f32[3,40,6] = gather_nd(%x, %i) "
     "{batch_dims=1} } -> (%y)",
     5,
     0,
     {0},
     0},
    {"graph \"t\" (%x: i32[3,5], %i: i64[3,40,1]) { %y: i32[3,40] = gather_nd(%x, %i) "
     "{batch_dims=1} } -> (%y)",
     5,
     0,
     {0},
     0},
    {"symbol n [0, 100]\ngraph \"t\" () { %y: i64[3,n] = iota() {dims=[3,n], axis=1, to=i64} } -> "
     "(%y)",
     0,
     0,
     {23, 0, 0, 0},
     0},
    {"graph \"t\" () { %y: f16[40,3] = iota() {dims=[40,3], axis=0, to=f16} } -> (%y)",
     0,
     0,
     {0},
     0},
    {"symbol n [0, 100]\ngraph \"t\" () { %y: i64[3] = extents() {exprs=[n,2*n+1,7]} } -> (%y)",
     0,
     0,
     {23, 0, 0, 0},
     0},
    {"graph \"t\" (%x: f32[]) { %y: f32[] = exp(%x) } -> (%y)", 0, 0, {0}, 0},
    {"graph \"t\" (%x: f32[0,4]) { %y: f32[0,4] = exp(%x) } -> (%y)", 0, 0, {0}, 0},
    {"graph \"t\" (%x: f32[2,6]) { %y: f32[2,6] = exp(%x) %z: f32[12] = reshape(%y) {dims=[12]} } "
     "-> (%y, %z)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[5,40], %s: f32[1,40] const) { %c: f32[] = const {0x1p-1} %d: f32[1,1] = "
     "reshape(%c) {dims=[1,1]} %e: f32[5,40] = broadcast(%d) {dims=[5,40]} %t: f32[5,40] = "
     "broadcast(%s) {dims=[5,40]} %u: f32[5,40] = mul(%x, %t) %v: f32[5,40] = max(%u, %e) } -> "
     "(%v)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[3,4]) { %c: f32[4] = const {0x1p+0, 0x1p+1, -inf, nan} %r: f32[1,4] = "
     "reshape(%c) {dims=[1,4]} %b: f32[3,4] = broadcast(%r) {dims=[3,4]} %y: f32[3,4] = min(%x, "
     "%b) } -> (%y)",
     0,
     0,
     {0},
     0},
    {"graph \"t\" (%x: f32[20000]) { %y: f32[20000] = mul(%x, %x) } -> (%y)", 0, 0, {0}, 0},
};

static void movement(void **state) {
  (void)state;
  check_cases("native", moves, sizeof moves / sizeof moves[0]);
}

static void movement_on_avx2(void **state) {
  (void)state;
  check_cases_on_avx2(moves, sizeof moves / sizeof moves[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_ops_have_cases),
      cmocka_unit_test(each_op),
      cmocka_unit_test(casts),
      cmocka_unit_test(casts_through_small_integers),
      cmocka_unit_test(bits),
      cmocka_unit_test(movement),
      cmocka_unit_test(movement_on_avx2),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
