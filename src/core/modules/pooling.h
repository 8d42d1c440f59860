// sentence-transformers' Pooling: one embedding per text from the hidden states of its tokens.
#ifndef PLIM_CORE_POOLING_H
#define PLIM_CORE_POOLING_H

#include "tape.h"

typedef enum {
  PLIM_POOL_MEAN,
  PLIM_POOL_CLS,  // the first token
  PLIM_POOL_LAST, // the last token that is not padding
  PLIM_POOLINGS
} plim_pooling;

extern const char *const plim_pooling_names[PLIM_POOLINGS + 1]; // "mean", "cls", "last", NULL

// (B,T,H) -> (B,H), floating.
plim_tensor *plim_pool(plim_tape *t, plim_pooling pooling, plim_tensor *hidden, plim_tensor *mask);

#endif
