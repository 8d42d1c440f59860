// Runs a program on the simulated card with other settings. The user's files stay as they are: only the program sees edited
// copies of them. A plan for a program that plimsoll cannot predict is a search for the largest micro batch that fits:
//
//   trial_program program;
//   err = trial_program_open(&program, &(trial_options){.words = words, .sets = &sets}, &error);
//   trial_search search = {.program = &program, .request = request, .most_runs = 14};
//   if (!err) err = trial_search_first(&search, NULL, NULL, &error);
//   if (!err) err = trial_search_rest(&search, NULL, NULL, &error);
//   ... search.runs.at[search.best] ...
//   trial_search_clear(&search);
//   trial_program_clear(&program);
#ifndef PLIM_APP_TRIAL_H
#define PLIM_APP_TRIAL_H

#include "diff.h"
#include "knob_change.h"
#include "project_job.h"
#include "simulate.h"

// ---- the program ------------------------------------------------------------------------------------

typedef struct {
  const char *const *words; // the program with its arguments; ends with NULL
  const cli_strings *sets;  // values of --set; or NULL
  uint64_t world;           // GPUs; 0: what the command says
  uint64_t effective;       // effective batch to keep; 0: that of the program
  bool is_any_batch;        // the effective batch may change
  const char *parent;       // of the folder with edited copies; NULL: that for temporary files
} trial_options;

typedef enum {
  TRIAL_ACCUMULATION_KEPT,    // plimsoll cannot change it
  TRIAL_ACCUMULATION_WRITTEN, // in the files or flags, together with the micro batch
  TRIAL_ACCUMULATION_DIVIDED, // by the program, from its global batch
} trial_accumulation;

typedef struct {
  project_job files; // the first is the command line
  const char *const *words;
  int64_t micro;        // the program's own
  int64_t accumulation; // likewise; 0: not known
  int64_t ranks;        // GPUs with a batch of their own
  uint32_t gpus;
  trial_accumulation how;
  int64_t effective; // to keep; 0: it changes with the micro batch
} trial_program;

// Finds where the micro batch is set. Fails with advice if it is not found or cannot be changed. `words` must outlive it.
plim_err trial_program_open(trial_program *p, const trial_options *options, plim_error *error);
void trial_program_clear(trial_program *p);

// The accumulation that belongs to a micro batch; 0: this micro batch does not divide the effective batch, or the
// accumulation is not known.
int64_t trial_accumulation_of(const trial_program *p, int64_t micro);
// The micro batches that may be tried: the next larger one, and the largest up to a bound; 0: none.
int64_t trial_next_micro(const trial_program *p, int64_t micro);
int64_t trial_micro_at_most(const trial_program *p, int64_t bound);

// The changes of the files and flags that give the program this micro batch; returns how many.
size_t trial_changes(const trial_program *p, int64_t micro, plim_knob_change out[2]);

// What a micro batch changes.
typedef struct {
  plim_diff files; // of the user's files
  char *command;   // the new command line; NULL: it stays
} trial_diff;

// Fails only if memory runs out; the diff is empty then.
plim_err trial_program_diff(const trial_program *p, int64_t micro, trial_diff *out,
                            plim_error *error);
void trial_diff_clear(trial_diff *diff);

// ---- the program with other settings ----------------------------------------------------------------

typedef struct {
  vec(char *) words; // ends with NULL; owned
  vec(plim_sandbox_replaced) replaced;
  char folder[PLIM_PATH_BYTES]; // with the edited copies and the new files; empty: none
} trial_version;

// Whatever the outcome, clear it; the edited copies are removed then.
plim_err trial_version_make(const trial_program *p, const plim_knob_change *changes, size_t count,
                            trial_version *out, plim_error *error);
void trial_version_clear(trial_version *version);
// Without a sandbox the program sees the original files: fails if a copy or a new file would have to be shown.
plim_err trial_version_check(const trial_version *version, bool is_unsandboxed, plim_error *error);

// ---- the program with settings that the user names --------------------------------------------------

