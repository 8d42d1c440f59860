// The pieces of memory that the program holds, by address or handle. Its memory comes from the system directly: the program's
// heap may be in any state when the driver is called.
#include <string.h>
#include <sys/mman.h>

#include "hook_state.h"

static hook_piece *pieces; // a power of two; open addressing
static size_t room, used;

static size_t place_of(hook_space space, uint64_t key) {
  uint64_t hash = (key ^ (uint64_t)space << 56) * 0x9e3779b97f4a7c15u;
  return (size_t)(hash >> 32) & (room - 1);
}

static bool is(const hook_piece *piece, hook_space space, uint64_t key) {
  return piece->space == space && piece->key == key;
}

// The slot of a key, or the free one where it belongs.
static hook_piece *slot_of(hook_space space, uint64_t key) {
  size_t at = place_of(space, key);
  while (pieces[at].space != HOOK_SPACE_NONE && !is(&pieces[at], space, key))
    at = (at + 1) & (room - 1);
  return &pieces[at];
}

static bool grow(void) {
  hook_piece *old = pieces;
  size_t old_room = room, new_room = room ? room * 2 : 1024;
  void *new = mmap(NULL, new_room * sizeof *pieces, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (new == MAP_FAILED) return false;
  pieces = new;
  room = new_room;
  for (size_t i = 0; i < old_room; i++)
    if (old[i].space != HOOK_SPACE_NONE) *slot_of(old[i].space, old[i].key) = old[i];
  if (old) munmap(old, old_room * sizeof *old);
  return true;
}

bool hook_table_put(const hook_piece *piece) {
  if (used * 2 >= room && !grow()) return false;
  hook_piece *slot = slot_of(piece->space, piece->key);
  if (slot->space == HOOK_SPACE_NONE) used++;
  *slot = *piece;
  return true;
}

hook_piece *hook_table_find(hook_space space, uint64_t key) {
  hook_piece *slot = room ? slot_of(space, key) : NULL;
  return slot && slot->space != HOOK_SPACE_NONE ? slot : NULL;
}

// Moves later pieces up to where a search for them would stop now.
static void remove_at(size_t hole) {
  pieces[hole].space = HOOK_SPACE_NONE;
  used--;
  for (size_t at = (hole + 1) & (room - 1); pieces[at].space != HOOK_SPACE_NONE;
       at = (at + 1) & (room - 1)) {
    hook_piece moved = pieces[at];
    pieces[at].space = HOOK_SPACE_NONE;
    *slot_of(moved.space, moved.key) = moved;
  }
}

bool hook_table_take(hook_space space, uint64_t key, hook_piece *out) {
  hook_piece *found = hook_table_find(space, key);
  if (!found) return false;
  *out = *found;
  remove_at((size_t)(found - pieces));
  return true;
}

const hook_piece *hook_table_containing(uint64_t address) {
  for (size_t i = 0; i < room; i++) {
    const hook_piece *p = &pieces[i];
    bool has_address = p->space == HOOK_SPACE_ADDRESS || p->space == HOOK_SPACE_MAPPING;
    if (has_address && address >= p->key && address - p->key < p->bytes) return p;
  }
  return NULL;
}

void hook_table_sweep(bool (*is_gone)(const hook_piece *piece, void *context), void *context) {
  for (size_t i = 0; i < room;) {
    hook_piece piece = pieces[i];
    if (piece.space != HOOK_SPACE_NONE && is_gone(&piece, context)) remove_at(i);
    else i++;
  }
}

void hook_table_clear(void) {
  if (pieces) munmap(pieces, room * sizeof *pieces);
  pieces = NULL;
  room = used = 0;
}
