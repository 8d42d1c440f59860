// The gated delta rule in place of attention (Qwen3-Next, Qwen3.5), as transformers computes it: in PyTorch, chunk by chunk,
// or by the packages that are installed (packages.h).
#ifndef PLIM_CORE_DELTA_NET_H
#define PLIM_CORE_DELTA_NET_H

#include "decoder.h"

// The packages whose kernels it may run.
#define PLIM_DELTA_NET_PACKAGES                                                                    \
  (1u << PLIM_PACKAGE_FLA | 1u << PLIM_PACKAGE_CAUSAL_CONV1D | 1u << PLIM_PACKAGE_FLA_CONV1D)

typedef struct {
  plim_linear in_proj_qkv, in_proj_z, in_proj_b, in_proj_a; // Qwen3.5's
  plim_linear in_proj_qkvz, in_proj_ba;                     // Qwen3-Next's
  plim_linear out_proj;
  plim_tensor *conv1d, *dt_bias, *a_log, *norm; // (C,1,K), (H), (H), (D)
} plim_delta_net;

// For a family's `unfollowed`: sizes that do not fit together.
const char *plim_delta_net_unfollowed(const plim_config *c);

// Of plim_delta_net: with four projections of the input, and with two.
extern const plim_mixer plim_delta_net_mixer, plim_joined_delta_net_mixer;
// x is (B,T,h). mask is (B,T), 0 where there is padding; NULL: there is none.
plim_tensor *plim_delta_net_forward(plim_tape *t, const plim_delta_net *n, const plim_config *c,
                                    plim_tensor *x, plim_tensor *mask);

#endif
