#include "base/map.h"

#include <string.h>
#include <xxhash.h>

struct cv_map_slot {
  void *key; /* NULL: empty */
  size_t key_len;
  uint64_t hash, value;
};

static cv_map_slot *find(const cv_map *map, const void *key, size_t key_len, uint64_t hash) {
  size_t mask = map->cap - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    cv_map_slot *slot = &map->slots[i];
    if (!slot->key) return slot;
    if (slot->hash == hash && slot->key_len == key_len && memcmp(slot->key, key, key_len) == 0)
      return slot;
  }
}

static bool grow(cv_map *map) {
  cv_map bigger = {.cap = map->cap ? map->cap * 2 : 16, .len = map->len};
  bigger.slots = cv_alloc(bigger.cap, sizeof *bigger.slots);
  if (!bigger.slots) return false;
  for (size_t i = 0; i < map->cap; i++) {
    const cv_map_slot *slot = &map->slots[i];
    if (slot->key) *find(&bigger, slot->key, slot->key_len, slot->hash) = *slot;
  }
  cv_free(map->slots);
  *map = bigger;
  return true;
}

bool cv_map_put(cv_map *map, const void *key, size_t key_len, uint64_t value) {
  if ((map->len + 1) * 4 > map->cap * 3 && !grow(map)) return false;
  uint64_t hash = XXH3_64bits(key, key_len);
  cv_map_slot *slot = find(map, key, key_len, hash);
  if (!slot->key) {
    void *copy = cv_alloc(key_len + 1, 1);
    if (!copy) return false;
    if (key_len) memcpy(copy, key, key_len);
    *slot = (cv_map_slot){.key = copy, .key_len = key_len, .hash = hash};
    map->len++;
  }
  slot->value = value;
  return true;
}

bool cv_map_get(const cv_map *map, const void *key, size_t key_len, uint64_t *out_value) {
  *out_value = 0;
  if (!map->cap) return false;
  const cv_map_slot *slot = find(map, key, key_len, XXH3_64bits(key, key_len));
  if (slot->key) *out_value = slot->value;
  return slot->key != NULL;
}

bool cv_map_put_str(cv_map *map, const char *key, uint64_t value) {
  return cv_map_put(map, key, strlen(key), value);
}

bool cv_map_get_str(const cv_map *map, const char *key, uint64_t *out_value) {
  return cv_map_get(map, key, strlen(key), out_value);
}

void cv_map_deinit(cv_map *map) {
  for (size_t i = 0; i < map->cap; i++) cv_free(map->slots[i].key);
  cv_free(map->slots);
  *map = (cv_map){0};
}
