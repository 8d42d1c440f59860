// What a run needs, as it is told to people.
#ifndef PLIM_APP_JOB_NEEDS_H
#define PLIM_APP_JOB_NEEDS_H

#include "estimate.h"

// Whether the allocator would reserve more and more memory without end, so that only what is in use can be told.
bool estimate_is_endless(const plim_estimate *e);
// Whether loading the model is what does not fit: it needs more memory than training holds afterwards.
bool estimate_fails_loading(const plim_estimate *e);
// The estimate as it is shown: without the memory that an allocator without end would hold unused, or that loading
// left behind.
plim_estimate estimate_shown(const plim_estimate *e);
// The memory that is told: of loading where that does not fit, else of the step.
uint64_t estimate_needed_bytes(const plim_estimate *e);

enum { ESTIMATE_NEEDS_SIZE = 96, ESTIMATE_LOADING_SIZE = 320 };
// "29.4 GiB"; "at least 20.1 GiB" where the allocator reserves without end; "132 GiB while loading the model".
void estimate_needs(const plim_estimate *e, char *text, size_t size);
// Where only loading does not fit: what a step needs, and what to do. Empty otherwise. `job` is what the estimate is of.
void estimate_loading(const plim_estimate *e, const plim_job *job, char *text, size_t size);
// Where the allocator reserves more and more memory: why, and what to do. Empty otherwise.
void estimate_growth(const plim_estimate *e, char *text, size_t size);

#endif
