/* Symbols and tensors: dims from symbols, symbols from inputs' dims and values. */
#include <inttypes.h>

#include "base/str.h"
#include "runtime/cpu_internal.h"
#include "runtime/half.h"

cv_status cpu_describe(const cv_program *program, uint32_t value, const int64_t *symbols,
                       cv_tensor *out_tensor) {
  const cv_value *about = &program->values[value];
  cv_tensor tensor = {.dtype = about->dtype, .rank = about->rank};
  int64_t count = 0;
  *out_tensor = (cv_tensor){0};
  for (int d = 0; d < about->rank; d++) {
    cv_status status = cv_expr_eval(program->exprs, about->dims[d], symbols, &tensor.dims[d]);
    if (status != CV_OK) return cv_error_context(status, "dim %d of %s", d, about->name);
  }
  if (!cv_dims_count(tensor.rank, tensor.dims, &count) ||
      __builtin_mul_overflow((uint64_t)count, cv_dtype_size(about->dtype), &tensor.bytes))
    return cv_error(CV_INVALID,
                    "%s would have the shape %s: the shapes of the inputs do not fit the model",
                    about->name, cv_tensor_shape_text(&tensor).text);
  *out_tensor = tensor;
  return CV_OK;
}

cv_status cpu_bind(const cv_program *program, cv_sym sym, int64_t number, const char *where,
                   int64_t *symbols) {
  int64_t lo, hi;
  cv_symbol_bounds(program->exprs, sym, &lo, &hi);
  if (number < lo || number > hi)
    return cv_error(CV_INVALID,
                    "%s: %s is %" PRId64 ", outside of its bounds [%" PRId64 ", %" PRId64
                    "] (give other inputs, or build with other bounds)",
                    where, cv_symbol_name(program->exprs, sym), number, lo, hi);
  symbols[sym] = number;
  return CV_OK;
}

int64_t cpu_element(const void *data, cv_dtype dtype, uint32_t element) {
  return cv_element_to_int(dtype, (const char *)data + cv_dtype_size(dtype) * element);
}

/* The wanted type of an input as text with its symbols. */
static void wanted_text(const cv_program *program, const cv_value *value, cv_str *out) {
  cv_str_add(out, "%s[", cv_dtype_name(value->dtype));
  for (int d = 0; d < value->rank; d++) {
    if (d) cv_str_puts(out, ",");
    cv_expr_print(program->exprs, value->dims[d], out);
  }
  cv_str_puts(out, "]");
}

static cv_status misfit(const cv_program *program, const cv_value *value, const cv_tensor *given,
                        const char *why) {
  cv_str wanted = {0};
  wanted_text(program, value, &wanted);
  cv_status status =
      cv_error(CV_INVALID, "input '%s' must be %s, given is %s%s%s", value->name,
               cv_str_text(&wanted), cv_tensor_shape_text(given).text, *why ? ": " : "", why);
  cv_str_deinit(&wanted);
  return status;
}

/* The one symbol of `e` that has no value: false if there is none or more. */
static bool only_unbound(const cv_program *program, cv_expr e, const int64_t *symbols,
                         cv_sym *out_sym) {
  uint32_t unbound = 0;
  for (cv_sym sym = 0; sym < cv_exprs_symbols(program->exprs); sym++) {
    if (symbols[sym] != CV_UNBOUND || !cv_expr_uses(program->exprs, e, sym)) continue;
    *out_sym = sym;
    unbound++;
  }
  return unbound == 1;
}

/* Binds the symbol of a dim `rest + factor * sym`: true if it could. The check that follows shows
 * whether the dim really is of that form. */
static cv_status solve(const cv_program *program, const cv_value *value, int d, int64_t given,
                       int64_t *symbols, bool *out_solved) {
  const cv_exprs *pool = program->exprs;
  cv_sym sym;
  *out_solved = false;
  if (cv_expr_is_symbol(pool, value->dims[d], &sym)) {
    if (symbols[sym] != CV_UNBOUND) return CV_OK;
    *out_solved = true;
    return cpu_bind(program, sym, given, value->name, symbols);
  }
  int64_t at[3], factor, left; /* the dim where the symbol is 0, 1, 2 */
  if (cv_expr_is_const(pool, value->dims[d], &left)) return CV_OK;
  if (!only_unbound(program, value->dims[d], symbols, &sym)) return CV_OK;
  cv_status status = CV_OK;
  for (int i = 0; i < 3 && status == CV_OK; i++) {
    symbols[sym] = i;
    status = cv_expr_eval(pool, value->dims[d], symbols, &at[i]);
  }
  symbols[sym] = CV_UNBOUND;
  if (status != CV_OK || __builtin_sub_overflow(at[1], at[0], &factor) || factor == 0 ||
      __builtin_sub_overflow(at[2], at[1], &left) || left != factor ||
      __builtin_sub_overflow(given, at[0], &left) || left == INT64_MIN || left % factor != 0)
    return CV_OK; /* not of that form: whoever checks the dim says so */
  *out_solved = true;
  return cpu_bind(program, sym, left / factor, value->name, symbols);
}

static cv_status solve_all(const cv_program *program, const cv_tensor *inputs, int64_t *symbols) {
  bool again = true;
  while (again) {
    again = false;
    for (uint32_t i = 0; i < program->n_inputs; i++) {
      const cv_value *value = &program->values[program->inputs[i].value];
      for (int d = 0; d < value->rank && !inputs[i].absent; d++) {
        bool solved;
        cv_status status = solve(program, value, d, inputs[i].dims[d], symbols, &solved);
        if (status != CV_OK) return misfit(program, value, &inputs[i], cv_error_text());
        again = again || solved;
      }
    }
  }
  return CV_OK;
}

