// Checks which options have an effect on a training run, so that no option is ignored silently.
#ifndef PLIM_APP_JOB_EFFECTS_H
#define PLIM_APP_JOB_EFFECTS_H

#include "job_options.h"

// Fails for an option that was typed but has no effect, with a hint what to type. Adds a note for one that
// the user's files set (in `args` but not in `typed`). `r` is the run as understood.
plim_err job_check_effects(const job_args *args, const job_args *typed, job_request *r,
                           plim_error *error);

// Whether the table has a rule for this option; a test requires one for every option.
bool job_effect_is_known(const char *option);

extern const cli_option job_own_options[]; // JOB_OPTIONS over job_args itself, and {0}

#endif
