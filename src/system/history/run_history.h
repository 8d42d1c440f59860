// The record of the runs that `plimsoll run` started, in one SQLite file of the user. Several runs may write at the same
// time. A record that cannot be written must not harm a run: the functions fail, and the caller goes on without. They wait
// for a disk and for other writers, ten seconds at most.
//
//   history *h;
//   err = history_open(path, true, &h, &error);
//   if (!err) err = history_begin(h, &(history_run){.command = "python train.py", ...}, &id, &error);
//   if (!err) err = history_add(h, id, &news, &error);   // samples and events
//   if (!err) err = history_end(h, id, &run, &error);
//   history_close(h);
#ifndef PLIM_SYSTEM_RUN_HISTORY_H
#define PLIM_SYSTEM_RUN_HISTORY_H

#include "plimsoll.h"
#include "vec.h"

typedef struct history history;

// A run. Texts are owned where the run was read; PLIM_UNKNOWN where a number is not known.
typedef struct {
  int64_t id;
  double began, ended; // seconds since 1970; ended 0: it runs, or its end was not recorded
  int64_t pid;         // of plimsoll
  int status;          // as waitpid gives it
  char *command, *folder, *log, *card;
  char *end; // "finished", "out of memory", ...; NULL: not known
  uint64_t total_bytes, peak_bytes, steps;
} history_run;

// The state of one process at one moment.
typedef struct {
  double time;
  int64_t rank;
  uint64_t step;
  uint64_t allocated_bytes, reserved_bytes, used_bytes; // used: on its card, by all; PLIM_UNKNOWN
  uint64_t peak_bytes; // the most that was allocated since the sample before; PLIM_UNKNOWN
} history_sample;

// Something that happened: "start", "warning", "failure", "recovery", "end".
typedef struct {
  double time;
  char *kind, *text; // owned
} history_event;

typedef struct {
  vec(history_run) runs;
  uint64_t run_count;          // of a list: how many runs there are in all
  vec(history_sample) samples; // of one run
  vec(history_event) events;
} history_found;

// `may_create`: to write, and to make the file if it is missing. Otherwise to read: a missing file is an error, and the folder
// may be write-protected. A file that is not ours is left alone.
plim_err history_open(const char *path, bool may_create, history **out, plim_error *error);
void history_close(history *h); // NULL is fine

plim_err history_begin(history *h, const history_run *run, int64_t *id, plim_error *error);
// Adds all samples and events of `news`, or none of them.
plim_err history_add(history *h, int64_t id, const history_found *news, plim_error *error);
// Also sets the card's name, its memory, the peak and the steps, as in `run`.
plim_err history_end(history *h, int64_t id, const history_run *run, plim_error *error);

// The newest runs, newest first. Whatever the outcome of these two, clear what was found.
plim_err history_list(history *h, size_t most, history_found *out, plim_error *error);
// One run with its samples and events. PLIM_ERR_ARGUMENT: there is no such run.
plim_err history_read(history *h, int64_t id, history_found *out, plim_error *error);
void history_found_clear(history_found *found);

#endif
