// The supported model families. Each has a file with its row, and a line here.
#ifndef PLIM_CORE_FAMILIES_H
#define PLIM_CORE_FAMILIES_H

#include "family.h"

// clang-format off
#define PLIM_FAMILIES(X) \
  X(bert)     \
  X(gemma2)   \
  X(gpt2)     \
  X(gpt_neox) \
  X(granite)  \
  X(llama)    \
  X(mistral)  \
  X(mixtral)  \
  X(mpnet)    \
  X(olmo2)    \
  X(phi3)     \
  X(qwen2)    \
  X(qwen3)    \
  X(roberta)  \
  X(t5)
// clang-format on

#define PLIM_DECLARE_FAMILY(name) extern const plim_family plim_family_##name;
PLIM_FAMILIES(PLIM_DECLARE_FAMILY)

extern const plim_family *const plim_families[];
extern const size_t plim_family_count;

// The family's defaults, as transformers' configuration class has them. An unknown family is refused
// by name, with the list of those known.
plim_err plim_config_init(plim_config *c, const char *model_type, plim_error *error);

#endif
