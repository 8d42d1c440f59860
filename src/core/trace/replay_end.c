// Whether the state that a replay ends in is the one that the snapshot shows at its end.
#include "replay_impl.h"

#include "sort.h"

typedef struct {
  uint64_t addr, bytes;
  plim_block_state state;
} block;

typedef struct {
  vec(block) blocks;
  bool no_memory;
} list;

static void take(void *context, const plim_block_view *b) {
  list *l = context;
  plim_block_state state = b->is_free      ? PLIM_BLOCK_INACTIVE
                           : b->is_pending ? PLIM_BLOCK_PENDING_FREE
                                           : PLIM_BLOCK_ALLOCATED;
  if (!vec_push(&l->blocks, (block){b->addr, b->bytes, state})) l->no_memory = true;
}

static int by_address(const void *x, const void *y) {
  const block *a = x, *b = y;
  return (a->addr > b->addr) - (a->addr < b->addr);
}

static bool is_same(const block *b, const plim_layout_block *recorded) {
  return b->addr == recorded->addr && b->bytes == recorded->bytes && b->state == recorded->state;
}

// The layout's segments and blocks are by address.
static bool matches(const plim_trace *t, const list *l) {
  size_t at = 0;
  for (size_t s = 0; s < t->layout.len; s++)
    for (uint32_t i = 0; i < t->layout.at[s].block_count; i++, at++) {
      const plim_layout_block *recorded = &t->layout_blocks.at[t->layout.at[s].first_block + i];
      if (at >= l->blocks.len || !is_same(&l->blocks.at[at], recorded)) return false;
    }
  return at == l->blocks.len;
}

bool replay_ends_as_recorded(const plim_trace *t, const plim_allocator *a, bool *no_memory) {
  list l = {0};
  if (!t->has_layout || !t->layout.len) return true;
  plim_allocator_visit(a, take, &l);
  if (l.blocks.len) plim_sort(l.blocks.at, l.blocks.len, sizeof *l.blocks.at, by_address);
  bool is = l.no_memory || matches(t, &l);
  *no_memory |= l.no_memory;
  vec_free(&l.blocks);
  return is;
}
