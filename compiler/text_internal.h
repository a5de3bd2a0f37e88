/* The lexer of the text form. */
#ifndef CV_COMPILER_TEXT_INTERNAL_H
#define CV_COMPILER_TEXT_INTERNAL_H

#include "base/map.h"
#include "compiler/graph_internal.h"

/* Limits of what is parsed. */
enum { TEXT_MAX_DEPTH = 16, TEXT_MAX_STRING = 4096, TEXT_MAX_BYTES = 1 << 30 };

typedef struct {
  const char *start, *at, *end;
  cv_graph *graph;
  cv_map values; /* token of a value ("12", "name", quoted ones with a quote in front) -> value */
  cv_const_find find;
  void *context;
  int depth;
  cv_status status; /* sticky */
} text_parser;

/* Each returns false once the parser has failed. */
bool text_fail(text_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The character (or word) comes next: it is taken. `text_peek` only looks. */
bool text_accept(text_parser *p, char c);
bool text_expect(text_parser *p, char c);
bool text_accept_word(text_parser *p, const char *word);
char text_peek(text_parser *p);
/* A word [A-Za-z_][A-Za-z0-9_]*, into the graph's arena. */
bool text_word(text_parser *p, const char **out);
/* A quoted string with escapes, into the graph's arena. */
bool text_string(text_parser *p, const char **out);
bool text_int(text_parser *p, int64_t *out);
bool text_expr(text_parser *p, cv_expr *out);
bool text_type(text_parser *p, cv_type *out);
/* %name, %"name" or %12: the key of the map, and the name (NULL for a number). */
bool text_value_token(text_parser *p, const char **out_key, const char **out_name);
/* One element of the dtype. */
bool text_element(text_parser *p, cv_dtype dtype, void *out_element);
/* A constant's right side: "const ..." or "splat ...". False and no error if there is none. */
bool text_constant(text_parser *p, const cv_type *type, cv_val *out);

/* A string in quotes, with escapes. */
void text_print_string(const char *text, cv_str *out);
bool text_name_start(char c);
bool text_name_part(char c);

#endif