static cv_status check_dims(const cv_program *program, const cv_tensor *inputs,
                            const int64_t *symbols) {
  for (uint32_t i = 0; i < program->n_inputs; i++) {
    const cv_value *value = &program->values[program->inputs[i].value];
    if (inputs[i].absent) continue;
    for (int d = 0; d < value->rank; d++) {
      int64_t wanted;
      cv_status status = cv_expr_eval(program->exprs, value->dims[d], symbols, &wanted);
      if (status != CV_OK) return misfit(program, value, &inputs[i], cv_error_text());
      if (wanted != inputs[i].dims[d]) return misfit(program, value, &inputs[i], "");
    }
  }
  return CV_OK;
}

static cv_status check_types(const cv_program *program, const cv_tensor *inputs) {
  for (uint32_t i = 0; i < program->n_inputs; i++) {
    const cv_value *value = &program->values[program->inputs[i].value];
    const cv_tensor *given = &inputs[i];
    if (given->absent) continue;
    if (given->dtype != value->dtype || given->rank != value->rank)
      return misfit(program, value, given, "");
    int64_t count;
    if (!cv_dims_count(given->rank, given->dims, &count) ||
        given->bytes != (uint64_t)count * cv_dtype_size(given->dtype) ||
        (given->bytes && !given->data))
      return misfit(program, value, given, "its bytes are not as many as its dims say");
  }
  return CV_OK;
}

static bool all_bound(const cv_program *program, cv_expr e, const int64_t *symbols) {
  for (cv_sym sym = 0; sym < cv_exprs_symbols(program->exprs); sym++)
    if (symbols[sym] == CV_UNBOUND && cv_expr_uses(program->exprs, e, sym)) return false;
  return true;
}

static cv_status check_failed(const cv_program *program, const cv_check *check, int64_t a,
                              int64_t b) {
  cv_str text = {0};
  cv_expr_print(program->exprs, check->a, &text);
  cv_str_puts(&text, " = ");
  cv_expr_print(program->exprs, check->b, &text);
  cv_status status = cv_error(
      CV_INVALID,
      "the model%s%s%s was compiled for inputs where %s, and for these they are %" PRId64
      " and %" PRId64 ": give other inputs, or compile the model for these (--dim, --bind)",
      *check->source ? "'s node '" : "", check->source, *check->source ? "'" : "",
      cv_str_text(&text), a, b);
  cv_str_deinit(&text);
  return status;
}

/* A check whose symbols are not all bound waits for the step that binds them, or is of an input
 * that is absent. */
static cv_status check_one(const cv_program *program, const cv_check *check,
                           const int64_t *symbols) {
  int64_t a, b, holds;
  if (!all_bound(program, check->guard, symbols) || !all_bound(program, check->a, symbols) ||
      !all_bound(program, check->b, symbols))
    return CV_OK;
  cv_status status = cv_expr_eval(program->exprs, check->guard, symbols, &holds);
  if (status == CV_OK && holds == 0) return CV_OK;
  if (status == CV_OK) status = cv_expr_eval(program->exprs, check->a, symbols, &a);
  if (status == CV_OK) status = cv_expr_eval(program->exprs, check->b, symbols, &b);
  return status == CV_OK && a != b ? check_failed(program, check, a, b) : status;
}

static cv_status check_symbol(const cv_program *program, cv_sym sym, const int64_t *symbols) {
  cv_status status = CV_OK;
  for (uint32_t i = 0; i < program->n_checks && status == CV_OK; i++) {
    const cv_check *check = &program->checks[i];
    if (cv_expr_uses(program->exprs, check->a, sym) ||
        cv_expr_uses(program->exprs, check->b, sym) ||
        cv_expr_uses(program->exprs, check->guard, sym))
      status = check_one(program, check, symbols);
  }
  return status;
}

cv_status cpu_bind_late(const cv_program *program, cv_sym sym, int64_t number, const char *where,
                        int64_t *symbols) {
  cv_status status = cpu_bind(program, sym, number, where, symbols);
  return status == CV_OK ? check_symbol(program, sym, symbols) : status;
}

cv_status cpu_bind_inputs(const cv_program *program, const cv_tensor *inputs, int64_t *symbols) {
  cv_status status = check_types(program, inputs);
  if (status == CV_OK) status = solve_all(program, inputs, symbols);
  for (uint32_t b = 0; b < program->n_binds && status == CV_OK; b++) {
    const cv_bind *bind = &program->binds[b];
    const cv_value *value = &program->values[bind->value];
    const cv_tensor *input = &inputs[value->source];
    if (input->absent) continue;
    if (input->bytes < (bind->element + 1ull) * cv_dtype_size(input->dtype))
      return misfit(program, value, input, "it has too few elements");
    status = cpu_bind(program, bind->sym, cpu_element(input->data, input->dtype, bind->element),
                      value->name, symbols);
  }
  if (status == CV_OK && program->n_binds) status = solve_all(program, inputs, symbols);
  if (status == CV_OK) status = check_dims(program, inputs, symbols);
  for (uint32_t i = 0; i < program->n_checks && status == CV_OK; i++)
    status = check_one(program, &program->checks[i], symbols);
  return status;
}

cv_status cv_program_bind_inputs(const cv_program *program, const cv_tensor *inputs,
                                 int64_t *symbols) {
  for (cv_sym sym = 0; sym < cv_exprs_symbols(program->exprs); sym++) symbols[sym] = CV_UNBOUND;
  return cpu_bind_inputs(program, inputs, symbols);
}
