// Losses as transformers writes them.
#ifndef PLIM_CORE_LOSS_H
#define PLIM_CORE_LOSS_H

#include "tape.h"

#define causal_loss(...) plim_causal_loss(__VA_ARGS__)
#define masked_loss(...) plim_masked_loss(__VA_ARGS__)
#define mean_square(...) plim_mean_square(__VA_ARGS__)

// The loss of a causal language model: logits in float32, labels shifted by one. `items` is the
// number of items the sum is divided by; NULL: the mean.
plim_tensor *causal_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels,
                         plim_tensor *items);

// The loss of a masked language model: the mean, in the dtype of the logits.
plim_tensor *masked_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels);

// hidden.float().pow(2).mean(): what stands in for a loss where a model has none.
plim_tensor *mean_square(plim_tape *t, plim_tensor *hidden);

#endif
