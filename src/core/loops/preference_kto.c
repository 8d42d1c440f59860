// KTO as TRL computes it: each answer is good or bad, and a second batch, of answers to other prompts,
// estimates how far the model is from its reference.
#include "kernels.h"
#include "log_probs.h"
#include "ops.h"
#include "preference_impl.h"
#include "tape_state.h"

#include "op_names.h"

// What a batch has beside its texts, in its order.
enum { OTHER_IDS, OTHER_MASK, OTHER_ANSWERS, REFERENCE_SUMS, REFERENCE_OTHERS, LABEL };

// Variables of _compute_loss.
typedef struct {
  plim_tensor *good_count, *bad_count, *others, *labels, *per_token, *sums;
  plim_tensor *rows[2], *log_probs[2], *reference_log_probs[2]; // of good answers, and of bad ones
  plim_tensor *reference_others, *reference_per_token, *reference_sums, *divergence;
  plim_tensor *ratios[2], *losses[2], *rewards[2], *all_losses;
  plim_tensor *logits[2], *masks[2];
  plim_log_probs policy, reference;
  prefer_logits all, all_of_reference; // of TRL before 1.15, instead
} variables;

// Half of the answers are good, and one more if their number is odd.
static int64_t count_of(const plim_recipe *r, int which) { return (r->batch + !which) / 2; }

static bool estimates_divergence(const plim_recipe *r) { return !r->skips_divergence; }

// ---- log-probabilities ------------------------------------------------------------------------------

enum { LOGGED = PLIM_WITH_ENTROPY | PLIM_WITH_MEAN_LOGITS };

typedef struct {
  plim_model *model;
  bool is_reference;
} caller;

static bool holds_logits(const plim_recipe *r) { return r->loss == PLIM_LOSS_FULL; }

// Calls the model, or its reference, and sets one of the outputs.
static void call(plim_tape *t, const caller *c, const plim_recipe *r, plim_batch b,
                 plim_log_probs *out, prefer_logits *all) {
  bool is_own = c->is_reference && c->model->reference;
  plim_model *m = is_own ? c->model->reference : c->model;
  unsigned outputs = is_own ? PLIM_ONLY_LOG_PROBS : LOGGED;
  if (c->is_reference) b.checkpoint = PLIM_CHECKPOINT_OFF;
  plim_state(t)->skips_adapters = c->is_reference && !is_own;
  if (holds_logits(r)) prefer_call_full(t, m, r, &b, all);
  else prefer_call_log_probs(t, m, r, &b, r->batch * prefer_answer(r), outputs, out);
  plim_state(t)->skips_adapters = false;
}

// _compute_kl_logps: the log-probability of each answer of the second batch.
static plim_tensor *others_of(plim_tape *t, const caller *c, const plim_recipe *r,
                              const plim_batch *batch) {
  plim_log_probs out = {0};
  prefer_logits all = {0};
  plim_tensor *labels = NULL, *per_token = NULL;
  plim_batch b = *batch;
  b.ids = batch->parts[OTHER_IDS], b.mask = batch->parts[OTHER_MASK];
  if (!holds_logits(r)) set(t, &labels, prefer_labels(t, &b));
  b.labels = labels;
  bool was = set_grad_mode(t, false);
  call(t, c, r, b, &out, &all);
  set(t, &per_token, holds_logits(r) ? all.per_token : out.log_probs);
  plim_log_probs_drop(t, &out);
  plim_tensor *sums = sum_dim(t, per_token, 1, false, PLIM_FP32);
  set_grad_mode(t, was);
  prefer_logits_drop(t, &all);
  drop_all(t, &labels, &per_token);
  return sums;
}

// torch.nonzero of the labels, and of their opposite
static void find_rows(plim_tape *t, const plim_recipe *r, variables *v) {
  for (int i = 0; i < 2; i++) {
    plim_tensor *opposite = i ? empty(t, dims(r->batch), PLIM_BOOL) : NULL;
    set(t, &v->rows[i], k_nonzero(t, r->batch, 1, count_of(r, i)));
    if (opposite) plim_consume(t, opposite);
  }
}

static void select_both(plim_tape *t, const variables *v, plim_tensor *x, plim_tensor **out) {
  for (int i = 0; i < 2; i++) set(t, &out[i], select_rows(t, x, v->rows[i]));
}

static void set_reference(plim_tape *t, plim_model *m, const plim_recipe *r,
                          const plim_batch *batch, variables *v) {
  caller c = {m, .is_reference = true};
  plim_batch b = *batch;
  if (r->reference == PLIM_REFERENCE_PRECOMPUTED) {
    select_both(t, v, batch->parts[REFERENCE_SUMS], v->reference_log_probs);
    set(t, &v->reference_others, batch->parts[REFERENCE_OTHERS]);
    return;
  }
  bool was = set_grad_mode(t, false);
  if (estimates_divergence(r)) set(t, &v->reference_others, others_of(t, &c, r, batch));
  b.labels = v->labels;
  call(t, &c, r, b, &v->reference, &v->all_of_reference);
  set(t, &v->reference_per_token,
      holds_logits(r) ? v->all_of_reference.per_token : v->reference.log_probs);
  set(t, &v->reference_sums, sum_dim(t, v->reference_per_token, 1, false, PLIM_FP32));
  set_grad_mode(t, was);
  select_both(t, v, v->reference_sums, v->reference_log_probs);
}

