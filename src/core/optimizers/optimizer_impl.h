// What the optimizers share: optimizer.c (the table), torch_optim.c, adafactor.c, bitsandbytes.c. Nobody else
// includes this.
#ifndef PLIM_CORE_OPTIMIZER_IMPL_H
#define PLIM_CORE_OPTIMIZER_IMPL_H

#include "optimizer.h"

typedef struct {
  plim_tensor *const *parameters;
  plim_tensor **state;  // PLIM_OPTIMIZER_STATE of each parameter
  plim_tensor **shared; // PLIM_OPTIMIZER_SHARED of the optimizer
  size_t count;
  bool widens_tables;
} update;

struct plim_optimizer {
  const char *name;
  void (*step)(plim_tape *t, const plim_optimizer *o, const update *u);
  int moments; // copies of the parameters that it keeps; those that factor them count as none
  int bits;    // of bitsandbytes: the width of its states
  bool takes_scale;
  bool is_paged; // states in managed memory, which moves between host and card
};

static inline plim_tensor **state_of(const update *u, size_t i) {
  return &u->state[PLIM_OPTIMIZER_STATE * i];
}

// The parameter has a gradient, and no state yet.
static inline bool is_new(const update *u, size_t i) {
  return u->parameters[i]->grad && !*state_of(u, i);
}

// What a step does in place, for the clock: kernels that together read and write a tensor like each
// parameter `passes` times, over all parameters at once or over one after the other.
void update_in_place(plim_tape *t, const update *u, int kernels, double passes);
void update_one_by_one(plim_tape *t, const update *u, int kernels, double passes);

void step_adamw_fused(plim_tape *t, const plim_optimizer *o, const update *u);
void step_adamw_foreach(plim_tape *t, const plim_optimizer *o, const update *u);
void step_adamw_loop(plim_tape *t, const plim_optimizer *o, const update *u);
void step_sgd(plim_tape *t, const plim_optimizer *o, const update *u);
void step_sgd_momentum(plim_tape *t, const plim_optimizer *o, const update *u);
void step_lion(plim_tape *t, const plim_optimizer *o, const update *u);
void step_adafactor(plim_tape *t, const plim_optimizer *o, const update *u);
void step_bitsandbytes(plim_tape *t, const plim_optimizer *o, const update *u);

#endif
