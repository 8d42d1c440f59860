// Reward models as TRL's RewardTrainer trains them: a head scores the chosen and the rejected texts.
#include "kernels.h"
#include "ops.h"
#include "preference_impl.h"

#include "op_names.h"

// coefficient * mean((chosen + rejected) ** 2), added to the loss
static void centre(plim_tape *t, plim_tensor *loss, plim_tensor *chosen, plim_tensor *rejected) {
  plim_tensor *both = square(t, add(t, chosen, rejected));
  plim_tensor *share = mul_scalar(t, mean_all(t, both));
  add_in_place(t, loss, share);
  plim_consume(t, share);
}

// The number of tokens, and the least, mean and largest score, each read at once.
static void log_scores(plim_tape *t, const plim_tensor *scores) {
  prefer_log_tokens(t);
  for (int i = 0; i < 3; i++) plim_consume(t, prefer_number(t, (plim_dtype)scores->dtype));
}

// *mean = x.mean()
static void set_mean(plim_tape *t, plim_tensor **mean, plim_tensor *x) {
  set(t, mean, prefer_number(t, (plim_dtype)x->dtype));
  plim_consume(t, x);
}

// How often the chosen text has the larger score
static void log_accuracy(plim_tape *t, const plim_tensor *chosen) {
  plim_tensor *mean = NULL;
  plim_tensor *is_larger = empty(t, chosen->shape, PLIM_BOOL);
  plim_tensor *right = empty(t, chosen->shape, PLIM_FP32);
  plim_consume(t, is_larger);
  set_mean(t, &mean, right);
  plim_consume(t, k_unary(t, mean)); // gathered
  drop(t, &mean);
}

plim_tensor *prefer_reward_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                const plim_batch *batch) {
  plim_tensor *scores = NULL, *chosen = NULL, *rejected = NULL, *loss = NULL, *mean = NULL;
  set(t, &scores, prefer_call_model(t, m, r, batch));
  split(t, view(t, scores, dims(2 * r->batch)), &chosen, &rejected);
  set(t, &loss, neg(t, mean_all(t, log_sigmoid(t, sub(t, chosen, rejected)))));
  if (r->centres_rewards) centre(t, loss, chosen, rejected);
  log_scores(t, scores);
  log_accuracy(t, chosen);
  set_mean(t, &mean, k_unary(t, chosen)); // of the margins
  set(t, &mean, k_unary(t, mean));        // gathered
  plim_tensor *out = give(t, &loss);
  drop_all(t, &chosen, &rejected, &scores, &mean);
  return out;
}

plim_batch prefer_scored_new(plim_tape *t, const plim_recipe *r) {
  plim_batch b = prefer_batch(r);
  plim_dims shape = dims(2 * r->batch, r->length);
  set(t, &b.ids, empty(t, shape, PLIM_I64));
  set(t, &b.mask, empty(t, shape, PLIM_I64));
  return b;
}
