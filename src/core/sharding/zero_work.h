// CPU time of DeepSpeed's Python code, for the clock.
#ifndef PLIM_CORE_ZERO_WORK_H
#define PLIM_CORE_ZERO_WORK_H

#include "tape.h"

void zero_work_begin(plim_tape *t); // all stages: gradients go to the optimizer once per step

// Stage 3: hooks before and after every module, in forward (plim_work_modules then adds their time) and in backward.
// zero_count_modules returns how many modules forward has called since its last call.
void zero_watch_modules(plim_tape *t);
uint32_t zero_count_modules(plim_tape *t);
void zero_work_backward(plim_tape *t, uint32_t modules);

// Bytes per element that the engine's step on the card moves in addition to the optimizer: norms in float64, gradients
// concatenated, cast to float32 and scaled, parameters rounded.
enum { ZERO_STEP_BYTES = (2 + 8 + 8) + (2 + 2) + (2 + 4) + (4 + 4) + (4 + 2) };

void zero_work_gather(plim_tape *t, size_t parameters); // gathering and releasing parameters
// One gradient, from its hook to its bucket.
void zero_work_gradient(plim_tape *t, bool is_offloaded);
void zero_work_step(plim_tape *t, size_t parameters, size_t offloaded_gradients);

#endif
