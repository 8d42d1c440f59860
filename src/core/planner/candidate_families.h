// Candidate families of a level (candidate_families.c says what they are), for the files that search them: plan_search.c
// (all that could be best) and plan_fallbacks.c (the smallest).
#ifndef PLIM_CORE_CANDIDATE_FAMILIES_H
#define PLIM_CORE_CANDIDATE_FAMILIES_H

#include "plan_impl.h"

typedef struct {
  int64_t batch, passes;
} plim_split; // of the effective batch into passes

typedef struct {
  plim_split at[PLIM_MAX_VALUES];
  int count;
} plim_split_list;

typedef struct {
  plim_search *s;
  const plim_concessions *concessions;
  plim_domain confs;
  bool is_quick;     // ignores what fits only with worse allocator settings, or not at all
  bool only_fastest; // ignores what is slower than the largest batch that fits
  uint64_t most;     // limit in bytes when searching for small candidates
} plim_candidate_search;

typedef void plim_candidate_visitor(const plim_candidate_search *w, const plim_choice *candidate);

#define NEARLY 0.97 // counts as equally fast: partly filled waves of blocks matter less

// Lists the splits by size of the micro batch. `alone`: those without accumulation; otherwise those with.
void plim_splits_of(const plim_concessions *l, bool alone, plim_split_list *out);

plim_candidate_search plim_candidates_of(plim_search *s, const plim_concessions *concessions);
void plim_visit_candidates(const plim_candidate_search *w, bool only_savers,
                           plim_candidate_visitor *visit);
// Visits a family or, if its loss is cached, one family per mini batch size; with `only_one`, only the first that fits.
void plim_visit_whole(const plim_candidate_search *w, const plim_choice *candidate, bool only_one,
                      plim_candidate_visitor *visit);
void plim_try_candidate(const plim_candidate_search *w, const plim_choice *candidate);

// Runs the candidate with the first allocator settings with which it fits, or with the first of all if the margin is too
// small with each. NULL: it runs out of memory, or cannot run.
const plim_rung *plim_run_fitting(const plim_candidate_search *w, plim_choice candidate,
                                  plim_split at);
// The same, but a candidate that runs out of memory is run as if there were enough, with the first settings. NULL: it
// cannot run, or it needs `below` bytes or more, unless that is 0.
const plim_rung *plim_run_anyway(const plim_candidate_search *w, plim_choice candidate,
                                 plim_split at, uint64_t below);
// Adds the candidate to `fitting` if it fits. Returns its tokens per second; 0: it does not fit.
double plim_keep(const plim_candidate_search *w, const plim_choice *candidate, plim_split at);
// The fastest batch of a family that fits and is faster than `than`; NULL: none is.
const plim_rung *plim_fastest_split(const plim_candidate_search *w, const plim_choice *candidate,
                                    double than);
// Whether the family is tried last: it uses the host more, or needs custom code.
bool plim_is_last(const plim_candidate_search *w, const plim_choice *candidate);

#endif
