/* The one allocator, and the fault points that tests make fail one by one. */
#ifndef CV_BASE_ALLOC_H
#define CV_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Zeroed memory for count x size bytes, or NULL (overflow included). Owned by the caller, freed
 * with cv_free. */
void *cv_alloc(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));
/* Grows or shrinks `old` to count x size bytes; the new part is not zeroed. On NULL `old` stays
 * valid. */
void *cv_realloc(void *old, size_t count, size_t size) CV_NODISCARD;
/* Zeroed memory aligned to `align` (a power of two, at least sizeof(void*)), or NULL. Freed with
 * cv_free. */
void *cv_alloc_aligned(size_t align, size_t size);
/* A copy of the string, or NULL. */
char *cv_strdup(const char *text);
char *cv_strndup(const char *text, size_t length);
/* printf into fresh memory, or NULL. */
char *cv_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cv_free(void *memory);

/* Sets CV_NOMEM with the size and place, returns it. */
#define cv_error_nomem(bytes) cv_error(CV_NOMEM, "out of memory: %zu bytes needed", (size_t)(bytes))

/* For `compiler/` and `cli/` only: like the above, but ends the process with one sentence when
 * memory is out. */
void *cv_alloc_or_die(size_t count, size_t size);
void *cv_realloc_or_die(void *old, size_t count, size_t size);

/* Fault injection. Every allocation above, and every call wrapped in `cv_fault()`, is one point;
 * the n-th point (from 1) since cv_fault_arm(n) fails once. 0 disarms. Process-wide, thread-safe;
 * off costs one relaxed load. */
void cv_fault_arm(long n);
/* True when the point reached now must fail: `if (cv_fault() || open(...) < 0) ...`. */
bool cv_fault(void);
/* True if the armed fault has fired. */
bool cv_fault_fired(void);

#endif
