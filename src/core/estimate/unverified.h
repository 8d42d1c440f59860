// Lists the parts of a job that no measurement supports.
#ifndef PLIM_CORE_UNVERIFIED_H
#define PLIM_CORE_UNVERIFIED_H

#include "job.h"

// Puts up to `max` reasons, worded for users, into `reasons`. Returns how many there are; 0 if every part of the job
// was measured.
size_t plim_job_unverified(const plim_job *job, const char **reasons, size_t max);

// Whether the job copies anything to the host or computes there.
bool plim_job_moves_to_host(const plim_job *job);
// Whether each step copies something between the card and memory that is not pinned (pin_memory: false).
bool plim_job_copies_pageable(const plim_job *job);

#endif
