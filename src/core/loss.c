#include "loss.h"

#include "ops.h"

const char *const plim_loss_names[PLIM_LOSS_COUNT] = {
    [PLIM_LOSS_FULL] = "full",
    [PLIM_LOSS_CHUNKED] = "chunked",
    [PLIM_LOSS_FUSED] = "fused",
};

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

// ---- in chunks ------------------------------------------------------------------------------------

enum { HELD_WEIGHT, HELD_TARGETS };

// cross_entropy((hidden @ weight.t()).float(), targets, reduction="sum")
static plim_tensor *chunk_loss(plim_tape *t, const void *context, plim_tensor *const *held,
                               plim_tensor *hidden) {
  (void)context;
  plim_tensor *wide = NULL;
  plim_tensor *logits = matmul2(t, hidden, transpose(t, held[HELD_WEIGHT], 0, 1));
  set(t, &wide, to(t, logits, PLIM_FP32));
  plim_tensor *loss = nll_loss(t, log_softmax(t, wide), held[HELD_TARGETS]);
  drop(t, &wide);
  return loss;
}

void chunked_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight, plim_tensor *targets,
                  int64_t chunk, plim_tensor **loss) {
  int64_t rows = hidden->shape.at[0];
  for (int64_t from = 0; from < rows; from += chunk) {
    int64_t end = from + chunk < rows ? from + chunk : rows;
    plim_tensor *piece = NULL, *wanted = NULL;
    set(t, &piece, slice_rows(t, hidden, from, end));
    set(t, &wanted, slice_rows(t, targets, from, end));
    plim_closure call = {chunk_loss, NULL, {weight, wanted}};
    plim_tensor *part = checkpoint(t, call, piece);
    set(t, loss, *loss ? add(t, *loss, part) : add_scalar(t, part));
    drop(t, &piece);
    drop(t, &wanted);
  }
}
