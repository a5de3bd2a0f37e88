#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/expr.h"

static cv_exprs *fresh(void) {
  cv_exprs *pool = cv_exprs_create(false);
  assert_non_null(pool);
  cv_exprs_symbol(pool, "n", 1, 1 << 20);
  cv_exprs_symbol(pool, "c", 1, 1 << 20);
  cv_exprs_symbol(pool, "z", 0, 1 << 20);
  cv_exprs_symbol(pool, "b", 0, 1);
  return pool;
}

static cv_expr parse(cv_exprs *pool, const char *text) {
  const char *end;
  cv_expr e;
  assert_int_equal(cv_expr_parse(pool, text, &end, &e), CV_OK);
  assert_string_equal(end, "");
  return e;
}

static void assert_text(const cv_exprs *pool, cv_expr e, const char *text) {
  cv_str out = {0};
  cv_expr_print(pool, e, &out);
  assert_string_equal(cv_str_text(&out), text);
  cv_str_deinit(&out);
}

/* What each text simplifies to; the result prints as it is and parses to itself. */
static const struct {
  const char *text, *simple;
} simplified[] = {
    {"1 + 2*3 - 4", "3"},
    {"n + c - n", "c"},
    {"c*n + n*c", "2*c*n"},
    {"(n + 1)*(n - 1)", "n*n - 1"},
    {"n*0", "0"},
    {"-9223372036854775808", "-9223372036854775808"},
    {"floordiv(7, 2)", "3"},
    {"floordiv(-7, 2)", "-4"},
    {"mod(-7, 2)", "1"},
    {"floordiv(2*n, 2)", "n"},
    {"floordiv(n*c*49, 49)", "c*n"},
    {"floordiv(n*c*49, n*7)", "7*c"},
    {"floordiv(n*8*64, 8)", "64*n"},
    {"floordiv(n*64, n)", "64"},
    {"floordiv(6*n, 4)", "floordiv(3*n, 2)"},
    {"floordiv(4*n + 6, 2)", "2*n + 3"},
    {"floordiv(n + 5, 2)", "floordiv(n + 1, 2) + 2"},
    {"floordiv(n*n + 2*n*c + c*c, n + c)", "c + n"},
    {"floordiv(n*c + 3*n, c + 3)", "n"},
    {"floordiv(n*c, n*z)", "floordiv(c, z)"},
    {"floordiv(floordiv(n, 2), 3)", "floordiv(n, 6)"},
    {"floordiv(floordiv(n + 1, 2) + 1, 2)", "floordiv(n + 3, 4)"},
    {"floordiv(mod(n, 4), 4)", "0"},
    {"mod(4*n + 1, 4)", "1"},
    {"mod(n*c, c)", "0"},
    {"mod(6*n, 4)", "2*mod(3*n, 2)"},
    {"mod(mod(n, 4), 4)", "mod(n, 4)"},
    {"mod(mod(n, 8), 4)", "mod(n, 4)"},
    {"max(n, 1)", "n"},
    {"max(z, 1)", "max(1, z)"},
    {"min(n, 0)", "0"},
    {"max(n, max(n, c))", "max(c, n)"},
    {"max(max(z, 3), 5)", "max(5, z)"},
    {"max(n + 1, n)", "n + 1"},
    {"eq(n, n)", "1"},
    {"eq(n, 0)", "0"},
    {"eq(z, c)", "eq(c, z)"},
    {"eq(b, 1)", "b"},
    {"eq(b, 0)", "-b + 1"},
    {"b*b*b", "b"},
    {"b*(1 - b)", "0"},
    {"lt(0, n)", "1"},
    {"lt(n, n)", "0"},
    {"lt(z, n)", "lt(z, n)"},
    {"select(1, n, c)", "n"},
    {"select(b, 1, 0)", "b"},
    {"select(lt(z, n), c, c)", "c"},
    {"select(b, 3, n)", "select(b, 3, n)"},
    {"`odd name`*2", "2*`odd name`"},
    {"`max` + `a\\x60b`", "`a\\x60b` + `max`"},
    {"9223372036854775807*n*2", "mul(2, 9223372036854775807*n)"},
};

