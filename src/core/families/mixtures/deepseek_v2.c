// DeepSeek V2: latent attention with complex rotary positions, and a mixture with shared experts.
#include "experts.h"
#include "families.h"
#include "llama.h"

static const plim_mixture mixture = {.route = plim_route_deepseek_v2,
                                     .forward = plim_experts_then_shared,
                                     .shared = {"mlp.shared_experts.gate_proj",
                                                "mlp.shared_experts.up_proj",
                                                "mlp.shared_experts.down_proj"},
                                     .former = plim_former_experts};

const plim_family plim_family_deepseek_v2 = {
    .model_type = "deepseek_v2",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .build = plim_llama_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 102400,
                 .positions = 2048,
                 .activation = PLIM_ACT_SILU,
                 .experts = 64,
                 .expert_width = 1407,
                 .shared_experts = 2,
                 .query_rank = 1536,
                 .key_rank = 512,
                 .rotary_width = 64,
                 .plain_width = 128,
                 .value_dim = 128},
    .mixture = &mixture,
    .has_latent_attention = true,
    .keeps_latent_apart = true,
    .has_complex_rotary = true,
    .ships_code = true,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
