// HunYuan: llama's forward, with norms of each head's query and key after they are rotated.
#include "families.h"
#include "llama.h"

const plim_family plim_family_hunyuan_v1_dense = {
    .model_type = "hunyuan_v1_dense",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .build = plim_llama_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 290943,
                 .positions = 2048,
                 .activation = PLIM_ACT_SILU},
    .initialises_rotary_again = true,
    .qk_norm = PLIM_QK_NORM_LATE,
    .lacks_heads = 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .first_release = PLIM_RELEASE(4, 56),
    .recorded = PLIM_RECORDED_TRAINING,
};
