// MiniMax M2: llama's attention, with norms of all queries and all keys, which rotates a part of each head; a mixture whose router
// has a sigmoid.
#include "experts.h"
#include "families.h"
#include "llama.h"

static const char *const former[] = {"block_sparse_moe.gate", "block_sparse_moe.experts.w1",
                                     "block_sparse_moe.experts.w3", "block_sparse_moe.experts.w2"};

static const plim_mixture mixture = {.route = plim_route_sigmoid,
                                     .builds_router_first = true,
                                     .has_correction = true,
                                     .corrects_last = true,
                                     .former = former,
                                     .is_block_sparse_moe = true};

const plim_family plim_family_minimax_m2 = {
    .model_type = "minimax_m2",
    .build = plim_llama_new,
    .defaults = {.hidden = 3072,
                 .intermediate = 1536,
                 .layers = 62,
                 .heads = 48,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocabulary = 200064,
                 .positions = 196608,
                 .activation = PLIM_ACT_SILU,
                 .rotary_share = 1,
                 .experts = 256,
                 .experts_per_token = 8},
    .turns_part_of_head = true,
    .mixture = &mixture,
    .joins_parts_last = true,
    .passes_positions_first = true,
    .qk_norm = PLIM_QK_NORM_WIDTH,
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .ships_code = true,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
