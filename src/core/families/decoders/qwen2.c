// Qwen 2: llama's forward, with biases of query, key and value, and windows in late layers.
#include "families.h"
#include "llama.h"

const plim_family plim_family_qwen2 = {
    .model_type = "qwen2",
    .was_run_in_torchtune = true,
    .build = plim_llama_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 22016,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 32,
                 .vocabulary = 151936,
                 .activation = PLIM_ACT_SILU,
                 .sliding_window = 4096,
                 .first_window_layer = 28},
    .windows = PLIM_WINDOWS_LATE,
    .has_qkv_bias = true,
    .keeps_mask_arguments = true,
    .lora_targets = "q_proj,v_proj",
    .has_liger = true,
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_FUSED_LOSS |
                PLIM_RECORDED_LIGER | PLIM_RECORDED_SHARDED | PLIM_RECORDED_DEEPSPEED |
                PLIM_RECORDED_4_46 | PLIM_RECORDED_4_57 | PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
};
