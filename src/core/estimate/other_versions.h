// The same job with other versions of libraries, for users who do not say which ones they have.
#ifndef PLIM_CORE_OTHER_VERSIONS_H
#define PLIM_CORE_OTHER_VERSIONS_H

#include "estimate.h"

typedef struct {
  plim_versions versions;
  uint64_t device_bytes;
} plim_version_need;

enum { PLIM_VERSION_NEEDS = 3 }; // at most

typedef struct {
  plim_version_need at[PLIM_VERSION_NEEDS];
  size_t count;
} plim_version_needs;

// Predicts the job with releases that are in use (transformers 4.46 to 5.22, torch 2.4 to 2.15) in place of those that the
// job leaves open, on the same GPU, and widens the interval of `e`, its estimate, to hold them. Releases that do not have the model or its
// attention are left out. Fails only when out of memory.
plim_err plim_predict_other_versions(const plim_job *job, const plim_target *target,
                                     plim_estimate *e, plim_version_needs *out, plim_error *error);

#endif
