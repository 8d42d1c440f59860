// ORPO, CPO and SimPO as TRL computes them: without a reference, and with all logits of both answers.
#include "kernels.h"
#include "log_probs.h"
#include "ops.h"
#include "preference_impl.h"
#include "tape_state.h"

#include "op_names.h"

// Variables of get_batch_loss_metrics, in the order in which Python frees them, and the concatenated texts.
typedef struct {
  plim_tensor *logits, *log_probs, *chosen, *rejected, *text_loss, *losses;
  plim_tensor *chosen_rewards, *rejected_rewards, *ratio_mean, *odds_mean, *accuracies;
  plim_tensor *ids, *mask, *labels;
} variables;

// ---- texts ------------------------------------------------------------------------------------------

// pad_to_length: the texts of one half with more padding; NULL if they need none.
static plim_tensor *padded(plim_tape *t, const plim_recipe *r, int half) {
  int64_t missing = r->length - prefer_text_length(r, half);
  if (!missing) return NULL;
  plim_tensor *ones = empty(t, dims(r->batch, missing), PLIM_I64), *filling = k_unary(t, ones);
  plim_consume(t, ones);
  plim_tensor *out = empty(t, dims(r->batch, r->length), PLIM_I64);
  plim_consume(t, filling);
  return out;
}

// concatenated_inputs: ids, masks and labels of the chosen texts, then of the rejected ones.
static void concatenate(plim_tape *t, const plim_recipe *r, variables *v) {
  plim_tensor **all[] = {&v->ids, &v->mask, &v->labels};
  for (int i = 0; i < 3; i++) set(t, all[i], padded(t, r, 0));
  for (int i = 0; i < 3; i++) {
    plim_tensor *rejected = padded(t, r, 1);
    plim_tensor *both = empty(t, dims(2 * r->batch, r->length), PLIM_I64);
    if (rejected) plim_consume(t, rejected);
    set(t, all[i], both);
  }
}

// ---- log-probabilities ------------------------------------------------------------------------------

// where(condition, labels, number), with the condition and the number as tensors of their own.
static plim_tensor *replaced(plim_tape *t, const plim_tensor *labels) {
  plim_tensor *condition = empty(t, labels->shape, PLIM_BOOL), *number = prefer_number(t, PLIM_I64);
  plim_tensor *out = k_like(t, labels);
  consume_all(t, number, condition);
  return out;
}

// The cross entropy of the chosen texts.
static plim_tensor *text_loss_of(plim_tape *t, const plim_recipe *r, plim_tensor *logits,
                                 plim_tensor *labels) {
  plim_tensor *shifted = NULL, *flat = NULL;
  plim_tensor *half = slice_rows(t, logits, 0, r->batch);
  set(t, &shifted, contiguous(t, slice(t, half, 1, 0, r->length - 1)));
  plim_tensor *own = slice(t, slice_rows(t, labels, 0, r->batch), 1, 1, r->length);
  set(t, &flat, contiguous(t, own));
  plim_tensor *rows = view(t, shifted, dims(-1, logits->shape.at[2]));
  plim_tensor *loss = nll_loss(t, log_softmax(t, rows), view(t, flat, dims(-1)));
  drop_all(t, &shifted, &flat);
  return loss;
}

// get_batch_logps: for each text, the sum of its answer's log-probabilities, or their mean.
static plim_tensor *sums_of_answers(plim_tape *t, const plim_recipe *r, const variables *v) {
  plim_tensor *labels = NULL, *shifted = NULL, *counts = NULL, *per_token = NULL;
  int64_t length = r->length;
  set(t, &labels, empty(t, dims(2 * r->batch, length - 1), PLIM_I64));
  set(t, &counts, empty(t, labels->shape, PLIM_BOOL));
  if (r->method == PLIM_METHOD_ORPO) set(t, &labels, replaced(t, labels));
  else plim_consume(t, empty(t, labels->shape, PLIM_BOOL)); // labels[labels == -100] = 0
  set(t, &shifted, slice(t, v->logits, 1, 0, length - 1));
  set(t, &per_token,
      r->loss == PLIM_LOSS_FULL ? prefer_select_log_probs(t, shifted, labels)
                                : plim_select_log_probs(t, shifted, labels));
  plim_tensor *sums = sum_dim(t, mul(t, per_token, counts), 1, false, PLIM_FP32);
  if (prefer_averages(r)) {
    plim_tensor *tokens = empty(t, dims(2 * r->batch), PLIM_I64);
    plim_consume(t, empty(t, counts->shape, PLIM_I64));
    sums = divide(t, sums, tokens);
  }
  drop_all(t, &shifted, &labels, &counts, &per_token);
  return sums;
}

