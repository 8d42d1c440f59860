// Replays a trace through the allocator.
//
// A guided replay follows the recording under its own settings: it infers what the recording does not contain
// (empty_cache calls, retries, the memory limit) and checks every decision of the simulator against what PyTorch did. A
// what-if replay runs the same requests under other settings.
#ifndef PLIM_CORE_REPLAY_H
#define PLIM_CORE_REPLAY_H

#include "allocator.h"
#include "trace.h"

typedef struct {
  plim_alloc_conf conf;
  plim_block_order order;
  uint64_t limit_bytes; // PLIM_UNKNOWN: none, or (guided) to be inferred
  bool limit_is_card;   // the limit is the card's memory, not a fraction set for the process
} plim_replay_options;

// A fact about the program that the events do not show.
typedef enum {
  PLIM_MARK_EMPTY_CACHE,     // torch.cuda.empty_cache() was called right before this event
  PLIM_MARK_COMPLETES_INSIDE // this free_completed happened inside the next malloc, which
                             // waited for all streams
} plim_mark_kind;

typedef struct {
  uint32_t event;
  plim_mark_kind kind;
} plim_mark;

typedef struct {
  uint64_t peak_allocated_bytes, peak_reserved_bytes;
  uint64_t segment_allocs, segment_frees;
  uint64_t retries, ooms;
} plim_replay_totals;

// The first decision that differs from the recording.
typedef struct {
  uint32_t event;               // index into trace.events
  const char *what;             // a sentence
  uint64_t recorded, simulated; // bytes or addresses; PLIM_UNKNOWN if there is none
} plim_divergence;

typedef struct {
  bool
      exact; // every segment event, address, OOM and freed size is as recorded, and the final layout
  uint64_t divergences;  // number of decisions that differ
  plim_divergence first; // if divergences > 0
  bool lost;             // from some event on, the recorded state could not be followed
  plim_replay_totals recorded;
  size_t peak_event;             // event with the peak of allocated bytes
  size_t peak_reserved_event;    // event with the peak of reserved bytes
  bool recorded_allocated_known; // false if the state was lost: recorded.peak_allocated_bytes is
                                 // then the sum of rounded requests, a lower bound
  uint64_t end_allocated_bytes, end_reserved_bytes;
  bool suspects_pools;       // the recording got new memory although a cached block would have
                             // served: private pools (CUDA graphs, MemPool) that it does not name
  uint64_t unclear_releases; // releases of everything that may be empty_cache calls or retries,
                             // which cannot be told apart for sure unless a limit is given
  uint64_t limit_low, limit_high; // the limit lies in [low, high]; high is PLIM_UNKNOWN if no
                                  // request failed
  uint64_t card_bytes;            // the card's memory for this process, if an OOM shows that the
                                  // card itself was full; else PLIM_UNKNOWN
  vec(plim_mark) marks;           // by event
} plim_guided;

// Called after each event of the trace has taken effect, with the index of the last such event (events that belong to
// one malloc take effect together), and once with 0 if there are no events. `allocator` shows the state. Returning
// false ends the replay; its result then covers the part that was replayed.
typedef struct {
  bool (*after_event)(void *context, size_t event, const plim_allocator *allocator);
  void *context;
} plim_replay_watch;

// The settings a trace was recorded under. Returns false if the snapshot has unknown or invalid settings, which are
// skipped.
bool plim_replay_recorded_conf(const plim_trace *trace, plim_alloc_conf *conf);

// Returns false when out of memory. Free the result with plim_guided_clear.
bool plim_replay_guided(const plim_trace *trace, const plim_replay_options *options,
                        const plim_replay_watch *watch, plim_guided *result);
void plim_guided_clear(plim_guided *result);

// If *options has no limit, sets it to the largest one that explains every failure of the recording. It stays unknown
// if nothing failed.
void plim_guided_set_limit(const plim_guided *guided, plim_replay_options *options);

// How a what-if replay gets the addresses of new segments.
typedef enum {
  PLIM_ADDRESSES_MODEL,   // by the model in driver.h
  PLIM_ADDRESSES_RECORDED // in the order of the recording, then by the model
} plim_addresses;

typedef struct {
  plim_replay_totals totals;
  plim_usage end;
  uint64_t first_oom_event; // index into trace.events; PLIM_UNKNOWN if none
  size_t peak_event;        // as in plim_guided
  size_t peak_reserved_event;
} plim_what_if;

bool plim_replay_what_if(const plim_trace *trace, const plim_guided *guided,
                         const plim_replay_options *options, plim_addresses addresses,
                         const plim_replay_watch *watch,
                         void (*on_segment)(void *context, const plim_segment_event *event),
                         void *context, plim_what_if *result);

#endif
