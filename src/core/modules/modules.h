// Modules that families share.
#ifndef PLIM_CORE_MODULES_H
#define PLIM_CORE_MODULES_H

#include "config.h"
#include "wrapper.h"

// ---- linear layers and adapters: linear.c ---------------------------------------------------------

// nn.Linear, with peft's adapter if it has one.
typedef struct {
  plim_tensor *weight, *bias;   // bias: NULL if there is none
  plim_tensor *lora_a, *lora_b; // NULL if it has no adapter
  plim_projection projection;   // what adapters know it by
  const char *name;             // what people do; the projection's, unless it is set
  double dropout;
  bool is_conv1d; // transformers' Conv1D: the weight is (in, out)
} plim_linear;

plim_linear plim_linear_new(plim_tape *t, plim_model *m, plim_projection projection, int64_t out,
                            int64_t in, bool has_bias, plim_dtype dtype);
plim_linear plim_conv1d_new(plim_tape *t, plim_model *m, plim_projection projection, int64_t in,
                            int64_t out, plim_dtype dtype);
plim_tensor *plim_linear_forward(plim_tape *t, const plim_linear *l, plim_tensor *x);

// Bias, then weight: the order of their names. What is not there is passed over.
typedef void plim_visit(void *context, plim_tensor *parameter);
void plim_linear_visit(const plim_linear *l, plim_visit *visit, void *context);

// Adapters come after the whole model, and become float32 when all are there.
void plim_lora_begin(plim_model *m);
void plim_lora_end(plim_tape *t, plim_model *m, const plim_lora *lora);
// In between: adapters on those of the layers that exist and are targets, in this order.
void plim_lora_add(plim_tape *t, plim_model *m, const plim_lora *lora, plim_linear *const *layers,
                   size_t count);
#define plim_lora_add_all(t, m, lora, ...)                                                         \
  plim_lora_add(t, m, lora, (plim_linear *const[]){__VA_ARGS__},                                   \
                sizeof((plim_linear *const[]){__VA_ARGS__}) / sizeof(plim_linear *))

// ---- activations and norms ------------------------------------------------------------------------

// 0.5 * x * (1 + tanh(0.79 * (x + 0.044715 * x ** 3))), operator by operator.
plim_tensor *plim_new_gelu(plim_tape *t, plim_tensor *x);

// What config.json names, by its kernels.
plim_tensor *plim_activate(plim_tape *t, plim_activation activation, plim_tensor *x);

// nn.LayerNorm.
typedef struct {
  plim_tensor *weight, *bias;
} plim_norm;

plim_norm plim_norm_new(plim_tape *t, plim_model *m, int64_t width, plim_dtype dtype);
plim_tensor *plim_norm_forward(plim_tape *t, const plim_norm *n, plim_tensor *x);
void plim_norm_visit(const plim_norm *n, plim_visit *visit, void *context);

// RMSNorm as transformers writes it; the wide one multiplies by the weight in float32; gemma's multiplies by
// 1 + weight, and does so in float32; T5's computes only the variance in float32.
plim_tensor *plim_rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);
plim_tensor *plim_wide_rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);
plim_tensor *plim_gemma_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);
plim_tensor *plim_t5_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);

// ---- attention ------------------------------------------------------------------------------------

// (B,T,H*D) -> (B,H,T,D), each head normed if there is a norm (NULL: none).
plim_tensor *plim_split_heads(plim_tape *t, plim_tensor *x, int64_t head_dim, plim_tensor *norm);
// (B,T,H,D) -> (B,T,H*D), contiguous.
plim_tensor *plim_join_heads(plim_tape *t, plim_tensor *x);

// In which dtype eager attention takes its softmax.
typedef enum {
  PLIM_SOFTMAX_WIDE,        // in float32, and back to the queries'
  PLIM_SOFTMAX_OWN,         // in the scores' own, which autocast makes float32
  PLIM_SOFTMAX_OWN_AND_BACK // the same, and back to the values'
} plim_softmax_kind;

// How a family attends.
typedef struct {
  plim_attention_kind kind;
  double dropout_p;
  bool sees_all; // every query every key, where no mask says otherwise
  // Eager attention:
  plim_softmax_kind softmax;
  bool is_capped;       // scores are held between bounds by tanh; kernels know nothing of that
  bool is_left_strided; // the result is not made contiguous
} plim_attending;

// Attention of (B,H,T,D) tensors, eager or by a kernel: (B,T,H,D). Eager attention also
// returns its weights, which layers keep in a variable: *weights gets them.
plim_tensor *plim_attend(plim_tape *t, const plim_attending *how, plim_tensor *q, plim_tensor *k,
                         plim_tensor *v, plim_tensor *mask, plim_tensor **weights);
// Eager attention alone, with a bias on the scores (NULL: none) before the mask.
plim_tensor *plim_attend_eagerly(plim_tape *t, const plim_attending *how, plim_tensor *q,
                                 plim_tensor *k, plim_tensor *v, plim_tensor *bias,
                                 plim_tensor *mask, plim_tensor **weights);
// softmax in the dtype of the scores, which autocast makes float32.
plim_tensor *plim_softmax_own(plim_tape *t, plim_tensor *scores);

// ---- parts of a model that may be sharded apart ------------------------------------------------------

// nn.Embedding.
plim_tensor *plim_look_up(plim_tape *t, plim_tensor *table, plim_tensor *ids);
// get_input_embeddings()(ids), or the end of it. Under the model's own checkpoints its result needs a
// gradient (enable_input_require_grads).
plim_tensor *plim_embed(plim_tape *t, const plim_batch *batch, plim_tensor *table,
                        plim_tensor *ids);
plim_tensor *plim_embed_leave(plim_tape *t, const plim_batch *batch, plim_tensor *out);

// ---- models ---------------------------------------------------------------------------------------

// forward of a causal language model: its inner model, then logits (into the variable *logits, unless
// the loss does without them) and loss.
plim_tensor *plim_causal_forward(plim_tape *t, plim_model *m, const plim_batch *batch,
                                 plim_tensor **logits);

#endif
