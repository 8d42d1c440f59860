// What decoders with rotary positions share: what is made before the first layer, how a layer is
// called, and the head's weight.
#ifndef PLIM_CORE_DECODER_H
#define PLIM_CORE_DECODER_H

#include "config.h"
#include "modules.h"
#include "rope.h"

// Variables of the model's forward.
typedef struct {
  plim_tensor *embedded, *positions, *full_mask, *sliding_mask, *cos, *sin;
} plim_decoder_inputs;

// Everything but `embedded`, which is there: positions, masks, cos and sin.
void plim_decoder_prepare(plim_tape *t, const plim_config *c, const plim_batch *batch,
                          plim_rope_buffers *rope, plim_decoder_inputs *in);
// Lets go of all of them, in the order in which the forward's frame does.
void plim_decoder_release(plim_tape *t, const plim_config *c, plim_decoder_inputs *in);

// What a layer finds in `held`, in the order they go: the mask, then the positions before or behind
// the pair of cos and sin, a tuple, which lets go of its last item first.
enum { PLIM_HELD_MASK };
#define PLIM_HELD_POSITIONS(c) ((c)->passes_positions_first ? 1 : 3)
#define PLIM_HELD_SIN(c) ((c)->passes_positions_first ? 2 : 1)
#define PLIM_HELD_COS(c) (PLIM_HELD_SIN(c) + 1)

// Calls layer number `layer`, checkpointed or not.
plim_tensor *plim_decoder_call(plim_tape *t, const plim_config *c, const plim_batch *batch,
                               const plim_decoder_inputs *in, int64_t layer,
                               plim_checkpointed_fn *function, const void *context,
                               plim_tensor *hidden);

// The weight of lm_head: the embedding's, if they are tied.
plim_tensor *plim_decoder_head(plim_tape *t, plim_model *m, const plim_config *c,
                               plim_tensor *embedding);

#endif
