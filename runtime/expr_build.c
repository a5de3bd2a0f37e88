/* The builders of expressions and what they simplify. */
#include <string.h>

#include "runtime/expr_internal.h"

bool expr_floor_div(int64_t a, int64_t b, int64_t *out) {
  *out = 0;
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  int64_t q = a / b;
  if (a % b != 0 && (a < 0) != (b < 0)) q--;
  *out = q;
  return true;
}

static bool is_const(const cv_exprs *pool, cv_expr e, int64_t value) {
  int64_t known;
  return cv_expr_is_const(pool, e, &known) && known == value;
}

static bool is_bool(const cv_exprs *pool, cv_expr e) {
  int64_t lo, hi;
  cv_expr_bounds(pool, e, &lo, &hi);
  return lo >= 0 && hi <= 1;
}

/* Bounds of a - b; the widest where the difference cannot be built. */
static void difference(cv_exprs *pool, cv_expr a, cv_expr b, int64_t *out_lo, int64_t *out_hi) {
  cv_expr d = cv_expr_sub(pool, a, b);
  *out_lo = INT64_MIN;
  *out_hi = INT64_MAX;
  if (d != CV_EXPR_NONE) cv_expr_bounds(pool, d, out_lo, out_hi);
}

/* ---- sums and products ---- */

static void add_scaled(const cv_exprs *pool, expr_sum *sum, cv_expr e, int64_t scale) {
  uint32_t n;
  const expr_term *terms = expr_terms(pool, e, &n);
  for (uint32_t i = 0; i < n; i++) {
    int64_t coef;
    if (__builtin_mul_overflow(terms[i].coef, scale, &coef)) {
      sum->overflow = true;
      return;
    }
    expr_sum_add(sum, coef, terms[i].n, terms[i].factors);
  }
}

cv_expr cv_expr_add(cv_exprs *pool, cv_expr a, cv_expr b) {
  if (a == CV_EXPR_NONE || b == CV_EXPR_NONE) return CV_EXPR_NONE;
  expr_sum sum = {0};
  bool overflow;
  add_scaled(pool, &sum, a, 1);
  add_scaled(pool, &sum, b, 1);
  cv_expr e = expr_sum_finish(pool, &sum, &overflow);
  return overflow ? expr_function(pool, KIND_ADD, a, b, 0) : e;
}

cv_expr cv_expr_sub(cv_exprs *pool, cv_expr a, cv_expr b) {
  if (a == CV_EXPR_NONE || b == CV_EXPR_NONE) return CV_EXPR_NONE;
  expr_sum sum = {0};
  bool overflow;
  add_scaled(pool, &sum, a, 1);
  add_scaled(pool, &sum, b, -1);
  cv_expr e = expr_sum_finish(pool, &sum, &overflow);
  if (!overflow) return e;
  cv_expr negative = expr_function(pool, KIND_MUL, cv_expr_const(pool, -1), b, 0);
  return negative == CV_EXPR_NONE ? negative : expr_function(pool, KIND_ADD, a, negative, 0);
}

/* Merges two sorted factor lists; an atom that is 0 or 1 stands once. False when out of memory. */
static bool merge_factors(cv_exprs *pool, const expr_term *a, const expr_term *b,
                          expr_term *out_term) {
  cv_expr *factors = NULL;
  uint32_t n = 0, i = 0, k = 0;
  if (a->n == 0 || b->n == 0) {
    *out_term = a->n == 0 ? *b : *a;
    return true;
  }
  factors = cv_arena_array(&pool->arena, cv_expr, a->n + b->n);
  if (factors == NULL) return false;
  while (i < a->n || k < b->n) {
    bool first = k == b->n || (i < a->n && expr_compare(pool, a->factors[i], b->factors[k]) <= 0);
    cv_expr atom = first ? a->factors[i++] : b->factors[k++];
    if (n > 0 && factors[n - 1] == atom && is_bool(pool, atom)) continue;
    factors[n++] = atom;
  }
  *out_term = (expr_term){.n = n, .factors = factors};
  return true;
}

static void add_product(cv_exprs *pool, expr_sum *sum, const expr_term *a, const expr_term *b) {
  expr_term term;
  int64_t coef;
  if (__builtin_mul_overflow(a->coef, b->coef, &coef)) {
    sum->overflow = true;
  } else if (!merge_factors(pool, a, b, &term)) {
    sum->failed = true;
  } else {
    expr_sum_add(sum, coef, term.n, term.factors);
  }
}

