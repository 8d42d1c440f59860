// Creates the values of a pickle that do not fit into 8 bytes, and its containers.
#include <stdlib.h>
#include <string.h>

#include "pickle_impl.h"

// ---- values ---------------------------------------------------------------------------------------

plim_value add_wide(plim_pickle *pickle, unsigned kind, uint64_t bits) {
  if (!vec_push(&pickle->wide, bits)) {
    fail_memory(pickle);
    return plim_value_make(PLIM_VALUE_FAILED, 0);
  }
  return plim_value_make(kind, pickle->wide.len - 1);
}

plim_value add_real(plim_pickle *pickle, const uint8_t *bytes) {
  uint64_t bits = 0;
  for (int i = 0; i < 8; i++) bits = bits << 8 | bytes[i];
  return add_wide(pickle, PLIM_VALUE_FLOAT, bits);
}

// Far longer than names, paths and settings of snapshots.
#define LONGEST_TEXT (64 * PLIM_MIB)

plim_value add_long_text(plim_pickle *pickle, uint64_t length) {
  plim_input *input = pickle->input;
  if (length > LONGEST_TEXT)
    return plim_pickle_fail(
        pickle, PLIM_ERR_UNSUPPORTED,
        "the pickle has a string of %llu bytes; no string of a snapshot exceeds 64 MiB",
        (unsigned long long)length);
  pickle->long_text.len = 0;
  while (length > 0) {
    size_t here = (size_t)(input->end - input->at);
    size_t take = length < here ? (size_t)length : here;
    if (!vec_reserve(&pickle->long_text, take + 8)) {
      fail_memory(pickle);
      return plim_value_make(PLIM_VALUE_FAILED, 0);
    }
    memcpy(pickle->long_text.at + pickle->long_text.len, input->at, take);
    pickle->long_text.len += take;
    input->at += take;
    length -= take;
    if (length == 0) break;
    if (input->at_end) {
      fail_truncated(pickle, "inside a string");
      return plim_value_make(PLIM_VALUE_FAILED, 0);
    }
    if ((pickle->failed = plim_input_fill(input, pickle->error)))
      return plim_value_make(PLIM_VALUE_FAILED, 0);
  }
  memset(pickle->long_text.at + pickle->long_text.len, 0, 8);
  return add_text(pickle, pickle->long_text.at, pickle->long_text.len);
}

// ---- containers -----------------------------------------------------------------------------------

uint32_t add_container(plim_pickle *pickle, size_t room) {
  size_t first = pickle->items.len;
  if (room > UINT32_MAX || first + room > UINT32_MAX || pickle->containers.len >= PLIM_NO_ID ||
      !vec_reserve(&pickle->items, room) ||
      !vec_push(&pickle->containers,
                (plim_container){pickle->op, (uint32_t)first, 0, (uint32_t)room})) {
    fail_memory(pickle);
    return PLIM_NO_ID;
  }
  pickle->items.len += room;
  return (uint32_t)pickle->containers.len - 1;
}

// Makes room for `more` items: in place if the container lies at the end, elsewhere otherwise.
static bool make_room(plim_pickle *pickle, plim_container *container, size_t more) {
  size_t need = (size_t)container->count + more;
  if (need <= container->room) return true;
  bool is_last = (size_t)container->first + container->room == pickle->items.len;
  size_t room = is_last || need > 2 * (size_t)container->room ? need : 2 * (size_t)container->room;
  size_t extra = is_last ? room - container->room : room;
  if (pickle->items.len + extra > UINT32_MAX || !vec_reserve(&pickle->items, extra))
    return fail_memory(pickle);
  plim_value *items = pickle->items.at;
  if (!is_last) {
    memcpy(items + pickle->items.len, items + container->first, container->count * sizeof *items);
    container->first = (uint32_t)pickle->items.len;
  }
  pickle->items.len += extra;
  container->room = (uint32_t)room;
  return true;
}

plim_value plim_pickle_extend(plim_pickle *pickle, plim_value now, const plim_value *items,
                              size_t count) {
  unsigned kind = plim_value_kind(now);
  bool is_new = kind == PLIM_VALUE_NEW_LIST || kind == PLIM_VALUE_NEW_DICT;
  if (is_new) {
    uint32_t id = add_container(pickle, count);
    if (id == PLIM_NO_ID) return plim_value_make(PLIM_VALUE_FAILED, 0);
    now = plim_value_make(kind == PLIM_VALUE_NEW_LIST ? PLIM_VALUE_LIST : PLIM_VALUE_DICT, id);
  }
  plim_container *container = &pickle->containers.at[plim_value_payload(now)];
  if (!make_room(pickle, container, count)) return plim_value_make(PLIM_VALUE_FAILED, 0);
  memcpy(pickle->items.at + container->first + container->count, items, count * sizeof *items);
  container->count += (uint32_t)count;
  return now;
}

const plim_value *plim_pickle_items(const plim_pickle *pickle, plim_value value, size_t *count) {
  const plim_container *container = plim_pickle_container(pickle, value);
  *count = container ? container->count : 0;
  return container ? pickle->items.at + container->first : NULL;
}

bool plim_pickle_get(const plim_pickle *pickle, plim_value dict, uint32_t key, plim_value *value) {
  if (plim_value_kind(dict) != PLIM_VALUE_DICT) return false;
  size_t count;
  const plim_value *items = plim_pickle_items(pickle, dict, &count);
  plim_value wanted = plim_value_make(PLIM_VALUE_STRING, key);
  for (size_t i = count; i >= 2; i -= 2) {
    if (items[i - 2] != wanted) continue;
    *value = items[i - 1];
    return true;
  }
  return false;
}

// ---- freeing --------------------------------------------------------------------------------------

void plim_pickle_trim(plim_pickle *pickle) {
  free(pickle->stack);
  pickle->stack = NULL;
  pickle->stack_cap = 0;
  vec_free(&pickle->marks);
  vec_free(&pickle->memo);
  vec_free(&pickle->far);
  vec_free(&pickle->long_text);
}

void plim_pickle_clear(plim_pickle *pickle) {
  plim_pickle_trim(pickle);
  plim_strings_clear(&pickle->strings);
  vec_free(&pickle->wide);
  vec_free(&pickle->containers);
  vec_free(&pickle->items);
}
