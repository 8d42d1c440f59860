// Finds the place for a new entry of a call or a dict, and the style of its neighbours.
#include <string.h>

#include "python_reader.h"

static bool is_spaced(const plim_py_reader *r, size_t left, size_t right) {
  return plim_py_at(r, left)->end < plim_py_at(r, right)->begin;
}

// The token of the = or : of an entry; `stop` if it has none.
static size_t sign_of(const plim_py_reader *r, size_t i, size_t stop, bool is_call) {
  if (!is_call) return plim_py_find(r, i, stop, ':');
  return plim_py_is_name(r, i, stop) && plim_py_is(r, i + 1, stop, '=') ? i + 1 : stop;
}

static bool is_part(plim_py_reader *r, size_t i, size_t sign, bool is_call) {
  if (is_call) return plim_py_is_text(r, i, r->part);
  r->scratch.len = 0;
  return plim_py_entry_key(r, i, sign, &r->scratch) && strlen(r->part) == r->scratch.len &&
         memcmp(r->part, r->scratch.at, r->scratch.len) == 0;
}

static void note_item(plim_py_reader *r, size_t i, size_t stop) {
  plim_py_place *place = &r->place;
  size_t sign = sign_of(r, i, stop, place->is_call);
  place->items++;
  place->last_begin = plim_py_at(r, i)->begin;
  place->last_end = plim_py_at(r, stop - 1)->end;
  place->unpacks_mapping |= plim_py_is(r, i, stop, PLIM_PY_POWER);
  place->is_generator |= place->is_call && plim_py_has_word(r, i, stop, PY_for);
  place->has_text_keys |= plim_py_at(r, i)->kind == PLIM_PY_STRING;
  for (size_t k = i; !place->quote && k < stop; k++)
    if (plim_py_at(r, k)->kind == PLIM_PY_STRING)
      place->quote = r->x.text[plim_py_at(r, k)->end - 1];
  if (sign == stop || sign + 1 == stop) return;
  place->has_part |= is_part(r, i, sign, place->is_call);
  place->spaced_before = is_spaced(r, sign - 1, sign);
  place->spaced_behind = is_spaced(r, sign, sign + 1);
}

void plim_py_note_place(plim_py_reader *r, size_t open, bool is_call) {
  size_t size = r->path.len - r->path_base;
  bool is_wanted = r->wanted && strlen(r->wanted) == size &&
                   memcmp(r->wanted, r->path.at + r->path_base, size) == 0;
  if (!is_wanted) return;
  size_t close = plim_py_at(r, open)->match;
  r->place = (plim_py_place){.is_found = true,
                             .is_call = is_call,
                             .is_uncertain = r->is_uncertain,
                             .open_end = plim_py_at(r, open)->end,
                             .spaced_behind = !is_call};
  for (size_t i = open + 1, stop; i < close; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    if (stop > i) note_item(r, i, stop);
    r->place.comma_end = stop < close ? plim_py_at(r, stop)->end : 0;
  }
}
