// GPT-NeoX (Pythia): attention and MLP side by side, part of each head turned.
#ifndef PLIM_CORE_GPT_NEOX_H
#define PLIM_CORE_GPT_NEOX_H

#include "config.h"
#include "model.h"

plim_model *plim_gpt_neox_new(plim_tape *t, const plim_config *c, plim_dtype dtype);

#endif
