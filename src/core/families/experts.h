// A mixture of experts in place of the MLP, as Mixtral has it.
#ifndef PLIM_CORE_EXPERTS_H
#define PLIM_CORE_EXPERTS_H

#include "config.h"
#include "expert_lora.h"

typedef struct {
  plim_tensor *router;         // (E,h); NULL: there is no mixture
  plim_tensor *gate_up, *down; // of all experts: (E,2i,h) and (E,h,i)
  int64_t per_token;           // experts that see a token
  plim_expert_lora router_lora, gate_up_lora, down_lora;
} plim_experts;

plim_experts plim_experts_new(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype dtype);
// "all-linear" includes the router and the experts, which used to be linear layers. Two of them are
// stacked in gate_up, which gets twice the rank.
void plim_experts_add_lora(plim_tape *t, plim_model *m, plim_experts *e, int64_t rank);
// A checkpoint has three matrices for each expert, which are stacked on the device; has_halves: two of them.
void plim_experts_assemble(plim_tape *t, plim_model *m, plim_tensor *stack, bool has_halves);
plim_tensor *plim_experts_forward(plim_tape *t, const plim_experts *e, plim_tensor *x);

#endif
