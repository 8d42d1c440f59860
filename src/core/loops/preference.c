// DPO: batches, the loss, and what is logged beside it.
#include "preference_impl.h"

#include "kernels.h"
#include "log_probs.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// The first token of a text is never predicted.
static int64_t answer_of(const plim_recipe *r, int which) {
  int64_t most = r->length - 1, own = r->answers[which];
  return own < most ? own : most;
}

int64_t prefer_answer(const plim_recipe *r) { return answer_of(r, 0); }

int64_t prefer_scored(const plim_recipe *r, int which) { return r->batch * answer_of(r, which); }

static int64_t longest_answer(const plim_recipe *r) {
  return r->answers[0] > r->answers[1] ? r->answers[0] : r->answers[1];
}

// A plan may shorten texts to less than their answers had.
int64_t prefer_prompt_length(const plim_recipe *r) {
  int64_t rest = r->length - longest_answer(r);
  return rest > 1 ? rest : 1;
}

int64_t prefer_text_length(const plim_recipe *r, int half) {
  int64_t own = prefer_prompt_length(r) + r->answers[half];
  return own < r->length ? own : r->length;
}

bool prefer_averages(const plim_recipe *r) {
  return r->method == PLIM_METHOD_ORPO || r->method == PLIM_METHOD_SIMPO;
}

// ---- numbers that are logged ------------------------------------------------------------------------

// Trainer reads a few numbers of each batch. They are small, but PyTorch allocates them.

plim_tensor *prefer_number(plim_tape *t, plim_dtype dtype) {
  return empty(t, (plim_dims){0}, dtype);
}

// x.item()
static void read(plim_tape *t, plim_tensor *x) { plim_consume(t, x); }

// gather_for_metrics(x).sum(), on one GPU
static void gather(plim_tape *t, plim_tensor **x) { set(t, x, k_unary(t, *x)); }

void prefer_gather_and_read(plim_tape *t, plim_tensor **x) {
  read(t, k_unary(t, *x));
  drop(t, x);
}

// x.mean().item()
static void read_mean(plim_tape *t) { read(t, prefer_number(t, PLIM_FP32)); }

void prefer_log_entropy(plim_tape *t, prefer_variables *v, const plim_tensor *entropy) {
  plim_tensor *masked = k_unary(t, entropy);
  set(t, &v->entropy_sum, prefer_number(t, PLIM_FP32));
  plim_consume(t, masked);
  set(t, &v->tokens, prefer_number(t, PLIM_I64));
  gather(t, &v->entropy_sum);
  gather(t, &v->tokens);
  read(t, prefer_number(t, PLIM_BOOL));
  read(t, prefer_number(t, PLIM_FP32));
}

void prefer_log_tokens(plim_tape *t) {
  plim_tensor *count = NULL;
  set(t, &count, prefer_number(t, PLIM_I64));
  gather(t, &count);
  drop(t, &count);
}

void prefer_log_correct(plim_tape *t, prefer_variables *v) {
  set(t, &v->correct_sum, prefer_number(t, PLIM_I64));
  plim_consume(t, empty(t, v->correct->shape, PLIM_I64));
  set(t, &v->total, k_unary(t, v->tokens));
  read(t, prefer_number(t, PLIM_BOOL));
  plim_tensor *sum = k_unary(t, v->correct_sum), *ratio = prefer_number(t, PLIM_FP32);
  plim_consume(t, sum);
  read(t, ratio);
}

void prefer_log_rewards(plim_tape *t, prefer_variables *v) {
  set(t, &v->chosen_reward, k_unary(t, v->chosen_ratio));
  set(t, &v->rejected_reward, k_unary(t, v->rejected_ratio));
  for (int i = 0; i < 2; i++) read_mean(t);
  plim_tensor *is_larger = empty(t, v->chosen_ratio->shape, PLIM_BOOL);
  set(t, &v->accuracies, k_unary(t, v->chosen_ratio));
  plim_consume(t, is_larger);
  read_mean(t);
  set(t, &v->margins, k_unary(t, v->chosen_ratio));
  read_mean(t);
  for (int i = 0; i < 2; i++) read_mean(t); // log-probabilities
}

