// A family of models: what config.json calls it, how it is built, and what it has by default.
#ifndef PLIM_CORE_FAMILY_H
#define PLIM_CORE_FAMILY_H

#include "config.h"
#include "model.h"

struct plim_family {
  const char *model_type; // as config.json has it
  // Builds the model as its constructor does, on the tape. NULL when memory is out.
  plim_model *(*build)(plim_tape *t, const plim_config *c, plim_dtype dtype);
  plim_config defaults; // of transformers' configuration class
};

#endif
