/* Expressions as text, and back; and as C. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "runtime/expr_internal.h"

/* ---- printing ---- */

typedef struct {
  const cv_exprs *pool;
  const char *const *names; /* C: of the symbols, or NULL */
  bool c;
} style;

static const expr_kind function_kinds[] = {KIND_DIV, KIND_MOD,    KIND_MAX, KIND_MIN, KIND_EQ,
                                           KIND_LT,  KIND_SELECT, KIND_ADD, KIND_MUL};
enum { FUNCTION_KINDS = sizeof function_kinds / sizeof *function_kinds };

static bool is_reserved(const char *name) {
  for (int i = 0; i < FUNCTION_KINDS; i++) {
    if (strcmp(name, expr_kind_name(function_kinds[i])) == 0) return true;
  }
  return false;
}

static bool name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool name_part(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

static bool is_plain_name(const char *name) {
  if (!name_start(name[0]) || is_reserved(name)) return false;
  for (const char *at = name; *at != '\0'; at++) {
    if (!name_part(*at)) return false;
  }
  return true;
}

static void print_name(const char *name, cv_str *out) {
  if (is_plain_name(name)) {
    cv_str_puts(out, name);
    return;
  }
  cv_str_puts(out, "`");
  for (const char *at = name; *at != '\0'; at++) {
    if (*at == '`' || *at == '\\' || (unsigned char)*at < 0x20) {
      cv_str_add(out, "\\x%02x", (unsigned char)*at);
    } else {
      cv_str_append(out, at, 1);
    }
  }
  cv_str_puts(out, "`");
}

static void print_symbol(const style *s, cv_sym sym, cv_str *out) {
  const char *name = cv_symbol_name(s->pool, sym);
  if (!s->c) {
    print_name(name, out);
  } else if (s->names != NULL) {
    cv_str_puts(out, s->names[sym]);
  } else {
    for (const char *at = name; *at != '\0'; at++) {
      char c = isalnum((unsigned char)*at) ? *at : '_';
      if (at == name && isdigit((unsigned char)c)) cv_str_puts(out, "_");
      cv_str_append(out, &c, 1);
    }
  }
}

static void print_int(const style *s, uint64_t magnitude, cv_str *out) {
  cv_str_add(out, "%" PRIu64, magnitude);
  if (s->c && magnitude > INT32_MAX) cv_str_puts(out, "LL");
}

static void print(const style *s, cv_expr e, cv_str *out);

static void print_term(const style *s, const expr_term *term, bool first, cv_str *out) {
  uint64_t magnitude = term->coef < 0 ? 0 - (uint64_t)term->coef : (uint64_t)term->coef;
  if (term->coef < 0) {
    cv_str_puts(out, first ? "-" : " - ");
  } else if (!first) {
    cv_str_puts(out, " + ");
  }
  if (magnitude != 1 || term->n == 0) print_int(s, magnitude, out);
  for (uint32_t k = 0; k < term->n; k++) {
    if (k > 0 || magnitude != 1) cv_str_puts(out, "*");
    print(s, term->factors[k], out);
  }
}

static void print_function(const style *s, const expr_node *node, cv_str *out) {
  static const char *const c_names[KIND_COUNT] = {[KIND_DIV] = "cv_floordiv",
                                                  [KIND_MOD] = "cv_mod",
                                                  [KIND_MAX] = "cv_max",
                                                  [KIND_MIN] = "cv_min"};
  static const char *const c_infix[KIND_COUNT] = {
      [KIND_EQ] = " == ", [KIND_LT] = " < ", [KIND_ADD] = " + ", [KIND_MUL] = " * "};
  bool infix = s->c && c_infix[node->kind] != NULL;
  bool ternary = s->c && node->kind == KIND_SELECT;
  if (!infix && !ternary) {
    cv_str_puts(out, s->c ? c_names[node->kind] : expr_kind_name(node->kind));
  }
  cv_str_puts(out, "(");
  for (int i = 0; i < expr_kind_arity(node->kind); i++) {
    const char *gap = infix ? c_infix[node->kind] : ternary ? (i == 1 ? " ? " : " : ") : ", ";
    if (i > 0) cv_str_puts(out, gap);
    if (infix || ternary) cv_str_puts(out, "(");
    print(s, node->args[i], out);
    if (infix || ternary) cv_str_puts(out, ")");
  }
  cv_str_puts(out, ")");
}

static void print(const style *s, cv_expr e, cv_str *out) {
  const expr_node *node = expr_at(s->pool, e);
  if (node->kind == KIND_SYMBOL) {
    print_symbol(s, node->sym, out);
  } else if (node->kind == KIND_CONST && s->c && node->value == INT64_MIN) {
    cv_str_puts(out, "INT64_MIN");
  } else if (node->kind == KIND_CONST) {
    print_term(s, &(expr_term){.coef = node->value}, true, out);
  } else if (node->kind == KIND_POLY) {
    for (uint32_t i = 0; i < node->n_terms; i++) print_term(s, &node->terms[i], i == 0, out);
  } else {
    print_function(s, node, out);
  }
}

void cv_expr_print(const cv_exprs *pool, cv_expr e, cv_str *out) {
  style s = {.pool = pool};
  if (e == CV_EXPR_NONE) {
    cv_str_puts(out, "?");
  } else {
    print(&s, e, out);
  }
}

void cv_expr_print_c(const cv_exprs *pool, cv_expr e, const char *const *names, cv_str *out) {
  style s = {.pool = pool, .names = names, .c = true};
  print(&s, e, out);
}

/* ---- parsing ---- */

enum { MAX_NESTING = 4 * EXPR_MAX_DEPTH, MAX_NAME = 256 };

typedef struct {
  cv_exprs *pool;
  const char *at;
  int depth;
} parser;

static void skip_space(parser *p) {
  while (*p->at == ' ') p->at++;
}

static bool accept(parser *p, char c) {
  skip_space(p);
  if (*p->at != c) return false;
  p->at++;
  return true;
}

static cv_status bad(const parser *p, const char *wanted) {
  return cv_error(CV_INVALID, "in an expression, %s expected at \"%.24s\"", wanted, p->at);
}

static cv_status built(const parser *p, cv_expr e) {
  if (e != CV_EXPR_NONE) return CV_OK;
  return cv_error(CV_INVALID, "an expression is too large at \"%.24s\"", p->at);
}

static cv_status parse_sum(parser *p, cv_expr *out);

/* Digits, as a constant of the given sign. */
static cv_status parse_int(parser *p, bool negative, cv_expr *out) {
  uint64_t value = 0;
  uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
  while (isdigit((unsigned char)*p->at)) {
    uint64_t digit = (uint64_t)(*p->at++ - '0');
    if (value > (limit - digit) / 10) return bad(p, "a number below 2^63");
    value = value * 10 + digit;
  }
  *out = cv_expr_const(p->pool, negative ? (int64_t)(0 - value) : (int64_t)value);
  return built(p, *out);
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static cv_status parse_name(parser *p, char name[MAX_NAME]) {
  size_t n = 0;
  if (*p->at != '`') {
    while (name_part(*p->at) && n + 1 < MAX_NAME) name[n++] = *p->at++;
    if (name_part(*p->at)) return bad(p, "a name of at most 255 characters");
    name[n] = '\0';
    return CV_OK;
  }
  p->at++;
  while (*p->at != '`') {
    char c = *p->at++;
    if (c == '\0' || n + 1 >= MAX_NAME) {
      p->at--;
      return bad(p, "the closing ` of a name of at most 255 characters");
    }
    if (c == '\\') {
      int high = p->at[0] == 'x' ? hex_digit(p->at[1]) : -1;
      int low = high >= 0 ? hex_digit(p->at[2]) : -1;
      if (low < 0 || high * 16 + low == 0) return bad(p, "an escape like \\x60");
      c = (char)(high * 16 + low);
      p->at += 3;
    }
    name[n++] = c;
  }
  p->at++;
  name[n] = '\0';
  return CV_OK;
}

static cv_status parse_call(parser *p, const char *name, cv_expr *out) {
  cv_expr args[3] = {0};
  for (int i = 0; i < FUNCTION_KINDS; i++) {
    expr_kind kind = function_kinds[i];
    if (strcmp(name, expr_kind_name(kind)) != 0) continue;
    for (int k = 0; k < expr_kind_arity(kind); k++) {
      if (k > 0 && !accept(p, ',')) return bad(p, "a comma");
      cv_status status = parse_sum(p, &args[k]);
      if (status != CV_OK) return status;
    }
    if (!accept(p, ')')) return bad(p, "a closing parenthesis");
    *out = expr_apply(p->pool, kind, args[0], args[1], args[2]);
    return built(p, *out);
  }
  return cv_error(CV_INVALID, "in an expression, \"%s\" is no function", name);
}

static cv_status parse_factor(parser *p, cv_expr *out) {
  char name[MAX_NAME];
  cv_status status;
  skip_space(p);
  if (isdigit((unsigned char)*p->at)) return parse_int(p, false, out);
  if (accept(p, '-')) {
    cv_expr value;
    skip_space(p);
    if (isdigit((unsigned char)*p->at)) return parse_int(p, true, out);
    if (++p->depth > MAX_NESTING) return bad(p, "less nesting");
    if ((status = parse_factor(p, &value)) != CV_OK) return status;
    p->depth--;
    *out = cv_expr_mul(p->pool, cv_expr_const(p->pool, -1), value);
    return built(p, *out);
  }
  if (accept(p, '(')) {
    if ((status = parse_sum(p, out)) != CV_OK) return status;
    return accept(p, ')') ? CV_OK : bad(p, "a closing parenthesis");
  }
  if (!name_start(*p->at) && *p->at != '`') return bad(p, "a number, a name or a function");
  bool quoted = *p->at == '`';
  if ((status = parse_name(p, name)) != CV_OK) return status;
  if (!quoted && *p->at == '(') {
    p->at++;
    return parse_call(p, name, out);
  }
  cv_sym sym = cv_exprs_symbol(p->pool, name, 0, INT32_MAX);
  *out = sym == CV_EXPR_NONE ? CV_EXPR_NONE : cv_expr_symbol(p->pool, sym);
  return built(p, *out);
}

static cv_status parse_product(parser *p, cv_expr *out) {
  cv_status status = parse_factor(p, out);
  while (status == CV_OK && accept(p, '*')) {
    cv_expr factor;
    status = parse_factor(p, &factor);
    if (status != CV_OK) break;
    *out = cv_expr_mul(p->pool, *out, factor);
    status = built(p, *out);
  }
  return status;
}

static cv_status parse_sum(parser *p, cv_expr *out) {
  if (++p->depth > MAX_NESTING) return bad(p, "less nesting");
  cv_status status = parse_product(p, out);
  while (status == CV_OK) {
    const char *before = p->at;
    bool plus = accept(p, '+');
    if (!plus && !accept(p, '-')) {
      p->at = before;
      break;
    }
    cv_expr term;
    status = parse_product(p, &term);
    if (status != CV_OK) break;
    *out = plus ? cv_expr_add(p->pool, *out, term) : cv_expr_sub(p->pool, *out, term);
    status = built(p, *out);
  }
  p->depth--;
  return status;
}

cv_status cv_expr_parse(cv_exprs *pool, const char *text, const char **out_end, cv_expr *out_e) {
  parser p = {.pool = pool, .at = text};
  *out_e = CV_EXPR_NONE;
  cv_status status = parse_sum(&p, out_e);
  *out_end = p.at;
  if (status != CV_OK) *out_e = CV_EXPR_NONE;
  return status;
}
