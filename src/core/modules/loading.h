// from_pretrained: how weights come from a checkpoint to the card.
#ifndef PLIM_CORE_LOADING_H
#define PLIM_CORE_LOADING_H

#include "model.h"
#include "quantised.h"

// Moves a model that was built on the host to the device: model.to(device).
void plim_move_model(plim_tape *t);

// from_pretrained(device_map=...): one block of the size of all of it is taken and given back first.
// Plain weights then come as they were built; for others, parameters come one by one, in the order of
// their names, and projections are quantised on the card as they come.
void plim_load_to_device(plim_tape *t, plim_model *m, plim_weights_kind kind);

// peft.prepare_model_for_kbit_training: every parameter that is not quantised becomes float32; then
// the cache is emptied.
void plim_prepare_kbit(plim_tape *t, plim_model *m);

#endif
