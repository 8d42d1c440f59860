// Mistral: llama's forward, with a sliding window in every layer.
#include "families.h"
#include "llama.h"

const plim_family plim_family_mistral = {
    .model_type = "mistral",
    .was_run_in_torchtune = true,
    .build = plim_llama_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 14336,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocabulary = 32000,
                 .activation = PLIM_ACT_SILU,
                 .sliding_window = 4096},
    .windows = PLIM_WINDOWS_EVERYWHERE,
    .passes_positions_first = true,
    .lora_targets = "q_proj,v_proj",
    .has_liger = true,
    .loss_function_from = PLIM_RELEASE(4, 48),
    .had_wide_logits = true,
    .old_rotary = PLIM_OLD_ROTARY_LAYERS,
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_FUSED_LOSS |
                PLIM_RECORDED_SHARDED | PLIM_RECORDED_DEEPSPEED | PLIM_RECORDED_4_46 |
                PLIM_RECORDED_4_57 | PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
};
