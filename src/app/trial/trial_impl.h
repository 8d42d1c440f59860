// Between the files of this folder.
#ifndef PLIM_APP_TRIAL_IMPL_H
#define PLIM_APP_TRIAL_IMPL_H

#include "project_change.h"
#include "trial.h"

enum { TRIAL_MAX_MICRO = 1 << 16 }; // as project_job_count

#endif
