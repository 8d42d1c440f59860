// from_pretrained: how weights get from a checkpoint to the card.
#ifndef PLIM_CORE_LOADING_H
#define PLIM_CORE_LOADING_H

#include "model.h"
#include "quantised.h"

// Moves a model that was built on the host to the device: model.to(device).
void plim_move_model(plim_tape *t);

// from_pretrained(device_map=...). First a block of the size of all weights is allocated and freed. Then plain weights
// are moved in the order they were built; other kinds are loaded parameter by parameter in the order of their names,
// and projections are quantised on the card as they arrive.
void plim_load_to_device(plim_tape *t, plim_model *m, plim_weights_kind kind);

// Quantises the projections of a model that is still on the host.
void plim_quantise_on_host(plim_tape *t, plim_model *m, plim_weights_kind kind);

// peft.prepare_model_for_kbit_training: casts every parameter that is not quantised to float32; with `leaves_tables`, as
// Axolotl patches it, all but the embedding and the head. Since 0.20 peft then empties the cache.
void plim_prepare_kbit(plim_tape *t, plim_model *m, bool leaves_tables, bool ties_embeddings);

// Axolotl's _convert_embedding_modules_dtype (loaders/model.py): casts the embedding of tokens and the head, norms and
// routers, and with them the hidden states.
enum { PLIM_END_TABLE = 1, PLIM_END_NORM = 2, PLIM_END_GATE = 4, PLIM_ENDS = 7 };
void plim_retype_ends(plim_tape *t, plim_model *m, bool ties_embeddings, unsigned kinds,
                      plim_dtype dtype);

#endif
