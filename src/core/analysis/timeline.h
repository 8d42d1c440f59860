// How memory moved through a trace, downsampled to a picture's columns.
//
// A column stands for a run of events. It shows the instant within that run at which most bytes
// were allocated, so that no peak is lost however narrow the picture is.
//
//   plim_timeline t;
//   if (!plim_timeline_build(&trace, &story, &options, NULL, PLIM_TIMELINE_COLUMNS, &t)) ...
//   t.columns.at[t.peak].allocated_bytes;
//   plim_timeline_clear(&t);
#ifndef PLIM_CORE_TIMELINE_H
#define PLIM_CORE_TIMELINE_H

#include "replay.h"
#include "trace_analysis.h"

#define PLIM_TIMELINE_COLUMNS 1200
#define PLIM_TIMELINE_HOLDERS 5
#define PLIM_TIMELINE_PARTS 12 // room for the kinds of a recording, the purposes of a forecast

// What one line of code holds.
typedef struct {
  uint32_t line; // index into trace.frames; PLIM_NO_LINE for what has no stack
  uint64_t bytes;
} plim_holder;

typedef struct {
  size_t first_event, end_event; // the events it stands for
  size_t instant; // events that had taken effect at the highest allocated bytes; 0 = the start

  // At that instant. Sizes are those of blocks, so the parts add up to allocated_bytes.
  uint64_t allocated_bytes, reserved_bytes;
  uint64_t part_bytes[PLIM_TIMELINE_PARTS];   // by plim_kind
  plim_holder holders[PLIM_TIMELINE_HOLDERS]; // largest first; those of 0 bytes are unused
  uint64_t entry;                             // of the snapshot, that happened last; 0 = none yet
  size_t step;                                // counted from 1; 0 before the first

  // Of the whole column.
  uint64_t peak_reserved_bytes;
  uint32_t ooms, retries, empty_caches;
} plim_timeline_column;

typedef struct plim_timeline {
  vec(plim_timeline_column) columns; // by event; empty if the trace has no events
  size_t peak; // the column of the highest allocated bytes, the first of equals
  uint64_t peak_reserved_bytes;
  uint64_t first_oom_event; // index into trace.events; PLIM_UNKNOWN if none
} plim_timeline;

// Replays the trace twice and fills *out, with `columns` columns or one per event if those are
// fewer. `guided` chooses the simulation: NULL shows the recording (a guided replay under
// `options`), otherwise it is the finished guided replay, and what is shown is the same program
// under the settings of `options`, with segments where the driver model puts them.
// The story must be that of the trace.
//
// False when memory is out; *out is then empty. Free it with plim_timeline_clear.
bool plim_timeline_build(const plim_trace *trace, const plim_trace_analysis *analysis,
                         const plim_replay_options *options, const plim_guided *guided,
                         size_t columns, plim_timeline *out);
void plim_timeline_clear(plim_timeline *timeline); // NULL is fine

#endif