static void test_simplification(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof simplified / sizeof *simplified; i++) {
    cv_exprs *pool = fresh();
    cv_expr e = parse(pool, simplified[i].text);
    assert_text(pool, e, simplified[i].simple);
    assert_int_equal(parse(pool, simplified[i].simple), e);
    cv_exprs_destroy(pool);
  }
}

static void test_evaluation(void **state) {
  (void)state;
  cv_exprs *pool = fresh();
  int64_t symbols[4] = {6, 4, 0, 1}, value;
  static const struct {
    const char *text;
    int64_t value;
  } cases[] = {{"n*c + 1", 25},      {"floordiv(n + 1, c)", 1}, {"mod(-n, c)", 2},
               {"max(n, c)", 6},     {"min(n, c)", 4},          {"eq(n, c)", 0},
               {"lt(c, n)", 1},      {"select(b, n, c)", 6},    {"select(z, floordiv(n, z), 7)", 7},
               {"-3*n*n + c", -104}, {"floordiv(-n, c)", -2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(cv_expr_eval(pool, parse(pool, cases[i].text), symbols, &value), CV_OK);
    assert_int_equal(value, cases[i].value);
  }
  symbols[2] = CV_UNBOUND;
  assert_int_equal(cv_expr_eval(pool, parse(pool, "z + 5"), symbols, &value), CV_OK);
  assert_int_equal(value, 5);
  assert_int_equal(cv_expr_eval(pool, parse(pool, "floordiv(n, z)"), symbols, &value), CV_INVALID);
  assert_int_equal(cv_expr_eval(pool, parse(pool, "floordiv(n, 0)"), symbols, &value), CV_INVALID);
  symbols[0] = INT64_MAX;
  assert_int_equal(cv_expr_eval(pool, parse(pool, "n*n"), symbols, &value), CV_INVALID);
  assert_int_equal(cv_expr_eval(pool, parse(pool, "n + c"), symbols, &value), CV_INVALID);
  assert_int_equal(cv_expr_eval(pool, CV_EXPR_NONE, symbols, &value), CV_INVALID);
  cv_exprs_destroy(pool);
}

/* Random expressions have the same value as the plain arithmetic they were built from. */
static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static void test_random_values(void **state) {
  (void)state;
  unsigned seed = 7;
  for (int round = 0; round < 300; round++) {
    cv_exprs *pool = fresh();
    int64_t symbols[4] = {1 + rand_r(&seed) % 9, 1 + rand_r(&seed) % 9, rand_r(&seed) % 5,
                          rand_r(&seed) % 2};
    cv_expr e[40];
    int64_t v[40];
    for (int i = 0; i < 40; i++) {
      int a = i > 0 ? rand_r(&seed) % i : 0, b = i > 0 ? rand_r(&seed) % i : 0;
      int kind = i < 6 ? i % 2 : 2 + rand_r(&seed) % 9;
      if (kind == 2 && (llabs(v[a]) > 10000 || llabs(v[b]) > 10000)) kind = 3;
      if ((kind == 5 || kind == 6) && v[b] <= 0) kind = 4;
      switch (kind) {
        case 0:
          e[i] = cv_expr_symbol(pool, (cv_sym)(i / 2 + (i > 3)));
          v[i] = symbols[i / 2 + (i > 3)];
          break;
        case 1:
          v[i] = rand_r(&seed) % 7;
          e[i] = cv_expr_const(pool, v[i]);
          break;
        case 2:
          e[i] = cv_expr_mul(pool, e[a], e[b]);
          v[i] = v[a] * v[b];
          break;
        case 3:
          e[i] = cv_expr_add(pool, e[a], e[b]);
          v[i] = v[a] + v[b];
          break;
        case 4:
          e[i] = cv_expr_sub(pool, e[a], e[b]);
          v[i] = v[a] - v[b];
          break;
        case 5:
          e[i] = cv_expr_div(pool, e[a], e[b]);
          v[i] = floor_div(v[a], v[b]);
          break;
        case 6:
          e[i] = cv_expr_mod(pool, e[a], e[b]);
          v[i] = v[a] - v[b] * floor_div(v[a], v[b]);
          break;
        case 7:
          e[i] = cv_expr_max(pool, e[a], e[b]);
          v[i] = v[a] > v[b] ? v[a] : v[b];
          break;
        case 8:
          e[i] = cv_expr_min(pool, e[a], e[b]);
          v[i] = v[a] < v[b] ? v[a] : v[b];
          break;
        case 9:
          e[i] = cv_expr_eq(pool, e[a], e[b]);
          v[i] = v[a] == v[b];
          break;
        default:
          e[i] = cv_expr_lt(pool, e[a], e[b]);
          v[i] = v[a] < v[b];
          break;
      }
      if (e[i] == CV_EXPR_NONE) { /* too large: start again from a constant */
        e[i] = cv_expr_const(pool, 1);
        v[i] = 1;
      }
      int64_t value, lo, hi;
      assert_int_equal(cv_expr_eval(pool, e[i], symbols, &value), CV_OK);
      assert_int_equal(value, v[i]);
      cv_expr_bounds(pool, e[i], &lo, &hi);
      assert_true(lo <= value && value <= hi);
      cv_str text = {0};
      cv_expr_print(pool, e[i], &text);
      const char *end;
      cv_expr back;
      assert_int_equal(cv_expr_parse(pool, cv_str_text(&text), &end, &back), CV_OK);
      assert_int_equal(back, e[i]);
      cv_str_deinit(&text);
    }
    cv_exprs_destroy(pool);
  }
}

static void test_bounds(void **state) {
  (void)state;
  cv_exprs *pool = fresh();
  int64_t lo, hi;
  cv_expr_bounds(pool, parse(pool, "2*n - 1"), &lo, &hi);
  assert_int_equal(lo, 1);
  assert_int_equal(hi, (2 << 20) - 1);
  cv_expr_bounds(pool, parse(pool, "mod(z, 8)"), &lo, &hi);
  assert_int_equal(lo, 0);
  assert_int_equal(hi, 7);
  cv_expr_bounds(pool, parse(pool, "n*n*n*n*n"), &lo, &hi);
  assert_int_equal(lo, 1);
  assert_int_equal(hi, INT64_MAX);
  cv_symbol_set_bounds(pool, 2, 3, 9);
  assert_text(pool, parse(pool, "max(z, 1)"), "z");
  cv_exprs_destroy(pool);
}

static void test_linear(void **state) {
  (void)state;
  cv_exprs *pool = fresh();
  cv_expr factor, rest;
  assert_true(cv_expr_linear(pool, parse(pool, "3*n*c + 2*c + 1"), 0, &factor, &rest));
  assert_text(pool, factor, "3*c");
  assert_text(pool, rest, "2*c + 1");
  assert_true(cv_expr_linear(pool, parse(pool, "c"), 0, &factor, &rest));
  assert_text(pool, factor, "0");
  assert_false(cv_expr_linear(pool, parse(pool, "n*n"), 0, &factor, &rest));
  assert_false(cv_expr_linear(pool, parse(pool, "floordiv(n, 2)"), 0, &factor, &rest));
  assert_true(cv_expr_uses(pool, parse(pool, "floordiv(n, 2)"), 0));
  assert_false(cv_expr_uses(pool, parse(pool, "floordiv(n, 2)"), 1));
  cv_exprs_destroy(pool);
}

static void test_substitute_and_import(void **state) {
  (void)state;
  cv_exprs *pool = fresh(), *other = cv_exprs_create(false);
  cv_expr map[4] = {cv_expr_const(pool, 4), CV_EXPR_NONE, CV_EXPR_NONE, CV_EXPR_NONE};
  cv_expr e = parse(pool, "n*c + max(n, z) + floordiv(n, 2)");
  assert_text(pool, cv_expr_substitute(pool, e, map), "4*c + max(4, z) + 2");
  cv_expr_const(other, 1);
  cv_expr back = cv_expr_import(other, pool, e);
  assert_text(other, back, "c*n + floordiv(n, 2) + max(n, z)");
  assert_int_equal(cv_exprs_symbols(other), 3);
  int64_t lo, hi;
  cv_symbol_bounds(other, cv_exprs_symbol(other, "n", 0, 0), &lo, &hi);
  assert_int_equal(lo, 1);
  assert_int_equal(hi, 1 << 20);
  cv_exprs_destroy(other);
  cv_exprs_destroy(pool);
}

static void test_c_text(void **state) {
  (void)state;
  cv_exprs *pool = fresh();
  const char *names[4] = {"d[0]", "d[1]", "d[2]", "d[3]"};
  cv_str out = {0};
  cv_expr_print_c(pool, parse(pool, "3*n*c - floordiv(z, 3) + select(b, n, eq(z, n))"), names,
                  &out);
  assert_string_equal(
      cv_str_text(&out),
      "3*d[1]*d[0] - cv_floordiv(d[2], 3) + ((d[3]) ? (d[0]) : (((d[0]) == (d[2]))))");
  cv_str_deinit(&out);
  cv_expr_print_c(pool, parse(pool, "`1 x`"), NULL, &out);
  assert_string_equal(cv_str_text(&out), "_1_x");
  cv_str_deinit(&out);
  cv_exprs_destroy(pool);
}

static void test_bad_text(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      "+",
                                      "n +",
                                      "(n",
                                      "max(n)",
                                      "max(n, 1",
                                      "f(n)",
                                      "`n",
                                      "`\\q`",
                                      "`\\x00`",
                                      "9223372036854775808",
                                      "n * )",
                                      "select(n, 1)"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    cv_exprs *pool = fresh();
    const char *end;
    cv_expr e;
    assert_int_equal(cv_expr_parse(pool, texts[i], &end, &e), CV_INVALID);
    assert_int_equal(e, CV_EXPR_NONE);
    cv_exprs_destroy(pool);
  }
  static const char *const repeated[] = {"(", "-", "max(z, 1 - ", "n*", "(n + 2*c + 3*z)*"};
  for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++) {
    cv_exprs *pool = fresh();
    cv_str text = {0};
    const char *end;
    cv_expr e;
    for (int k = 0; k < 20000; k++) cv_str_puts(&text, repeated[i]);
    assert_int_equal(cv_expr_parse(pool, cv_str_text(&text), &end, &e), CV_INVALID);
    cv_str_deinit(&text);
    cv_exprs_destroy(pool);
  }
}

