// Multi-head latent attention (DeepSeek): queries, keys and values are projected through narrow latents, and a part of
// each head is rotated, which all keys share.
#ifndef PLIM_CORE_LATENT_H
#define PLIM_CORE_LATENT_H

#include "modules.h"

typedef struct {
  plim_linear q_a_proj,
      q_b_proj; // without a weight if the configuration has no latent of the queries
  plim_linear kv_a_proj, kv_b_proj;
  plim_tensor *q_a_norm, *kv_a_norm;
} plim_latent;

struct plim_decoder_layer;

// Makes the projections of a layer, o_proj included, in the order of the constructor.
void plim_latent_new(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype d,
                     struct plim_decoder_layer *l);
// self_attn, as plim_decoder_attention.
plim_tensor *plim_latent_attention(plim_tape *t, const struct plim_decoder_layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights);
// Visits the latents' parameters that come before (after: false) or after o_proj in the order of names.
void plim_latent_visit(const plim_latent *a, bool after, plim_visit *visit, void *context);

#endif
