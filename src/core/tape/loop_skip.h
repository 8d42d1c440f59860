// Skips the rounds of a loop that would do the same as those before: the forward and backward passes of a step, the
// steps, and loops inside a pass. The sink of the tape decides whether memory repeats (core/estimate/rounds.h); here
// the clock must repeat too, and the skipped rounds' time is added to it.
#ifndef PLIM_CORE_LOOP_SKIP_H
#define PLIM_CORE_LOOP_SKIP_H

#include "tape.h"

// Call after round `done` of a loop whose last round is `last`. Returns the round after which to continue: `done`
// itself, or a later one if the rounds between can be skipped. Their effect on the clock and the sink is added.
int plim_skip_alike(plim_tape *t, plim_cycle cycle, int done, int last);

// A loop inside a pass. Each round may leave one tensor behind:
//
//   plim_inner_loop_begin(t);
//   for (i = 0; i < count; i++) {
//     set(t, &all[i], round(t, i));
//     i += plim_inner_loop_skip(t, all[i], rounds after i that are like i, &all[i + 1]);
//   }
//   plim_inner_loop_end(t);
//
// plim_inner_loop_skip returns how many rounds it did without running them and puts the tensors they leave behind
// into `more`, which then owns them. `kept` is NULL if a round leaves nothing behind; `more` is then not used. Always
// run the last round of a loop, so that its variables hold what that round assigned.
void plim_inner_loop_begin(plim_tape *t);
int64_t plim_inner_loop_skip(plim_tape *t, const plim_tensor *kept, int64_t most,
                             plim_tensor **more);
void plim_inner_loop_end(plim_tape *t);

#endif
