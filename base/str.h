/* String builder (generated code, messages, JSON by hand never: use jansson) and string helpers. */
#ifndef CV_BASE_STR_H
#define CV_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. `data` is NUL-terminated once anything was added (NULL before). One thread. */
typedef struct {
  char *data;
  size_t len, cap;
  bool failed;  /* sticky: memory ran out; the text is then incomplete */
  bool may_die; /* set by `compiler/` and `cli/` */
} cv_str;

void cv_str_add(cv_str *str, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cv_str_addv(cv_str *str, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
void cv_str_append(cv_str *str, const char *text, size_t length);
void cv_str_puts(cv_str *str, const char *text);
/* The text, "" when empty. */
const char *cv_str_text(const cv_str *str);
void cv_str_deinit(cv_str *str);

bool cv_starts_with(const char *text, const char *prefix);
bool cv_ends_with(const char *text, const char *suffix);
/* Parses a whole decimal number with optional sign; false when it is not one or does not fit. */
bool cv_parse_i64(const char *text, int64_t *out_value);
/* Parses "512MiB", "2GB", "100" (bytes). */
bool cv_parse_bytes(const char *text, uint64_t *out_bytes);

#endif
