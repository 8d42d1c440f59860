// Llama and its siblings mistral, mixtral, qwen2, qwen3, phi3: RMSNorm, rotary positions, grouped
// attention, SwiGLU.
#ifndef PLIM_CORE_LLAMA_H
#define PLIM_CORE_LLAMA_H

#include "config.h"
#include "model.h"

plim_model *plim_llama_new(plim_tape *t, const plim_config *c, plim_dtype dtype);

#endif
