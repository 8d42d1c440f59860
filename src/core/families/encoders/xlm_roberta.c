// XLM-RoBERTa: RoBERTa with another vocabulary.
#include "bert.h"
#include "families.h"

const plim_family plim_family_xlm_roberta = {
    PLIM_ROBERTA_ROW("xlm-roberta", 30522),
    .makes_head_first = true,
    .lora_targets = "query,value",
    .recorded = PLIM_RECORDED_TRAINING,
};
