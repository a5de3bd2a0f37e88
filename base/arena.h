/* Arena: many small allocations with one lifetime (a compilation, a plan, a message). One thread at
 * a time. */
#ifndef CV_BASE_ARENA_H
#define CV_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cv_arena_block cv_arena_block;

/* Zero-initialise to make an empty arena. */
typedef struct {
  cv_arena_block *head;
  bool may_die; /* set by `compiler/` and `cli/`: out of memory ends the process with a sentence */
} cv_arena;

/* Zeroed memory, aligned to 16 bytes, valid until cv_arena_deinit; NULL when out of memory (never
 * if may_die). */
void *cv_arena_alloc(cv_arena *arena, size_t count, size_t size);
/* Copies. */
void *cv_arena_copy(cv_arena *arena, const void *data, size_t size);
char *cv_arena_strdup(cv_arena *arena, const char *text);
char *cv_arena_strndup(cv_arena *arena, const char *text, size_t length);
char *cv_arena_format(cv_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Frees all; the arena is empty again. */
void cv_arena_deinit(cv_arena *arena);

#define cv_arena_new(arena, type) ((type *)cv_arena_alloc(arena, 1, sizeof(type)))
#define cv_arena_array(arena, type, count) ((type *)cv_arena_alloc(arena, count, sizeof(type)))

#endif
