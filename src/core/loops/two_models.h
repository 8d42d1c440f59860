// The loops of torchtune's recipes with two models: DPO (tune_pairs.c) and distillation (distillation.c).
#ifndef PLIM_CORE_TWO_MODELS_H
#define PLIM_CORE_TWO_MODELS_H

#include "training.h"

// What a model returns for a batch of pairs: the log-probabilities of both halves, and its logits while they are kept.
typedef struct {
  plim_tensor *chosen, *rejected, *logits;
} plim_outputs;

// Variables of the DPO loop. What a pass assigns lives until the next one rebinds it: with adapters, the logits of the
// reference are never deleted, and live until the next pass calls the reference.
typedef struct {
  plim_outputs policy, reference;
  plim_tensor *chosen_mean, *rejected_mean, *chosen_reward, *rejected_reward, *accuracies;
  plim_tensor *loss, *running;
} plim_pair_variables;

// Sets v->loss to the loss of a new batch of pairs, divided by the number of passes.
void plim_pairs_step(plim_tape *t, plim_model *m, const plim_recipe *r, plim_pair_variables *v);
void plim_pairs_log(plim_tape *t, plim_pair_variables *v);

// Variables of the distillation loop.
typedef struct {
  plim_tensor *ids, *labels, *count, *tokens; // tokens of the batch, and of the step so far
  plim_tensor *class_loss, *teacher_loss, *running_class, *running_teacher, *loss;
  plim_tensor *norm, *logged_class, *logged_teacher, *logged;
} plim_distillation;

// Sets v->loss to the loss of a new batch: half the cross entropy, half the divergence from the teacher
// (m->reference).
void plim_distillation_step(plim_tape *t, plim_model *m, const plim_recipe *r,
                            plim_distillation *v);
// training.scale_grads(model, 1 / num_tokens)
void plim_distillation_scale(plim_tape *t);
void plim_distillation_log(plim_tape *t, plim_distillation *v);

#endif
