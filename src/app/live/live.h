// Runs of `plimsoll run` that are under way, as their files show them.
//
// Each run has a folder $XDG_STATE_HOME/plimsoll/run/NAME (default: ~/.local/state). In it are
//   run.json   {"pid": of plimsoll, "command": "...", "started": Unix seconds, "limit_bytes": N or null,
//               "steps": planned steps or null}
//   PID.live   for each process of the program, one JSON object per line, appended after optimizer steps and when a phase
//              begins or ends:
//              {"t": Unix seconds, "step": n, "rank": r, "local_rank": l, "world": w, "local_world": ranks of this machine,
//               "phase": "training", "device": CUDA's index, "card": "NVIDIA H200", "uuid": "GPU-...", "allocated": bytes,
//               "reserved": bytes, "peak_allocated": bytes, "peak_reserved": bytes, "free": bytes, "total": bytes}
//              and when memory has run out, also
//              {"oom_bytes": requested, "sample_tokens": of the failing batch, "longest_tokens": of all batches before}
// The peaks are those since the line before, in the phase of the line.
// Any field may be missing or null. The files are written by others while they are read here: a line that is not
// complete yet is left for later, and a line that cannot be read is skipped.
#ifndef PLIM_APP_LIVE_H
#define PLIM_APP_LIVE_H

#include <limits.h>

#include "plimsoll.h"

#define LIVE_LINE_BYTES 4096 // longer lines are skipped; the fields above take 400

typedef enum {
  LIVE_PHASE_UNKNOWN,
  LIVE_LOADING,
  LIVE_TRAINING,
  LIVE_OPTIMIZER,
  LIVE_EVALUATION,
  LIVE_SAVING,
  LIVE_PHASES
} live_phase;

extern const char *const live_phase_names[LIVE_PHASES]; // "unknown", "loading", ...

// One line. Numbers that are not there are PLIM_UNKNOWN, the time -1, texts empty.
typedef struct {
  double seconds; // Unix time
  uint64_t step, rank, local_rank, world, local_world, device;
  live_phase phase;
  char uuid[96], card[96]; // the card's name
  uint64_t allocated_bytes, reserved_bytes, peak_allocated_bytes, peak_reserved_bytes;
  uint64_t free_bytes, total_bytes; // of the card
  uint64_t oom_bytes;               // the request that failed; PLIM_UNKNOWN: none did
  uint64_t sample_tokens, longest_tokens;
} live_sample;

// Reads a line without its line break. False if it is not a JSON object.
bool live_parse(const char *line, size_t size, live_sample *out);

// ---- the lines of a process -------------------------------------------------------------------------

// What was read of one file so far. It starts as {.path = "..."}; nothing has to be freed.
typedef struct {
  char path[PATH_MAX];
  uint64_t inode, device; // of the file that was read last
  uint64_t offset;        // the end of the last complete line
  bool is_skipping;       // a line that is too long
} live_reader;

// Fills `out` with the samples that were appended since the last call, at most `most`, and returns how many; call it
// again until it returns 0. A file that was replaced or cut is read from its beginning; of a file that is larger than
// 4 MiB only the end is read.
size_t live_read(live_reader *reader, live_sample *out, size_t most);

// ---- runs -------------------------------------------------------------------------------------------

typedef struct {
  char name[NAME_MAX + 1]; // of its folder
  char command[512];       // cut if it is longer; empty: unknown
  unsigned pid;            // of plimsoll
  double started_seconds;  // Unix time; -1: unknown
  uint64_t limit_bytes, steps;
} live_run;

// The folder that has all runs. Fails if neither XDG_STATE_HOME nor HOME is a path.
plim_err live_folder(char path[PATH_MAX], plim_error *error);

// Reads the text of a run.json. False if it is not an object with a pid.
bool live_parse_run(const char *text, size_t size, live_run *out);

// The runs below `folder` that are under way, by name; returns how many, at most `most`. A run whose plimsoll has ended
// is over. `root` is that of machine.h.
size_t live_runs(const char *folder, const char *root, live_run *out, size_t most);

// The process numbers that have a file PID.live in the run's folder, ascending; returns how many, at most `most`.
size_t live_processes(const char *folder, const live_run *run, unsigned *pids, size_t most);

// The path of that file. False if it is too long.
bool live_path(char path[PATH_MAX], const char *folder, const live_run *run, unsigned pid);

#endif
