// CamemBERT: RoBERTa for French.
#include "bert.h"
#include "families.h"

const plim_family plim_family_camembert = {
    PLIM_ROBERTA_ROW("camembert", 30522),
    .makes_head_first = true,
    .recorded = PLIM_RECORDED_TRAINING,
};
