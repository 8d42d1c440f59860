// What Gemma 4's files share: its norm, and the mixture that some models have beside the MLP of each layer.
#ifndef PLIM_CORE_GEMMA4_H
#define PLIM_CORE_GEMMA4_H

#include "experts.h"

// The router is an ordinary linear layer between two learned scales.
typedef struct {
  plim_linear projection;
  plim_tensor *scale, *expert_scale; // of what the router sees, and of the shares
  plim_experts experts;
  plim_tensor *post_mlp_norm, *post_norm, *pre_norm;
} plim_gemma4_mixture;

extern const plim_mixture plim_gemma4_experts;

// (x * (mean(x ** 2) + eps) ** -0.5) * weight, in float32; a norm without a weight only scales.
plim_tensor *plim_gemma4_norm(plim_tape *t, plim_tensor *x, plim_tensor *scale);

plim_gemma4_mixture plim_gemma4_mixture_new(plim_tape *t, plim_model *m, const plim_config *c,
                                            plim_dtype dtype);

// Variables of the layer's forward, which hold them to its end.
typedef struct {
  plim_tensor *dense, *rows, *shares, *chosen, *routed;
} plim_gemma4_mixing;

// The sum of what the MLP returned, `hidden`, and of what the experts make of `residual`. *probabilities is the
// variable of the layer that had the weights of eager attention.
plim_tensor *plim_gemma4_mix(plim_tape *t, const plim_gemma4_mixture *m, plim_tensor *residual,
                             plim_tensor *hidden, plim_gemma4_mixing *v,
                             plim_tensor **probabilities);
void plim_gemma4_mixing_drop(plim_tape *t, plim_gemma4_mixing *v);

#endif