// concatenated_forward
static void forward(plim_tape *t, plim_model *m, const plim_recipe *r, const plim_batch *batch,
                    variables *v) {
  plim_tensor *labels = NULL;
  plim_batch b = *batch;
  concatenate(t, r, v);
  b.ids = v->ids, b.mask = v->mask;
  set(t, &v->logits, prefer_call_model(t, m, r, &b));
  if (r->loss == PLIM_LOSS_FULL) set(t, &v->logits, to(t, v->logits, PLIM_FP32));
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "log-probabilities");
  set(t, &labels, k_like(t, v->ids));
  if (r->method == PLIM_METHOD_ORPO) set(t, &labels, replaced(t, labels));
  set(t, &v->text_loss,
      r->method == PLIM_METHOD_SIMPO ? prefer_number(t, PLIM_FP32)
                                     : text_loss_of(t, r, v->logits, labels));
  set(t, &v->log_probs, sums_of_answers(t, r, v));
  plim_tape_purpose(t, was);
  set(t, &v->chosen, slice_rows(t, v->log_probs, 0, r->batch));
  set(t, &v->rejected, slice_rows(t, v->log_probs, r->batch, 2 * r->batch));
  drop(t, &v->ids);
  // A variable of ORPO's holds the mask until the end.
  if (r->method == PLIM_METHOD_ORPO) drop_all(t, &v->labels, &labels, &v->mask);
  else drop_all(t, &v->mask, &v->labels, &labels);
}

// ---- losses -----------------------------------------------------------------------------------------

// log1mexp(x) = log(1 - exp(x)), in two ways of which each is exact for some x
static plim_tensor *log_of_rest(plim_tape *t, plim_tensor *x) {
  plim_tensor *is_small = empty(t, x->shape, PLIM_BOOL);
  plim_tensor *first = log1p_(t, neg(t, exp_(t, x)));
  plim_tensor *second = log_(t, neg(t, expm1_(t, x)));
  return where_both(t, is_small, first, second);
}

// odds_ratio_loss
static void set_odds_losses(plim_tape *t, variables *v) {
  plim_tensor *odds = NULL, *ratio = NULL;
  plim_tensor *difference = sub(t, v->chosen, v->rejected);
  plim_tensor *first = log_of_rest(t, v->chosen), *second = log_of_rest(t, v->rejected);
  set(t, &odds, sub(t, difference, sub(t, first, second)));
  set(t, &ratio, log_sigmoid(t, odds));
  set(t, &v->losses, mul_scalar(t, ratio));
  set(t, &v->chosen_rewards, k_unary(t, v->chosen));
  set(t, &v->rejected_rewards, k_unary(t, v->rejected));
  set(t, &v->ratio_mean, mean_all(t, ratio));
  set(t, &v->odds_mean, mean_all(t, odds));
  drop_all(t, &odds, &ratio);
}

// cpo_loss, of loss_type sigmoid; SimPO's has a margin.
static void set_sigmoid_losses(plim_tape *t, const plim_recipe *r, variables *v) {
  plim_tensor *x = NULL;
  set(t, &x, sub(t, v->chosen, v->rejected));
  if (r->method == PLIM_METHOD_SIMPO) set(t, &x, add_scalar(t, x));
  plim_tensor *right = mul_scalar(t, neg(t, log_sigmoid(t, mul_scalar(t, x))));
  plim_tensor *wrong = mul_scalar(t, log_sigmoid(t, mul_scalar(t, x)));
  set(t, &v->losses, sub(t, right, wrong));
  set(t, &v->chosen_rewards, k_unary(t, v->chosen));
  set(t, &v->rejected_rewards, k_unary(t, v->rejected));
  drop(t, &x);
}

static void set_accuracies(plim_tape *t, variables *v) {
  plim_tensor *is_larger = empty(t, v->chosen_rewards->shape, PLIM_BOOL);
  set(t, &v->accuracies, k_unary(t, v->chosen_rewards));
  plim_consume(t, is_larger);
}

