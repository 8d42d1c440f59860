// Calls with unpacked arguments of unknown content: TrainingArguments(**config).
#ifndef PLIM_IO_REST_ARGUMENTS_H
#define PLIM_IO_REST_ARGUMENTS_H

#include "dialect.h"

// Whether such a call could set the knob; `rest` is a setting with is_rest.
bool plim_rest_gives(const plim_setting *rest, plim_dialect dialect, plim_knob knob);

#endif
