// Qwen 3 with experts: Qwen 3's attention, and a mixture in place of the MLP of every layer or of every n-th.
#include "experts.h"
#include "families.h"
#include "llama.h"

static const plim_mixture mixture = {.route = plim_route_softmax, .former = plim_former_experts};

const plim_family plim_family_qwen3_moe = {
    .model_type = "qwen3_moe",
    .has_other_liger = true,
    .factory_1_has_liger = true,
    .build = plim_llama_new,
    .defaults = {.hidden = 2048,
                 .intermediate = 6144,
                 .layers = 24,
                 .heads = 32,
                 .kv_heads = 4,
                 .vocabulary = 151936,
                 .activation = PLIM_ACT_SILU,
                 .sliding_window = 4096,
                 .experts = 128,
                 .experts_per_token = 8,
                 .expert_width = 768,
                 .sparse_step = 1},
    .mixture = &mixture,
    .windows = PLIM_WINDOWS_IF_ASKED,
    .qk_norm = PLIM_QK_NORM_HEADS,
    .passes_positions_first = true,
    .first_release = PLIM_RELEASE(4, 51),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
};
