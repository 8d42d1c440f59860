// What happens to gradients: clipping, the optimizer's step, zero_grad.
#ifndef PLIM_CORE_OPTIMIZER_H
#define PLIM_CORE_OPTIMIZER_H

#include "tape.h"

// One row per optimizer: its name on the command line, and what its step allocates.
typedef struct plim_optimizer plim_optimizer;

// By name ("adamw", "adamw-foreach", "adamw-loop", "sgd", "sgd-momentum", "adafactor"); NULL if there
// is none.
const plim_optimizer *plim_optimizer_named(const char *name);
const char *plim_optimizer_name(size_t index); // NULL behind the last

// Whether its step unscales gradients itself, as fused ones do (_step_supports_amp_scaling).
bool plim_optimizer_takes_scale(const plim_optimizer *o);

// Variables of state per parameter; all NULL before the first step.
enum { PLIM_OPTIMIZER_STATE = 3 };

void plim_optimizer_step(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                         size_t count, plim_tensor **state);

// torch.nn.utils.clip_grad_norm_: the norm, floating.
plim_tensor *plim_clip_grad_norm(plim_tape *t, plim_tensor *const *parameters, size_t count);

// In the order of the parameters.
void plim_zero_grad(plim_tape *t, plim_tensor *const *parameters, size_t count);

#endif
