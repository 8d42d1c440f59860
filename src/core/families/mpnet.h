// MPNet: an encoder with a bias by relative position, which all layers share, and attention written
// out: transformers has no other for it, and no checkpointing.
#ifndef PLIM_CORE_MPNET_H
#define PLIM_CORE_MPNET_H

#include "config.h"
#include "model.h"

plim_model *plim_mpnet_new(plim_tape *t, const plim_config *c, plim_dtype dtype);

#endif
