// Shared by loop_replay.c (records and replays rounds) and loop_replay_ops.c (turns recorded events into operations).
#ifndef PLIM_CORE_LOOP_REPLAY_IMPL_H
#define PLIM_CORE_LOOP_REPLAY_IMPL_H

#include "predict_impl.h"

// The total effect of several events.
typedef struct {
  size_t highest[MAX_DEVICES];                    // the event with the highest allocated memory
  int64_t most[MAX_DEVICES], change[MAX_DEVICES]; // change up to that event, and up to the end
} loop_tally;

// One operation: an event to execute, or several events of a repeating pool, which are only counted.
typedef struct {
  size_t event; // index of its first event
  bool is_counted;
  loop_tally sum;
  // A span begins here: if one free block has room_bytes, everything before operation `behind` is only counted. 0:
  // none.
  size_t behind;
  uint64_t room_bytes;
  loop_tally span;
} loop_op;

typedef struct {
  follower *f;
  const plim_storage *kept;
  uint32_t size;        // allocations per round
  uint32_t base, other; // first number in even and in odd rounds
  uint32_t kept_base;   // first number of the allocations left behind
  plim_alloc_conf conf;
  vec(loop_op) ops;
  int64_t aside[MAX_DEVICES]; // allocated by counted events since the replay began
} loop_replay;

static inline const loop_event *loop_event_at(const loop_replay *x, size_t i) {
  return &x->f->loop_replay.events.at[i];
}

// Turns the recorded events into x->ops, which the caller frees. Returns false when out of memory.
bool loop_make_ops(loop_replay *x);

#endif
