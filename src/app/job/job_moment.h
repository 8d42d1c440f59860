// Describes a moment of a training run in words.
#ifndef PLIM_APP_JOB_MOMENT_H
#define PLIM_APP_JOB_MOMENT_H

#include "tape.h"

extern const char *const estimate_phases[PLIM_PHASES]; // "loading", "forward", ...

// "step 2, backward, layer 27 (down_proj)", or "loading the model".
void estimate_place(const plim_program_point *place, char *text, size_t size);
// The word before it in a sentence: "in" step 2, "while" loading the model.
const char *estimate_place_word(const plim_program_point *place);

#endif
