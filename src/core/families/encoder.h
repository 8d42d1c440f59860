// Parts that encoders share: BERT, RoBERTa and MPNet.
#ifndef PLIM_CORE_FAMILIES_ENCODER_H
#define PLIM_CORE_FAMILIES_ENCODER_H

#include "config.h"
#include "modules.h"

typedef struct {
  plim_tensor *weight, *bias;
} plim_norm; // nn.LayerNorm

plim_norm plim_norm_new(plim_tape *t, plim_model *m, int64_t width, plim_dtype dtype);
plim_tensor *plim_norm_forward(plim_tape *t, const plim_norm *n, plim_tensor *x);

// The end of a half of a layer: a projection, dropout, the residual, a norm.
typedef struct {
  plim_linear dense;
  plim_norm norm;
} plim_encoder_output;

plim_encoder_output plim_encoder_output_new(plim_tape *t, plim_model *m, int64_t out, int64_t in,
                                            plim_dtype dtype);
plim_tensor *plim_encoder_output_forward(plim_tape *t, const plim_encoder_output *o, plim_tensor *x,
                                         plim_tensor *residual, double dropout_p);

// Positions counted from the token ids, padding left out. RoBERTa adds the length of a cache, which
// is 0, and so one tensor more.
plim_tensor *plim_positions_from_ids(plim_tape *t, plim_tensor *ids, bool adds_past);

// The first position through a projection and tanh.
plim_tensor *plim_pooler_forward(plim_tape *t, const plim_linear *pooler, plim_tensor *hidden);

// The head for masked tokens, whose projection is the table of words, with a bias of its own.
typedef struct {
  plim_linear dense;
  plim_norm norm;
  plim_tensor *weight, *bias;
} plim_masked_head;

plim_masked_head plim_masked_head_new(plim_tape *t, plim_model *m, plim_tensor *words,
                                      bool is_tied);
// The loss; *logits (a variable) gets the logits. `hidden` is let go when both are there.
plim_tensor *plim_masked_head_forward(plim_tape *t, const plim_masked_head *h, plim_tensor *hidden,
                                      const plim_batch *batch, plim_tensor **logits);

#endif
