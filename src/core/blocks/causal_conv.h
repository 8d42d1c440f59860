// A short convolution along the sequence that does not look ahead: causal_conv1d_fn of transformers, in PyTorch.
#ifndef PLIM_CORE_CAUSAL_CONV_H
#define PLIM_CORE_CAUSAL_CONV_H

#include "config.h"
#include "tape.h"

// x is (B,C,T), weight (C,1,K); bias may be NULL. PLIM_ACT_UNKNOWN: no activation.
plim_tensor *plim_causal_conv(plim_tape *t, plim_tensor *weight, plim_tensor *bias,
                              plim_activation activation, plim_tensor *x);

#endif