// ---- the loss ---------------------------------------------------------------------------------------

// The mean difference between model and reference on the second batch, gathered, at least 0.
static plim_tensor *divergence_of(plim_tape *t, const plim_recipe *r, const variables *v) {
  if (!estimates_divergence(r)) return empty(t, dims(1), PLIM_FP32);
  plim_tensor *difference = k_unary(t, v->others), *mean = prefer_number(t, PLIM_FP32);
  plim_consume(t, difference);
  plim_tensor *gathered = k_unary(t, mean), *clamped = k_unary(t, gathered);
  consume_all(t, gathered, mean);
  return clamped;
}

// 1 - sigmoid(beta * x), of x = ratio - divergence for good answers and of its negative for bad ones. Without the
// divergence, the loss of a bad answer is sigmoid(beta * ratio).
static plim_tensor *loss_of(plim_tape *t, const plim_recipe *r, const variables *v, int i) {
  plim_tensor *x = v->ratios[i];
  if (estimates_divergence(r)) x = i ? sub(t, v->divergence, x) : sub(t, x, v->divergence);
  plim_tensor *likely = sigmoid(t, mul_scalar(t, x));
  return i && !estimates_divergence(r) ? likely : neg(t, likely);
}

static void set_losses(plim_tape *t, const plim_recipe *r, variables *v) {
  set(t, &v->divergence, divergence_of(t, r, v));
  for (int i = 0; i < 2; i++) {
    if (!count_of(r, i)) continue;
    set(t, &v->ratios[i], sub(t, v->log_probs[i], v->reference_log_probs[i]));
    set(t, &v->losses[i], loss_of(t, r, v, i));
    set(t, &v->rewards[i], k_unary(t, v->ratios[i]));
  }
  plim_tensor *good = NULL, *bad = NULL;
  set(t, &good, mul_scalar(t, v->losses[0]));
  if (v->losses[1]) set(t, &bad, mul_scalar(t, v->losses[1]));
  set(t, &v->all_losses, bad ? cat2(t, good, bad, 0) : cat1(t, good));
  drop_all(t, &bad, &good);
}

// losses.nanmean()
static plim_tensor *mean_of(plim_tape *t, plim_tensor *losses) {
  plim_tensor *is_number = empty(t, losses->shape, PLIM_BOOL);
  plim_tensor *count = prefer_number(t, PLIM_I64);
  plim_consume(t, empty(t, losses->shape, PLIM_I64));
  plim_consume(t, is_number);
  return divide(t, sum_numbers(t, losses), count);
}

// ---- numbers that are logged ------------------------------------------------------------------------

// mean_logits[mask].sum() and mask.sum()
static void sum_means(plim_tape *t, plim_tensor *logits, int64_t scored, plim_tensor **sum,
                      plim_tensor **tokens) {
  plim_tensor *mask = NULL;
  set(t, &mask, empty(t, logits->shape, PLIM_BOOL));
  plim_tensor *found = index_masked(t, logits, mask, scored);
  drop(t, &mask);
  set(t, sum, prefer_number(t, PLIM_FP32));
  plim_consume(t, found);
  set(t, tokens, prefer_number(t, PLIM_I64));
}

static void log_logits(plim_tape *t, const plim_recipe *r, variables *v) {
  plim_tensor *sums[2] = {0}, *tokens[2] = {0};
  bool was = set_grad_mode(t, false);
  select_both(t, v, holds_logits(r) ? v->all.shifted : v->policy.mean_logits, v->logits);
  for (int i = 0; i < 2; i++)
    set(t, &v->masks[i], empty(t, dims(count_of(r, i), r->length - 1), PLIM_I64));
  for (int i = 0; i < 2; i++) {
    int64_t scored = count_of(r, i) * prefer_answer(r);
    if (holds_logits(r)) prefer_sum_logits(t, v->logits[i], scored, &sums[i], &tokens[i]);
    else sum_means(t, v->logits[i], scored, &sums[i], &tokens[i]);
  }
  set_grad_mode(t, was);
  for (int i = 0; i < 2; i++) {
    prefer_gather_and_read(t, &sums[i]);
    prefer_gather_and_read(t, &tokens[i]);
  }
}

// Counts, and sums of rewards and log-probabilities, each gathered and read.
static void log_rewards(plim_tape *t, const plim_recipe *r) {
  for (int i = 0; i < 2; i++) plim_consume(t, prefer_number(t, PLIM_I64));
  for (int i = 0; i < 4; i++) {
    plim_tensor *sum = NULL;
    if (!count_of(r, i / 2)) continue;
    set(t, &sum, prefer_number(t, PLIM_FP32));
    plim_tensor *gathered = k_unary(t, sum);
    drop(t, &sum);
    plim_consume(t, gathered);
  }
}