// ---- parts of the loss --------------------------------------------------------------------------------

void prefer_sum_rows(plim_tape *t, plim_tensor *per_token, plim_tensor **sums, plim_tensor **chosen,
                     plim_tensor **rejected) {
  set(t, sums, sum_dim(t, per_token, 1, false, PLIM_FP32));
  split(t, *sums, chosen, rejected);
}

// -logsigmoid(beta * difference), its mean times its weight, added to 0
void prefer_set_loss(plim_tape *t, prefer_variables *v) {
  set(t, &v->chosen_ratio, sub(t, v->chosen, v->reference_chosen));
  set(t, &v->rejected_ratio, sub(t, v->rejected, v->reference_rejected));
  set(t, &v->difference, sub(t, v->chosen_ratio, v->rejected_ratio));
  set(t, &v->each, neg(t, log_sigmoid(t, mul_scalar(t, v->difference))));
  set(t, &v->loss, add_scalar(t, mul_scalar(t, mean_all(t, v->each))));
}

// ---- log-probabilities in chunks: TRL from 1.15 on ----------------------------------------------------

// What the trained model computes for the log beside the log-probabilities; without its adapters, too.
enum { LOGGED = PLIM_WITH_ENTROPY | PLIM_WITH_MEAN_LOGITS | PLIM_WITH_TOP1 };

plim_tensor *prefer_labels(plim_tape *t, const plim_batch *b) {
  plim_tensor *is_prompt = empty(t, b->ids->shape, PLIM_BOOL);
  plim_tensor *labels = empty(t, b->ids->shape, PLIM_I64);
  plim_consume(t, is_prompt);
  return labels;
}

void prefer_call_log_probs(plim_tape *t, plim_model *m, const plim_recipe *r, const plim_batch *b,
                           int64_t scored, unsigned outputs, plim_log_probs *out) {
  plim_autocast(t, r->autocast);
  plim_saving saving_was = plim_saves(t, r->saving);
  plim_call_log_probs(t, m, b, scored, outputs, out);
  plim_saves(t, saving_was);
  plim_autocast(t, PLIM_BOOL);
}

// Both answers of every pair.
static void call(plim_tape *t, plim_model *m, const plim_recipe *r, const plim_batch *b,
                 unsigned outputs, plim_log_probs *out) {
  int64_t scored = prefer_scored(r, 0) + prefer_scored(r, 1);
  prefer_call_log_probs(t, m, r, b, scored, outputs, out);
}

// The log-probabilities of the reference: a model of its own, or the model without its adapters.
static void call_reference(plim_tape *t, plim_model *m, const plim_recipe *r, plim_batch b,
                           plim_log_probs *out) {
  bool is_own = m->reference != NULL, was = set_grad_mode(t, false);
  b.checkpoint = PLIM_CHECKPOINT_OFF;
  plim_state(t)->skips_adapters = !is_own;
  call(t, is_own ? m->reference : m, r, &b, is_own ? PLIM_ONLY_LOG_PROBS : LOGGED, out);
  plim_state(t)->skips_adapters = false;
  set_grad_mode(t, was);
}

// The chosen (or rejected) half of the mask of answers, as booleans.
static plim_tensor *half_mask(plim_tape *t, const plim_log_probs *policy) {
  plim_dims half = policy->counts->shape;
  half.at[0] /= 2;
  return empty(t, half, PLIM_BOOL);
}

// mean_logits[mask].sum() of one half, and mask.sum()
static void sum_logits(plim_tape *t, const plim_log_probs *policy, int64_t scored,
                       plim_tensor **sum, plim_tensor **tokens) {
  plim_tensor *mask = NULL;
  set(t, &mask, half_mask(t, policy));
  plim_tensor *half = view_of(t, policy->mean_logits, mask->shape, mask->stride);
  plim_tensor *found = index_masked(t, half, mask, scored);
  drop(t, &mask);
  set(t, sum, prefer_number(t, PLIM_FP32));
  plim_consume(t, found);
  set(t, tokens, prefer_number(t, PLIM_I64));
}

