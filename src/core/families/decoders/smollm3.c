// SmolLM 3: llama's forward, in which each fourth layer has no rotary positions.
#include "families.h"
#include "llama.h"

static const char *unfollowed(const plim_config *c) {
  return c->uses_sliding_window && c->sliding_window ? "sliding windows" : NULL;
}

const plim_family plim_family_smollm3 = {
    .model_type = "smollm3",
    .build = plim_llama_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 2048,
                 .intermediate = 11008,
                 .layers = 36,
                 .heads = 16,
                 .kv_heads = 4,
                 .vocabulary = 128256,
                 .positions = 32768,
                 .activation = PLIM_ACT_SILU,
                 .unturned_pattern = 4,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .has_unturned_layers = true,
    .has_liger = true,
    .factory_lacks_liger = true,
    .keeps_mask_arguments = true,
    .recorded = PLIM_RECORDED_TRAINING,
};
