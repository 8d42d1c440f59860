// Where the memory of a training run is heading: whether it grows, how fast, and at which step it is full.
//
//   plim_history history = {0};
//   plim_history_add(&history, &(plim_step_memory){.step = 12, .live_bytes = ..., .peak_bytes = ..., ...});
//   plim_trend trend = plim_history_trend(&history, limit_bytes, planned_steps);
//   char text[PLIM_TREND_TEXT];
//   plim_trend_say(&trend, text, sizeof text);   // "memory grows by 12.0 MiB per step; full at about step 4,310"
//
// Only training steps are to be added: memory during loading, evaluation and saving is different and means nothing for
// the steps. A history has a fixed size and owns nothing.
#ifndef PLIM_CORE_TREND_H
#define PLIM_CORE_TREND_H

#include "plimsoll.h"

#define PLIM_TREND_TEXT 320
#define PLIM_LOW_USE                                                                               \
  0.5 // use below this share is a warning sign (the GPU memory guide of seed 003)

// Memory in one step. Values that are not known are PLIM_UNKNOWN.
typedef struct {
  uint64_t step;           // PLIM_UNKNOWN: steps are not counted, and `seconds` orders the samples
  double seconds;          // by any clock
  uint64_t live_bytes;     // allocated at the end of the step
  uint64_t peak_bytes;     // the most that was allocated during the step
  uint64_t reserved_bytes; // held by the allocator, in use or cached
  uint64_t outside_bytes;  // in use on the GPU, and not held by this allocator
} plim_step_memory;

enum { PLIM_RECENT = 128, PLIM_OLDER = 512 };

// The last steps one by one, and the whole run with fewer and fewer of its steps. It starts as {0}.
typedef struct {
  plim_step_memory recent[PLIM_RECENT], older[PLIM_OLDER];
  size_t recent_count, older_count;
  uint64_t seen;   // samples since the start of the run or its last restart
  uint64_t stride; // `older` has every stride-th of them
} plim_history;

// A sample whose step is lower than the one before (a restart, a counter that begins again), or whose clock runs
// backwards, starts a new history. Samples of the same step are one. The first steps are left out: they allocate
// optimizer state and workspaces.
void plim_history_add(plim_history *history, const plim_step_memory *sample);

typedef enum {
  PLIM_TREND_UNCLEAR,     // too few steps, or no pattern
  PLIM_TREND_STEADY,      // no growth
  PLIM_TREND_SWINGING,    // the peaks differ much from step to step
  PLIM_TREND_STAIRCASE,   // rises now and then and never falls: a longer sample than all before
  PLIM_TREND_LENGTHENING, // the peaks grow, but what stays allocated between steps does not
  PLIM_TREND_CREEPING,    // what stays allocated grows: a leak
  PLIM_TREND_OUTSIDE,     // what the allocator does not hold grows: a library, or another process
  PLIM_TREND_KINDS
} plim_trend_kind;

extern const char *const plim_trend_names[PLIM_TREND_KINDS]; // "creeping", for JSON

typedef struct {
  plim_trend_kind kind;
  bool
      is_by_time; // steps are not counted: "per step" below is per second, and steps are seconds from now

  // Growth of any kind; 0 otherwise. The range holds the true rate in about nine of ten cases.
  double bytes_per_step, low_bytes_per_step, high_bytes_per_step;
  // When the limit is reached; PLIM_UNKNOWN: never, or the limit is not known, or there is no bound.
  uint64_t full_step, earliest_full_step, latest_full_step;
  bool is_full_before_end; // the forecast is within the planned steps, or those are not known

  // A staircase; 0 otherwise.
  uint64_t rises, risen_bytes, largest_rise_bytes, last_rise_step;

  uint64_t low_peak_bytes, high_peak_bytes; // 5th and 95th percentile; PLIM_UNKNOWN: too few steps
  uint64_t highest_bytes;                   // the highest peak of the history; PLIM_UNKNOWN: none
  uint64_t limit_bytes, planned_steps;      // as given
} plim_trend;

// `limit_bytes` is what this process can get in all; `planned_steps` the last step. Both may be PLIM_UNKNOWN.
plim_trend plim_history_trend(const plim_history *history, uint64_t limit_bytes,
                              uint64_t planned_steps);

// What is left of the limit at the highest peak; PLIM_UNKNOWN if either is not known.
uint64_t plim_trend_headroom(const plim_trend *trend);

// Whether memory will run out before the end of the run, or may: another rise like the largest, or a swing like the
// usual one, would not fit.
bool plim_trend_is_warning(const plim_trend *trend);

// Whether a settled run uses less than half of its limit.
bool plim_trend_is_low(const plim_trend *trend);

// Whether memory grows: creeping, lengthening or outside.
bool plim_trend_is_growth(const plim_trend *trend);

// One sentence without a full stop.
void plim_trend_say(const plim_trend *trend, char *text, size_t size);

// Whether the median of shares between 0 and 1 is low; false for fewer than 30 values. Negative values are unknown.
bool plim_shares_are_low(const double *shares, size_t count, double *median);

#endif
