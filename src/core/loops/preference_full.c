// DPO as TRL computes it before 1.15: with all logits.
#include <stdlib.h>

#include "kernels.h"
#include "ops.h"
#include "preference_impl.h"
#include "tape_state.h"
#include "wrapper.h"

#include "op_names.h"

void prefer_logits_drop(plim_tape *t, prefer_logits *x) {
  drop_all(t, &x->wide, &x->shifted, &x->per_token);
}

// ---- log-probabilities --------------------------------------------------------------------------------

plim_tensor *prefer_select_log_probs(plim_tape *t, plim_tensor *logits, plim_tensor *labels) {
  plim_tensor *selected = NULL, *sums = NULL;
  set(t, &selected, gather_each(t, logits, labels));
  set(t, &sums, logsumexp_rows(t, logits));
  plim_tensor *out = sub(t, view(t, selected, sums->shape), sums);
  drop_all(t, &selected, &sums);
  return out;
}

plim_tensor *prefer_call_model(plim_tape *t, plim_model *m, const plim_recipe *r,
                               const plim_batch *batch) {
  plim_tensor *logits = NULL, *wide = NULL;
  plim_batch b = *batch;
  b.labels = NULL;
  plim_autocast(t, r->autocast);
  plim_saving saving_was = plim_saves(t, r->saving);
  plim_consume(t, plim_call_model(t, m, &b, &logits));
  plim_saves(t, saving_was);
  plim_autocast(t, PLIM_BOOL);
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  set(t, &wide, r->autocast == PLIM_BOOL ? logits : to(t, logits, PLIM_FP32));
  plim_tape_purpose(t, was);
  drop(t, &logits);
  return give(t, &wide);
}

void prefer_call_full(plim_tape *t, plim_model *m, const plim_recipe *r, const plim_batch *b,
                      prefer_logits *out) {
  int64_t length = b->ids->shape.at[1];
  set(t, &out->wide, prefer_call_model(t, m, r, b));
  set(t, &out->wide, to(t, out->wide, PLIM_FP32));
  set(t, &out->shifted, slice(t, out->wide, 1, 0, length - 1));
  plim_tape_at(t, "log-probabilities");
  plim_tensor *labels = slice(t, b->ids, 1, 1, length);
  plim_tensor *each = prefer_select_log_probs(t, out->shifted, labels);
  plim_tensor *is_prompt = empty(t, each->shape, PLIM_BOOL);
  set(t, &out->per_token, assign_masked(t, each, is_prompt));
  plim_consume(t, each);
}

// ---- numbers that are logged --------------------------------------------------------------------------

// The entropies of 128 rows at a time, in a list.
enum { CHUNK = 128 };

static plim_tensor *entropy_of_rows(plim_tape *t, const plim_tensor *logs) {
  plim_tensor *powers = k_unary(t, logs), *products = k_unary(t, logs);
  plim_consume(t, powers);
  plim_tensor *sums = k_sum(t, products, 1u << 1, false, PLIM_FP32);
  plim_consume(t, products);
  plim_tensor *out = k_unary(t, sums);
  plim_consume(t, sums);
  return out;
}

plim_tensor *prefer_entropy(plim_tape *t, const plim_tensor *logits) {
  int64_t rows = logits->shape.at[0] * logits->shape.at[1], width = logits->shape.at[2];
  int64_t count = (rows + CHUNK - 1) / CHUNK;
  plim_tensor *flat = NULL, *logs = NULL, **parts = calloc((size_t)count, sizeof *parts);
  if (!parts) plim_tape_stop(t);
  set(t, &flat, empty(t, dims(rows, width), PLIM_FP32));
  for (int64_t i = 0; parts && i < count; i++) {
    int64_t n = i + 1 < count ? CHUNK : rows - i * CHUNK;
    set(t, &logs, k_map(t, dims(n, width), PLIM_FP32, NULL, NULL));
    set(t, &parts[i], entropy_of_rows(t, logs));
  }
  plim_tensor *all = empty(t, dims(logits->shape.at[0], logits->shape.at[1]), PLIM_FP32);
  for (int64_t i = count - 1; parts && i-- > 0;) drop(t, &parts[i]);
  drop_all(t, &flat, &logs);
  if (parts) drop(t, &parts[count - 1]);
  free(parts);
  return all;
}

