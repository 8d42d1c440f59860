// Tries allocator settings on a recorded program.
#ifndef PLIM_CORE_TUNE_H
#define PLIM_CORE_TUNE_H

#include "replay.h"

// One setting to try: a value of PYTORCH_ALLOC_CONF.
typedef struct {
  const char *conf;
  bool needs_limit; // garbage collection has no effect unless the process has a limit
} plim_tune_setting;

// The settings that people use, and combinations of them.
extern const plim_tune_setting plim_tune_settings[];
extern const size_t plim_tune_setting_count;

typedef struct {
  const char *conf;
  bool is_recorded; // the recording's own settings: measured, not simulated
  bool failed;      // host memory ran out
  plim_replay_totals totals;
  uint64_t first_oom_event; // PLIM_UNKNOWN if there is none
} plim_tune_row;

// Replays the program under `conf` with the limit and order of *base. Safe to call from several
// threads at once on the same trace.
plim_tune_row plim_tune_try(const plim_trace *trace, const plim_guided *guided,
                            const plim_replay_options *base, const char *conf);

// For qsort, best first: fewest OOMs, least reserved memory, fewest retries, fewest cudaMalloc calls.
int plim_tune_order(const void *a, const void *b);

#endif
