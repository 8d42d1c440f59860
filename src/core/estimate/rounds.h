// Detects repeating rounds: if the allocator returns to a state that it had some rounds ago, and the tape has sent the
// same events in each round since, then everything repeats with that period, because only the allocator's state and the
// stream matter. Most rounds then need not be run (core/tape/loop_skip.h).
#ifndef PLIM_CORE_ROUNDS_H
#define PLIM_CORE_ROUNDS_H

#include "allocator.h"
#include "driver.h"
#include "tape.h"

enum { PLIM_LONGEST_PERIOD = 64 };

// What a sink remembers about one kind of round. All zeros is the initial state.
typedef struct {
  uint64_t digest;                      // of the events of this round so far
  uint64_t digest_before;               // of the events of the previous round
  uint64_t states[PLIM_LONGEST_PERIOD]; // at the ends of the last rounds
  uint32_t first, first_before;         // first allocation of this round, and of the previous one
  int alike;                            // rounds in a row with the same events as the round before
  int rounds;                           // rounds seen
  uint64_t level;                       // at the end of the last round
  int level_rounds;                     // rounds in a row with the same level
} plim_rounds;

void plim_rounds_note(plim_rounds *r, plim_stream_kind kind, uint32_t stream, uint32_t id,
                      uint64_t bytes);
// A digest of an allocator and its address model. Allocations of this round and of the previous one are identified
// by their position in the round, so that equal states of two rounds have equal digests.
uint64_t plim_rounds_state(const plim_rounds *r, const plim_allocator *a,
                           const plim_address_model *addresses);
// Separate digests of the small blocks and of the large ones.
void plim_rounds_pools(const plim_rounds *r, const plim_allocator *a, uint64_t digests[2]);
// Ends a round in the given state; `next` is the number of the next allocation. Returns after how many rounds the
// state repeats, or 0 if that is not known. A new batch is allocated while the old one still lives, so the two
// swap places: periods of 1, 2 and 10 were seen.
int plim_rounds_end(plim_rounds *r, uint64_t state, uint32_t next);
// Whether the last `enough` rounds had the same events and left `level` (any number that changes with reserved
// memory and its peak) unchanged, so that the remaining rounds may be assumed to do the same. Blocks that exchange
// places with different periods may take very long to return to one common state. This is an assumption, and
// callers must report it as one.
bool plim_rounds_seem_settled(plim_rounds *r, uint64_t level, int enough);

#endif
