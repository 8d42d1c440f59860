// One process of a run, from what it has reported: its pace, its headroom, and where its memory is heading.
//
//   live_rank *r = live_rank_new(folder, run, pid);
//   live_rank_read(r, run);                          // again and again
//   if (plim_trend_is_warning(&r->trend)) ...        // plim_trend_say has the sentence
//   free(r);
#ifndef PLIM_APP_LIVE_RANK_H
#define PLIM_APP_LIVE_RANK_H

#include "live.h"
#include "trend.h"

typedef struct {
  unsigned pid;
  live_reader reader;
  bool is_there;        // for the caller: seen in the last look at the folder
  bool has_sample;      // it has reported at least once
  live_sample last;     // if it has
  bool has_oom;         // it has run out of memory
  live_sample oom;      // when it did so last
  plim_history history; // training steps only
  plim_trend trend;
  uint64_t limit_bytes;       // what the process can get in all; PLIM_UNKNOWN
  uint64_t peak_bytes;        // the highest that was reported; PLIM_UNKNOWN
  uint64_t recent_peak_bytes; // the highest since the caller set this to PLIM_UNKNOWN
  uint64_t headroom_bytes;    // what is left of the limit at that peak; PLIM_UNKNOWN
  // The most that was in use on its card, by all processes, and of how much; PLIM_UNKNOWN
  uint64_t used_bytes, total_bytes;
  double steps_per_second; // over the last steps; -1: unknown
} live_rank;

// NULL if there is no memory, or the path is too long. The caller frees it with free().
live_rank *live_rank_new(const char *folder, const live_run *run, unsigned pid);

// Reads what was appended, and judges it.
void live_rank_read(live_rank *rank, const live_run *run);

// What is left of a card of which so much is in use; each may be PLIM_UNKNOWN.
uint64_t live_room(uint64_t total_bytes, uint64_t used_bytes);

// Whether the training has other ranks than this process.
bool live_rank_has_others(const live_rank *rank);

// Whether `a` runs out of memory before `b`, or else has less headroom.
bool live_rank_is_worse(const live_rank *a, const live_rank *b);

#endif
