#include "loss.h"

#include "modules.h"
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

// Until 4.48: logits[..., :-1, :].contiguous() and labels[..., 1:].contiguous(). Autocast runs only the second half of
// cross_entropy in float32.
static plim_tensor *shifted_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels,
                                 plim_tensor *items, bool widens) {
  int64_t length = labels->shape.at[1], words = logits->shape.at[2];
  plim_tensor *wide = NULL, *shifted = NULL, *targets = NULL;
  set(t, &wide, widens ? to(t, logits, PLIM_FP32) : logits);
  set(t, &shifted, contiguous(t, full_slices(t, slice(t, wide, 1, 0, length - 1), 1)));
  set(t, &targets, contiguous(t, slice(t, labels, 1, 1, length)));
  set(t, &shifted, view(t, shifted, dims(-1, words)));
  set(t, &targets, view(t, targets, dims(-1)));
  plim_tensor *scores = log_softmax(t, shifted);
  if (plim_autocast_is_on(t)) scores = to(t, scores, PLIM_FP32);
  plim_tensor *loss = nll_loss(t, scores, targets);
  if (items) loss = divide(t, loss, items);
  drop_all(t, &wide, &shifted, &targets);
  return loss;
}

plim_tensor *plim_own_causal_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels) {
  return shifted_loss(t, logits, labels, NULL, false);
}

plim_tensor *plim_shifted_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels) {
  return shifted_loss(t, logits, labels, NULL, true);
}

plim_tensor *plim_causal_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels,
                              plim_tensor *items) {
  int64_t batch = labels->shape.at[0], length = labels->shape.at[1];
  if (!plim_transformers_from(t, 4, 49)) return shifted_loss(t, logits, labels, items, true);
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
  plim_tensor *rows = view(t, logits, dims(-1, logits->shape.at[logits->shape.n - 1]));
  plim_tensor *target = view(t, labels, dims(-1));
  plim_tensor *scores = log_softmax(t, rows);
  if (plim_autocast_is_on(t)) scores = to(t, scores, PLIM_FP32);
  return nll_loss(t, scores, target);
}

plim_tensor *plim_wide_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels,
                            plim_tensor *items) {
  plim_tensor *wide = NULL;
  set(t, &wide, to(t, logits, PLIM_FP32));
  set(t, &wide, view(t, wide, dims(-1, logits->shape.at[2])));
  plim_tensor *loss = nll_loss(t, log_softmax(t, wide), view(t, labels, dims(-1)));
  if (items) loss = divide(t, loss, items);
  drop(t, &wide);
  return loss;
}

plim_tensor *plim_mean_square(plim_tape *t, plim_tensor *hidden) {
  return mean_all(t, square(t, to(t, hidden, PLIM_FP32)));
}

// ---- in chunks ------------------------------------------------------------------------------------

enum { HELD_WEIGHT, HELD_TARGETS, HELD_BIAS };

// adjusted(logits, config): as they are, logits / divisor, or cap * tanh(logits / cap)
static plim_tensor *adjusted(plim_tape *t, plim_logits kind, plim_tensor *logits) {
  if (kind == PLIM_LOGITS_PLAIN || kind == PLIM_LOGITS_WIDE) return logits;
  bool was = hold(logits);
  plim_tensor *out = div_scalar(t, logits);
  if (kind == PLIM_LOGITS_CAPPED) out = mul_scalar(t, tanh_(t, out));
  let_go(t, logits, was);
  return out;
}

// What a closure's context points at.
static const plim_logits kinds[] = {PLIM_LOGITS_PLAIN, PLIM_LOGITS_CAPPED, PLIM_LOGITS_DIVIDED,
                                    PLIM_LOGITS_WIDE};

// cross_entropy(adjusted(hidden.to(weight.dtype) @ weight.t() + bias, config).float(), targets, reduction="sum")
static plim_tensor *chunk_loss(plim_tape *t, const void *context, plim_tensor *const *held,
                               plim_tensor *hidden) {
  plim_tensor *wide = NULL;
  plim_tensor *weight = held[HELD_WEIGHT], *bias = held[HELD_BIAS];
  plim_tensor *narrow = to(t, hidden, (plim_dtype)weight->dtype);
  plim_tensor *logits =
      bias ? linear(t, narrow, weight, bias) : matmul2(t, narrow, transpose(t, weight, 0, 1));
  logits = adjusted(t, *(const plim_logits *)context, logits);
  set(t, &wide, to(t, logits, PLIM_FP32));
  plim_tensor *loss = nll_loss(t, log_softmax(t, wide), held[HELD_TARGETS]);
  drop(t, &wide);
  return loss;
}

