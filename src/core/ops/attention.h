// scaled_dot_product_attention and the kernels it chooses from.
#ifndef PLIM_CORE_ATTENTION_H
#define PLIM_CORE_ATTENTION_H

#include "work.h"

// The kernel that the card prefers. plim_sdpa_choose says when another one runs instead.
void plim_tape_set_sdpa(plim_tape *t, plim_sdpa_kernel preferred);

plim_sdpa_kernel plim_sdpa_preferred(const plim_gpu *gpu);

// The arguments of scaled_dot_product_attention that affect the choice of kernel.
typedef struct {
  plim_dtype dtype;
  int64_t head_dim, value_dim; // of queries and keys, and of values
  const plim_tensor *mask;     // NULL: none
  bool heads_are_equal, has_dropout;
  // Of the version of PyTorch:
  bool avoids_cudnn; // takes its other kernels first
  bool groups_heads; // the memory-efficient kernel takes fewer heads of keys than of queries
} plim_sdpa_call;

// The kernel that runs: starting from the preferred one, the first that supports the call. Fused kernels require
// half precision, supported head sizes, and a mask with a layout they can read.
plim_sdpa_kernel plim_sdpa_choose(plim_sdpa_kernel preferred, const plim_gpu *gpu,
                                  const plim_sdpa_call *call);

// Whether any attention ran on the math kernel, which keeps the T x T scores in memory.
bool plim_tape_ran_math(const plim_tape *t);

// Where keys and values have one head for all queries and enable_gqa is not given, only math can broadcast it.
plim_tensor *plim_op_broadcast_attention(plim_tape *t, plim_tensor *q, plim_tensor *k,
                                         plim_tensor *v, plim_tensor *mask);
// Causal if mask is NULL; otherwise mask is bool or a bias. Dropout applies to the probabilities.
plim_tensor *plim_op_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                               plim_tensor *mask, double dropout_p);
// The same without causality: every query sees every key that the mask allows.
plim_tensor *plim_op_full_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                    plim_tensor *mask, double dropout_p);

#endif
