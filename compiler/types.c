/* Type rules: what they share, and the dispatch by class. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compiler/graph_internal.h"

bool cv_rule_fail(cv_rule *rule, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(rule->error, sizeof rule->error, format, args);
  va_end(args);
  return false;
}

const cv_type *cv_rule_in(const cv_rule *rule, uint32_t i) {
  return cv_type_of(rule->graph, rule->ins[i]);
}

const cv_attr *cv_rule_attr(const cv_rule *rule, cv_attr_key key) {
  for (uint32_t i = 0; i < rule->n_attrs; i++) {
    if (rule->attrs[i].key == key) return &rule->attrs[i];
  }
  return NULL;
}

int64_t cv_rule_int(const cv_rule *rule, cv_attr_key key) { return cv_rule_attr(rule, key)->i; }

bool cv_rule_count(cv_rule *rule, cv_attr_key key, uint32_t count) {
  uint32_t have = cv_rule_attr(rule, key)->count;
  if (have == count) return true;
  return cv_rule_fail(rule, "attribute %s has %u entries, %u wanted", cv_attr_name(key), have,
                      count);
}

bool cv_rule_range(cv_rule *rule, cv_attr_key key, int64_t lo, int64_t hi) {
  int64_t value = cv_rule_int(rule, key);
  if (value >= lo && value <= hi) return true;
  return cv_rule_fail(rule, "attribute %s is %" PRId64 ", must be in [%" PRId64 ", %" PRId64 "]",
                      cv_attr_name(key), value, lo, hi);
}

bool cv_rule_word(cv_rule *rule, cv_attr_key key, const char *words) {
  const char *text = cv_rule_attr(rule, key)->text;
  size_t length = strlen(text);
  for (const char *at = words; length > 0 && *at != '\0';) {
    size_t word = strcspn(at, " ");
    if (word == length && strncmp(at, text, word) == 0) return true;
    at += word + (at[word] == ' ');
  }
  return cv_rule_fail(rule, "attribute %s is \"%.40s\", must be one of: %s", cv_attr_name(key),
                      text, words);
}

bool cv_rule_dims_equal(cv_rule *rule, const char *what, cv_expr a, cv_expr b) {
  if (a == b && a != CV_EXPR_NONE) return true;
  return cv_rule_fail(rule, "%s: dims %.100s and %.100s are not known to be equal", what,
                      cv_expr_text(rule->graph, a), cv_expr_text(rule->graph, b));
}

bool cv_rule_not_negative(cv_rule *rule, const char *what, cv_expr e) {
  int64_t lo, hi;
  if (e == CV_EXPR_NONE) return cv_rule_fail(rule, "%s is too large an expression", what);
  cv_expr_bounds(rule->graph->exprs, e, &lo, &hi);
  if (hi >= 0) return true;
  return cv_rule_fail(rule, "%s is %.100s, which is negative", what, cv_expr_text(rule->graph, e));
}

cv_type cv_scalar_type(cv_dtype dtype) { return (cv_type){.dtype = dtype}; }

cv_expr cv_dims_product(cv_graph *graph, int rank, const cv_expr *dims) {
  cv_expr product = cv_expr_const(graph->exprs, 1);
  for (int i = 0; i < rank; i++) product = cv_expr_mul(graph->exprs, product, dims[i]);
  return product;
}

/* ---- arity and the white list ---- */

static bool check_arity(cv_rule *rule, const cv_op_info *info) {
  uint32_t least = (uint32_t)info->min_ins;
  if (rule->n_ins == least || (info->variadic && rule->n_ins > least)) return true;
  return cv_rule_fail(rule, "%u operands given, %s%u wanted", rule->n_ins,
                      info->variadic ? "at least " : "", least);
}

static bool check_attr_content(cv_rule *rule, const cv_attr *attr) {
  const char *name = cv_attr_name(attr->key);
  switch (cv_attr_kind_of(attr->key)) {
    case CV_KIND_TEXT:
      return attr->text != NULL || cv_rule_fail(rule, "attribute %s has no text", name);
    case CV_KIND_DTYPE:
      return (unsigned)attr->dtype < CV_DTYPE_COUNT ||
             cv_rule_fail(rule, "attribute %s is no dtype", name);
    case CV_KIND_EXPR:
      return attr->e != CV_EXPR_NONE ||
             cv_rule_fail(rule, "attribute %s is missing or too large an expression", name);
    case CV_KIND_EXPRS:
      for (uint32_t i = 0; i < attr->count; i++) {
        if (attr->exprs[i] == CV_EXPR_NONE) {
          return cv_rule_fail(rule, "entry %u of attribute %s is too large an expression", i, name);
        }
      }
      return true;
    default: return true;
  }
}

