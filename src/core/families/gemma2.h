// Gemma 2: scaled embeddings, four norms a layer, windows in every other layer, capped scores and
// logits.
#ifndef PLIM_CORE_GEMMA2_H
#define PLIM_CORE_GEMMA2_H

#include "config.h"
#include "model.h"

plim_model *plim_gemma2_new(plim_tape *t, const plim_config *c, plim_dtype dtype);

#endif
