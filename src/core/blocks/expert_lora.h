// peft's adapters on parameters (ParamWrapper), used for a mixture's router and stacked experts. They are merged
// into the weight in every forward.
#ifndef PLIM_CORE_EXPERT_LORA_H
#define PLIM_CORE_EXPERT_LORA_H

#include "model.h"

typedef struct {
  plim_tensor *a, *b; // (E*r,in) and (out,E*r); NULL: there is no adapter
} plim_expert_lora;

// For a weight of (out,in) or (E,out,in). Their order among the model's parameters is left to the caller.
plim_expert_lora plim_expert_lora_new(plim_tape *t, plim_model *m, const plim_tensor *weight,
                                      int64_t rank);

// What replaces a weight while its module runs. Without an adapter it is the weight itself.
typedef struct {
  plim_tensor *left, *right; // whose product is added; of a matrix, left alone: the product
  plim_tensor *merged;       // once it was asked for
} plim_merge;

void plim_merge_begin(plim_tape *t, const plim_expert_lora *l, plim_tensor *weight, plim_merge *m);
plim_tensor *plim_merge_weight(plim_tape *t, const plim_expert_lora *l, plim_tensor *weight,
                               plim_merge *m);
void plim_merge_end(plim_tape *t, plim_merge *m); // all but the merged weight

#endif
