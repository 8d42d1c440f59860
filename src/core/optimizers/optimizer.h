// What happens to gradients: clipping, the optimizer's step, zero_grad.
#ifndef PLIM_CORE_OPTIMIZER_H
#define PLIM_CORE_OPTIMIZER_H

#include "tape.h"

// One row per optimizer: its name on the command line, and what its step allocates.
typedef struct plim_optimizer plim_optimizer;

// By its name ("adamw", "adamw-8bit", "lion", ...) or that of transformers' TrainingArguments
// ("adamw_bnb_8bit", ...); NULL if there is none.
const plim_optimizer *plim_optimizer_named(const char *name);
const char *plim_optimizer_name(size_t index);         // NULL behind the last
bool plim_optimizer_is_paged(const plim_optimizer *o); // states in managed memory
bool plim_optimizer_rounds(const plim_optimizer *o);   // states of 8 bits
int plim_optimizer_moments(const plim_optimizer *o);   // copies of the parameters that it keeps
// Of a name of either kind the one on the command line, and back; NULL if there is none.
const char *plim_optimizer_own_name(const char *name);
const char *plim_optimizer_trainer_name(const char *own);

// Whether its step unscales gradients itself, as fused ones do (_step_supports_amp_scaling).
bool plim_optimizer_takes_scale(const plim_optimizer *o);

// Variables of state: so many per parameter, and behind them those of the optimizer itself; all NULL
// before the first step.
enum { PLIM_OPTIMIZER_STATE = 4, PLIM_OPTIMIZER_SHARED = 2 };

// `widens_tables`: 8-bit states of embedding tables are float32 instead, as Trainer asks for.
void plim_optimizer_step(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                         size_t count, plim_tensor **state, bool widens_tables);

// Likewise, but only the parameter of that index is updated.
void plim_optimizer_step_one(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                             size_t count, plim_tensor **state, size_t index);

// torch.nn.utils.clip_grad_norm_: the norm, floating.
plim_tensor *plim_clip_grad_norm(plim_tape *t, plim_tensor *const *parameters, size_t count);

// In the order of the parameters.
void plim_zero_grad(plim_tape *t, plim_tensor *const *parameters, size_t count);

#endif