void plim_chunked_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight, plim_tensor *bias,
                       plim_tensor *targets, int64_t chunk, plim_logits logits,
                       plim_tensor **loss) {
  int64_t rows = hidden->shape.at[0];
  // After a failure the loop ends early: thousands of further chunks would not fit into the tape's reserve.
  for (int64_t from = 0; from < rows && !(*loss && plim_tape_failed(t)); from += chunk) {
    int64_t end = from + chunk < rows ? from + chunk : rows;
    plim_tensor *piece = NULL, *wanted = NULL;
    set(t, &piece, slice_rows(t, hidden, from, end));
    set(t, &wanted, slice_rows(t, targets, from, end));
    plim_closure call = {
        chunk_loss, &kinds[logits], {weight, wanted, bias}, .positional = bias ? 3 : 2};
    plim_tensor *part = checkpoint(t, call, piece);
    set(t, loss, *loss ? add(t, *loss, part) : add_scalar(t, part));
    drop(t, &piece);
    drop(t, &wanted);
  }
}

plim_tensor *plim_count_labels(plim_tape *t, plim_dims shape) {
  plim_tensor *is_wanted = empty(t, shape, PLIM_BOOL);
  plim_tensor *sum = empty(t, (plim_dims){0}, PLIM_I64);
  plim_consume(t, empty(t, shape, PLIM_I64));
  plim_consume(t, is_wanted);
  return sum;
}

plim_tensor *plim_chunked_causal_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                      plim_tensor *bias, plim_tensor *labels, plim_tensor *items,
                                      int64_t chunk, plim_logits logits) {
  int64_t length = labels->shape.at[1];
  plim_tensor *rows = NULL, *targets = NULL, *total = NULL, *counted = NULL;
  set(t, &rows, slice(t, hidden, 1, 0, length - 1));
  set(t, &rows, reshape(t, rows, dims(-1, rows->shape.at[2])));
  set(t, &targets, reshape(t, slice(t, labels, 1, 1, length), dims(-1)));
  plim_chunked_loss(t, rows, weight, bias, targets, chunk, logits, &total);
  if (!items) set(t, &counted, plim_count_labels(t, targets->shape));
  plim_tensor *loss = divide(t, total, items ? items : counted);
  drop(t, &total);
  drop(t, &rows);
  drop(t, &targets);
  drop(t, &counted);
  return loss;
}

// ---- in eighths -----------------------------------------------------------------------------------

// x.tensor_split(8, dim=1)[i]: the first parts are one longer where the length is no multiple of 8
static plim_tensor *eighth_of(plim_tape *t, plim_tensor *x, int64_t i) {
  int64_t length = x->shape.at[1], part = length / PLIM_EIGHTHS, longer = length % PLIM_EIGHTHS;
  int64_t from = i * part + (i < longer ? i : longer), end = from + part + (i < longer);
  return from < end ? slice(t, x, 1, from, end) : NULL;
}

// tensor_split makes all parts before the first is used.
static void split_eighths(plim_tape *t, plim_tensor *x, plim_tensor **out) {
  for (int64_t i = 0; i < PLIM_EIGHTHS; i++) set(t, &out[i], eighth_of(t, x, i));
}

// matmul copies the piece into rows only for a weight that needs a gradient (should_fold); otherwise it runs a bmm.
static plim_tensor *logits_of(plim_tape *t, const plim_model *m, plim_tensor *piece) {
  plim_tensor *weight = m->head;
  if (m->head_a || weight->requires_grad) return plim_head_logits(t, m, piece);
  plim_tensor *turned = unsqueeze(t, transpose(t, weight, 0, 1), 0);
  turned = expand(t, turned, dims(piece->shape.at[0], -1, -1));
  return bmm(t, piece, turned);
}

static plim_tensor *eighth_logits(plim_tape *t, const plim_model *m, plim_tensor *piece) {
  plim_tensor *x = plim_part_enter(t, PLIM_PART_HEAD, piece);
  return plim_part_leave(t, PLIM_PART_HEAD, logits_of(t, m, x));
}

