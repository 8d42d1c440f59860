// Runs a training program on the real GPU and follows it: its log, its memory, the record of the run, warnings, and what is
// needed to start it again with other settings after it ran out of memory.
//
//   run r;
//   err = run_open(&r, &(run_options){.command = words}, &error);
//   run_end end;
//   if (!err) err = run_once(&r, &(run_settings){.command = words}, &end, &error);
//   ... end.status, end.processes: what was observed ...
//   run_end_clear(&end);
//   run_close(&r, end.status, "finished");
#ifndef PLIM_APP_RUN_H
#define PLIM_APP_RUN_H

#include <sys/types.h>

#include "hook_record.h"
#include "injection.h"
#include "launch.h"
#include "live_rank.h"
#include "run_record.h"

// Details go to the log and the record, and not to a webhook.
typedef enum { RUN_START, RUN_WARNING, RUN_FAILURE, RUN_RECOVERY, RUN_END, RUN_DETAIL } run_event;

typedef struct {
  const char *const *command; // as the user typed it; ends with NULL
  const char *modules;        // the folder with python/, our modules; NULL: beside this program
  const char *notify;         // a URL that gets a JSON document for each event; NULL: none
  char *(*fold)(
      const char *line); // a copy of a line with breaks for the user's terminal; NULL: as it is
  bool is_json;          // what run_tell writes to standard error is a JSON object per line
  uint64_t cards;        // that the program uses, for its thread count; 0: not known
  bool has_hook;         // load the hook library; the two below need it
  uint64_t cap_bytes;    // of each card; 0: no cap
  uint64_t spill_bytes;  // of host memory for each process; 0: nothing; RUN_SPILL_DEFAULT
} run_options;

#define RUN_SPILL_DEFAULT UINT64_MAX // half of the host memory that is free

typedef struct {
  run_options options;
  simulate_folder folder;
  char modules[PLIM_PATH_BYTES];
  int log;
  double began;                            // seconds since 1970
  run_record *record;                      // NULL: it cannot be written
  int64_t id;                              // of the run in there; 0: none
  char no_history[400];                    // why
  launch *launched;                        // while the program runs
  bool is_line_open;                       // it has ended in the middle of a line
  uint64_t peak_bytes, total_bytes, steps; // so far, of the fullest GPU; PLIM_UNKNOWN: not known
  uint64_t peak_rank;                      // whose GPU that is; PLIM_UNKNOWN: there is one rank
  bool has_nodes;                          // ranks run on other machines
  char card[96];
  hook_record *hook; // NULL: none
  char hook_path[PLIM_PATH_BYTES];
  char *hook_variables[HOOK_VARIABLES + 1]; // "NAME=VALUE"; ends with NULL
  bool has_spilled;
  uint64_t warnings;  // that were told
  uint64_t oom_kills; // as plim_machine, before the start
  bool has_notify_failed;
  vec(pid_t) senders; // processes that tell options.notify
} run;

// Makes the run's folder and log, and its place in the record of runs.
plim_err run_open(run *r, const run_options *options, plim_error *error);
// Says how it ended, in the record too: "finished", "out of memory", ...
void run_close(run *r, int status, const char *how);

// A line of ours, on standard error, in the log and in the record; with `options.notify`, also there.
void run_tell(run *r, run_event event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---- what helps -------------------------------------------------------------------------------------

typedef struct {
  char *setting; // "NAME=VALUE"; owned
  const char *why;
} run_variable;

typedef vec(run_variable) run_variables;

// Variables that help any training and that the user has not set (run_variables.c).
plim_err run_helpful(const run_options *options, run_variables *out, plim_error *error);
void run_variables_clear(run_variables *v);

// The option of `python -I train.py` by which Python loads none of our modules (-I, -E, -S); NULL: there is none.
const char *run_isolated_python(const char *const *command);

// ---- once -------------------------------------------------------------------------------------------

typedef struct {
  const char *const *command;   // ends with NULL
  const char *const *variables; // "NAME=VALUE"; ends with NULL
  const savers_args *savers;    // or NULL
  // As in launch_request.
  plim_err (*before)(void *context, plim_error *error);
  plim_err (*after)(void *context, plim_error *error);
  void *context;
} run_settings;

// One process of the program.
typedef struct {
  live_rank *rank; // owned
  bool has_warned, has_told_swings;
  double stored; // when a sample of it was written to the record
} run_process;

typedef struct run_inquiry run_inquiry; // a snapshot that is being read (run_findings.c)

// What is done to find the lines of a leak.
typedef enum { RUN_LEAK_NONE, RUN_LEAK_RECORDED, RUN_LEAK_WRITTEN, RUN_LEAK_NAMED } run_leak;

typedef struct {
  int status;      // as waitpid gives it
  int asked;       // the signal by which the user ended the program; 0: none
  int not_started; // as in launch_request; 0: it was started, or something else failed
  double began, seconds;
  off_t log_begin; // where its output begins in the log
  vec(run_process) processes;
  simulate_result observed; // what the processes wrote down when they ended
  uint64_t steps;           // that were made; PLIM_UNKNOWN: not known
  run_inquiry *inquiry;     // NULL: none
  bool has_first;           // the snapshot of the first step was looked at
  run_leak leak;
  unsigned leak_pid;
  uint64_t leak_step;   // at which the recording began
  char leak_lines[256]; // that keep the memory; empty: not known
} run_end;

// Fails if the program cannot be started. Whatever the outcome, clear the end.
plim_err run_once(run *r, const run_settings *settings, run_end *end, plim_error *error);
void run_end_clear(run_end *end);

// The process that ran out of memory and made no step after that: that of this rank, or if it is PLIM_UNKNOWN the one that said
// so first. NULL: none did.
const live_rank *run_failed(const run_end *end, uint64_t rank);
// What was observed of this process, or, if it is NULL or left nothing, of the one that needed the most; NULL: nothing.
const simulate_process *run_observed(const run_end *end, const live_rank *rank);

// The process that reserved the most; NULL if none used a card.
const live_rank *run_fullest(const run_end *end);

#endif
