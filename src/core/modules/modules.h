// Building blocks shared by the model families.
#ifndef PLIM_CORE_MODULES_H
#define PLIM_CORE_MODULES_H

#include "config.h"
#include "wrapper.h"

// ---- linear layers and adapters: linear.c ---------------------------------------------------------

// nn.Linear with an optional LoRA adapter of peft.
typedef struct {
  plim_tensor *weight, *bias;   // bias may be NULL
  plim_tensor *lora_a, *lora_b; // NULL without an adapter
  plim_tensor *magnitude;       // of DoRA; or NULL
  const char *path;             // inside its layer of the model: "self_attn.q_proj"
  const char *name;             // for messages; the last part of the path unless set
  double dropout;
  bool is_product; // Falcon's: x @ weight.T, then + bias
  bool is_conv1d;  // transformers' Conv1D: the weight is (in, out)
} plim_linear;

// `path` must outlive the model.
plim_linear plim_linear_new(plim_tape *t, plim_model *m, const char *path, int64_t out, int64_t in,
                            bool has_bias, plim_dtype dtype);
plim_linear plim_conv1d_new(plim_tape *t, plim_model *m, const char *path, int64_t in, int64_t out,
                            plim_dtype dtype);
plim_tensor *plim_linear_forward(plim_tape *t, const plim_linear *l, plim_tensor *x);

// The norm of each row of weight + scaling * lora_B @ lora_A: the first value of DoRA's magnitude.
plim_tensor *plim_dora_magnitude(plim_tape *t, const plim_linear *l);

// Visits bias, then weight, in the order of their names. Skips what does not exist.
typedef void plim_visit(void *context, plim_tensor *parameter);
void plim_linear_visit(const plim_linear *l, plim_visit *visit, void *context);

// ---- adapters: lora.c -----------------------------------------------------------------------------

// Adapters are created after the whole model, and are cast to float32 once all exist.
void plim_lora_begin(plim_model *m);
void plim_lora_end(plim_tape *t, plim_model *m, const plim_lora *lora);
// Call between the two: adds adapters to the given layers that exist and are targets, in this order. `place` and `index`
// say where they are: "model.layers" and 3; index -1: there is no number.
void plim_lora_add(plim_tape *t, plim_model *m, const plim_lora *lora, const char *place,
                   int64_t index, plim_linear *const *layers, size_t count);
#define plim_lora_add_all(t, m, lora, place, index, ...)                                           \
  plim_lora_add(t, m, lora, place, index, (plim_linear *const[]){__VA_ARGS__},                     \
                sizeof((plim_linear *const[]){__VA_ARGS__}) / sizeof(plim_linear *))

bool plim_lora_is_everywhere(const plim_lora *lora); // PLIM_ALL_LINEAR
// Whether a target is this name, or a path that ends in it.
bool plim_lora_names(const plim_lora *lora, const char *name);
bool plim_lora_names_head(const plim_lora *lora); // lm_head, or what it is called elsewhere
// A set of linear layers: the ends of their paths in a layer, "self_attn.o_proj", and NULL for the rest.
enum { PLIM_PATHS = 4 };
typedef const char *plim_paths[PLIM_PATHS];
// Bit i: a layer of such a model has all linear layers of set i, and they are targets. 0 if memory runs out.
unsigned plim_lora_adapts(const plim_config *c, const plim_lora *lora, const plim_paths *sets,
                          size_t count);
// Makes a name known to plim_lora_check that no linear layer has, but an adapter may. It must outlive the model.
void plim_lora_allow_name(plim_model *m, const char *path);

// Names among the targets that no layer has. peft passes over them if another name fits.
typedef struct {
  char names[160];     // separated by commas; "" if there are none
  int count, matched;  // and how many names fit a layer
  const char *closest; // a layer's name that may be meant by the first; NULL: none
} plim_lora_unmatched;

// Refuses targets if no layer of such a model has any of the names.
plim_err plim_lora_check(const plim_config *c, const plim_lora *lora, plim_lora_unmatched *out,
                         plim_error *error);

// peft's modules_to_save: a trained copy takes the place of a frozen layer, which stays.
void plim_linear_save(plim_tape *t, plim_model *m, plim_linear *l);

// ---- activations and norms ------------------------------------------------------------------------

// 0.5 * x * (1 + tanh(0.79 * (x + 0.044715 * x ** 3))), one operator at a time.
plim_tensor *plim_new_gelu(plim_tape *t, plim_tensor *x);

// What config.json names, by its kernels.
plim_tensor *plim_activate(plim_tape *t, plim_activation activation, plim_tensor *x);

// down(activation(gate(x)) * up(x))
plim_tensor *plim_gated_mlp(plim_tape *t, plim_activation activation, const plim_linear *gate,
                            const plim_linear *up, const plim_linear *down, plim_tensor *x);

// nn.LayerNorm.
typedef struct {
  plim_tensor *weight, *bias;
} plim_norm;

