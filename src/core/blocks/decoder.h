// Decoders with rotary positions and gated MLPs. Building, loading, adapters and the model's forward are the
// same for all; a family's file has the forward of one layer, made of the parts below.
#ifndef PLIM_CORE_DECODER_H
#define PLIM_CORE_DECODER_H

#include "experts.h"
#include "family.h"
#include "latent.h"
#include "modules.h"
#include "rope.h"
#include "towers.h"

// Members that a family does not have are NULL or zero.
typedef struct plim_decoder_layer {
  const struct plim_decoder *m;
  plim_linear q_proj, k_proj, v_proj, o_proj;
  plim_linear gate_proj, up_proj, down_proj;
  plim_linear qkv_proj, gate_up_proj;     // in place of those they are named after
  plim_latent latent;                     // in place of q, k and v
  plim_experts experts;                   // in place of gate, up and down
  void *mixer;                            // in place of attention or beside it; NULL: none
  bool is_idle;                           // attends to an image, which is never there
  plim_tensor *attention_gate, *mlp_gate; // of such a layer
  plim_tensor *q_norm, *k_norm, *sinks;
  plim_tensor *slopes[2], *constants[2]; // parameters and buffers of its activation
  plim_rope_buffers rope;                // of its own, before transformers 4.48
  plim_tensor *input_norm, *post_attention_norm, *pre_mlp_norm, *post_mlp_norm;
  plim_norm input_layer_norm, post_attention_layer_norm; // in place of those they are named after
} plim_decoder_layer;

// The norms of a layer, in the order they are built in. The family's forward decides where they are applied.
enum {
  PLIM_INPUT_NORM = 1 << 0,
  PLIM_POST_ATTENTION_NORM = 1 << 1,
  PLIM_PRE_MLP_NORM = 1 << 2,
  PLIM_POST_MLP_NORM = 1 << 3,
};

typedef struct plim_decoder plim_decoder;

enum { PLIM_MIXER_LINEARS = 8 }; // the most linear layers that a mixer has

// A module that stands in place of attention in some layers.
typedef struct {
  size_t bytes; // of the struct that holds its weights
  void (*build)(plim_tape *t, plim_model *m, const plim_config *c, void *mixer, plim_dtype dtype);
  // The temporaries of its _init_weights, of torch's default dtype.
  void (*initialise)(plim_tape *t, const void *mixer, plim_dtype dtype);
  bool is_initialised_on_host;                                        // when it is loaded
  void (*visit)(const void *mixer, plim_visit *visit, void *context); // in the order of their names
  // Its linear layers, in the order of its modules; returns how many.
  size_t (*linears)(void *mixer, plim_linear **out);
  // A buffer that the model makes and every mixer has a copy of, and its width; NULL: none.
  void (*set_scale)(plim_tape *t, void *mixer, plim_tensor *scale);
  int64_t (*scale_width)(const plim_config *c);
} plim_mixer;

// The paths of a layer's modules, where they are not the usual ones.
typedef struct {
  const char *o_proj, *gate_proj, *up_proj, *down_proj;
  const char *q_proj, *k_proj, *v_proj; // NULL: the usual ones
} plim_decoder_paths;

// The parts of a layer in the order in which they are built; zeros: mixing, feeding, norms.
typedef enum {
  PLIM_BUILDS_NOTHING,
  PLIM_BUILDS_MIXING,
  PLIM_BUILDS_FEEDING,
  PLIM_BUILDS_NORMS
} plim_layer_part;
enum { PLIM_LAYER_PARTS = 3 };

// What a family defines itself.
typedef struct {
  // Forward of a layer: the context is the plim_decoder_layer. One of those below, or the family's own.
  plim_checkpointed_fn *layer;
  plim_tensor *(*norm)(plim_tape *t, plim_tensor *x, plim_tensor *weight); // its RMSNorm
  // Its LayerNorm, in place of RMSNorm everywhere but in attention.
  plim_tensor *(*biased_norm)(plim_tape *t, const plim_norm *n, plim_tensor *x);
  // Its activation where that is a module with parameters, built behind the MLP's layers; NULL: that of config.json.
  void (*add_activation)(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype dtype);
  plim_tensor *(*activate)(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x);
  // The embedded tokens; NULL: those of the table, times embed_scale if there is one.
  plim_tensor *(*embed)(plim_tape *t, const plim_decoder *m, const plim_batch *batch);
  // Builds a layer that attends to an image (plim_config_crosses).
  void (*add_cross_layer)(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype dtype);
  const plim_mixer *mixer;         // if the family mixes tokens by other means than attention
  const plim_decoder_paths *paths; // NULL: the usual ones
  const char *place;               // where the layers are; NULL: "model.layers"
  const char *table;               // the name of the table of tokens; NULL: "embed_tokens"
  plim_softmax_kind softmax;       // of eager attention
  unsigned norms;                  // of a layer
  bool has_embed_scale;            // a buffer that embeddings are multiplied with
  bool scales_embedded;            // the model's forward multiplies the embedded tokens by a number
  bool scales_embedded_late;       // the same, after the masks are made
  bool divides_logits;             // by a number
  bool builds_norm_last;           // the last norm, after the rotary positions
  bool names_norms_first;          // both norms of a layer come before its MLP
  bool names_norm_first;           // the last norm's name comes before that of the layers
  bool has_plain_mlp;              // down_proj(act(up_proj(x))), without a gate
  bool has_head_bias;
  bool has_bare_norms; // biased_norm gets one without weight and bias
  bool drops_embedded; // dropout of the embedded tokens, after the masks are made
  bool keeps_embedded; // a variable holds them without dropout, too
  bool drops_inside;   // attention and MLP apply dropout to what they return
  bool projects_first; // queries, keys and values, before heads are told apart
  bool views_first;    // heads are told apart at once, and moved to the front after all products
  bool joins_at_once;  // the rotated parts of queries and keys with the rest, in one expression
  plim_layer_part order[PLIM_LAYER_PARTS];
  bool counts_from_zero; // positions are a range, to which no length of a cache is added
  bool names_head_last;  // its name comes after that of the layers
  bool decays_last_norm; // Trainer does not know it by its name
  bool has_shared_mlp;   // of the width of shared experts, in every layer, beside experts
  bool
      keeps_parts; // variables of attention hold the parts that are rotated, and the rest, to the end
  bool keeps_attended;      // a variable of attention holds what o_proj gets to the end
  bool passed_rotary_first; // to a layer, before the mask, before transformers 5.0
  // Before this release of transformers, a variable held the last layer's result to the end of the model's forward; 0:
  // 4.54.
  uint16_t kept_last_layer_until;
} plim_decoder_code;

