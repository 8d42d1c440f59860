// What a run needs, as it is told to people.
#ifndef PLIM_APP_JOB_NEEDS_H
#define PLIM_APP_JOB_NEEDS_H

#include "estimate.h"

// Whether the allocator would reserve more and more memory without end, so that only what is in use can be told.
bool estimate_is_endless(const plim_estimate *e);
// The estimate as it is shown: without the memory that an allocator without end would hold unused.
plim_estimate estimate_shown(const plim_estimate *e);
// "29.4 GiB"; "at least 20.1 GiB" where the allocator reserves without end.
void estimate_needs(const plim_estimate *e, char *text, size_t size);

#endif
