// Whether a saved plan is as it was saved, and whether what it writes can be written at all.
#ifndef PLIM_IO_PLAN_FILE_CHECK_H
#define PLIM_IO_PLAN_FILE_CHECK_H

#include <jansson.h>

#include "plan_file.h"

// The plan carries the digest of what it would write.
plim_err plim_plan_file_check_digest(const json_t *plan, plim_error *error);

// Every value of the rung is one that its knob can have, and no knob is written twice: whoever made the
// plan, nothing else gets into a file.
plim_err plim_plan_file_check_values(const plim_plan_file *plan, plim_error *error);

#endif
