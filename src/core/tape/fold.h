// Folds a loop whose rounds all do the same, such as a recurrence over the chunks of a sequence. Its first and last
// rounds run; for those between, the tape sends the events and records the work of the round before them again, with
// shifted allocation numbers. One node of the graph stands for all of them. When backward reaches that node, the events
// of the backward of the round after them are sent again, once for each. So the stream and the clock are the same as if
// every round had run.
//
// Nothing is assumed: two rounds before the fold must have sent the same events, and two rounds after it must send the
// same in backward, each relative to its own allocations. If that is ever not so, the tape stops with plim_fold_failed,
// and the caller runs the program again without folding.
#ifndef PLIM_CORE_FOLD_H
#define PLIM_CORE_FOLD_H

#include "tape.h"

enum { PLIM_FOLD_CARRIED = 2, PLIM_FOLD_SHARED = 6, PLIM_FOLD_REBOUND = 2 };

// The variables of a loop: those that each round sets or changes in place and the next one reads, those that every round
// reads, and those that each round sets before it reads them. Entries at the end of a list may be NULL.
typedef struct {
  plim_tensor **carried[PLIM_FOLD_CARRIED];
  plim_tensor **shared[PLIM_FOLD_SHARED];
  plim_tensor **rebound[PLIM_FOLD_REBOUND];
} plim_fold_variables;

typedef struct {
  int64_t count; // rounds; 0: all of them run
} plim_fold;

// Folding is off at first. A recomputation must fold what its forward has folded, so it is turned on or off once.
void plim_tape_fold_loops(plim_tape *t);
bool plim_fold_failed(const plim_tape *t);
uint64_t plim_fold_events(const plim_tape *t); // number of events that folds have sent

//   plim_fold fold = plim_fold_begin(t, count);
//   for (i = 0; i < count; i++) {
//     round(t, i);
//     i += plim_fold_end_round(t, &fold, i, &variables);
//   }
//
// Returns how many rounds after this one need not run. The first carried variable must be the last tensor that a round
// computes.
plim_fold plim_fold_begin(plim_tape *t, int64_t count);
int64_t plim_fold_end_round(plim_tape *t, const plim_fold *fold, int64_t round,
                            const plim_fold_variables *v);

#endif
