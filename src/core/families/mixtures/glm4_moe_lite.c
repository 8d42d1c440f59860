// GLM-4.7-Flash: DeepSeek's latent attention and mixture (deepseek_v3), with other sizes.
#include "experts.h"
#include "families.h"
#include "llama.h"

static const plim_mixture mixture = {.route = plim_route_groups,
                                     .forward = plim_experts_then_shared,
                                     .shared = {"mlp.shared_experts.gate_proj",
                                                "mlp.shared_experts.up_proj",
                                                "mlp.shared_experts.down_proj"},
                                     .has_correction = true,
                                     .has_wide_correction = true,
                                     .former = plim_former_experts};

const plim_family plim_family_glm4_moe_lite = {
    .model_type = "glm4_moe_lite",
    .build = plim_llama_new,
    .defaults = {.hidden = 2048,
                 .intermediate = 10240,
                 .layers = 47,
                 .heads = 20,
                 .kv_heads = 20,
                 .vocabulary = 154880,
                 .positions = 202752,
                 .activation = PLIM_ACT_SILU,
                 .experts = 64,
                 .experts_per_token = 4,
                 .expert_width = 1536,
                 .dense_layers = 1,
                 .shared_experts = 1,
                 .expert_groups = 1,
                 .chosen_groups = 1,
                 .query_rank = 768,
                 .key_rank = 512,
                 .rotary_width = 64,
                 .plain_width = 192,
                 .value_dim = 256,
                 .has_interleaved_rotary = true,
                 .normalises_shares = true},
    .mixture = &mixture,
    .has_latent_attention = true,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
