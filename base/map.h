/* Hash map from byte strings to 64-bit values (open addressing, XXH3). Keys are copied. One thread
 * at a time. */
#ifndef CV_BASE_MAP_H
#define CV_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

typedef struct cv_map_slot cv_map_slot;

/* Zero-initialise to make an empty map. */
typedef struct {
  cv_map_slot *slots;
  size_t len, cap;
} cv_map;

/* Sets key to value: true, or false when out of memory (the map is unchanged). */
CV_NODISCARD bool cv_map_put(cv_map *map, const void *key, size_t key_len, uint64_t value);
/* Finds: true and the value, or false and 0. */
bool cv_map_get(const cv_map *map, const void *key, size_t key_len, uint64_t *out_value);
/* The same for NUL-terminated keys. */
CV_NODISCARD bool cv_map_put_str(cv_map *map, const char *key, uint64_t value);
bool cv_map_get_str(const cv_map *map, const char *key, uint64_t *out_value);
void cv_map_deinit(cv_map *map);

#endif
