// torch.amp.GradScaler: the loss is scaled up, gradients are scaled down before they are used.
#ifndef PLIM_CORE_SCALER_H
#define PLIM_CORE_SCALER_H

#include "optimizer.h"

typedef struct {
  plim_tensor *scale, *growth; // made at the first use
  plim_tensor *found; // whether this step's gradients hold an infinity; NULL: not looked yet
  bool is_unscaled;   // this step's gradients
} plim_scaler;

// scaler.scale(loss): floating.
plim_tensor *plim_scaler_scale(plim_tape *t, plim_scaler *s, plim_tensor *loss);

// scaler.unscale_(optimizer): gradients in place.
void plim_scaler_unscale(plim_tape *t, plim_scaler *s);

// scaler.step(optimizer) and scaler.update(); arguments as plim_optimizer_step's.
void plim_scaler_step(plim_tape *t, plim_scaler *s, const plim_optimizer *o,
                      plim_tensor *const *parameters, size_t count, plim_tensor **state,
                      bool widens_tables);

#endif