static bool check_attrs(cv_rule *rule, const cv_op_info *info) {
  uint64_t seen = 0;
  for (uint32_t i = 0; i < rule->n_attrs; i++) {
    const cv_attr *attr = &rule->attrs[i];
    uint64_t bit = (uint64_t)1 << attr->key;
    if ((info->attrs & bit) == 0) {
      return cv_rule_fail(rule, "attribute %s is not on the op's list", cv_attr_name(attr->key));
    }
    if ((seen & bit) != 0) {
      return cv_rule_fail(rule, "attribute %s is given twice", cv_attr_name(attr->key));
    }
    seen |= bit;
    if (!check_attr_content(rule, attr)) return false;
  }
  for (int key = 0; key < CV_ATTR_COUNT; key++) {
    if ((info->attrs & ~seen & (uint64_t)1 << key) != 0) {
      return cv_rule_fail(rule, "attribute %s is missing", cv_attr_name((cv_attr_key)key));
    }
  }
  return true;
}

static bool rule_bind(cv_rule *rule) {
  const cv_attr *symbols = cv_rule_attr(rule, CV_ATTR_EXPRS);
  const cv_type *in = cv_rule_in(rule, 0);
  uint64_t n;
  if (!cv_dtype_is_index(in->dtype) && in->dtype != CV_BOOL) {
    return cv_rule_fail(rule, "the operand must be i64, i32 or bool, is %s",
                        cv_type_text(rule->graph, in));
  }
  if (!cv_dims_small(rule->graph, in, GRAPH_MAX_CONST_ELEMS, &n) || n != symbols->count) {
    return cv_rule_fail(rule, "%u symbols for the elements of %s", symbols->count,
                        cv_type_text(rule->graph, in));
  }
  for (uint32_t i = 0; i < symbols->count; i++) {
    cv_sym sym;
    if (!cv_expr_is_symbol(rule->graph->exprs, symbols->exprs[i], &sym)) {
      return cv_rule_fail(rule, "%s is no symbol", cv_expr_text(rule->graph, symbols->exprs[i]));
    }
  }
  return true;
}

static bool rule_join(cv_rule *rule) {
  const cv_type *a = cv_rule_in(rule, 0), *b = cv_rule_in(rule, 1);
  if (a->dtype != b->dtype || a->rank != b->rank) {
    return cv_rule_fail(rule, "the branches give %s and %s", cv_type_text(rule->graph, a),
                        cv_type_text(rule->graph, b));
  }
  cv_exprs *exprs = rule->graph->exprs;
  cv_expr taken = cv_rule_attr(rule, CV_ATTR_GUARD)->e;
  rule->outs[0] = *a;
  for (int i = 0; i < a->rank; i++) {
    if (a->dims[i] != b->dims[i])
      rule->outs[0].dims[i] = cv_expr_select(exprs, taken, a->dims[i], b->dims[i]);
  }
  return true;
}

bool cv_rule_apply(cv_rule *rule) {
  const cv_op_info *info = cv_op_get(rule->op);
  rule->n_outs = info->n_outs > 0 ? (uint32_t)info->n_outs : 0;
  if (!check_arity(rule, info) || !check_attrs(rule, info)) return false;
  switch (info->class_) {
    case CV_CLASS_MAP: return cv_rule_map(rule);
    case CV_CLASS_MOVE:
    case CV_CLASS_GATHER: return cv_rule_move(rule);
    case CV_CLASS_SHAPE: return cv_rule_shape(rule);
    case CV_CLASS_REDUCE: return cv_rule_reduce(rule);
    case CV_CLASS_CONTRACT:
    case CV_CLASS_WINDOW: return cv_rule_contract(rule);
    case CV_CLASS_ROUTINE: return cv_rule_routine(rule);
    case CV_CLASS_BIND: return rule_bind(rule);
    case CV_CLASS_CONTROL: return rule->op == CV_OP_join ? rule_join(rule) : true;
  }
  return cv_rule_fail(rule, "the op has no type rule");
}
