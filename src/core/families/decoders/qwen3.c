// Qwen 3: llama's forward, with norms of each head's query and key, and windows in late layers.
#include "families.h"
#include "llama.h"

const plim_family plim_family_qwen3 = {
    .model_type = "qwen3",
    .was_run_in_torchtune = true,
    .build = plim_llama_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 22016,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 32,
                 .head_dim = 128,
                 .vocabulary = 151936,
                 .activation = PLIM_ACT_SILU,
                 .sliding_window = 4096,
                 .first_window_layer = 28},
    .windows = PLIM_WINDOWS_LATE,
    .qk_norm = PLIM_QK_NORM_HEADS,
    .keeps_mask_arguments = true,
    .lora_targets = "q_proj,v_proj",
    .has_liger = true,
    .factory_1_has_liger = true,
    .first_release = PLIM_RELEASE(4, 51),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_SHARDED |
                PLIM_RECORDED_4_57 | PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
};
