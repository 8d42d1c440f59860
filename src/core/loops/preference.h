// Training from preferences as in TRL: a batch has chosen and rejected answers, one half each, and the loss compares
// how probable they are, mostly in relation to a reference model.
#ifndef PLIM_CORE_PREFERENCE_H
#define PLIM_CORE_PREFERENCE_H

#include "training.h"

// A batch of the recipe's method.
plim_batch plim_preference_batch(plim_tape *t, const plim_recipe *r);
// What trainers do before training: they compute the reference's log-probabilities, if the recipe wants them.
void plim_preference_prepare(plim_tape *t, plim_model *m, const plim_recipe *r);

// The loss of one batch, without Trainer's division.
plim_tensor *plim_preference_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                  const plim_batch *batch);

#endif
