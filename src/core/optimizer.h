// What happens to gradients: clipping, the optimizer's step, zero_grad.
#ifndef PLIM_CORE_OPTIMIZER_H
#define PLIM_CORE_OPTIMIZER_H

#include "tape.h"

#define clip_grad_norm plim_clip_grad_norm
#define adamw_fused_step plim_adamw_fused_step
#define zero_grad plim_zero_grad

// torch.nn.utils.clip_grad_norm_, its result thrown away.
void clip_grad_norm(plim_tape *t, plim_tensor *const *parameters, size_t count);

// AdamW with fused=True: state at the first step, nothing after. `state` has 3 variables per
// parameter, NULL at first.
void adamw_fused_step(plim_tape *t, plim_tensor *const *parameters, size_t count,
                      plim_tensor **state);

void zero_grad(plim_tape *t, plim_tensor *const *parameters, size_t count);

#endif
