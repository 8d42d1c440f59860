// GPT-2: learned positions, LayerNorm, Conv1D projections, dropout.
#ifndef PLIM_CORE_GPT2_H
#define PLIM_CORE_GPT2_H

#include "config.h"
#include "model.h"

plim_model *plim_gpt2_new(plim_tape *t, const plim_config *c, plim_dtype dtype);

#endif
