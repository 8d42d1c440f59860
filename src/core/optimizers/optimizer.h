// Gradient clipping, the optimizer step and zero_grad.
#ifndef PLIM_CORE_OPTIMIZER_H
#define PLIM_CORE_OPTIMIZER_H

#include "model.h"

// One row of a table: the optimizer's name on the command line and what its step allocates.
typedef struct plim_optimizer plim_optimizer;

// Finds an optimizer by its name ("adamw", "adamw-8bit", "lion", ...) or its name in transformers' TrainingArguments
// ("adamw_bnb_8bit", ...). NULL if there is none.
const plim_optimizer *plim_optimizer_named(const char *name);
const char *plim_optimizer_name(size_t index);         // NULL after the last
bool plim_optimizer_is_paged(const plim_optimizer *o); // state in managed memory
bool plim_optimizer_is_bitsandbytes(const plim_optimizer *o);
bool plim_optimizer_rounds(const plim_optimizer *o); // state of 8 or 4 bits
// Whether DeepSpeed has it on the host; accelerate replaces all others there by DeepSpeed's Adam, unless
// zero_force_ds_cpu_optimizer is off (map_pytorch_optim_to_deepspeed of its utils/deepspeed.py).
bool plim_optimizer_is_in_deepspeed(const plim_optimizer *o);
// Its step is compiled, and what that allocates for a moment is not modelled.
bool plim_optimizer_is_compiled(const plim_optimizer *o);
int plim_optimizer_moments(const plim_optimizer *o); // moments per parameter, each as large as it
// The command line's name for a name of either kind, and TrainingArguments' name for one of ours; NULL if there is
// none.
const char *plim_optimizer_own_name(const char *name);
const char *plim_optimizer_trainer_name(const char *own);

// Whether its step unscales gradients itself, as fused ones do (_step_supports_amp_scaling).
bool plim_optimizer_takes_scale(const plim_optimizer *o);

// In which order a step of transformers' Trainer goes through the parameters: weights with decay first, norms and biases
// behind them; in the order of the model; or those first whose gradients are not projected.
typedef enum {
  PLIM_STEPS_BY_DECAY,
  PLIM_STEPS_AS_LISTED,
  PLIM_STEPS_PROJECTED_LAST
} plim_step_order;
plim_step_order plim_optimizer_order(const plim_optimizer *o);

// What an optimizer needs to know about each parameter: the rank to which GaLore and APOLLO project its gradient.
typedef struct {
  // Expressions of Python, separated by blanks: the gradients of matrices are projected in whose names one occurs. NULL:
  // those of all linear layers but the head.
  const char *names;
  int64_t rank; // 0: PLIM_PROJECTION_RANK
} plim_projection;
enum { PLIM_PROJECTION_RANK = 128 }; // the default of transformers' Trainer
bool plim_optimizer_projects(const plim_optimizer *o);
bool plim_optimizer_draws_projection(
    const plim_optimizer *o); // on random vectors; others compute singular ones
// Sets the `blocks` of each parameter of the model, before the first step.
void plim_optimizer_prepare(plim_model *m, const plim_optimizer *o, const plim_projection *how);

// Number of state variables per parameter, followed by those shared by all parameters. All must be NULL before the
// first step.
enum { PLIM_OPTIMIZER_STATE = 8, PLIM_OPTIMIZER_SHARED = 2 };

// Makes the state that an optimizer has before its first step.
void plim_optimizer_begin(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                          size_t count, plim_tensor **state);

// Adam-mini: its second moments are those of blocks of elements.
bool plim_optimizer_divides_blocks(const plim_optimizer *o);
// It comes in a package of its own, and was recorded on one GPU only.
bool plim_optimizer_is_alone(const plim_optimizer *o);
// LOMO: always steps in backward; a parameter's step frees its gradient when that of the next parameter is complete.
bool plim_optimizer_lags(const plim_optimizer *o);
bool plim_optimizer_scales_loss(const plim_optimizer *o); // by a constant, before the backward pass

// `widens_tables`: embedding tables get float32 state instead of 8 bits, which Trainer asks for.
void plim_optimizer_step(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                         size_t count, plim_tensor **state, bool widens_tables);

// Updates only the parameter with that index. `is_own`: the parameter has an optimizer of its own.
void plim_optimizer_step_one(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                             size_t count, plim_tensor **state, size_t index, bool is_own);

// torch.nn.utils.clip_grad_norm_. Returns the norm, floating.
plim_tensor *plim_clip_grad_norm(plim_tape *t, plim_tensor *const *parameters, size_t count);

// Frees the gradients in the order of the parameters.
void plim_zero_grad(plim_tape *t, plim_tensor *const *parameters, size_t count);

#endif
