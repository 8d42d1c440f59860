// DPO as torchtune's recipes compute it (recipes/lora_dpo_single_device.py, full_dpo_distributed.py): with all logits in
// float32, and a log-softmax of them that the graph keeps.
#include "kernels.h"
#include "ops.h"
#include "tape_state.h"
#include "training_impl.h"
#include "two_models.h"

#include "op_names.h"

static void outputs_drop_logits(plim_tape *t, plim_outputs *o) { drop(t, &o->logits); }

static void outputs_drop(plim_tape *t, plim_outputs *o) {
  drop_all(t, &o->chosen, &o->rejected, &o->logits);
}

// get_batch_log_probs(logits, labels): labels[:, 1:].clone(), its mask, and the sum of the labels' log-probabilities
static plim_tensor *batch_log_probs(plim_tape *t, plim_tensor *logits, plim_tensor *labels) {
  plim_tensor *shifted = NULL, *targets = NULL, *counts = NULL, *each = NULL;
  int64_t rows = labels->shape.at[0], length = labels->shape.at[1] - 1;
  set(t, &targets, empty(t, dims(rows, length), PLIM_I64));
  set(t, &shifted, slice(t, logits, 1, 0, length));
  set(t, &counts, empty(t, targets->shape, PLIM_BOOL));
  plim_consume(t, empty(t, targets->shape, PLIM_BOOL)); // labels == -100
  plim_tensor *log_probs = log_softmax(t, div_scalar(t, shifted));
  bool was = hold(log_probs);
  plim_tensor *chosen = gather_each(t, log_probs, targets);
  let_go(t, log_probs, was);
  set(t, &each, view(t, chosen, dims(rows, length)));
  plim_tensor *sums = sum_dim(t, mul(t, each, counts), 1, false, PLIM_FP32);
  drop_all(t, &shifted, &targets, &counts, &each);
  return sums;
}

// concatenated_forward: the batch is on the GPU only while the model is called
static void forward_pairs(plim_tape *t, plim_model *m, const plim_recipe *r,
                          plim_checkpoint_kind checkpoint, plim_outputs *out) {
  plim_batch b = {.attention = r->attention, .checkpoint = checkpoint};
  plim_tensor *labels = NULL, *logits = NULL, *log_probs = NULL;
  plim_dims shape = dims(2 * r->batch, r->length);
  set(t, &b.ids, empty(t, shape, PLIM_I64));
  set(t, &labels, empty(t, shape, PLIM_I64));
  plim_consume(t, train_call_model(t, m, r, &b, &logits));
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "log-probabilities");
  set(t, &out->logits, to(t, logits, PLIM_FP32));
  drop(t, &logits);
  set(t, &log_probs, batch_log_probs(t, out->logits, labels));
  plim_tape_purpose(t, was);
  set(t, &out->chosen, slice_rows(t, log_probs, 0, r->batch));
  set(t, &out->rejected, slice_rows(t, log_probs, r->batch, 2 * r->batch));
  drop_all(t, &b.ids, &labels, &log_probs);
}

static plim_tensor *mean_of_half(plim_tape *t, plim_tensor *logits) {
  plim_dims half = logits->shape;
  half.at[0] /= 2;
  bool was = set_grad_mode(t, false);
  plim_tensor *mean = mean_all(t, alias_of(t, logits, half, logits->stride));
  set_grad_mode(t, was);
  return mean;
}

static void forward_reference(plim_tape *t, plim_model *m, const plim_recipe *r,
                              plim_outputs *out) {
  bool is_own = m->reference != NULL, was = set_grad_mode(t, false);
  plim_state(t)->skips_adapters = !is_own;
  forward_pairs(t, is_own ? m->reference : m, r, is_own ? PLIM_CHECKPOINT_OFF : r->checkpoint, out);
  plim_state(t)->skips_adapters = false;
  set_grad_mode(t, was);
  if (is_own) outputs_drop_logits(t, out);
}

// beta * (policy - reference).detach()
static plim_tensor *reward(plim_tape *t, plim_tensor *policy, plim_tensor *reference) {
  bool was = set_grad_mode(t, false);
  plim_tensor *out = mul_scalar(t, sub(t, policy, reference));
  set_grad_mode(t, was);
  return out;
}

// -logsigmoid(beta * x) * (1 - smoothing) - logsigmoid(-beta * x) * smoothing
static plim_tensor *smoothed_loss(plim_tape *t, plim_tensor *x) {
  plim_tensor *right = mul_scalar(t, neg(t, log_sigmoid(t, mul_scalar(t, x))));
  return sub(t, right, mul_scalar(t, log_sigmoid(t, mul_scalar(t, x))));
}

// DPOLoss.forward, the mean of its losses over the number of passes, and the rewards
static void set_loss(plim_tape *t, plim_pair_variables *v) {
  const plim_outputs *policy = &v->policy, *reference = &v->reference;
  plim_tensor *chosen = NULL, *rejected = NULL, *losses = NULL;
  plim_tensor *ratio = NULL, *reference_ratio = NULL, *x = NULL;
  set(t, &ratio, sub(t, policy->chosen, policy->rejected));
  set(t, &reference_ratio, sub(t, reference->chosen, reference->rejected));
  set(t, &x, sub(t, ratio, reference_ratio));
  set(t, &losses, smoothed_loss(t, x));
  set(t, &chosen, reward(t, policy->chosen, reference->chosen));
  set(t, &rejected, reward(t, policy->rejected, reference->rejected));
  drop_all(t, &ratio, &reference_ratio, &x);
  set(t, &v->loss, losses);
  set(t, &v->chosen_reward, chosen);
  set(t, &v->rejected_reward, rejected);
  drop_all(t, &losses, &chosen, &rejected);
  set(t, &v->loss, mean_all(t, v->loss));
  plim_tensor *is_better = empty(t, v->chosen_reward->shape, PLIM_BOOL);
  plim_tensor *accuracies = k_unary(t, v->chosen_reward);
  plim_consume(t, is_better);
  set(t, &v->accuracies, accuracies);
  set(t, &v->loss, div_scalar(t, v->loss));
}

void plim_pairs_step(plim_tape *t, plim_model *m, const plim_recipe *r, plim_pair_variables *v) {
  plim_outputs policy = {0}, reference = {0};
  forward_pairs(t, m, r, r->checkpoint, &policy);
  outputs_drop(t, &v->policy);
  v->policy = policy;
  set(t, &v->chosen_mean, mean_of_half(t, v->policy.logits));
  set(t, &v->rejected_mean, mean_of_half(t, v->policy.logits));
  outputs_drop_logits(t, &v->policy);
  outputs_drop(t, &v->reference);
  forward_reference(t, m, r, &reference);
  v->reference = reference;
  set_loss(t, v);
  plim_add_to_running(t, &v->running, v->loss);
}

// What is logged after a step: means, one at a time, copied to the host.
void plim_pairs_log(plim_tape *t, plim_pair_variables *v) {
  bool was = set_grad_mode(t, false);
  for (int i = 0; i < 3; i++) plim_consume(t, mean_all(t, v->chosen_reward));
  plim_consume(t, mean_all(t, sub(t, v->chosen_reward, v->rejected_reward)));
  for (int i = 0; i < 2; i++) plim_consume(t, mean_all(t, v->policy.chosen));
  set_grad_mode(t, was);
  drop(t, &v->running);
}
