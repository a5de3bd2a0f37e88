/* Bounds, values, substitution and import of expressions. */
#include "runtime/expr_internal.h"

static int64_t clamp(__int128 x) {
  return x > INT64_MAX ? INT64_MAX : x < INT64_MIN ? INT64_MIN : (int64_t)x;
}

typedef struct {
  int64_t lo, hi;
} range;

/* An end at the limit of int64 stands for "beyond": it stays there under sums and products. */
static int64_t end_add(int64_t a, int64_t b) {
  if (a == INT64_MIN || b == INT64_MIN) return INT64_MIN;
  if (a == INT64_MAX || b == INT64_MAX) return INT64_MAX;
  return clamp((__int128)a + b);
}

static range range_mul(range a, range b) {
  int64_t ends[4] = {clamp((__int128)a.lo * b.lo), clamp((__int128)a.lo * b.hi),
                     clamp((__int128)a.hi * b.lo), clamp((__int128)a.hi * b.hi)};
  range r = {ends[0], ends[0]};
  for (int i = 1; i < 4; i++) {
    if (ends[i] < r.lo) r.lo = ends[i];
    if (ends[i] > r.hi) r.hi = ends[i];
  }
  return r;
}

static range bounds_of(const cv_exprs *pool, cv_expr e);

static range bounds_of_poly(const cv_exprs *pool, const expr_node *node) {
  range sum = {0, 0};
  for (uint32_t i = 0; i < node->n_terms; i++) {
    const expr_term *term = &node->terms[i];
    range product = {term->coef, term->coef};
    for (uint32_t k = 0; k < term->n;) {
      uint32_t power = 0;
      cv_expr atom = term->factors[k];
      range factor = bounds_of(pool, atom), raised = {1, 1};
      for (; k < term->n && term->factors[k] == atom; k++, power++) {
        raised = range_mul(raised, factor);
      }
      if (power % 2 == 0 && raised.lo < 0) raised.lo = 0;
      product = range_mul(product, raised);
    }
    sum.lo = end_add(sum.lo, product.lo);
    sum.hi = end_add(sum.hi, product.hi);
  }
  return sum;
}

static range bounds_of_div(range a, range b) {
  range r = {INT64_MIN, INT64_MAX};
  if (b.lo <= 0) {
    /* A divisor of 0 is an error, so one that is not negative is at least 1. */
    if (b.lo < 0) return r;
    b.lo = 1;
    if (b.hi < 1) b.hi = 1;
  }
  (void)expr_floor_div(a.lo, a.lo < 0 ? b.lo : b.hi, &r.lo);
  (void)expr_floor_div(a.hi, a.hi < 0 ? b.hi : b.lo, &r.hi);
  if (a.lo == INT64_MIN) r.lo = INT64_MIN;
  if (a.hi == INT64_MAX) r.hi = INT64_MAX;
  return r;
}

static range bounds_of_mod(range a, range b) {
  if (b.lo < 0) return (range){INT64_MIN, INT64_MAX};
  range r = {0, b.hi == INT64_MAX ? INT64_MAX : b.hi > 0 ? b.hi - 1 : 0};
  if (a.lo >= 0 && a.hi < r.hi) r.hi = a.hi;
  return r;
}

