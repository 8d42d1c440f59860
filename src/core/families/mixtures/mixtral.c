// Mixtral: llama's forward, with a mixture of experts in place of the MLP (experts.h).
#include "experts.h"
#include "families.h"
#include "llama.h"

static const char *const former[] = {"block_sparse_moe.gate", "block_sparse_moe.experts.w1",
                                     "block_sparse_moe.experts.w3", "block_sparse_moe.experts.w2"};

static const plim_mixture mixture = {.route = plim_route_mixtral,
                                     .builds_router_first = true,
                                     .former = former,
                                     .is_block_sparse_moe = true};

const plim_family plim_family_mixtral = {
    .model_type = "mixtral",
    .has_other_liger = true,
    .build = plim_llama_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 14336,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocabulary = 32000,
                 .activation = PLIM_ACT_SILU,
                 .positions = 4096 * 32,
                 .experts = 8,
                 .experts_per_token = 2},
    .mixture = &mixture,
    .windows = PLIM_WINDOWS_EVERYWHERE,
    .passes_positions_first = true,
    .lora_targets = "q_proj,v_proj",
    .old_rotary = PLIM_OLD_ROTARY_CACHED,
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_SHARDED |
                PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
};
