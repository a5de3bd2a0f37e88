#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { ALIGN = 16, BLOCK = 64 * 1024 };

struct cv_arena_block {
  cv_arena_block *next;
  size_t used, size;
  _Alignas(ALIGN) unsigned char data[];
};

void *cv_arena_alloc(cv_arena *arena, size_t count, size_t size) {
  void *(*alloc)(size_t, size_t) = arena->may_die ? cv_alloc_or_die : cv_alloc;
  if (size && count > (SIZE_MAX - sizeof(cv_arena_block) - ALIGN) / size) return alloc(count, size);
  size_t bytes = (count * size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  cv_arena_block *block = arena->head;
  if (!block || block->size - block->used < bytes) {
    size_t room = bytes > BLOCK / 4 ? bytes : BLOCK;
    block = alloc(1, sizeof *block + room);
    if (!block) return NULL;
    block->size = room;
    if (arena->head && room == bytes) { /* a large one: keep filling the block before it */
      block->next = arena->head->next;
      arena->head->next = block;
    } else {
      block->next = arena->head;
      arena->head = block;
    }
  }
  void *memory = block->data + block->used;
  block->used += bytes;
  return memory;
}

void *cv_arena_copy(cv_arena *arena, const void *data, size_t size) {
  void *copy = cv_arena_alloc(arena, size, 1);
  if (copy && size) memcpy(copy, data, size);
  return copy;
}

char *cv_arena_strndup(cv_arena *arena, const char *text, size_t length) {
  size_t have = strnlen(text, length);
  char *copy = cv_arena_alloc(arena, have + 1, 1);
  if (copy) memcpy(copy, text, have);
  return copy;
}

char *cv_arena_strdup(cv_arena *arena, const char *text) {
  return cv_arena_strndup(arena, text, strlen(text));
}

char *cv_arena_format(cv_arena *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0) return NULL;
  char *text = cv_arena_alloc(arena, (size_t)length + 1, 1);
  if (!text) return NULL;
  va_start(args, format);
  vsnprintf(text, (size_t)length + 1, format, args);
  va_end(args);
  return text;
}

void cv_arena_deinit(cv_arena *arena) {
  for (cv_arena_block *block = arena->head, *next; block; block = next) {
    next = block->next;
    cv_free(block);
  }
  arena->head = NULL;
}
