// GLM 4.5 to 4.7: llama's attention, which rotates a part of each head, and DeepSeek's mixture.
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

const plim_family plim_family_glm4_moe = {
    .model_type = "glm4_moe",
    .build = plim_llama_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 10944,
                 .layers = 46,
                 .heads = 96,
                 .kv_heads = 8,
                 .vocabulary = 151552,
                 .positions = 131072,
                 .activation = PLIM_ACT_SILU,
                 .rotary_share = 0.5,
                 .experts = 128,
                 .experts_per_token = 8,
                 .expert_width = 1408,
                 .dense_layers = 1,
                 .shared_experts = 1,
                 .expert_groups = 1,
                 .chosen_groups = 1,
                 .normalises_shares = true},
    .turns_part_of_head = true,
    .mixture = &mixture,
    .joins_parts_last = true,
    .qk_norm = PLIM_QK_NORM_ASKED,
    .has_unbiased_output = true,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
