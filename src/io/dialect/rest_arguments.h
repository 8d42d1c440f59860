// Calls in scripts that get arguments from somewhere: TrainingArguments(**config), where nobody knows what is in there.
#ifndef PLIM_IO_REST_ARGUMENTS_H
#define PLIM_IO_REST_ARGUMENTS_H

#include "dialect.h"

// Whether such a call could give the knob; `rest` is a setting that is_rest.
bool plim_rest_gives(const plim_setting *rest, plim_dialect dialect, plim_knob knob);

#endif
