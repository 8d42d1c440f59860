// Ministral 3's language model: Mistral's forward, with queries scaled by their positions.
#include "families.h"
#include "llama.h"

const plim_family plim_family_ministral3 = {
    .model_type = "ministral3",
    .build = plim_llama_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 14336,
                 .layers = 34,
                 .heads = 32,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocabulary = 131072,
                 .positions = 262144,
                 .original_positions = 16384,
                 .rope = PLIM_ROPE_YARN,
                 .activation = PLIM_ACT_SILU},
    .windows = PLIM_WINDOWS_EVERYWHERE,
    .passes_positions_first = true,
    .scales_queries = true,
};
