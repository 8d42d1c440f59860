// Between the files of this folder.
#ifndef PLIM_APP_TRIAL_IMPL_H
#define PLIM_APP_TRIAL_IMPL_H

#include "project_change.h"
#include "trial.h"

#define TRIAL_SCRIPT_START "#!/bin/sh\n" // before the command line in the project's first file

enum { TRIAL_MAX_MICRO = 1 << 16 }; // as project_job_count

// The changes of the files and flags that give the program this micro batch; returns how many.
size_t trial_changes(const trial_program *p, int64_t micro, plim_knob_change out[2]);

#endif
