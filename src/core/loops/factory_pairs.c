// DPO, ORPO and SimPO as LLaMA-Factory computes them (train/dpo/trainer.py, July 2026): a trainer of its own on TRL's class
// of 2025. It holds all logits in float32 and the log-probabilities of the whole vocabulary, and with a reference model the
// policy's stay while the reference runs.
#include "kernels.h"
#include "ops.h"
#include "preference_impl.h"
#include "tape_state.h"
#include "wrapper.h"

#include "op_names.h"

// What concatenated_forward returns, in the order of its dict. `sums` and `logits` have both answers.
typedef struct {
  plim_tensor *sums, *logits, *chosen, *rejected, *average;
} forward_output;

// Variables of get_batch_loss_metrics, in the order in which Python frees them.
typedef struct {
  forward_output policy, reference;
  plim_tensor *losses, *chosen_reward, *rejected_reward, *text_loss;
} variables;

static void drop_output(plim_tape *t, forward_output *o) {
  drop_all(t, &o->sums, &o->chosen, &o->rejected, &o->logits, &o->average);
}

// ---- log-probabilities --------------------------------------------------------------------------------

// gather(logits.log_softmax(-1), labels), of logits without their last tokens: the kernel reads a copy of them.
static plim_tensor *log_probs_of(plim_tape *t, plim_tensor *logits, plim_tensor *labels) {
  plim_tensor *logs = NULL;
  set(t, &logs, log_softmax(t, logits));
  plim_consume(t, empty(t, logits->shape, (plim_dtype)logits->dtype));
  plim_tensor *out = gather_each(t, logs, labels);
  drop(t, &logs);
  return out;
}

// get_batch_logps: the sum of each row's log-probabilities; *lengths becomes the tokens that count.
static plim_tensor *sums_of_rows(plim_tape *t, plim_tensor *logits, plim_tensor **lengths) {
  plim_tensor *labels = NULL, *shifted = NULL, *counts = NULL, *per_token = NULL;
  int64_t rows = logits->shape.at[0], length = logits->shape.at[1];
  set(t, &labels, empty(t, dims(rows, length - 1), PLIM_I64));
  set(t, &shifted, slice(t, logits, 1, 0, length - 1));
  set(t, &counts, empty(t, labels->shape, PLIM_BOOL));
  plim_consume(t, empty(t, labels->shape, PLIM_BOOL)); // labels[labels == -100] = 0
  set(t, &per_token, view(t, log_probs_of(t, shifted, labels), labels->shape));
  set(t, lengths, empty(t, dims(rows), PLIM_I64));
  plim_consume(t, empty(t, counts->shape, PLIM_I64));
  plim_tensor *sums = sum_dim(t, mul(t, per_token, counts), 1, false, PLIM_FP32);
  drop_all(t, &shifted, &labels, &counts, &per_token);
  return sums;
}

// nested_detach(batch, clone=True): ids, mask and labels.
static plim_batch clone_of(plim_tape *t, const plim_batch *batch, plim_tensor **copies) {
  plim_batch b = *batch;
  for (int i = 0; i < 3; i++) set(t, &copies[i], k_like(t, batch->ids));
  b.ids = copies[0], b.mask = copies[1];
  return b;
}

static void forward(plim_tape *t, plim_model *m, const plim_recipe *r, const plim_batch *batch,
                    forward_output *out) {
  plim_tensor *copies[3] = {0}, *lengths = NULL;
  bool has_reference = plim_method_has_reference(r->method);
  plim_batch b = has_reference ? clone_of(t, batch, copies) : *batch;
  set(t, &out->logits, prefer_call_model(t, m, r, &b));
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  set(t, &out->logits, to(t, out->logits, PLIM_FP32));
  plim_tape_at(t, "log-probabilities");
  set(t, &out->sums, sums_of_rows(t, out->logits, &lengths));
  plim_tape_purpose(t, was);
  if (!has_reference) set(t, &out->sums, divide(t, out->sums, lengths));
  split(t, out->sums, &out->chosen, &out->rejected);
  set(t, &out->average,
      has_reference ? divide(t, out->chosen, slice_rows(t, lengths, 0, r->batch)) : out->chosen);
  drop_all(t, &copies[0], &copies[1], &copies[2], &lengths);
}

static void forward_reference(plim_tape *t, plim_model *m, const plim_recipe *r, plim_batch b,
                              forward_output *out) {
  bool is_own = m->reference != NULL, was = set_grad_mode(t, false);
  b.checkpoint = PLIM_CHECKPOINT_OFF;
  plim_state(t)->skips_adapters = !is_own;
  forward(t, is_own ? m->reference : m, r, &b, out);
  plim_state(t)->skips_adapters = false;
  set_grad_mode(t, was);
  drop_all(t, &out->logits, &out->average);
}

// ---- losses -------------------------------------------------------------------------------------------

// dpo_loss of TRL: x - 1 * reference
static plim_tensor *ratio(plim_tape *t, const plim_tensor *sums, const plim_tensor *reference) {
  plim_tensor *times = k_unary(t, reference), *out = k_unary(t, sums);
  plim_consume(t, times);
  return out;
}

static plim_tensor *reward(plim_tape *t, const plim_tensor *sums) {
  plim_tensor *difference = k_unary(t, sums), *out = k_unary(t, difference);
  plim_consume(t, difference);
  return out;
}

