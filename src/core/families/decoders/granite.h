// The forward of Granite's layers: llama's, in which what attention and MLP add is multiplied with a number.
#ifndef PLIM_CORE_GRANITE_H
#define PLIM_CORE_GRANITE_H

#include "experts.h"

plim_checkpointed_fn plim_granite_layer;
// The forward of its mixtures.
plim_tensor *plim_granite_mix(plim_tape *t, const plim_experts *e, plim_tensor *x);

#endif
