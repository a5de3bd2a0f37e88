#include "runtime/expr.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/expr_internal.h"

cv_exprs *cv_exprs_create(bool may_die) {
  cv_exprs *pool = may_die ? cv_alloc_or_die(1, sizeof *pool) : cv_alloc(1, sizeof *pool);
  if (pool == NULL) return NULL;
  pool->may_die = may_die;
  pool->arena.may_die = may_die;
  return pool;
}

void cv_exprs_destroy(cv_exprs *pool) {
  if (pool == NULL) return;
  cv_vec_deinit(&pool->nodes);
  cv_vec_deinit(&pool->symbols);
  cv_map_deinit(&pool->by_key);
  cv_map_deinit(&pool->by_name);
  cv_arena_deinit(&pool->arena);
  cv_free(pool);
}

const expr_node *expr_at(const cv_exprs *pool, cv_expr e) { return pool->nodes.data[e]; }

const expr_term *expr_terms(const cv_exprs *pool, cv_expr e, uint32_t *out_n) {
  const expr_node *node = expr_at(pool, e);
  if (node->kind == KIND_POLY) {
    *out_n = node->n_terms;
    return node->terms;
  }
  *out_n = node->kind == KIND_CONST && node->value == 0 ? 0 : 1;
  return &node->as_term;
}

/* Out of memory: the end where the pool may die, CV_EXPR_NONE else. */
static cv_expr out_of_memory(const cv_exprs *pool) {
  if (pool->may_die) (void)cv_alloc_or_die(SIZE_MAX / 2, 1);
  return CV_EXPR_NONE;
}

static cv_expr insert(cv_exprs *pool, const expr_node *draft, const void *key, size_t key_len) {
  expr_node *node = cv_arena_copy(&pool->arena, draft, sizeof *draft);
  if (node == NULL || !cv_vec_reserve(&pool->nodes, 1)) return out_of_memory(pool);
  node->self = (cv_expr)pool->nodes.len;
  if (node->kind == KIND_CONST) {
    node->as_term = (expr_term){.coef = node->value};
  } else {
    node->as_term = (expr_term){.coef = 1, .n = 1, .factors = &node->self};
  }
  if (!cv_map_put(&pool->by_key, key, key_len, node->self)) return out_of_memory(pool);
  pool->nodes.data[pool->nodes.len++] = node;
  return node->self;
}

cv_expr cv_expr_const(cv_exprs *pool, int64_t value) {
  struct {
    uint64_t kind;
    int64_t value;
  } key = {KIND_CONST, value};
  uint64_t found = 0;
  if (cv_map_get(&pool->by_key, &key, sizeof key, &found)) return (cv_expr)found;
  expr_node draft = {.kind = KIND_CONST, .depth = 1, .size = 1, .value = value};
  return insert(pool, &draft, &key, sizeof key);
}

cv_expr expr_function(cv_exprs *pool, expr_kind kind, cv_expr a, cv_expr b, cv_expr c) {
  uint32_t key[4] = {kind, a, b, c};
  uint64_t found = 0;
  if (cv_map_get(&pool->by_key, key, sizeof key, &found)) return (cv_expr)found;
  expr_node draft = {.kind = kind, .depth = 0, .size = 1, .args = {a, b, c}};
  for (int i = 0; i < expr_kind_arity(kind); i++) {
    const expr_node *arg = expr_at(pool, draft.args[i]);
    draft.size += arg->size;
    if (arg->depth > draft.depth) draft.depth = arg->depth;
  }
  draft.depth++;
  if (draft.depth > EXPR_MAX_DEPTH || draft.size > EXPR_MAX_SIZE) return CV_EXPR_NONE;
  return insert(pool, &draft, key, sizeof key);
}

/* ---- symbols ---- */

