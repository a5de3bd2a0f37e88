/* Integer expressions over named symbols: dims, slice bounds, guards, costs. They are the
 * compiler's dims and, in the artifact, the host program's bytecode. Hash-consed in one pool in
 * canonical (polynomial) form, so that two expressions that are equal as polynomials over the same
 * atoms have the same id. One thread builds; any may evaluate. */
#ifndef CV_RUNTIME_EXPR_H
#define CV_RUNTIME_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

typedef uint32_t cv_expr; /* an id in one pool; CV_EXPR_NONE where there is none */
typedef uint32_t cv_sym;  /* a symbol's index in one pool */
#define CV_EXPR_NONE UINT32_MAX
/* The value of a symbol that has none (yet). It evaluates as 0: only what a false guard hides may
 * read it. */
#define CV_UNBOUND INT64_MIN

typedef struct cv_exprs cv_exprs;

/* An empty pool; `may_die` as in cv_arena (the compiler's pools). NULL when out of memory. */
cv_exprs *cv_exprs_create(bool may_die);
void cv_exprs_destroy(cv_exprs *pool);

/* Symbols. Bounds are inclusive; lo >= 0 for dims. Names are unique; adding an existing name
 * returns it. */
cv_sym cv_exprs_symbol(cv_exprs *pool, const char *name, int64_t lo, int64_t hi);
/* The symbol of that name, if there is one. */
bool cv_exprs_find(const cv_exprs *pool, const char *name, cv_sym *out_sym);
uint32_t cv_exprs_symbols(const cv_exprs *pool);
const char *cv_symbol_name(const cv_exprs *pool, cv_sym sym);
void cv_symbol_bounds(const cv_exprs *pool, cv_sym sym, int64_t *out_lo, int64_t *out_hi);
void cv_symbol_set_bounds(cv_exprs *pool, cv_sym sym, int64_t lo, int64_t hi);

/* Builders; arithmetic of int64, `div` and `mod` floor (divisor constant or proved > 0 at
 * evaluation), comparisons give 0 or 1, select(c, a, b) is a where c != 0. Any operand CV_EXPR_NONE
 * gives CV_EXPR_NONE. On a memory failure (pools that may not die), and beyond some hundred terms
 * or levels of nesting, they give CV_EXPR_NONE. They simplify: constants fold, x*y over y is x
 * (also where y might be 0), polynomials divide where it is exact, max/min and comparisons are
 * decided by bounds, an atom that is 0 or 1 has no powers. Bounds count as they are when an
 * expression is built. */
cv_expr cv_expr_const(cv_exprs *pool, int64_t value);
cv_expr cv_expr_symbol(cv_exprs *pool, cv_sym sym);
cv_expr cv_expr_add(cv_exprs *pool, cv_expr a, cv_expr b);
cv_expr cv_expr_sub(cv_exprs *pool, cv_expr a, cv_expr b);
cv_expr cv_expr_mul(cv_exprs *pool, cv_expr a, cv_expr b);
cv_expr cv_expr_div(cv_exprs *pool, cv_expr a, cv_expr b);
cv_expr cv_expr_mod(cv_exprs *pool, cv_expr a, cv_expr b);
cv_expr cv_expr_max(cv_exprs *pool, cv_expr a, cv_expr b);
cv_expr cv_expr_min(cv_exprs *pool, cv_expr a, cv_expr b);
cv_expr cv_expr_eq(cv_exprs *pool, cv_expr a, cv_expr b);
cv_expr cv_expr_lt(cv_exprs *pool, cv_expr a, cv_expr b);
cv_expr cv_expr_select(cv_exprs *pool, cv_expr c, cv_expr a, cv_expr b);

/* True and the value if the expression is a constant. */
bool cv_expr_is_const(const cv_exprs *pool, cv_expr e, int64_t *out_value);
/* True and the symbol if the expression is just one symbol. */
bool cv_expr_is_symbol(const cv_exprs *pool, cv_expr e, cv_sym *out_sym);
/* Bounds by interval arithmetic from the symbols' bounds (saturating). */
void cv_expr_bounds(const cv_exprs *pool, cv_expr e, int64_t *out_lo, int64_t *out_hi);
/* Atoms and operations of e: what evaluating and printing it cost. */
uint32_t cv_expr_size(const cv_exprs *pool, cv_expr e);
/* True if the value of `sym` matters to e. */
bool cv_expr_uses(const cv_exprs *pool, cv_expr e, cv_sym sym);
/* e as rest + factor * sym with `factor` free of sym: false if it is not of that form. */
bool cv_expr_linear(cv_exprs *pool, cv_expr e, cv_sym sym, cv_expr *out_factor, cv_expr *out_rest);
/* e with each symbol s for which map[s] != CV_EXPR_NONE replaced by map[s] (an expression of the
 * same pool). */
cv_expr cv_expr_substitute(cv_exprs *pool, cv_expr e, const cv_expr *map);
/* True if e is one function of others (a division, a maximum, ...), not a symbol or a sum. */
bool cv_expr_is_function(const cv_exprs *pool, cv_expr e);
/* e with each occurrence of the function `from` replaced by `to`. */
cv_expr cv_expr_replace(cv_exprs *pool, cv_expr e, cv_expr from, cv_expr to);
/* e of pool `from` rebuilt in pool `to`; symbols are matched (or added, with their bounds) by name.
 */
cv_expr cv_expr_import(cv_exprs *to, const cv_exprs *from, cv_expr e);

/* Value for the symbols' values (cv_exprs_symbols entries). CV_INVALID on overflow or division by
 * zero. No allocation. */
CV_NODISCARD cv_status cv_expr_eval(const cv_exprs *pool, cv_expr e, const int64_t *symbols,
                                    int64_t *out_value);

/* Text, for example "2*batch + floordiv(seq, 2) - 1", and back. `max(a, b)`, `min`, `mod`, `eq`,
 * `lt`, `select(c, a, b)`. A name that is not [A-Za-z_][A-Za-z0-9_.]* is quoted with backquotes.
 * Unknown names become symbols [0, 2^31). The parser stops at the first character that cannot
 * continue an expression and sets *out_end to it. */
void cv_expr_print(const cv_exprs *pool, cv_expr e, cv_str *out);
CV_NODISCARD cv_status cv_expr_parse(cv_exprs *pool, const char *text, const char **out_end,
                                     cv_expr *out_e);

/* C text of e where symbol s is written `names[s]` if names, else its C-safe form; int64_t
 * arithmetic. Atoms that need functions use cv_floordiv, cv_mod, cv_max, cv_min (the rendering's
 * prelude defines them). C-safe forms of different names may be equal: then give `names`. */
void cv_expr_print_c(const cv_exprs *pool, cv_expr e, const char *const *names, cv_str *out);

#endif
