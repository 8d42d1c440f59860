// The state space of Mamba 2 by the packages mamba-ssm 2.3 and causal-conv1d, whose kernels transformers fetches.
#ifndef PLIM_CORE_STATE_KERNELS_H
#define PLIM_CORE_STATE_KERNELS_H

#include "tape.h"

// projected is (B,T,2*width+2*G*S+H): gate, what the convolution takes, steps. conv1d is (C,K), conv_bias (C); step_bias,
// rates ("A") and skip ("D") are (H); norm is (width). conv_bias and norm may be NULL.
typedef struct {
  plim_tensor *projected, *conv1d, *conv_bias, *step_bias, *rates, *skip, *norm;
  int64_t width, groups, size, chunk; // size: of the state ("S"); chunk: tokens
} plim_split_scan;

// mamba_split_conv1d_scan_combined without the projection at its end: convolution, scan, and the norm with the gate.
// Returns (B,T,width).
plim_tensor *plim_mamba_split_scan(plim_tape *t, const plim_split_scan *in);

#endif
