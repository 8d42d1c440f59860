// Towers of multimodal models, which turn images into embedded tokens. Only text is trained here: their parameters
// exist, are loaded and may have adapters, but they never run.
#ifndef PLIM_CORE_TOWERS_H
#define PLIM_CORE_TOWERS_H

#include "modules.h"

typedef struct {
  plim_linear linear;
  const char *place; // the module that has the layers: "model.vision_tower.encoder.layers"
  int64_t index;     // the layer; -1: there is no number
} plim_tower_linear;

// All towers of a model, in the order of construction.
typedef struct plim_towers {
  plim_model *model;
  vec(plim_tower_linear) linears; // freed with the model's arrays
  vec(plim_tensor *) buffers;     // that checkpoints have, freed in the same way
  size_t first_parameters; // of those in front of the language model: the first ones of the model
  size_t first_linears;
  size_t behind, end; // parameters of those behind the language model
} plim_towers;

// A linear layer of a tower; `shape` is (out, in).
void plim_tower_linear_new(plim_tape *t, plim_towers *w, const char *place, int64_t index,
                           const char *path, plim_dims shape, bool has_bias, plim_dtype dtype);
// A buffer of a tower that checkpoints have.
void plim_tower_buffer_new(plim_tape *t, plim_towers *w, plim_dims shape, plim_dtype dtype);
// Ends the construction of the towers in front of the language model, begins that of those behind it, ends that of all.
void plim_towers_pause(plim_towers *w);
void plim_towers_resume(plim_towers *w);
void plim_towers_end(plim_towers *w);

void plim_towers_visit(const plim_towers *w, bool behind, plim_visit *visit, void *context);
// Between plim_lora_begin and plim_lora_end: those in front of the language model, or those behind it.
void plim_towers_add_lora(plim_tape *t, plim_towers *w, bool behind, const plim_lora *lora);

// ---- towers that several models have ----------------------------------------------------------------

// A layer of an encoder: attention and an MLP of two linear layers, each with a LayerNorm.
typedef struct {
  const char *place;
  bool builds_norms_last; // each behind what it is applied before
  bool has_plain_keys;    // without a bias
  const char *up, *down;  // NULL: "mlp.fc1" and "mlp.fc2"
} plim_tower_layers;

void plim_tower_layer_new(plim_tape *t, plim_towers *w, const plim_tower_layers *kind,
                          const plim_tower_config *v, int64_t index, plim_dtype dtype);
// The convolution that turns patches into tokens.
void plim_tower_patches_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, bool has_bias,
                            plim_dtype dtype);
// A parameter of a module that has modules, too: model.parameters() lists it at `first`, before theirs. When the model
// is moved, it comes behind theirs, so call this where that is.
void plim_tower_own_parameter(plim_tape *t, plim_towers *w, size_t first, plim_dims shape,
                              plim_dtype dtype);
// A range of numbers, kept as a buffer, which is made again when weights are initialised.
void plim_tower_positions_new(plim_tape *t, int64_t positions);
void plim_tower_positions_init(plim_tape *t, int64_t positions);
int64_t plim_tower_side(const plim_tower_config *v); // patches along one side of an image

void plim_clip_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, plim_dtype dtype);
void plim_siglip_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, plim_dtype dtype);
void plim_pixtral_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, plim_dtype dtype);

#endif