void prefer_sum_logits(plim_tape *t, plim_tensor *logits, int64_t scored, plim_tensor **sum,
                       plim_tensor **tokens) {
  plim_tensor *mask = NULL;
  set(t, &mask, empty(t, dims(logits->shape.at[0], logits->shape.at[1]), PLIM_BOOL));
  bool was = set_grad_mode(t, false);
  plim_tensor *found = index_masked(t, logits, mask, scored);
  set_grad_mode(t, was);
  drop(t, &mask);
  plim_tensor *means = k_sum(t, found, 1u << 1, false, (plim_dtype)found->dtype);
  plim_consume(t, found);
  set(t, sum, prefer_number(t, PLIM_FP32));
  plim_consume(t, means);
  set(t, tokens, prefer_number(t, PLIM_I64));
}

static void log_logits(plim_tape *t, const plim_recipe *r, plim_tensor *shifted) {
  plim_tensor *sums[2] = {0}, *tokens[2] = {0};
  plim_dims half = shifted->shape;
  half.at[0] /= 2;
  for (int i = 0; i < 2; i++)
    prefer_sum_logits(t, view_of(t, shifted, half, shifted->stride), prefer_scored(r, i), &sums[i],
                      &tokens[i]);
  for (int i = 0; i < 2; i++) {
    prefer_gather_and_read(t, &sums[i]);
    prefer_gather_and_read(t, &tokens[i]);
  }
}

// (logits.argmax(-1) == labels) & mask, of the chosen half
static void log_accuracy(plim_tape *t, prefer_variables *v, const plim_tensor *shifted,
                         plim_tensor **predictions, plim_tensor **mask) {
  plim_dims half = dims(shifted->shape.at[0] / 2, shifted->shape.at[1]);
  set(t, predictions, empty(t, half, PLIM_I64));
  set(t, mask, empty(t, half, PLIM_BOOL));
  plim_tensor *is_equal = empty(t, half, PLIM_BOOL);
  set(t, &v->correct, empty(t, half, PLIM_BOOL));
  plim_consume(t, is_equal);
  plim_tensor *count = prefer_number(t, PLIM_I64);
  plim_consume(t, empty(t, half, PLIM_I64));
  set(t, &v->tokens, count);
  prefer_log_correct(t, v);
}

// ---- the loss -----------------------------------------------------------------------------------------

static void call_reference(plim_tape *t, plim_model *m, const plim_recipe *r, plim_batch b,
                           prefer_logits *out) {
  bool is_own = m->reference != NULL, was = set_grad_mode(t, false);
  b.checkpoint = PLIM_CHECKPOINT_OFF;
  plim_state(t)->skips_adapters = !is_own;
  prefer_call_full(t, is_own ? m->reference : m, r, &b, out);
  plim_state(t)->skips_adapters = false;
  set_grad_mode(t, was);
}

plim_tensor *prefer_full_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                              const plim_batch *batch) {
  prefer_variables v = {0};
  prefer_logits policy = {0}, reference = {0};
  plim_tensor *entropy = NULL, *predictions = NULL, *mask = NULL;
  prefer_call_full(t, m, r, batch, &policy);
  prefer_sum_rows(t, policy.per_token, &v.log_probs, &v.chosen, &v.rejected);
  if (r->reference == PLIM_REFERENCE_PRECOMPUTED) {
    set(t, &v.reference_chosen, batch->reference_chosen);
    set(t, &v.reference_rejected, batch->reference_rejected);
  } else {
    call_reference(t, m, r, *batch, &reference);
    prefer_sum_rows(t, reference.per_token, &v.reference_log_probs, &v.reference_chosen,
                    &v.reference_rejected);
  }
  prefer_set_loss(t, &v);
  set(t, &entropy, prefer_entropy(t, policy.shifted));
  prefer_log_entropy(t, &v, entropy);
  prefer_log_tokens(t);
  log_logits(t, r, policy.shifted);
  log_accuracy(t, &v, policy.shifted, &predictions, &mask);
  prefer_log_rewards(t, &v);
  plim_tensor *loss = give(t, &v.loss);
  prefer_logits_drop(t, &policy);
  drop_all(t, &v.log_probs, &v.chosen, &v.rejected);
  prefer_logits_drop(t, &reference);
  drop_all(t, &v.reference_log_probs, &v.reference_chosen, &v.reference_rejected);
  drop_all(t, &v.chosen_ratio, &v.rejected_ratio, &v.difference, &v.each, &mask, &entropy);
  drop_all(t, &v.entropy_sum, &v.tokens, &predictions, &v.correct, &v.correct_sum, &v.total);
  drop_all(t, &v.chosen_reward, &v.rejected_reward, &v.accuracies, &v.margins);
  return loss;
}