cv_sym cv_exprs_symbol(cv_exprs *pool, const char *name, int64_t lo, int64_t hi) {
  uint64_t found = 0;
  if (cv_map_get_str(&pool->by_name, name, &found)) return (cv_sym)found;
  cv_sym sym = (cv_sym)pool->symbols.len;
  uint32_t key[4] = {KIND_SYMBOL, sym, 0, 0};
  expr_node draft = {.kind = KIND_SYMBOL, .depth = 1, .size = 1, .sym = sym};
  char *copy = cv_arena_strdup(&pool->arena, name);
  if (copy == NULL || !cv_vec_reserve(&pool->symbols, 1)) return out_of_memory(pool);
  cv_expr e = insert(pool, &draft, key, sizeof key);
  if (e == CV_EXPR_NONE || !cv_map_put_str(&pool->by_name, name, sym)) return out_of_memory(pool);
  expr_symbol symbol = {.name = copy, .lo = lo, .hi = hi, .expr = e};
  pool->symbols.data[pool->symbols.len++] = symbol;
  return sym;
}

bool cv_exprs_find(const cv_exprs *pool, const char *name, cv_sym *out_sym) {
  uint64_t found = 0;
  bool there = cv_map_get_str(&pool->by_name, name, &found);
  *out_sym = (cv_sym)found;
  return there;
}

uint32_t cv_exprs_symbols(const cv_exprs *pool) { return (uint32_t)pool->symbols.len; }

const char *cv_symbol_name(const cv_exprs *pool, cv_sym sym) {
  return pool->symbols.data[sym].name;
}

void cv_symbol_bounds(const cv_exprs *pool, cv_sym sym, int64_t *out_lo, int64_t *out_hi) {
  *out_lo = pool->symbols.data[sym].lo;
  *out_hi = pool->symbols.data[sym].hi;
}

void cv_symbol_set_bounds(cv_exprs *pool, cv_sym sym, int64_t lo, int64_t hi) {
  pool->symbols.data[sym].lo = lo;
  pool->symbols.data[sym].hi = hi;
}

cv_expr cv_expr_symbol(cv_exprs *pool, cv_sym sym) {
  return sym < pool->symbols.len ? pool->symbols.data[sym].expr : CV_EXPR_NONE;
}

bool cv_expr_is_const(const cv_exprs *pool, cv_expr e, int64_t *out_value) {
  *out_value = 0;
  if (e == CV_EXPR_NONE || expr_at(pool, e)->kind != KIND_CONST) return false;
  *out_value = expr_at(pool, e)->value;
  return true;
}

bool cv_expr_is_symbol(const cv_exprs *pool, cv_expr e, cv_sym *out_sym) {
  *out_sym = 0;
  if (e == CV_EXPR_NONE || expr_at(pool, e)->kind != KIND_SYMBOL) return false;
  *out_sym = expr_at(pool, e)->sym;
  return true;
}

/* ---- the structural order ---- */

int expr_compare_monomials(const cv_exprs *pool, const expr_term *a, const expr_term *b) {
  if (a->n != b->n) return a->n > b->n ? -1 : 1;
  for (uint32_t i = 0; i < a->n; i++) {
    int order = expr_compare(pool, a->factors[i], b->factors[i]);
    if (order != 0) return order;
  }
  return 0;
}

static int compare_polys(const cv_exprs *pool, const expr_node *a, const expr_node *b) {
  if (a->n_terms != b->n_terms) return a->n_terms < b->n_terms ? -1 : 1;
  for (uint32_t i = 0; i < a->n_terms; i++) {
    int order = expr_compare_monomials(pool, &a->terms[i], &b->terms[i]);
    if (order != 0) return order;
    if (a->terms[i].coef != b->terms[i].coef) {
      return a->terms[i].coef < b->terms[i].coef ? -1 : 1;
    }
  }
  return 0;
}

int expr_compare(const cv_exprs *pool, cv_expr a, cv_expr b) {
  if (a == b) return 0;
  const expr_node *x = expr_at(pool, a), *y = expr_at(pool, b);
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  switch (x->kind) {
    case KIND_CONST: return x->value < y->value ? -1 : 1;
    case KIND_SYMBOL: return strcmp(cv_symbol_name(pool, x->sym), cv_symbol_name(pool, y->sym));
    case KIND_POLY: return compare_polys(pool, x, y);
    default: break;
  }
  for (int i = 0; i < expr_kind_arity(x->kind); i++) {
    int order = expr_compare(pool, x->args[i], y->args[i]);
    if (order != 0) return order;
  }
  return 0;
}

/* ---- sums of terms ---- */

