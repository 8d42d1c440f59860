// Rotary position embeddings: the frequencies of a model, plain or scaled for long texts ("rope_scaling"), and their
// application to queries and keys.
#ifndef PLIM_CORE_ROPE_H
#define PLIM_CORE_ROPE_H

#include "config.h"
#include "tape.h"

// The buffers of a RotaryEmbedding.
typedef struct {
  plim_tensor *inv_freq, *original;
  plim_tensor *cos, *sin; // of all positions: plim_rope_cache
  plim_tensor *scaled;    // longrope: for texts longer than the original length
  double share;           // proportional: of the head, set before the module is built
} plim_rope_buffers;

// Builds the module for heads of which `width` elements are rotated.
void plim_rope_new(plim_tape *t, plim_rope_kind kind, int64_t width, plim_rope_buffers *out);
// When the weights of the model around it are initialised, the frequencies are computed again: sets a variable.
void plim_rope_init(plim_tape *t, plim_rope_kind kind, const plim_rope_buffers *b,
                    plim_tensor **again);

// The module's work before each forward: some kinds look at the length and change the frequencies.
void plim_rope_update(plim_tape *t, const plim_config *c, plim_rope_buffers *b, int64_t length);

// The plain frequencies of n pairs.
plim_tensor *plim_inverse_frequencies(plim_tape *t, int64_t n);
plim_tensor *plim_inverse_powers(plim_tape *t, int64_t n); // from a range of integers

// The module's forward: sets two variables of shape (1,T,D), or (1,T,D/2) if is_half.
void plim_rotary(plim_tape *t, plim_tensor *inv_freq, int64_t length, plim_dtype dtype,
                 bool is_half, plim_tensor **cos, plim_tensor **sin);

// The same of a layer's own module, before transformers 4.48, which scales neither.
void plim_layer_rotary(plim_tape *t, plim_tensor *inv_freq, int64_t length, plim_dtype dtype,
                       plim_tensor **cos, plim_tensor **sin);
// The same for positions of three grids in every sequence of the batch: sets variables of shape (B,T,D).
// `is_sectioned`: the angles of the grids are put side by side.
void plim_grid_rotary(plim_tape *t, const plim_tensor *inv_freq, int64_t batch, int64_t length,
                      bool is_sectioned, plim_dtype dtype, plim_tensor **cos, plim_tensor **sin);
// The same as complex numbers: sets a variable of shape (1,T,D/2) with 8 bytes for each.
void plim_complex_rotary(plim_tape *t, const plim_tensor *inv_freq, int64_t length,
                         plim_tensor **turns);
void plim_apply_complex_rope(plim_tape *t, plim_tensor *turns, plim_tensor **q, plim_tensor **k);
// The same of (B,T,H,D) tensors, both of which are converted back at the end.
void plim_apply_complex_rope_to_rows(plim_tape *t, plim_tensor *turns, plim_tensor **q,
                                     plim_tensor **k);

// Tables of cos and sin for all positions, before transformers 4.48; and the rows of a sequence.
void plim_rope_cache(plim_tape *t, plim_rope_buffers *b, int64_t positions, plim_dtype dtype);
void plim_cached_rotary(plim_tape *t, const plim_rope_buffers *b, plim_tensor *positions,
                        plim_dtype dtype, plim_tensor **cos, plim_tensor **sin);

// Rotates queries and keys, both variables, by their positions.
void plim_apply_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                     plim_tensor **k);
// Rotates one tensor; `dim` is the dimension of its heads.
plim_tensor *plim_rotate(plim_tape *t, plim_tensor *x, plim_tensor *cos, plim_tensor *sin, int dim);
// The same if cos and sin are float32: rotates in float32 and converts both back to their own type.
void plim_apply_wide_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                          plim_tensor **k);
// The same where queries and keys are converted to float32 twice each, whatever cos and sin are.
void plim_apply_rope_widening(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                              plim_tensor **k);
// The same if cos and sin are half as wide as a head.
void plim_apply_half_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                          plim_tensor **k);
// The same if neighbours make the pairs that are rotated, not halves of the head. Uses the first half of cos and sin.
void plim_apply_interleaved_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                                 plim_tensor **k);
// Rotates only the first part of each head, as wide as cos, and concatenates the rest, which may be empty: right away,
// or (joins_last) after both are rotated.
void plim_apply_rope_parts(plim_tape *t, plim_tensor *cos, plim_tensor *sin, bool joins_last,
                           plim_tensor **q, plim_tensor **k);

// The variables of the same code where it stands in the forward of attention: the first parts, rotated, and the rest.
typedef struct {
  plim_tensor *q_part, *q_rest, *k_part, *k_rest;
} plim_rope_parts;
// The same; sets those variables.
void plim_apply_rope_keeping(plim_tape *t, plim_tensor *cos, plim_tensor *sin,
                             plim_rope_parts *parts, plim_tensor **q, plim_tensor **k);
// The same in a function, whose variables hold the parts until both are joined.
void plim_apply_rope_at_once(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                             plim_tensor **k);
// The same if neighbours make the pairs that are rotated. The first halves of cos and sin are spread over them,
// unless they are that already.
void plim_apply_rope_to_neighbours(plim_tape *t, plim_tensor *cos, plim_tensor *sin, bool is_paired,
                                   plim_tensor **q, plim_tensor **k);
// Rotates one tensor (B,T,H,D); cos and sin, (1,T,D/2), are repeated for neighbours.
plim_tensor *plim_rotate_pairs(plim_tape *t, plim_tensor *x, plim_tensor *cos, plim_tensor *sin);
// The same of whole heads; `is_wide`: in float32, and converted back.
void plim_apply_rope_to_all_neighbours(plim_tape *t, plim_tensor *cos, plim_tensor *sin,
                                       bool is_wide, plim_tensor **q, plim_tensor **k);
// The same of whole heads in float32, with cos and sin that are made for neighbours.
void plim_apply_wide_rope_to_neighbours(plim_tape *t, plim_tensor *cos, plim_tensor *sin,
                                        plim_tensor **q, plim_tensor **k);

#endif
