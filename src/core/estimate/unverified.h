// Which parts of a job have no measurement behind them.
#ifndef PLIM_CORE_UNVERIFIED_H
#define PLIM_CORE_UNVERIFIED_H

#include "job.h"

// Puts up to `max` reasons, in words for users, into `reasons`; returns how many there are, 0 if every
// part of the job was measured.
size_t plim_job_unverified(const plim_job *job, const char **reasons, size_t max);

// Whether anything is copied to the host or computed there.
bool plim_job_moves_to_host(const plim_job *job);

#endif
