// Llama and its siblings mistral, qwen2, qwen3: RMSNorm, rotary positions, grouped attention, SwiGLU.
#ifndef PLIM_CORE_FAMILIES_LLAMA_H
#define PLIM_CORE_FAMILIES_LLAMA_H

#include "model.h"

typedef struct {
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary;
  bool ties_embeddings;
  bool has_qkv_bias;          // qwen2
  bool has_qk_norm;           // qwen3
  bool has_fused_projections; // phi3
  bool keeps_mask_arguments;  // qwen2, qwen3: their forward keeps them in a dict
} plim_llama_config;

// Builds the model as its constructor does, on the tape. NULL when memory is out.
plim_model *plim_llama_new(plim_tape *t, const plim_llama_config *config, plim_dtype dtype);

#endif
