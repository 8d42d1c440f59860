// DeepSeek V3 and R1: latent attention, and from some layer on a mixture with shared experts.
#include "experts.h"
#include "families.h"
#include "llama.h"

static const plim_mixture mixture = {.route = plim_route_groups,
                                     .forward = plim_experts_then_shared,
                                     .shared = {"mlp.shared_experts.gate_proj",
                                                "mlp.shared_experts.up_proj",
                                                "mlp.shared_experts.down_proj"},
                                     .has_correction = true,
                                     .former = plim_former_experts};

const plim_family plim_family_deepseek_v3 = {
    .model_type = "deepseek_v3",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .build = plim_llama_new,
    .defaults = {.hidden = 7168,
                 .intermediate = 18432,
                 .layers = 61,
                 .heads = 128,
                 .kv_heads = 128,
                 .vocabulary = 129280,
                 .positions = 4096,
                 .activation = PLIM_ACT_SILU,
                 .experts = 256,
                 .experts_per_token = 8,
                 .expert_width = 2048,
                 .dense_layers = 3,
                 .shared_experts = 1,
                 .expert_groups = 8,
                 .chosen_groups = 4,
                 .query_rank = 1536,
                 .key_rank = 512,
                 .rotary_width = 64,
                 .plain_width = 128,
                 .value_dim = 128,
                 .has_interleaved_rotary = true,
                 .normalises_shares = true},
    .mixture = &mixture,
    .has_latent_attention = true,
    .ships_code = true,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