static void test_stops_at_the_end(void **state) {
  (void)state;
  cv_exprs *pool = fresh();
  const char *end;
  cv_expr e;
  assert_int_equal(cv_expr_parse(pool, "n + 1, c]", &end, &e), CV_OK);
  assert_string_equal(end, ", c]");
  assert_text(pool, e, "n + 1");
  cv_exprs_destroy(pool);
}

/* Whatever allocation fails: an expression or CV_EXPR_NONE, and nothing leaks. */
static void test_out_of_memory(void **state) {
  (void)state;
  for (long n = 1; n < 10000; n++) {
    cv_fault_arm(n);
    cv_exprs *pool = cv_exprs_create(false);
    if (pool != NULL) {
      const char *end;
      cv_expr e;
      (void)!cv_expr_parse(pool, "floordiv(n*c*7 + max(n, c)*(1 + n), 7) + mod(n + c, n*c)", &end,
                           &e);
      cv_exprs_destroy(pool);
    }
    bool fired = cv_fault_fired();
    cv_fault_arm(0);
    if (!fired) return;
  }
  fail_msg("the fault points do not end");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_simplification),   cmocka_unit_test(test_evaluation),
      cmocka_unit_test(test_random_values),    cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_linear),           cmocka_unit_test(test_substitute_and_import),
      cmocka_unit_test(test_c_text),           cmocka_unit_test(test_bad_text),
      cmocka_unit_test(test_stops_at_the_end), cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
