// OLMoE: llama's forward with norms of all queries and all keys, and a mixture in place of the MLP.
#include "experts.h"
#include "families.h"
#include "llama.h"

static const char *unfollowed(const plim_config *c) {
  return c->qkv_bound != 0 ? "clip_qkv" : NULL;
}

static const plim_mixture mixture = {
    .route = plim_route_softmax, .builds_router_first = true, .former = plim_former_experts};

const plim_family plim_family_olmoe = {
    .model_type = "olmoe",
    .build = plim_llama_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 2048,
                 .intermediate = 2048,
                 .layers = 16,
                 .heads = 16,
                 .vocabulary = 50304,
                 .positions = 4096,
                 .activation = PLIM_ACT_SILU,
                 .experts = 64,
                 .experts_per_token = 8},
    .unfollowed = unfollowed,
    .mixture = &mixture,
    .qk_norm = PLIM_QK_NORM_WIDTH,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
