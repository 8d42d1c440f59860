// A knob and the value it is to have.
#ifndef PLIM_IO_KNOB_CHANGE_H
#define PLIM_IO_KNOB_CHANGE_H

#include "dialect.h"

typedef struct {
  plim_knob knob;
  plim_value value; // as knobs have it
} plim_knob_change;

#endif
