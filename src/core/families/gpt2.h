// GPT-2: learned positions, LayerNorm, Conv1D projections, dropout.
#ifndef PLIM_CORE_FAMILIES_GPT2_H
#define PLIM_CORE_FAMILIES_GPT2_H

#include "model.h"

typedef struct {
  int64_t hidden, layers, heads, positions, vocabulary;
  double dropout;
} plim_gpt2_config;

// Builds the model as its constructor does, on the tape. NULL when memory is out.
plim_model *plim_gpt2_new(plim_tape *t, const plim_gpt2_config *config, plim_dtype dtype);

#endif
