// Contrastive training of embeddings, as sentence-transformers does it: columns of texts (an anchor, a
// positive, negatives) through one encoder, pooled, and compared with each other.
#ifndef PLIM_CORE_CONTRASTIVE_H
#define PLIM_CORE_CONTRASTIVE_H

#include "training.h"

// A column of the batch: what the tokenizer made, and what the model's call leaves beside it.
typedef struct plim_column {
  plim_tensor *ids, *types, *mask; // types, mask: NULL if there are none
  plim_tensor *hidden, *embedding;
} plim_column;

// One forward pass. It stays where it is until backward is done.
typedef struct {
  plim_model *model;
  const plim_recipe *recipe;
  plim_column *columns; // recipe->columns of them
  int64_t pass;         // of the training, from 0
  // Of a cached loss, which owns them: leaves without memory, whose gradients are the cache.
  plim_tensor *anchors, *others;
} plim_contrast;

plim_column *plim_columns_new(plim_tape *t, const plim_model *m,
                              const plim_recipe *r); // NULL: no memory
void plim_columns_drop(plim_tape *t, const plim_recipe *r, plim_column *columns);
// What the model left in the columns goes, the columns stay.
void plim_columns_forget(plim_tape *t, const plim_recipe *r, plim_column *columns);

// MultipleNegativesRankingLoss; with recipe->cached_batch the cached one, whose backward runs the model
// again, so many sequences at a time.
plim_tensor *plim_contrastive_loss(plim_tape *t, plim_contrast *c);
// The same of a new batch, which takes the place of the last one's.
plim_tensor *plim_contrastive_forward(plim_tape *t, plim_model *m, const plim_recipe *r,
                                      plim_contrast *c);
#endif
