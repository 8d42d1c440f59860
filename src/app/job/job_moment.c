#include "job_moment.h"

#include <stdio.h>

const char *const estimate_phases[PLIM_PHASES] = {"loading", "forward", "backward", "optimizer"};

void estimate_place(const plim_program_point *place, char *text, size_t size) {
  const char *phase = estimate_phases[place->phase];
  const char *again = place->is_recomputed ? "recomputing " : "";
  int used = place->phase == PLIM_PHASE_LOAD
                 ? snprintf(text, size, "loading the model")
                 : snprintf(text, size, "step %d, %s", (int)place->step + 1, phase);
  if (used >= (int)size) return;
  if (place->layer >= 0)
    used += snprintf(text + used, size - (size_t)used, ", %slayer %d", again, (int)place->layer);
  if (!place->what || used >= (int)size) return;
  if (place->layer >= 0) snprintf(text + used, size - (size_t)used, " (%s)", place->what);
  else snprintf(text + used, size - (size_t)used, ", %s%s", again, place->what);
}

const char *estimate_place_word(const plim_program_point *place) {
  return place->phase == PLIM_PHASE_LOAD ? "while" : "in";
}
