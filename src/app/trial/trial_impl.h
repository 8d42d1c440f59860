// Between the files of this folder.
#ifndef PLIM_APP_TRIAL_IMPL_H
#define PLIM_APP_TRIAL_IMPL_H

#include "project_change.h"
#include "trial.h"

enum { TRIAL_MAX_MICRO = 1 << 16 }; // as project_job_count

// Reads the command line and the files that it names. The command line is the project's first file.
plim_err trial_read_command(project_job *files, const char *const *words, const cli_strings *sets,
                            plim_error *error);

// The command and copies of its files with these edits. `words` is the command as it was typed.
plim_err trial_version_of(const plim_project *p, const char *const *words, const char *parent,
                          const plim_edit_set *edits, trial_version *out, plim_error *error);

// The same for a project whose command is a line for the shell, which `line` has with its changes.
plim_err trial_version_of_line(const plim_project *p, const char *line, const plim_edit_set *edits,
                               trial_version *out, plim_error *error);
// Shows the program a new file.
plim_err trial_version_add(trial_version *version, const char *path, const char *text,
                           plim_error *error);

#endif