cv_expr cv_expr_mul(cv_exprs *pool, cv_expr a, cv_expr b) {
  if (a == CV_EXPR_NONE || b == CV_EXPR_NONE) return CV_EXPR_NONE;
  if (is_const(pool, a, 0) || is_const(pool, b, 1)) return a;
  if (is_const(pool, b, 0) || is_const(pool, a, 1)) return b;
  uint32_t na, nb;
  const expr_term *ta = expr_terms(pool, a, &na), *tb = expr_terms(pool, b, &nb);
  expr_sum sum = {0};
  bool overflow;
  if ((uint64_t)na * nb > EXPR_MAX_PRODUCTS) return CV_EXPR_NONE;
  for (uint32_t i = 0; i < na && !sum.failed; i++) {
    for (uint32_t k = 0; k < nb && !sum.failed; k++) add_product(pool, &sum, &ta[i], &tb[k]);
  }
  cv_expr e = expr_sum_finish(pool, &sum, &overflow);
  if (!overflow) return e;
  if (expr_compare(pool, a, b) > 0) {
    cv_expr swap = a;
    a = b;
    b = swap;
  }
  return expr_function(pool, KIND_MUL, a, b, 0);
}

/* ---- division ---- */

/* a's factors without b's: false if b's are not all in a. `out` has room for a->n. */
static bool remove_factors(const expr_term *a, const expr_term *b, cv_expr *out, uint32_t *out_n) {
  uint32_t n = 0, left = b->n;
  bool used[EXPR_MAX_DEGREE] = {false};
  if (b->n > a->n) return false;
  for (uint32_t i = 0; i < a->n; i++) {
    bool removed = false;
    for (uint32_t k = 0; k < b->n && !removed; k++) {
      if (used[k] || b->factors[k] != a->factors[i]) continue;
      used[k] = removed = true;
      left--;
    }
    if (!removed) out[n++] = a->factors[i];
  }
  *out_n = n;
  return left == 0;
}

/* The term a / b where it is exact. */
static bool divide_term(cv_exprs *pool, const expr_term *a, const expr_term *b,
                        expr_term *out_term) {
  if (b->coef == 0 || (a->coef == INT64_MIN && b->coef == -1) || a->coef % b->coef != 0) {
    return false;
  }
  cv_expr *factors = NULL;
  uint32_t n = 0;
  if (a->n > 0) {
    factors = cv_arena_array(&pool->arena, cv_expr, a->n);
    if (factors == NULL || !remove_factors(a, b, factors, &n)) return false;
  } else if (b->n > 0) {
    return false;
  }
  *out_term = (expr_term){.coef = a->coef / b->coef, .n = n, .factors = factors};
  return true;
}

/* a = q * b + r for one term b: what divides exactly goes to q; of a constant term by a constant,
 * the floor. */
static bool split_by_term(cv_exprs *pool, cv_expr a, const expr_term *b, cv_expr *out_q,
                          cv_expr *out_r) {
  uint32_t n;
  const expr_term *terms = expr_terms(pool, a, &n);
  expr_sum q = {0}, r = {0};
  bool overflow_q, overflow_r;
  for (uint32_t i = 0; i < n; i++) {
    expr_term part;
    int64_t floor;
    if (divide_term(pool, &terms[i], b, &part)) {
      expr_sum_add(&q, part.coef, part.n, part.factors);
    } else if (terms[i].n == 0 && b->n == 0 && expr_floor_div(terms[i].coef, b->coef, &floor)) {
      expr_sum_add(&q, floor, 0, NULL);
      expr_sum_add(&r, terms[i].coef - floor * b->coef, 0, NULL);
    } else {
      expr_sum_add(&r, terms[i].coef, terms[i].n, terms[i].factors);
    }
  }
  *out_q = expr_sum_finish(pool, &q, &overflow_q);
  *out_r = expr_sum_finish(pool, &r, &overflow_r);
  return *out_q != CV_EXPR_NONE && *out_r != CV_EXPR_NONE;
}

/* a = q * b exactly, by long division of polynomials. */
static bool divide_exactly(cv_exprs *pool, cv_expr a, cv_expr b, cv_expr *out_q) {
  uint32_t nb, na;
  const expr_term *tb = expr_terms(pool, b, &nb);
  cv_expr q = cv_expr_const(pool, 0), r = a;
  (void)expr_terms(pool, a, &na);
  for (uint32_t step = 0; step < 2 * na + 8; step++) {
    uint32_t nr;
    const expr_term *tr = expr_terms(pool, r, &nr);
    expr_term part;
    expr_sum sum = {0};
    bool overflow;
    if (nr == 0) {
      *out_q = q;
      return true;
    }
    if (!divide_term(pool, &tr[0], &tb[0], &part)) return false;
    expr_sum_add(&sum, part.coef, part.n, part.factors);
    cv_expr factor = expr_sum_finish(pool, &sum, &overflow);
    q = cv_expr_add(pool, q, factor);
    r = cv_expr_sub(pool, r, cv_expr_mul(pool, factor, b));
    if (q == CV_EXPR_NONE || r == CV_EXPR_NONE) return false;
  }
  return false;
}

