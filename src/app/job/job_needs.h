// What a run needs, in words for the user.
#ifndef PLIM_APP_JOB_NEEDS_H
#define PLIM_APP_JOB_NEEDS_H

#include "job_options.h"

// Whether reserved memory would keep growing, so that only the memory in use can be named.
bool estimate_is_endless(const plim_estimate *e);
// The estimate as it is shown: without unused memory that the allocator would keep reserving or that loading left
// behind.
plim_estimate estimate_shown(const plim_estimate *e);
// The memory to name in messages: plim_needed_bytes, or what is in use if reserved memory would keep growing.
uint64_t estimate_needed_bytes(const plim_estimate *e);
// Whether an estimate that does not fit may do so because the run needs up to `saved` less (plim_notes_saved).
bool estimate_may_fit(const plim_estimate *e, uint64_t saved);
// What such a run may then need, compared with what is predicted: "less"; "more or less" if notes say that it needs more, too.
const char *estimate_other(bool errs_low);
// What the budget leaves for something that is not modelled, which may be there in a step or while the model is loaded.
uint64_t estimate_spare_bytes(const plim_estimate *e);

enum { ESTIMATE_NEEDS_SIZE = 96, ESTIMATE_LOADING_SIZE = 448 };
// "29.4 GiB"; "at least 20.1 GiB" if reserved memory keeps growing; "up to 132 GiB while loading the model" if a
// part of that is only cached.
void estimate_needs(const plim_estimate *e, char *text, size_t size);
// If only loading does not fit: what a step needs, and what to do, which is `help` unless that is NULL. Empty otherwise.
// `job` is the estimated job.
void estimate_loading(const plim_estimate *e, const plim_job *job, const char *help, char *text,
                      size_t size);
// Notes that loading does not fit, if the files could load less onto each GPU.
void job_note_loading(const job_request *r, const plim_estimate *e, plim_notes *notes);
// If reserved memory keeps growing: why, and what to do. Empty otherwise.
void estimate_growth(const plim_estimate *e, char *text, size_t size);

#endif