// ---- numbers that are logged ------------------------------------------------------------------------

// The mean of one half's logits; ORPO leaves out those of the last tokens.
static plim_tensor *mean_of_logits(plim_tape *t, const plim_recipe *r, plim_tensor *logits) {
  plim_dims half = logits->shape;
  half.at[0] = r->batch;
  if (r->method == PLIM_METHOD_ORPO) half.at[1]--;
  bool was = set_grad_mode(t, false);
  plim_tensor *part = alias_of(t, logits, half, logits->stride);
  plim_tensor *mean = mean_all(t, part);
  set_grad_mode(t, was);
  plim_tensor *gathered = k_unary(t, mean);
  plim_consume(t, mean);
  return gathered;
}

static plim_tensor *mean_of_margins(plim_tape *t, const variables *v) {
  plim_tensor *margins = k_unary(t, v->chosen_rewards), *mean = prefer_number(t, PLIM_FP32);
  plim_consume(t, margins);
  return mean;
}

// Of two rewards, accuracies, margins, two log-probabilities, two logits, the texts' loss, and of ORPO two ratios.
enum {
  METRICS = 11,
  MARGINS = 3,
  FIRST_LOGITS = 6,
  LAST_LOGITS = 7,
  TEXT_LOSS = 8,
  METRICS_OF_CPO = 9
};

static plim_tensor *metric_of(plim_tape *t, const plim_recipe *r, const variables *v, int i) {
  if (i == MARGINS) return mean_of_margins(t, v);
  if (i == FIRST_LOGITS || i == LAST_LOGITS) return mean_of_logits(t, r, v->logits);
  return prefer_number(t, i == TEXT_LOSS ? (plim_dtype)v->text_loss->dtype : PLIM_FP32);
}

// ORPO computes all before it reads the first; CPO reads each at once.
static void log_metrics(plim_tape *t, const plim_recipe *r, const variables *v,
                        plim_tensor **last) {
  plim_tensor *all[METRICS] = {0};
  bool is_odds = r->method == PLIM_METHOD_ORPO;
  for (int i = 0; i < (is_odds ? METRICS : METRICS_OF_CPO); i++) {
    set(t, &all[i], metric_of(t, r, v, i));
    if (!is_odds) drop(t, &all[i]);
  }
  for (int i = 0; i + 1 < METRICS; i++) drop(t, &all[i]);
  set(t, last, give(t, &all[METRICS - 1]));
}

// ---- the loss ---------------------------------------------------------------------------------------

plim_tensor *prefer_free_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                              const plim_batch *batch) {
  variables v = {0};
  plim_tensor *loss = NULL, *last = NULL;
  forward(t, m, r, batch, &v);
  if (r->method == PLIM_METHOD_ORPO) {
    set_odds_losses(t, &v);
    set(t, &loss, sub(t, v.text_loss, mean_all(t, v.losses)));
  } else {
    set_sigmoid_losses(t, r, &v);
    plim_tensor *mean = mean_all(t, v.losses);
    set(t, &loss, add(t, mean, mul_scalar(t, v.text_loss)));
  }
  set_accuracies(t, &v);
  log_metrics(t, r, &v, &last);
  plim_tensor *out = give(t, &loss);
  drop_all(t, &v.logits, &v.chosen, &v.rejected, &v.log_probs, &v.text_loss, &v.losses,
           &v.chosen_rewards, &v.rejected_rewards, &v.ratio_mean, &v.odds_mean, &v.accuracies);
  drop(t, &last);
  return out;
}

// ---- batches ----------------------------------------------------------------------------------------

// Ids, mask and labels of both halves, each with its own length, and the prompts.
plim_batch prefer_texts_new(plim_tape *t, const plim_recipe *r) {
  plim_batch b = prefer_batch(r);
  int count = 0;
  for (int half = 0; half < 2; half++)
    for (int i = 0; i < 3; i++)
      set(t, &b.parts[count++], empty(t, dims(r->batch, prefer_text_length(r, half)), PLIM_I64));
  for (int i = 0; i < 2; i++)
    set(t, &b.parts[count++], empty(t, dims(r->batch, prefer_prompt_length(r)), PLIM_I64));
  return b;
}
