#include "hash.h"

#include <stdlib.h>

static size_t home(const plim_hash *hash, uint64_t key) {
  uint64_t mixed = (key ^ key >> 33) * 0xff51afd7ed558ccdull; // murmur3's finalizer, in part
  return (size_t)(mixed ^ mixed >> 32) & (hash->cap - 1);
}

static plim_hash_entry *slot_of(const plim_hash *hash, uint64_t key) {
  size_t i = home(hash, key);
  while (hash->at[i].used && hash->at[i].key != key) i = (i + 1) & (hash->cap - 1);
  return &hash->at[i];
}

static bool grow(plim_hash *hash) {
  plim_hash bigger = {.len = hash->len, .cap = hash->cap ? hash->cap * 2 : 64};
  bigger.at = calloc(bigger.cap, sizeof *bigger.at);
  if (!bigger.at) return false;
  for (size_t i = 0; i < hash->cap; i++)
    if (hash->at[i].used) *slot_of(&bigger, hash->at[i].key) = hash->at[i];
  free(hash->at);
  *hash = bigger;
  return true;
}

bool plim_hash_put(plim_hash *hash, uint64_t key, uint32_t value) {
  if (hash->len * 2 >= hash->cap && !grow(hash)) return false;
  plim_hash_entry *entry = slot_of(hash, key);
  if (!entry->used) hash->len++;
  *entry = (plim_hash_entry){key, value, true};
  return true;
}

uint32_t *plim_hash_find(const plim_hash *hash, uint64_t key) {
  if (!hash->cap) return NULL;
  plim_hash_entry *entry = slot_of(hash, key);
  return entry->used ? &entry->value : NULL;
}

// Moves entries after the gap into it if the gap lies between their home and their place.
static void close_gap(plim_hash *hash, size_t gap) {
  size_t mask = hash->cap - 1;
  for (size_t i = (gap + 1) & mask; hash->at[i].used; i = (i + 1) & mask) {
    size_t wants = home(hash, hash->at[i].key);
    if (((i - wants) & mask) < ((i - gap) & mask)) continue;
    hash->at[gap] = hash->at[i];
    gap = i;
  }
  hash->at[gap].used = false;
}

bool plim_hash_remove(plim_hash *hash, uint64_t key, uint32_t *value) {
  if (!hash->cap) return false;
  plim_hash_entry *entry = slot_of(hash, key);
  if (!entry->used) return false;
  if (value) *value = entry->value;
  close_gap(hash, (size_t)(entry - hash->at));
  hash->len--;
  return true;
}

void plim_hash_free(plim_hash *hash) {
  free(hash->at);
  *hash = (plim_hash){0};
}
