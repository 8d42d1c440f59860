// Contrastive training of embeddings as in sentence-transformers: columns of texts (an anchor, a positive, negatives)
// go through one encoder, are pooled, and are compared with each other.
#ifndef PLIM_CORE_CONTRASTIVE_H
#define PLIM_CORE_CONTRASTIVE_H

#include "training.h"

// A column of the batch: the tokenizer's output, and the tensors that the model call adds to it.
typedef struct plim_column {
  plim_tensor *ids, *types, *mask; // types and mask may be NULL
  plim_tensor *hidden, *embedding;
} plim_column;

// One forward pass. It must stay at the same address until backward is done.
typedef struct {
  plim_model *model;
  const plim_recipe *recipe;
  plim_column *columns; // recipe->columns entries
  int64_t pass;         // number of the forward pass in the training, from 0
  // Of a cached loss, which owns them: leaves without memory whose gradients are the cache.
  plim_tensor *anchors, *others;
} plim_contrast;

plim_column *plim_columns_new(plim_tape *t, const plim_model *m,
                              const plim_recipe *r); // NULL when out of memory
void plim_columns_drop(plim_tape *t, const plim_recipe *r, plim_column *columns);
// Drops what the model left in the columns; the columns themselves stay.
void plim_columns_forget(plim_tape *t, const plim_recipe *r, plim_column *columns);

// MultipleNegativesRankingLoss. With recipe->cached_batch it is the cached variant, whose backward runs the model again
// for that many sequences at a time.
plim_tensor *plim_contrastive_loss(plim_tape *t, plim_contrast *c);
// The same for a new batch, which replaces the previous one.
plim_tensor *plim_contrastive_forward(plim_tape *t, plim_model *m, const plim_recipe *r,
                                      plim_contrast *c);
#endif
