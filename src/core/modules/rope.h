// Rotary positions: the frequencies of a model, plain or scaled for long texts ("rope_scaling"), and how
// queries and keys are turned by them.
#ifndef PLIM_CORE_ROPE_H
#define PLIM_CORE_ROPE_H

#include "config.h"
#include "tape.h"

// The buffers of a RotaryEmbedding.
typedef struct {
  plim_tensor *inv_freq, *original;
  plim_tensor *scaled; // longrope's, of texts past the original length
} plim_rope_buffers;

// Builds the module, and what building the model around it makes once more and throws away.
void plim_rope_new(plim_tape *t, const plim_config *c, plim_rope_buffers *out);

// What the module does before each forward: some kinds look at the length and change frequencies.
void plim_rope_update(plim_tape *t, const plim_config *c, plim_rope_buffers *b, int64_t length);

// The plain frequencies of n pairs.
plim_tensor *plim_inverse_frequencies(plim_tape *t, int64_t n);

// The module's forward: two variables, (1,T,D) each.
void plim_rotary(plim_tape *t, const plim_tensor *inv_freq, int64_t length, plim_dtype dtype,
                 plim_tensor **cos, plim_tensor **sin);

// Queries and keys, both variables, turned by their positions.
void plim_apply_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                     plim_tensor **k);
// The same where cos and sin are float32: turned in that type, and both brought back to their own.
void plim_apply_wide_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                          plim_tensor **k);
// The same with the first part of each head, as wide as cos; the rest, which may be nothing, is put
// behind it, at once or when both are turned.
void plim_apply_rope_parts(plim_tape *t, plim_tensor *cos, plim_tensor *sin, bool joins_last,
                           plim_tensor **q, plim_tensor **k);

#endif
