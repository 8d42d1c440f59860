// Rotary position embeddings: the frequencies of a model, plain or scaled for long texts ("rope_scaling"), and their
// application to queries and keys.
#ifndef PLIM_CORE_ROPE_H
#define PLIM_CORE_ROPE_H

#include "config.h"
#include "tape.h"

// The buffers of a RotaryEmbedding.
typedef struct {
  plim_tensor *inv_freq, *original;
  plim_tensor *scaled; // longrope: for texts longer than the original length
} plim_rope_buffers;

// Builds the module. Building the model around it computes the frequencies a second time and frees them.
void plim_rope_new(plim_tape *t, const plim_config *c, plim_rope_buffers *out);

// The module's work before each forward: some kinds look at the length and change the frequencies.
void plim_rope_update(plim_tape *t, const plim_config *c, plim_rope_buffers *b, int64_t length);

// The plain frequencies of n pairs.
plim_tensor *plim_inverse_frequencies(plim_tape *t, int64_t n);

// The module's forward: sets two variables of shape (1,T,D).
void plim_rotary(plim_tape *t, const plim_tensor *inv_freq, int64_t length, plim_dtype dtype,
                 plim_tensor **cos, plim_tensor **sin);

// Rotates queries and keys, both variables, by their positions.
void plim_apply_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                     plim_tensor **k);
// The same if cos and sin are float32: rotates in float32 and converts both back to their own type.
void plim_apply_wide_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                          plim_tensor **k);
// Rotates only the first part of each head, as wide as cos, and concatenates the rest, which may be empty: right away,
// or (joins_last) after both are rotated.
void plim_apply_rope_parts(plim_tape *t, plim_tensor *cos, plim_tensor *sin, bool joins_last,
                           plim_tensor **q, plim_tensor **k);

#endif