static bool split(cv_exprs *pool, cv_expr a, cv_expr b, cv_expr *out_q, cv_expr *out_r) {
  uint32_t nb;
  const expr_term *tb = expr_terms(pool, b, &nb);
  *out_q = *out_r = CV_EXPR_NONE;
  if (nb == 1) return split_by_term(pool, a, tb, out_q, out_r);
  if (nb > 1 && divide_exactly(pool, a, b, out_q)) {
    *out_r = cv_expr_const(pool, 0);
    return *out_r != CV_EXPR_NONE;
  }
  return false;
}

static uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }

static uint64_t gcd(uint64_t a, uint64_t b) {
  while (b != 0) {
    uint64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

/* Takes what a's and b's terms all have in common (constant and atoms) out of `common`. */
static void intersect(cv_exprs *pool, cv_expr e, uint64_t *coef, cv_expr *common, uint32_t *n) {
  uint32_t count;
  const expr_term *terms = expr_terms(pool, e, &count);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t kept = 0;
    bool used[EXPR_MAX_DEGREE] = {false};
    *coef = gcd(*coef, magnitude(terms[i].coef));
    for (uint32_t c = 0; c < *n; c++) {
      for (uint32_t k = 0; k < terms[i].n; k++) {
        if (used[k] || terms[i].factors[k] != common[c]) continue;
        used[k] = true;
        common[kept++] = common[c];
        break;
      }
    }
    *n = kept;
  }
}

/* Divides a and b by their common content (a constant > 0 and atoms), which goes to *out_g. */
static bool cancel_content(cv_exprs *pool, cv_expr *a, cv_expr *b, cv_expr *out_g) {
  uint32_t nb, n = 0;
  const expr_term *tb = expr_terms(pool, *b, &nb);
  uint64_t coef = 0;
  cv_expr common[EXPR_MAX_DEGREE], qa, qb, r;
  expr_sum sum = {0};
  bool overflow;
  if (nb == 0) return false;
  for (uint32_t i = 0; i < tb[0].n; i++) common[n++] = tb[0].factors[i];
  intersect(pool, *a, &coef, common, &n);
  intersect(pool, *b, &coef, common, &n);
  if (coef == 0 || coef > INT64_MAX || (coef == 1 && n == 0)) return false;
  expr_sum_add(&sum, (int64_t)coef, n, common);
  cv_expr g = expr_sum_finish(pool, &sum, &overflow);
  if (g == CV_EXPR_NONE) return false;
  uint32_t ng;
  const expr_term *tg = expr_terms(pool, g, &ng);
  if (!split_by_term(pool, *a, tg, &qa, &r) || !is_const(pool, r, 0)) return false;
  if (!split_by_term(pool, *b, tg, &qb, &r) || !is_const(pool, r, 0)) return false;
  *a = qa;
  *b = qb;
  *out_g = g;
  return true;
}

/* floordiv(floordiv(x, d) + c, b) = floordiv(x + c*d, d*b) for constants d, b > 0. */
static bool nested_division(cv_exprs *pool, cv_expr a, cv_expr b, cv_expr *out) {
  uint32_t n;
  const expr_term *terms = expr_terms(pool, a, &n);
  int64_t cb, cd, product, offset = 0;
  if (!cv_expr_is_const(pool, b, &cb) || cb <= 0 || n == 0 || n > 2) return false;
  if (terms[0].n != 1 || terms[0].coef != 1 || (n == 2 && terms[1].n != 0)) return false;
  const expr_node *inner = expr_at(pool, terms[0].factors[0]);
  if (inner->kind != KIND_DIV || !cv_expr_is_const(pool, inner->args[1], &cd) || cd <= 0) {
    return false;
  }
  if (__builtin_mul_overflow(cb, cd, &product)) return false;
  if (n == 2 && __builtin_mul_overflow(terms[1].coef, cd, &offset)) return false;
  cv_expr x = cv_expr_add(pool, inner->args[0], cv_expr_const(pool, offset));
  *out = cv_expr_div(pool, x, cv_expr_const(pool, product));
  return true;
}

/* True if floor(r / b) is one constant by the bounds. */
static bool constant_quotient(cv_exprs *pool, cv_expr r, cv_expr b, int64_t *out) {
  int64_t rlo, rhi, blo, bhi;
  cv_expr_bounds(pool, r, &rlo, &rhi);
  cv_expr_bounds(pool, b, &blo, &bhi);
  if (blo <= 0) return false;
  if (rlo >= 0) {
    *out = rlo / bhi;
    return *out == rhi / blo;
  }
  int64_t first, last;
  if (rhi >= 0 || !expr_floor_div(rlo, blo, &first) || !expr_floor_div(rhi, bhi, &last)) {
    return false;
  }
  *out = first;
  return first == last;
}

cv_expr cv_expr_div(cv_exprs *pool, cv_expr a, cv_expr b) {
  cv_expr q, r, result, g;
  int64_t value;
  if (a == CV_EXPR_NONE || b == CV_EXPR_NONE) return CV_EXPR_NONE;
  if (is_const(pool, b, 0)) return expr_function(pool, KIND_DIV, a, b, 0);
  if (is_const(pool, b, 1)) return a;
  if (!split(pool, a, b, &q, &r)) {
    q = cv_expr_const(pool, 0);
    r = a;
  }
  if (q == CV_EXPR_NONE || r == CV_EXPR_NONE) return CV_EXPR_NONE;
  if (is_const(pool, r, 0)) return q;
  if (constant_quotient(pool, r, b, &value)) {
    return cv_expr_add(pool, q, cv_expr_const(pool, value));
  }
  if (cancel_content(pool, &r, &b, &g)) {
    result = cv_expr_div(pool, r, b);
  } else if (!nested_division(pool, r, b, &result)) {
    result = expr_function(pool, KIND_DIV, r, b, 0);
  }
  return cv_expr_add(pool, q, result);
}

cv_expr cv_expr_mod(cv_exprs *pool, cv_expr a, cv_expr b) {
  cv_expr q, r, g;
  int64_t rlo, rhi, blo, bhi, inner, outer;
  if (a == CV_EXPR_NONE || b == CV_EXPR_NONE) return CV_EXPR_NONE;
  if (is_const(pool, b, 0)) return expr_function(pool, KIND_MOD, a, b, 0);
  if (!split(pool, a, b, &q, &r)) r = a;
  if (is_const(pool, r, 0)) return r;
  cv_expr_bounds(pool, r, &rlo, &rhi);
  cv_expr_bounds(pool, b, &blo, &bhi);
  if (rlo >= 0 && rhi < blo) return r;
  if (cancel_content(pool, &r, &b, &g)) {
    return cv_expr_mul(pool, g, cv_expr_mod(pool, r, b));
  }
  const expr_node *node = expr_at(pool, r);
  if (node->kind == KIND_MOD && cv_expr_is_const(pool, node->args[1], &inner) &&
      cv_expr_is_const(pool, b, &outer) && inner > 0 && outer > 0 && inner % outer == 0) {
    return cv_expr_mod(pool, node->args[0], b);
  }
  return expr_function(pool, KIND_MOD, r, b, 0);
}

/* ---- order ---- */

/* The smaller (sign -1) or larger (1) of a and b where the bounds decide; CV_EXPR_NONE else. */
static cv_expr decided(cv_exprs *pool, cv_expr a, cv_expr b, int sign) {
  int64_t lo, hi;
  difference(pool, a, b, &lo, &hi);
  if (lo >= 0) return sign > 0 ? a : b;
  if (hi <= 0) return sign > 0 ? b : a;
  return CV_EXPR_NONE;
}

/* max(max(x, y), b), where b and x or y decide. */
static cv_expr absorb(cv_exprs *pool, expr_kind kind, cv_expr a, cv_expr b, int sign) {
  const expr_node *node = expr_at(pool, a);
  if (node->kind != kind) return CV_EXPR_NONE;
  for (int i = 0; i < 2; i++) {
    cv_expr x = node->args[i], y = node->args[1 - i];
    cv_expr winner = decided(pool, x, b, sign);
    if (winner == x) return a;
    if (winner == b) return sign > 0 ? cv_expr_max(pool, y, b) : cv_expr_min(pool, y, b);
  }
  return CV_EXPR_NONE;
}

static cv_expr extremum(cv_exprs *pool, expr_kind kind, cv_expr a, cv_expr b, int sign) {
  if (a == CV_EXPR_NONE || b == CV_EXPR_NONE) return CV_EXPR_NONE;
  cv_expr known = decided(pool, a, b, sign);
  if (known == CV_EXPR_NONE) known = absorb(pool, kind, a, b, sign);
  if (known == CV_EXPR_NONE) known = absorb(pool, kind, b, a, sign);
  if (known != CV_EXPR_NONE) return known;
  bool swap = expr_compare(pool, a, b) > 0;
  return expr_function(pool, kind, swap ? b : a, swap ? a : b, 0);
}

cv_expr cv_expr_max(cv_exprs *pool, cv_expr a, cv_expr b) {
  return extremum(pool, KIND_MAX, a, b, 1);
}

cv_expr cv_expr_min(cv_exprs *pool, cv_expr a, cv_expr b) {
  return extremum(pool, KIND_MIN, a, b, -1);
}

cv_expr cv_expr_eq(cv_exprs *pool, cv_expr a, cv_expr b) {
  int64_t lo, hi;
  if (a == CV_EXPR_NONE || b == CV_EXPR_NONE) return CV_EXPR_NONE;
  difference(pool, a, b, &lo, &hi);
  if (lo == 0 && hi == 0) return cv_expr_const(pool, 1);
  if (lo > 0 || hi < 0) return cv_expr_const(pool, 0);
  for (int i = 0; i < 2; i++) {
    cv_expr x = i == 0 ? a : b, y = i == 0 ? b : a;
    if (!is_bool(pool, x)) continue;
    if (is_const(pool, y, 1)) return x;
    if (is_const(pool, y, 0)) return cv_expr_sub(pool, cv_expr_const(pool, 1), x);
  }
  bool swap = expr_compare(pool, a, b) > 0;
  return expr_function(pool, KIND_EQ, swap ? b : a, swap ? a : b, 0);
}

cv_expr cv_expr_lt(cv_exprs *pool, cv_expr a, cv_expr b) {
  int64_t lo, hi;
  if (a == CV_EXPR_NONE || b == CV_EXPR_NONE) return CV_EXPR_NONE;
  difference(pool, b, a, &lo, &hi);
  if (lo > 0) return cv_expr_const(pool, 1);
  if (hi <= 0) return cv_expr_const(pool, 0);
  return expr_function(pool, KIND_LT, a, b, 0);
}

cv_expr cv_expr_select(cv_exprs *pool, cv_expr c, cv_expr a, cv_expr b) {
  int64_t lo, hi;
  if (c == CV_EXPR_NONE || a == CV_EXPR_NONE || b == CV_EXPR_NONE) return CV_EXPR_NONE;
  if (a == b) return a;
  cv_expr_bounds(pool, c, &lo, &hi);
  if (lo > 0 || hi < 0) return a;
  if (lo == 0 && hi == 0) return b;
  if (lo == 0 && hi == 1) {
    if (is_const(pool, a, 1) && is_const(pool, b, 0)) return c;
    if (is_const(pool, a, 0) && is_const(pool, b, 1)) {
      return cv_expr_sub(pool, cv_expr_const(pool, 1), c);
    }
  }
  return expr_function(pool, KIND_SELECT, c, a, b);
}

cv_expr expr_apply(cv_exprs *pool, expr_kind kind, cv_expr a, cv_expr b, cv_expr c) {
  switch (kind) {
    case KIND_ADD: return cv_expr_add(pool, a, b);
    case KIND_MUL: return cv_expr_mul(pool, a, b);
    case KIND_DIV: return cv_expr_div(pool, a, b);
    case KIND_MOD: return cv_expr_mod(pool, a, b);
    case KIND_MAX: return cv_expr_max(pool, a, b);
    case KIND_MIN: return cv_expr_min(pool, a, b);
    case KIND_EQ: return cv_expr_eq(pool, a, b);
    case KIND_LT: return cv_expr_lt(pool, a, b);
    case KIND_SELECT: return cv_expr_select(pool, c == CV_EXPR_NONE ? c : a, b, c);
    default: return CV_EXPR_NONE;
  }
}

const char *expr_kind_name(expr_kind kind) {
  static const char *const names[KIND_COUNT] = {"const", "symbol", "poly", "floordiv",
                                                "mod",   "max",    "min",  "eq",
                                                "lt",    "select", "add",  "mul"};
  return names[kind];
}

int expr_kind_arity(expr_kind kind) { return kind == KIND_SELECT ? 3 : kind >= KIND_DIV ? 2 : 0; }