void plim_eighths_logits(plim_tape *t, const plim_model *m, plim_tensor *hidden,
                         plim_tensor **out) {
  plim_tensor *pieces[PLIM_EIGHTHS] = {0};
  split_eighths(t, hidden, pieces);
  for (int64_t i = 0; i < PLIM_EIGHTHS && pieces[i]; i++)
    set(t, &out[i], eighth_logits(t, m, pieces[i]));
  plim_eighths_drop(t, pieces);
}

void plim_eighths_as_rows(plim_tape *t, plim_tensor *const *logits, plim_tensor **out) {
  for (int64_t i = 0; i < PLIM_EIGHTHS && logits[i]; i++)
    set(t, &out[i], view(t, logits[i], dims(-1, logits[i]->shape.at[2])));
}

void plim_eighths_of_labels(plim_tape *t, plim_tensor *labels, plim_tensor **out) {
  for (int64_t i = 0; i < PLIM_EIGHTHS; i++) {
    plim_tensor *part = eighth_of(t, labels, i);
    if (part) set(t, &out[i], reshape(t, part, dims(-1)));
  }
}

void plim_eighths_drop(plim_tape *t, plim_tensor **list) {
  for (int64_t i = PLIM_EIGHTHS; i-- > 0;) drop(t, &list[i]);
}

void plim_add_to_running(plim_tape *t, plim_tensor **running, plim_tensor *x) {
  if (!*running) {
    set(t, running, add_scalar(t, x));
    return;
  }
  add_in_place(t, *running, x);
  plim_consume(t, x);
}

// cross_entropy(logits.float(), targets, reduction="sum")
static plim_tensor *eighth_loss(plim_tape *t, plim_tensor *logits, plim_tensor *targets) {
  plim_tensor *wide = NULL;
  set(t, &wide, to(t, logits, PLIM_FP32));
  plim_tensor *loss = nll_loss(t, log_softmax(t, wide), targets);
  drop(t, &wide);
  return loss;
}

plim_tensor *plim_listed_loss(plim_tape *t, plim_tensor *const *logits, plim_tensor *labels) {
  plim_tensor *targets[PLIM_EIGHTHS] = {0}, *rows[PLIM_EIGHTHS] = {0};
  plim_tensor *total = NULL, *counted = NULL;
  set(t, &counted, plim_count_labels(t, labels->shape));
  plim_eighths_of_labels(t, labels, targets);
  plim_eighths_as_rows(t, logits, rows);
  for (int64_t i = 0; i < PLIM_EIGHTHS && rows[i]; i++)
    plim_add_to_running(t, &total, eighth_loss(t, rows[i], targets[i]));
  plim_tensor *loss = divide(t, total, counted);
  plim_eighths_drop(t, rows);
  plim_eighths_drop(t, targets);
  drop_all(t, &counted, &total);
  return loss;
}

// The logits of one eighth at a time
static plim_tensor *split_loss(plim_tape *t, const plim_model *m, plim_tensor *hidden,
                               plim_tensor *labels) {
  plim_tensor *pieces[PLIM_EIGHTHS] = {0}, *targets[PLIM_EIGHTHS] = {0}, *total = NULL;
  plim_tensor *counted = NULL, *logits = NULL;
  set(t, &counted, plim_count_labels(t, labels->shape));
  split_eighths(t, hidden, pieces);
  plim_eighths_of_labels(t, labels, targets);
  for (int64_t i = 0; i < PLIM_EIGHTHS && pieces[i]; i++) {
    set(t, &logits, eighth_logits(t, m, pieces[i]));
    set(t, &logits, view(t, logits, dims(-1, m->head->shape.at[0])));
    plim_add_to_running(t, &total, eighth_loss(t, logits, targets[i]));
    drop(t, &logits);
  }
  plim_tensor *loss = divide(t, total, counted);
  plim_eighths_drop(t, pieces);
  plim_eighths_drop(t, targets);
  drop_all(t, &counted, &total);
  return loss;
}

plim_tensor *plim_eighths_causal_loss(plim_tape *t, const plim_model *m, plim_tensor *hidden,
                                      plim_tensor *labels, bool is_listed) {
  plim_tensor *list[PLIM_EIGHTHS] = {0};
  bool was = hold(hidden);
  if (is_listed) plim_eighths_logits(t, m, hidden, list);
  plim_tensor *loss =
      is_listed ? plim_listed_loss(t, list, labels) : split_loss(t, m, hidden, labels);
  plim_eighths_drop(t, list);
  let_go(t, hidden, was);
  return loss;
}
