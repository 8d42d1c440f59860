// Modules that families share.
#ifndef PLIM_CORE_MODULES_H
#define PLIM_CORE_MODULES_H

#include "model.h"

// nn.Linear, with peft's adapter if it has one.
typedef struct {
  plim_tensor *weight, *bias;   // bias: NULL if there is none
  plim_tensor *lora_a, *lora_b; // NULL if it has no adapter
  const char *name;             // "q_proj"; NULL: not known
  double dropout;
  bool is_conv1d; // transformers' Conv1D: the weight is (in, out)
} plim_linear;

// Gives each its name, by its place.
void plim_projections_name(plim_linear *proj);

plim_linear plim_linear_new(plim_tape *t, plim_model *m, int64_t out, int64_t in, bool has_bias,
                            plim_dtype dtype);
plim_linear plim_conv1d_new(plim_tape *t, plim_model *m, int64_t in, int64_t out, plim_dtype dtype);
void plim_linear_add_lora(plim_tape *t, plim_model *m, plim_linear *l, const plim_lora *lora);
// Adds an adapter if the layer is there and its name is a target.
void plim_lora_target(plim_tape *t, plim_model *m, plim_linear *l, plim_projection name,
                      const plim_lora *lora);
plim_tensor *plim_linear_forward(plim_tape *t, const plim_linear *l, plim_tensor *x);

// Adapters come after the whole model, and become float32 when all are there.
void plim_lora_begin(plim_model *m);
void plim_lora_end(plim_tape *t, plim_model *m, const plim_lora *lora);
// Adapters on those of a layer's projections (an array of PLIM_PROJECTIONS) that exist and are meant.
void plim_projections_add_lora(plim_tape *t, plim_model *m, plim_linear *proj,
                               const plim_lora *lora);

// 0.5 * x * (1 + tanh(0.79 * (x + 0.044715 * x ** 3))), operator by operator.
plim_tensor *plim_new_gelu(plim_tape *t, plim_tensor *x);

// RMSNorm as transformers writes it; gemma's multiplies by 1 + weight, and does so in float32.
plim_tensor *plim_rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);
plim_tensor *plim_gemma_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);

// Rotary position embeddings.
plim_tensor *plim_inverse_frequencies(plim_tape *t, int64_t n);
void plim_rotary(plim_tape *t, const plim_tensor *inv_freq, int64_t length, plim_dtype dtype,
                 plim_tensor **cos, plim_tensor **sin);
plim_tensor *plim_rope(plim_tape *t, plim_tensor *x, plim_tensor *cos, plim_tensor *sin);
// Queries and keys, both variables, turned by their positions; cos and sin are (1,T,D).
void plim_turn(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q, plim_tensor **k);

// (B,T,H*D) -> (B,H,T,D), each head normed if there is a norm (NULL: none).
plim_tensor *plim_split_heads(plim_tape *t, plim_tensor *x, int64_t head_dim, plim_tensor *norm);

// Attention of (B,H,T,D) tensors, eager or by a kernel: (B,T,H,D). Eager attention also
// returns its weights, which layers keep in a variable: *weights gets them.
plim_tensor *plim_attend(plim_tape *t, plim_attention_kind kind, plim_tensor *q, plim_tensor *k,
                         plim_tensor *v, plim_tensor *mask, double dropout_p,
                         plim_tensor **weights);

// Eager attention alone, its scores held between bounds by tanh if they are capped.
plim_tensor *plim_attend_eagerly(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                 plim_tensor *mask, bool is_capped, double dropout_p,
                                 plim_tensor **weights);

// The head of a causal language model: logits (into the variable *logits, unless the loss does without
// them) and loss. `hidden` is let go when both are there.
plim_tensor *plim_causal_head(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                              const plim_batch *batch, plim_tensor **logits);
// The same, with logits held between bounds by tanh.
plim_tensor *plim_causal_head_capped(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                     const plim_batch *batch, plim_tensor **logits);

// Calls a layer, checkpointed or not; the plain one without the hooks of sharding.
plim_tensor *plim_call_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                             plim_tensor *x);
plim_tensor *plim_call_plain_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                                   plim_tensor *x);

#endif
