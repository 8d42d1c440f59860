// Sends the passes of a step again that do the same as the pass before them. The first passes run. If one of them sends
// the same events and does the same work as the one before it, each relative to its own allocations, and all that it
// allocates is free again by the end of the next, then every further pass does the same: the tape sends the recorded
// events and adds the recorded work for each of them, with new allocation numbers. So the stream and the clock are the
// same as if every pass had run.
#ifndef PLIM_CORE_PASS_REPLAY_H
#define PLIM_CORE_PASS_REPLAY_H

#include "tape.h"

// Off at first. Not for sinks that look at more than the events and the tape's program point.
void plim_tape_replay_passes(plim_tape *t);
bool plim_replays_passes(const plim_tape *t);

void plim_begin_pass(plim_tape *t); // call before each
// Call after pass `done` of a step whose last pass is `last`. Returns the pass after which to continue: `done` itself,
// or `last` if the others were sent again.
int plim_replay_passes(plim_tape *t, int done, int last);

#endif
