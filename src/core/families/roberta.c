// RoBERTa: BERT's forward, with positions counted from the token ids.
#include "bert.h"
#include "families.h"

const plim_family plim_family_roberta = {
    .model_type = "roberta",
    .build = plim_bert_new,
    .defaults = {.head = PLIM_HEAD_MASKED,
                 .hidden = 768,
                 .intermediate = 3072,
                 .layers = 12,
                 .heads = 12,
                 .positions = 512,
                 .token_types = 2,
                 .vocabulary = 50265,
                 .activation = PLIM_ACT_GELU,
                 .dropout = 0.1,
                 .attention_dropout = 0.1,
                 .ties_embeddings = true},
    .is_encoder = true,
    .divides_width = true,
    .has_position_table = true,
    .position_offset = 2,
    .counts_positions = true,
    .lora_targets = "query,value",
    .recorded = PLIM_RECORDED_TRAINING,
};