typedef enum {
  TRIAL_IN_COMMAND,
  TRIAL_IN_ENVIRONMENT,
  TRIAL_IN_FILE,
  TRIAL_IN_ADDED_FILE, // one that the program did not read before, such as DeepSpeed's
  TRIAL_COMPUTED
} trial_where;

// One setting of the program before and after.
typedef struct {
  plim_knob knob;
  trial_where where;
  char *file;              // of TRIAL_IN_FILE and TRIAL_IN_ADDED_FILE; owned
  char key[128];           // its name there: "per_device_train_batch_size"; a flag; a variable
  char from[128], to[128]; // as they are written there; `from` is empty if it was not set
} trial_changed;

typedef struct {
  trial_version version;
  vec(trial_changed) changed; // what was asked for, and what changes with it
  char *variables[2];         // "NAME=VALUE" for the program's environment; ends with NULL
  int64_t effective_before, effective_after; // batch of an optimizer step; 0: not known
  int64_t keeping_accumulation;              // that would keep it, and that --with can set; 0: none
} trial_with;

// `texts` are values of --with (KNOB=V). Fails with the reason if a setting cannot be changed in this program. Whatever
// the outcome, clear it; the edited copies are removed then.
plim_err trial_with_make(trial_with *w, const trial_options *options, const cli_strings *texts,
                         plim_error *error);
void trial_with_clear(trial_with *w);

// ---- what was observed ------------------------------------------------------------------------------

// Fills in the options of a prediction with what was observed in a process of the first run. They are marked as typed in
// `typed`, which must be empty, so that the files do not change them; args->typed_at must be set. Texts point into the process.
// Fails with the reason if plimsoll cannot predict such a program.
plim_err trial_observed_fill(trial_program *p, const simulate_process *seen, job_args *args,
                             cli_call *typed, plim_error *error);

// ---- the search -------------------------------------------------------------------------------------

typedef enum {
  TRIAL_OPEN, // it may fit if PyTorch frees its cache in time: only a run on the card can tell
  TRIAL_FITS,
  TRIAL_DOES_NOT_FIT,
  TRIAL_NO_DATA, // the program's batch did not grow, or it made too few steps: its data is too small
} trial_verdict;

typedef struct {
  int64_t micro, accumulation;
  bool is_on_card; // false: on a card that is large enough
  trial_verdict verdict;
  uint64_t needs_bytes;  // with CUDA's context; PLIM_UNKNOWN: it ran out of memory
  bool is_in_evaluation; // it ran out of memory there
  uint64_t allocated_bytes, reserved_bytes;
  uint64_t retries, steps;
  uint64_t batch[2]; // as simulate_observed
  double seconds;
  char log[PLIM_PATH_BYTES];
} trial_run;

typedef struct {
  const trial_program *program;
  simulate_request request; // the card; command and replaced files are set for each run
  size_t most_runs;
  vec(trial_run) runs;   // the first is with the program's own values
  simulate_result first; // of that run: what was observed
  size_t best;           // index of the run with the largest micro batch that fits; SIZE_MAX: none
  bool is_exact;         // the next larger micro batch does not fit, or there is none
  char failed_log[PLIM_PATH_BYTES]; // of a program that failed for another reason; empty: none
} trial_search;

// Called several times a second while the program runs with `micro`.
typedef void trial_watch(void *context, const trial_search *search, int64_t micro,
                         const simulate_moment *now);

// The first run, with the program's own values, on a card that is large enough. Here and below: fails if the program fails
// but not because of memory.
plim_err trial_search_first(trial_search *s, trial_watch *watch, void *context, plim_error *error);
// The runs after it. Fails also if another micro batch has no effect on the program.
plim_err trial_search_rest(trial_search *s, trial_watch *watch, void *context, plim_error *error);
// After the first run: runs the program on the card with these changes, which give it this micro batch.
plim_err trial_prove(trial_search *s, const plim_knob_change *changes, size_t count, int64_t micro,
                     trial_watch *watch, void *context, trial_run *run, plim_error *error);
void trial_search_clear(trial_search *s);

#endif
