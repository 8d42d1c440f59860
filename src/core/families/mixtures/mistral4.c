// Mistral Small 4: latent attention with scaled queries, and a mixture with shared experts.
#include "experts.h"
#include "families.h"
#include "llama.h"

static const plim_mixture mixture = {.route = plim_route_softmax_groups,
                                     .forward = plim_experts_then_shared,
                                     .shared = {"mlp.shared_experts.gate_proj",
                                                "mlp.shared_experts.up_proj",
                                                "mlp.shared_experts.down_proj"},
                                     .is_stored_whole = true};

const plim_family plim_family_mistral4 = {
    .model_type = "mistral4",
    .build = plim_llama_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 12288,
                 .layers = 36,
                 .heads = 32,
                 .kv_heads = 32,
                 .vocabulary = 131072,
                 .positions = 1048576,
                 .activation = PLIM_ACT_SILU,
                 .experts = 128,
                 .experts_per_token = 4,
                 .expert_width = 2048,
                 .shared_experts = 1,
                 .expert_groups = 1,
                 .chosen_groups = 1,
                 .query_rank = 1024,
                 .key_rank = 256,
                 .rotary_width = 64,
                 .plain_width = 64,
                 .value_dim = 128,
                 .rope = PLIM_ROPE_YARN,
                 .has_interleaved_rotary = true,
                 .normalises_shares = true},
    .mixture = &mixture,
    .has_latent_attention = true,
    .keeps_latent_apart = true,
    .scales_queries = true,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
