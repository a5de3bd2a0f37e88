/* The pool behind runtime/expr.h: private to the files runtime/expr*.c.
 *
 * An expression is a constant, a symbol, a function of expressions, or a polynomial: a sum of terms
 * `coefficient * atom * atom ...`, where an atom is a symbol or a function. Terms are sorted by a
 * structural order (never by ids), so that the same expression prints the same in any pool. */
#ifndef CV_RUNTIME_EXPR_INTERNAL_H
#define CV_RUNTIME_EXPR_INTERNAL_H

#include "base/map.h"
#include "base/vec.h"
#include "runtime/expr.h"

typedef enum {
  KIND_CONST,
  KIND_SYMBOL,
  KIND_POLY,
  KIND_DIV,
  KIND_MOD,
  KIND_MAX,
  KIND_MIN,
  KIND_EQ,
  KIND_LT,
  KIND_SELECT,
  /* Sums and products that cannot be a polynomial because a coefficient overflows. */
  KIND_ADD,
  KIND_MUL,
  KIND_COUNT
} expr_kind;

/* Bounds of what a pool accepts; beyond them a builder gives CV_EXPR_NONE. Printing, evaluating and
 * all other walks recurse over at most this depth and size. */
enum {
  EXPR_MAX_DEPTH = 96,
  EXPR_MAX_SIZE = 1 << 14,
  EXPR_MAX_TERMS = 512,
  EXPR_MAX_PRODUCTS = 4096, /* terms of a product before equal ones are added up */
  EXPR_MAX_DEGREE = 32
};

typedef struct {
  int64_t coef;
  uint32_t n;             /* degree */
  const cv_expr *factors; /* n atoms, sorted, repeated for powers */
} expr_term;

typedef struct {
  expr_kind kind;
  uint32_t depth, size; /* of the tree */
  uint32_t n_terms;     /* POLY */
  cv_expr self;
  cv_sym sym;             /* SYMBOL */
  int64_t value;          /* CONST */
  cv_expr args[3];        /* functions */
  const expr_term *terms; /* POLY */
  expr_term as_term;      /* any other: itself as a term */
} expr_node;

typedef struct {
  const char *name;
  int64_t lo, hi;
  cv_expr expr;
} expr_symbol;

struct cv_exprs {
  cv_arena arena;
  bool may_die;
  cv_vec(expr_node *) nodes;
  cv_vec(expr_symbol) symbols;
  cv_map by_key, by_name;
};

/* A growing sum of terms whose factor lists are borrowed or in `pool`'s arena. */
typedef struct {
  cv_vec(expr_term) terms;
  bool failed;    /* out of memory */
  bool too_large; /* beyond the limits above */
  bool overflow;  /* of a coefficient */
} expr_sum;

const expr_node *expr_at(const cv_exprs *pool, cv_expr e);
/* e as a list of terms (a constant 0 has none). */
const expr_term *expr_terms(const cv_exprs *pool, cv_expr e, uint32_t *out_n);
void expr_sum_add(expr_sum *sum, int64_t coef, uint32_t n, const cv_expr *factors);
/* Canonical expression of the sum, which is freed. CV_EXPR_NONE, and `*out_overflow` if that was
 * the reason. */
cv_expr expr_sum_finish(cv_exprs *pool, expr_sum *sum, bool *out_overflow);
/* The function atom, interned as it stands. */
cv_expr expr_function(cv_exprs *pool, expr_kind kind, cv_expr a, cv_expr b, cv_expr c);
/* Structural order: negative, 0, positive. */
int expr_compare(const cv_exprs *pool, cv_expr a, cv_expr b);
int expr_compare_monomials(const cv_exprs *pool, const expr_term *a, const expr_term *b);
const char *expr_kind_name(expr_kind kind);
int expr_kind_arity(expr_kind kind);
cv_expr expr_apply(cv_exprs *pool, expr_kind kind, cv_expr a, cv_expr b, cv_expr c);
bool expr_floor_div(int64_t a, int64_t b, int64_t *out);

#endif
