// Interning: every distinct thing gets a number, and gets the same number each time it is seen.
//
// plim_index is the hash table underneath. It stores hashes and ids; its user stores the things:
//
//   for (size_t at = plim_index_start(index, hash); (id = plim_index_next(index, &at, hash)) != PLIM_NO_ID;)
//     if (things[id] is it) return id;
//   plim_index_add(index, hash, id of the new thing)
#ifndef PLIM_IO_INTERN_H
#define PLIM_IO_INTERN_H

#include "plimsoll.h"
#include "vec.h"

#define PLIM_NO_ID UINT32_MAX

typedef struct {
  struct plim_slot {
    uint32_t hash, id_plus_1; // 0: free
  } * slots;
  size_t mask; // slots - 1; slots is 0 or a power of two
  size_t used;
} plim_index;

static inline size_t plim_index_start(const plim_index *index, uint32_t hash) {
  return hash & index->mask;
}

// The next id with this hash, or PLIM_NO_ID.
static inline uint32_t plim_index_next(const plim_index *index, size_t *at, uint32_t hash) {
  if (!index->slots) return PLIM_NO_ID;
  while (index->slots[*at].id_plus_1) {
    struct plim_slot slot = index->slots[*at];
    *at = (*at + 1) & index->mask;
    if (slot.hash == hash) return slot.id_plus_1 - 1;
  }
  return PLIM_NO_ID;
}

// Returns false when out of memory. The largest id is UINT32_MAX - 2.
bool plim_index_add(plim_index *index, uint32_t hash, uint32_t id);
void plim_index_clear(plim_index *index);

static inline uint64_t plim_le64(const uint8_t *p) {
  return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
         (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

// Mixes one more word into a hash; the first hash may be any number.
static inline uint64_t plim_hash_mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u; // 2^64 / golden ratio: odd and without a pattern
  return hash ^ hash >> 32;
}

typedef struct {
  uint32_t first, length;
} plim_interned_span;

// Distinct strings; id n is the n-th one added.
typedef struct {
  vec(char) text;                // each string followed by a NUL
  vec(plim_interned_span) spans; // in text
  plim_index index;
} plim_strings;

// `bytes` must be followed by 8 readable bytes. Returns PLIM_NO_ID when out of memory or when the text exceeds 4 GiB.
uint32_t plim_strings_add(plim_strings *strings, const uint8_t *bytes, size_t length);
void plim_strings_clear(plim_strings *strings);

static inline const char *plim_strings_text(const plim_strings *strings, uint32_t id) {
  return strings->text.at + strings->spans.at[id].first;
}

#endif
