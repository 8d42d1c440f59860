// Checks that a saved plan was not edited and that its values are valid.
#ifndef PLIM_IO_PLAN_FILE_CHECK_H
#define PLIM_IO_PLAN_FILE_CHECK_H

#include <jansson.h>

#include "plan_file.h"

// Fails unless the plan contains the digest of what it would write.
plim_err plim_plan_file_check_digest(const json_t *plan, plim_error *error);

// Fails unless every value of the rung is valid for its knob and no knob is written twice. So nothing else
// is written into a file, even if the plan was crafted.
plim_err plim_plan_file_check_values(const plim_plan_file *plan, plim_error *error);

#endif