void expr_sum_add(expr_sum *sum, int64_t coef, uint32_t n, const cv_expr *factors) {
  expr_term term = {.coef = coef, .n = n, .factors = factors};
  if (coef == 0) return;
  if (n > EXPR_MAX_DEGREE || sum->terms.len >= EXPR_MAX_PRODUCTS) {
    sum->too_large = true;
  } else if (!cv_vec_push(&sum->terms, term)) {
    sum->failed = true;
  }
}

static int order_terms(const void *a, const void *b, void *pool) {
  return expr_compare_monomials(pool, a, b);
}

/* Sorts, and adds up equal monomials; false on overflow. */
static bool collect(cv_exprs *pool, expr_sum *sum) {
  expr_term *terms = sum->terms.data;
  size_t n = 0;
  if (sum->terms.len > 1) qsort_r(terms, sum->terms.len, sizeof *terms, order_terms, pool);
  for (size_t i = 0; i < sum->terms.len;) {
    expr_term term = terms[i++];
    while (i < sum->terms.len && expr_compare_monomials(pool, &term, &terms[i]) == 0) {
      if (__builtin_add_overflow(term.coef, terms[i].coef, &term.coef)) return false;
      i++;
    }
    if (term.coef != 0) terms[n++] = term;
  }
  sum->terms.len = n;
  return true;
}

static cv_expr intern_poly(cv_exprs *pool, const expr_term *terms, uint32_t n) {
  cv_expr result = CV_EXPR_NONE;
  cv_vec(uint32_t) key = {0};
  expr_node draft = {.kind = KIND_POLY, .n_terms = n};
  uint64_t found = 0, size = n;
  bool room = cv_vec_push(&key, (uint32_t)KIND_POLY);
  for (uint32_t i = 0; i < n && room; i++) {
    const expr_term *term = &terms[i];
    uint64_t coef = (uint64_t)term->coef;
    room = cv_vec_reserve(&key, term->n + 3);
    if (!room) break;
    key.data[key.len++] = term->n;
    key.data[key.len++] = (uint32_t)coef;
    key.data[key.len++] = (uint32_t)(coef >> 32);
    for (uint32_t k = 0; k < term->n; k++) {
      const expr_node *atom = expr_at(pool, term->factors[k]);
      key.data[key.len++] = term->factors[k];
      size += atom->size;
      if (atom->depth > draft.depth) draft.depth = atom->depth;
    }
  }
  if (!room) {
    result = out_of_memory(pool);
  } else if (cv_map_get(&pool->by_key, key.data, key.len * sizeof *key.data, &found)) {
    result = (cv_expr)found;
  } else if (size <= EXPR_MAX_SIZE) {
    draft.size = (uint32_t)size;
    expr_term *copy = cv_arena_copy(&pool->arena, terms, n * sizeof *terms);
    for (uint32_t i = 0; i < n && copy != NULL; i++) {
      if (terms[i].n == 0) continue;
      copy[i].factors = cv_arena_copy(&pool->arena, terms[i].factors, terms[i].n * sizeof(cv_expr));
      if (copy[i].factors == NULL) copy = NULL;
    }
    draft.terms = copy;
    result = copy == NULL ? out_of_memory(pool)
                          : insert(pool, &draft, key.data, key.len * sizeof *key.data);
  }
  cv_vec_deinit(&key);
  return result;
}

cv_expr expr_sum_finish(cv_exprs *pool, expr_sum *sum, bool *out_overflow) {
  cv_expr result = CV_EXPR_NONE;
  *out_overflow = false;
  if (sum->failed) {
    result = out_of_memory(pool);
  } else if (sum->too_large) {
    result = CV_EXPR_NONE;
  } else if (sum->overflow || !collect(pool, sum)) {
    *out_overflow = true;
  } else {
    const expr_term *terms = sum->terms.data;
    size_t n = sum->terms.len;
    if (n == 0) {
      result = cv_expr_const(pool, 0);
    } else if (n == 1 && terms[0].n == 0) {
      result = cv_expr_const(pool, terms[0].coef);
    } else if (n == 1 && terms[0].n == 1 && terms[0].coef == 1) {
      result = terms[0].factors[0];
    } else if (n <= EXPR_MAX_TERMS) {
      result = intern_poly(pool, terms, (uint32_t)n);
    }
  }
  cv_vec_deinit(&sum->terms);
  return result;
}
