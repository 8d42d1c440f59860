// BERT and RoBERTa: encoders that see both ways, with a head for masked tokens or bare.
#ifndef PLIM_CORE_BERT_H
#define PLIM_CORE_BERT_H

#include "encoder.h"
#include "family.h"

// The tables of an encoder that no other has, and a buffer of zeros for the types of tokens.
typedef struct {
  plim_tensor *token_types, *token_type_ids;
} plim_bert_tables;

// Makes all tables, their norm and their buffers; and embeds a batch.
void plim_bert_tables_new(plim_tape *t, plim_encoder *e, plim_bert_tables *b, plim_dtype dtype);
plim_tensor *plim_bert_embed(plim_tape *t, const plim_encoder *e, const plim_bert_tables *b,
                             const plim_batch *batch);

plim_model *plim_bert_new(plim_tape *t, const plim_config *c, plim_dtype dtype);

// What the rows of RoBERTa and its relatives share: BERT's forward, with positions counted from the token ids.
#define PLIM_ROBERTA_ROW(type, words)                                                              \
  .model_type = (type), .build = plim_bert_new,                                                    \
  .defaults = {.has_padding_row = true,                                                            \
               .head = PLIM_HEAD_MASKED,                                                           \
               .hidden = 768,                                                                      \
               .intermediate = 3072,                                                               \
               .layers = 12,                                                                       \
               .heads = 12,                                                                        \
               .positions = 512,                                                                   \
               .token_types = 2,                                                                   \
               .vocabulary = (words),                                                              \
               .activation = PLIM_ACT_GELU,                                                        \
               .dropout = 0.1,                                                                     \
               .attention_dropout = 0.1,                                                           \
               .ties_embeddings = true},                                                           \
  .is_encoder = true, .has_inline_loss = true,                                                     \
  .text_head = {.dense = "classifier.dense",                                                       \
                .activation = PLIM_ACT_TANH,                                                       \
                .drops_first = true,                                                               \
                .classifier = "classifier.out_proj"},                                              \
  .divides_width = true, .has_position_table = true, .position_offset = 2,                         \
  .counts_positions = true, .loss_function_from = PLIM_RELEASE(5, 0)

#endif
