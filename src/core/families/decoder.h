// Decoders with rotary positions and gated MLPs. Building, loading, adapters and the model's forward are the
// same for all; a family's file has the forward of one layer, made of the parts below.
#ifndef PLIM_CORE_DECODER_H
#define PLIM_CORE_DECODER_H

#include "experts.h"
#include "family.h"
#include "modules.h"
#include "rope.h"

// Members that a family does not have are NULL or zero.
typedef struct {
  const struct plim_decoder *m;
  plim_linear q_proj, k_proj, v_proj, o_proj;
  plim_linear gate_proj, up_proj, down_proj;
  plim_linear qkv_proj, gate_up_proj; // in place of those they are named after
  plim_experts experts;               // in place of gate, up and down
  plim_tensor *q_norm, *k_norm;
  plim_tensor *input_norm, *post_attention_norm, *pre_mlp_norm, *post_mlp_norm;
} plim_decoder_layer;

// The norms of a layer, in the order they are built in. The family's forward decides where they are applied.
enum {
  PLIM_INPUT_NORM = 1 << 0,
  PLIM_POST_ATTENTION_NORM = 1 << 1,
  PLIM_PRE_MLP_NORM = 1 << 2,
  PLIM_POST_MLP_NORM = 1 << 3,
};

typedef struct plim_decoder plim_decoder;

// What a family defines itself.
typedef struct {
  plim_checkpointed_fn *layer; // forward of a layer: the context is the plim_decoder_layer
  plim_tensor *(*norm)(plim_tape *t, plim_tensor *x, plim_tensor *weight); // its RMSNorm
  // The embedded tokens; NULL: plim_embed.
  plim_tensor *(*embed)(plim_tape *t, const plim_decoder *m, const plim_batch *batch);
  unsigned norms;       // of a layer
  bool has_embed_scale; // a buffer that embeddings are multiplied with
  bool divides_logits;  // by a number
} plim_decoder_code;

struct plim_decoder {
  plim_model model;
  plim_config c;
  const plim_decoder_code *code;
  plim_tensor *embed_tokens, *embed_scale, *norm;
  plim_rope_buffers rope;
  plim_decoder_layer *layers;
  plim_attention_kind attention; // of the batch that runs
};

// The model, built as its constructor does. `code` must outlive it. NULL when memory is out.
plim_model *plim_decoder_new(plim_tape *t, const plim_config *c, plim_dtype dtype,
                             const plim_decoder_code *code);

// ---- parts of a layer's forward ---------------------------------------------------------------------

// The tensors in a layer's `held`, in the order in which they are released: the mask, then the positions before
// or after the tuple (cos, sin), whose last item is released first.
enum { PLIM_HELD_MASK };
#define PLIM_HELD_POSITIONS(c) ((c)->family->passes_positions_first ? 1 : 3)
#define PLIM_HELD_SIN(c) ((c)->family->passes_positions_first ? 2 : 1)
#define PLIM_HELD_COS(c) (PLIM_HELD_SIN(c) + 1)

// self_attn: projections, rotary positions, attention, o_proj. Eager attention leaves its weights in a
// variable of the layer, *weights.
plim_tensor *plim_decoder_attention(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                                    plim_tensor *const *held, plim_tensor **weights);
// Only its last part: attention of three variables (B,H,T,D), which it releases, and o_proj.
plim_tensor *plim_decoder_attend(plim_tape *t, const plim_decoder_layer *l, plim_tensor **q,
                                 plim_tensor **k, plim_tensor **v, plim_tensor *const *held,
                                 plim_tensor **weights);
// down_proj(act(gate_proj(x)) * up_proj(x)), or what stands in place of it.
plim_tensor *plim_decoder_mlp(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x);

#endif