static void set_dpo_losses(plim_tape *t, variables *v) {
  plim_tensor *ratios[2] = {0}, *own = NULL, *reference = NULL, *logits = NULL;
  set(t, &ratios[0], ratio(t, v->policy.chosen, v->reference.chosen));
  set(t, &ratios[1], ratio(t, v->policy.rejected, v->reference.rejected));
  set(t, &own, sub(t, v->policy.chosen, v->policy.rejected));
  set(t, &reference, sub(t, v->reference.chosen, v->reference.rejected));
  set(t, &logits, sub(t, own, reference));
  plim_tensor *right = mul_scalar(t, neg(t, log_sigmoid(t, mul_scalar(t, logits))));
  plim_tensor *wrong = mul_scalar(t, log_sigmoid(t, mul_scalar(t, logits)));
  set(t, &v->losses, sub(t, right, wrong));
  set(t, &v->chosen_reward, reward(t, v->policy.chosen));
  set(t, &v->rejected_reward, reward(t, v->policy.rejected));
  drop_all(t, &ratios[0], &ratios[1], &logits, &own, &reference);
}

static plim_tensor *log_of_rest(plim_tape *t, plim_tensor *x) {
  return log1p_(t, neg(t, exp_(t, x)));
}

static void set_odds_losses(plim_tape *t, variables *v) {
  plim_tensor *text = NULL, *odds = NULL, *chosen = v->policy.chosen,
              *rejected = v->policy.rejected;
  plim_tensor *difference = sub(t, chosen, rejected);
  plim_tensor *first = log_of_rest(t, chosen), *second = log_of_rest(t, rejected);
  plim_tensor *log_odds = sub(t, difference, sub(t, first, second));
  set(t, &text, neg(t, chosen));
  set(t, &odds, neg(t, log_sigmoid(t, log_odds)));
  set(t, &v->losses, add(t, text, mul_scalar(t, odds)));
  drop_all(t, &text, &odds);
}

static void set_margin_losses(plim_tape *t, variables *v) {
  plim_tensor *ratios = NULL, *logits = NULL;
  set(t, &ratios, sub(t, v->policy.chosen, v->policy.rejected));
  set(t, &logits, add_scalar(t, ratios));
  set(t, &v->losses, neg(t, log_sigmoid(t, mul_scalar(t, logits))));
  drop_all(t, &ratios, &logits);
}

static void set_losses(plim_tape *t, const plim_recipe *r, variables *v) {
  if (r->method == PLIM_METHOD_DPO_FACTORY) {
    set_dpo_losses(t, v);
    return;
  }
  if (r->method == PLIM_METHOD_ORPO_FACTORY) set_odds_losses(t, v);
  else set_margin_losses(t, v);
  set(t, &v->chosen_reward, k_unary(t, v->policy.chosen));
  set(t, &v->rejected_reward, k_unary(t, v->policy.rejected));
}

// ---- numbers that are logged --------------------------------------------------------------------------

static void read_means(plim_tape *t, int count) {
  for (int i = 0; i < count; i++) plim_consume(t, prefer_number(t, PLIM_FP32));
}

static void read_mean_of_half(plim_tape *t, const plim_recipe *r, plim_tensor *logits) {
  plim_dims half = logits->shape;
  half.at[0] = r->batch;
  bool was = set_grad_mode(t, false);
  plim_consume(t, mean_all(t, alias_of(t, logits, half, logits->stride)));
  set_grad_mode(t, was);
}

static void log_numbers(plim_tape *t, const plim_recipe *r, const variables *v) {
  read_means(t, 2);
  plim_tensor *is_larger = empty(t, v->chosen_reward->shape, PLIM_BOOL);
  plim_tensor *accuracies = k_unary(t, v->chosen_reward);
  plim_consume(t, is_larger);
  plim_tensor *accuracy = prefer_number(t, PLIM_FP32);
  plim_consume(t, accuracies);
  plim_consume(t, accuracy);
  plim_tensor *margins = k_unary(t, v->chosen_reward), *margin = prefer_number(t, PLIM_FP32);
  plim_consume(t, margins);
  plim_consume(t, margin);
  read_means(t, 2);
  for (int i = 0; i < 2; i++) read_mean_of_half(t, r, v->policy.logits);
  if (r->method != PLIM_METHOD_ORPO_FACTORY) return;
  read_means(t, 1);
  plim_tensor *rest = k_unary(t, v->losses), *share = k_unary(t, rest);
  plim_consume(t, rest);
  plim_tensor *mean = prefer_number(t, PLIM_FP32);
  plim_consume(t, share);
  plim_consume(t, mean);
}

// ---- the loss -----------------------------------------------------------------------------------------

plim_tensor *prefer_factory_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                 const plim_batch *batch) {
  variables v = {0};
  plim_tensor *loss = NULL;
  bool has_reference = plim_method_has_reference(r->method);
  forward(t, m, r, batch, &v.policy);
  if (has_reference) forward_reference(t, m, r, *batch, &v.reference);
  set_losses(t, r, &v);
  set(t, &v.text_loss, neg(t, v.policy.average));
  log_numbers(t, r, &v);
  set(t, &loss, mean_all(t, v.losses));
  plim_tensor *out = give(t, &loss);
  drop_output(t, &v.policy);
  drop_output(t, &v.reference);
  drop_all(t, &v.losses, &v.chosen_reward, &v.rejected_reward);
  drop_graph(t, v.text_loss);
  drop(t, &v.text_loss);
  return out;
}
