// A map from uint64_t keys (addresses) to uint32_t values: open addressing, linear probing.
#ifndef PLIM_CORE_HASH_H
#define PLIM_CORE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t key;
  uint32_t value;
  bool used;
} plim_hash_entry;

typedef struct {
  plim_hash_entry *at;
  size_t len, cap; // cap is 0 or a power of two
} plim_hash;

// Sets the value of a key. Returns false when out of memory.
bool plim_hash_put(plim_hash *hash, uint64_t key, uint32_t value);

// The value of a key, or NULL. Valid until the next put or remove.
uint32_t *plim_hash_find(const plim_hash *hash, uint64_t key);

// Removes a key. Returns false if it was not there. Sets *value (may be NULL) to its value.
bool plim_hash_remove(plim_hash *hash, uint64_t key, uint32_t *value);

void plim_hash_free(plim_hash *hash);

// The finaliser of splitmix64: each input bit changes half of the output bits on average.
static inline uint64_t plim_hash_mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

#endif
