// Operations of the pickle reader on single values: numbers, tuples, the memo, adding items to containers. Part of
// pickle.c, which inlines all of it.
#ifndef PLIM_IO_PICKLE_STACK_H
#define PLIM_IO_PICKLE_STACK_H

#include <string.h>

#include "pickle_impl.h"

enum {
  SPARSE_MEMO = 1024
}; // a memo index may exceed the number of objects by this plus that number

// ---- values ---------------------------------------------------------------------------------

static inline plim_value integer(plim_pickle *pickle, int64_t number) {
  plim_value value = plim_value_make(PLIM_VALUE_INT, (uint64_t)number);
  return plim_value_small(value) == number ? value
                                           : add_wide(pickle, PLIM_VALUE_WIDE, (uint64_t)number);
}

// LONG1 and LONG4: little-endian two's complement. Nine bytes hold an unsigned 64-bit number.
static inline plim_value long_integer(plim_pickle *pickle, const uint8_t *bytes, uint32_t length) {
  if (length == 0) return plim_value_make(PLIM_VALUE_INT, 0);
  uint64_t bits = plim_le64(bytes);
  if (length <= 8) {
    unsigned unused = 64 - 8 * length;
    return integer(pickle, (int64_t)(bits << unused) >> unused);
  }
  bool has_top_bit = bits >> 63;
  if (length == 9 && bytes[8] == 0)
    return has_top_bit ? add_wide(pickle, PLIM_VALUE_UWIDE, bits) : integer(pickle, (int64_t)bits);
  if (length == 9 && bytes[8] == 0xff && has_top_bit) return integer(pickle, (int64_t)bits);
  return plim_pickle_fail(pickle, PLIM_ERR_UNSUPPORTED,
                          "an integer of %lu bytes does not fit into 64 bits",
                          (unsigned long)length);
}

static bool fits_pair(plim_value value) {
  if (plim_value_kind(value) != PLIM_VALUE_INT) return false;
  int64_t number = plim_value_small(value);
  return number >= -(1 << 27) && number < 1 << 27;
}

static plim_value tuple(plim_pickle *pickle, const plim_value *items, size_t count) {
  if (count == 2 && fits_pair(items[0]) && fits_pair(items[1])) {
    uint64_t mask = (1u << 28) - 1;
    return plim_value_make(PLIM_VALUE_PAIR, (items[0] & mask) << 28 | (items[1] & mask));
  }
  uint32_t id = add_container(pickle, count);
  if (id == PLIM_NO_ID) return plim_value_make(PLIM_VALUE_FAILED, 0);
  plim_container *container = &pickle->containers.at[id];
  if (count) memcpy(pickle->items.at + container->first, items, count * sizeof *items);
  container->count = (uint32_t)count;
  return plim_value_make(PLIM_VALUE_TUPLE, id);
}

// ---- memo -----------------------------------------------------------------------------------

static inline bool is_new(plim_value value) {
  unsigned kind = plim_value_kind(value);
  return kind == PLIM_VALUE_NEW_LIST || kind == PLIM_VALUE_NEW_DICT;
}

enum { SLOT_BITS = 27 };

static inline uint32_t slot_make(unsigned kind, uint64_t payload) {
  return (uint32_t)(kind << SLOT_BITS) | (uint32_t)payload;
}
static inline unsigned slot_kind(uint32_t slot) { return slot >> SLOT_BITS; }
static inline uint32_t slot_payload(uint32_t slot) { return slot & ((1u << SLOT_BITS) - 1); }

static bool far_slot(plim_pickle *pickle, plim_value value, uint32_t *slot) {
  if (pickle->far.len >> SLOT_BITS || !vec_push(&pickle->far, value)) return fail_memory(pickle);
  *slot = slot_make(PLIM_VALUE_FAR, pickle->far.len - 1);
  return true;
}

// Stores a value at an index that exists.
static inline bool put(plim_pickle *pickle, size_t index, plim_value value) {
  uint64_t payload = is_new(value) ? 0 : plim_value_payload(value);
  if (payload >> SLOT_BITS) return far_slot(pickle, value, &pickle->memo.at[index]);
  pickle->memo.at[index] = slot_make(plim_value_kind(value), payload);
  return true;
}

// Memoises *top at an index that exists. A container without items stores its index, so that the memo can be updated when
// the container gets items.
static inline bool put_top(plim_pickle *pickle, size_t index, plim_value *top) {
  pickle->puts++;
  if (is_new(*top)) {
    if (plim_value_payload(*top)) return fail_shared(pickle);
    *top |= index + 1;
  }
  return put(pickle, index, *top);
}

