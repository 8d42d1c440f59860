// The picture of a prediction.
#ifndef PLIM_CLI_ESTIMATE_PICTURE_H
#define PLIM_CLI_ESTIMATE_PICTURE_H

#include "estimate_result.h"
#include "picture_options.h"

// Draws the run that the estimate is of; `context` is an estimate_result. For picture_draw.
plim_err estimate_draw(const void *context, const picture_request *wanted, plim_error *error);

#endif
