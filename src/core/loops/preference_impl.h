// Shared by the losses of preferences.
#ifndef PLIM_CORE_PREFERENCE_IMPL_H
#define PLIM_CORE_PREFERENCE_IMPL_H

#include "log_probs.h"
#include "preference.h"

// Variables that both have, in the order in which Python frees them.
typedef struct {
  plim_tensor *log_probs, *chosen, *rejected;
  plim_tensor *reference_per_token, *reference_log_probs, *reference_chosen, *reference_rejected;
  plim_tensor *chosen_ratio, *rejected_ratio, *difference, *loss, *each;
  plim_tensor *entropy_sum, *tokens, *correct, *correct_sum, *total;
  plim_tensor *chosen_reward, *rejected_reward, *accuracies, *margins;
} prefer_variables;

// What a call of the model leaves where all logits are held: them, in float32; without the last token; the
// log-probabilities of the answers.
typedef struct {
  plim_tensor *wide, *shifted, *per_token;
} prefer_logits;

// Tokens of all chosen (0) or rejected (1) answers.
int64_t prefer_scored(const plim_recipe *r, int which);
// The sum of each row's log-probabilities, in two halves.
void prefer_sum_rows(plim_tape *t, plim_tensor *per_token, plim_tensor **sums, plim_tensor **chosen,
                     plim_tensor **rejected);
void prefer_set_loss(plim_tape *t, prefer_variables *v);

// Tokens of the chosen (0) or rejected (1) texts, and of their prompts.
int64_t prefer_text_length(const plim_recipe *r, int half);
int64_t prefer_prompt_length(const plim_recipe *r);
// A batch without tensors.
plim_batch prefer_batch(const plim_recipe *r);
// Whether a loss compares means over the tokens of answers, not sums.
bool prefer_averages(const plim_recipe *r);
// model(**batch).logits, which accelerate makes float32 under autocast.
plim_tensor *prefer_call_model(plim_tape *t, plim_model *m, const plim_recipe *r,
                               const plim_batch *batch);
// selective_log_softmax of TRL before 1.15, for float32 logits: the logit of each token, less the logsumexp of all.
plim_tensor *prefer_select_log_probs(plim_tape *t, plim_tensor *logits, plim_tensor *labels);

// Numbers that are logged.
plim_tensor *prefer_number(plim_tape *t, plim_dtype dtype);
void prefer_gather_and_read(plim_tape *t, plim_tensor **x); // x = gather(x).sum().item()
void prefer_log_entropy(plim_tape *t, prefer_variables *v, const plim_tensor *entropy);
void prefer_log_tokens(plim_tape *t);
void prefer_log_correct(plim_tape *t, prefer_variables *v); // from v->correct, v->tokens
void prefer_log_rewards(plim_tape *t, prefer_variables *v);

// model(**batch, labels=labels, fused_lm_head=True), under autocast if Trainer enables it.
void prefer_call_log_probs(plim_tape *t, plim_model *m, const plim_recipe *r, const plim_batch *b,
                           int64_t scored, unsigned outputs, plim_log_probs *out);
// input_ids.masked_fill(completion_mask == 0, -100)
plim_tensor *prefer_labels(plim_tape *t, const plim_batch *b);
// Tokens of one answer that count, where all answers are equally long.
int64_t prefer_answer(const plim_recipe *r);

plim_batch prefer_scored_new(plim_tape *t, const plim_recipe *r);
plim_tensor *prefer_reward_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                const plim_batch *batch);
// `has_reference`: with what was computed with the reference beforehand.
plim_batch prefer_answers_new(plim_tape *t, const plim_recipe *r, bool has_reference);
// Computes that for one batch, into two variables.
void prefer_kto_reference(plim_tape *t, plim_model *m, const plim_recipe *r,
                          const plim_batch *batch, plim_tensor **sums);
plim_tensor *prefer_kto_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                             const plim_batch *batch);
// ORPO, CPO, SimPO.
plim_batch prefer_texts_new(plim_tape *t, const plim_recipe *r);
plim_tensor *prefer_free_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                              const plim_batch *batch);
// LLaMA-Factory's DPO, ORPO and SimPO.
plim_tensor *prefer_factory_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                 const plim_batch *batch);
// Parts of the losses of TRL before 1.15, which hold all logits.
void prefer_call_full(plim_tape *t, plim_model *m, const plim_recipe *r, const plim_batch *b,
                      prefer_logits *out);
void prefer_logits_drop(plim_tape *t, prefer_logits *x);
// entropy_from_logits(logits.detach()), which copies the logits
plim_tensor *prefer_entropy(plim_tape *t, const plim_tensor *logits);
// logits[mask].mean(-1).sum() and mask.sum(), where `scored` tokens count
void prefer_sum_logits(plim_tape *t, plim_tensor *logits, int64_t scored, plim_tensor **sum,
                       plim_tensor **tokens);
// DPO of TRL before 1.15, which holds all logits.
plim_tensor *prefer_full_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                              const plim_batch *batch);

#endif
