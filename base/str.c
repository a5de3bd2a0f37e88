#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static bool reserve(cv_str *str, size_t extra) {
  if (str->failed) return false;
  size_t need = str->len + extra + 1;
  if (need <= str->cap) return true;
  size_t wanted = str->cap * 2 > need ? str->cap * 2 : need + 64;
  char *grown =
      str->may_die ? cv_realloc_or_die(str->data, wanted, 1) : cv_realloc(str->data, wanted, 1);
  if (!grown) {
    str->failed = true;
    return false;
  }
  str->data = grown;
  str->cap = wanted;
  return true;
}

void cv_str_append(cv_str *str, const char *text, size_t length) {
  if (!reserve(str, length)) return;
  memcpy(str->data + str->len, text, length);
  str->len += length;
  str->data[str->len] = 0;
}

void cv_str_puts(cv_str *str, const char *text) { cv_str_append(str, text, strlen(text)); }

void cv_str_addv(cv_str *str, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  if (length >= 0 && reserve(str, (size_t)length)) {
    vsnprintf(str->data + str->len, (size_t)length + 1, format, again);
    str->len += (size_t)length;
  }
  va_end(again);
}

void cv_str_add(cv_str *str, const char *format, ...) {
  va_list args;
  va_start(args, format);
  cv_str_addv(str, format, args);
  va_end(args);
}

const char *cv_str_text(const cv_str *str) { return str->data ? str->data : ""; }

void cv_str_deinit(cv_str *str) {
  cv_free(str->data);
  str->data = NULL;
  str->len = str->cap = 0;
  str->failed = false;
}

bool cv_starts_with(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool cv_ends_with(const char *text, const char *suffix) {
  size_t have = strlen(text), want = strlen(suffix);
  return have >= want && memcmp(text + have - want, suffix, want) == 0;
}

bool cv_parse_i64(const char *text, int64_t *out_value) {
  *out_value = 0;
  if (!*text) return false;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || *end || end == text) return false;
  *out_value = value;
  return true;
}

bool cv_parse_bytes(const char *text, uint64_t *out_bytes) {
  static const struct {
    const char *name;
    double factor;
  } units[] = {{"", 1},          {"B", 1},         {"KB", 1e3},
               {"MB", 1e6},      {"GB", 1e9},      {"KiB", 1 << 10},
               {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1099511627776.0}};
  *out_bytes = 0;
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  if (errno || end == text || !(value >= 0)) return false;
  while (*end == ' ') end++;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(end, units[i].name) != 0) continue;
    double bytes = value * units[i].factor;
    if (bytes >= 9.2e18) return false;
    *out_bytes = (uint64_t)bytes;
    return true;
  }
  return false;
}
