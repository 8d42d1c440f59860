#include "knobs.h"

#define ROW(NAME, name, kind, what) {name, what, PLIM_KNOB_##kind},
const plim_knob_info plim_knob_table[PLIM_KNOBS] = {PLIM_KNOB_LIST(ROW)};
#undef ROW

static bool is_same(const char *a, const char *b) {
  for (; *a && *b; a++, b++)
    if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b)) return false;
  return *a == *b;
}

plim_knob plim_knob_named(const char *name) {
  int i = 0;
  while (i < PLIM_KNOBS && !is_same(plim_knob_table[i].name, name)) i++;
  return (plim_knob)i;
}