struct plim_decoder {
  plim_model model;
  plim_config c;
  const plim_decoder_code *code;
  plim_towers towers; // in front of the language model and behind it, if it has any
  plim_tensor *embed_tokens, *embed_scale, *norm;
  plim_norm layer_norm;               // in place of norm
  plim_rope_buffers rope, local_rope; // local: of layers with a window, if they have their own
  plim_decoder_layer *layers;
  plim_attention_kind attention; // of the batch that runs
};

// The model, built as its constructor does. `code` must outlive it. NULL when memory is out.
plim_model *plim_decoder_new(plim_tape *t, const plim_config *c, plim_dtype dtype,
                             const plim_decoder_code *code);

// Parts of a layer's construction: gate, up and down, and one of its norms.
void plim_decoder_add_mlp(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype dtype);
plim_tensor *plim_decoder_norm_new(plim_tape *t, plim_decoder *m, unsigned which, plim_dtype dtype);

// ---- parts of a layer's forward ---------------------------------------------------------------------

// The tensors in a layer's `held`, in the order in which they are released: the mask, then the positions before
// or after the tuple (cos, sin), whose last item is released first.
enum { PLIM_HELD_MASK };
#define PLIM_HELD_POSITIONS(c) ((c)->passes_positions_first ? 1 : 3)
#define PLIM_HELD_SIN(c) ((c)->passes_positions_first ? 2 : 1)
#define PLIM_HELD_COS(c) (PLIM_HELD_SIN(c) + 1)
enum { PLIM_HELD_PADDING = 4 }; // of a mixer beside attention

// Whether each layer computes its rotary positions itself: some families before transformers 4.48.
bool plim_decoder_turns_in_layers(const plim_tape *t, const plim_config *c);

// self_attn: projections, rotary positions, attention, o_proj. Eager attention leaves its weights in a
// variable of the layer, *weights.
plim_tensor *plim_decoder_attention(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x,
                                    plim_tensor *const *held, plim_tensor **weights);
// Only its last part: attention of three variables (B,H,T,D), which it releases, and o_proj.
plim_tensor *plim_decoder_attend(plim_tape *t, const plim_decoder_layer *l, plim_tensor **q,
                                 plim_tensor **k, plim_tensor **v, plim_tensor *const *held,
                                 plim_tensor **weights);
// The same, without releasing the three.
plim_tensor *plim_decoder_attended(plim_tape *t, const plim_decoder_layer *l, plim_tensor **q,
                                   plim_tensor **k, plim_tensor **v, plim_tensor *const *held,
                                   plim_tensor **weights);
// query * (1 + beta * log(1 + floor(positions / length))).to(dtype)
void plim_decoder_scale_queries(plim_tape *t, plim_tensor *positions, plim_tensor **q);
// The norms before attention and before the MLP, of layers that have no others.
plim_tensor *plim_decoder_input_norm(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x);
plim_tensor *plim_decoder_mlp_norm(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x);
// down_proj(act(gate_proj(x)) * up_proj(x)), or what stands in place of it.
plim_tensor *plim_decoder_mlp(plim_tape *t, const plim_decoder_layer *l, plim_tensor *x);

// ---- forwards of a layer that families share ----------------------------------------------------------

// Norms before attention and MLP; dropout of what they add, if the family has it.
plim_checkpointed_fn plim_decoder_prenorm_layer;
// Norms behind both.
plim_checkpointed_fn plim_decoder_postnorm_layer;
// Norms before and behind both.
plim_checkpointed_fn plim_decoder_sandwich_layer;

#endif
