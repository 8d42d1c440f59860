// Llama's forward, which its relatives share: RMSNorm, attention, RMSNorm, gated MLP.
#ifndef PLIM_CORE_LLAMA_H
#define PLIM_CORE_LLAMA_H

#include "family.h"

plim_model *plim_llama_new(plim_tape *t, const plim_config *c, plim_dtype dtype);

#endif