static range bounds_of(const cv_exprs *pool, cv_expr e) {
  const expr_node *node = expr_at(pool, e);
  range r = {INT64_MIN, INT64_MAX};
  switch (node->kind) {
    case KIND_CONST: return (range){node->value, node->value};
    case KIND_SYMBOL: cv_symbol_bounds(pool, node->sym, &r.lo, &r.hi); return r;
    case KIND_POLY: return bounds_of_poly(pool, node);
    case KIND_EQ:
    case KIND_LT: return (range){0, 1};
    default: break;
  }
  bool select = node->kind == KIND_SELECT;
  range a = bounds_of(pool, node->args[select ? 1 : 0]);
  range b = bounds_of(pool, node->args[select ? 2 : 1]);
  switch (node->kind) {
    case KIND_DIV: return bounds_of_div(a, b);
    case KIND_MOD: return bounds_of_mod(a, b);
    case KIND_MAX: return (range){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
    case KIND_MIN: return (range){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    case KIND_SELECT: return (range){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
    case KIND_ADD: return (range){end_add(a.lo, b.lo), end_add(a.hi, b.hi)};
    case KIND_MUL: return range_mul(a, b);
    default: return r;
  }
}

void cv_expr_bounds(const cv_exprs *pool, cv_expr e, int64_t *out_lo, int64_t *out_hi) {
  range r = {INT64_MIN, INT64_MAX};
  if (e != CV_EXPR_NONE) r = bounds_of(pool, e);
  *out_lo = r.lo;
  *out_hi = r.hi;
}

uint32_t cv_expr_size(const cv_exprs *pool, cv_expr e) {
  return e == CV_EXPR_NONE ? 0 : expr_at(pool, e)->size;
}

bool cv_expr_uses(const cv_exprs *pool, cv_expr e, cv_sym sym) {
  if (e == CV_EXPR_NONE) return false;
  const expr_node *node = expr_at(pool, e);
  if (node->kind == KIND_SYMBOL) return node->sym == sym;
  for (uint32_t i = 0; i < node->n_terms; i++) {
    for (uint32_t k = 0; k < node->terms[i].n; k++) {
      if (cv_expr_uses(pool, node->terms[i].factors[k], sym)) return true;
    }
  }
  for (int i = 0; i < expr_kind_arity(node->kind); i++) {
    if (cv_expr_uses(pool, node->args[i], sym)) return true;
  }
  return false;
}

bool cv_expr_linear(cv_exprs *pool, cv_expr e, cv_sym sym, cv_expr *out_factor, cv_expr *out_rest) {
  *out_factor = *out_rest = CV_EXPR_NONE;
  if (e == CV_EXPR_NONE) return false;
  uint32_t n;
  const expr_term *terms = expr_terms(pool, e, &n);
  expr_sum factor = {0}, rest = {0};
  bool ok = true, overflow;
  for (uint32_t i = 0; i < n && ok; i++) {
    const expr_term *term = &terms[i];
    uint32_t at = term->n, count = 0;
    for (uint32_t k = 0; k < term->n; k++) {
      if (!cv_expr_uses(pool, term->factors[k], sym)) continue;
      at = k;
      count++;
    }
    if (count == 0) {
      expr_sum_add(&rest, term->coef, term->n, term->factors);
      continue;
    }
    ok = count == 1 && expr_at(pool, term->factors[at])->kind == KIND_SYMBOL;
    if (!ok) break;
    cv_expr *left = cv_arena_array(&pool->arena, cv_expr, term->n);
    if (left == NULL) {
      ok = false;
      break;
    }
    for (uint32_t k = 0, to = 0; k < term->n; k++) {
      if (k != at) left[to++] = term->factors[k];
    }
    expr_sum_add(&factor, term->coef, term->n - 1, left);
  }
  cv_expr f = expr_sum_finish(pool, &factor, &overflow);
  cv_expr r = expr_sum_finish(pool, &rest, &overflow);
  if (!ok || f == CV_EXPR_NONE || r == CV_EXPR_NONE) return false;
  *out_factor = f;
  *out_rest = r;
  return true;
}

/* ---- rebuilding ---- */

/* What is put for what: each symbol s by map[s] (CV_EXPR_NONE: itself; no map: the symbol of the
 * same name), the function `atom` by `value`. */
typedef struct {
  const cv_expr *map;
  cv_expr atom, value;
} replacing;

static cv_expr rebuild(cv_exprs *to, const cv_exprs *from, cv_expr e, const replacing *how) {
  if (e == CV_EXPR_NONE) return CV_EXPR_NONE;
  if (e == how->atom) return how->value;
  const expr_node *node = expr_at(from, e);
  if (node->kind == KIND_CONST) return cv_expr_const(to, node->value);
  if (node->kind == KIND_SYMBOL) {
    if (how->map != NULL) return how->map[node->sym] == CV_EXPR_NONE ? e : how->map[node->sym];
    if (to == from) return e;
    const expr_symbol *symbol = &from->symbols.data[node->sym];
    cv_sym sym = cv_exprs_symbol(to, symbol->name, symbol->lo, symbol->hi);
    return sym == CV_EXPR_NONE ? CV_EXPR_NONE : cv_expr_symbol(to, sym);
  }
  if (node->kind == KIND_POLY) {
    cv_expr sum = cv_expr_const(to, 0);
    for (uint32_t i = 0; i < node->n_terms; i++) {
      cv_expr product = cv_expr_const(to, node->terms[i].coef);
      for (uint32_t k = 0; k < node->terms[i].n; k++) {
        product = cv_expr_mul(to, product, rebuild(to, from, node->terms[i].factors[k], how));
      }
      sum = cv_expr_add(to, sum, product);
    }
    return sum;
  }
  cv_expr args[3] = {0};
  for (int i = 0; i < expr_kind_arity(node->kind); i++) {
    args[i] = rebuild(to, from, node->args[i], how);
  }
  return expr_apply(to, node->kind, args[0], args[1], args[2]);
}

cv_expr cv_expr_substitute(cv_exprs *pool, cv_expr e, const cv_expr *map) {
  return rebuild(pool, pool, e, &(replacing){.map = map, .atom = CV_EXPR_NONE});
}

bool cv_expr_is_function(const cv_exprs *pool, cv_expr e) {
  if (e == CV_EXPR_NONE) return false;
  expr_kind kind = expr_at(pool, e)->kind;
  return kind != KIND_CONST && kind != KIND_SYMBOL && kind != KIND_POLY;
}

cv_expr cv_expr_replace(cv_exprs *pool, cv_expr e, cv_expr from, cv_expr to) {
  return rebuild(pool, pool, e, &(replacing){.atom = from, .value = to});
}

cv_expr cv_expr_import(cv_exprs *to, const cv_exprs *from, cv_expr e) {
  return to == from ? e : rebuild(to, from, e, &(replacing){.atom = CV_EXPR_NONE});
}

/* ---- evaluation ---- */

static cv_status overflow(void) {
  return cv_error(CV_INVALID, "a size or index expression overflows 64 bits");
}

static cv_status eval(const cv_exprs *pool, cv_expr e, const int64_t *symbols, int64_t *out);

static cv_status eval_poly(const cv_exprs *pool, const expr_node *node, const int64_t *symbols,
                           int64_t *out) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < node->n_terms; i++) {
    int64_t product = node->terms[i].coef;
    for (uint32_t k = 0; k < node->terms[i].n; k++) {
      int64_t value;
      cv_status status = eval(pool, node->terms[i].factors[k], symbols, &value);
      if (status != CV_OK) return status;
      if (__builtin_mul_overflow(product, value, &product)) return overflow();
    }
    if (__builtin_add_overflow(sum, product, &sum)) return overflow();
  }
  *out = sum;
  return CV_OK;
}

static cv_status eval_divide(expr_kind kind, int64_t a, int64_t b, int64_t *out) {
  int64_t q;
  if (b == 0) {
    return cv_error(CV_INVALID, "a size or index expression divides %lld by zero", (long long)a);
  }
  if (!expr_floor_div(a, b, &q)) {
    if (kind == KIND_DIV) return overflow();
    q = 0;
    a = 0;
  }
  *out = kind == KIND_DIV ? q : a - q * b;
  return CV_OK;
}

static cv_status eval(const cv_exprs *pool, cv_expr e, const int64_t *symbols, int64_t *out) {
  const expr_node *node = expr_at(pool, e);
  int64_t a, b;
  cv_status status;
  *out = 0;
  if (node->kind == KIND_CONST) {
    *out = node->value;
    return CV_OK;
  }
  if (node->kind == KIND_SYMBOL) {
    *out = symbols[node->sym] == CV_UNBOUND ? 0 : symbols[node->sym];
    return CV_OK;
  }
  if (node->kind == KIND_POLY) return eval_poly(pool, node, symbols, out);
  if ((status = eval(pool, node->args[0], symbols, &a)) != CV_OK) return status;
  if (node->kind == KIND_SELECT) return eval(pool, node->args[a != 0 ? 1 : 2], symbols, out);
  if ((status = eval(pool, node->args[1], symbols, &b)) != CV_OK) return status;
  switch (node->kind) {
    case KIND_DIV:
    case KIND_MOD: return eval_divide(node->kind, a, b, out);
    case KIND_MAX: *out = a > b ? a : b; return CV_OK;
    case KIND_MIN: *out = a < b ? a : b; return CV_OK;
    case KIND_EQ: *out = a == b; return CV_OK;
    case KIND_LT: *out = a < b; return CV_OK;
    case KIND_ADD: return __builtin_add_overflow(a, b, out) ? overflow() : CV_OK;
    default: return __builtin_mul_overflow(a, b, out) ? overflow() : CV_OK;
  }
}

cv_status cv_expr_eval(const cv_exprs *pool, cv_expr e, const int64_t *symbols,
                       int64_t *out_value) {
  *out_value = 0;
  if (e == CV_EXPR_NONE || e >= pool->nodes.len) {
    return cv_error(CV_INVALID, "an expression is missing");
  }
  return eval(pool, e, symbols, out_value);
}
