// ERNIE 4.5: llama's forward, with neighbours rotated in float32.
#include "families.h"
#include "llama.h"

static const char *unfollowed(const plim_config *c) {
  return c->has_attention_bias ? "layers with biases" : NULL;
}

const plim_family plim_family_ernie4_5 = {
    .model_type = "ernie4_5",
    .build = plim_llama_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 1024,
                 .intermediate = 3072,
                 .layers = 18,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 128,
                 .vocabulary = 103424,
                 .positions = 131072,
                 .activation = PLIM_ACT_SILU,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .has_wide_rotary = true,
    .turns_all_neighbours = true,
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .first_release = PLIM_RELEASE(4, 54),
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_GENERIC,
};
