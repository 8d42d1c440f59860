// The families of models that are programs on the tape: one row each.
#ifndef PLIM_CORE_FAMILIES_H
#define PLIM_CORE_FAMILIES_H

#include "family.h"

extern const plim_family plim_families[];
extern const size_t plim_family_count;

// The family's defaults, as transformers' configuration class has them. An unknown family is refused
// by name, with the list of those known.
plim_err plim_config_init(plim_config *c, const char *model_type, plim_error *error);

#endif
