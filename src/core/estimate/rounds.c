#include "rounds.h"

#include "hash.h"

// ---- digests ----------------------------------------------------------------------------------------

static uint64_t digest_of(const uint64_t *words, size_t count) {
  uint64_t digest = count;
  for (size_t i = 0; i < count; i++)
    digest = plim_hash_mix(digest ^ words[i]) + 0x9e3779b97f4a7c15u;
  return digest;
}

#define DIGEST(...)                                                                                \
  digest_of((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

#define RELATIVE (1ull << 40) // larger than any allocation number

static uint64_t name_of(const plim_rounds *r, uint32_t id) {
  return id >= r->first_before ? RELATIVE + id - r->first : id;
}

void plim_rounds_note(plim_rounds *r, plim_stream_kind kind, uint32_t stream, uint32_t id,
                      uint64_t bytes) {
  r->digest = DIGEST(r->digest, kind, stream, name_of(r, id), bytes);
}

typedef struct {
  const plim_rounds *rounds;
  // Of small blocks and of large ones. Digests are added, so that the order of visits does not matter.
  uint64_t digests[2];
} survey;

static void add_block(void *context, const plim_block_view *b) {
  uint64_t kind = b->is_free + 2u * b->is_pending + 4u * b->is_large + 8u * b->starts_segment;
  ((survey *)context)->digests[b->is_large] += DIGEST(b->addr, b->bytes, b->stream, b->pool, kind);
}

static void add_slot(void *context, uint32_t slot, uint64_t addr, bool is_large) {
  survey *s = context;
  s->digests[is_large] += DIGEST(name_of(s->rounds, slot), addr);
}

void plim_rounds_pools(const plim_rounds *r, const plim_allocator *a, uint64_t digests[2]) {
  survey s = {r, {0}};
  plim_allocator_visit(a, add_block, &s);
  plim_allocator_visit_slots(a, add_slot, &s);
  digests[0] = s.digests[0];
  digests[1] = s.digests[1];
}

// How many ranges are older: the newest that has room is filled first.
static uint64_t older_ranges(const plim_address_model *addresses, uint64_t number) {
  uint64_t count = 0;
  for (size_t i = 0; i < addresses->ranges.len; i++)
    count += addresses->ranges.at[i].number < number;
  return count;
}

uint64_t plim_rounds_state(const plim_rounds *r, const plim_allocator *a,
                           const plim_address_model *addresses) {
  uint64_t pools[2];
  plim_rounds_pools(r, a, pools);
  uint64_t state = pools[0] + pools[1];
  for (size_t i = 0; i < addresses->ranges.len; i++) {
    const plim_address_range *range = &addresses->ranges.at[i];
    state += DIGEST(range->start, range->bytes, range->used_bytes,
                    older_ranges(addresses, range->number));
  }
  for (size_t i = 0; i < addresses->holes.len; i++)
    state += DIGEST(addresses->holes.at[i].addr, addresses->holes.at[i].bytes, 0, 0);
  return state;
}

// The events must have been the same for one round more than the period, so that the allocations they refer to
// were the same, too.
static int period_of(const plim_rounds *r, uint64_t state) {
  for (int p = 1; p <= PLIM_LONGEST_PERIOD && p <= r->rounds && p < r->alike; p++)
    if (r->states[(r->rounds - p) % PLIM_LONGEST_PERIOD] == state) return p;
  return 0;
}

int plim_rounds_end(plim_rounds *r, uint64_t state, uint32_t next) {
  bool is_alike = r->rounds && r->digest == r->digest_before;
  r->alike = is_alike ? r->alike + 1 : 0;
  int period = period_of(r, state);
  r->states[r->rounds++ % PLIM_LONGEST_PERIOD] = state;
  r->digest_before = r->digest;
  r->digest = 0;
  r->first_before = r->first;
  r->first = next;
  return period;
}

bool plim_rounds_seem_settled(plim_rounds *r, uint64_t level, int enough) {
  r->level_rounds = level == r->level ? r->level_rounds + 1 : 0;
  r->level = level;
  return r->alike >= enough && r->level_rounds >= enough;
}
