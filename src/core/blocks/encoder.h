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
  plim_tensor *other_bias; // until the weights are tied
  size_t index;            // of its first parameter
} plim_masked_head;

// An encoder around its layers. Families embed this as the first member of their own struct.
typedef struct {
  plim_model model; // inner: the last hidden states
  plim_config c;
  const char *prefix;             // name of the encoder; NULL: its model_type
  const char *layers;             // name of the list of layers; NULL: "encoder.layer"
  plim_tensor *words, *positions; // tables
  plim_tensor *position_ids;      // a buffer
  plim_norm norm;                 // of what is embedded
  plim_linear pooler;             // of a bare encoder, and of some heads
  plim_masked_head head;
} plim_encoder;

// What a family defines itself.
typedef struct {
  size_t bytes;       // of its struct, which begins with a plim_encoder
  size_t layer_bytes; // of one of its layers
  size_t layers_at;   // where its struct has the pointer to them
  void (*build)(plim_tape *t, plim_encoder *e, plim_dtype dtype);
  plim_tensor *(*forward)(plim_tape *t, plim_model *model, const plim_batch *batch); // the encoder
  void (*add_lora)(plim_tape *t, plim_model *model, const plim_lora *lora);
  bool has_token_types; // its tokenizer returns token_type_ids
} plim_encoder_code;

// The model, built as its constructor does. NULL when memory is out.
plim_model *plim_encoder_new(plim_tape *t, const plim_config *c, plim_dtype dtype,
                             const plim_encoder_code *code);
// Builds what comes before the embeddings: the head of families that make it first.
void plim_encoder_build_begin(plim_tape *t, plim_encoder *e, plim_dtype dtype);
// Builds what comes after the layers: pooler and head.
void plim_encoder_build_end(plim_tape *t, plim_encoder *e, plim_dtype dtype);
// Where its layers are: "bert.encoder.layer", or "encoder.layer" of a bare encoder.
enum { PLIM_PLACE_BYTES = 64 };
void plim_encoder_place(const plim_encoder *e, char place[PLIM_PLACE_BYTES]);
// Adds adapters to the pooler and the head.
void plim_encoder_end_lora(plim_tape *t, plim_encoder *e, const plim_lora *lora);
// forward: the inner model, and the head if there is one.
plim_tensor *plim_encoder_forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                                  plim_tensor **output);
// Leaves the first position, through a projection and tanh, as the second output of an encoder that has a pooler.
void plim_encoder_pool(plim_tape *t, plim_encoder *e, plim_tensor *hidden);

// ---- parts ----------------------------------------------------------------------------------------

// A projection from hidden states to hidden states.
plim_linear plim_encoder_square(plim_tape *t, plim_encoder *e, const char *path, plim_dtype dtype);
// A layer called "dense", of a module whose name, a literal, is shown.
plim_linear plim_encoder_named(plim_tape *t, plim_model *m, const char *module, const char *path,
                               int64_t out, int64_t in, plim_dtype dtype);
#define plim_encoder_dense(t, m, module, ...)                                                      \
  plim_encoder_named(t, m, module, module ".dense", __VA_ARGS__)

// The end of a half of a layer: a projection, dropout, the residual, a norm.
typedef struct {
  plim_linear dense;
  plim_norm norm;
} plim_encoder_output;

plim_encoder_output plim_encoder_output_of(plim_tape *t, plim_model *m, plim_linear dense,
                                           plim_dtype dtype);
#define plim_encoder_output_new(t, m, module, out, in, dtype)                                      \
  plim_encoder_output_of(t, m, plim_encoder_dense(t, m, module, out, in, dtype), dtype)
plim_tensor *plim_encoder_output_forward(plim_tape *t, const plim_encoder_output *o, plim_tensor *x,
                                         plim_tensor *residual, double dropout_p);

// BERT's layer.
typedef struct {
  plim_linear query, key, value;
  plim_encoder_output attended, fed;
  plim_linear intermediate;
} plim_encoder_layer;

// `paths` are those of its three projections.
plim_encoder_layer plim_encoder_layer_new(plim_tape *t, plim_encoder *e, const char *const paths[3],
                                          plim_dtype dtype);
void plim_encoder_layer_lora(plim_tape *t, plim_encoder *e, const plim_lora *lora,
                             const char *place, int64_t i, plim_encoder_layer *l);
// Positions counted from the token ids, padding left out. RoBERTa adds the length of a cache, which
// is 0, and so one tensor more.
plim_tensor *plim_positions_from_ids(plim_tape *t, plim_tensor *ids, bool adds_past);

// Looks for padding in a batch without an attention mask, to warn of it.
void plim_encoder_look_for_padding(plim_tape *t, const plim_batch *batch);

// The mask of an encoder's layers; NULL: they need none. Before transformers 5.0, a batch without a mask got one of
// ones, which a variable, *ones, holds to the end of the model's forward.
plim_tensor *plim_encoder_mask(plim_tape *t, plim_attention_kind attention, const plim_batch *batch,
                               plim_tensor *embedded, plim_tensor **ones);
// The end of the model's forward: lets go of its variables.
void plim_encoder_release(plim_tape *t, plim_tensor **ones, plim_tensor **mask,
                          plim_tensor **embedded);

#endif