plim_norm plim_norm_new(plim_tape *t, plim_model *m, int64_t width, plim_dtype dtype);
plim_norm plim_norm_new_unbiased(plim_tape *t, plim_model *m, int64_t width, plim_dtype dtype);
plim_tensor *plim_norm_forward(plim_tape *t, const plim_norm *n, plim_tensor *x);
void plim_norm_visit(const plim_norm *n, plim_visit *visit, void *context);

// RMSNorm as in transformers. The wide one multiplies by the weight in float32; Gemma's multiplies by 1 + weight, in
// float32; T5's computes only the variance in float32.
plim_tensor *plim_rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);
plim_tensor *plim_wide_rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);
plim_tensor *plim_gemma_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);
plim_tensor *plim_gemma2_norm(plim_tape *t, plim_tensor *x,
                              plim_tensor *weight); // of 2 and 3, which Liger replaces otherwise
plim_tensor *plim_t5_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);

// ---- attention ------------------------------------------------------------------------------------

// (B,T,H*D) -> (B,H,T,D); applies `norm` to each head unless it is NULL.
plim_tensor *plim_split_heads(plim_tape *t, plim_tensor *x, int64_t head_dim, plim_tensor *norm);
// (B,T,H,D) -> (B,T,H*D), contiguous.
plim_tensor *plim_join_heads(plim_tape *t, plim_tensor *x);

// The dtype of the softmax in eager attention.
typedef enum {
  PLIM_SOFTMAX_WIDE,        // float32, then cast to that of the queries
  PLIM_SOFTMAX_OWN,         // that of the scores, which autocast makes float32
  PLIM_SOFTMAX_OWN_AND_BACK // the same, then cast to that of the values
} plim_softmax_kind;

// The kind of attention of a family.
typedef struct {
  plim_attention_kind kind;
  double dropout_p;
  bool sees_all; // without a mask every query sees every key
  // The rest applies to eager attention only:
  plim_tensor *sinks; // (H): one more score for each head, whose probability is dropped; NULL: none
  plim_softmax_kind softmax;
  bool is_capped;       // scores are limited by tanh, which kernels do not support
  bool is_left_strided; // the result is not made contiguous
} plim_attending;

// (B,K,T,D) -> (B,K*times,T,D); x itself if times is 1.
plim_tensor *plim_repeat_kv(plim_tape *t, plim_tensor *x, int64_t times);

// Attention of (B,H,T,D) tensors, eager or in a kernel; the result is (B,T,H,D). Eager attention also returns its
// weights, which layers keep in a variable: it sets *weights.
plim_tensor *plim_attend(plim_tape *t, const plim_attending *how, plim_tensor *q, plim_tensor *k,
                         plim_tensor *v, plim_tensor *mask, plim_tensor **weights);
// Eager attention only, with a bias (NULL: none) added to the scores before the mask.
plim_tensor *plim_attend_eagerly(plim_tape *t, const plim_attending *how, plim_tensor *q,
                                 plim_tensor *k, plim_tensor *v, plim_tensor *bias,
                                 plim_tensor *mask, plim_tensor **weights);
// Softmax in the dtype of the scores, which autocast makes float32.
plim_tensor *plim_softmax_own(plim_tape *t, plim_tensor *scores);

// ---- parts of a model that may be sharded separately ----------------------------------------------

// nn.Embedding.
plim_tensor *plim_look_up(plim_tape *t, plim_tensor *table, plim_tensor *ids);
// get_input_embeddings()(ids), and the second half of it. With the model's own checkpoints its result needs a gradient
// (enable_input_require_grads).
plim_tensor *plim_embed(plim_tape *t, const plim_batch *batch, plim_tensor *table,
                        plim_tensor *ids);
plim_tensor *plim_embed_leave(plim_tape *t, const plim_batch *batch, plim_tensor *out);
// The position ids of a model that is given none, (1,T).
plim_tensor *plim_position_ids(plim_tape *t, int64_t length);

// The same for a table whose rows are multiplied by the buffer `scale`.
plim_tensor *plim_embed_scaled(plim_tape *t, const plim_batch *batch, plim_tensor *table,
                               plim_tensor *scale, plim_tensor *ids);

// ---- models ---------------------------------------------------------------------------------------

// The head of a causal language model, with its adapter if it has one.
plim_tensor *plim_head_logits(plim_tape *t, const plim_model *m, plim_tensor *x);
// torchtune's loss of the last hidden states, in eighths.
plim_tensor *plim_head_in_eighths(plim_tape *t, const plim_model *m, plim_tensor *hidden,
                                  const plim_batch *batch);
// forward of a causal language model: the inner model, then the logits (sets *logits, unless the loss does not need
// them) and the loss.
plim_tensor *plim_causal_forward(plim_tape *t, plim_model *m, const plim_batch *batch,
                                 plim_tensor **logits);

#endif