static void log_logits(plim_tape *t, const plim_recipe *r, const plim_log_probs *policy) {
  plim_tensor *sums[2] = {0}, *tokens[2] = {0};
  for (int i = 0; i < 2; i++) sum_logits(t, policy, prefer_scored(r, i), &sums[i], &tokens[i]);
  for (int i = 0; i < 2; i++) {
    prefer_gather_and_read(t, &sums[i]);
    prefer_gather_and_read(t, &tokens[i]);
  }
}

static void log_accuracy(plim_tape *t, prefer_variables *v, const plim_log_probs *policy) {
  plim_tensor *mask = half_mask(t, policy);
  set(t, &v->correct, half_mask(t, policy));
  plim_consume(t, mask);
  set(t, &v->tokens, prefer_number(t, PLIM_I64));
  prefer_log_correct(t, v);
}

static plim_tensor *chunked_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                 const plim_batch *batch) {
  prefer_variables v = {0};
  plim_log_probs policy = {0}, reference = {0};
  plim_tensor *labels = NULL, *per_token = NULL, *reference_per_token = NULL;
  plim_batch b = *batch;
  set(t, &labels, prefer_labels(t, batch));
  b.labels = labels;
  call(t, m, r, &b, LOGGED, &policy);
  set(t, &per_token, slice_last(t, policy.log_probs));
  prefer_sum_rows(t, per_token, &v.log_probs, &v.chosen, &v.rejected);
  if (r->reference == PLIM_REFERENCE_PRECOMPUTED) {
    set(t, &v.reference_chosen, batch->reference_chosen);
    set(t, &v.reference_rejected, batch->reference_rejected);
  } else {
    call_reference(t, m, r, b, &reference);
    set(t, &reference_per_token, slice_last(t, reference.log_probs));
    prefer_sum_rows(t, reference_per_token, &v.reference_log_probs, &v.reference_chosen,
                    &v.reference_rejected);
  }
  prefer_set_loss(t, &v);
  prefer_log_entropy(t, &v, policy.entropy);
  prefer_log_tokens(t);
  log_logits(t, r, &policy);
  log_accuracy(t, &v, &policy);
  prefer_log_rewards(t, &v);
  plim_tensor *loss = give(t, &v.loss);
  drop(t, &labels);
  drop_graph(t, policy.loss);
  drop_all(t, &policy.loss, &policy.log_probs, &per_token, &v.log_probs, &v.chosen, &v.rejected);
  plim_log_probs_drop(t, &reference);
  drop_all(t, &reference_per_token, &v.reference_log_probs, &v.reference_chosen,
           &v.reference_rejected, &v.chosen_ratio, &v.rejected_ratio, &v.difference, &v.each);
  drop_all(t, &policy.entropy, &v.entropy_sum, &v.tokens, &policy.mean_logits, &policy.is_top1,
           &policy.counts);
  drop_all(t, &v.correct, &v.correct_sum, &v.total, &v.chosen_reward, &v.rejected_reward,
           &v.accuracies, &v.margins);
  return loss;
}

plim_tensor *plim_preference_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                  const plim_batch *batch) {
  if (r->method == PLIM_METHOD_REWARD) return prefer_reward_loss(t, m, r, batch);
  if (r->method == PLIM_METHOD_KTO) return prefer_kto_loss(t, m, r, batch);
  if (plim_method_is_of_factory(r->method)) return prefer_factory_loss(t, m, r, batch);
  if (r->method != PLIM_METHOD_DPO) return prefer_free_loss(t, m, r, batch);
  return r->loss == PLIM_LOSS_FULL ? prefer_full_loss(t, m, r, batch)
                                   : chunked_loss(t, m, r, batch);
}

// ---- batches ----------------------------------------------------------------------------------------

