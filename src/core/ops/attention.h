// scaled_dot_product_attention and the kernels behind it.
#ifndef PLIM_CORE_ATTENTION_H
#define PLIM_CORE_ATTENTION_H

#include "work.h"

// The kernel the card would pick if it can; see plim_sdpa_choose for when it cannot.
void plim_tape_set_sdpa(plim_tape *t, plim_sdpa_kernel preferred);

plim_sdpa_kernel plim_sdpa_preferred(const plim_gpu *gpu);

// What scaled_dot_product_attention was called with, as far as the choice of its kernel goes.
typedef struct {
  plim_dtype dtype;
  int64_t head_dim;
  const plim_tensor *mask; // NULL: none
  bool heads_are_equal, has_dropout;
} plim_sdpa_call;

// The kernel that runs: the first the card can, from its preferred one on. Fused ones want half
// precision, heads of a size they are made for, and a mask they can read.
plim_sdpa_kernel plim_sdpa_choose(plim_sdpa_kernel preferred, const plim_gpu *gpu,
                                  const plim_sdpa_call *call);

// Whether attention ran that no fused kernel would do, with its T x T scores in memory.
bool plim_tape_ran_math(const plim_tape *t);

// mask may be NULL (causal then) or bool; dropout is on the probabilities.
plim_tensor *plim_op_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                               plim_tensor *mask, double dropout_p);
// The same where every query may see every key.
plim_tensor *plim_op_full_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                    plim_tensor *mask, double dropout_p);

#endif
