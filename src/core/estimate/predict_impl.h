// Shared by predict.c and loop_replay.c.
#ifndef PLIM_CORE_PREDICT_IMPL_H
#define PLIM_CORE_PREDICT_IMPL_H

#include "own_memory.h"
#include "predict.h"
#include "rounds.h"

enum { MAX_DEVICES = 2 };

// One card that receives the tape's stream: its allocator and its prediction.
typedef struct {
  plim_address_model addresses;
  plim_own_memory driver; // what the driver keeps of the addresses
  plim_allocator *allocator;
  plim_prediction *out;
  uint64_t retries; // of rounds that were skipped
} predict_device;

// Totals, or what a pass or step adds to them.
typedef struct {
  uint64_t events, retries[MAX_DEVICES];
} sums;

// A recorded event of a round, and the state after it.
typedef struct {
  uint64_t bytes, allocated[MAX_DEVICES], live[PLIM_PURPOSES];
  plim_program_point place;
  uint32_t id;
  int round; // recorded round, from 0
  plim_stream_kind kind;
} loop_event;

enum { LOOP_LONGEST_PERIOD = 16, LOOP_POOLS = 2 }; // longest period; small and large blocks

// The state of a loop inside a pass. All zeros is the initial state.
typedef struct {
  bool is_on, is_void; // is_void: something was recorded that cannot be replayed
  plim_rounds rounds;
  uint64_t pools[LOOP_LONGEST_PERIOD + 1][LOOP_POOLS]; // digests at the ends of the last rounds
  bool returned[LOOP_POOLS];            // after one period the pool's blocks are in the same places
  int devices;                          // when recording began
  int period, recorded;                 // rounds to record (0: not recording), and recorded so far
  uint32_t firsts[LOOP_LONGEST_PERIOD]; // first allocation of each recorded round
  uint64_t allocated[MAX_DEVICES];      // before the first recorded round
  vec(loop_event) events;
} loop_book;

typedef struct {
  const plim_predict_request *request;
  plim_tape *tape;
  predict_device devices[MAX_DEVICES];
  int count;
  // Not NULL: a second device without the limit is wanted but not open yet.
  plim_prediction *unlimited;
  plim_rounds rounds[PLIM_CYCLES];
  sums ends[PLIM_CYCLES][PLIM_LONGEST_PERIOD]; // at the ends of the last rounds
  sums period[PLIM_CYCLES];                    // what one period adds
  uint32_t next_id;
  bool watches_rounds, assumes;
  loop_book loop_replay;
  uint64_t events;
  bool failed, trains_nothing;
  bool folds, fold_failed; // core/tape/fold.h
} follower;

bool predict_collects_garbage(const follower *f);

// loop_replay.c: replays rounds of a loop inside a pass without the tape. The two hooks of the sink, the note of each
// event, and the cleanup.
void loop_replay_inner(void *context, bool begin);
int loop_replay_again(void *context, const plim_storage *kept, int most);
void loop_replay_note(follower *f, plim_stream_kind kind, uint32_t id, uint64_t bytes);
void loop_replay_clear(follower *f);

#endif
