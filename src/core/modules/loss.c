#include "loss.h"

#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

const char *const plim_loss_names[PLIM_LOSS_COUNT + 1] = {
    [PLIM_LOSS_FULL] = "full",
    [PLIM_LOSS_CHUNKED] = "chunked",
    [PLIM_LOSS_FUSED] = "fused",
    [PLIM_LOSS_LOOP] = "chunked-loop",
    [PLIM_LOSS_CONTRASTIVE] = "contrastive",
    [PLIM_LOSS_EIGHTHS] = "eighths",
    [PLIM_LOSS_LISTED] = "eighths-listed",
};

plim_tensor *plim_causal_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels,
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
  drop_all(t, &wide, &padded, &shifted);
  return loss;
}

// Autocast runs only the second half of cross_entropy (nll_loss) in float32.
plim_tensor *plim_masked_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels) {
  plim_tensor *rows = view(t, logits, dims(-1, logits->shape.at[2]));
  plim_tensor *target = view(t, labels, dims(-1));
  plim_tensor *scores = log_softmax(t, rows);
  if (plim_autocast_is_on(t)) scores = to(t, scores, PLIM_FP32);
  return nll_loss(t, scores, target);
}

plim_tensor *plim_mean_square(plim_tape *t, plim_tensor *hidden) {
  return mean_all(t, square(t, to(t, hidden, PLIM_FP32)));
}

// ---- in chunks ------------------------------------------------------------------------------------

enum { HELD_WEIGHT, HELD_TARGETS };

// adjusted(logits, config): as they are, logits / divisor, or cap * tanh(logits / cap)
static plim_tensor *adjusted(plim_tape *t, plim_logits kind, plim_tensor *logits) {
  if (kind == PLIM_LOGITS_PLAIN) return logits;
  bool was = hold(logits);
  plim_tensor *out = div_scalar(t, logits);
  if (kind == PLIM_LOGITS_CAPPED) out = mul_scalar(t, tanh_(t, out));
  let_go(t, logits, was);
  return out;
}

// What a closure's context points at.
static const plim_logits kinds[] = {PLIM_LOGITS_PLAIN, PLIM_LOGITS_CAPPED, PLIM_LOGITS_DIVIDED};

// cross_entropy(adjusted(hidden @ weight.t(), config).float(), targets, reduction="sum")
static plim_tensor *chunk_loss(plim_tape *t, const void *context, plim_tensor *const *held,
                               plim_tensor *hidden) {
  plim_tensor *wide = NULL;
  plim_tensor *logits = matmul2(t, hidden, transpose(t, held[HELD_WEIGHT], 0, 1));
  logits = adjusted(t, *(const plim_logits *)context, logits);
  set(t, &wide, to(t, logits, PLIM_FP32));
  plim_tensor *loss = nll_loss(t, log_softmax(t, wide), held[HELD_TARGETS]);
  drop(t, &wide);
  return loss;
}

void plim_chunked_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight, plim_tensor *targets,
                       int64_t chunk, plim_logits logits, plim_tensor **loss) {
  int64_t rows = hidden->shape.at[0];
  // After a failure the loop ends early: thousands of further chunks would not fit into the tape's reserve.
  for (int64_t from = 0; from < rows && !(*loss && plim_tape_failed(t)); from += chunk) {
    int64_t end = from + chunk < rows ? from + chunk : rows;
    plim_tensor *piece = NULL, *wanted = NULL;
    set(t, &piece, slice_rows(t, hidden, from, end));
    set(t, &wanted, slice_rows(t, targets, from, end));
    plim_closure call = {chunk_loss, &kinds[logits], {weight, wanted}, .positional = 2};
    plim_tensor *part = checkpoint(t, call, piece);
    set(t, loss, *loss ? add(t, *loss, part) : add_scalar(t, part));
    drop(t, &piece);
    drop(t, &wanted);
  }
}

// (labels != -100).sum()
static plim_tensor *count_wanted(plim_tape *t, const plim_tensor *targets) {
  plim_tensor *is_wanted = empty(t, targets->shape, PLIM_BOOL);
  plim_tensor *sum = empty(t, (plim_dims){0}, PLIM_I64);
  plim_consume(t, empty(t, targets->shape, PLIM_I64));
  plim_consume(t, is_wanted);
  return sum;
}

plim_tensor *plim_chunked_causal_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                      plim_tensor *labels, plim_tensor *items, int64_t chunk,
                                      plim_logits logits) {
  int64_t length = labels->shape.at[1];
  plim_tensor *rows = NULL, *targets = NULL, *total = NULL, *counted = NULL;
  set(t, &rows, slice(t, hidden, 1, 0, length - 1));
  set(t, &rows, reshape(t, rows, dims(-1, rows->shape.at[2])));
  set(t, &targets, reshape(t, slice(t, labels, 1, 1, length), dims(-1)));
  plim_chunked_loss(t, rows, weight, targets, chunk, logits, &total);
  if (!items) set(t, &counted, count_wanted(t, targets));
  plim_tensor *loss = divide(t, total, items ? items : counted);
  drop(t, &total);
  drop(t, &rows);
  drop(t, &targets);
  drop(t, &counted);
  return loss;
}

// ---- in eighths -----------------------------------------------------------------------------------

enum { EIGHTHS = 8 }; // num_output_chunks

static plim_tensor *eighth_of(plim_tape *t, plim_tensor *x, int64_t i) {
  int64_t length = x->shape.at[1], part = (length + EIGHTHS - 1) / EIGHTHS;
  int64_t from = i * part, end = from + part < length ? from + part : length;
  return from < end ? slice(t, x, 1, from, end) : NULL;
}

static plim_tensor *eighth_logits(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                  int64_t i) {
  plim_tensor *piece = eighth_of(t, hidden, i);
  if (!piece) return NULL;
  piece = reshape(t, piece, dims(-1, hidden->shape.at[2]));
  return linear(t, piece, weight, NULL);
}

// cross_entropy(logits.float(), targets, reduction="sum")
static plim_tensor *eighth_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels, int64_t i) {
  plim_tensor *targets = NULL, *wide = NULL;
  set(t, &targets, reshape(t, eighth_of(t, labels, i), dims(-1)));
  set(t, &wide, to(t, logits, PLIM_FP32));
  plim_tensor *loss = nll_loss(t, log_softmax(t, wide), targets);
  drop_all(t, &wide, &targets);
  return loss;
}

plim_tensor *plim_eighths_causal_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                      plim_tensor *labels, bool is_listed) {
  plim_tensor *listed[EIGHTHS] = {0}, *total = NULL, *counted = NULL;
  bool was = hold(hidden);
  set(t, &counted, count_wanted(t, labels));
  for (int64_t i = 0; is_listed && i < EIGHTHS; i++)
    set(t, &listed[i], eighth_logits(t, hidden, weight, i));
  for (int64_t i = 0; i < EIGHTHS; i++) {
    if (!is_listed) set(t, &listed[i], eighth_logits(t, hidden, weight, i));
    if (!listed[i]) continue;
    plim_tensor *part = eighth_loss(t, listed[i], labels, i);
    set(t, &total, total ? add(t, total, part) : add_scalar(t, part));
    if (!is_listed) drop(t, &listed[i]);
  }
  plim_tensor *loss = divide(t, total, counted);
  for (int64_t i = 0; i < EIGHTHS; i++) drop(t, &listed[i]);
  drop_all(t, &total, &counted);
  let_go(t, hidden, was);
  return loss;
}
