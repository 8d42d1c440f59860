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

// Autocast runs the second half of cross_entropy in float32, not the first.
plim_tensor *masked_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels) {
  plim_tensor *rows = view(t, logits, dims(-1, logits->shape.at[2]));
  plim_tensor *target = view(t, labels, dims(-1));
  plim_tensor *scores = log_softmax(t, rows);
  if (plim_autocast_is_on(t)) scores = to(t, scores, PLIM_FP32);
  return nll_loss(t, scores, target);
}

plim_tensor *mean_square(plim_tape *t, plim_tensor *hidden) {
  return mean_all(t, square(t, to(t, hidden, PLIM_FP32)));
}
