// Whether what a saved plan writes is what its search found.
#ifndef PLIM_IO_PLAN_FILE_CHECK_H
#define PLIM_IO_PLAN_FILE_CHECK_H

#include <jansson.h>

#include "plan_file.h"

// Every value of the rung is one its knob can have, is the one that the ladder says, and the batch
// multiplies out as in the other rungs. `rung` is counted from 0.
plim_err plim_plan_file_check(const json_t *ladder, size_t rung, const plim_plan_file *plan,
                              plim_error *error);

#endif
