// What predict.c and loop_replay.c share.
#ifndef PLIM_CORE_PREDICT_IMPL_H
#define PLIM_CORE_PREDICT_IMPL_H

#include "cycle.h"
#include "driver.h"
#include "predict.h"

enum { MAX_DEVICES = 2 };

// One card that the tape's stream runs on: its allocator, and what is found out.
typedef struct {
  plim_address_model addresses;
  plim_allocator *allocator;
  plim_prediction *out;
  uint64_t retries; // of rounds that were not run
} predict_device;

// What a pass or a step adds up to.
typedef struct {
  uint64_t events, retries[MAX_DEVICES];
} sums;

// An event of a round that was written down, and what was so behind it.
typedef struct {
  uint64_t bytes, allocated[MAX_DEVICES], live[PLIM_PURPOSES];
  plim_program_point place;
  uint32_t id;
  int round; // of those that were written down, from 0
  plim_stream_kind kind;
} loop_event;

enum { ECHO_LONGEST = 16, ECHO_POOLS = 2 }; // periods; small blocks and large ones

// What is remembered of a loop inside a pass. Zeroed is new.
typedef struct {
  bool is_on, is_void; // is_void: something happened that is not to be done again
  plim_rounds rounds;
  uint64_t pools[ECHO_LONGEST + 1][ECHO_POOLS]; // at the ends of the last rounds
  bool returned[ECHO_POOLS];                    // after a period its blocks are where they were
  int devices;                                  // when writing began
  int period, written;                          // rounds to write down, 0: none yet; and that were
  uint32_t firsts[ECHO_LONGEST];                // allocation of each of them
  uint64_t allocated[MAX_DEVICES];              // before the first
  vec(loop_event) events;
} loop_book;

typedef struct {
  const plim_predict_request *request;
  plim_tape *tape;
  predict_device devices[MAX_DEVICES];
  int count;
  plim_prediction *unlimited; // NULL, or what is wanted of a second lane, which is not open yet
  plim_rounds rounds[PLIM_CYCLES];
  sums ends[PLIM_CYCLES][PLIM_LONGEST_PERIOD]; // at the ends of the last rounds
  sums period[PLIM_CYCLES];                    // what one adds, where there is one
  uint32_t next_id;
  bool watches_rounds, assumes;
  loop_book loop_replay;
  uint64_t events;
  bool failed, trains_nothing;
} follower;

bool predict_collects_garbage(const follower *f);

// loop_replay.c: rounds of a loop inside a pass that are done again without the tape. The sink's hooks, what is noted
// of each event, and the end.
void loop_replay_inner(void *context, bool begin);
int loop_replay_again(void *context, const plim_storage *kept, int most);
void loop_replay_note(follower *f, plim_stream_kind kind, uint32_t id, uint64_t bytes);
void loop_replay_clear(follower *f);

#endif
