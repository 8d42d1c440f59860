// torch.amp.GradScaler: scales the loss up, and gradients down before they are used.
#ifndef PLIM_CORE_SCALER_H
#define PLIM_CORE_SCALER_H

#include "optimizer.h"

typedef struct {
  plim_tensor *scale, *growth; // created at first use
  plim_tensor *found;          // flag for infinite gradients in this step; NULL: not checked yet
  bool is_unscaled;            // this step's gradients have been unscaled
} plim_scaler;

// scaler.scale(loss). The result is floating.
plim_tensor *plim_scaler_scale(plim_tape *t, plim_scaler *s, plim_tensor *loss);

// scaler.unscale_(optimizer): scales the gradients in place.
void plim_scaler_unscale(plim_tape *t, plim_scaler *s);

// scaler.step(optimizer) and scaler.update(). Arguments are those of plim_optimizer_step.
void plim_scaler_step(plim_tape *t, plim_scaler *s, const plim_optimizer *o,
                      plim_tensor *const *parameters, size_t count, plim_tensor **state,
                      bool widens_tables);

#endif
