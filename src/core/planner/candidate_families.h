// Rows of a level, for the files that search them: candidate_families.c (what a row is and how it is run), plan_search.c
// (all that could be the best), plan_fallbacks.c (the smallest). See candidate_families.c.
#ifndef PLIM_CORE_CANDIDATE_FAMILIES_H
#define PLIM_CORE_CANDIDATE_FAMILIES_H

#include "plan_impl.h"

typedef struct {
  int64_t batch, passes;
} plim_split; // of the effective batch

typedef struct {
  plim_split at[PLIM_MAX_VALUES];
  int count;
} plim_split_list;

typedef struct {
  plim_search *s;
  const plim_concessions *concessions;
  plim_domain confs;
  bool is_quick; // what does not fit, or only with worse settings of the allocator, does not matter
  bool only_fastest; // nor what is slower than the largest that fits
  uint64_t most;     // bytes, of small ones
} plim_candidate_search;

typedef void plim_candidate_visitor(const plim_candidate_search *w, const plim_choice *candidate);

#define NEARLY 0.97 // as fast: waves of blocks differ by less

// In this order: by what is done at once. `alone`: those without accumulation, or the others.
void plim_splits_of(const plim_concessions *l, bool alone, plim_split_list *out);

plim_candidate_search plim_candidates_of(plim_search *s, const plim_concessions *concessions);
void plim_visit_candidates(const plim_candidate_search *w, bool only_savers,
                           plim_candidate_visitor *visit);
// A row, or, where its loss is a cached one, its mini batches: the first of them that fits if `only_one`.
void plim_visit_whole(const plim_candidate_search *w, const plim_choice *candidate, bool only_one,
                      plim_candidate_visitor *visit);
void plim_try_candidate(const plim_candidate_search *w, const plim_choice *candidate);

// The first of the allocator's settings with which it fits; if none does, the first. NULL: it does not
// run.
const plim_rung *plim_run_fitting(const plim_candidate_search *w, plim_choice choice,
                                  plim_split at);
// Keeps it if it fits. Tokens per second; 0: it does not.
double plim_keep(const plim_candidate_search *w, const plim_choice *candidate, plim_split at);
// The fastest batch of a row that fits and is faster than that; NULL: none is.
const plim_rung *plim_fastest_split(const plim_candidate_search *w, const plim_choice *candidate,
                                    double than);
// It goes to the host, or takes code of one's own.
bool plim_is_last(const plim_candidate_search *w, const plim_choice *candidate);

#endif
