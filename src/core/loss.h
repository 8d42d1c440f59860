// Losses as transformers writes them.
#ifndef PLIM_CORE_LOSS_H
#define PLIM_CORE_LOSS_H

#include "tape.h"

#define causal_loss(...) plim_causal_loss(__VA_ARGS__)
#define cross_entropy(...) plim_cross_entropy(__VA_ARGS__)

// The loss of a causal language model: logits in float32, labels shifted by one. `items` is the
// number of items the sum is divided by; NULL: the mean.
plim_tensor *causal_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels,
                         plim_tensor *items);

// The mean over rows of logits, in their own dtype; autocast takes the logarithms in float32.
plim_tensor *cross_entropy(plim_tape *t, plim_tensor *logits, plim_tensor *targets);

#endif
