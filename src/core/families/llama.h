// Llama and its siblings mistral, qwen2, qwen3: RMSNorm, rotary positions, grouped attention, SwiGLU.
#ifndef PLIM_CORE_FAMILIES_LLAMA_H
#define PLIM_CORE_FAMILIES_LLAMA_H

#include "masks.h"

typedef struct {
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary;
  bool ties_embeddings;
  bool has_qkv_bias;         // qwen2
  bool has_qk_norm;          // qwen3
  bool keeps_mask_arguments; // qwen2, qwen3: their forward keeps them in a dict
} plim_llama_config;

typedef struct plim_llama plim_llama;

// The projections adapters can be put on; names as peft has them.
typedef enum {
  PLIM_Q_PROJ,
  PLIM_K_PROJ,
  PLIM_V_PROJ,
  PLIM_O_PROJ,
  PLIM_GATE_PROJ,
  PLIM_UP_PROJ,
  PLIM_DOWN_PROJ,
  PLIM_PROJECTIONS
} plim_projection;

typedef struct {
  int64_t rank;
  double dropout;
  uint32_t targets; // bit i: plim_projection i
  bool keeps_dtype; // false: adapters become float32, as peft does
} plim_lora;

// Builds the model as its constructor does, on the tape. NULL when memory is out.
plim_llama *plim_llama_new(plim_tape *t, const plim_llama_config *config, plim_dtype dtype);
void plim_llama_delete(plim_llama *m); // its tensors stay on the tape

// peft.get_peft_model: freezes the model and adds adapters. False when memory is out.
bool plim_llama_add_lora(plim_tape *t, plim_llama *m, const plim_lora *lora);

// The parameters that are trained, in the order of model.parameters().
plim_tensor **plim_llama_parameters(plim_llama *m, size_t *count);

typedef enum {
  PLIM_CHECKPOINT_OFF,
  PLIM_CHECKPOINT_ON,
  PLIM_CHECKPOINT_REENTRANT
} plim_checkpoint_kind;

// What the model is called with.
typedef struct {
  plim_tensor *ids, *mask, *labels; // mask: NULL if there is none
  plim_tensor *items;               // num_items_in_batch; NULL if it is not given
  plim_mask_kind mask_kind;
  plim_attention_kind attention;
  plim_checkpoint_kind checkpoint; // of each layer
} plim_batch;

// model(**batch): the loss; *logits (a variable) gets the logits.
plim_tensor *plim_llama_forward(plim_tape *t, plim_llama *m, const plim_batch *batch,
                                plim_tensor **logits);

#endif
