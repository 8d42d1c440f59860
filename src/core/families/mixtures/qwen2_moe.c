// Qwen 1.5 and 2 with experts: Qwen 2's attention, and a mixture with a shared expert that has a gate.
#include "experts.h"
#include "families.h"
#include "llama.h"

static const char *unfollowed(const plim_config *c) {
  return c->uses_sliding_window ? "sliding windows" : NULL;
}

static const plim_mixture mixture = {
    .route = plim_route_softmax,
    .forward = plim_experts_gated_shared,
    .shared = {"mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj",
               "mlp.shared_expert.down_proj"},
    .shared_share = "mlp.shared_expert_gate",
    .builds_router_first = true}; // peft 0.21 converts others to its names, but not itself

const plim_family plim_family_qwen2_moe = {
    .model_type = "qwen2_moe",
    .build = plim_llama_new,
    .defaults = {.hidden = 2048,
                 .intermediate = 5632,
                 .layers = 24,
                 .heads = 16,
                 .kv_heads = 16,
                 .vocabulary = 151936,
                 .activation = PLIM_ACT_SILU,
                 .experts = 60,
                 .experts_per_token = 4,
                 .expert_width = 1408,
                 .shared_width = 5632,
                 .has_qkv_bias = true},
    .unfollowed = unfollowed,
    .mixture = &mixture,
    .has_idle_mask = true,
    .keeps_mask_arguments = true,
    .passes_positions_first = true,
    .recorded = PLIM_RECORDED_TRAINING,
};
