// Shared by training.c (manual loops) and trainer.c.
#ifndef PLIM_CORE_TRAINING_IMPL_H
#define PLIM_CORE_TRAINING_IMPL_H

#include "contrastive.h"
#include "scaler.h"

plim_dims train_labels_shape(const plim_model *m, const plim_recipe *r);
plim_dims train_ids_shape(const plim_model *m, const plim_recipe *r);
// Sets the batch's labels to new ones.
// A part of the batch, copied from the host.
plim_tensor *train_copied(plim_tape *t, plim_dims shape);
void train_load_labels(plim_tape *t, const plim_model *m, const plim_recipe *r, plim_batch *b);
bool train_gives_mask(const plim_recipe *r);
plim_mask_kind train_mask_of(const plim_recipe *r);
// model(**batch), with saved tensors kept where the recipe asks for.
plim_tensor *train_call_model(plim_tape *t, plim_model *m, const plim_recipe *r,
                              const plim_batch *batch, plim_tensor **logits);
void train_release_all(plim_tape *t, plim_tensors *tensors);
bool train_is_contrastive(const plim_recipe *r);
bool train_has_preferences(const plim_recipe *r);
bool train_has_engine(const plim_model *m); // DeepSpeed's engine

// loss.backward(), with a scaled loss if there is a scaler. `is_last`: the last backward of the step.
void train_backward(plim_tape *t, plim_model *m, const plim_recipe *r, plim_scaler *scaler,
                    plim_tensor *loss, bool is_last);

// The optimizer's part of a step, with optional clipping.
void train_begin_optimizer(plim_tape *t, int step);
bool train_clips(const plim_model *m, const plim_recipe *r);
plim_tensor *train_clipped_norm(plim_tape *t, const plim_model *m, plim_scaler *scaler);
// The optimizer of one parameter that steps in backward: its parameter, and what a step needs.
typedef struct {
  const plim_recipe *recipe;
  plim_tensor *const *parameters;
  plim_tensor **state;
  size_t count, index;
} train_own_optimizer;

// Lets each parameter's optimizer step as soon as its gradient is complete, if the recipe asks for it; returns what
// train_end_own_steps frees. NULL: it does not, or out of memory.
train_own_optimizer *train_step_in_backward(plim_tape *t, const plim_model *m, const plim_recipe *r,
                                            plim_tensor **state);
void train_skip_update(plim_tape *t); // the end of a step whose parameters were updated in backward
void train_end_own_steps(plim_tape *t, const plim_model *m, train_own_optimizer *own);

void train_update(plim_tape *t, plim_model *m, const plim_recipe *r, plim_scaler *scaler,
                  plim_tensor *const *parameters, plim_tensor **state);

// train_next_pass and train_next_step return the number of the last pass or step that is done, including those skipped
// because they would repeat it.
int train_micro_batches(const plim_recipe *r);
int train_next_pass(plim_tape *t, const plim_recipe *r, int done);
int train_next_step(plim_tape *t, const plim_recipe *r, int done);

// Returns false when out of memory. `grouped` has room for all parameters.
bool train_with_trainer(plim_tape *t, plim_model *m, const plim_recipe *r, plim_tensor **state,
                        plim_tensor **grouped);

#endif
