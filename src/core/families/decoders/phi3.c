// Phi 3 and 4: llama's forward, with query, key and value in one projection, gate and up in another.
#include "families.h"
#include "llama.h"

const plim_family plim_family_phi3 = {
    .model_type = "phi3",
    .build = plim_llama_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 3072,
                 .intermediate = 8192,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 32064,
                 .activation = PLIM_ACT_SILU,
                 .positions = 4096,
                 .original_positions = 4096,
                 .rotary_share = 1},
    .windows = PLIM_WINDOWS_EVERYWHERE,
    .has_fused_projections = true,
    .has_residual_dropout = true,
    .turns_part_of_head = true,
    .has_liger = true,
    .reads_yarn_as_longrope = true,
    .passes_positions_first = true,
    .old_rotary = PLIM_OLD_ROTARY_LAYERS,
    .ships_code = true,
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_SHARDED |
                PLIM_RECORDED_4_57 | PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
    .lacks_heads = 1u << PLIM_HEAD_ANSWERS,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
