#include "job_moment.h"

#include <stdio.h>

const char *const estimate_phases[PLIM_PHASES] = {"loading", "forward", "backward", "optimizer"};

void estimate_place(const plim_program_point *place, char *text, size_t size) {
  const char *phase = estimate_phases[place->phase];
  int used = place->phase == PLIM_PHASE_LOAD
                 ? snprintf(text, size, "%s", phase)
                 : snprintf(text, size, "step %d, %s", (int)place->step + 1, phase);
  if (place->is_recomputed && used < (int)size)
    used += snprintf(text + used, size - (size_t)used, " (recomputing)");
  if (place->layer >= 0 && used < (int)size)
    used += snprintf(text + used, size - (size_t)used, ", layer %d", (int)place->layer);
  if (place->what && used < (int)size)
    snprintf(text + used, size - (size_t)used, ": %s", place->what);
}
