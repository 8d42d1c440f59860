// What DeepSpeed's Python takes of the CPU, for the clock.
#ifndef PLIM_CORE_ZERO_WORK_H
#define PLIM_CORE_ZERO_WORK_H

#include "tape.h"

void zero_work_begin(plim_tape *t); // all stages: gradients go to the optimizer once a step

// Stage 3: hooks before and after every module, in forward (which plim_work_modules counts from here on) and in
// backward. How many modules forward has called since the last time they were counted:
void zero_watch_modules(plim_tape *t);
uint32_t zero_count_modules(plim_tape *t);
void zero_work_backward(plim_tape *t, uint32_t modules);

// Bytes that an engine's step on the card moves per element beside the optimizer's own: norms in float64, gradients put
// together, made float32 and scaled, parameters rounded.
enum { ZERO_STEP_BYTES = (2 + 8 + 8) + (2 + 2) + (2 + 4) + (4 + 4) + (4 + 2) };

void zero_work_gather(plim_tape *t, size_t parameters);   // and to let them go
void zero_work_gradient(plim_tape *t, bool is_offloaded); // one, from its hook to its bucket
void zero_work_step(plim_tape *t, size_t parameters, size_t offloaded_gradients);

#endif