static void drop_variables(plim_tape *t, variables *v) {
  drop_all(t, &v->good_count, &v->bad_count, &v->others, &v->labels);
  if (v->policy.loss) drop_graph(t, v->policy.loss);
  prefer_logits_drop(t, &v->all);
  drop_all(t, &v->policy.loss, &v->policy.log_probs, &v->per_token, &v->sums);
  drop_all(t, &v->rows[0], &v->rows[1], &v->log_probs[0], &v->log_probs[1]);
  drop_all(t, &v->reference_log_probs[0], &v->reference_log_probs[1], &v->reference_others);
  plim_log_probs_drop(t, &v->reference);
  prefer_logits_drop(t, &v->all_of_reference);
  drop_all(t, &v->reference_per_token, &v->reference_sums, &v->divergence);
  for (int i = 0; i < 2; i++) drop_all(t, &v->ratios[i], &v->losses[i], &v->rewards[i]);
  drop(t, &v->all_losses);
}

plim_tensor *prefer_kto_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                             const plim_batch *batch) {
  variables v = {0};
  prefer_variables logged = {0};
  caller c = {m};
  plim_batch b = *batch;
  set(t, &v.good_count, prefer_number(t, PLIM_I64));
  plim_consume(t, empty(t, dims(r->batch), PLIM_I64));
  set(t, &v.bad_count, prefer_number(t, PLIM_I64));
  if (estimates_divergence(r)) set(t, &v.others, others_of(t, &c, r, batch));
  if (!holds_logits(r)) set(t, &v.labels, prefer_labels(t, batch));
  b.labels = v.labels;
  call(t, &c, r, b, &v.policy, &v.all);
  set(t, &v.per_token, holds_logits(r) ? v.all.per_token : slice_last(t, v.policy.log_probs));
  set(t, &v.sums, sum_dim(t, v.per_token, 1, false, PLIM_FP32));
  find_rows(t, r, &v);
  select_both(t, &v, v.sums, v.log_probs);
  set_reference(t, m, r, batch, &v);
  set_losses(t, r, &v);
  if (holds_logits(r)) set(t, &v.policy.entropy, prefer_entropy(t, v.all.shifted));
  prefer_log_entropy(t, &logged, v.policy.entropy);
  prefer_log_tokens(t);
  log_logits(t, r, &v);
  log_rewards(t, r);
  plim_tensor *loss = mean_of(t, v.all_losses);
  drop_variables(t, &v);
  drop_all(t, &v.policy.entropy, &logged.entropy_sum, &logged.tokens, &v.policy.mean_logits);
  drop_all(t, &v.logits[0], &v.logits[1], &v.masks[0], &v.masks[1], &v.policy.counts);
  return loss;
}

// ---- batches ----------------------------------------------------------------------------------------

plim_batch prefer_answers_new(plim_tape *t, const plim_recipe *r, bool has_reference) {
  plim_batch b = prefer_batch(r);
  plim_dims shape = dims(r->batch, r->length);
  set(t, &b.ids, empty(t, shape, PLIM_I64));
  set(t, &b.mask, empty(t, shape, PLIM_I64));
  set(t, &b.answers, empty(t, shape, PLIM_I64));
  for (int i = OTHER_IDS; i <= OTHER_ANSWERS && estimates_divergence(r); i++)
    set(t, &b.parts[i], empty(t, shape, PLIM_I64));
  for (int i = REFERENCE_SUMS; i <= REFERENCE_OTHERS && has_reference; i++)
    if (i == REFERENCE_SUMS || estimates_divergence(r))
      set(t, &b.parts[i], empty(t, dims(r->batch), PLIM_FP32));
  set(t, &b.parts[LABEL], empty(t, dims(r->batch), PLIM_BOOL));
  return b;
}

// ---- before training --------------------------------------------------------------------------------

// compute_ref_log_probs: both batches go through the reference before either is summed up.
void prefer_kto_reference(plim_tape *t, plim_model *m, const plim_recipe *r,
                          const plim_batch *batch, plim_tensor **sums) {
  caller c = {m, .is_reference = true};
  plim_tensor *labels[2] = {0}, *per_token[2] = {0};
  int count = estimates_divergence(r) ? 2 : 1;
  plim_batch b = *batch;
  bool was = set_grad_mode(t, false);
  for (int i = 0; i < count; i++) {
    plim_log_probs out = {0};
    if (i) b.ids = batch->parts[OTHER_IDS], b.mask = batch->parts[OTHER_MASK];
    set(t, &labels[i], prefer_labels(t, &b));
    b.labels = labels[i];
    call(t, &c, r, b, &out, NULL); // not called where all logits are held
    set(t, &per_token[i], out.log_probs);
    plim_log_probs_drop(t, &out);
  }
  plim_tensor *fresh[2] = {0};
  for (int i = 0; i < count; i++) set(t, &fresh[i], sum_dim(t, per_token[i], 1, false, PLIM_FP32));
  set_grad_mode(t, was);
  for (int i = 0; i < count; i++) drop_all(t, &labels[i], &per_token[i]);
  for (int i = 0; i < count; i++) set(t, &sums[i], give(t, &fresh[i]));
}
