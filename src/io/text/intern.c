#include "intern.h"

#include <string.h>

// ---- index ----------------------------------------------------------------------------------

static void place(plim_index *index, struct plim_slot slot) {
  size_t at = slot.hash & index->mask;
  while (index->slots[at].id_plus_1) at = (at + 1) & index->mask;
  index->slots[at] = slot;
}

static bool grow(plim_index *index) {
  size_t old_count = index->slots ? index->mask + 1 : 0;
  size_t count = old_count ? 2 * old_count : 64;
  plim_index grown = {calloc(count, sizeof *grown.slots), count - 1, index->used};
  if (!grown.slots) return false;
  for (size_t i = 0; i < old_count; i++)
    if (index->slots[i].id_plus_1) place(&grown, index->slots[i]);
  free(index->slots);
  *index = grown;
  return true;
}

bool plim_index_add(plim_index *index, uint32_t hash, uint32_t id) {
  bool crowded = !index->slots || index->used >= (index->mask + 1) / 2;
  if (crowded && !grow(index)) return false;
  place(index, (struct plim_slot){hash, id + 1});
  index->used++;
  return true;
}

void plim_index_clear(plim_index *index) {
  free(index->slots);
  *index = (plim_index){0};
}

// ---- strings --------------------------------------------------------------------------------

static uint32_t hash_bytes(const uint8_t *bytes, size_t length) {
  uint64_t hash = length;
  for (; length >= 8; bytes += 8, length -= 8) hash = plim_hash_mix(hash, plim_le64(bytes));
  if (length) hash = plim_hash_mix(hash, plim_le64(bytes) & ~(UINT64_MAX << 8 * length));
  return (uint32_t)hash;
}

uint32_t plim_strings_add(plim_strings *strings, const uint8_t *bytes, size_t length) {
  uint32_t hash = hash_bytes(bytes, length), id;
  for (size_t at = plim_index_start(&strings->index, hash);
       (id = plim_index_next(&strings->index, &at, hash)) != PLIM_NO_ID;) {
    plim_interned_span span = strings->spans.at[id];
    if (span.length == length && memcmp(strings->text.at + span.first, bytes, length) == 0)
      return id;
  }
  size_t first = strings->text.len;
  id = (uint32_t)strings->spans.len;
  if (length >= UINT32_MAX - first || id >= UINT32_MAX - 2 ||
      !vec_reserve(&strings->text, length + 1) ||
      !vec_push(&strings->spans, (plim_interned_span){(uint32_t)first, (uint32_t)length}))
    return PLIM_NO_ID;
  if (length) memcpy(strings->text.at + first, bytes, length);
  strings->text.at[first + length] = '\0';
  strings->text.len += length + 1;
  return plim_index_add(&strings->index, hash, id) ? id : PLIM_NO_ID;
}

void plim_strings_clear(plim_strings *strings) {
  vec_free(&strings->text);
  vec_free(&strings->spans);
  plim_index_clear(&strings->index);
}
