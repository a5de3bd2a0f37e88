#include "base/alloc.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_long fault_left;  /* 0: disarmed; else points until the failing one */
static atomic_bool fault_fired; /* since the last arm */

void cv_fault_arm(long n) {
  atomic_store(&fault_fired, false);
  atomic_store(&fault_left, n);
}

bool cv_fault(void) {
  if (atomic_load_explicit(&fault_left, memory_order_relaxed) == 0) return false;
  if (atomic_fetch_sub(&fault_left, 1) != 1) return false;
  atomic_store(&fault_left, 0);
  atomic_store(&fault_fired, true);
  return true;
}

bool cv_fault_fired(void) { return atomic_load(&fault_fired); }

void *cv_alloc(size_t count, size_t size) {
  if (cv_fault()) return NULL;
  return calloc(count ? count : 1, size ? size : 1);
}

void *cv_realloc(void *old, size_t count, size_t size) {
  if (cv_fault()) return NULL;
  if (size && count > SIZE_MAX / size) return NULL;
  return realloc(old, count && size ? count * size : 1);
}

void *cv_alloc_aligned(size_t align, size_t size) {
  if (cv_fault()) return NULL;
  if (size > SIZE_MAX - align) return NULL;
  size_t rounded = (size + align - 1) & ~(align - 1);
  void *memory = aligned_alloc(align, rounded ? rounded : align);
  if (memory) memset(memory, 0, rounded ? rounded : align);
  return memory;
}

char *cv_strndup(const char *text, size_t length) {
  size_t have = strnlen(text, length);
  char *copy = cv_alloc(have + 1, 1);
  if (copy) memcpy(copy, text, have);
  return copy;
}

char *cv_strdup(const char *text) { return cv_strndup(text, strlen(text)); }

char *cv_format(const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0) return NULL;
  char *text = cv_alloc((size_t)length + 1, 1);
  if (!text) return NULL;
  va_start(args, format);
  vsnprintf(text, (size_t)length + 1, format, args);
  va_end(args);
  return text;
}

void cv_free(void *memory) { free(memory); }

static void *alive(void *memory, size_t count, size_t size) {
  if (memory) return memory;
  fprintf(stderr,
          "cuvil: out of memory: %zu x %zu bytes needed; free some memory or use a smaller model\n",
          count, size);
  exit(1);
}

void *cv_alloc_or_die(size_t count, size_t size) {
  return alive(cv_alloc(count, size), count, size);
}

void *cv_realloc_or_die(void *old, size_t count, size_t size) {
  return alive(cv_realloc(old, count, size), count, size);
}
