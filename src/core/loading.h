// from_pretrained: how weights come from a checkpoint to the card.
#ifndef PLIM_CORE_LOADING_H
#define PLIM_CORE_LOADING_H

#include "model.h"
#include "quantised.h"

// Of a model that was built without memory: its parameters come one by one, in the order of their
// names, and projections are quantised on the card as they come.
void plim_load_quantised(plim_tape *t, plim_model *m, plim_weights_kind kind);

// peft.prepare_model_for_kbit_training: every parameter that is not quantised becomes float32; then
// the cache is emptied.
void plim_prepare_kbit(plim_tape *t, plim_model *m);

#endif
