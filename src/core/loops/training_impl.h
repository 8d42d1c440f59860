// What the loops share. For training.c (loops of one's own) and trainer.c.
#ifndef PLIM_CORE_TRAINING_IMPL_H
#define PLIM_CORE_TRAINING_IMPL_H

#include "contrastive.h"
#include "scaler.h"

// The batch.
plim_dims train_labels_shape(const plim_model *m, const plim_recipe *r);
plim_mask_kind train_mask_of(const plim_recipe *r);
// model(**batch), with what it saves on the host if the recipe says so.
plim_tensor *train_call_model(plim_tape *t, plim_model *m, const plim_recipe *r,
                              const plim_batch *batch, plim_tensor **logits);
void train_release_all(plim_tape *t, plim_tensors *tensors);
bool train_is_contrastive(const plim_recipe *r);
bool train_has_engine(const plim_model *m); // DeepSpeed's

// loss.backward(), scaled where there is a scale. `is_last`: of the step.
void train_backward(plim_tape *t, plim_model *m, const plim_recipe *r, plim_scaler *scaler,
                    plim_tensor *loss, bool is_last);

// The optimizer's part of a step; norms may be clipped before.
void train_begin_optimizer(plim_tape *t, int step);
bool train_clips(const plim_model *m, const plim_recipe *r);
plim_tensor *train_clipped_norm(plim_tape *t, const plim_model *m, plim_scaler *scaler);
void train_update(plim_tape *t, plim_model *m, const plim_recipe *r, plim_scaler *scaler,
                  plim_tensor *const *parameters, plim_tensor **state);

// Passes of a step. Those, and steps, that would be as the one just done are not run: the number of the last
// that was done, or skipped.
int train_micro_batches(const plim_recipe *r);
int train_next_pass(plim_tape *t, const plim_recipe *r, int done);
int train_next_step(plim_tape *t, const plim_recipe *r, int done);

// Trains. False when memory is out. `grouped`: room for the parameters.
bool train_with_trainer(plim_tape *t, plim_model *m, const plim_recipe *r, plim_tensor **state,
                        plim_tensor **grouped);

#endif
