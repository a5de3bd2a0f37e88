#include "compiler/text_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/half.h"

bool text_name_start(char c) { return isalpha((unsigned char)c) || c == '_' || c == '/'; }
bool text_name_part(char c) { return text_name_start(c) || isdigit((unsigned char)c) || c == '.'; }

bool text_fail(text_parser *p, const char *format, ...) {
  char text[512];
  va_list args;
  int line = 1, column = 1;
  if (p->status != CV_OK) return false;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  for (const char *at = p->start; at < p->at; at++) {
    column = *at == '\n' ? 1 : column + 1;
    line += *at == '\n';
  }
  p->status = cv_error(CV_INVALID, "graph text, line %d, column %d: %s", line, column, text);
  return false;
}

static void skip(text_parser *p) {
  while (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r') p->at++;
}

char text_peek(text_parser *p) {
  skip(p);
  return *p->at;
}

bool text_accept(text_parser *p, char c) {
  if (p->status != CV_OK || text_peek(p) != c) return false;
  p->at++;
  return true;
}

bool text_expect(text_parser *p, char c) {
  return text_accept(p, c) || text_fail(p, "'%c' expected, \"%.16s\" found", c, p->at);
}

static bool word_part(char c) { return isalnum((unsigned char)c) || c == '_'; }

bool text_accept_word(text_parser *p, const char *word) {
  size_t n = strlen(word);
  if (p->status != CV_OK) return false;
  skip(p);
  if (strncmp(p->at, word, n) != 0 || word_part(p->at[n])) return false;
  p->at += n;
  return true;
}

bool text_word(text_parser *p, const char **out) {
  size_t n = 0;
  *out = "";
  if (p->status != CV_OK) return false;
  skip(p);
  if (isdigit((unsigned char)*p->at)) return text_fail(p, "a word expected");
  while (word_part(p->at[n])) n++;
  if (n == 0) return text_fail(p, "a word expected, \"%.16s\" found", p->at);
  *out = cv_arena_strndup(&p->graph->arena, p->at, n);
  p->at += n;
  return true;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a string; false at a bad escape. */
static bool unescape(text_parser *p, char *out) {
  *out = *p->at++;
  if (*out != '\\') return true;
  char c = *p->at++;
  if (c == 'n') {
    *out = '\n';
  } else if (c == '"' || c == '\\') {
    *out = c;
  } else if (c == 'x') {
    int high = hex_digit(p->at[0]), low = high >= 0 ? hex_digit(p->at[1]) : -1;
    if (low < 0 || high * 16 + low == 0) return false;
    *out = (char)(high * 16 + low);
    p->at += 2;
  } else {
    p->at--;
    return false;
  }
  return true;
}

bool text_string(text_parser *p, const char **out) {
  cv_str text = {.may_die = true};
  *out = "";
  if (!text_expect(p, '"')) return false;
  while (p->status == CV_OK && *p->at != '"') {
    char c;
    if (*p->at == '\0' || text.len >= TEXT_MAX_STRING) {
      text_fail(p, "the closing quote of a string of at most %d bytes expected", TEXT_MAX_STRING);
    } else if (!unescape(p, &c)) {
      text_fail(p, "an escape is one of \\n, \\\", \\\\ and \\xHH");
    } else {
      cv_str_append(&text, &c, 1);
    }
  }
  if (p->status == CV_OK) {
    p->at++;
    *out = cv_arena_strdup(&p->graph->arena, cv_str_text(&text));
  }
  cv_str_deinit(&text);
  return p->status == CV_OK;
}

void text_print_string(const char *text, cv_str *out) {
  cv_str_puts(out, "\"");
  for (const char *at = text; *at != '\0'; at++) {
    unsigned char c = (unsigned char)*at;
    if (c == '"' || c == '\\') {
      cv_str_add(out, "\\%c", c);
    } else if (c == '\n') {
      cv_str_puts(out, "\\n");
    } else if (c < 0x20 || c == 0x7f) {
      cv_str_add(out, "\\x%02x", c);
    } else {
      cv_str_append(out, at, 1);
    }
  }
  cv_str_puts(out, "\"");
}

bool text_int(text_parser *p, int64_t *out) {
  char *end;
  *out = 0;
  if (p->status != CV_OK) return false;
  skip(p);
  if (!isdigit((unsigned char)p->at[*p->at == '-'])) return text_fail(p, "a whole number expected");
  errno = 0;
  *out = strtoll(p->at, &end, 10);
  if (errno != 0) return text_fail(p, "a number below 2^63 expected");
  p->at = end;
  return true;
}

bool text_expr(text_parser *p, cv_expr *out) {
  const char *end;
  *out = CV_EXPR_NONE;
  if (p->status != CV_OK) return false;
  skip(p);
  cv_status status = cv_expr_parse(p->graph->exprs, p->at, &end, out);
  p->at = end;
  return status == CV_OK || text_fail(p, "%s", cv_error_text());
}

bool text_type(text_parser *p, cv_type *out) {
  const char *name;
  *out = (cv_type){0};
  if (!text_word(p, &name)) return false;
  if (!cv_dtype_from_name(name, &out->dtype)) return text_fail(p, "\"%.16s\" is no dtype", name);
  if (!text_expect(p, '[')) return false;
  if (text_accept(p, ']')) return true;
  do {
    if (out->rank == CV_MAX_RANK) return text_fail(p, "more than %d dims", CV_MAX_RANK);
    if (!text_expr(p, &out->dims[out->rank++])) return false;
  } while (text_accept(p, ','));
  return text_expect(p, ']');
}

bool text_value_token(text_parser *p, const char **out_key, const char **out_name) {
  size_t n = 0;
  *out_key = "";
  *out_name = NULL;
  if (!text_expect(p, '%')) return false;
  if (*p->at == '"') {
    if (!text_string(p, out_name)) return false;
    *out_key = cv_arena_format(&p->graph->arena, "\"%s", *out_name);
    return true;
  }
  bool number = isdigit((unsigned char)*p->at);
  while (number ? isdigit((unsigned char)p->at[n]) : text_name_part(p->at[n])) n++;
  if (n == 0 || n > TEXT_MAX_STRING) return text_fail(p, "a value's name expected");
  const char *text = cv_arena_strndup(&p->graph->arena, p->at, n);
  p->at += n;
  *out_key = number ? text : cv_arena_format(&p->graph->arena, "\"%s", text);
  if (!number) *out_name = text;
  return true;
}

/* ---- constants ---- */

static bool float_element(text_parser *p, cv_dtype dtype, void *out) {
  char *end;
  if (strncmp(p->at, "nan:", 4) == 0) {
    uint64_t bits = strtoull(p->at + 4, &end, 16);
    if (!isxdigit((unsigned char)p->at[4])) return text_fail(p, "the bits of a NaN expected");
    memcpy(out, &bits, cv_dtype_size(dtype));
  } else {
    double value = strtod(p->at, &end);
    if (end == p->at) return text_fail(p, "a number expected, \"%.16s\" found", p->at);
    cv_element_from_double(dtype, value, out);
  }
  p->at = end;
  return true;
}

bool text_element(text_parser *p, cv_dtype dtype, void *out) {
  char *end;
  if (p->status != CV_OK) return false;
  skip(p);
  if (cv_dtype_is_float(dtype)) return float_element(p, dtype, out);
  bool negative = *p->at == '-';
  if (!isdigit((unsigned char)p->at[negative])) return text_fail(p, "a whole number expected");
  errno = 0;
  int64_t value = negative ? strtoll(p->at, &end, 10) : (int64_t)strtoull(p->at, &end, 10);
  cv_element_from_int(dtype, value, out);
  bool same = cv_element_to_int(dtype, out) == value;
  bool wrapped = !negative && value < 0 && dtype != CV_U64;
  if (errno != 0 || !same || wrapped || (negative && cv_dtype_kind(dtype) == 'u' && value != 0)) {
    return text_fail(p, "\"%.20s\" does not fit %s", p->at, cv_dtype_name(dtype));
  }
  p->at = end;
  return true;
}

/* Bytes of a constant type; false and the error if a dim is symbolic or it is too large. */
static bool constant_bytes(text_parser *p, const cv_type *type, uint64_t *out_n,
                           uint64_t *out_bytes) {
  if (!cv_dims_small(p->graph, type, UINT64_MAX / 16, out_n)) {
    return text_fail(p, "a constant needs constant dims, has %s", cv_type_text(p->graph, type));
  }
  *out_bytes = *out_n * cv_dtype_size(type->dtype);
  return true;
}

static bool literal(text_parser *p, const cv_type *type, cv_val *out) {
  uint64_t n, bytes;
  size_t size = cv_dtype_size(type->dtype);
  if (!constant_bytes(p, type, &n, &bytes)) return false;
  /* An element takes at least two characters, so the text bounds what is allocated. */
  if (n > (uint64_t)(p->end - p->at))
    return text_fail(p, "%llu elements expected", (unsigned long long)n);
  unsigned char *data = cv_arena_alloc(&p->graph->arena, n + 1, size);
  if (!text_expect(p, '{')) return false;
  for (uint64_t i = 0; i < n; i++) {
    if (i > 0 && !text_expect(p, ',')) return false;
    if (!text_element(p, type->dtype, data + i * size)) return false;
  }
  *out = cv_graph_const_unknown(p->graph, type, 0);
  if (*out == CV_POISON) return false;
  cv_value_of(p->graph, *out)->data = (cv_const_data){.data = data, .bytes = bytes};
  return text_expect(p, '}');
}

static bool by_hash(text_parser *p, const cv_type *type, cv_val *out) {
  uint64_t n, bytes, hash = 0;
  int digits = 0;
  for (; hex_digit(*p->at) >= 0 && digits < 16; digits++) {
    hash = hash << 4 | (uint64_t)hex_digit(*p->at++);
  }
  if (digits != 16) return text_fail(p, "a hash of 16 digits expected");
  if (!constant_bytes(p, type, &n, &bytes)) return false;
  const void *data = p->find != NULL ? p->find(p->context, hash, bytes) : NULL;
  *out = cv_graph_const_unknown(p->graph, type, hash);
  if (*out == CV_POISON) return false;
  cv_const_data *held = &cv_value_of(p->graph, *out)->data;
  *held = (cv_const_data){.data = data, .bytes = data != NULL ? bytes : 0, .hash = hash};
  return true;
}

bool text_constant(text_parser *p, const cv_type *type, cv_val *out) {
  unsigned char element[8];
  *out = CV_POISON;
  if (text_accept_word(p, "splat")) {
    if (!text_element(p, type->dtype, element)) return false;
    *out = cv_graph_splat(p->graph, type, element);
    return *out != CV_POISON;
  }
  if (!text_accept_word(p, "const")) return false;
  if (text_accept(p, '#')) return by_hash(p, type, out);
  if (text_peek(p) == '{') return literal(p, type, out);
  *out = cv_graph_const_unknown(p->graph, type, 0);
  return *out != CV_POISON;
}
