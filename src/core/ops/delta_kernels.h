// The gated delta rule and what stands around it, by the packages flash-linear-attention (FLA) 0.4.1 and causal-conv1d 1.6.
#ifndef PLIM_CORE_DELTA_KERNELS_H
#define PLIM_CORE_DELTA_KERNELS_H

#include "tape.h"

// FLA's chunk_gated_delta_rule with use_qk_l2norm_in_kernel=True. query and key are (B,T,H,K), value is (B,T,H,V), decay
// ("g") and beta are (B,T,H). Returns (B,T,H,V).
plim_tensor *plim_fla_delta_rule(plim_tape *t, plim_tensor *query, plim_tensor *key,
                                 plim_tensor *value, plim_tensor *decay, plim_tensor *beta);
// FLA's FusedRMSNormGated: norm(x) * silu(gate). x and gate are (N,D).
plim_tensor *plim_fla_gated_norm(plim_tape *t, plim_tensor *x, plim_tensor *gate,
                                 plim_tensor *weight);
// FLA's causal_conv1d with an activation. x is (B,T,C), weight is (C,K).
plim_tensor *plim_fla_conv1d(plim_tape *t, plim_tensor *x, plim_tensor *weight);
// causal_conv1d_fn of causal-conv1d with an activation. x is (B,C,T), weight is (C,K).
plim_tensor *plim_package_conv1d(plim_tape *t, plim_tensor *x, plim_tensor *weight);

#endif
