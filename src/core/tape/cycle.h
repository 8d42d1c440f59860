// Rounds that repeat: forward passes of one step, and steps. Where the allocator is again in a state that
// it was in some rounds ago, and the tape has asked for the same ever since, all goes on in that circle: the
// allocator's state and the stream decide everything, and the tape counts nothing that is not in the stream.
// So most rounds need not be run.
#ifndef PLIM_CORE_CYCLE_H
#define PLIM_CORE_CYCLE_H

#include "allocator.h"
#include "driver.h"
#include "tape.h"

// ---- for loops --------------------------------------------------------------------------------------

// Told after round `done` of a loop: the round to go on behind, which is `done` itself, or a later one up
// to `last` where those between are known; what they add to clock and sink is added.
int plim_skip_alike(plim_tape *t, plim_cycle cycle, int done, int last);

// A loop inside a pass, whose rounds may each leave a tensor behind:
//
//   plim_inner_loop_begin(t);
//   for (i = 0; i < count; i++) {
//     set(t, &all[i], round(t, i));
//     i += plim_inner_loop_skip(t, all[i], how many behind i are as i, &all[i + 1]);
//   }
//   plim_inner_loop_end(t);
//
// plim_inner_loop_skip says how many rounds were done by it; what they leave is in `more`, which owns it. `kept` is
// NULL where a round leaves nothing; then `more` is not looked at. The last round of a loop is to be run, so
// that variables hold what it left in them.
void plim_inner_loop_begin(plim_tape *t);
int64_t plim_inner_loop_skip(plim_tape *t, const plim_tensor *kept, int64_t most,
                             plim_tensor **more);
void plim_inner_loop_end(plim_tape *t);

// ---- for sinks --------------------------------------------------------------------------------------

enum { PLIM_LONGEST_PERIOD = 64 };

// What a sink remembers of the rounds of one kind. Zeroed is new.
typedef struct {
  uint64_t digest;                      // of the events in this round so far
  uint64_t digest_before;               // of those in the one before
  uint64_t states[PLIM_LONGEST_PERIOD]; // at the ends of the last rounds
  uint32_t first, first_before;         // allocation of this round, and of the one before
  int alike;                            // rounds in a row with the events of the one before
  int rounds;                           // that were looked at
  uint64_t level;                       // as it was at the end of the last
  int level_rounds;                     // in a row
} plim_rounds;

void plim_rounds_note(plim_rounds *r, plim_stream_kind kind, uint32_t stream, uint32_t id,
                      uint64_t bytes);
// A digest of an allocator and the addresses behind it, in which the allocations of this round and of
// the one before are named by their place, so that the same state of two rounds has the same digest.
uint64_t plim_rounds_state(const plim_rounds *r, const plim_allocator *a,
                           const plim_address_model *addresses);
// The same of its small blocks, and of its large ones.
void plim_rounds_pools(const plim_rounds *r, const plim_allocator *a, uint64_t digests[2]);
// Ends a round at such a state, the next allocation being number `next`: after how many rounds the state
// comes back, or 0 if that is not known. A new batch is made while the old one lives, so that places are
// used in turn: periods of 1, 2 and 10 were seen.
int plim_rounds_end(plim_rounds *r, uint64_t state, uint32_t next);
// Whether `enough` rounds had the same events, and left reserved memory and its peak (`level`, any number that
// changes with them) as they were, that the rest are taken to do so too: blocks that change places in circles
// of different lengths need not come back to one state for a long time. That is not known, so it is told.
bool plim_rounds_seem_settled(plim_rounds *r, uint64_t level, int enough);

#endif
