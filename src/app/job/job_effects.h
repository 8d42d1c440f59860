// Which options of a training run have an effect on it, and when: nothing that was asked for is passed
// over in silence.
#ifndef PLIM_APP_JOB_EFFECTS_H
#define PLIM_APP_JOB_EFFECTS_H

#include "job_options.h"

// An option that was typed and changes nothing is an error, with what to type; one that the user's
// files set (in `args` and not in `typed`) is a note. `r` is the run as understood.
plim_err job_check_effects(const job_args *args, const job_args *typed, job_request *r,
                           plim_error *error);

// Whether somebody has thought about when this option has an effect.
bool job_effect_is_known(const char *option);

extern const cli_option job_own_options[]; // JOB_OPTIONS over job_args itself, and {0}

#endif
