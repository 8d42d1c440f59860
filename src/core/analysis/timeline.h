// The course of memory through a trace, reduced to the columns of a picture.
//
// A column represents a run of events. It shows the instant within that run at which the most bytes were allocated, so
// that no peak is lost however narrow the picture is.
//
//   plim_timeline t;
//   if (!plim_timeline_build(&trace, &analysis, &options, NULL, PLIM_TIMELINE_COLUMNS, &t)) ...
//   t.columns.at[t.peak].allocated_bytes;
//   plim_timeline_clear(&t);
#ifndef PLIM_CORE_TIMELINE_H
#define PLIM_CORE_TIMELINE_H

#include "replay.h"
#include "trace_analysis.h"

#define PLIM_TIMELINE_COLUMNS 1200
#define PLIM_TIMELINE_HOLDERS 5
// Enough for the kinds of a recording and the purposes of a prediction.
#define PLIM_TIMELINE_PARTS 12

// What one line of code holds.
typedef struct {
  uint32_t line; // index into trace.frames; PLIM_NO_LINE: no stack
  uint64_t bytes;
} plim_holder;

typedef struct {
  size_t first_event, end_event; // the events it represents
  size_t instant; // number of events done at the highest allocated bytes; 0 = the start

  // At that instant. Sizes are those of blocks, so the parts add up to allocated_bytes.
  uint64_t allocated_bytes, reserved_bytes;
  uint64_t part_bytes[PLIM_TIMELINE_PARTS];   // by plim_kind
  plim_holder holders[PLIM_TIMELINE_HOLDERS]; // largest first; unused ones have 0 bytes
  uint64_t entry; // the last entry of the snapshot that happened; 0 = none yet
  size_t step;    // counted from 1; 0 before the first

  // Over the whole column.
  uint64_t peak_reserved_bytes;
  uint32_t ooms, retries, empty_caches;
} plim_timeline_column;

typedef struct plim_timeline {
  vec(plim_timeline_column) columns; // by event; empty if the trace has no events
  size_t peak;                       // the first column with the highest allocated bytes
  uint64_t peak_reserved_bytes;
  uint64_t first_oom_event; // index into trace.events; PLIM_UNKNOWN if there is none
} plim_timeline;

// Replays the trace twice and fills *out with `columns` columns, or with one per event if there are fewer events. If
// `guided` is NULL, it shows the recording (a guided replay under `options`). Otherwise `guided` is a finished guided
// replay, and the timeline shows the same requests under the settings of `options`, with segments at the addresses of
// the driver model. `analysis` must be that of the trace.
//
// Returns false when out of memory; *out is then empty. Free it with plim_timeline_clear.
bool plim_timeline_build(const plim_trace *trace, const plim_trace_analysis *analysis,
                         const plim_replay_options *options, const plim_guided *guided,
                         size_t columns, plim_timeline *out);
// The same of the events [first, end), which must be in the trace. The peaks are those of this part.
bool plim_timeline_build_part(const plim_trace *trace, const plim_trace_analysis *analysis,
                              const plim_replay_options *options, const plim_guided *guided,
                              size_t first, size_t end, size_t columns, plim_timeline *out);
void plim_timeline_clear(plim_timeline *timeline); // timeline may be NULL

#endif