static inline bool memoize(plim_pickle *pickle, plim_value *top) {
  if (!vec_reserve(&pickle->memo, 1)) return fail_memory(pickle);
  return put_top(pickle, pickle->memo.len++, top);
}

// Memoises *top at any index. Some gaps are allowed, because rewritten files may have them.
static bool memoize_at(plim_pickle *pickle, plim_value *top, uint64_t index) {
  if (index > 2 * pickle->puts + SPARSE_MEMO) {
    plim_pickle_fail(pickle, PLIM_ERR_PARSE,
                     "damaged pickle: memo index %llu after only %llu objects",
                     (unsigned long long)index, (unsigned long long)pickle->puts);
    return false;
  }
  while (pickle->memo.len <= index)
    if (!vec_push(&pickle->memo, slot_make(PLIM_VALUE_UNSET, 0))) return fail_memory(pickle);
  return put_top(pickle, (size_t)index, top);
}

// Fetches a memo entry that is not a plain value. A container that is fetched without items stays empty.
static plim_value fetch_special(plim_pickle *pickle, uint32_t index) {
  uint32_t *slot = &pickle->memo.at[index];
  unsigned kind = slot_kind(*slot);
  if (kind == PLIM_VALUE_FAR) return pickle->far.at[slot_payload(*slot)];
  if (kind != PLIM_VALUE_NEW_LIST && kind != PLIM_VALUE_NEW_DICT)
    return plim_pickle_fail(pickle, PLIM_ERR_PARSE, "damaged pickle: memo index %lu is not set",
                            (unsigned long)index);
  kind = kind == PLIM_VALUE_NEW_LIST ? PLIM_VALUE_EMPTY_LIST : PLIM_VALUE_EMPTY_DICT;
  *slot = slot_make(kind, 0);
  return plim_value_make(kind, 0);
}

static inline plim_value fetch(plim_pickle *pickle, uint32_t index) {
  if (index >= pickle->memo.len)
    return plim_pickle_fail(pickle, PLIM_ERR_PARSE, "damaged pickle: memo index %lu is not set",
                            (unsigned long)index);
  uint32_t slot = pickle->memo.at[index];
  if (slot >= slot_make(PLIM_VALUE_NEW_LIST, 0)) return fetch_special(pickle, index);
  return plim_value_make(slot_kind(slot), slot_payload(slot));
}

// ---- containers -----------------------------------------------------------------------------

// Whether the memo entry of a container without items is still that container.
static bool is_unshared(const plim_pickle *pickle, plim_value value) {
  uint64_t index_plus_1 = plim_value_payload(value);
  return index_plus_1 == 0 ||
         slot_kind(pickle->memo.at[index_plus_1 - 1]) == plim_value_kind(value);
}

// Updates the memo entry of a container after its items were added. When more items are added to the same container, its
// memo index is in `open`, because the value itself no longer contains it.
static bool settle(plim_pickle *pickle, struct plim_open *open, plim_value *container,
                   plim_value now) {
  plim_value old = *container;
  size_t at = (size_t)(container - pickle->stack);
  if (is_new(old)) {
    open->at = at;
    open->memo = plim_value_payload(old);
  } else if (now == old) {
    return true;
  } else if (open->at != at || open->value != old) {
    return fail_shared(pickle);
  }
  open->value = *container = now;
  return !open->memo || put(pickle, (size_t)open->memo - 1, now);
}

static bool fill(plim_pickle *pickle, plim_value *container, const plim_value *items, size_t count,
                 plim_shape *shape, uint8_t op) {
  if (shape == pickle->dict && count % 2) return fail_underflow(pickle, op);
  if (count == 0) return true;
  if (is_new(*container) && !is_unshared(pickle, *container)) return fail_shared(pickle);
  unsigned kind = plim_value_kind(*container);
  if (kind == PLIM_VALUE_EMPTY_LIST || kind == PLIM_VALUE_EMPTY_DICT) return fail_shared(pickle);
  if (kind < PLIM_VALUE_LIST) return fail_underflow(pickle, op);
  bool is_list = shape == pickle->list;
  if (kind == (is_list ? PLIM_VALUE_DICT : PLIM_VALUE_LIST) ||
      kind == (is_list ? PLIM_VALUE_NEW_DICT : PLIM_VALUE_NEW_LIST))
    return fail_underflow(pickle, op);
  plim_value now = shape(pickle->self, *container, items, count);
  return plim_value_kind(now) != PLIM_VALUE_FAILED &&
         settle(pickle, is_list ? &pickle->open_list : &pickle->open_dict, container, now);
}

#endif
