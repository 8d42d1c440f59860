// What `plimsoll replay` finds out, and its JSON.
#ifndef PLIM_APP_REPLAY_RESULT_H
#define PLIM_APP_REPLAY_RESULT_H

#include "inspect.h"
#include "json_writer.h"
#include "notes.h"
#include "replay.h"
#include "snapshot.h"
#include "trace_analysis.h"
#include "tune.h"

enum { REPLAY_MAX_OOMS = 64 }; // only the first ones are analysed in detail

// A failed request, and what memory looked like.
typedef struct {
  size_t event;
  uint64_t request_bytes;
  // Free if all blocks in use lay side by side. An inferred limit is known only to lie between two
  // values, and so are these; both are PLIM_UNKNOWN without a limit.
  uint64_t compacted_low_bytes, compacted_high_bytes;
  plim_moment moment;
} replay_oom;

typedef struct {
  const char *path;
  plim_snapshot_info info;
  plim_trace trace;
  plim_trace_analysis analysis;

  plim_replay_options recorded_options; // settings, order and limit of the recording
  plim_guided guided;
  bool limit_is_guessed; // the limit was inferred from the recording's failures

  plim_replay_options options; // what was simulated
  bool is_what_if;             // other settings or another limit than recorded
  plim_replay_totals simulated;
  uint64_t first_oom_event; // of the simulation; PLIM_UNKNOWN if none

  // Of the simulation if it differs from the recording, otherwise of the recording.
  plim_moment peak;                 // at the peak of allocated bytes
  plim_moment peak_reserved;        // at the peak of reserved bytes
  replay_oom ooms[REPLAY_MAX_OOMS]; // of a simulation only the first: the program ends there
  size_t oom_count;

  plim_leaks leaks;
  plim_duplicates duplicates;

  vec(plim_tune_row) tune;  // best first; empty without --tune
  char *recorded_conf_text; // owned; the settings of the recorded row
  plim_notes notes;         // what the snapshot does not record, what was assumed
  uint64_t top;             // how many holders the text lists
  bool is_of_run;           // of `simulate` or `profile`: --steps gives more steps
  uint64_t card_bytes;      // what PyTorch could reserve on the card of that run; 0: not known
} replay_result;

// What was asked for.
typedef struct {
  const plim_alloc_conf *conf; // NULL: the recorded settings
  uint64_t limit_bytes;        // PLIM_UNKNOWN: none given
  const char *torch;           // a version; NULL: found out
  bool tune;
} replay_request;

// How to record a snapshot that has all that is needed.
#define REPLAY_HOW_TO_RECORD                                                                       \
  "torch.cuda.memory._record_memory_history(context=\"all\", stacks=\"python\")"

// Fills *r, whose path, info and trace are set, trace unlinked. Whatever the outcome, clear it.
plim_err replay_investigate(replay_result *r, const replay_request *request, plim_error *error);
// Replaces what another request found in the same trace. After an error, the result can only be cleared.
plim_err replay_again(replay_result *r, const replay_request *request, plim_error *error);
void replay_result_clear(replay_result *r);

// Step at which memory ran out; 0 if it did not, or before the first step.
size_t replay_ran_out_at_step(const replay_result *r);
// Step at which the limit is reached, or the card of the run is full, if memory goes on growing; 0 if neither is known or
// memory ran out already.
uint64_t replay_full_at_step(const replay_result *r, uint64_t bytes_per_step);

typedef enum { REPLAY_NOT_KNOWN, REPLAY_WOULD_FIT, REPLAY_WOULD_NOT_FIT } replay_verdict;

// Whether a failed request would have fitted in compacted memory.
replay_verdict replay_compacted_verdict(const replay_oom *oom);

// The row of --tune to recommend: of those that fit and reserve no more than the model's error above
// the best, the one that asks least of the user and of the driver. NULL if none fits.
const plim_tune_row *replay_recommended(const replay_result *r);

// Elapsed seconds at an event since the first one; NaN where no times were recorded.
double replay_seconds_at(const replay_result *r, size_t event);

// The whole document, of a replay_result; and its members, for `simulate`.
void replay_write(json_writer *j, const void *result);
void replay_write_json(json_writer *j, const replay_result *r);

// Memory over time, of the events [first, end) in at most so many columns; and who holds the memory right after an event.
// What they show is the simulation if it differs from the recording (replay_timeline.c).
typedef struct {
  const replay_result *r;
  size_t first, end, columns;
} replay_part;
void replay_write_timeline(json_writer *j, const void *part);
void replay_write_moment(json_writer *j, const replay_result *r, const plim_moment *m);

#endif
