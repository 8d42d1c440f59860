// After a program ran out of memory: settings with which it can go on, and putting them into its command and files.
//
//   recovery v;
//   recovery_begin(&v, words, sets);
//   ... a run that fails, explained as e ...
//   recovery_step step;
//   err = recovery_next(&v, &e, seen, &step, &error);      // step.is_found: run recovery_command(&v)
//   ... with recovery_put and recovery_restore as what comes before and after it (launch.h) ...
//   recovery_end(&v);
//
// Only settings are changed that leave alone what the model learns: the effective batch stays the same.
#ifndef PLIM_APP_RECOVER_H
#define PLIM_APP_RECOVER_H

#include "explain.h"
#include "trial.h"

// Plans by prediction for what was observed. Adds the settings KNOB=V, which the caller frees, of the plan that is `rung`
// places below the best. False: there is none.
typedef bool recovery_plan(void *context, const simulate_process *seen, size_t rung,
                           cli_strings *settings);

typedef struct {
  const char *const *typed; // the user's command; ends with NULL
  recovery_plan *plan;      // or NULL
  void *plan_context;
  const char *
      scratch; // the folder for edited copies, which somebody removes even if we are killed; NULL: that for temporary files
  size_t plans;            // that were tried
  const cli_strings *sets; // values of --set; or NULL
  uint64_t world;          // ranks that were observed; 0: what the command says
  cli_strings settings;    // KNOB=V in force; owned
  bool has_expandable, has_chunked_loss, has_retried;
  trial_with with; // the program with them
  bool has_with;
  int lent; // of plim_changeset_options; -1: none
} recovery;

// What the next start changes.
typedef struct {
  bool is_found;
  char text
      [400]; // "micro batch 2 and 8 accumulation steps instead of 4 and 4"; or why there is nothing
  const char *variables[3]; // "NAME=VALUE" to add to the environment; ends with NULL
} recovery_step;

void recovery_begin(recovery *v, const char *const *typed, const cli_strings *sets);

// Chooses what to change for the cures of an explanation, in their order. `seen` is what was observed of the program; NULL:
// nothing. The user's files are not changed yet.
plim_err recovery_next(recovery *v, const explanation *e, const simulate_process *seen,
                       recovery_step *step, plim_error *error);

// The command to run now; ends with NULL.
const char *const *recovery_command(const recovery *v);

// Variables of the environment that the settings need, "NAME=VALUE"; ends with NULL.
const char *const *recovery_variables(const recovery *v);

// Whether the settings are in files, which the program reads while they are changed.
bool recovery_has_files(const recovery *v);
// Writes the settings into the user's files, and takes that back; the context is the recovery. Files that somebody else has
// changed meanwhile are left alone, which is an error. If the process that wrote them is killed, anyone's `restore` or
// `clean_up` takes it back.
plim_err recovery_put(void *context, plim_error *error);
plim_err recovery_restore(void *context, plim_error *error);
// Writes them for good; plimsoll undo takes that back.
plim_err recovery_keep(const recovery *v, plim_error *error);

// Restores the files of this folder that a killed run has left changed, and names them: "train.sh, conf/train.yaml"; "" if
// there are none.
plim_err recovery_clean_up(char *files, size_t size, plim_error *error);

void recovery_end(recovery *v);

#endif