plim_batch prefer_batch(const plim_recipe *r) {
  bool is_padded = r->mask == PLIM_MASK_PAD || r->mask == PLIM_MASK_LONGEST;
  return (plim_batch){.mask_kind = is_padded ? PLIM_MASK_PAD : PLIM_MASK_ONES,
                      .attention = r->attention,
                      .checkpoint = r->checkpoint};
}

static plim_batch pairs_new(plim_tape *t, const plim_recipe *r) {
  plim_batch b = prefer_batch(r);
  plim_dims shape = dims(2 * r->batch, r->length);
  set(t, &b.ids, empty(t, shape, PLIM_I64));
  set(t, &b.mask, empty(t, shape, PLIM_I64));
  set(t, &b.answers, empty(t, shape, PLIM_I64));
  return b;
}

static plim_batch texts_new(plim_tape *t, const plim_recipe *r, bool has_reference) {
  switch (r->method) {
  case PLIM_METHOD_REWARD: return prefer_scored_new(t, r);
  case PLIM_METHOD_KTO: return prefer_answers_new(t, r, has_reference);
  case PLIM_METHOD_DPO:
  case PLIM_METHOD_DPO_FACTORY:
  case PLIM_METHOD_ORPO_FACTORY:
  case PLIM_METHOD_SIMPO_FACTORY: return pairs_new(t, r);
  default: return prefer_texts_new(t, r);
  }
}

static bool is_precomputed(const plim_recipe *r) {
  return plim_method_has_reference(r->method) && r->reference == PLIM_REFERENCE_PRECOMPUTED;
}

plim_batch plim_preference_batch(plim_tape *t, const plim_recipe *r) {
  plim_batch b = texts_new(t, r, is_precomputed(r));
  if (!is_precomputed(r) || r->method == PLIM_METHOD_KTO) return b;
  set(t, &b.reference_chosen, empty(t, dims(r->batch), PLIM_FP32));
  set(t, &b.reference_rejected, empty(t, dims(r->batch), PLIM_FP32));
  return b;
}

static void texts_drop(plim_tape *t, plim_batch *b) {
  drop_all(t, &b->ids, &b->mask, &b->answers);
  for (int i = 0; i < PLIM_BATCH_PARTS; i++) drop(t, &b->parts[i]);
}

// DPO: the sums of the chosen and of the rejected answers.
static void pairs_reference(plim_tape *t, plim_model *m, const plim_recipe *r,
                            const plim_batch *batch, plim_tensor **sums) {
  plim_log_probs out = {0};
  plim_tensor *labels = NULL, *per_token = NULL, *both = NULL, *halves[2] = {0};
  plim_batch b = *batch;
  set(t, &labels, prefer_labels(t, &b));
  b.labels = labels;
  call_reference(t, m, r, b, &out);
  set(t, &per_token, slice_last(t, out.log_probs));
  plim_log_probs_drop(t, &out);
  prefer_sum_rows(t, per_token, &both, &halves[0], &halves[1]);
  drop_all(t, &labels, &per_token, &both);
  for (int i = 0; i < 2; i++) set(t, &sums[i], halves[i]);
  drop_all(t, &halves[0], &halves[1]);
}

// Each batch of the data goes through the model once. The second shows all that the others do.
enum { MOST_PREPARED = 2 };

void plim_preference_prepare(plim_tape *t, plim_model *m, const plim_recipe *r) {
  // With all logits it needs less than a training step, which also holds their gradients.
  if (!is_precomputed(r) || r->loss == PLIM_LOSS_FULL) return;
  int64_t passes = (int64_t)r->steps * (r->accumulate > 1 ? r->accumulate : 1);
  plim_batch last = {0};
  plim_tensor *sums[2] = {0};
  for (int64_t i = 0; i < passes && i < MOST_PREPARED && !plim_tape_failed(t); i++) {
    plim_batch b = texts_new(t, r, false);
    texts_drop(t, &last);
    last = b;
    if (r->method == PLIM_METHOD_KTO) prefer_kto_reference(t, m, r, &b, sums);
    else pairs_reference(t, m, r, &b, sums);
  }
  texts_drop(t, &last);
  drop_all(t, &sums[0], &sums[1]);
}
