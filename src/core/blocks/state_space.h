// The mixer of Mamba 2 (Mamba2ForCausalLM, Bamba, Falcon-H1, Granite 4, Nemotron-H), as transformers computes it in PyTorch, without
// mamba-ssm and causal-conv1d, or by their kernels, which the package kernels fetches.
#ifndef PLIM_CORE_STATE_SPACE_H
#define PLIM_CORE_STATE_SPACE_H

#include "decoder.h"

typedef struct {
  plim_linear in_proj, out_proj;
  plim_tensor *conv1d, *conv_bias;          // (C,1,K), (C)
  plim_tensor *step_bias, *rate_log, *skip; // (H): dt_bias, A_log, D
  plim_tensor *norm;                        // (width); NULL: none
  plim_tensor *scale;                       // (1,1,projected): mup_vector; NULL: none
} plim_state_space;

// For a family's `unfollowed`: sizes that do not fit together.
const char *plim_state_space_unfollowed(const plim_config *c);

// Of plim_state_space: at "mamba" in its layer, and at "mixer"; the last one initialises itself in float32, and again when
// it is loaded.
extern const plim_mixer plim_state_space_mixer, plim_state_block_mixer, plim_state_only_mixer;
// The paths of a layer whose MLP is called feed_forward.
extern const plim_decoder_paths plim_feed_forward_paths;
// x is (B,T,h). mask is (B,T), 0 where there is padding; NULL: there is none.
plim_tensor *plim_state_space_forward(plim_tape *t, const plim_state_space *n, const plim_config *c,
                                      plim_tensor *x, plim_tensor *mask);

#endif
