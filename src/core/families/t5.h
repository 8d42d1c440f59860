// T5: encoder and decoder, relative positions as a bias of the scores, one table of embeddings.
#ifndef PLIM_CORE_T5_H
#define PLIM_CORE_T5_H

#include "config.h"
#include "model.h"

plim_model *plim_t5_new(plim_tape *t, const plim_config *c, plim_dtype dtype);

#endif
