#include "base/vec.h"

bool cv_vec_grow(void **data, size_t *cap, size_t need, size_t size) {
  if (need <= *cap) return true;
  size_t wanted = *cap ? *cap * 2 : 8;
  if (wanted < need) wanted = need;
  void *grown = cv_realloc(*data, wanted, size);
  if (!grown) return false;
  *data = grown;
  *cap = wanted;
  return true;
}
