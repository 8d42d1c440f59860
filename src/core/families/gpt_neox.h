// GPT-NeoX (Pythia): attention and MLP side by side, part of each head turned.
#ifndef PLIM_CORE_FAMILIES_GPT_NEOX_H
#define PLIM_CORE_FAMILIES_GPT_NEOX_H

#include "model.h"

typedef struct {
  int64_t hidden, intermediate, layers, heads, vocabulary;
  double rotary_share; // of each head; 0.25 unless the config says otherwise
} plim_gpt_neox_config;

// Builds the model as its constructor does, on the tape. NULL when memory is out.
plim_model *plim_gpt_neox_new(plim_tape *t, const plim_gpt_neox_config *config, plim_dtype dtype);

#endif
