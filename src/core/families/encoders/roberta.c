// RoBERTa: BERT's forward, with positions counted from the token ids.
#include "bert.h"
#include "families.h"

const plim_family plim_family_roberta = {
    PLIM_ROBERTA_ROW("roberta", 50265),
    .makes_head_bias_twice = true,
    .lora_targets = "query,value",
    .recorded =
        PLIM_RECORDED_TRAINING | PLIM_RECORDED_4_57 | PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
};
