// Rotary positions: the frequencies of a model, plain or scaled for long texts ("rope_scaling").
#ifndef PLIM_CORE_ROPE_H
#define PLIM_CORE_ROPE_H

#include "config.h"
#include "tape.h"

// The buffers of a RotaryEmbedding.
typedef struct {
  plim_tensor *inv_freq, *original,
      *scaled; // scaled: longrope's, of texts past the original length
} plim_rope_buffers;

// Builds the module, and what building the model around it makes once more and throws away.
void plim_rope_new(plim_tape *t, const plim_config *c, plim_rope_buffers *out);

// What the module does before each forward: some kinds look at the length and change frequencies.
void plim_rope_update(plim_tape *t, const plim_config *c, plim_rope_buffers *b, int64_t length);

#endif
