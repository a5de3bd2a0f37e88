#include "base/status.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1024 };

static _Thread_local char error_text[TEXT_MAX];
static _Thread_local char error_place[128];

cv_status cv_error_at(cv_status code, const char *file, int line, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char text[TEXT_MAX]; /* the arguments may point into error_text */
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  memcpy(error_text, text, sizeof text);
  snprintf(error_place, sizeof error_place, "%.100s:%d", file, line);
  return code;
}

cv_status cv_error_context(cv_status code, const char *format, ...) {
  if (code == CV_OK) return code;
  char prefix[256];
  va_list args;
  va_start(args, format);
  vsnprintf(prefix, sizeof prefix, format, args);
  va_end(args);
  char text[TEXT_MAX + sizeof prefix + 2];
  snprintf(text, sizeof text, "%s: %s", prefix, error_text);
  memcpy(error_text, text, sizeof error_text - 1);
  error_text[sizeof error_text - 1] = 0;
  return code;
}

const char *cv_error_text(void) { return error_text; }

const char *cv_error_place(void) { return error_place; }

const char *cv_status_text(cv_status code) {
  switch (code) {
#define X(name, exit, text) \
  case CV_##name: return text;
    CV_STATUS_MAP(X)
#undef X
  }
  return "unknown status";
}

int cv_status_exit_code(cv_status code) {
  switch (code) {
#define X(name, exit, text) \
  case CV_##name: return exit;
    CV_STATUS_MAP(X)
#undef X
  }
  return 1;
}
