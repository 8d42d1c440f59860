#include "loss.h"

#include "ops.h"

plim_tensor *causal_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels,
                         plim_tensor *items) {
  int64_t batch = labels->shape.at[0], length = labels->shape.at[1];
  plim_tensor *wide = NULL, *padded = NULL, *shifted = NULL;
  set(t, &wide, to(t, logits, PLIM_FP32));
  set(t, &padded, empty(t, dims(batch, length + 1), PLIM_I64));
  set(t, &shifted, contiguous(t, slice(t, padded, 1, 1, length + 1)));
  set(t, &wide, view(t, wide, dims(-1, logits->shape.at[2])));
  set(t, &shifted, view(t, shifted, dims(-1)));
  plim_tensor *loss = nll_loss(t, log_softmax(t, wide), shifted);
  if (items) loss = divide(t, loss, items);
  drop(t, &wide);
  drop(t, &padded);
  drop(t, &shifted);
  return loss;
}

plim_tensor *cross_entropy(plim_tape *t, plim_tensor *logits, plim_tensor *targets) {
  plim_tensor *logarithms = log_softmax(t, logits);
  if (plim_autocast_is_on(t)) logarithms = to(t, logarithms, PLIM_FP32);
  return nll_loss(t, logarithms, targets);
}
