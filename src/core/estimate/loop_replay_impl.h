// What loop_replay.c (rounds written down, and done again) and loop_replay_ops.c (what there is to do) share.
#ifndef PLIM_CORE_LOOP_REPLAY_IMPL_H
#define PLIM_CORE_LOOP_REPLAY_IMPL_H

#include "predict_impl.h"

// What several events add up to.
typedef struct {
  size_t highest[MAX_DEVICES];                    // the event at which most is allocated
  int64_t most[MAX_DEVICES], change[MAX_DEVICES]; // up to there, and up to the end
} loop_tally;

// What is to be done: an event, or several in a pool that came back, which only count.
typedef struct {
  size_t event; // the first
  bool is_counted;
  loop_tally sum;
  // A span begins here: where one free block has so many bytes, all up to the stroke `behind` only counts. 0: none.
  size_t behind;
  uint64_t room_bytes;
  loop_tally span;
} loop_op;

typedef struct {
  follower *f;
  const plim_storage *kept;
  uint32_t size;        // allocations of a round
  uint32_t base, other; // the first of every second round, and of those between
  uint32_t kept_base;   // what is left is numbered from here on
  plim_alloc_conf conf;
  vec(loop_op) ops;
  int64_t aside[MAX_DEVICES]; // allocated by what only counts, more than when it began
} loop_replay;

static inline const loop_event *loop_event_at(const loop_replay *x, size_t i) {
  return &x->f->loop_replay.events.at[i];
}

// What is to be done of the events that are written down; false when memory is out. The caller frees x->strokes.
bool loop_make_ops(loop_replay *x);

#endif
