// BERT and RoBERTa: encoders that see both ways, with a head for masked tokens or bare.
#ifndef PLIM_CORE_BERT_H
#define PLIM_CORE_BERT_H

#include "family.h"

plim_model *plim_bert_new(plim_tape *t, const plim_config *c, plim_dtype dtype);

#endif
