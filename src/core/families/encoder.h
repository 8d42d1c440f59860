// What encoders share: BERT, RoBERTa and MPNet.
#ifndef PLIM_CORE_ENCODER_H
#define PLIM_CORE_ENCODER_H

#include "config.h"
#include "modules.h"

// The head for masked tokens, whose projection is the table of words, with a bias of its own.
typedef struct {
  plim_linear dense;
  plim_norm norm;
  plim_tensor *weight, *bias;
} plim_masked_head;

// An encoder around its layers. Families embed this as the first member of their own struct.
typedef struct {
  plim_model model; // inner: the last hidden states
  plim_config c;
  plim_tensor *words, *positions; // tables
  plim_tensor *position_ids;      // a buffer
  plim_norm norm;                 // of what is embedded
  plim_linear pooler;             // of a bare encoder
  plim_masked_head head;          // of any other
} plim_encoder;

// Begins a constructor: allocates a struct of `bytes` bytes. NULL when out of memory.
void *plim_encoder_new(size_t bytes, const plim_config *c, plim_model methods);
// Builds what comes after the layers: pooler or head.
void plim_encoder_build_end(plim_tape *t, plim_encoder *e, plim_dtype dtype);
// Adds adapters to the pooler or head.
void plim_encoder_end_lora(plim_tape *t, plim_encoder *e, const plim_lora *lora);
// forward: the inner model, and the head if there is one.
plim_tensor *plim_encoder_forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                                  plim_tensor **output);
// Leaves the first position, through a projection and tanh, as the second output of a bare encoder.
void plim_encoder_pool(plim_tape *t, plim_encoder *e, plim_tensor *hidden);

// ---- parts ----------------------------------------------------------------------------------------

// A projection from hidden states to hidden states.
plim_linear plim_encoder_square(plim_tape *t, plim_encoder *e, plim_projection projection,
                                plim_dtype dtype);
// A layer called "dense", of a module with a name.
plim_linear plim_encoder_dense(plim_tape *t, plim_model *m, const char *module, int64_t out,
                               int64_t in, plim_dtype dtype);

// The end of a half of a layer: a projection, dropout, the residual, a norm.
typedef struct {
  plim_linear dense;
  plim_norm norm;
} plim_encoder_output;

plim_encoder_output plim_encoder_output_new(plim_tape *t, plim_model *m, const char *module,
                                            int64_t out, int64_t in, plim_dtype dtype);
plim_tensor *plim_encoder_output_forward(plim_tape *t, const plim_encoder_output *o, plim_tensor *x,
                                         plim_tensor *residual, double dropout_p);

// Positions counted from the token ids, padding left out. RoBERTa adds the length of a cache, which
// is 0, and so one tensor more.
plim_tensor *plim_positions_from_ids(plim_tape *t, plim_tensor *ids, bool adds_past);

#endif
