// Mixtral: llama's forward, with a mixture of experts in place of the MLP (experts.h).
#include "families.h"
#include "llama.h"

const plim_family plim_family_mixtral = {
    .model_type = "mixtral",
    .build = plim_llama_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 14336,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocabulary = 32000,
                 .activation = PLIM_ACT_SILU,
                 .experts = 8,
                 .experts_per_token = 2},
    .windows = PLIM_WINDOWS_EVERYWHERE,
    .passes_positions_first = true,
    .lora_targets = "q_proj,v_proj",
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_SHARDED,
};
