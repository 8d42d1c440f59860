#include "vec.h"

bool plim_vec_grow(void **at, size_t *cap, size_t need, size_t element_bytes) {
  size_t grown = *cap < 8 ? 8 : *cap + *cap / 2;
  if (grown < need) grown = need;
  if (grown > SIZE_MAX / element_bytes) return false;
  void *moved = realloc(*at, grown * element_bytes);
  if (!moved) return false;
  *at = moved;
  *cap = grown;
  return true;
}
