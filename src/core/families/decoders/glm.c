// GLM 4 of 2024: llama's forward, with neighbours of a part of each head rotated, and gate and up in one projection.
#include "families.h"
#include "llama.h"

const plim_family plim_family_glm = {
    .model_type = "glm",
    .build = plim_llama_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 13696,
                 .layers = 40,
                 .heads = 32,
                 .kv_heads = 2,
                 .head_dim = 128,
                 .vocabulary = 151552,
                 .positions = 131072,
                 .activation = PLIM_ACT_SILU,
                 .rotary_share = 0.5,
                 .has_attention_bias = true},
    .turns_part_of_head = true,
    .turns_neighbours = true,
    .has_fused_gate = true,
    .has_unbiased_output = true,
    .lacks_heads = 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
};
