// After a program ran out of memory: settings with which it can go on, and putting them into its command and files.
//
//   recovery v;
//   recovery_begin(&v, words, sets);
//   ... a run that fails, explained as e ...
//   recovery_step step;
//   err = recovery_next(&v, &e, seen, &step, &error);      // step.is_found: run v.command again
//   ...
//   recovery_end(&v, keep, &error);                        // the files are as before
//
// Only settings are changed that leave alone what the model learns: the effective batch stays the same.
#ifndef PLIM_APP_RECOVER_H
#define PLIM_APP_RECOVER_H

#include "explain.h"
#include "trial.h"

typedef struct {
  const char *const *typed; // the user's command; ends with NULL
  const cli_strings *sets;  // values of --set; or NULL
  cli_strings settings;     // KNOB=V in force; owned
  bool has_expandable, has_chunked_loss, has_retried;
  trial_with with; // the program with them
  bool has_with, has_changed_files;
} recovery;

// What the next start changes.
typedef struct {
  bool is_found;
  char text[400]; // "micro batch 2 with accumulation 8 (was 4 with 4)"; or why there is nothing
  const char *variable; // "NAME=VALUE" to add to the environment; NULL: none
} recovery_step;

void recovery_begin(recovery *v, const char *const *typed, const cli_strings *sets);

// Chooses what to change for the cures of an explanation, in their order, and writes it into the files. `seen` is what was
// observed of the program; NULL: nothing. Fails if a file cannot be written; all are as before then.
plim_err recovery_next(recovery *v, const explanation *e, const simulate_process *seen,
                       recovery_step *step, plim_error *error);

// The command to run now; ends with NULL.
const char *const *recovery_command(const recovery *v);

// Restores the files. With `keep` they stay as they are, and `plimsoll undo` restores them.
plim_err recovery_end(recovery *v, bool keep, plim_error *error);
// For launch_request.after_death: the context is the recovery.
void recovery_after_death(void *context);

#endif
