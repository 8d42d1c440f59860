// The state of memory at one moment of a replay: who held it, and how much was stranded.
#ifndef PLIM_CORE_INSPECT_H
#define PLIM_CORE_INSPECT_H

#include "replay.h"
#include "trace_analysis.h"

// A segment that is partly in use and partly free.
typedef struct {
  uint64_t addr, bytes, free_bytes, largest_free_bytes;
  uint32_t stream, pool;
  bool is_large, is_expandable;
} plim_stranded;

typedef struct {
  plim_usage usage;
  uint64_t stranded_bytes; // free pieces of segments in use: cannot be returned to the driver
  uint64_t cached_bytes;   // segments without a block in use: returned to the driver when needed
  uint64_t slack_bytes;    // allocated beyond the request: rounding, unsplit remainders
  uint64_t largest_free_bytes;
  vec(plim_stranded) segments; // most free bytes first
} plim_fragmentation;

typedef struct {
  uint32_t frame; // index into trace.frames; PLIM_NO_LINE: no stack was recorded
  uint32_t kind;  // the plim_kind of most of its bytes
  uint64_t bytes, count;
} plim_held; // what one line or module holds

typedef vec(plim_held) plim_held_list;

typedef struct {
  uint64_t bytes; // allocated bytes at that moment
  uint64_t by_kind[PLIM_KIND_COUNT];
  plim_held_list by_line;   // largest first; each list adds up to `bytes`
  plim_held_list by_module; // frame: any frame of that module's file
} plim_holders;

typedef struct {
  size_t event;
  plim_fragmentation fragmentation;
  plim_holders holders;
} plim_moment;

// Replays the trace again and inspects the given events, in any order: moments[i] is for events[i]. If `guided` is
// NULL, this is a guided replay of the recording; otherwise it is the what-if replay after that guided replay, under
// `options`. Free each moment with plim_moment_clear. Returns false when out of memory.
bool plim_inspect(const plim_trace *trace, const plim_trace_analysis *analysis,
                  const plim_guided *guided, const plim_replay_options *options,
                  const size_t *events, size_t count, plim_moment *moments);
void plim_moment_clear(plim_moment *moment);

#endif
