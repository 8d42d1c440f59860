// A knob and its new value.
#ifndef PLIM_IO_KNOB_CHANGE_H
#define PLIM_IO_KNOB_CHANGE_H

#include "dialect.h"

typedef struct {
  plim_knob knob;
  plim_value value; // in the knob's own notation, not the file's
} plim_knob_change;

#endif
