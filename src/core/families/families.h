// The supported model families. Each has a file with its row, and a line here.
#ifndef PLIM_CORE_FAMILIES_H
#define PLIM_CORE_FAMILIES_H

#include "family.h"

// clang-format off
#define PLIM_FAMILIES(X) \
  X(albert)              \
  X(apertus)             \
  X(arcee)               \
  X(bamba)               \
  X(bert)                \
  X(bloom)               \
  X(camembert)           \
  X(cohere)              \
  X(cohere2)             \
  X(deberta_v2)          \
  X(deepseek_v2)         \
  X(deepseek_v3)         \
  X(distilbert)          \
  X(electra)             \
  X(ernie4_5)            \
  X(exaone4)             \
  X(falcon)              \
  X(falcon_h1)           \
  X(gemma)               \
  X(gemma2)              \
  X(gemma3)              \
  X(gemma3_text)         \
  X(gemma4)              \
  X(gemma4_text)         \
  X(gemma4_unified)      \
  X(gemma4_unified_text) \
  X(glm)                 \
  X(glm4)                \
  X(glm4_moe)            \
  X(glm4_moe_lite)       \
  X(glm4v)               \
  X(glm4v_text)          \
  X(gpt2)                \
  X(gpt_bigcode)         \
  X(gpt_neo)             \
  X(gpt_neox)            \
  X(gpt_oss)             \
  X(gptj)                \
  X(granite)             \
  X(granitemoe)          \
  X(granitemoehybrid)    \
  X(helium)              \
  X(hunyuan_v1_dense)    \
  X(idefics3)            \
  X(internvl)            \
  X(lfm2)                \
  X(lfm2_moe)            \
  X(lfm2_vl)             \
  X(llama)               \
  X(llama4)              \
  X(llama4_text)         \
  X(llava)               \
  X(llava_next)          \
  X(mamba2)              \
  X(minimax_m2)          \
  X(ministral3)          \
  X(mistral)             \
  X(mistral3)            \
  X(mistral4)            \
  X(mixtral)             \
  X(mllama)              \
  X(mllama_text_model)   \
  X(modernbert)          \
  X(mpnet)               \
  X(mpt)                 \
  X(nemotron)            \
  X(nemotron_h)          \
  X(olmo)                \
  X(olmo2)               \
  X(olmo3)               \
  X(olmoe)               \
  X(opt)                 \
  X(paddleocr_vl)        \
  X(paddleocr_vl_text)   \
  X(phi)                 \
  X(phi3)                \
  X(qwen2)               \
  X(qwen2_5_vl)          \
  X(qwen2_5_vl_text)     \
  X(qwen2_moe)           \
  X(qwen2_vl)            \
  X(qwen2_vl_text)       \
  X(qwen3)               \
  X(qwen3_5)             \
  X(qwen3_5_moe)         \
  X(qwen3_5_moe_text)    \
  X(qwen3_5_text)        \
  X(qwen3_moe)           \
  X(qwen3_next)          \
  X(qwen3_vl)            \
  X(qwen3_vl_moe)        \
  X(qwen3_vl_moe_text)   \
  X(qwen3_vl_text)       \
  X(roberta)             \
  X(seed_oss)            \
  X(smollm3)             \
  X(smolvlm)             \
  X(stablelm)            \
  X(starcoder2)          \
  X(t5)                  \
  X(voxtral)             \
  X(xlm_roberta)
// clang-format on

#define PLIM_DECLARE_FAMILY(name) extern const plim_family plim_family_##name;
PLIM_FAMILIES(PLIM_DECLARE_FAMILY)

extern const plim_family *const plim_families[];
extern const size_t plim_family_count;

// The family's defaults, as transformers' configuration class has them. An unknown family is refused
// by name, with the list of those known.
plim_err plim_config_init(plim_config *c, const char *model_type, plim_error *error);
// The same for the language model of a multimodal model that was initialised: text_config's model_type.
plim_err plim_config_init_text(plim_config *c, const char *model_type, plim_error *error);

#endif
